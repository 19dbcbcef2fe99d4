"""The counters, gauges and histograms of a statistics page by name (shm/statistics/counters.h).

Each process writes only its own page.
"""

from typing import Final, NamedTuple

from shm import native
from shm.contract.roles import Role
from shm.native import StatsPage

_WRITERS: Final = {
    "ROUTING": (Role.WORKER, Role.CORE),
    "ANY": (Role.WORKER, Role.CORE, Role.RECORDER),
    "WHEN_SET": (),
    **{role.name: (role,) for role in Role},
}


class Counter(NamedTuple):
    """A line of shm/statistics/counters.h; ``kind`` is ``counter``, which only grows, or ``gauge``."""

    place: int
    kind: str
    writers: tuple[Role, ...]
    text: str


COUNTERS: Final = {
    name: Counter(place, kind, _WRITERS[writers], text) for name, place, kind, writers, text in native.COUNTERS
}
HISTOGRAMS: Final = native.HISTOGRAMS
# Counters of presettled deliveries that were not sent, by reason: no destination; a slow receiver, at its worker; one
# that is far behind, in the core; one that has gone.
DROPPED_PRESETTLED: Final = ("dropped_presettled", "dropped_slow", "dropped_behind", "dropped_gone")
# Where a delivery begins, and where it is when it is over: the sums are equal when none is on its way
# (core/forwarder/settlement/counts.c).
RECEIVED: Final = ("ingress", "from_routers", "own_in")
ENDED: Final = ("accepted", "rejected", "released", "modified", "no_outcome", "presettled", "own_presettled")
COPIES: Final = ("egress", "transit", "own_out", "dropped_slow", "dropped_gone", "unsent", "in_doubt")


def own(page: StatsPage, pid: int, generation: int) -> None:
    """Take over the page of the previous process: its counters go on, its gauges restart at 0."""
    for counter in COUNTERS.values():
        if counter.kind == "gauge":
            page.set(counter.place, 0)
    page.own(pid, generation)


def read(page: StatsPage) -> dict[str, int]:
    """Return all counters and gauges of a page by name."""
    return {name: page.get(counter.place) for name, counter in COUNTERS.items()}

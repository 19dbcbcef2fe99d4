"""The numbers of a statistics page by name, as shm/counters.h lists them.

Every process writes its own page only.
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
    """A line of shm/counters.h: ``kind`` is ``counter`` (only grows) or ``gauge``."""

    place: int
    kind: str
    writers: tuple[Role, ...]
    text: str


COUNTERS: Final = {
    name: Counter(place, kind, _WRITERS[writers], text)
    for name, place, kind, writers, text in native.COUNTERS
}
HISTOGRAMS: Final = native.HISTOGRAMS


def own(page: StatsPage, pid: int, generation: int) -> None:
    """Take a page over from the process that had its place before: counters go on, gauges begin at 0."""
    for counter in COUNTERS.values():
        if counter.kind == "gauge":
            page.set(counter.place, 0)
    page.own(pid, generation)


def read(page: StatsPage) -> dict[str, int]:
    """All counters and gauges of a page by name."""
    return {name: page.get(counter.place) for name, counter in COUNTERS.items()}

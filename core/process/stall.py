"""Counts stuck links (core/forwarder/inspection/stall.c) and copies the forwarder's totals to the statistics page."""

from typing import Final

from core.forwarder.forward import Forwarder
from shm.statistics.stats import COUNTERS

STUCK: Final = COUNTERS["deliveries_stuck"].place
# Keys: the forwarder's totals, which start at zero with each core. Values: counters of the page, which last.
COUNTED: Final = {
    name: COUNTERS[counter].place
    for name, counter in {
        "redirected": "redirected",
        "to_routers": "transit",
        "from_containers": "from_containers",
        "to_containers": "to_containers",
    }.items()
}
PERIOD_NS: Final = 1_000_000_000
STEP_NS: Final = 1_000_000  # between the steps of a pass over very many links


class Stalls:
    """Runs the search for stuck links in steps between two turns of the forwarder."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self._due = 0
        self._counted = dict.fromkeys(COUNTED, 0)

    def step(self, now: int) -> int:
        """Do one step of what is due at `now`, in nanoseconds.

        Return the nanoseconds until the next step is due.
        """
        if now < self._due:
            return self._due - now
        if not self._forwarder.look():
            return STEP_NS
        counts = self._forwarder.counts()
        self._forwarder.gauge(STUCK, counts["stuck"])
        for name, counter in COUNTED.items():
            self._forwarder.count(counter, counts[name] - self._counted[name])
            self._counted[name] = counts[name]
        self._due = now + PERIOD_NS
        return PERIOD_NS

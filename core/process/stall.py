"""Looking for links that get nowhere (stall.c), now and then, between two turns of the forwarder; and telling
on the statistics page what the forwarder counts in its own tables."""

from typing import Final

from core.forwarder.forward import Forwarder
from shm.stats import COUNTERS

STUCK: Final = COUNTERS["deliveries_stuck"].place
# Counters of the page, which outlive this core, by what its own begin anew are called.
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
STEP_NS: Final = 1_000_000  # between the steps of a look at a great many links


class Stalls:
    """Time is an argument, nanoseconds."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self._due = 0
        self._told = dict.fromkeys(COUNTED, 0)

    def step(self, now: int) -> int:
        """Do a little of what is due. Nanoseconds until there is more to do."""
        if now < self._due:
            return self._due - now
        if not self._forwarder.look():
            return STEP_NS
        counts = self._forwarder.counts()
        self._forwarder.gauge(STUCK, counts["stuck"])
        for name, counter in COUNTED.items():
            self._forwarder.count(counter, counts[name] - self._told[name])
            self._told[name] = counts[name]
        self._due = now + PERIOD_NS
        return PERIOD_NS

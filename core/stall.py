"""Looking for links that get nowhere (stall.h), now and then, between two turns of the forwarder."""

from typing import Final

from core.forward import Forwarder
from shm.stats import COUNTERS

STUCK: Final = COUNTERS["deliveries_stuck"][0]
PERIOD_NS: Final = 1_000_000_000
STEP_NS: Final = 1_000_000  # between the steps of a look at a great many links


class Stalls:
    """Time is an argument, nanoseconds."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self._due = 0

    def step(self, now: int) -> int:
        """Do a little of what is due. Nanoseconds until there is more to do."""
        if now < self._due:
            return self._due - now
        if not self._forwarder.look():
            return STEP_NS
        self._forwarder.gauge(STUCK, self._forwarder.counts()["stuck"])
        self._due = now + PERIOD_NS
        return PERIOD_NS

"""Counts stuck links (core/forwarder/inspection/stall.c)."""

from typing import Final

from core.forwarder.forward import Forwarder
from shm.statistics.stats import COUNTERS

STUCK: Final = COUNTERS["deliveries_stuck"].place
PERIOD_NS: Final = 1_000_000_000
STEP_NS: Final = 1_000_000  # between the steps of a pass over very many links


class Stalls:
    """Runs the search for stuck links in steps between two turns of the forwarder."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self._due = 0

    def step(self, now: int) -> int:
        """Do one step of what is due at `now`, in nanoseconds.

        Return the nanoseconds until the next step is due.
        """
        if now < self._due:
            return self._due - now
        if not self._forwarder.look():
            return STEP_NS
        self._forwarder.gauge(STUCK, self._forwarder.counts()["waiting"])
        self._due = now + PERIOD_NS
        return PERIOD_NS

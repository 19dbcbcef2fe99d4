"""Counts stuck links (core/forwarder/inspection/stall.c), and logs what they keep from other routers."""

import logging
from typing import Final

from core.forwarder.forward import Forwarder
from shm.contract.complaints import Complaints
from shm.contract.numbers import counted
from shm.statistics.stats import COUNTERS

LOGGER = logging.getLogger("ROUTER_CORE")

STUCK: Final = COUNTERS["deliveries_stuck"].place
PERIOD_NS: Final = 1_000_000_000
STEP_NS: Final = 1_000_000  # between the steps of a pass over very many links


class Stalls:
    """Runs the search for stuck links in steps between two turns of the forwarder."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._forwarder = forwarder
        self._due = 0
        self._unaddressed = forwarder.counts()["unaddressed"]
        self._complaints = Complaints()

    def step(self, now: int) -> int:
        """Do one step of what is due at `now`, in nanoseconds.

        Return the nanoseconds until the next step is due.
        """
        if now < self._due:
            return self._due - now
        if not self._forwarder.look():
            return STEP_NS
        counts = self._forwarder.counts()
        self._forwarder.gauge(STUCK, counts["waiting"])
        self._tell(now, counts["unaddressed"])
        self._due = now + PERIOD_NS
        return PERIOD_NS

    def _tell(self, now: int, unaddressed: int) -> None:
        if unaddressed == self._unaddressed or self._complaints.due(now / 1e9, None) is None:
            return
        LOGGER.warning(
            "%s for other routers not made: messages to too many addresses wait for an outcome from there; "
            "`routerd stat --links --stuck` shows who holds them",
            counted(unaddressed - self._unaddressed, "copy was", "copies were"),
        )
        self._unaddressed = unaddressed

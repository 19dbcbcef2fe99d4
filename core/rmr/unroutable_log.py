"""Why messages to route tables are released, for the log: AMQP has no place for a reason in that outcome."""

import logging
from collections.abc import Iterable
from typing import Final

from core.process.plane import Plane
from core.rmr.route_tables import Plan

LOGGER = logging.getLogger("ROUTER_CORE")

LOOK_NS: Final = 1_000_000_000
PERIOD_NS: Final = 60_000_000_000
REASONS: Final = (
    "no entry is for them",
    "nobody is at any endpoint of their entry",
    "nobody owns their managed entity",
)


class UnroutableLog(Plane):
    """Says it once for each table and reason in a minute, with the key of the last one."""

    def __init__(self, plans: Iterable[Plan]) -> None:
        self._plans = plans
        self._looked = 0
        self._said: dict[tuple[str, int], tuple[int, int]] = {}  # how many there were, and when

    def step(self, now: int) -> None:
        """Look, if it is time to."""
        if now - self._looked < LOOK_NS:
            return
        self._looked = now
        names = {plan.setup.name for plan in self._plans}
        self._said = {key: said for key, said in self._said.items() if key[0] in names}
        for plan in self._plans:
            for reason, (count, *key) in enumerate(plan.native.nowhere()):
                self._tell(plan.setup.name, reason, count, key, now)

    def _tell(self, table: str, reason: int, count: int, key: list[int], now: int) -> None:
        before, then = self._said.get((table, reason), (0, -PERIOD_NS))
        if count < before:  # another table of that name
            before = 0
        if count == before or now - then < PERIOD_NS:
            return
        self._said[table, reason] = count, now
        last = "message type {}, subscription {}".format(*key)
        text = "Route table %s: %d of its messages went nowhere: %s; the last one had %s"
        LOGGER.info(text, table, count - before, REASONS[reason], last)

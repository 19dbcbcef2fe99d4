"""Logs why messages to route tables are released, because AMQP's outcome released carries no reason."""

import logging
from collections.abc import Iterable
from typing import Final

from core.links.plane import Plane
from core.rmr.active.route_tables import ActiveTable

LOGGER = logging.getLogger("ROUTER_CORE")

POLL_NS: Final = 1_000_000_000
PERIOD_NS: Final = 60_000_000_000
REASONS: Final = (
    "no entry applies to them",
    "no endpoint of their entry has a receiver",
    "their managed entity has no owner",
)


class UnroutableLog(Plane):
    """Logs each table and reason once a minute, with the key of the last message."""

    def __init__(self, tables: Iterable[ActiveTable]) -> None:
        self._tables = tables
        self._polled = 0
        self._said: dict[tuple[str, int], tuple[int, int]] = {}  # count and time of the last line

    def step(self, now: int) -> None:
        """Check the counts once a second. ``now`` is in nanoseconds."""
        if now - self._polled < POLL_NS:
            return
        self._polled = now
        names = {active.setup.name for active in self._tables}
        self._said = {key: said for key, said in self._said.items() if key[0] in names}
        for active in self._tables:
            for reason, (count, *key) in enumerate(active.native.unroutable()):
                self._tell(active.setup.name, reason, count, key, now)

    def _tell(self, table: str, reason: int, count: int, key: list[int], now: int) -> None:
        before, then = self._said.get((table, reason), (0, -PERIOD_NS))
        if count < before:  # of a former table of that name
            before = 0
        if count == before or now - then < PERIOD_NS:
            return
        self._said[table, reason] = count, now
        last = "message type {}, subscription {}".format(*key)
        text = "Route table %s: %d of its messages were released: %s; the last one had %s"
        LOGGER.info(text, table, count - before, REASONS[reason], last)

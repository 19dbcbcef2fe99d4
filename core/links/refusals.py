"""Links refused for what they request, not by policy: each is counted by reason and logged with its peer.

A refusal makes one line at level info, which names the client that caused it; a flood of them is limited to
so many lines.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from core.forwarder.forward import Forwarder
from shm.contract.complaints import bursts
from shm.contract.payloads import Attach, Error
from shm.statistics.stats import COUNTERS

LOGGER = logging.getLogger("ROUTER_CORE")

# By the condition that the peer sees. All other conditions count as OTHERWISE.
REASONS: Final = {
    "amqp:not-found": "refused_unavailable",
    "qd:no-route-to-dest": "refused_unavailable",
    "qd:connection-role": "refused_roles",
    "qd:forbidden": "refused_roles",
    "amqp:resource-limit-exceeded": "refused_limits",
}
OTHERWISE: Final = "refused_termini"
BEYOND: Final = "refused_beyond"


class Refusals:
    """Counts and logs refusals. ``host`` returns the peer of a worker's connection, by its index."""

    def __init__(self, forwarder: Forwarder, host: Callable[[int, int], str]) -> None:
        self._forwarder = forwarder
        self._lines = bursts()
        self._host = host

    def tell(self, worker: int, attach: Attach, error: Error, beyond: bool = False) -> None:
        """Count and log a link that this router refuses, or that was sent on and then refused or lost ``beyond``."""
        counter = BEYOND if beyond else REASONS.get(error.condition, OTHERWISE)
        self._forwarder.count(COUNTERS[counter].place)
        peer = self._host(worker, attach.connection)
        what = "refused beyond this router" if beyond else "refused"
        now, text = time.monotonic(), "link %r of %s %s: %s: %s"
        self._lines.tell(now, LOGGER, logging.INFO, text, attach.name, peer, what, error.condition, error.description)

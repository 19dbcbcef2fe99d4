"""Links that are refused for what they ask, not by the policy: counted by reason, told with their peer.

What is refused again and again for the same reason makes a line each time, at level info: it is the client's
attach that makes it, and a client can be told by its address.
"""

import logging
from collections.abc import Callable
from typing import Final

from core.forwarder.forward import Forwarder
from shm.contract.payloads import Attach, ConnectionOpened, Error
from shm.stats import COUNTERS

LOGGER = logging.getLogger("ROUTER_CORE")

# By the condition that the peer is told. All others ask for what no router serves in that way.
REASONS: Final = {
    "amqp:not-found": "refused_unavailable",
    "qd:no-route-to-dest": "refused_unavailable",
    "qd:connection-role": "refused_roles",
    "qd:forbidden": "refused_roles",
    "amqp:resource-limit-exceeded": "refused_limits",
}
OTHERWISE: Final = "refused_termini"
BEYOND: Final = "refused_beyond"

Find = Callable[[int, int], ConnectionOpened | None]


class Refusals:
    """Counts and tells. ``find``: the connection of a worker and index."""

    def __init__(self, forwarder: Forwarder, find: Find) -> None:
        self._forwarder = forwarder
        self.find = find

    def tell(self, worker: int, attach: Attach, error: Error) -> None:
        """A link that is refused here."""
        self._told(worker, attach, error, REASONS.get(error.condition, OTHERWISE))

    def tell_beyond(self, worker: int, attach: Attach, error: Error) -> None:
        """A link that was sent on, and that the far end has refused, or lost."""
        self._told(worker, attach, error, BEYOND)

    def _told(self, worker: int, attach: Attach, error: Error, counter: str) -> None:
        self._forwarder.count(COUNTERS[counter].place)
        opened = self.find(worker, attach.connection)
        peer = f"worker {worker} connection {attach.connection}" if opened is None else opened.host
        what = "refused beyond this router" if counter == BEYOND else "refused"
        LOGGER.info("link %r of %s %s: %s: %s", attach.name, peer, what, error.condition, error.description)

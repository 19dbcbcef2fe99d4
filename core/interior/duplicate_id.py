"""Two routers with one id: detected, logged as critical and kept from harming others.

A restarted router has a new instance as well, and messages of its earlier run may still arrive. An earlier
instance is therefore ignored while the later one is new. If it appears after that, the id is a duplicate.
"""

import logging
from collections.abc import Callable
from typing import Final

from core.interior.hello import Hello
from core.interior.neighbours import Neighbour, Neighbours
from core.interior.nodes import Node
from shm.contract.complaints import Complaints

HELLO_LOG = logging.getLogger("ROUTER_HELLO")
LS_LOG = logging.getLogger("ROUTER_LS")

# seconds in which messages of an earlier run may still arrive
STALE: Final = 3.0
DUPLICATE_IDS: Final = "is the id of two routers: give one of them another id"
# Random bits of an instance, which tell apart two routers that start in the same second.
DRAWN: Final = 20


def instance(now: float, generation: int, draw: Callable[[int], int]) -> int:
    """Return the number that identifies this run of the router among earlier runs and duplicate ids.

    ``now`` is in seconds since 1970; ``generation`` is the core's within this run of the supervisor. A later
    run has a larger number, even a core that restarts within the second. Other routers only rely on a 64-bit
    integer that grows with each run; this one has 51 bits.
    """
    return (int(now) + generation << DRAWN) | draw(DRAWN)


class DuplicateIds:
    """Decides which of two routers with one id to believe."""

    def __init__(self, me: str, instance: int, complaints: Complaints) -> None:
        self._me = me
        self._instance = instance
        self._complaints = complaints

    def of_this(self, log: logging.Logger, instance: int, now: float, where: str) -> None:
        """Handle a message with this router's own id, which may be its own message."""
        if instance != self._instance:
            self._tell(now, log, self._me, f" (this one and {where})")

    def of_neighbour(self, neighbours: Neighbours, one: Neighbour, message: Hello, now: float) -> bool:
        """Whether a greeting is to be ignored because a younger router with the same id is known.

        Two connections may lead to one router, but not to two routers with one id.
        """
        for other in neighbours:
            same = other is not one and other.router == message.router
            if same and other.up and other.instance > message.instance:
                where = f" (connections {one.number} and {other.number})"
                self._tell(now, HELLO_LOG, message.router, where)
                return True
        return False

    def disbelieved(self, node: Node, instance: int, now: float) -> bool:
        """Whether a message from a distant router is not from the router known by this id."""
        if node.instance is None or node.instance == instance:
            return False
        earlier = instance < node.instance
        if earlier and now - node.born < STALE:
            return True
        direct = earlier and node.link is not None
        if direct or instance == node.former_instance:
            self._tell(now, LS_LOG, node.router)
        return direct

    def _tell(self, now: float, log: logging.Logger, router: str, where: str = "") -> None:
        self._complaints.tell(now, log, logging.CRITICAL, f"%s {DUPLICATE_IDS}%s", router, where, key=router)

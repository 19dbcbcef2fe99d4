"""Two routers of one name: noticed, said as critical, and kept from harming others.

A router that restarted has another instance, too, and for a moment messages of its earlier life are still
on their way. So an earlier instance counts for nothing while the later one is new; coming back after that,
it is a twin.
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

# How long messages of an earlier life may still arrive.
STALE: Final = 3.0
DUPLICATE_IDS: Final = "is the name of two routers: give one of them another id"
# Bits of an instance that are drawn: two routers that start in the same second differ in them.
DRAWN: Final = 20


def instance(now: float, generation: int, draw: Callable[[int], int]) -> int:
    """The number that tells this life of a router from all others, its own earlier ones and its twins'.

    ``now`` is in seconds since 1970, ``generation`` the core's within this life of the supervisor. A later
    life has the larger number, also a core that is started again within the second. Other routers read a
    64-bit integer of which they only know that it grows with each life; this one has 51 bits.
    """
    return (int(now) + generation << DRAWN) | draw(DRAWN)


class DuplicateIds:
    """Whom to believe."""

    def __init__(self, me: str, instance: int, complaints: Complaints) -> None:
        self._me = me
        self._instance = instance
        self._complaints = complaints

    def of_this(self, log: logging.Logger, instance: int, now: float, where: str) -> None:
        """Our own name came to us, perhaps only in a message of our own."""
        if instance != self._instance:
            self._tell(now, log, self._me, f" (this one and {where})")

    def of_neighbour(self, neighbours: Neighbours, one: Neighbour, message: Hello, now: float) -> bool:
        """Two connections may lead to one router, but not to two of one name: the younger is believed.

        True: this greeting is from the other one.
        """
        for other in neighbours:
            same = other is not one and other.router == message.router
            if same and other.up and other.instance > message.instance:
                where = f" (connections {one.number} and {other.number})"
                self._tell(now, HELLO_LOG, message.router, where)
                return True
        return False

    def disbelieved(self, node: Node, instance: int, now: float) -> bool:
        """Whether a message that came from far is not from the router we know by this name."""
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

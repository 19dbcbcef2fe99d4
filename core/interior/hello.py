"""HELLO: which router is at the other end of each control link, and whether it hears this one.

A router greets every neighbour at each interval with the ids of those it has heard lately. A neighbour is up
only while its greetings contain this router's id.
"""

from typing import Final, Self

import msgspec

from core.interior.linkstate import LARGEST_COST
from core.interior.message import AREA, HELLO_ADDRESS, BadMessageError, Fields, encode, is_router

OPCODE: Final = "HELLO"
VERSION: Final = 1
MOST_SEEN: Final = 1024


class Hello(msgspec.Struct, frozen=True):
    """A greeting."""

    router: str
    instance: int
    seen: frozenset[str]
    version: int = VERSION
    cost: int = 0  # configured cost of the connection at the sender's end; 0: not given

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Decode a body. Raises BadMessageError."""
        seen = fields.sequence("seen", MOST_SEEN)
        cost = fields.number("cost", 0)
        if cost > LARGEST_COST:
            raise BadMessageError("its cost is too large")
        return cls(
            fields.router(),
            fields.number("instance", 0),
            frozenset(router for router in seen if is_router(router)),
            fields.number("pv", 0),
            cost,
        )


def greeting(me: str, instance: int, seen: list[str], cost: int = 0) -> bytes:
    """Encode a greeting. ``cost`` is sent only to routerds; 0 omits it."""
    fields: dict[str, object] = {"id": me, "pv": VERSION, "area": AREA, "instance": instance, "seen": seen}
    return encode(HELLO_ADDRESS, OPCODE, fields | ({"cost": cost} if cost else {}))


class Greeter:
    """Knows which routers were heard lately, and when the next greeting is due. Times are in seconds."""

    def __init__(self, me: str, instance: int, interval: float, max_age: float) -> None:
        self._me = me
        self._instance = instance
        self._interval = interval
        self._max_age = max_age
        self._heard: dict[str, float] = {}
        self._seen: list[str] = []
        self._said: dict[int, bytes] = {}  # by cost, while the same routers are heard
        self._due = float("-inf")

    def heard(self, router: str, now: float) -> None:
        """Record a greeting of a router."""
        self._heard[router] = now

    def forget(self, router: str) -> None:
        """Forget a router whose control link is gone. The next greeting reports that it is not heard."""
        self._heard.pop(router, None)

    def message(self, cost: int) -> bytes:
        """Return the greeting for a connection of this cost; 0 omits the cost."""
        seen = sorted(self._heard)
        if self._seen != seen:
            self._seen, self._said = seen, {}
        if cost not in self._said:
            self._said[cost] = greeting(self._me, self._instance, seen, cost)
        return self._said[cost]

    def expire(self, now: float) -> None:
        """Forget routers that have been silent for too long."""
        for router in [router for router, at in self._heard.items() if now - at > self._max_age]:
            del self._heard[router]

    def due(self, now: float) -> bool:
        """Whether to greet now. Call it once per tick."""
        if now < self._due:
            return False
        # Ticks come early or late, so the next time follows from the last due time unless that is long ago.
        self._due = max(self._due + self._interval, now + self._interval / 2)
        return True

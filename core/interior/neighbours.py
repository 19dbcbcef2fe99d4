"""The connections to other routers, and the router at the end of each.

::

    UNKNOWN ──HELLO──▶ HEARD ──HELLO with our id──▶ UP ──silent for helloMaxAge──▶ HEARD
    any ──connection or control link lost──▶ gone

Prohibited: a connection never changes the router at its end. A router that gets another id reconnects.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

SKUPPER, OURS = "skupper", "routerd"
_NEVER: Final = float("-inf")


class Neighbour(msgspec.Struct, eq=False):
    """One connection to a router."""

    number: int
    own_cost: int
    dialect: str
    reported_cost: int = 0  # the latest from the peer; 0: none
    namesake: bool = False  # whether it has the id of this router or of another neighbour
    router: str = ""
    instance: int = 0
    confirmed: float = _NEVER
    since: float = _NEVER  # when it came up

    @property
    def name(self) -> str:
        """Its name in the log."""
        return f"router {self.router}" if self.router else f"the router on connection {self.number}"

    @property
    def cost(self) -> int:
        """The cost of the link to it: the larger of both ends', so that both use the same."""
        return max(self.own_cost, self.reported_cost)

    @property
    def skupper(self) -> bool:
        """Whether it speaks skupper-router's dialect."""
        return self.dialect == SKUPPER

    @property
    def is_routerd(self) -> bool:
        """Whether it is a routerd."""
        return self.dialect == OURS

    @property
    def up(self) -> bool:
        return self.confirmed != _NEVER

    @property
    def was_up(self) -> bool:
        """Whether it is up, or was."""
        return self.since != _NEVER

    def silent(self) -> None:
        """Mark it as down: its greetings have not contained this router's id for too long."""
        self.confirmed = _NEVER


class Neighbours:
    """All neighbours, by the number of their connection."""

    def __init__(self) -> None:
        self._by_number: dict[int, Neighbour] = {}

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(self._by_number.values())

    def __len__(self) -> int:
        return len(self._by_number)

    def get(self, number: int) -> Neighbour | None:
        return self._by_number.get(number)

    def add(self, neighbour: Neighbour) -> None:
        self._by_number[neighbour.number] = neighbour

    def pop(self, number: int) -> Neighbour | None:
        return self._by_number.pop(number, None)

    def best(self, router: str) -> Neighbour | None:
        """Return the connection to use to a router: the cheapest, and among those the oldest."""
        live = [neighbour for neighbour in self if neighbour.router == router and neighbour.up]
        return min(live, key=lambda neighbour: (neighbour.cost, neighbour.number), default=None)

    def expire(self, oldest: float) -> list[Neighbour]:
        """Mark neighbours last confirmed before ``oldest`` as down and return them."""
        lost = [neighbour for neighbour in self if neighbour.up and neighbour.confirmed < oldest]
        for neighbour in lost:
            neighbour.silent()
        return lost

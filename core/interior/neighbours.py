"""The connections to other routers, and who is at the end of each.

::

    UNKNOWN ──HELLO──▶ HEARD ──HELLO that has seen us──▶ UP ──silent for helloMaxAge──▶ HEARD
    any ──connection or control link lost──▶ gone

Prohibited: a connection never changes the router at its end (a router that wants another name reconnects).
"""

from collections.abc import Iterator
from typing import Final

SKUPPER, OURS = "skupper", "routerd"
_NEVER: Final = float("-inf")


class Neighbour:
    """One connection to a router."""

    __slots__ = ("confirmed", "dialect", "instance", "number", "own_cost", "router", "since", "told_cost")

    def __init__(self, number: int, own_cost: int, dialect: str, told_cost: int = 0) -> None:
        self.number = number
        self.own_cost = own_cost
        self.told_cost = told_cost  # by the peer, at last; 0: never
        self.dialect = dialect
        self.router = ""
        self.instance = 0
        self.confirmed = _NEVER
        self.since = _NEVER  # it is up

    @property
    def name(self) -> str:
        """How the log calls it."""
        return f"router {self.router}" if self.router else f"the router on connection {self.number}"

    @property
    def cost(self) -> int:
        """Of the way to it: the larger one of both ends, so that both use the same."""
        return max(self.own_cost, self.told_cost)

    @property
    def skupper(self) -> bool:
        """On which side of the border between the dialects of mobile addresses it is."""
        return self.dialect == SKUPPER

    @property
    def ours(self) -> bool:
        """It is a routerd, too."""
        return self.dialect == OURS

    @property
    def up(self) -> bool:
        return self.confirmed != _NEVER

    def silent(self) -> None:
        """It has not said for too long that it hears us."""
        self.confirmed = _NEVER


class Neighbours:
    """All of them, by the number of their connection."""

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
        """The connection to use of those to one router: the cheapest, then the one that came first."""
        live = [neighbour for neighbour in self if neighbour.router == router and neighbour.up]
        return min(live, key=lambda neighbour: (neighbour.cost, neighbour.number), default=None)

    def expire(self, oldest: float) -> list[Neighbour]:
        """Those that were up and were last heard before some time; they are not up any more."""
        lost = [neighbour for neighbour in self if neighbour.up and neighbour.confirmed < oldest]
        for neighbour in lost:
            neighbour.silent()
        return lost

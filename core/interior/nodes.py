"""The other known routers of the network, each with a bit in the forwarder's masks."""

from collections.abc import Iterator
from typing import Final

import msgspec

from core.interior.neighbours import Neighbour
from core.interior.port import Port

# masks have 128 bits, and bit 0 is this router
MOST_ROUTERS: Final = 127
UNREACHABLE: Final = -1
_NEVER: Final = float("-inf")


class Node(msgspec.Struct, eq=False):
    """A router: its own statements, and the path to it. Times are in seconds."""

    router: str
    bit: int
    seen: float
    instance: int | None = None
    former_instance: int | None = None
    version: int | None = None
    born: float = _NEVER  # when its restart became known
    heard: bool = False
    link: Neighbour | None = None
    ls_seq: int = 0
    peers: dict[str, int] = {}
    asked: float = _NEVER
    ls_asked: int = 0
    next_hop: str = ""
    cost: int = 0
    origins: frozenset[str] = frozenset()
    unreachable_since: float | None = None
    unreferenced_since: float | None = None

    @property
    def reachable(self) -> bool:
        return bool(self.next_hop)

    def forget_state(self) -> None:
        """Forget a link state that is too old or of an earlier run."""
        self.ls_seq = 0
        self.ls_asked = 0
        self.asked = _NEVER
        self.peers = {}


class Nodes:
    """All other known routers, by id."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._by_name: dict[str, Node] = {}
        self._free = list(range(MOST_ROUTERS, 0, -1))

    def __iter__(self) -> Iterator[Node]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, router: str) -> Node | None:
        return self._by_name.get(router)

    def add(self, router: str, now: float) -> Node | None:
        """Add a router. Return None if there are too many, those included whose destinations are still going."""
        bit = next((bit for bit in reversed(self._free) if self._port.clear(bit)), None)
        if bit is None:
            return None
        self._free.remove(bit)
        node = self._by_name[router] = Node(router, bit, now)
        self._port.add_router(bit, router)
        return node

    def remove(self, node: Node) -> None:
        """Remove a router. The lowest free bit is reused first, but none with destinations that are still going."""
        del self._by_name[node.router]
        self._port.remove_router(node.bit)
        self._free.append(node.bit)
        self._free.sort(reverse=True)

    def hearsay(self) -> Node | None:
        """Return a router that only others have mentioned, or None. It gives way to one heard directly."""
        return next((node for node in self if not node.heard and node.link is None), None)

    def names(self) -> set[str]:
        return set(self._by_name)

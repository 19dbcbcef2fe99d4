"""The other routers of the network that are known, each with a bit in the forwarder's masks."""

from collections.abc import Iterator
from typing import Final

import msgspec

from core.interior.neighbours import Neighbour
from core.interior.port import Port

# Masks have 128 bits, and bit 0 is this router.
MOST_ROUTERS: Final = 127
UNREACHABLE: Final = -1
_NEVER: Final = float("-inf")


class Node:
    """A router: what it says about itself, and how to reach it."""

    __slots__ = (
        "asked", "bit", "born", "cost", "former_instance", "heard", "instance", "link", "ls_asked", "ls_seq",
        "next_hop", "origins", "peers", "router", "seen", "unreachable_since", "unreferenced_since",
        "version",
    )  # fmt: skip

    def __init__(self, router: str, bit: int, now: float) -> None:
        self.router = router
        self.bit = bit
        self.instance: int | None = None
        self.former_instance: int | None = None
        self.version: int | None = None
        # When it was known that it had restarted.
        self.born = _NEVER
        self.heard = False
        self.link: Neighbour | None = None
        self.ls_seq = 0
        self.peers: dict[str, int] = {}
        self.seen = now
        self.asked = _NEVER
        self.ls_asked = 0
        self.next_hop = ""
        self.cost = 0
        self.origins: frozenset[str] = frozenset()
        self.unreachable_since: float | None = None
        self.unreferenced_since: float | None = None

    @property
    def reachable(self) -> bool:
        return bool(self.next_hop)

    def forget_state(self) -> None:
        """Its link state is too old, or an earlier life's."""
        self.ls_seq = 0
        self.ls_asked = 0
        self.asked = _NEVER
        self.peers = {}


class NodeView(msgspec.Struct, frozen=True):
    """A router as management shows it; the names are those of router.node's attributes."""

    id: str
    index: int
    protocol_version: int | None
    instance: int | None
    link_state: list[str]
    next_hop: str | None
    valid_origins: list[str]
    address: str
    router_link: int | None
    cost: int | None
    last_topo_change: int | None = None


class Nodes:
    """All of them, by name."""

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
        """A router that is new; None: there are too many."""
        if not self._free:
            return None
        bit = self._free.pop()
        node = self._by_name[router] = Node(router, bit, now)
        self._port.add_router(bit, router)
        return node

    def remove(self, node: Node) -> None:
        """Its bit becomes the next one to be used again, as the lowest ones are."""
        del self._by_name[node.router]
        self._port.remove_router(node.bit)
        self._free.append(node.bit)
        self._free.sort(reverse=True)

    def hearsay(self) -> Node | None:
        """One of those that only others have spoken of: it must give way to one that speaks for itself."""
        return next((node for node in self if not node.heard and node.link is None), None)

    def names(self) -> set[str]:
        return set(self._by_name)

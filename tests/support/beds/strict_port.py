"""A forwarder's tables that insist on their rules, for the router protocol."""

from core.interior.message import decode


class Port:
    """A forwarder that insists on its rules."""

    def __init__(self) -> None:
        self.routers: dict[int, str] = {}
        self.links: dict[int, int] = {}
        self.paths: dict[int, tuple[int, int, frozenset[int]]] = {}
        self.addresses: dict[tuple[str, int], int] = {}
        self.sent = 0

    def send(self, to: str, content: bytes, neighbour: int | None) -> None:
        assert decode(content).to == to
        self.sent += 1

    def add_router(self, bit: int, router_id: str) -> None:
        assert bit in range(1, 128)
        assert bit not in self.routers
        assert len(router_id.encode()) <= 127
        assert router_id not in self.routers.values()
        self.routers[bit] = router_id

    def remove_router(self, bit: int) -> None:
        del self.routers[bit]
        self.paths.pop(bit, None)
        assert bit not in self.links
        assert all(other != bit for _, other in self.addresses)

    def clear(self, bit: int) -> bool:
        return True

    def set_link(self, bit: int, neighbour: int) -> None:
        assert bit in self.routers
        self.links[bit] = neighbour

    def remove_link(self, bit: int) -> None:
        del self.links[bit]

    def set_path(self, bit: int, next_hop: int, cost: int, valid_origins: frozenset[int]) -> None:
        assert bit in self.routers
        assert next_hop == -1 or next_hop in self.links
        assert cost >= 0
        assert valid_origins <= set(self.routers)
        self.paths[bit] = (next_hop, cost, valid_origins)

    def set_radius(self, radius: int) -> None:
        assert radius in range(128)

    def map_destination(self, key: str, bit: int, treatment: int) -> None:
        assert bit in self.routers
        assert treatment in range(-1, 6)
        self.addresses[key, bit] = treatment

    def unmap_destination(self, key: str, bit: int) -> None:
        del self.addresses[key, bit]

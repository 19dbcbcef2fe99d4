"""The interface of the router protocol to the forwarder."""

from typing import Protocol


class Port(Protocol):
    """The forwarder's side. A bit is a router's number, 1 to 127; a neighbour is its connection's number."""

    def send(self, to: str, content: bytes, neighbour: int | None) -> None:
        """Send a message over the control link of a neighbour, or if None by its address `to`."""

    def add_router(self, bit: int, router_id: str) -> None: ...
    def remove_router(self, bit: int) -> None:
        """Remove a router of which all destinations have been unmapped."""

    def clear(self, bit: int) -> bool:
        """Whether all destinations of the former router of a bit are gone, which takes turns."""

    def set_link(self, bit: int, neighbour: int) -> None: ...
    def remove_link(self, bit: int) -> None: ...

    def set_path(self, bit: int, next_hop: int, cost: int, valid_origins: frozenset[int]) -> None:
        """Set the path to a router: the bit of the next hop, or -1 for none."""

    def set_radius(self, radius: int) -> None: ...

    def map_destination(self, key: str, bit: int, treatment: int) -> None:
        """Record that a router has receivers of an address.

        Treatments are those of `dispatch`; -1: unknown.
        """

    def unmap_destination(self, key: str, bit: int) -> None: ...

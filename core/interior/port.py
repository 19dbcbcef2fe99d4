"""The interface of the router protocol to the forwarder, and its settings."""

from typing import Protocol

import msgspec


class NetworkSettings(msgspec.Struct, frozen=True):
    """The intervals of the protocol, in seconds, named after the router's attributes."""

    hello_interval: float = 1
    hello_max_age: float = 3
    ra_interval: float = 30
    ra_interval_flux: float = 4
    remote_ls_max_age: float = 60
    unreachable_holdoff: float = 1


class Port(Protocol):
    """The forwarder's side. A bit is a router's number, 1 to 127; a neighbour is its connection's number."""

    def send(self, to: str, content: bytes, neighbour: int | None) -> None:
        """Send a message over the control link of a neighbour, or if None by its address `to`."""

    def add_router(self, bit: int, router_id: str) -> None: ...
    def remove_router(self, bit: int) -> None: ...
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

"""What the protocol asks of the forwarder, and how it is configured."""

from typing import Protocol

import msgspec


class NetworkSettings(msgspec.Struct, frozen=True):
    """The intervals of the protocol, in seconds, named as the router's attributes."""

    hello_interval: float = 1
    hello_max_age: float = 3
    ra_interval: float = 30
    ra_interval_flux: float = 4
    remote_ls_max_age: float = 60
    unreachable_holdoff: float = 1


class Port(Protocol):
    """The forwarder. A bit is a router's number from 1 to 127; a neighbour is its connection's number."""

    def send(self, to: str, content: bytes, neighbour: int | None) -> None:
        """Send a message over the control link of a neighbour, or to wherever `to` leads."""

    def add_router(self, bit: int, router_id: str) -> None: ...
    def remove_router(self, bit: int) -> None: ...
    def set_link(self, bit: int, neighbour: int) -> None: ...
    def remove_link(self, bit: int) -> None: ...

    def set_path(self, bit: int, next_hop: int, cost: int, valid_origins: frozenset[int]) -> None:
        """The way to a router: a neighbour's bit, or -1 where there is none."""

    def set_radius(self, radius: int) -> None: ...

    def map_destination(self, key: str, bit: int, treatment: int) -> None:
        """A router has receivers of an address; treatments as in `core.interior.mobile`, -1: unknown."""

    def unmap_destination(self, key: str, bit: int) -> None: ...

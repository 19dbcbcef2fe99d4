"""What both ends of an edge connection know: the names of its links, and where each link leads."""

import logging
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from core.addresses.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Sequence

ROLE: Final = "edge"
DOWNLINK: Final = "qd.router-edge-downlink"  # a capability
WAYPOINT: Final = "qd.waypoint"
FALLBACK: Final = "qd.fallback"
MOST: Final = 9  # the highest number of a waypoint
TRACKING: Final = "_$qd.edge_addr_tracking"
HEARTBEAT: Final = "_$qd.edge_heartbeat"
LOOKUP: Final = "_$qd.addr_lookup"
MANAGEMENT: Final = "_$qd.edge_management"  # an edge router's name for its interior router's agent

OWN: Final = ("M0$management", "M0_$qd.")  # beginnings of keys that each router has for itself

Key = tuple[int, int]  # worker, index of the connection in it


class Complain(Protocol):
    """Logs a misbehaviour of the interior router, once per minute for each ``what``."""

    def __call__(self, what: str, detail: str = "", level: int = logging.WARNING) -> None: ...


class Place(msgspec.Struct, frozen=True):
    """Where a link of an edge connection leads.

    ``address`` is None if messages name their own; ``handle`` is its handle now. ``wants_override``: the peer asks
    messages where they go. ``capacity`` bounds the link's credit.
    """

    address: Address | None = None
    handle: int = 0
    wants_override: bool = False
    capacity: int = 250


def shared(key: str) -> bool:
    """Whether the other side needs to know the receivers of an address."""
    return key.startswith("M") and not key.startswith(OWN)


def capabilities(key: str, outgoing: bool, usual: int = 0) -> "Sequence[str]":
    """Return the capabilities by which the other side recognises the phase of a link's address.

    ``usual`` is the configured phase in which receivers of the address receive.
    """
    phase = key[1]
    if phase == "F":
        return [FALLBACK]
    number = int(phase) + (not outgoing)
    if number == 0 or number > MOST or (phase == "0" and usual == 0):
        return []
    return [WAYPOINT if number == 1 else f"{WAYPOINT}.{number}"]

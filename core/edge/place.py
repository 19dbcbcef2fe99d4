"""What both ends of an edge connection know: names of its links, and where such a link leads."""

import logging
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from core.addresses.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Sequence

ROLE: Final = "edge"
DOWNLINK: Final = "qd.router-edge-downlink"  # capability
WAYPOINT: Final = "qd.waypoint"
FALLBACK: Final = "qd.fallback"
MOST: Final = 9  # number of a waypoint
TRACKING: Final = "_$qd.edge_addr_tracking"
HEARTBEAT: Final = "_$qd.edge_heartbeat"
LOOKUP: Final = "_$qd.addr_lookup"
MANAGEMENT: Final = "_$qd.edge_management"  # what an edge router calls its interior router's agent

OWN: Final = ("M0$management", "M0_$qd.")  # each router's own, by the beginning of the key

Key = tuple[int, int]  # worker, index of the connection in it


class Complain(Protocol):
    """Say what the interior router does that it should not: once per minute, whatever the detail."""

    def __call__(self, what: str, detail: str = "", level: int = logging.WARNING) -> None: ...


class Place(msgspec.Struct, frozen=True):
    """Where a link of an edge connection leads: an address, for now at ``handle``; None: where messages say.
    ``through``: the peer asks messages where they go. ``capacity``: at most."""

    address: Address | None = None
    handle: int = 0
    through: bool = False
    capacity: int = 250


def shared(key: str) -> bool:
    """Whether receivers of an address are of interest on the other side."""
    return key.startswith("M") and not key.startswith(OWN)


def capabilities(key: str, outgoing: bool, usual: int = 0) -> "Sequence[str]":
    """What a terminus says so that the other side takes the link for the address's phase (facts 11).

    ``usual`` is the phase in which receivers of the address receive, as it is configured.
    """
    phase = key[1]
    if phase == "F":
        return [FALLBACK]
    number = int(phase) + (not outgoing)
    if number == 0 or number > MOST or (phase == "0" and usual == 0):
        return []
    return [WAYPOINT if number == 1 else f"{WAYPOINT}.{number}"]

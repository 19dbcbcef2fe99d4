"""What both ends of an edge connection know: the names of its links, and the capabilities of their termini."""

import logging
from typing import TYPE_CHECKING, Final, Protocol

from core.addresses.phases import FALLBACK, WAYPOINT

if TYPE_CHECKING:
    from collections.abc import Sequence

DOWNLINK: Final = "qd.router-edge-downlink"  # a capability
MOST: Final = 9  # the highest number of a waypoint
TRACKING: Final = "_$qd.edge_addr_tracking"
HEARTBEAT: Final = "_$qd.edge_heartbeat"
LOOKUP: Final = "_$qd.addr_lookup"
MANAGEMENT: Final = "_$qd.edge_management"  # an edge router's name for its interior router's agent

Key = tuple[int, int]  # worker, index of the connection in it


class Complain(Protocol):
    """Logs a misbehaviour of the interior router, once per minute for each ``what``."""

    def __call__(self, what: str, detail: str = "", level: int = logging.WARNING) -> None: ...


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

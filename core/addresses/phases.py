"""What a link's terminus says of the phase of its address (facts 11).

A message goes through an address phase by phase: a waypoint receives it in one and sends it on in the next.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from core.addresses.addresses import FALLBACK as FALLBACK_PHASE

WAYPOINT: Final = "qd.waypoint"
FALLBACK: Final = "qd.fallback"
_NUMBERED: Final = {WAYPOINT: 1} | {f"{WAYPOINT}.{number}": number for number in range(1, 10)}


class RequestedPhase(msgspec.Struct, frozen=True):
    """``phase`` None: as the address is configured. ``fallback``: it is a fallback destination's."""

    phase: str | None = None
    fallback: bool = False


def requested_phase(capabilities: Iterable[str], *, outgoing: bool, edge: bool = False) -> RequestedPhase:
    """What the capabilities of a terminus ask for; a fallback destination is no waypoint. ``edge``: an edge
    router sends to the fallback destination what found nobody there."""
    named = list(capabilities)
    if FALLBACK in named:
        return RequestedPhase(FALLBACK_PHASE if outgoing or edge else None, fallback=True)
    numbers = [_NUMBERED[one] for one in named if one in _NUMBERED]
    return RequestedPhase(str(numbers[0] - outgoing)) if numbers else RequestedPhase()

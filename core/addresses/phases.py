"""The phase that a link's terminus requests for its address (docs/addresses.md).

A message passes an address phase by phase: a waypoint receives it in one phase and sends it on in the next.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from core.addresses.addresses import FALLBACK as FALLBACK_PHASE

WAYPOINT: Final = "qd.waypoint"
FALLBACK: Final = "qd.fallback"
_NUMBERED: Final = {WAYPOINT: 1} | {f"{WAYPOINT}.{number}": number for number in range(1, 10)}


class RequestedPhase(msgspec.Struct, frozen=True):
    """A requested phase, or None for the configured one.

    ``fallback`` marks a link of a fallback destination.
    """

    phase: str | None = None
    fallback: bool = False


def requested_phase(capabilities: Iterable[str], *, outgoing: bool, edge: bool = False) -> RequestedPhase:
    """Return the phase that the capabilities of a terminus request; a fallback destination is no waypoint.

    ``edge``: an edge router sends what found no receiver there to the fallback destination.
    """
    named = list(capabilities)
    if FALLBACK in named:
        return RequestedPhase(FALLBACK_PHASE if outgoing or edge else None, fallback=True)
    numbers = [_NUMBERED[one] for one in named if one in _NUMBERED]
    return RequestedPhase(str(numbers[0] - outgoing)) if numbers else RequestedPhase()

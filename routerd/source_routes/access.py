"""Who may reach an address: decided by what the router saw, never by a return route (facts 2.2, 7.6).

A source is a set of names for who handed a message to the router: `worker:ADDRESS`, or for a client
`user:ID`, `link:TARGET`, `listener:NAME`, or for another router or network `uplink:CONNECTOR`. Every worker
on the way replaces it by its own.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from routerd.source_routes.address import Address
from routerd.source_routes.refusal import Reason, RefusedError

Source = frozenset[str]
LOCAL = "local"  # in a list of sources: any that is not an uplink
KINDS = ("worker", "user", "link", "listener", "uplink")
_NOBODY: Mapping[Address, frozenset[str]] = MappingProxyType({})
_NOWHERE: Mapping[Address, frozenset[Address]] = MappingProxyType({})


class Access(Struct, frozen=True):
    """`incoming`: the sources listed for an address; `outgoing`: the addresses listed for a worker.

    An address without a list is open to all but uplinks; a worker without a list may send to all.
    """

    incoming: Mapping[Address, frozenset[str]] = _NOBODY
    outgoing: Mapping[Address, frozenset[Address]] = _NOWHERE

    def check(self, source: Source, sender: Address | None, address: Address) -> None:
        """May `source`, the worker at `sender` if it is one, reach the address? Raises RefusedError."""
        listed = self.incoming.get(address)
        if not _reaches(source, listed):
            shown = ", ".join(sorted(source)) or "nobody known"
            rule = ", ".join(sorted(listed)) if listed is not None else f"{LOCAL} (nothing is listed)"
            text = f"{shown} may not send here; allowed: {rule or 'nobody'}"
            raise RefusedError(Reason.ACCESS, text, str(address))
        self.check_outgoing(sender, address)

    def check_outgoing(self, sender: Address | None, address: Address) -> None:
        """May the worker at `sender`, if it is one, send to the address? Raises RefusedError."""
        allowed = None if sender is None else self.outgoing.get(sender)
        if allowed is not None and address not in allowed:
            shown = ", ".join(sorted(map(str, allowed))) or "nowhere"
            raise RefusedError(Reason.ACCESS, f"{sender} may not send here, only to: {shown}", str(address))


def of_worker(address: Address) -> Source:
    """The source of what a worker sends."""
    return frozenset({f"worker:{address}"})


def _reaches(source: Source, listed: frozenset[str] | None) -> bool:
    foreign = not source or any(name.startswith("uplink:") for name in source)
    if listed is None:
        return not foreign
    return bool(source & listed) or (LOCAL in listed and not foreign)

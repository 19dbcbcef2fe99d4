"""Access to addresses of source routes (docs/source-routes.md, "Who may send where").

A source is the set of names of whoever handed a message to the router: `worker:ADDRESS` for a route worker;
`user:ID`, `link:TARGET` and `listener:NAME` for a client; `uplink:CONNECTOR` for another router or network.
Each route worker on the way replaces the source by its own. Return routes never count.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from routerd.source_routes.address import Address
from routerd.source_routes.refusal import Reason, RefusedError

Source = frozenset[str]
LOCAL = "local"  # in a list of sources: every source that is not an uplink
KINDS = ("worker", "user", "link", "listener", "uplink")
_NOBODY: Mapping[Address, frozenset[str]] = MappingProxyType({})
_NOWHERE: Mapping[Address, frozenset[Address]] = MappingProxyType({})


class Access(Struct, frozen=True):
    """`incoming` lists the sources for an address; `outgoing` lists the addresses for a route worker.

    An address without a list is open to all but uplinks; a route worker without a list may send to all.
    """

    incoming: Mapping[Address, frozenset[str]] = _NOBODY
    outgoing: Mapping[Address, frozenset[Address]] = _NOWHERE

    def check(self, source: Source, sender: Address | None, address: Address) -> None:
        """Check that `source`, at route worker `sender` if it is one, may send here. Raises RefusedError."""
        listed = self.incoming.get(address)
        if not _reaches(source, listed):
            shown = ", ".join(sorted(source)) or "nobody known"
            rule = ", ".join(sorted(listed)) if listed is not None else f"{LOCAL} (nothing is listed)"
            text = f"{shown} may not send here; allowed: {rule or 'nobody'}"
            raise RefusedError(Reason.ACCESS, text, str(address))
        self.check_outgoing(sender, address)

    def check_outgoing(self, sender: Address | None, address: Address) -> None:
        """Check that the route worker at `sender`, if any, may send to the address. Raises RefusedError."""
        allowed = None if sender is None else self.outgoing.get(sender)
        if allowed is not None and address not in allowed:
            shown = ", ".join(sorted(map(str, allowed))) or "nowhere"
            raise RefusedError(Reason.ACCESS, f"{sender} may not send here, only to: {shown}", str(address))


def of_worker(address: Address) -> Source:
    """Return the source of messages that a route worker sends."""
    return frozenset({f"worker:{address}"})


def _reaches(source: Source, listed: frozenset[str] | None) -> bool:
    foreign = not source or any(name.startswith("uplink:") for name in source)
    if listed is None:
        return not foreign
    return bool(source & listed) or (LOCAL in listed and not foreign)

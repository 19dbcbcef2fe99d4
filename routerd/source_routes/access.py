"""Access to addresses of source routes (docs/source-routes.md, "Who may send where").

A source is the set of names of whoever handed a message to the router: `worker:ADDRESS` for a route worker;
`user:ID`, `link:TARGET` and `listener:NAME` for a client; `uplink:CONNECTOR` for another router or network.
Each route worker on the way replaces the source by its own. Return routes never count.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from routerd.source_routes.address import Address

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

    def denied(self, source: Source, sender: Address | None, address: Address) -> str:
        """Say which rule keeps `source`, the worker at `sender` if it is one, from the address."""
        allowed = None if sender is None else self.outgoing.get(sender)
        if allowed is not None and address not in allowed:
            return f"{sender} may not send here, only to: {', '.join(sorted(map(str, allowed))) or 'nowhere'}"
        listed = self.incoming.get(address)
        rule = ", ".join(sorted(listed)) if listed is not None else f"{LOCAL} (nothing is listed)"
        shown = ", ".join(sorted(source)) or "nobody known"
        return f"{shown} may not send here; allowed: {rule or 'nobody'}"


def is_foreign(source: Source) -> bool:
    """Whether a message comes from outside the router, by an uplink, or from nobody known."""
    return not source or any(name.startswith("uplink:") for name in source)

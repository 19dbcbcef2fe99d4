"""Addresses that lie in no tenant's space: those of routers, and those that the router has made up.

    _local/NAME   _topo/AREA/ROUTER/NAME   _edge/ROUTER/NAME   _$temp.NAME

They mean the same to everybody, so a tenant that could use them freely would meet other tenants there, and
the agent of each router. A tenant uses those that its user group lists by such a name, and sends to names
that a router has made up for a dynamic terminus: 90 bits that are known only to whom they were told.
"""

import re
from typing import Final, Protocol

from core.addresses.addresses import Identity, address_key, lies_in_a_space, strip_spelling

HEADS: Final = ("_local/", "_topo/", "_edge/", "_$temp.")
FIRST: Final = frozenset(("_local", "_topo", "_edge", "_$temp"))  # tokens of such a pattern
_MADE: Final = re.compile(r"(?:_topo/[^/]+/[^/]+/temp|_edge/[^/]+/temp|_\$temp)\.[A-Za-z0-9+_]{15}")


class Lists(Protocol):
    """A user group's list of addresses (core.links.rights.AddressRights)."""

    def lists(self, address: str) -> bool: ...


def trespasses(address: str, me: Identity, rights: Lists | None, *, sends: bool) -> bool:
    """Whether an address, as a tenant's client spells it, is not a tenant's to use. ``rights``: its user
    group's, if there is vhost policy."""
    if lies_in_a_space(address_key(address, me)):
        return False
    if sends and _MADE.fullmatch(strip_spelling(address)):
        return False
    return rights is None or not rights.lists(address)

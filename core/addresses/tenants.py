"""Addresses that lie in no tenant's space: those of routers, and those that a router generates.

    _local/NAME   _topo/AREA/ROUTER/NAME   _edge/ROUTER/NAME   _$temp.NAME

These mean the same to everybody. A tenant that could use them freely would reach other tenants there, and the
agent of each router. A tenant may use those that its user group lists by such a name. It may also send to the
generated name of a dynamic terminus, whose 90 bits are known only to those who were told.
"""

import re
from typing import Final, Protocol

from core.addresses.addresses import Identity, address_key, lies_in_a_space
from shm.contract.spelling import strip_spelling

HEADS: Final = ("_local/", "_topo/", "_edge/", "_$temp.")
FIRST: Final = frozenset(("_local", "_topo", "_edge", "_$temp"))  # first tokens of such patterns
_MADE: Final = re.compile(r"(?:_topo/[^/]+/[^/]+/temp|_edge/[^/]+/temp|_\$temp)\.[A-Za-z0-9+_]{15}")


class Lists(Protocol):
    """A user group's list of addresses (core.links.rights.AddressRights)."""

    def lists(self, address: str) -> bool: ...


def trespasses(address: str, me: Identity, rights: Lists | None, *, sends: bool) -> bool:
    """Whether an address, as a tenant's client spells it, is denied to the tenant.

    ``rights`` are those of its user group, or None without vhost policy.
    """
    if lies_in_a_space(address_key(address, me)):
        return False
    if sends and is_made(address):
        return False
    return rights is None or not rights.lists(address)


def is_made(address: str) -> bool:
    """Whether an address is a name that a router has made up for a dynamic terminus."""
    return _MADE.fullmatch(strip_spelling(address)) is not None

"""Who may reach an address, as a function: what worker processes decide natively."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from routerd.source_routes.access import LOCAL, Source, is_foreign, not_from, not_to
from routerd.source_routes.address import Address
from tests.model.source_routes.refusal import Reason, RefusedError

_NOBODY: Mapping[Address, frozenset[str]] = MappingProxyType({})
_NOWHERE: Mapping[Address, frozenset[Address]] = MappingProxyType({})


class Access(Struct, frozen=True):
    """`incoming` lists the sources for an address; `outgoing` lists the addresses for a route worker."""

    incoming: Mapping[Address, frozenset[str]] = _NOBODY
    outgoing: Mapping[Address, frozenset[Address]] = _NOWHERE


def check(access: Access, source: Source, sender: Address | None, address: Address) -> None:
    """May `source`, the worker at `sender` if it is one, reach the address? Raises RefusedError."""
    if not _reaches(source, access.incoming.get(address)):
        why = not_from(source, access.incoming.get(address))
        raise RefusedError(Reason.ACCESS, why, str(address))
    check_outgoing(access, sender, address)


def check_outgoing(access: Access, sender: Address | None, address: Address) -> None:
    """May the worker at `sender`, if it is one, send to the address? Raises RefusedError."""
    allowed = None if sender is None else access.outgoing.get(sender)
    if allowed is not None and address not in allowed:
        raise RefusedError(Reason.ACCESS, not_to(sender, allowed), str(address))


def of_worker(address: Address) -> Source:
    """The source of what a worker sends."""
    return frozenset({f"worker:{address}"})


def _reaches(source: Source, listed: frozenset[str] | None) -> bool:
    foreign = is_foreign(source)
    if listed is None:
        return not foreign
    return bool(source & listed) or (LOCAL in listed and not foreign)

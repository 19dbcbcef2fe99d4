"""Who may reach an address, as a function: what worker processes decide natively."""

from routerd.source_routes.access import LOCAL, Access, Source, is_foreign
from routerd.source_routes.address import Address
from tests.model.source_routes.refusal import Reason, RefusedError


def check(access: Access, source: Source, sender: Address | None, address: Address) -> None:
    """May `source`, the worker at `sender` if it is one, reach the address? Raises RefusedError."""
    if not _reaches(source, access.incoming.get(address)):
        raise _denied(access, source, sender, address)
    check_outgoing(access, sender, address)


def check_outgoing(access: Access, sender: Address | None, address: Address) -> None:
    """May the worker at `sender`, if it is one, send to the address? Raises RefusedError."""
    allowed = None if sender is None else access.outgoing.get(sender)
    if allowed is not None and address not in allowed:
        raise _denied(access, frozenset(), sender, address)


def of_worker(address: Address) -> Source:
    """The source of what a worker sends."""
    return frozenset({f"worker:{address}"})


def _denied(access: Access, source: Source, sender: Address | None, address: Address) -> RefusedError:
    return RefusedError(Reason.ACCESS, access.denied(source, sender, address), str(address))


def _reaches(source: Source, listed: frozenset[str] | None) -> bool:
    foreign = is_foreign(source)
    if listed is None:
        return not foreign
    return bool(source & listed) or (LOCAL in listed and not foreign)

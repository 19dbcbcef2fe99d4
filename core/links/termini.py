"""Addresses in the termini of link routes' links: for finding the route, and as each end gets them."""

from typing import Any, Final

import msgspec

from core.addresses.tenants import HEADS
from core.amqp import codec as wire
from shm.contract.payloads import Attach, Termini, Terminus
from shm.contract.spelling import strip_spelling

COORDINATOR: Final = "$coordinator"  # address that stands for a transaction coordinator, which has none
COORDINATOR_KIND: Final = 3  # PN_COORDINATOR
NODE_ADDRESS: Final = "x-opt-qd.address"  # property of a dynamic node


def address_of(attach: Attach, tenant: str) -> str:
    """Return the address for finding a link route; empty: the link has none."""
    if attach.restored or attach.router_initiated:
        return ""
    if attach.coordinator:
        return COORDINATOR
    address = attach.address or (node_address(attach) if attach.dynamic else "")
    text = strip_spelling(address or "")
    # an address in no tenant's space is a router's own for tenants, too
    return f"{tenant}/{text}" if tenant and text and not text.startswith(HEADS) else text


def node_address(attach: Attach) -> str:
    """Return the address in the properties of a dynamic node, or an empty text."""
    if attach.termini is None:
        return ""
    address = _properties(counting(attach.termini, attach.outgoing)).get(NODE_ADDRESS)
    return address if isinstance(address, str) else ""


def named(attach: Attach) -> list[str] | None:
    """Return all addresses of a terminus, its own and its node's, or None.

    None means that its node properties cannot be decoded. The broker that gets them may read an address
    there.
    """
    found = [attach.address] if attach.address else []
    if attach.termini is None or not (raw := counting(attach.termini, attach.outgoing).properties):
        return found
    try:
        properties = wire.Parser(raw).value()
    except wire.WireError:
        return None
    if not isinstance(properties, dict):
        return None
    address = properties.get(NODE_ADDRESS)
    if address is not None and not isinstance(address, str):
        return None
    return [*found, address] if address else found


def placeable(attach: Attach) -> bool:
    """Whether `placed` changes all addresses of a terminus that a broker gets."""
    if attach.termini is None:
        return True
    terminus = counting(attach.termini, attach.outgoing)
    properties = _properties(terminus)
    if NODE_ADDRESS not in properties:
        return True
    return not terminus.address and all(isinstance(one, str) for one in properties.values())


def counting(termini: Termini, outgoing: bool) -> Terminus:
    """Return the terminus that a link's address is that of, by the direction of its first end."""
    return termini.source if outgoing else termini.target


def _properties(terminus: Terminus) -> dict[Any, Any]:
    try:
        properties = wire.Parser(terminus.properties).value() if terminus.properties else {}
    except wire.WireError:
        return {}
    return properties if isinstance(properties, dict) else {}


Change = tuple[str, str]  # prefix to remove, prefix to add


def changed(termini: Termini, outgoing: bool, change: Change | None) -> Termini:
    """Return the termini with the address as the other side knows it."""
    if change is None or change == ("", ""):
        return termini
    terminus = counting(termini, outgoing)
    if not terminus.address:
        return termini
    return _renamed(termini, outgoing, address=change[1] + terminus.address.removeprefix(change[0]))


def placed(termini: Termini | None, outgoing: bool, tenant: str) -> Termini:
    """Return the termini of a tenant's link with the address as all others know it."""
    assert termini is not None, "forbidden without"
    terminus = counting(termini, outgoing)
    if not tenant or terminus.kind == COORDINATOR_KIND:
        return termini
    if terminus.address:
        return _renamed(termini, outgoing, address=f"{tenant}/{strip_spelling(terminus.address)}")
    properties = _properties(terminus)
    if NODE_ADDRESS not in properties or not all(isinstance(one, str) for one in properties.values()):
        return termini
    properties[NODE_ADDRESS] = f"{tenant}/{strip_spelling(properties[NODE_ADDRESS])}"
    pairs = ((wire.symbol(str(name)), wire.string(value)) for name, value in properties.items())
    return _renamed(termini, outgoing, properties=bytes(wire.mapping(pairs)))


def unplaced(termini: Termini, outgoing: bool, tenant: str) -> Termini:
    """Return the termini of the far end's answer with the address as the tenant knows it."""
    terminus = counting(termini, outgoing)
    if not tenant or terminus.dynamic or not terminus.address:
        return termini
    return _renamed(termini, outgoing, address=terminus.address.removeprefix(f"{tenant}/"))


def _renamed(termini: Termini, outgoing: bool, **fields: Any) -> Termini:
    which = "source" if outgoing else "target"
    renamed = msgspec.structs.replace(counting(termini, outgoing), **fields)
    return msgspec.structs.replace(termini, **{which: renamed})

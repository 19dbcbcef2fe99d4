"""Rules of listeners and connectors that speak RMR or Ockam, and of the attributes of one protocol alone."""

import os
from collections.abc import Iterator

from routerd.config.entities.route_tables import HOST_LENGTH, SOURCE_LENGTH, RouteTable
from routerd.config.entities.transport import EVERYWHERE, Connector, Listener
from routerd.config.formats.source import Mistake, listed, shown
from routerd.config.rules.check import Checked
from routerd.config.rules.route_tables import is_source
from routerd.source_routes.address import parse_address
from shm.contract.hosts import machine_name

SEED = "RMR_SEED_RT"  # this environment variable defines a table if none is configured
SEEDED = "rmr"
_LONGEST = 200  # octets of an address; a number is appended within 255

_OWN = {  # attributes that only one protocol has
    "rmr": ("table", "advertised", "replies"),
    "ockam": ("framing", "routeAddress", "reach", "maxMessageSize"),
}
_SECURITY = ("http", "sslProfile", "requireSsl", "requireEncryption", "authenticatePeer", "multiTenant")
_OF_AMQP = {  # attributes of AMQP that restrict access: a protocol that ignored them would let others in
    "amqp": (),
    "rmr": (*_SECURITY, "saslPlugin"),
    "ockam": (*_SECURITY, "saslUsername", "saslPassword", "policyVhost"),
}


def check_protocols(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in listeners and connectors with another protocol, or with attributes of another."""
    tables = {at.entity.name for at in checked if isinstance(at.entity, RouteTable)}
    if not tables and os.environ.get(SEED):
        tables = {SEEDED}
    for at in checked:
        if not isinstance(at.entity, Listener | Connector):
            continue
        yield from _foreign(at, at.entity)
        if at.entity.protocol == "ockam":
            yield from _ockam(at, at.entity)
        elif isinstance(at.entity, Listener) and at.entity.protocol == "rmr":
            yield from _rmr(at, at.entity, tables)


def _foreign(at: Checked, one: Listener | Connector) -> Iterator[Mistake]:
    """Yield mistakes in attributes of other protocols."""
    for protocol, names in _OWN.items():
        for name in names:
            if protocol != one.protocol and name in at.lines and at.value(name):
                yield at.mistake(name, f"applies to protocol: {protocol} only; set that, or remove this")
    if one.protocol != "amqp" and one.role != "normal":
        yield at.mistake("role", f"{one.role} applies to AMQP only; remove it, or protocol: {one.protocol}")
    for name in _OF_AMQP[one.protocol]:
        if name in at.type.attributes and at.value(name):
            yield at.mistake(name, f"applies to AMQP only; remove it, or protocol: {one.protocol}")


def _rmr(at: Checked, listener: Listener, tables: set[str | None]) -> Iterator[Mistake]:
    if not listener.table:
        yield at.mistake("table", "is missing; name the routeTable that routes messages of RMR applications")
    elif listener.table not in tables:
        yield at.mistake("table", f"there is no routeTable {shown(listener.table)}; configure one")
    if listener.advertised:
        if not is_source(listener.advertised):
            text = f"is not host:port with {SOURCE_LENGTH} octets at most; give one such as router:4560"
            yield at.mistake("advertised", f"{shown(listener.advertised)} {text}")
    elif len(listener.host.encode()) > HOST_LENGTH:
        text = f"has more than {HOST_LENGTH} octets, too many for the source of RMR messages; give advertised, too"
        yield at.mistake("host", f"{shown(listener.host)} {text}")
    elif listener.host in EVERYWHERE and len(machine_name().partition(".")[0]) > HOST_LENGTH:
        text = f"this machine's name has more than {HOST_LENGTH} octets, and is cut in RMR messages; give host:port"
        yield at.mistake("advertised", text, warning=True)


def _ockam(at: Checked, one: Listener | Connector) -> Iterator[Mistake]:
    if not one.route_address:
        text = "is missing; give the address that stands for the connection in routes, such as T13"
        yield at.mistake("routeAddress", text)
    else:
        yield from _address(at, "routeAddress", one.route_address)
    for word in listed(one.reach):
        yield from _address(at, "reach", word.removesuffix("*") or "x")


def _address(at: Checked, name: str, text: str) -> Iterator[Mistake]:
    try:
        if len(parse_address(text).value) > _LONGEST:
            yield at.mistake(name, f"{text[:40]!r}… has more than {_LONGEST} octets; give a shorter one")
    except ValueError as error:
        yield at.mistake(name, f"{error}; give a name or TYPE#NAME, such as T13 or 1#localhost:4000")

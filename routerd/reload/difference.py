"""Compares a new configuration with the current one: what takes effect now, and what needs a restart."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from routerd.config import Address, Config, Listener
from routerd.config.entities.attribute import Entity
from routerd.config.entities.schema import TYPE_OF
from routerd.config.rules.support import UNSERVED_ENTITIES

# Attributes of router that take effect at once; the others are fixed when the processes start.
LIVE = (
    "default_distribution", "link_capacity", "stop_grace_seconds", "workers", "core_cpu", "worker_cpus",
    "allow_no_listener",
)  # fmt: skip
_INTERNAL = ("line", "identity")

E = TypeVar("E", bound=Entity)
Place = tuple[object, ...]


class Difference(msgspec.Struct, frozen=True):
    """Lists changes, a line each: `applied` now, or waiting for a `restart`.

    `effective` is the configuration afterwards: the new one without what needs a restart.
    """

    effective: Config
    applied: list[str]
    restart: list[str]


def difference(old: Config, new: Config) -> Difference:
    """Compare the configuration that a router has with the one that it gets."""
    router = list(_changes(old.router, new.router))
    applied = [
        *_listeners(old.listeners, new.listeners),
        *_changed("address", _address, old.addresses, new.addresses),
        *_changed("log", lambda log: log.module, old.logs, new.logs),
        *(f"router changed: {text}" for name, text in router if name in LIVE),
        *_others(old, new),
    ]
    restart = [f"router changed: {text}" for name, text in router if name not in LIVE]
    return Difference(_effective(old, new), applied, restart)


def places(listeners: Sequence[Listener]) -> dict[Place, Listener]:
    """Return listeners by where they listen; those on any free port also by name."""
    found: dict[Place, Listener] = {}
    for one in listeners:
        place: Place = (one.host, one.port_number, one.socket_address_family)
        if one.port_number == 0:
            place = (*place, one.name)
        repeated = 0
        while (*place, repeated) in found:
            repeated += 1
        found[*place, repeated] = one
    return found


def _effective(old: Config, new: Config) -> Config:
    live = {name: getattr(new.router, name) for name in LIVE}
    return msgspec.structs.replace(new, router=msgspec.structs.replace(old.router, **live))


def _listeners(old: Sequence[Listener], new: Sequence[Listener]) -> Iterator[str]:
    before, after = places(old), places(new)
    for place, one in before.items():
        if place not in after:
            yield f"{_listener(one)} removed; its connections stay"
    for place, one in after.items():
        if place not in before:
            yield f"{_listener(one)} added"
        elif changes := _texts(before[place], one):
            yield f"{_listener(one)} changed: {changes}; for new connections and links"


def _changed(kind: str, name: Callable[[E], str], old: Sequence[E], new: Sequence[E]) -> Iterator[str]:
    before, after = {name(one): one for one in old}, {name(one): one for one in new}
    yield from (f"{kind} {key} removed" for key in before if key not in after)
    for key, one in after.items():
        if key not in before:
            yield f"{kind} {key} added"
        elif changes := _texts(before[key], one):
            yield f"{kind} {key} changed: {changes}"


def _texts(old: Entity, new: Entity) -> str:
    return ", ".join(text for _, text in _changes(old, new))


def _changes(old: Entity, new: Entity) -> Iterator[tuple[str, str]]:
    """Yield field and text of each attribute that differs."""
    if old is new:
        return  # a change by management leaves most entities alone
    for field in msgspec.structs.fields(new):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before != after and field.name not in _INTERNAL:
            yield field.name, f"{field.encode_name} from {_value(before)} to {_value(after)}"


def _others(old: Config, new: Config) -> Iterator[str]:
    """Yield the changes of other entities, without values, which may be secret."""
    before, after = _other_entities(old), _other_entities(new)
    for key, one in before.items():
        if key not in after:
            yield f"{key} removed"
        elif names := ", ".join(name for name, _ in _changes(one, after[key])):
            yield f"{key} changed: {names}"
    yield from (f"{key} added" for key in after if key not in before)


def _other_entities(config: Config) -> dict[str, Entity]:
    found: dict[str, Entity] = {"policy": config.policy}
    for one in config.entities:
        kind = TYPE_OF[type(one)]
        if kind.name not in UNSERVED_ENTITIES:
            key = f"{kind.short_name} {one.name or ''}".strip()
            found[key if key not in found else f"{key} of line {one.line}"] = one
    return found


def _listener(listener: Listener) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host or "*"
    return f"listener {listener.name or ''} {host}:{listener.port}".replace("  ", " ")


def _address(address: Address) -> str:
    return f"prefix {address.prefix}" if address.prefix is not None else f"pattern {address.pattern}"


def _value(value: object) -> str:
    return "nothing" if value is None else str(value)

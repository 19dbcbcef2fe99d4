"""Compares a new configuration with the current one: what takes effect now, and what needs a restart."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from routerd.config import Config, Listener
from routerd.config.entities.attribute import Entity
from routerd.config.entities.schema import TYPE_OF
from routerd.config.rules.support import UNSERVED_ENTITIES

# Attributes of router that take effect at once; the others are fixed when the processes start.
LIVE = (
    "default_distribution", "link_capacity", "stop_grace_seconds", "workers", "core_cpu", "worker_cpus",
    "allow_no_listener",
)  # fmt: skip
_INTERNAL = ("line", "identity")

P = TypeVar("P")
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
        *_compared(
            places(old.listeners), places(new.listeners), _listener, _texts,
            removed="; its connections stay", changed="; for new connections and links",
        ),
        *_compared(_addresses_and_logs(old), _addresses_and_logs(new), _title, _texts),
        *(f"router changed: {text}" for name, text in router if name in LIVE),
        *_compared(_other_entities(old), _other_entities(new), _title, _names),
    ]  # fmt: skip
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


def _compared(
    old: Mapping[P, Entity],
    new: Mapping[P, Entity],
    title: Callable[[P, Any], str],
    texts: Callable[[Entity, Entity], str],
    removed: str = "",
    changed: str = "",
) -> Iterator[str]:
    """Yield a line for each entity that is removed, added or changed."""
    for key, one in old.items():
        if key not in new:
            yield f"{title(key, one)} removed{removed}"
    for key, one in new.items():
        if key not in old:
            yield f"{title(key, one)} added"
        elif changes := texts(old[key], one):
            yield f"{title(key, one)} changed: {changes}{changed}"


def _texts(old: Entity, new: Entity) -> str:
    return ", ".join(text for _, text in _changes(old, new))


def _names(old: Entity, new: Entity) -> str:
    """Return the names of changed attributes without their values, which may be secret."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(new)}
    return ", ".join(names[name] for name, _ in _changes(old, new))


def _changes(old: Entity, new: Entity) -> Iterator[tuple[str, str]]:
    """Yield field and text of each attribute that differs."""
    if old is new:
        return  # a change by management leaves most entities alone
    for field in msgspec.structs.fields(new):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before != after and field.name not in _INTERNAL:
            yield field.name, f"{field.encode_name} from {_value(before)} to {_value(after)}"


def _other_entities(config: Config) -> dict[str, Entity]:
    found: dict[str, Entity] = {"policy": config.policy}
    for one in config.entities:
        kind = TYPE_OF[type(one)]
        if kind.name not in UNSERVED_ENTITIES:
            key = f"{kind.short_name} {one.name or ''}".strip()
            found[key if key not in found else f"{key} of line {one.line}"] = one
    return found


def _listener(_: Place, listener: Listener) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host or "*"
    return f"listener {listener.name or ''} {host}:{listener.port}".replace("  ", " ")


def _addresses_and_logs(config: Config) -> dict[str, Entity]:
    """Return the entities whose values a line may show, by their titles."""
    found: dict[str, Entity] = {}
    for one in config.addresses:
        found[f"address prefix {one.prefix}" if one.prefix is not None else f"address pattern {one.pattern}"] = one
    return found | {f"log {log.module}": log for log in config.logs}


def _title(title: str, _: Entity) -> str:
    return title


def _value(value: object) -> str:
    return "nothing" if value is None else str(value)

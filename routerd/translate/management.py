"""Translates the configuration into what the management agent serves of it."""

from typing import Any

import msgspec

from routerd.config import Config, Log
from routerd.config.entities.attribute import Attribute, Entity
from routerd.config.entities.policy import Vhost
from routerd.config.entities.schema import ENTITY_TYPES, TYPE_OF, USER_GROUP, EntityType
from routerd.log.log import MODULES
from routerd.translate.identities import NUMBERED, Identities
from shm.contract.management import AttributeSchema, Management, TypeSchema
from shm.contract.structs import same

_LOG_DEFAULTS = {"enable": "info+", "includeTimestamp": True, "includeSource": False, "outputFile": "stderr"}
_KINDS = {
    "enum": "string", "port": "string", "workers": "integer", "cpus": "string", "levels": "string",
    "groups": "map",
}  # fmt: skip


def management(config: Config, identities: Identities | None = None) -> Management:
    """Return the schema and every entity of the configuration with its defaults."""
    entities: dict[str, list[dict[str, Any]]] = {}
    configured = _entities(config)
    for entity, identity in zip(configured, (identities or Identities()).of(configured), strict=True):
        kind = TYPE_OF[type(entity)]
        entities.setdefault(kind.name, []).append(_values(entity, kind, identity))
    return Management(types=[*map(_type, ENTITY_TYPES), _type(USER_GROUP)], entities=entities)


def _entities(config: Config) -> list[Entity]:
    """Return all entities, with a log entity for each module that has none: every module logs."""
    configured: dict[str, Log] = {log.module: log for log in config.logs}
    logs = [configured.get(module) or msgspec.convert({"type": "log", "module": module}, Log) for module in MODULES]
    return [config.router, config.policy, *config.listeners, *config.addresses, *logs, *config.entities]


def _type(found: EntityType) -> TypeSchema:
    attributes = [_attribute(attribute) for attribute in found.attributes.values()]
    return same(found, TypeSchema, attributes=attributes, operations=["READ", *found.operations])


def _attribute(attribute: Attribute) -> AttributeSchema:
    default = list(attribute.default) if isinstance(attribute.default, tuple) else attribute.default
    kind = _KINDS.get(attribute.kind, attribute.kind)
    return same(attribute, AttributeSchema, kind=kind, default=default, choices=list(attribute.choices))


def _group(group: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a user group that have values."""
    return {
        name: value
        for name, value in group.items()
        if value is not None and name not in ("line", "type", "name", "identity")
    }


def _is_secret(kind: EntityType, name: str) -> bool:
    attribute = kind.attributes.get(name)
    return attribute is not None and attribute.secret


def _values(entity: Entity, kind: EntityType, identity: str) -> dict[str, Any]:
    """Return an entity's attributes without secrets. A numbered entity may have no name."""
    values: dict[str, Any] = {
        name: value
        for name, value in msgspec.to_builtins(entity).items()
        if value is not None and name not in ("line", "type") and not _is_secret(kind, name)
    }
    if isinstance(entity, Vhost) and entity.groups is not None:
        values["groups"] = {name: _group(group) for name, group in values["groups"].items()}
    if isinstance(entity, Log) and entity.module == "DEFAULT":
        values = _LOG_DEFAULTS | values
    named = {} if kind.name in NUMBERED else {"name": identity}
    return {**named, **values, "identity": identity}

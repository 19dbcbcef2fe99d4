"""From the configuration to what the management agent serves of it: pure translation."""

from typing import Any

import msgspec

from routerd.config import Config, Log
from routerd.config.attribute import Attribute, Entity
from routerd.config.schema import ENTITY_TYPES, USER_GROUP, EntityType, entity_type
from routerd.log import MODULES
from shm.management import AttributeSchema, Management, TypeSchema

_LOG_DEFAULTS = {"enable": "info+", "includeTimestamp": True, "includeSource": False, "outputFile": "stderr"}
SECRETS = frozenset({"password", "saslPassword"})
_KINDS = {
    "enum": "string",
    "port": "string",
    "workers": "integer",
    "cpus": "string",
    "levels": "string",
    "groups": "map",
}


def management(config: Config) -> Management:
    """The schema, and every entity of the configuration with the defaults filled in."""
    entities: dict[str, list[dict[str, Any]]] = {}
    for entity in _entities(config):
        found = entity_type(str(entity.__struct_config__.tag))
        assert found is not None
        known = entities.setdefault(found.name, [])
        known.append(_values(entity, found, len(known)))
    return Management(types=[*map(_type, ENTITY_TYPES), _type(USER_GROUP)], entities=entities)


def _entities(config: Config) -> list[Entity]:
    """Every module has a log entity, as it logs whether it is configured or not."""
    configured: dict[str, Log] = {log.module: log for log in config.logs}
    logs = [
        configured.get(module) or msgspec.convert({"type": "log", "module": module}, Log)
        for module in MODULES
    ]
    return [config.router, config.policy, *config.listeners, *config.addresses, *logs, *config.entities]


def _type(found: EntityType) -> TypeSchema:
    return TypeSchema(
        name=found.name,
        description=found.description,
        attributes=[_attribute(attribute) for attribute in found.attributes.values()],
        operations=["READ", *found.operations],
        singleton=found.singleton,
    )


def _attribute(attribute: Attribute) -> AttributeSchema:
    default = list(attribute.default) if isinstance(attribute.default, tuple) else attribute.default
    return AttributeSchema(
        name=attribute.name,
        kind=_KINDS.get(attribute.kind, attribute.kind),
        description=attribute.description,
        default=default,
        choices=list(attribute.choices),
        minimum=attribute.minimum,
        maximum=attribute.maximum,
        required=attribute.required,
        create=attribute.create,
        update=attribute.update,
        deprecated=attribute.deprecated,
        secret=attribute.name in SECRETS,
    )


def _values(entity: Entity, found: EntityType, number: int) -> dict[str, Any]:
    """The attributes an entity has; secrets stay here."""
    values: dict[str, Any] = {
        name: value
        for name, value in msgspec.to_builtins(entity).items()
        if value is not None and name not in SECRETS and name not in ("line", "type")
    }
    if isinstance(entity, Log) and entity.module == "DEFAULT":
        values = _LOG_DEFAULTS | values
    identity = f"{found.short_name}/{_identifier(entity, number)}"
    return {"name": identity, **values, "identity": values.get("identity") or identity}


def _identifier(entity: Entity, number: int) -> str:
    """What tells entities of a type apart: where they listen, the module, the host name, or their place."""
    host, port = getattr(entity, "host", None), getattr(entity, "port", None)
    if host is not None and port is not None:
        return ":".join([host or "0.0.0.0", port, *([entity.name] if entity.name else [])])  # noqa: S104  a name, no socket
    for field in ("module", "hostname", "id", "name"):
        if value := getattr(entity, field, None):
            return str(value)
    return str(number)

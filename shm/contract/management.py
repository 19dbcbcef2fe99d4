"""The configuration's schema and entities, which the supervisor gives to the core's management agent.

The supervisor derives them from the declarations in routerd.config, which the core does not import.
"""

from typing import Any

import msgspec

PREFIX = "org.apache.qpid.dispatch."


class AttributeSchema(msgspec.Struct, array_like=True, frozen=True):
    """One attribute of an entity type.

    ``kind`` is string, integer, boolean, map, list or path. ``choices`` lists all permitted values, if it is
    not empty. The management agent never shows a ``secret`` value.
    """

    name: str
    kind: str
    description: str = ""
    default: Any = None
    choices: list[str] = []
    minimum: int | None = None
    maximum: int | None = None
    required: bool = False
    create: bool = False
    update: bool = False
    deprecated: bool = False
    secret: bool = False


class TypeSchema(msgspec.Struct, array_like=True, frozen=True):
    """One entity type; ``name`` lacks the common prefix."""

    name: str
    description: str
    attributes: list[AttributeSchema]
    operations: list[str] = []
    singleton: bool = False

    @property
    def long_name(self) -> str:
        return PREFIX + self.name


class Management(msgspec.Struct, frozen=True):
    """The configurable entity types; the entities by type name, as attributes by name."""

    types: list[TypeSchema]
    entities: dict[str, list[dict[str, Any]]]


class Delta(msgspec.Struct, array_like=True, frozen=True):
    """A change of the entities of type ``kind``: ``rows`` replace ``count`` entities from index ``start``."""

    kind: str
    start: int
    count: int
    rows: list[dict[str, Any]]

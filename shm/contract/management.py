"""What the management agent is told of the configuration: its schema and its entities, as data.

The supervisor's side knows the declarations (routerd.config), the core serves them; this is what both may
know.
"""

from typing import Any

import msgspec

PREFIX = "org.apache.qpid.dispatch."


class AttributeSchema(msgspec.Struct, array_like=True, frozen=True):
    """One attribute of an entity type. ``kind`` is string, integer, boolean, map, list or path; with
    ``choices`` it is one of those. ``secret``: never told to anybody."""

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
    """One entity type, ``name`` without the common prefix."""

    name: str
    description: str
    attributes: list[AttributeSchema]
    operations: list[str] = []
    singleton: bool = False

    @property
    def long_name(self) -> str:
        return PREFIX + self.name


class Management(msgspec.Struct, frozen=True):
    """The configured entity types, and the entities of each by the type's name, attributes by name."""

    types: list[TypeSchema]
    entities: dict[str, list[dict[str, Any]]]


class Delta(msgspec.Struct, array_like=True, frozen=True):
    """Of the entities of type ``kind``, ``count`` from ``start`` on are replaced by ``rows``."""

    kind: str
    start: int
    count: int
    rows: list[dict[str, Any]]

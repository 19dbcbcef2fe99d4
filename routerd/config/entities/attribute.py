"""Declarations of attributes of entities, and the reading of these declarations.

An entity is a msgspec Struct. Each field is an attribute with the field's type, default and bounds; `about`
adds what msgspec cannot express. Check, documentation and management schema all use `attributes_of`.
"""

from typing import Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

Kind: TypeAlias = Literal[
    "string", "integer", "boolean", "enum", "path", "port", "workers", "cpus", "levels", "map", "groups"
]

UINT = (1 << 32) - 1  # the largest AMQP uint
MAX_SECONDS = UINT // 1000  # of times that the engine counts in milliseconds


class Attribute(Struct, frozen=True, kw_only=True):
    """An attribute of an entity type, in the terms of the management schema."""

    name: str  # the name on the wire and in files
    field: str  # the field of the Struct
    kind: Kind
    description: str
    default: object = None  # None: no default, the attribute is absent
    default_text: str = ""  # says how a computed default comes about
    required: bool = False
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    old_names: tuple[str, ...] = ()
    deprecated: bool = False
    create: bool = True  # can be given in a file or in a CREATE request
    update: bool = False  # can be changed by an UPDATE request
    secret: bool = False  # its value is never shown


class Entity(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """Attributes of all entities; `line` is the entity's line in its file, 0 without a file."""

    name: str | None = None
    identity: str | None = None
    line: int = 0


class State(Struct, frozen=True, kw_only=True, rename="camel"):
    """Attributes that management reports; a file cannot set them."""


def about(
    description: str,
    *,
    kind: Kind | None = None,
    old: str | None = None,
    default: str = "",
    ge: int | None = None,
    le: int | None = None,
    deprecated: bool = False,
    update: bool = False,
    secret: bool = False,
) -> Meta:
    """Describe a field: `old` is a former name still read, `default` explains a computed default."""
    extra = {
        "kind": kind, "old_names": (old,) if old else (), "default_text": default, "deprecated": deprecated,
        "update": update, "secret": secret,
    }  # fmt: skip
    return Meta(description=description, ge=ge, le=le, extra=extra)


def attributes_of(entity: type[Struct], *, create: bool = True) -> tuple[Attribute, ...]:
    """Return the attributes that a Struct declares, in order, without those of all entities."""
    described = msgspec.inspect.type_info(entity)
    assert isinstance(described, msgspec.inspect.StructType)
    return tuple(_attribute(field, create) for field in described.fields if field.name not in Entity.__struct_fields__)


def _attribute(field: msgspec.inspect.Field, create: bool) -> Attribute:
    metadata = _without_none(field.type)
    if not isinstance(metadata, msgspec.inspect.Metadata) or metadata.extra is None:
        raise TypeError(f"attribute {field.encode_name} is declared without about(…)")
    bare, extra = metadata.type, metadata.extra
    return Attribute(
        name=field.encode_name,
        field=field.name,
        description=(metadata.extra_json_schema or {}).get("description", ""),
        default=None if field.required else field.default,
        required=field.required,
        choices=_choices(bare),
        minimum=getattr(bare, "ge", None),
        maximum=getattr(bare, "le", None),
        create=create,
        **extra | {"kind": extra["kind"] or _kind(bare)},
    )


def _without_none(described: msgspec.inspect.Type) -> msgspec.inspect.Type:
    if isinstance(described, msgspec.inspect.UnionType):
        described = next(t for t in described.types if not isinstance(t, msgspec.inspect.NoneType))
    return described


def _kind(described: msgspec.inspect.Type) -> Kind:
    if isinstance(described, msgspec.inspect.LiteralType):
        return "enum"
    if isinstance(described, msgspec.inspect.BoolType):
        return "boolean"
    if isinstance(described, msgspec.inspect.IntType):
        return "integer"
    if isinstance(described, msgspec.inspect.DictType):
        return "map"
    return "string"


def _choices(described: msgspec.inspect.Type) -> tuple[str, ...]:
    if isinstance(described, msgspec.inspect.LiteralType):
        return tuple(str(value) for value in described.values)
    return ()

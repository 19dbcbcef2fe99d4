"""How an attribute of an entity is declared, and how the declaration is read back.

An entity is a msgspec Struct. Its fields are the attributes: the field's type, default and bounds are the
attribute's, and `about` adds what msgspec has no place for. Check, documentation and management schema all
read this one declaration through `attributes_of`.
"""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

Kind: TypeAlias = Literal[
    "string", "integer", "boolean", "enum", "path", "port", "workers", "cpus", "levels", "map", "groups"
]


class Attribute(Struct, frozen=True, kw_only=True):
    """One attribute of an entity type, as the management schema describes it."""

    name: str  # as on the wire and in files
    field: str  # of the Struct
    kind: Kind
    description: str
    default: object = None  # None: no default, the attribute is absent
    default_text: str = ""  # where the default is computed: how
    required: bool = False
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    old_names: tuple[str, ...] = ()
    deprecated: bool = False
    create: bool = True  # can be given in a file or in a CREATE request
    update: bool = False  # can be changed by an UPDATE request


class Entity(Struct, frozen=True, kw_only=True):
    """What all entities have; `line` is where it begins in its file, 0 for one that stands in none."""

    name: str | None = None
    identity: str | None = None
    line: int = 0


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
) -> Meta:
    """Describe a field: `old` is a former name still read, `default` how a computed default comes about."""
    extra = {"kind": kind, "old": old, "default": default, "deprecated": deprecated, "update": update}
    return Meta(description=description, ge=ge, le=le, extra=extra)


def attributes_of(entity: type[Struct], *, create: bool = True) -> tuple[Attribute, ...]:
    """The attributes declared by a Struct, in order of declaration, without what all entities have."""
    described = msgspec.inspect.type_info(entity)
    assert isinstance(described, msgspec.inspect.StructType)
    return tuple(
        _attribute(field, create) for field in described.fields if field.name not in Entity.__struct_fields__
    )


def _attribute(field: msgspec.inspect.Field, create: bool) -> Attribute:
    metadata = _without_none(field.type)
    if not isinstance(metadata, msgspec.inspect.Metadata) or metadata.extra is None:
        raise TypeError(f"attribute {field.encode_name} is declared without about(…)")
    extra: dict[str, Any] = metadata.extra
    bare = metadata.type
    return Attribute(
        name=field.encode_name,
        field=field.name,
        kind=extra["kind"] or _kind(bare),
        description=(metadata.extra_json_schema or {}).get("description", ""),
        default=None if field.required else field.default,
        default_text=extra["default"],
        required=field.required,
        choices=_choices(bare),
        minimum=getattr(bare, "ge", None),
        maximum=getattr(bare, "le", None),
        old_names=(extra["old"],) if extra["old"] else (),
        deprecated=extra["deprecated"],
        create=create,
        update=extra["update"],
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

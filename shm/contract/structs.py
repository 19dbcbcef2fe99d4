"""Structures made from others with fields of the same names."""

from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T", bound=Struct)


def same(source: Struct, kind: type[T], /, **others: Any) -> T:
    """Return a structure with the source's values for fields of the same names, overridden by ``others``.

    A value of None, an absent attribute, becomes the field's default.
    """
    shared = {name: value for name in kind.__struct_fields__ if (value := getattr(source, name, None)) is not None}
    return kind(**shared | others)

"""Set-ups with fields of the same names as their entities."""

from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T", bound=Struct)


def same(entity: Struct, kind: type[T], **others: Any) -> T:
    """Return a set-up with the entity's values for fields of the same names, overridden by ``others``."""
    said = {name: one for name in kind.__struct_fields__ if (one := getattr(entity, name, None)) is not None}
    return kind(**said | others)

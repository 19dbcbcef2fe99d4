"""What a set-up says as the configuration does."""

from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T", bound=Struct)


def same(entity: Struct, kind: type[T], **others: Any) -> T:
    """A set-up that has the entity's values of the same names, where it has some, but for ``others``."""
    said = {name: one for name in kind.__struct_fields__ if (one := getattr(entity, name, None)) is not None}
    return kind(**said | others)

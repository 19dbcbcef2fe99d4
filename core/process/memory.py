"""The memory that a core works on."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Memory(Protocol):
    """The segments the core works on; ordinary anonymous memory in tests."""

    @property
    def control(self) -> "WriteableBuffer": ...
    @property
    def rings(self) -> "WriteableBuffer": ...
    @property
    def flow(self) -> "WriteableBuffer": ...
    @property
    def arenas(self) -> "Sequence[WriteableBuffer]": ...

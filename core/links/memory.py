"""The shared memory that a core works on."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Memory(Protocol):
    """The segments that the core works on. Tests use ordinary anonymous memory."""

    @property
    def control(self) -> "WriteableBuffer": ...
    @property
    def rings(self) -> "WriteableBuffer": ...
    @property
    def flow(self) -> "WriteableBuffer": ...
    @property
    def arenas(self) -> "Sequence[WriteableBuffer]": ...

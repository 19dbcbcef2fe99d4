"""A table by number that one thread changes while another lists it, a portion at a time."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

_BITS: Final = 8  # a chunk has 256 numbers: to copy it takes some microseconds
_INDEX: Final = 0xFFFFFFFF  # what else a number has, such as the generation of a handle, does not spread chunks

Value = TypeVar("Value")


class Chunked(Generic[Value]):
    """Values by number: growing ones, or handles of a pool. A chunk that has become empty takes no memory."""

    def __init__(self) -> None:
        self._chunks: dict[int, dict[int, Value]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._chunks.values()))

    def get(self, number: int) -> Value | None:
        """Return the value of a number, or None."""
        chunk = self._chunks.get((number & _INDEX) >> _BITS)
        return None if chunk is None else chunk.get(number)

    def __setitem__(self, number: int, value: Value) -> None:
        self._chunks.setdefault((number & _INDEX) >> _BITS, {})[number] = value

    def remove(self, number: int) -> None:
        """Remove a number that is there."""
        chunk = self._chunks[(number & _INDEX) >> _BITS]
        del chunk[number]
        if not chunk:
            del self._chunks[(number & _INDEX) >> _BITS]

    def rows(self) -> "Rows[Value]":
        """Return the present values in a stable order: growing numbers in theirs."""
        return Rows(list(self._chunks.values()))


class Rows(Sequence[Value]):
    """Values of a table, which are copied when they are asked for. Those that go meanwhile are left out."""

    def __init__(self, chunks: list[dict[int, Value]]) -> None:
        self._chunks = chunks

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def __iter__(self) -> Iterator[Value]:
        for portion in self.portions():
            yield from portion

    def portions(self) -> Iterator[list[Value]]:
        """Yield all values, some hundreds at a time."""
        for chunk in self._chunks:
            yield list(chunk.values())

    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, slice):
            return self[at : at + 1 or None][0]
        first, last, step = at.indices(len(self))
        found: list[Value] = []
        for chunk in self._chunks:
            if last <= 0:
                break
            if first < len(chunk):
                found += list(chunk.values())[max(0, first) : last]
            first, last = first - len(chunk), last - len(chunk)
        return found[::step]

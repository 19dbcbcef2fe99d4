"""The recent log lines of all processes, for GET-LOG."""

from typing import Any, Final

from shm.memory.journal import LEVELS, journals, merged
from shm.memory.segment import Segments

KEPT: Final = 1000  # recent lines of all processes together
ROOM: Final = 800_000  # bytes of lines in one response


class Recent:
    """The journals of all processes."""

    def __init__(self, segments: Segments) -> None:
        self._journals = journals(segments.control, segments.places)

    def last(self, limit: int | None) -> list[list[Any]]:
        """Return the last lines, oldest first: module, level, text, file, line number, seconds since 1970."""
        lines = merged(self._journals, min(limit or KEPT, KEPT))
        room, first = ROOM, len(lines)
        while first and (room := room - _size(lines[first - 1])) >= 0:
            first -= 1
        return [[*line[:5], int(line[5])] for line in lines[first:]]

    def counts(self) -> dict[str, dict[str, int]]:
        """Return how many lines all processes have written, by module and level."""
        total: dict[str, dict[str, int]] = {}
        for journal in self._journals:
            for module, levels in journal.counts().items():
                counts = total.setdefault(module, dict.fromkeys(LEVELS, 0))
                for level, number in levels.items():
                    counts[level] += number
        return total


def _size(line: list[Any]) -> int:
    return 64 + 4 * len(line[2]) if not line[2].isascii() else 64 + len(line[2])

"""The entity type `logStats`, and GET-LOG: the recent log lines of all processes."""

from typing import Any, Final

from core.management.entity_type import Column, Table, type_column
from core.management.view import View
from shm.memory.journal import LEVELS, journals, merged

KEPT: Final = 1000  # recent lines of all processes together
ROOM: Final = 800_000  # bytes of lines in one response


class Recent:
    """The journals of all processes."""

    def __init__(self, view: View) -> None:
        segments = view.segments
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


def _level(level: str) -> Column:
    return Column(f"{level}Count", "integer", f"Lines of level {level}.", lambda r: r[1].get(level, 0))


class LogStats(Table):
    """The number of lines that all processes have logged, by module."""

    lenient = False
    NAME = "logStats"
    DESCRIPTION = "Lines that a module has logged."
    COLUMNS = (
        Column("name", "string", "logStats/ and the module.", lambda r: f"logStats/{r[0]}"),
        Column("identity", "string", "logStats/ and the module.", lambda r: f"logStats/{r[0]}"),
        type_column("logStats"),
        *map(_level, LEVELS),
    )

    def __init__(self, view: View, recent: Recent) -> None:
        super().__init__()
        self._modules = [entity["module"] for entity in view.management.entities.get("log", ())]
        self._recent = recent

    def rows(self) -> list[tuple[str, dict[str, int]]]:
        counts = self._recent.counts()
        return [(module, counts.get(module, {})) for module in self._modules]

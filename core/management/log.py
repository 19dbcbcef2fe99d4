"""The entity type `logStats`."""

from core.management.entity_type import Column, Table, key_columns
from shm.memory.journal import LEVELS


def _level(level: str) -> Column:
    return Column(f"{level}Count", "integer", f"Lines of the level {level}.", lambda r: r[1].get(level, 0))


class LogStats(Table):
    """The number of lines that all processes have logged, by module."""

    lenient = False
    NAME = "logStats"
    DESCRIPTION = "The number of lines that a log module has written."
    COLUMNS = (
        *key_columns("logStats", "logStats/ and the name of the log module.", lambda r: f"logStats/{r[0]}"),
        *map(_level, LEVELS),
    )

    def rows(self) -> list[tuple[str, dict[str, int]]]:
        counts = self._view.recent.counts()
        modules = (entity["module"] for entity in self._view.entities("log").rows)
        return [(module, counts.get(module, {})) for module in modules]

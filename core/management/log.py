"""The entity types `log` and `logStats`, and what GET-LOG tells: the core's recent log lines."""

import logging
from collections import deque
from typing import Any, Final

from core.management.noun import Column, Table, type_column
from core.management.view import View

KEPT: Final = 1000  # recent lines, of all modules together
LEVELS: Final = ("trace", "debug", "info", "notice", "warning", "error", "critical")


class Recent(logging.Handler):
    """Keeps the last log lines of this process and counts them by module and level."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: deque[list[Any]] = deque(maxlen=KEPT)
        self.counts: dict[str, dict[str, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line as GET-LOG tells it: module, level, text, file, line, seconds since 1970."""
        level = record.levelname.lower()
        counts = self.counts.setdefault(record.name, {})
        counts[level] = counts.get(level, 0) + 1
        line = [record.name, level, record.getMessage(), record.filename, record.lineno, int(record.created)]
        self.lines.append(line)

    def last(self, limit: int | None) -> list[list[Any]]:
        """The last lines, the newest at the end; all of them without a limit."""
        lines = list(self.lines)
        return lines if not limit else lines[-limit:]


def keep_recent(modules: list[str]) -> Recent:
    """Let the loggers of these modules tell us, too, what they write."""
    recent = Recent()
    for module in modules:
        logging.getLogger(module).addHandler(recent)
    return recent


def _level(level: str) -> Column:
    return Column(f"{level}Count", "integer", f"Lines of level {level}.", lambda r: r[1].get(level, 0))


class LogStats(Table):
    """How much the core has logged, by module."""

    lenient = False
    NAME = "logStats"
    DESCRIPTION = "How many lines a module has logged."
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
        return [(module, self._recent.counts.get(module, {})) for module in self._modules]

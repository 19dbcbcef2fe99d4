"""Joins several files of the flow log into one that keeps all their rows and metadata.

    raw files --numbers, footers--> .NAME.tmp --fsync, rename--> compact file

The file's metadata names its sources, the ranges of record numbers by life of the core, and the records lost:
gaps stay known after the raw files are gone, and a lost manifest can be rebuilt.
"""

import json
import logging
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from routerd.recorder.files import FORMAT, publish
from routerd.recorder.rows import ROOM
from shm.contract.flow_log.arrow import SCHEMA
from shm.contract.flow_log.numbers import Numbers, Ranges, numbers
from shm.contract.flow_log.schema import COLUMNS, VERSION, today_name
from shm.contract.numbers import whole

LOGGER = logging.getLogger("ROUTER")

_CODED: Final = [column.name for column in COLUMNS if column.type == "dictionary"]


class _Said:
    """The metadata of source files and their record numbers."""

    def __init__(self) -> None:
        self._numbers = Numbers()
        self._dropped: dict[str, int] = defaultdict(int)
        self._sampling: dict[str, set[int]] = defaultdict(set)
        self.sources: list[str] = []

    def add(self, name: str, footer: dict[bytes, bytes], found: list[Ranges]) -> None:
        """Add a file whose rows have these numbers."""
        self.sources.append(name)
        for ranges in found:
            self._numbers.add(ranges)
        boot = footer.get(b"routerd.flow.boot", b"").decode(errors="replace")
        self._dropped[boot] = max(self._dropped[boot], _number(footer.get(b"routerd.flow.dropped")) or 0)
        if sampling := _number(footer.get(b"routerd.flow.sampling")):
            self._sampling[boot].add(sampling)

    def lives(self) -> dict[str, Any]:
        """Return the value of the metadata key `routerd.flow.lives`."""
        told: dict[str, Any] = {}
        for (boot, worker), ranges in sorted(self._numbers.ranges.items()):
            life = {"sequences": {}, "dropped": self._dropped[boot], "sampling": sorted(self._sampling[boot])}
            told.setdefault(boot, life)["sequences"][str(worker)] = ranges
        return told


def put_together(sources: list[Path], path: Path, router: str) -> dict[Path, str]:
    """Join the readable files into one. Return the reason for each other file. Raises OSError.

    If none is readable, no file is written.
    """
    hidden = path.with_name(f".{path.name}.tmp")
    said, bad = _Said(), {}
    try:
        with hidden.open("wb") as file:
            with pq.ParquetWriter(file, SCHEMA, **FORMAT) as writer:
                for source in sources:
                    if (why := _copy(source, router, writer, said)) is not None:
                        bad[source] = why
                told = {
                    "schema": VERSION,
                    "router": router,
                    "lives": json.dumps(said.lives()),
                    "sources": json.dumps(said.sources),
                }
                writer.add_key_value_metadata({f"routerd.flow.{name}": text for name, text in told.items()})
            file.flush()
            os.fsync(file.fileno())
        if said.sources:
            publish(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)
    return bad


def _copy(source: Path, router: str, writer: pq.ParquetWriter, said: _Said) -> str | None:
    """Copy all rows of a file. Return why if it is not wholly readable, and then copy none."""
    try:
        with pq.ParquetFile(source) as file:
            names = file.schema_arrow.names
            if not names or names != SCHEMA.names[: len(names)]:
                return f"its columns are not those of {VERSION}"
            footer = file.metadata.metadata or {}
        owner = footer.get(b"routerd.flow.router", router.encode()).decode(errors="replace")
        if owner != router:
            return f"it is of the router {owner}"
        coded = [name for name in names if name in _CODED]
        with pq.ParquetFile(source, read_dictionary=coded) as file:
            found = [numbers(table) for table in _groups(file)]  # reads all before it copies any
            for table in _groups(file):
                writer.write_table(table, row_group_size=ROOM)
    except (pa.ArrowException, OSError) as error:
        return str(error)
    said.add(source.name, footer, found)
    return None


def sources_of(path: Path, router: str) -> list[str] | None:
    """Return the raw files that a compacted file names as its sources; None if it names none."""
    try:
        footer = pq.read_metadata(path).metadata or {}
        if footer[b"routerd.flow.router"] != router.encode():
            return None
        return [today_name(str(name), router) for name in json.loads(footer[b"routerd.flow.sources"])]
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError):
        return None


def _groups(file: pq.ParquetFile) -> Iterator["pa.Table"]:
    for group in range(file.num_row_groups):
        yield _whole(file.read_row_group(group)).cast(SCHEMA)


def _whole(table: "pa.Table") -> "pa.Table":
    """Return a table of an earlier version with nulls in the columns that have been added since."""
    for field in list(SCHEMA)[table.num_columns :]:
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table


def _number(text: bytes | None) -> int | None:
    return None if text is None else whole(text)

"""What becomes of the flow log's files: those of closed hours are put together, the oldest are deleted.

    raw/date=…/hour=…/      what the recorder wrote: never changed, deleted a while after it was compacted
    compact/date=…/hour=…/  the same rows of closed hours in few files
    compact/_manifest-ROUTER.json   of each compacted hour: its files, and the raw files whose rows they hold

Whoever reads everything once reads the compact files that the manifests name, and all raw files that they do
not name. A file of ours that cannot be read stays where it is, is named in the log, and is left out.
"""

import json
import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from routerd.recorder.files import FORMAT, publish
from routerd.recorder.rows import ROOM, SCHEMA
from shm.flow import ALL_WORKERS, COLUMNS, COMPACT, RAW, VERSION, file_name, manifest_name
from shm.flow_setup import FlowSetup

LOGGER = logging.getLogger("ROUTER")

SETTLED: Final = timedelta(
    minutes=5
)  # after an hour until its files are put together: all of them are closed then


_CODED: Final = [column.name for column in COLUMNS if column.type == "dictionary"]


class Kept(NamedTuple):
    """A file, as retention sees it; the order is that of deletion."""

    hour: str
    tree: str
    changed: float
    path: Path
    size: int


class Keeper:
    """Looks after the files of one router in a directory that others may use, too."""

    def __init__(self, setup: FlowSetup, router: str) -> None:
        self._setup = setup
        self._root = Path(setup.directory)
        self._prefix = file_name(router, "", 0).split(f"-{ALL_WORKERS}-")[0] + f"-{ALL_WORKERS}-"
        self._router = router
        self._told = self._root / COMPACT / manifest_name(router)
        self._unreadable: set[Path] = set()

    # ---- putting together ----

    def compact(self, now: datetime) -> int:
        """Put the files of past hours together; how many. Raises OSError."""
        if not self._setup.compaction:
            return 0
        manifest, merged = self._manifest(), 0
        for hour, files in self._hours(RAW).items():
            entry = manifest["hours"].get(hour, {"files": [], "sources": []})
            known = {*entry["sources"], *(path.name for path in self._unreadable)}
            fresh = [path for path in files if path.name not in known]
            if not fresh or _end(hour) + SETTLED > now:
                continue
            merged += self._merge(hour, fresh, entry)
            manifest["hours"][hour] = entry
            self._write_manifest(manifest)
        return merged

    def _merge(self, hour: str, sources: list[Path], entry: dict[str, Any]) -> int:
        """One more file of the hour, of all these; how many."""
        path = self._root / COMPACT / hour / file_name(self._router, "compact", len(entry["files"]) + 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        for orphan in path.parent.glob(f"{self._prefix}*.parquet"):  # of a recorder that was killed
            if orphan.name not in entry["files"]:
                orphan.unlink()
        hidden = path.with_name(f".{path.name}.tmp")
        used = []
        try:
            with hidden.open("wb") as file:
                with pq.ParquetWriter(file, SCHEMA, **FORMAT) as writer:
                    for source in sources:
                        used += [source.name] if self._copy(source, writer) else []
                    told = {"routerd.flow.schema": VERSION, "routerd.flow.router": self._router}
                    writer.add_key_value_metadata(told)
                file.flush()
                os.fsync(file.fileno())
            if used:
                publish(hidden, path)
                entry["files"].append(path.name)
                entry["sources"] += used
        finally:
            hidden.unlink(missing_ok=True)
        return len(used)

    def _copy(self, source: Path, writer: pq.ParquetWriter) -> bool:
        """All rows of a file, if all can be read."""
        try:
            with pq.ParquetFile(source) as file:
                if file.schema_arrow.names != SCHEMA.names:
                    raise pa.ArrowInvalid("its columns are not those of " + VERSION)
            with pq.ParquetFile(source, read_dictionary=_CODED) as file:
                for _ in _groups(file):  # all of it can be read: only then any of it is copied
                    pass
                for table in _groups(file):
                    writer.write_table(table, row_group_size=ROOM)
        except (pa.ArrowException, OSError) as error:
            self._unreadable.add(source)
            LOGGER.error("Flow log: %s is left out of the compacted hour: %s", source, error)
            return False
        return True

    def _manifest(self) -> dict[str, Any]:
        try:
            found = json.loads(self._told.read_bytes())
        except FileNotFoundError:
            found = {}
        except ValueError as error:
            LOGGER.error("Flow log: %s is begun anew: %s", self._told, error)
            found = {}
        hours = found.get("hours") if isinstance(found, dict) else None
        return {"schema": VERSION, "router": self._router, "hours": hours if isinstance(hours, dict) else {}}

    def _write_manifest(self, manifest: dict[str, Any]) -> None:
        hidden = self._told.with_name(f".{self._told.name}.tmp")
        with hidden.open("w") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        publish(hidden, self._told)

    # ---- deleting ----

    def delete(self, now: datetime) -> int:
        """Delete what is too old or too much; how many files. Raises OSError. Raw files go before anything is
        written: the disk may be full because of them."""
        manifest = self._manifest() if self._setup.compaction else {"hours": {}}
        going = self._surplus(now, manifest)
        raw = [one for one in going if not one.tree]
        _remove(raw)
        hours = {one.hour for one in going if one.tree} & manifest["hours"].keys()
        for hour in hours:
            del manifest["hours"][hour]
        if hours:  # it never names a file that is gone
            self._write_manifest(manifest)
        whole = [one for one in self._files() if one.tree and (one in going or one.hour in hours)]
        _remove(whole)
        return len(raw) + len(whole)

    def _surplus(self, now: datetime, manifest: dict[str, Any]) -> list[Kept]:
        kept = sorted(self._files())
        total, going = sum(one.size for one in kept), []
        for one in kept:
            age = (now - _end(one.hour)).total_seconds()
            old = 0 < self._setup.keep_seconds <= age
            compacted = not one.tree and one.path.name in manifest["hours"].get(one.hour, {}).get(
                "sources", []
            )
            spare = compacted and age >= self._setup.raw_seconds
            large = 0 < self._setup.keep_bytes < total
            if old or spare or large:
                total -= one.size
                going.append(one)
        return going

    def _files(self) -> Iterator[Kept]:
        for tree in (RAW, COMPACT):
            for hour, paths in self._hours(tree).items():
                for path in paths:
                    status = path.stat()
                    yield Kept(hour, "" if tree == RAW else tree, status.st_mtime, path, status.st_size)

    def _hours(self, tree: str) -> dict[str, list[Path]]:
        """Our files by hour, those of an hour in the order of their names."""
        found: dict[str, list[Path]] = {}
        root = self._root / tree
        for path in sorted(root.glob(f"date=*/hour=*/{self._prefix}*.parquet")):
            hour = f"{path.parent.parent.name}/{path.parent.name}"
            if _start(hour) is not None:
                found.setdefault(hour, []).append(path)
        return found


def _groups(file: pq.ParquetFile) -> Iterator["pa.Table"]:
    for group in range(file.num_row_groups):
        yield file.read_row_group(group).cast(SCHEMA)


def _start(hour: str) -> datetime | None:
    try:
        return datetime.strptime(hour, "date=%Y-%m-%d/hour=%H").replace(tzinfo=UTC)
    except ValueError:
        return None  # a folder of somebody else's


def _end(hour: str) -> datetime:
    start = _start(hour)
    assert start is not None
    return start + timedelta(hours=1)


def _remove(files: list[Kept]) -> None:
    for one in files:
        one.path.unlink(missing_ok=True)
        _remove_empty(one.path.parent)


def _remove_empty(folder: Path) -> None:
    """An hour without files, and a day without hours."""
    for one in (folder, folder.parent):
        try:
            one.rmdir()
        except OSError:
            return

"""Maintains the flow log's files: joins those of closed hours and deletes the oldest.

    raw/date=…/hour=…/      what the recorder wrote: never changed, deleted a while after it was compacted
    compact/date=…/hour=…/  the same rows of closed hours in few files
    compact/_manifest-ROUTER.json   of each compacted hour: its files, and the raw files whose rows they hold

A reader that wants every row once reads the compact files that manifests name, and the raw files that they do
not name. An unreadable file stays in place, is named in the log and is left out. `clock` tells the time, as
the time of day may be wrong.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from routerd.recorder import clock
from routerd.recorder.compacting import put_together, sources_of
from routerd.recorder.files import publish
from routerd.recorder.recovery import recover
from shm.contract.flow_log.schema import ALL_WORKERS, COMPACT, RAW, VERSION, clock_name, file_name, manifest_name
from shm.contract.flow_log.setup import FlowLogSetup

LOGGER = logging.getLogger("ROUTER")

SETTLED: Final = timedelta(minutes=5)  # after an hour its files are closed and can be joined
SPARED: Final = 24  # newest hours before a step of the clock that stay
HOUR: Final = 3600.0


class Kept(NamedTuple):
    """A file for retention; files sort in the order of deletion."""

    hour: str
    tree: str
    changed: float
    path: Path
    size: int


class Keeper:
    """Maintains one router's files in a directory that several routers may share."""

    def __init__(
        self,
        setup: FlowLogSetup,
        router: str,
        ticks: Callable[[], float] = clock.steady,
        life: Callable[[], str] = clock.machine,
    ) -> None:
        self._setup = setup
        self._root = Path(setup.directory)
        self._prefix = file_name(router, "", 0).split(f"-{ALL_WORKERS}-")[0] + f"-{ALL_WORKERS}-"
        self._router = router
        self._told = self._root / COMPACT / manifest_name(router)
        self._unreadable: set[Path] = set()
        self._clock = clock.LogClock(self._root / clock_name(router), ticks, life)
        self._said: dict[str, float] = {}
        self.doubted = 0.0  # seconds by which the time of day seems wrong

    def recover(self, _: datetime) -> int:
        """Make files from what killed recorders left. Return the number of records. Raises OSError."""
        return recover(self._root / RAW, self._router)

    # ---- putting together ----

    def compact(self, now: datetime) -> int:
        """Join the files of past hours. Return how many were written. Raises OSError."""
        if not self._setup.compaction:
            return 0
        manifest, merged = self._manifest(), 0
        if self._adopt(manifest):
            self._write_manifest(manifest)
        for hour, files in self._hours(RAW).items():
            entry = manifest["hours"].get(hour, {"files": [], "sources": []})
            known = set(entry["sources"])
            fresh = [path for path in files if path.name not in known and path not in self._unreadable]
            if not fresh or _end(hour) + SETTLED > now:
                continue
            merged += self._merge(hour, fresh, entry)
            if entry["files"]:
                manifest["hours"][hour] = entry
                self._write_manifest(manifest)
        return merged

    def _merge(self, hour: str, sources: list[Path], entry: dict[str, Any]) -> int:
        """Join files into one more file of the hour. Return how many were written."""
        folder = self._root / COMPACT / hour
        folder.mkdir(parents=True, exist_ok=True)
        there = [number for path in folder.iterdir() if (number := self._number(path)) is not None]
        path = folder / file_name(self._router, "compact", max(there, default=0) + 1)
        bad = put_together(sources, path, self._router)
        for source, why in bad.items():
            LOGGER.error("Flow log: %s is left out of the compacted hour: %s", source, why)
        self._unreadable.update(bad)
        used = [source.name for source in sources if source not in bad]
        if used:
            entry["files"].append(path.name)
            entry["sources"] += used
        return len(used)

    def _number(self, path: Path) -> int | None:
        digits = path.name.removeprefix(f"{self._prefix}compact-").removesuffix(".parquet")
        return int(digits) if digits.isdecimal() and digits.isascii() else None

    def _adopt(self, manifest: dict[str, Any]) -> bool:
        """Add compacted files to the manifest that it lacks. Return whether there were any.

        A recorder may die before it updates the manifest, or the manifest may be lost.
        """
        changed = False
        for hour, files in self._hours(COMPACT).items():
            entry = manifest["hours"].get(hour, {"files": [], "sources": []})
            for path in files:
                if path.name in entry["files"] or path in self._unreadable or self._number(path) is None:
                    continue
                sources = sources_of(path, self._router)
                if sources and not set(sources) & set(entry["sources"]):
                    entry["files"].append(path.name)
                    entry["sources"] += sources
                    manifest["hours"][hour] = entry
                    changed = True
                elif sources and set(sources) <= set(entry["sources"]):
                    path.unlink()  # its rows are in another file
                else:
                    self._unreadable.add(path)
                    LOGGER.error(
                        "Flow log: no manifest names %s, and it does not say which rows it holds, or others "
                        "hold some of them; it stays where it is", path,
                    )  # fmt: skip
        return changed

    def _manifest(self) -> dict[str, Any]:
        try:
            found = json.loads(self._told.read_bytes())
        except FileNotFoundError:
            found = {}
        except (ValueError, RecursionError) as error:
            LOGGER.error("Flow log: %s is damaged and made anew from the files: %s", self._told, error)
            found = {}
        hours = found.get("hours") if isinstance(found, dict) else None
        sound = {hour: one for hour, one in hours.items() if _sound(one)} if isinstance(hours, dict) else {}
        return {"schema": VERSION, "router": self._router, "hours": sound}

    def _write_manifest(self, manifest: dict[str, Any]) -> None:
        hidden = self._told.with_name(f".{self._told.name}.tmp")
        with hidden.open("w") as file:
            json.dump(manifest, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        publish(hidden, self._told)

    # ---- deleting ----

    def delete(self, now: datetime) -> int:
        """Delete files that are too old or beyond the size limit. Return how many. Raises OSError.

        Raw files are deleted before anything is written, as the disk may be full.
        """
        manifest = self._manifest() if self._setup.compaction else {"hours": {}}
        going = self._surplus(now, manifest)
        raw = [one for one in going if not one.tree]
        _remove(raw)
        hours = {one.hour for one in going if one.tree} & manifest["hours"].keys()
        for hour in hours:
            del manifest["hours"][hour]
        if hours:  # the manifest never names a deleted file
            self._write_manifest(manifest)
        whole = [one for one in self._files() if one.tree and (one in going or one.hour in hours)]
        _remove(whole)
        return len(raw) + len(whole)

    def _surplus(self, now: datetime, manifest: dict[str, Any]) -> list[Kept]:
        kept = sorted(self._files())
        ends = {one.hour: _end(one.hour).timestamp() for one in kept}
        reading = self._read_clock(now, max(ends.values(), default=now.timestamp()))
        earlier = sorted((end, hour) for hour, end in ends.items() if end <= reading.spared)
        spared = {hour for _, hour in earlier[-SPARED:]}
        total, going = sum(one.size for one in kept), []
        for one in kept:
            age = reading.time - ends[one.hour]
            old = 0 < self._setup.keep_seconds <= age and one.hour not in spared
            sources = manifest["hours"].get(one.hour, {}).get("sources", [])
            twice = not one.tree and one.path.name in sources and age >= self._setup.raw_seconds
            large = 0 < self._setup.keep_bytes < total
            if old or twice or large:
                total -= one.size
                going.append(one)
        return going

    def _read_clock(self, now: datetime, newest: float) -> clock.Reading:
        """Return the clock's reading; log a time of day that is not believed."""
        wall = now.timestamp()
        reading = self._clock.read(wall, newest, self._setup.keep_seconds)
        self.doubted = reading.step
        if reading.step:
            self._tell(
                "step", wall,
                "Flow log: the time of day, %s, is %.1f h %s than expected after the time that has passed since the "
                "last maintenance. Until it has stood for a day, or is corrected, no file is deleted for the age "
                "that it gives. Check this host's clock",
                _shown(wall), abs(reading.step) / 3600, "later" if reading.step > 0 else "earlier",
            )  # fmt: skip
        if reading.believed:
            LOGGER.warning(
                "Flow log: the time of day has stood for a day since it stepped; the age of files goes by it "
                "again, and the newest %d hours from before the step stay for retentionAge more", SPARED,
            )  # fmt: skip
        if newest > wall + HOUR + clock.STEP:
            self._tell(
                "future", wall,
                "Flow log: %s has files of the hour that ends at %s, and the time of day is %s: "
                "one of the two is wrong. Check this host's clock", self._root, _shown(newest), _shown(wall),
            )  # fmt: skip
        return reading

    def _tell(self, what: str, wall: float, text: str, *args: object) -> None:
        """Log a line at most once an hour by the time of day, or after it has stepped."""
        if abs(wall - self._said.get(what, float("-inf"))) >= HOUR:
            self._said[what] = wall
            LOGGER.warning(text, *args)

    def _files(self) -> Iterator[Kept]:
        for tree in (RAW, COMPACT):
            for hour, paths in self._hours(tree).items():
                for path in paths:
                    status = path.stat()
                    yield Kept(hour, "" if tree == RAW else tree, status.st_mtime, path, status.st_size)

    def _hours(self, tree: str) -> dict[str, list[Path]]:
        """Return this router's files by hour, sorted by name."""
        found: dict[str, list[Path]] = {}
        root = self._root / tree
        for path in sorted(root.glob(f"date=*/hour=*/{self._prefix}*.parquet")):
            hour = f"{path.parent.parent.name}/{path.parent.name}"
            if _start(hour) is not None:
                found.setdefault(hour, []).append(path)
        return found


def _sound(entry: object) -> bool:
    """Whether a value is a valid entry of the manifest."""
    lists = [entry.get(key) for key in ("files", "sources")] if isinstance(entry, dict) else [None]
    return all(isinstance(one, list) and all(isinstance(name, str) for name in one) for one in lists)


def _start(hour: str) -> datetime | None:
    try:
        return datetime.strptime(hour, "date=%Y-%m-%d/hour=%H").replace(tzinfo=UTC)
    except ValueError:
        return None  # not a folder of the flow log


def _end(hour: str) -> datetime:
    start = _start(hour)
    assert start is not None
    return start + timedelta(hours=1)


def _shown(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _remove(files: list[Kept]) -> None:
    for one in files:
        one.path.unlink(missing_ok=True)
        _remove_empty(one.path.parent)


def _remove_empty(folder: Path) -> None:
    """Remove the folder of an hour without files, and of a day without hours."""
    for one in (folder, folder.parent):
        try:
            one.rmdir()
        except OSError:
            return

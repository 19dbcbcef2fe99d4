"""What runs computed of each hour of the log, and keep for the next run.

    rollup-ID/NAME/date=YYYY-MM-DD/hour=HH/   the rollup NAME of an hour
    rollup-ID/sum_NAME/date=YYYY-MM-DD/       what hours of a day add up to (`pipeline.daily`)
    rollup-ID/ranks_NAME/                     the ranges by which a sum was condensed
    run-ID/hours.json                         the manifest of a run: of each hour the numbers of its records, and the
                                              files of its rollups; of each sum its days with their hours, and files

A file of a rollup never changes. Its hour is computed again, into another rollup-ID, once it has other records.
The manifest becomes valid with its run, by the same rename. What no valid manifest names is what a killed run left, or
what a later one replaced: the next run removes such directories.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pyarrow import fs

from pipeline.output.directory import FILE, ID, Output
from pipeline.record_sets import Records, covers, united

MANIFEST: Final = "hours.json"
ROLLUP: Final = f"rollup-{ID}"
_PARTITION: Final = r"date=\d{4}-\d\d-\d\d/(?:hour=\d\d/)?"
# What Spark puts there, finished or not.
HOLDS: Final = rf"\w+/(?:_temporary/(?:[\w=-]+/)*(?:{FILE})?|{_PARTITION}|(?:{_PARTITION})?{FILE})?"


@dataclass(slots=True)
class Kept:
    """What is kept of an hour: the numbers of its records, and by rollup its files, relative to the output."""

    records: Records
    files: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class Day:
    """What is kept of a day in a sum: its hours, with a digest of the files of each, and the files of the sum."""

    hours: dict[str, str]
    files: list[str]


@dataclass(slots=True)
class Sum:
    """What is kept of a sum: its days, and if it is condensed, the files with the ranges, of how many hours these were
    made, and how many hours came since."""

    days: dict[str, Day] = field(default_factory=dict)
    ranges: list[str] = field(default_factory=list)
    made_of: int = 0
    since: int = 0

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> "Sum":
        """Return what a manifest says of a sum."""
        return cls(**{**said, "days": {day: Day(**one) for day, one in said["days"].items()}})

    def paths(self) -> Iterable[list[str]]:
        """Return the files of each day, and those of the ranges."""
        return [self.ranges, *(one.files for one in self.days.values())]


class Rollups:
    """The rollups in an output, as the manifest ``valid`` of a run names them; ``version`` is what they must have."""

    def __init__(self, output: Output, valid: str, version: str) -> None:
        self._output = output
        self._version = version
        self.hours: dict[str, Kept] = {}
        self.sums: dict[str, Sum] = {}
        self.known: Mapping[str, Any] = {}
        read = manifest(output, valid)
        if read.get("schema") == version:
            self.known = read["log"]
            self.sums = {name: Sum.read(one) for name, one in read["sums"].items()}
        for hour, one in read.get("hours", {}).items():
            files = one["files"] if read["schema"] == version else {}
            self.hours[hour] = Kept([tuple(row) for row in one.get("records", ())], files)

    def keep(self, records: Mapping[str, Records]) -> None:
        """Forget hours that the log has otherwise, by their records, or not at all, and rollups that are gone."""
        self.hours = {hour: one for hour, one in self.hours.items() if records.get(hour) == one.records}
        self.forget_gone()
        for hour in records.keys() - self.hours.keys():
            self.hours[hour] = Kept(records[hour])

    def forget_gone(self) -> None:
        """Forget rollups of which a file is not there any more."""
        there = {name for one in self._directories() for name in below(self._output, one)}
        for one in self.hours.values():
            one.files = {name: files for name, files in one.files.items() if there.issuperset(files)}
        self.sums = {name: one for name, one in self.sums.items() if there.issuperset(one.ranges)}
        for summed in self.sums.values():
            summed.days = {day: one for day, one in summed.days.items() if there.issuperset(one.files)}

    def take(self, records: Mapping[str, Records]) -> dict[str, Records]:
        """Have hours computed again of which a log has more records than before; what it has no longer stays.

        Returns what is kept of hours of which the log has other records, and not all of those it had: only the others
        are to be computed, and added. Raises ``PipelineError`` if rollups are gone, and so are their records.
        """
        self.forget_gone()
        lasting: dict[str, Records] = {}
        for hour, now in records.items():
            had = self.hours[hour].records if hour in self.hours else []
            if covers(had, now):
                continue
            if covers(now, had):
                self.hours[hour] = Kept(now)
            else:
                lasting[hour] = had
                self.hours[hour].records = united([*had, *now])
        return lasting

    def forget(self, hour: str, keep: Collection[str]) -> None:
        """Forget the rollups of an hour but these: new records are not added to the others."""
        one = self.hours[hour]
        one.files = {name: files for name, files in one.files.items() if name in keep}

    def missing(self, name: str, hours: Iterable[str]) -> list[str]:
        """Return the hours of which a rollup must be computed."""
        return [hour for hour in hours if name not in self.hours[hour].files]

    def add(self, name: str, hours: Iterable[str], directory: str) -> None:
        """Keep a rollup of these hours, which is in a directory of the output: an hour may have nothing in it."""
        found: dict[str, list[str]] = {hour: [] for hour in hours}
        for path in below(self._output, f"{directory}/{name}"):
            _, _, date, hour, _ = path.split("/")
            if (written := f"{date.partition('=')[2]}T{hour.partition('=')[2]}") in found:
                found[written].append(path)
        for hour, files in found.items():
            self.hours[hour].files[name] = sorted(files)

    def digests(self, name: str, hours: Iterable[str]) -> dict[str, str]:
        """Return what is equal for each hour as long as its rollup is in the same files."""
        return {hour: _digest(self.hours[hour].files[name]) for hour in hours}

    def files(self, name: str, hours: Iterable[str]) -> list[str]:
        """Return the files of a rollup, as Spark wants them."""
        return [self._output.url(self._output.path(one)) for hour in hours for one in self.hours[hour].files[name]]

    def by_hour(self, name: str, hours: Iterable[str]) -> dict[str, list[str]]:
        """Return the files of a rollup by hour, relative to the output."""
        return {hour: self.hours[hour].files[name] for hour in hours}

    def size(self, name: str, hours: Iterable[str]) -> int:
        """Return the bytes of a rollup's files."""
        return size(self._output, [one for hour in hours for one in self.hours[hour].files[name]])

    def text(self, known: Mapping[str, Any]) -> str:
        """Return the manifest; ``known`` is what the next run need not read of the log."""
        hours = {hour: {"records": one.records, "files": one.files} for hour, one in sorted(self.hours.items())}
        sums = {name: asdict(one) for name, one in sorted(self.sums.items())}
        said = {"schema": self._version, "hours": hours, "sums": sums, "log": known}
        return json.dumps(said, separators=(",", ":")) + "\n"

    def _directories(self) -> set[str]:
        hourly = (files for one in self.hours.values() for files in one.files.values())
        return _directories([*hourly, *(files for one in self.sums.values() for files in one.paths())])


def below(output: Output, directory: str) -> list[str]:
    """Return the Parquet files in a directory of rollups, relative to the output."""
    infos = output.files.get_file_info(fs.FileSelector(output.path(directory), recursive=True, allow_not_found=True))
    start = len(output.root.strip("/")) + 1
    paths = [info.path.lstrip("/")[start:] for info in infos if info.type == fs.FileType.File]
    return [path for path in paths if path.endswith(".parquet") and "/_" not in path and "/." not in path]


def manifest(output: Output, run: str) -> dict[str, Any]:
    """Return the manifest of a run; nothing if it has none that can be read: all hours are then computed again."""
    try:
        with output.files.open_input_file(output.path(f"{run}/{MANIFEST}")) as file:
            read = json.loads(file.read())
            return dict(read) if isinstance(read["hours"], dict) and isinstance(read["log"], dict) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def named(output: Output, run: str) -> set[str]:
    """Return the directories in which the rollups are that the manifest of a run names."""
    return _directories(_named(manifest(output, run)))


def trim(output: Output, run: str) -> None:
    """Remove what directories of rollups hold of hours that were computed again into others, by the manifest of a run.

    So an output has as many files after a thousand runs as after one.
    """
    wanted = {path for files in _named(manifest(output, run)) for path in files}
    for directory in {path.partition("/")[0] for path in wanted}:
        partitions = {path.rpartition("/")[0] for path in below(output, directory)}
        for partition in sorted(partitions - {path.rpartition("/")[0] for path in wanted}):
            if output.gave(directory):
                output.remove(output.path(partition), FILE)


def _named(said: Mapping[str, Any]) -> list[list[str]]:
    """Return the lists of files that a manifest names."""
    hourly = [files for one in said.get("hours", {}).values() for files in one["files"].values()]
    return hourly + [files for one in said.get("sums", {}).values() for files in Sum.read(one).paths()]


def size(output: Output, paths: Iterable[str]) -> int:
    """Return the bytes of files, whose paths are relative to the output."""
    return sum(info.size or 0 for info in output.files.get_file_info([output.path(one) for one in paths]))


def _digest(files: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(files).encode(), digest_size=8).hexdigest()


def _directories(lists: Iterable[Iterable[str]]) -> set[str]:
    return {path.partition("/")[0] for files in lists for path in files}

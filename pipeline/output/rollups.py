"""What runs computed of each hour of the log, and keep for the next run.

    rollup-ID/NAME/date=YYYY-MM-DD/hour=HH/   the rollup NAME of an hour
    run-ID/hours.json                         the manifest of a run: of each hour the sums of its records, and the files
                                              of its rollups

A file of a rollup never changes. Its hour is computed again, into another rollup-ID, once its records have other sums.
The manifest becomes valid with its run, by the same rename. What no valid manifest names is what a killed run left, or
what a later one replaced: the next run removes such directories.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyarrow import fs

from pipeline.output.directory import FILE, ID, Output

MANIFEST: Final = "hours.json"
ROLLUP: Final = f"rollup-{ID}"
_PARTITION: Final = r"date=\d{4}-\d\d-\d\d/(?:hour=\d\d/)?"
# What Spark puts there, finished or not.
HOLDS: Final = rf"\w+/(?:_temporary/(?:[\w=-]+/)*(?:{FILE})?|{_PARTITION}|(?:{_PARTITION})?{FILE})?"


@dataclass(slots=True)
class Kept:
    """What is kept of an hour: ``sums`` of its records, and by rollup its files, relative to the output."""

    sums: str
    files: dict[str, list[str]] = field(default_factory=dict)


class Rollups:
    """The rollups in an output, as the manifest ``valid`` of a run names them; ``version`` is what they must have."""

    def __init__(self, output: Output, valid: str, version: str) -> None:
        self._output = output
        self._version = version
        self.hours: dict[str, Kept] = {}
        self.known: Mapping[str, Any] = {}
        read = manifest(output, valid)
        if read.get("schema") == version:
            self.hours = {hour: Kept(one["sums"], one["files"]) for hour, one in read["hours"].items()}
            self.known = read["log"]

    def keep(self, sums: Mapping[str, str]) -> None:
        """Forget hours that the log has otherwise, by ``sums``, or not at all, and rollups whose files are gone."""
        there = {name for one in self._directories() for name in self._below(one)}
        self.hours = {
            hour: Kept(sums[hour], {name: files for name, files in one.files.items() if there.issuperset(files)})
            for hour, one in self.hours.items()
            if sums.get(hour) == one.sums
        }
        for hour in sums.keys() - self.hours.keys():
            self.hours[hour] = Kept(sums[hour])

    def missing(self, name: str, hours: Iterable[str]) -> list[str]:
        """Return the hours of which a rollup must be computed."""
        return [hour for hour in hours if name not in self.hours[hour].files]

    def add(self, name: str, hours: Iterable[str], directory: str) -> None:
        """Keep a rollup of these hours, which is in a directory of the output: an hour may have nothing in it."""
        found: dict[str, list[str]] = {hour: [] for hour in hours}
        for path in self._below(directory):
            _, rollup, date, hour, _ = path.split("/")
            if rollup == name:
                found[f"{date.partition('=')[2]}T{hour.partition('=')[2]}"].append(path)
        for hour, files in found.items():
            self.hours[hour].files[name] = sorted(files)

    def files(self, name: str, hours: Iterable[str]) -> list[str]:
        """Return the files of a rollup, as Spark wants them."""
        return [self._output.url(self._output.path(one)) for hour in hours for one in self.hours[hour].files[name]]

    def text(self, known: Mapping[str, Any]) -> str:
        """Return the manifest; ``known`` is what the next run need not read of the log."""
        hours = {hour: {"sums": one.sums, "files": one.files} for hour, one in sorted(self.hours.items())}
        return json.dumps({"schema": self._version, "hours": hours, "log": known}, separators=(",", ":")) + "\n"

    def _directories(self) -> set[str]:
        return _directories(files for one in self.hours.values() for files in one.files.values())

    def _below(self, directory: str) -> list[str]:
        """Return the Parquet files in a directory of rollups, relative to the output."""
        root = self._output.path(directory)
        infos = self._output.files.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        start = len(self._output.root.strip("/")) + 1
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
    hours = manifest(output, run).get("hours", {})
    return _directories(files for one in hours.values() for files in one["files"].values())


def _directories(lists: Iterable[Iterable[str]]) -> set[str]:
    return {path.partition("/")[0] for files in lists for path in files}

"""The results of runs in a directory of ours: each run has its own, and one name leads to the last.

    run-ID/            the tables of one run, its summary.json, and what it knows of hours (`pipeline.output.rollups`)
    rollup-ID/         what it computed of hours, for later runs
    current -> run-ID  the last run that ended well; where there are no links, a file with that name in it
    report.html, plan.rt   what was made from them

    (nothing) --begin--> run-ID is being made --publish--> current --next publish--> former --next begin-->
    removed; a failed run is removed at once, a killed one by the next begin

Only directories called run-ID and rollup-ID are removed, and .NAME-ID, an unfinished file, all with an ID that this
output gave. A run into which somebody put something stays. A reader has the results of a run until the second run after
it begins.
"""

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyarrow import fs

from pipeline.errors import PipelineError
from pipeline.output import rollups
from pipeline.output.columns import TABLES, VERSION
from pipeline.output.directory import DAY, FILE, ID, RESULTS, TABLE, Output
from pipeline.output.rollups import MANIFEST, ROLLUP, named

SUMMARY: Final = "summary.json"
CURRENT: Final = "current"
REPORT: Final = "report.html"
PLAN: Final = "plan.rt"
RUN: Final = f"run-{ID}"
HALF: Final = rf"\.(?:{CURRENT}|report\.html|plan\.rt)-{ID}"  # an unfinished file
HOLDS: Final = rf"summary\.json|{re.escape(MANIFEST)}|(?:{'|'.join(TABLES)})/(?:{TABLE})?"  # a run
# By these words we recognise a file of ours before we replace it.
SIGNS: Final = {REPORT: '<meta name="generator" content="routerd pipeline">', PLAN: "newrt|start|plan-"}
# What file systems without links say.
NO_LINKS: Final = (errno.EPERM, errno.EMLINK, errno.EXDEV, errno.EOPNOTSUPP, errno.ENOSYS)
AGAIN: Final = "`routerd pipeline run` makes them there"


class Generation:
    """The results of one run."""

    def __init__(self, output: Output, name: str, former: str = "") -> None:
        self.output = output
        self.name = name
        self.former = former  # the last run that ended well when this one began
        self.root = output.path(name)
        self.rollup = f"rollup-{name[-32:]}"  # its ID shows that this output gave it

    def table(self, name: str) -> str:
        """Return the path of a table, as Spark wants it."""
        return self.output.url(f"{self.root}/{name}")

    def stable(self, name: str) -> str:
        """Return a path of a table that stays valid when the next run is published, where there are links."""
        linked = self.output.local and Path(self.output.path(CURRENT)).is_symlink()
        return self.output.url(self.output.path(f"{CURRENT}/{name}")) if linked else self.table(name)

    def files(self, name: str) -> list[str]:
        """Return the paths of a table's files, as pyarrow wants them."""
        return [f"{self.root}/{name}/{part}" for part in self._parts(name)]

    def link(self, name: str, files: Mapping[str, list[str]]) -> bool:
        """Make a table of files of rollups by hour, as links to the same content; return whether that is possible.

        Files of several hours may have the same name.
        """
        if not self.output.local or not any(files.values()):
            return False
        folder = Path(self.root, name)
        folder.mkdir()
        try:
            for hour, paths in files.items():
                for path in paths:
                    stem = path.rpartition("/")[2].removesuffix(".parquet")
                    os.link(self.output.path(path), folder / f"{stem}.{hour}.parquet")
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            self.output.remove(str(folder), FILE)  # this file system has no such links
            return False
        return True

    def rows(self, name: str) -> int:
        """Return how many rows a table has, by the footers of its files."""
        total = 0
        for part in self.files(name):
            with self.output.files.open_input_file(part) as file:
                total += pq.read_metadata(file).num_rows
        return total

    def publish(self, said: dict[str, Any], hours: str = "") -> None:
        """Let readers have this run in place of the former one.

        ``said`` goes into its summary, and ``hours`` is the manifest for the next run, if there is one.
        """
        files = self.output.files
        tables = [name for name, kind in self.output.entries(self.root).items() if kind == fs.FileType.Directory]
        said = {"schema": VERSION, **said, "tables": {name: self._parts(name) for name in sorted(tables)}}
        with files.open_output_stream(f"{self.root}/{SUMMARY}") as stream:
            stream.write((json.dumps(said, indent=1) + "\n").encode())
        if hours:
            with files.open_output_stream(f"{self.root}/{MANIFEST}") as stream:
                stream.write(hours.encode())
        if self.output.local:
            _settle(Path(self.output.path(self.rollup)))
            _settle(Path(self.root))
            pointed(self.output)  # refuses what somebody may have put there meanwhile
            fresh = self.output.path(self.output.fresh(f".{CURRENT}"))
            _point(Path(fresh), self.name)
            os.replace(fresh, self.output.path(CURRENT))
        else:
            with files.open_output_stream(self.output.path(CURRENT)) as stream:
                stream.write(f"{self.name}\n".encode())

    def lacks(self, table: str) -> PipelineError:
        """Return the error that a table is not among the results."""
        return PipelineError(f"{self.root} has no table {table}: {self._maker()} without `--tables` makes it")

    def strange(self, table: str, why: str) -> PipelineError:
        """Return the error that the columns of a table are not those declared."""
        return PipelineError(
            f"in {self.root} the table {table} is not as routerd writes it ({why}): {self._maker()} makes it anew"
        )

    def _maker(self) -> str:
        return f"`routerd pipeline {'stream' if self.output.belongs(DAY) else 'run'}`"

    def summary(self) -> dict[str, Any]:
        """Return the run's summary. Raises ``PipelineError`` if it cannot be read."""
        try:
            with self.output.files.open_input_file(f"{self.root}/{SUMMARY}") as file:
                said = dict(json.loads(file.read()))
        except (OSError, ValueError, TypeError) as error:
            raise self._torn(f"{SUMMARY} cannot be read") from error
        return said

    def check(self) -> None:
        """Raise ``PipelineError`` unless all tables are there, as the run made them, and of this version."""
        said = self.summary()
        tables, version = said.get("tables"), said.get("schema", "no schema")
        if version != VERSION:
            raise PipelineError(
                f"the results in {self.output.directory} have {version}, and this version of routerd reads {VERSION}: "
                f"{AGAIN}"
            )
        if not isinstance(tables, dict) or not tables:
            raise self._torn(f"{SUMMARY} names no tables")
        for name, parts in tables.items():
            there = self._parts(name)
            if there != parts:
                what = "is not there" if not there else "is not the one that the run made"
                raise self._torn(f"the table {name} {what}")

    def write_text(self, name: str, text: str) -> str:
        """Write a file beside the runs in place of the former one, and return its path.

        Raises ``PipelineError`` if a file of that name exists which we did not make.
        """
        files, target = self.output.files, self.output.path(name)
        replaceable(self.output, name)
        # Where a rename is a copy, a file that is written appears as a whole.
        fresh = self.output.path(self.output.fresh(f".{name}")) if self.output.renames else target
        with files.open_output_stream(fresh) as stream:
            stream.write(text.encode())
        if fresh != target:
            if self.output.local:
                _sync(Path(fresh))  # half a file would be refused as somebody else's after a crash of the machine
            files.move(fresh, target)
        return target if self.output.local else self.output.url(target)

    def is_there(self) -> bool:
        """Return whether the run still exists."""
        return self.output.has(f"{self.root}/{SUMMARY}")

    def remove(self) -> None:
        """Remove a failed run. If Spark is still writing, that fails, and the next run removes it."""
        with suppress(OSError, PipelineError):
            if pointed(self.output) == self.name:
                return  # the run ended well and was interrupted afterwards
            for path, holds in ((self.output.path(self.rollup), rollups.HOLDS), (self.root, HOLDS)):
                with suppress(OSError, PipelineError):
                    self.output.remove(path, holds)

    def _parts(self, table: str) -> list[str]:
        """Return the names of a table's files, which are unique among runs."""
        there = self.output.entries(f"{self.root}/{table}")
        return sorted(name for name in there if not name.startswith((".", "_")))

    def _torn(self, why: str) -> PipelineError:
        return PipelineError(
            f"{self.output.directory} holds no complete results: in {self.name} {why}; `routerd pipeline run` "
            "makes them anew"
        )


def replaceable(output: Output, name: str) -> None:
    """Raise ``PipelineError`` if a file beside the runs exists which we did not make."""
    if output.has(output.path(name)) and not output.starts(name, SIGNS[name]):
        raise PipelineError(
            f"{output.path(name)} is there already, and routerd did not make it: move it away, and start again"
        )


def begin(output: Output) -> Generation:
    """Make a place for the results of a run in a claimed output; remove all runs but the last, and unused rollups.

    Raises ``PipelineError`` if `current` is not ours, or the directory cannot be written to.
    """
    former = pointed(output)
    fresh = Generation(output, output.fresh("run"), former)
    try:
        output.sweep(RUN, HOLDS, keep=(former,))
        output.sweep(ROLLUP, rollups.HOLDS, keep=named(output, former))
        rollups.trim(output, former)
        output.sweep(HALF)
        output.files.create_dir(fresh.root, recursive=True)
    except OSError as error:
        raise PipelineError(f"{output.directory} cannot be written to: {error.strerror or error}") from error
    return fresh


@contextmanager
def begun(output: Output) -> Iterator[Generation]:
    """Give what `begin` makes, and remove it again if it fails."""
    made = begin(output)
    try:
        yield made
    except BaseException:
        made.remove()
        raise


def current(directory: str) -> Generation:
    """Return the last run that ended well. Raises ``PipelineError`` if there is none, or its results are incomplete."""
    output = Output(directory)
    if not output.belongs(RESULTS) and not output.belongs(DAY):
        raise PipelineError(f"{directory} holds no results: {AGAIN}")
    name = pointed(output)
    if not name:
        raise PipelineError(f"{directory} holds no results yet, no run has ended well: {AGAIN}")
    found = Generation(output, name)
    found.check()
    return found


def last_said(output: Output, what: str) -> int:
    """Return a number of the last run that ended well, such as its `records`; 0 without one, or if it does not say."""
    try:
        return int(Generation(output, name).summary()[what]) if (name := pointed(output)) else 0
    except (PipelineError, KeyError, TypeError, ValueError):
        return 0


@contextmanager
def read(directory: str) -> Iterator[Generation]:
    """Give `current` to a reader; a run that ends meanwhile does not change it.

    Raises ``PipelineError`` as `current` does, or because two runs later the results are gone.
    """
    found = current(directory)
    try:
        yield found
    except Exception as error:
        if not found.is_there():
            raise PipelineError(
                f"the results in {directory} were replaced more than once while they were read: start again"
            ) from error
        raise


def pointed(output: Output) -> str:
    """Return the name of the last run that ended well, or "". Raises ``PipelineError`` if `current` is not ours."""
    path = output.path(CURRENT)
    if not output.local:
        if not output.has(path):
            return ""
        with output.files.open_input_file(path) as file:
            name = str(file.read(), errors="replace").strip()
    else:
        try:
            name = os.readlink(path)
        except FileNotFoundError:
            return ""
        except OSError:
            name = _said(Path(path))  # it is not a link
            if Path(path).is_dir():
                raise PipelineError(
                    f"{path} is a directory and not a link to a run, as in a copy that followed links: copy the "
                    "output with `cp -a`, or move that directory away"
                ) from None
    if not re.fullmatch(RUN, name):
        raise PipelineError(f"{path} does not name a run of routerd, so routerd did not make it: move it away")
    return name


def _point(path: Path, name: str) -> None:
    """Make a link to a run, or where there are none, a file with its name."""
    try:
        os.symlink(name, path)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        with path.open("x") as file:
            file.write(f"{name}\n")
        _sync(path)


def _said(path: Path) -> str:
    """Return what a small file says; nothing if it is none."""
    try:
        with path.open("rb") as file:
            return file.read(1 << 8).decode(errors="replace").strip()
    except OSError:
        return ""


def _settle(root: Path) -> None:
    """Write a directory to disk, so that it survives a crash of the machine."""
    for folder, _, names in os.walk(root):
        for path in (*(Path(folder, name) for name in names), Path(folder)):
            _sync(path)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)

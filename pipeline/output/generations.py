"""The results of runs in a directory of ours: each run's apart, and a name for those of the last one.

    run-ID/            the tables of one run, and its summary.json
    current -> run-ID  the last run that ended well; on a file system with a URL a file with that name in it
    report.html, plan.rt   what was made from them

    (nothing) --begin--> run-ID is being made --publish--> current --next publish--> former --next begin-->
    removed; a run that fails is removed at once, one that was killed by the next begin

Only directories called run-ID are removed, and .NAME-ID, a file that was being written, both with an ID that
this output gave; a run that somebody put something into stays. Whoever reads the results of a run has them
until the run behind the next one begins.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pyarrow import fs

from pipeline.errors import PipelineError
from pipeline.output.directory import ID, RESULTS, TABLE, Output

SUMMARY: Final = "summary.json"
CURRENT: Final = "current"
REPORT: Final = "report.html"
PLAN: Final = "plan.rt"
RUN: Final = f"run-{ID}"
HALF: Final = rf"\.(?:{CURRENT}|report\.html|plan\.rt)-{ID}"  # a file that did not get its name
TABLES: Final = (
    *("flows", "traffic", "quarters", "load", "endpoints", "links", "hops", "journeys", "taken", "ways"),
    *("talkers", "conversations", "unheard", "entities", "findings", "processes", "advice"),
)
HOLDS: Final = rf"summary\.json|(?:{'|'.join(TABLES)})/(?:{TABLE})?"  # a run
# How we know a file for our own, before we put another in its place.
SIGNS: Final = {REPORT: '<meta name="generator" content="routerd pipeline">', PLAN: "newrt|start|plan-"}
AGAIN: Final = "`routerd pipeline run` makes them there"


class Generation:
    """The results of one run."""

    def __init__(self, output: Output, name: str) -> None:
        self.output = output
        self.name = name
        self.root = output.path(name)

    def table(self, name: str) -> str:
        """Where the table stands, as Spark wants it."""
        return self.output.url(f"{self.root}/{name}")

    def publish(self, said: dict[str, Any]) -> None:
        """Let readers have it in place of the former one, with what the run says of itself."""
        files = self.output.files
        tables = [name for name, kind in self.output.entries(self.root).items() if kind == fs.FileType.Directory]
        said = {**said, "tables": {name: self._parts(name) for name in sorted(tables)}}
        with files.open_output_stream(f"{self.root}/{SUMMARY}") as stream:
            stream.write((json.dumps(said, indent=1) + "\n").encode())
        if self.output.local:
            _settle(Path(self.root))
            _pointed(self.output)  # whatever may have been put there meanwhile
            fresh = self.output.path(self.output.fresh(f".{CURRENT}"))
            os.symlink(self.name, fresh)
            os.replace(fresh, self.output.path(CURRENT))
        else:
            with files.open_output_stream(self.output.path(CURRENT)) as stream:
                stream.write(f"{self.name}\n".encode())

    def summary(self) -> dict[str, Any]:
        """What the run said of itself. Raises PipelineError: nothing that can be read."""
        try:
            with self.output.files.open_input_file(f"{self.root}/{SUMMARY}") as file:
                said = dict(json.loads(file.read()))
        except (OSError, ValueError, TypeError) as error:
            raise self._torn(f"{SUMMARY} cannot be read") from error
        return said

    def check(self) -> None:
        """Raises PipelineError: its tables are not those that its run made, or not all of them."""
        tables = self.summary().get("tables")
        if not isinstance(tables, dict) or not tables:
            raise self._torn(f"{SUMMARY} names no tables")
        for name, parts in tables.items():
            there = self._parts(name)
            if there != parts:
                what = "is not there" if not there else "is not the one that the run made"
                raise self._torn(f"the table {name} {what}")

    def write_text(self, name: str, text: str) -> str:
        """Write a file beside the runs, in place of the one that was made before; where it stands.

        Raises PipelineError: a file of that name is there which we did not make.
        """
        files, target = self.output.files, self.output.path(name)
        if self.output.has(target):
            try:
                with files.open_input_stream(target) as stream:
                    ours = SIGNS[name].encode() in stream.read(1 << 16)
            except OSError:
                ours = False
            if not ours:
                raise PipelineError(
                    f"{target} is there already, and routerd did not make it: move it away, and start again"
                )
        fresh = self.output.path(self.output.fresh(f".{name}"))
        with files.open_output_stream(fresh) as stream:
            stream.write(text.encode())
        files.move(fresh, target)
        return target

    def is_there(self) -> bool:
        """Whether it has not been removed."""
        return self.output.has(f"{self.root}/{SUMMARY}")

    def remove(self) -> None:
        """Its run did not end well. Where Spark is still writing, that fails, and is the next run's to do."""
        with suppress(OSError, PipelineError):
            if _pointed(self.output) != self.name:  # otherwise it ended well, and was interrupted then
                self.output.remove(self.root, HOLDS)

    def _parts(self, table: str) -> list[str]:
        """The files of a table. Their names are of one run, and no other has them."""
        there = self.output.entries(f"{self.root}/{table}")
        return sorted(name for name in there if not name.startswith((".", "_")))

    def _torn(self, why: str) -> PipelineError:
        return PipelineError(
            f"{self.output.directory} holds no whole results: in {self.name} {why}; `routerd pipeline run` "
            "makes them anew"
        )


def begin(output: Output) -> Generation:
    """A place for the results of a run, in an output that is claimed; what runs before the last left goes.

    Raises PipelineError: `current` is not ours, the directory cannot be written to.
    """
    pointed = _pointed(output)
    fresh = Generation(output, output.fresh("run"))
    try:
        output.sweep(RUN, HOLDS, keep=pointed)
        output.sweep(HALF)
        output.files.create_dir(fresh.root, recursive=True)
    except OSError as error:
        raise PipelineError(f"{output.directory} cannot be written to: {error.strerror or error}") from error
    return fresh


def current(directory: str) -> Generation:
    """The results of the last run that ended well. Raises PipelineError: there are none that are whole."""
    output = Output(directory)
    if not output.belongs(RESULTS):
        raise PipelineError(f"{directory} holds no results: {AGAIN}")
    pointed = _pointed(output)
    if not pointed:
        raise PipelineError(f"{directory} holds no results yet, no run has ended well: {AGAIN}")
    found = Generation(output, pointed)
    found.check()
    return found


@contextmanager
def read(directory: str) -> Iterator[Generation]:
    """`current`, for as long as it is read: a run that ends meanwhile changes nothing in it.

    Raises PipelineError: as `current`; or two runs later it is gone.
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


def _pointed(output: Output) -> str:
    """The last run that ended well; empty: none. Raises PipelineError: what points to it is not ours."""
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
            name = ""  # it is no link
            if Path(path).is_dir():
                raise PipelineError(
                    f"{path} is a directory and no link to a run, as in a copy that followed links: copy the "
                    "output with `cp -a`, or move that directory away"
                ) from None
    if not re.fullmatch(RUN, name):
        raise PipelineError(f"{path} does not name a run of routerd, so it is somebody else's: move it away")
    return name


def _settle(root: Path) -> None:
    """What is in a directory survives a crash of the machine."""
    for folder, _, names in os.walk(root):
        for path in (*(Path(folder, name) for name in names), Path(folder)):
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(file)
            finally:
                os.close(file)

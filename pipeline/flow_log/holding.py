"""The log as it was at the start: its files are kept open, so Spark can still read those that retention deletes.

A run reads hours of the log several times within minutes, and the router deletes its oldest files meanwhile. An open
file exists until it is closed, and Spark on the same machine reads it as /proc/PID/fd/NUMBER. Spark elsewhere, or with
a log that has a URL, reads files by their names, and a deleted file ends the run.
"""

import fcntl
import os
import re
import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyarrow import fs

from pipeline.errors import DeletedError, PipelineError
from pipeline.files import file_system
from pipeline.flow_log.survey import GONE, LogFile, Skipped, Survey, survey

ABOVE: Final = 1024  # leaves the lower file numbers to code that needs them
TRIES: Final = 3  # to survey a log while it does not change


class Held:
    """Files of a survey, which stay readable until this is closed."""

    def __init__(self, source: str) -> None:
        self._files, _ = file_system(source)
        self._open: dict[str, int] = {}
        self._named: dict[str, str] = {}

    def take(self, files: list[LogFile]) -> list[LogFile]:
        """Keep as many files open as possible, the oldest first; return those that are gone."""
        _allow(len(files))
        local = isinstance(self._files, fs.LocalFileSystem)
        gone = []
        for file in sorted(files, key=lambda one: one.path.split("/")[-3:]):  # date=…/hour=…/NAME
            try:
                if local and file.path not in self._open:
                    self._keep(file.path)
            except FileNotFoundError:
                gone.append(file)
            except OSError:
                local = False  # no more may be open
        return gone

    def _keep(self, path: str) -> None:
        low = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._open[path] = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, ABOVE)
        finally:
            os.close(low)
        self._named[f"/proc/{os.getpid()}/fd/{self._open[path]}"] = path

    @property
    def places(self) -> Mapping[str, str]:
        """Where each file can be read on this machine, by path."""
        return {path: place for place, path in self._named.items() if path in self._open}

    def failed(self, found: Survey, error: Exception) -> Exception:
        """Return a better error for one that Spark had while it read the files."""
        for place in re.findall(r"/proc/\d+/fd/\d+", str(error)):
            if path := self._named.get(place):
                return PipelineError(f"{path} cannot be read by Spark: move it away, and start again")
        inputs = [file.path for file in (*found.clean, *found.tangled)]
        gone = [
            info.path
            for info in self._files.get_file_info(inputs)
            if info.type == fs.FileType.NotFound and info.path not in self._open
        ]
        if not gone:
            return error
        return DeletedError(
            f"{gone[0]} was deleted while the log was read ({len(gone)} of {len(inputs)} files), so the "
            "former results stay: start again, or have the router keep its files longer (`retentionAge`, "
            "`retentionSize`)"
        )

    def close(self) -> None:
        """Close the files; they can be read by their names only."""
        for number in self._open.values():
            os.close(number)
        self._open.clear()


@contextmanager
def held(source: str, look: Callable[[str], Survey] = survey) -> Iterator[tuple[Survey, Held]]:
    """Survey a log and keep its files open. Those deleted meanwhile are among the skipped.

    Raises ``PipelineError`` as `survey` does.
    """
    kept = Held(source)
    went: set[str] = set()
    try:
        for _ in range(TRIES):  # the rows of a deleted file may be in a new compacted one
            found = look(source)
            gone = {file.path for file in kept.take([*found.clean, *found.tangled])}
            missed = gone | {one.path for one in found.skipped if one.reason == GONE}
            went |= missed
            if not missed:
                break
        _leave_out(found, gone, went)
        yield found, kept
    finally:
        kept.close()


def _leave_out(found: Survey, gone: set[str], went: set[str]) -> None:
    """Skip files: ``gone`` ones of the survey, and ``went``, those that any survey missed."""
    found.clean = [file for file in found.clean if file.path not in gone]
    found.tangled = [file for file in found.tangled if file.path not in gone]
    known = {one.path for one in found.skipped} | found.replaced
    found.skipped += [Skipped(path, GONE) for path in sorted(went - known)]


def _allow(files: int) -> None:
    """Raise the limit of open files as far as necessary and permitted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ABOVE + files + 256
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft not in (resource.RLIM_INFINITY,) and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def places_for(spark: Any, kept: Held) -> Mapping[str, str]:
    """Return where Spark reads the files; on another machine it can only use their names."""
    return kept.places if str(spark.sparkContext.master).startswith("local") else {}

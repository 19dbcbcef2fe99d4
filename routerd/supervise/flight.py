"""Keeps what the flight recorder held when the core died, as a file for each death (docs/replay.md)."""

import calendar
import errno
import logging
import os
import re
import threading
import time
from itertools import pairwise
from mmap import mmap
from pathlib import Path
from typing import Final

from routerd.config.entities.route_tables import state_file
from routerd.log.log import NOTICE, event
from routerd.supervise.child import Death
from shm.contract.failures import NO_THREAD, start_thread
from shm.memory import flight
from shm.memory.flight import RecordingError

LOGGER = logging.getLogger("SERVER")

KEPT: Final = 8  # files of a router
ROW_SECONDS: Final = 3600  # deaths that follow each other in less belong together
END_SECONDS: Final = 5.0  # for a file that is being written when the supervisor ends
SUFFIX: Final = ".flight"
_MOMENT: Final = "%Y%m%dT%H%M%SZ"
_LOST: Final = "The core's last records are lost"


def directory(configured: str | None) -> Path | None:
    """Return where recordings are kept, or None: nowhere."""
    if configured:
        return Path(configured)
    folder = state_file("flight")
    return Path(folder) if folder else None


class Keeper:
    """Writes the records of dead cores of a router to files, in a thread, one at a time."""

    def __init__(self, folder: Path | None, router: str, version: str) -> None:
        self._folder, self._router, self._version = folder, router, version
        self._prefix = re.sub(r"[^A-Za-z0-9._-]", "_", router)
        self._writer: threading.Thread | None = None

    def check(self) -> None:
        """Make the folder, and warn if records could not be kept in it."""
        if self._folder is None:
            _warn(
                "The flight recorder's records will be lost: no directory is configured for them; set flightDirectory"
            )
            return
        why = ""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(self._folder, os.W_OK | os.X_OK):
                why = _remedy(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
        except OSError as error:
            why = _remedy(error)
        if why:
            _warn(f"The flight recorder's records will be lost: {self._folder} cannot be written: {why}")

    def keep(self, ring: mmap, death: Death, why: str) -> None:
        """Copy what a dead core's ring holds, and begin to write it to a file.

        The next core may begin at once. What cannot be kept is told of.
        """
        if self._folder is None:
            _warn(f"{_LOST}: no directory is configured for them; set flightDirectory")
            return
        if self._writer is not None and self._writer.is_alive():
            _warn(f"{_LOST}: those of the core before it are still being written; wait for a slow disk, or replace it")
            return
        try:
            head = flight.header(ring)
            if (head.generation, head.pid) != (death.generation, death.pid):
                raise RecordingError("it died before it recorded anything")
            recording = flight.take(ring, self._router, self._version, why, running=False)
        except RecordingError as error:
            _warn(f"{_LOST}: {error}")
            return
        except MemoryError:
            _warn(f"{_LOST}: there is no memory for a copy of them; lower flightRecords")
            return
        name = f"{self._prefix}-{time.strftime(_MOMENT, time.gmtime())}-{death.generation:06}{SUFFIX}"
        self._writer = start_thread("flight recorder", self._write, self._folder, name, recording)
        if self._writer is None:
            _warn(f"{_LOST}: there is no thread to write them; {NO_THREAD}")

    def end(self) -> None:
        """Wait a moment for the file that is being written."""
        if self._writer is not None:
            self._writer.join(END_SECONDS)
            if self._writer.is_alive():
                _warn(f"{_LOST}: their file was not written in {END_SECONDS:g} s; look for a slow disk")

    def _write(self, folder: Path, name: str, recording: flight.Taken) -> None:
        path = folder / name
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(folder)
            recording.write(path)
        except OSError as error:
            _warn(f"{_LOST}: {path} cannot be written: {_remedy(error)}")
            return
        event(LOGGER, NOTICE, "The core's last records are kept: routerd replay runs them again", file=str(path))

    def _make_room(self, folder: Path) -> None:
        """Remove what a killed supervisor has left half written, and files beyond those that are kept, but for one."""
        whole = re.compile(rf"{re.escape(self._prefix)}-(\d{{8}}T\d{{6}}Z)-\d{{6,}}{re.escape(SUFFIX)}")
        files: list[tuple[int, str]] = []
        for name in sorted(os.listdir(folder)):
            if (found := whole.fullmatch(name)) is not None:
                files.append((_seconds(found[1]), name))
            elif name.startswith(".") and name[-9:-8] == "." and whole.fullmatch(name[1:-9]):
                (folder / name).unlink(missing_ok=True)
        files.sort()
        while len(files) >= KEPT:
            (folder / files.pop(_dispensable([moment for moment, _ in files]))[1]).unlink(missing_ok=True)


def _dispensable(moments: list[int]) -> int:
    """Return which of the kept files goes: the first, or the second if all are of one row of deaths.

    The first death of a row has the cause, and those that follow may be its consequences.
    """
    moments = [*moments, int(time.time())]
    row = all(after - before < ROW_SECONDS for before, after in pairwise(moments))
    return int(row)


def _seconds(moment: str) -> int:
    try:
        return calendar.timegm(time.strptime(moment, _MOMENT))
    except ValueError:  # digits that are no date
        return 0


def _remedy(error: OSError) -> str:
    """Return what is wrong, and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error.strerror}; make room there"
    return f"{error.strerror}; set flightDirectory to a folder that the router may write (ReadWritePaths= in the unit)"


def _warn(text: str) -> None:
    event(LOGGER, logging.WARNING, text)

"""Where a process's log lines go: a file, standard error, standard output. Nobody waits for a log.

    works --write fails, or is not ready--> lost (lines are counted) --write succeeds--> works

Prohibited: raising because of a line, or waiting longer than `PATIENCE_MS` for who reads the other end of a
pipe. A file that was moved away or removed - rotated - is opened anew within a second.
"""

import contextlib
import os
import select
import stat
import time

LOOK_SECONDS = 1.0  # whether a file still has its name
PATIENCE_MS = 50  # for a full pipe or terminal, once; then its lines are lost until it takes some again
ATOMIC = 4096  # bytes that a pipe which is ready takes without blocking


class LogError(Exception):
    """A log cannot be written to where the configuration wants it."""


class Output:
    """One open output. Raises LogError when it cannot be opened; afterwards lines are lost, and counted."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lost = 0  # lines since the last one that was written
        self.why = ""
        self._torn = False  # the last line is there in part
        self._file = name not in ("stderr", "stdout")
        self._descriptor = _open(name) if self._file else 2 if name == "stderr" else 1
        self._waits = not self._file or not stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._looked = time.monotonic()

    def write(self, text: str) -> bool:
        """A line, or several, in one write(); False: lost."""
        self._look()
        data = text.encode("utf-8", "backslashreplace") + b"\n"
        try:
            self._write(b"\n" + data if self._torn else data)
        except OSError as error:
            self._lose(error.strerror or type(error).__name__)
            return False
        self.lost, self._torn = 0, False
        return True

    def close(self) -> None:
        if self._file:
            os.close(self._descriptor)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            if self._waits and not self._ready():
                self._torn = self._torn or len(rest) < len(data)
                raise BlockingIOError(0, "nobody reads it")
            written = os.write(self._descriptor, rest[:ATOMIC] if self._waits else rest)
            if written < len(rest) and not self._waits:
                self._torn = True  # the disk is full from here on: the next attempt says why
            rest = rest[written:]

    def _ready(self) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(0 if self.lost else PATIENCE_MS))

    def _lose(self, why: str) -> None:
        if not self.lost and self._file:  # somebody may look at standard error
            first = f"log {self.name} cannot be written: {why}; lines are lost until it can\n"
            poll = select.poll()
            poll.register(2, select.POLLOUT)
            if poll.poll(0):
                with contextlib.suppress(OSError):  # nowhere is left to say it
                    os.write(2, first.encode("utf-8", "backslashreplace"))
        self.lost += 1
        self.why = why

    def _look(self) -> None:
        """Open the file anew if its name is another's, or nobody's."""
        now = time.monotonic()
        if not self._file or now < self._looked + LOOK_SECONDS:
            return
        self._looked = now
        try:
            there = os.stat(self.name)
            if os.path.samestat(there, os.fstat(self._descriptor)):
                return
        except OSError:
            pass  # it is gone
        try:
            fresh = _open(self.name)
        except LogError:
            return  # the old one, wherever it is, is better than none
        os.close(self._descriptor)
        self._descriptor, self._torn = fresh, False


def _open(name: str) -> int:
    try:
        return os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o640)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LogError(
            f"log outputFile {name!r} cannot be written ({reason}); "
            "give a file in a directory that the router may write to, or stderr"
        ) from error

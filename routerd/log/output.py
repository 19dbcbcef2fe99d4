"""Outputs of a process's log: a file, standard error, standard output. No process waits for its log.

    works --write fails, or is not ready--> lost (lines are counted) --write succeeds--> works
    shut, when the process starts: lines go to standard error --it can be opened--> works

Prohibited: raising because of a line, or waiting longer than `PATIENCE_MS` for the reader of a pipe. A file
that was moved or removed, as log rotation does, is opened again within a second; so is one that could not be
opened.
"""

import contextlib
import errno
import logging
import os
import select
import socket
import stat
import time

from routerd.log.journald import for_stderr

LOOK_SECONDS = 1.0  # between two checks that a file still has its name
PATIENCE_MS = 50  # for a full pipe or terminal, once; then lines are lost until it takes some
SYSTEM_LOG = "/dev/log"
READ_ONLY_ADVICE = (
    "its disk is mounted read-only, or ProtectSystem= of the systemd unit makes it so for the router; "
    "give a file in /var/log/routerd, or stderr"
)
ATOMIC = 4096  # PIPE_BUF: bytes that a writable pipe takes without blocking (pipe(7))


class LogError(Exception):
    """A log cannot be written where the configuration wants it; the text names the output and the reason."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"log outputFile {name!r} cannot be written ({why}); {READ_ONLY_ADVICE}"
            if why == os.strerror(errno.EROFS)
            else f"log outputFile {name!r} cannot be written ({why}); "
            "give a file in a directory that the router may write to, or stderr"
        )
        self.name, self.why = name, why


class Output:
    """An output. Raises LogError if it is ``needed`` and cannot be opened; later failures lose lines."""

    def __init__(self, name: str, *, needed: bool = True) -> None:
        self.name = name
        self.lost = 0  # lines lost since the last one written
        self.why = ""
        self.shut: LogError | None = None  # set until the first success in opening it
        self._instead: Output | None = None  # takes lines while this one is shut
        self._torn = False  # the last line was written only in part
        self._file = name not in ("stderr", "stdout")
        self._descriptor = -1
        self._looked = time.monotonic()
        try:
            self._take(_open(name) if self._file else 2 if name == "stderr" else 1)
        except LogError as error:
            if needed:
                raise
            self.shut, self._instead = error, Output("stderr")
            self.why = f"{error.why}; they went to standard error"

    @property
    def gap(self) -> int:
        """Return how many lines were lost before the next one, if the output is ready to take it."""
        self._look()
        return 0 if self.shut else self.lost

    def write(self, text: str, instead: str = "") -> bool:
        """Write lines in one write(); return False if lost. ``instead`` is their form on standard error."""
        self._look()
        if self._instead is not None:
            self.lost += 1
            return self._instead.write(instead or text)
        data = text.encode("utf-8", "backslashreplace") + b"\n"
        try:
            self._write(b"\n" + data if self._torn else data)
        except OSError as error:
            self._lose(error.strerror or type(error).__name__)
            return False
        self.lost, self._torn = 0, False
        return True

    def close(self) -> None:
        if self._file and self._descriptor >= 0:
            os.close(self._descriptor)

    def _take(self, descriptor: int) -> None:
        """Use an open descriptor from now on."""
        self.shut, self._instead = None, None
        self._descriptor, self._torn = descriptor, False
        self._waits = not self._file or not stat.S_ISREG(os.fstat(descriptor).st_mode)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            if self._waits and not self._ready():
                self._torn = self._torn or len(rest) < len(data)
                raise BlockingIOError(0, "nobody reads it")
            written = os.write(self._descriptor, rest[:ATOMIC] if self._waits else rest)
            if written < len(rest) and not self._waits:
                self._torn = True  # the disk is full; the next attempt says why
            rest = rest[written:]

    def _ready(self) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(0 if self.lost else PATIENCE_MS))

    def _lose(self, why: str) -> None:
        if not self.lost and self._file:  # an operator may read standard error
            text = f"log {self.name} cannot be written: {why}; lines are lost until it can"
            first = for_stderr(text, logging.ERROR) + "\n"
            poll = select.poll()
            poll.register(2, select.POLLOUT)
            if poll.poll(0):
                with contextlib.suppress(OSError):  # standard error fails as well
                    os.write(2, first.encode("utf-8", "backslashreplace"))
        self.lost += 1
        self.why = why

    def _look(self) -> None:
        """Open the file again if its name is gone or another file has it."""
        now = time.monotonic()
        if not self._file or now < self._looked + LOOK_SECONDS:
            return
        self._looked = now
        try:
            there = os.stat(self.name)
            if os.path.samestat(there, os.fstat(self._descriptor)):
                return
        except OSError:
            pass  # the file is gone
        try:
            fresh = _open(self.name)
        except LogError:
            return  # the old file, wherever it is, is better than none
        self.close()
        self._take(fresh)


class SystemLog:
    """syslog, or the journal in its place, through its socket: syslog(3) would wait for one that hangs.

    A line that the socket does not take at once is lost and counted.
    """

    def __init__(self) -> None:
        self.lost = 0  # lines lost since the last one taken
        self.why = ""
        self._socket: socket.socket | None = None

    def write(self, priority: int, text: str) -> bool:
        """Send a line with a syslog priority, facility included (RFC 3164, 4.1.1); return False if lost."""
        head = f"<{priority}>{time.strftime('%b %e %H:%M:%S')} routerd[{os.getpid()}]: "
        data = (head + text).encode("utf-8", "backslashreplace")
        try:
            try:
                self._connected().send(data)
            except (ConnectionError, FileNotFoundError):  # the service was restarted
                self.close()
                self._connected().send(data)
        except OSError as error:
            self.lost += 1
            self.why = "nobody reads it" if isinstance(error, BlockingIOError) else error.strerror or str(error)
            return False
        self.lost = 0
        return True

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            try:
                opened.connect(SYSTEM_LOG)
            except OSError:
                opened.close()
                raise
            self._socket = opened
        return self._socket


def _open(name: str) -> int:
    try:
        return os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o640)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise LogError(name, reason or str(error)) from error

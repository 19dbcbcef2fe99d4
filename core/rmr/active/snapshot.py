"""Snapshots: files that keep the route table in use for the next core and the router's next start.

The file is a route table and a MEID map in the parser's format, so it can also serve as a seed. Its first
line is a comment that describes it (``Kept``). The last is one with a digest of everything before it, which
reveals a file that was cut short or changed. A new file replaces the former one in one step.
"""

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from core.rmr.tables import writing
from core.rmr.tables.decoding import lossless
from core.rmr.tables.table import Table
from shm.contract.failures import failures
from shm.contract.text import cause

LOGGER = logging.getLogger("ROUTER_CORE")

LIMIT: Final = 1 << 30  # octets
_KIND: Final = b"# routerd stash "
_HEAD: Final = f"{_KIND.decode()}1 "
_END: Final = "# end "
_MODE: Final = 0o600


class SnapshotError(Exception):
    """The file is no valid snapshot. The text says why."""


class Kept(msgspec.Struct, frozen=True):
    """What a snapshot says of itself.

    ``stamp`` identifies the seed, if nothing has changed it; it is empty for a table that was pushed or came
    from a Route Manager. ``installed`` is in seconds since 1970.
    """

    table: str
    table_id: str = ""
    map_id: str = ""
    origin: str = ""
    installed: int = 0
    stamp: tuple[int, ...] = ()


class Use(msgspec.Struct, frozen=True):
    """What a snapshot keeps."""

    about: Kept
    table: Table | None
    owners: Mapping[str, str]

    def text(self) -> Iterator[str]:
        """Yield the lines of the file except the last. At a `PAUSE` other work may run."""
        yield _HEAD + msgspec.json.encode(self.about).decode()
        if self.table is not None:
            yield from writing.table_lines(self.table, writing.clean_id(self.about.table_id))
        if self.owners:
            yield from writing.map_lines(self.owners, (), writing.clean_id(self.about.map_id))


def read(path: Path) -> tuple[Kept, str]:
    """Return the description and text of a snapshot. Raises SnapshotError."""
    try:
        found = path.stat()
        if found.st_size > LIMIT:
            raise SnapshotError(f"the file is longer than {LIMIT} octets")
        if found.st_uid not in (0, os.geteuid()):
            raise SnapshotError("the file belongs to another user")
        content = path.read_bytes()
    except OSError as error:
        raise SnapshotError(f"the file cannot be read: {error.strerror}") from error
    body, _, last = content.removesuffix(b"\n").rpartition(b"\n")
    body += b"\n"
    if last.decode("ascii", "replace") != _END + _digest(body).hexdigest():
        raise SnapshotError("the file was changed: its digest differs or is missing")
    head = body.partition(b"\n")[0].removeprefix(_HEAD.encode())
    try:
        return msgspec.json.decode(head, type=Kept), lossless(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"its first line is invalid: {error}") from error


class Keeper:
    """Writes snapshots piece by piece, one file after the other, and always the latest of each."""

    def __init__(self) -> None:
        self._waiting: dict[str, Use] = {}  # by path
        self._writing: _File | None = None
        self._said: set[str] = set()

    @property
    def busy(self) -> bool:
        """Whether there is something to write."""
        return self._writing is not None or bool(self._waiting)

    def put(self, path: str, use: Use | None) -> None:
        """Schedule a snapshot, or without a use remove it."""
        self._waiting.pop(path, None)
        if use is not None:
            self._waiting[path] = use
            return
        if self._writing is not None and self._writing.path == path:
            self._writing.leave()
            self._writing = None
        try:
            if _ours(path):
                Path(path).unlink(missing_ok=True)
        except OSError as error:
            text = "The file %s of a route table no longer in use cannot be removed: %s; delete it by hand"
            LOGGER.warning(text, path, error.strerror)

    def step(self) -> None:
        """Write a piece. An error is logged once for each file, and the former file stays."""
        try:
            if self._writing is None:
                path = next(iter(self._waiting))
                self._writing = _File(path, self._waiting.pop(path))
            if self._writing.write():
                self._said.discard(self._writing.path)
                self._writing = None
        except Exception as error:  # writing the rest would fail again and again
            if not isinstance(error, (OSError, SnapshotError)):
                failures.tell("keeping a route table", error, "the former file stays")
            failed, self._writing = self._writing, None
            path = path if failed is None else failed.path
            if failed is not None:
                failed.leave()
            if path not in self._said:
                text = "The route table in use cannot be kept in %s: %s; a new core will not have it"
                LOGGER.warning(text, path, cause(error))
            self._said.add(path)

    def flush(self) -> None:
        """Write everything that is scheduled."""
        while self.busy:
            self.step()


class _File:
    """A snapshot that is being written next to the former file."""

    def __init__(self, path: str, use: Use) -> None:
        self.path = path
        self._beside = f"{path}.new"
        self._text = writing.Text("", use.text())
        self._digest = _digest()
        if not (_ours(path) and _ours(self._beside)):
            raise SnapshotError("the file is no snapshot and stays; configure another file or move it away")
        Path(self._beside).unlink(missing_ok=True)
        self._fd = os.open(self._beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)

    def write(self) -> bool:
        """Write another piece. Return True once the file is complete and has replaced the former one."""
        text = self._text
        if not text.complete:
            text.write()
            for piece in text.pieces:
                self._digest.update(piece)
                _write(self._fd, piece)
            text.pieces.clear()
            return False
        _write(self._fd, f"{_END}{self._digest.hexdigest()}\n".encode())
        os.fsync(self._fd)
        os.close(self._fd)
        self._fd = -1
        os.replace(self._beside, self.path)
        return True

    def leave(self) -> None:
        """Stop writing and remove the unfinished file."""
        fd, self._fd = self._fd, -1
        with suppress(OSError):  # the caller has logged why
            if fd >= 0:
                os.close(fd)
        with suppress(OSError):
            Path(self._beside).unlink(missing_ok=True)


def _ours(path: str) -> bool:
    """Whether a file may be replaced or removed: it is missing, empty or a snapshot."""
    try:
        with open(path, "rb") as file:
            begin = file.read(len(_KIND))
    except FileNotFoundError:
        return True
    return not begin or begin == _KIND


def _digest(content: bytes = b"") -> "hashlib.blake2b":
    return hashlib.blake2b(content, digest_size=16)


def _write(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]

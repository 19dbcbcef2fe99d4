"""The spool: what was read and stands in no complete file yet, so that a killed recorder loses none of it.

    ring --a turn--> .NAME.spool, and then its room is given back --NAME is complete--> the spool is removed

It begins with a header; behind it stand, for each turn, the names and links that its records are the
first to use, and the records as they are in the ring. Whoever writes it holds a lock on it, which the system
takes from a dead process: one that can be locked was left behind, and `recovery` makes the file of it. What
ends in the middle was not finished: its records are in the ring still.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from shm.native import TELEMETRY_RECORD, TELEMETRY_ROOM, FlowColumns, FlowReader

ENOUGH: Final = 256 << 20  # octets, with which the file is ended: they take room on the disk
FORM: Final = 1  # of the spool and of the records in it: another one is not read
_MAGIC: Final = b"spl\n"
_ENTRY: Final = struct.Struct(
    "<4sIIIqQQ"
)  # magic, octets of the notes, of the records, nothing, and as in Entry
_NOTES: Final = 64 << 20  # octets; all names and links that there can be take less

Link = tuple[int, int, int, int]


class Head(msgspec.Struct, frozen=True):
    """Whose spool it is, and of which file; ``started`` and ``generation`` as in the ring."""

    router: str
    boot: str
    started: int
    generation: int
    number: int
    begun: datetime
    sampling: int
    form: int = FORM
    record: int = TELEMETRY_RECORD


class Notes(msgspec.Struct):
    """Names and links by their ids, as a `FlowReader` gives them."""

    names: dict[int, bytes] = {}
    links: dict[int, Link] = {}


class Entry(NamedTuple):
    """A turn. ``offset``: time of day at monotonic 0; ``behind``: the place in the ring behind its records;
    ``dropped``: as the ring said then."""

    notes: Notes
    records: bytes
    offset: int
    behind: int
    dropped: int


class Noting:
    """A reader for `Rows` that notes the names and links it gives, and leaves what it reads in the ring."""

    def __init__(self, reader: FlowReader) -> None:
        self._reader = reader
        self._known: set[tuple[str, int]] = set()
        self.fresh = Notes({}, {})

    def read(self, columns: FlowColumns, offset: int) -> int:
        return self._reader.read(columns, offset, keep=True)

    def name(self, number: int) -> bytes | None:
        found = self._reader.name(number)
        if found is not None and ("name", number) not in self._known:
            self.fresh.names[number] = found
        return found

    def link(self, number: int) -> Link | None:
        found = self._reader.link(number)
        if found is not None and ("link", number) not in self._known:
            self.fresh.links[number] = found
        return found

    def noted(self) -> None:
        """What is fresh is in the spool."""
        self._known |= {("name", number) for number in self.fresh.names}
        self._known |= {("link", number) for number in self.fresh.links}
        self.fresh = Notes({}, {})

    def forget(self) -> None:
        """The next spool knows nothing yet."""
        self._known.clear()
        self.fresh = Notes({}, {})


class Spool:
    """One that is being written, of the file at ``path``. After an OSError only ``remove`` is left to do."""

    def __init__(self, path: Path, head: Head) -> None:
        self._path = spool_of(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(f"{self._path.name}.tmp")
        self._file = fresh.open("wb", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.size = 0
            self._put(_entry(msgspec.msgpack.encode(head), 0, 0, 0, 0), [])
            fresh.rename(self._path)  # nobody finds it before it is locked
        except OSError:
            self._file.close()
            fresh.unlink(missing_ok=True)
            raise

    def write(self, reader: FlowReader, notes: Notes, first: int, offset: int) -> None:
        """Add what the reader has read from the place ``first`` on."""
        records = reader.records(first)
        try:
            said = msgspec.msgpack.encode(notes)
            length = sum(len(one) for one in records)
            self._put(_entry(said, length, offset, reader.place, reader.dropped), records)
        finally:
            for one in records:
                one.release()

    def _put(self, first: bytes, records: list[memoryview]) -> None:
        written = os.writev(self._file.fileno(), [first, *records])
        self.size += written
        if written != len(first) + sum(len(one) for one in records):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def remove(self) -> None:
        """Its file is complete, or will never be."""
        try:
            self._path.unlink(missing_ok=True)
        finally:
            self._file.close()


def spool_of(path: Path) -> Path:
    """Where the spool of a file stands."""
    return path.with_name(f".{path.name}.spool")


def file_of(spool: Path) -> Path:
    """The file that a spool is of."""
    return spool.with_name(spool.name.removeprefix(".").removesuffix(".spool"))


def lock(file: BinaryIO) -> bool:
    """Hold a spool; False: a recorder that lives does."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def head(file: BinaryIO) -> Head | None:
    """The header of a spool; None: it makes no sense, or it is not whole."""
    found = _read(file, records=False)
    try:
        return None if found is None else msgspec.msgpack.decode(found[1], type=Head)
    except msgspec.MsgspecError:
        return None


def entries(file: BinaryIO, *, records: bool = True) -> Iterator[Entry]:
    """What is whole behind the header; with or without the records."""
    while (found := _read(file, records=records)) is not None:
        (_, _, _, _, offset, behind, dropped), said, taken = found
        try:
            notes = msgspec.msgpack.decode(said, type=Notes)
        except msgspec.MsgspecError:
            return
        yield Entry(notes, taken, offset, behind, dropped)


def _entry(said: bytes, records: int, offset: int, behind: int, dropped: int) -> bytes:
    return _ENTRY.pack(_MAGIC, len(said), records, 0, offset, behind, dropped) + said


def _read(file: BinaryIO, *, records: bool) -> tuple[tuple[int, ...], bytes, bytes] | None:
    """The next entry, whatever it is; None: there is none, or it ends in the middle."""
    start = file.read(_ENTRY.size)
    if len(start) < _ENTRY.size or not start.startswith(_MAGIC):
        return None
    told = _ENTRY.unpack(start)
    left = os.fstat(file.fileno()).st_size - file.tell()
    if told[1] > _NOTES or told[2] > TELEMETRY_ROOM * TELEMETRY_RECORD or told[1] + told[2] > left:
        return None
    said = file.read(told[1])
    if records:
        return told, said, file.read(told[2])
    file.seek(told[2], os.SEEK_CUR)
    return told, said, b""

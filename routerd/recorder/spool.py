"""The spool: a file of the records that are in no complete file yet, so that a killed recorder loses none.

    ring --a turn--> .NAME.spool, and then its room is given back --NAME is complete--> the spool is removed

A header comes first, then an entry for each turn: the names and links that its records use first, and the
records as they are in the ring. Its writer holds a lock on it (flock(2)), which dies with the process: a
spool that can be locked was left behind, and `recovery` makes its file. An entry that is cut
off was not finished: its records are still in the ring.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from datetime import datetime
from mmap import mmap
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from shm.native import TELEMETRY_RECORD, TELEMETRY_ROOM, FlowColumns, FlowReader

ENOUGH: Final = 256 << 20  # octets of a spool that end its file, to bound the disk space
FORM: Final = 2  # the version of spool and records
FORMS: Final = (1, FORM)  # those that are read; 1 had neither user nor host in its links
FURTHER: Final = 2  # the first form whose records say whether they are of a further copy
_MAGIC: Final = b"spl\n"
_ENTRY: Final = struct.Struct(
    "<4sIIIqQQ"
)  # magic, octets of notes, octets of records, padding, and the fields of Entry
_NOTES: Final = 64 << 20  # octets; more than all possible names and links take

Link = tuple[int, int, int, int, int, int]


class Head(msgspec.Struct, frozen=True):
    """Names the spool's router and file; ``started`` and ``generation`` are those of the ring."""

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
    """Names and links by their ids, as a `FlowReader` returns them."""

    names: dict[int, bytes] = {}
    links: dict[int, tuple[int, ...]] = {}

    def add(self, more: "Notes") -> None:
        self.names |= more.names
        self.links |= more.links


class Entry(NamedTuple):
    """The records of a turn.

    ``offset`` is the time of day at monotonic 0 in ns, ``behind`` the place in the ring after the records and
    ``dropped`` the ring's count of dropped records.
    """

    notes: Notes
    records: bytes
    offset: int
    behind: int
    dropped: int


class NotingReader(FlowReader):
    """A reader that notes names and links, and leaves its records in the ring."""

    fresh: Notes  # not in the spool yet

    def __init__(self, memory: mmap) -> None:
        self.forget()

    def read(self, columns: FlowColumns, offset: int, keep: bool = True) -> int:
        return super().read(columns, offset, keep)

    def name(self, id: int) -> bytes | None:
        found = super().name(id)
        if found is not None and id not in self._noted.names:
            self.fresh.names[id] = found
        return found

    def link(self, id: int) -> Link | None:
        found = super().link(id)
        if found is not None and id not in self._noted.links:
            self.fresh.links[id] = found
        return found

    def noted(self) -> None:
        """Mark all notes as written to the spool."""
        self._noted.add(self.fresh)
        self.fresh = Notes({}, {})

    def forget(self) -> None:
        """Forget all notes: the next spool begins empty."""
        self._noted = Notes({}, {})
        self.fresh = Notes({}, {})


class Spool:
    """The spool of the file at ``path`` being written. After an OSError only ``remove`` may be called."""

    def __init__(self, path: Path, head: Head) -> None:
        self._path = spool_of(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(f"{self._path.name}.tmp")
        self._file = fresh.open("wb", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.size = 0
            self._put(_entry(msgspec.msgpack.encode(head), 0, 0, 0, 0), [])
            fresh.rename(self._path)  # no recorder finds it before it is locked
        except OSError:
            self._file.close()
            fresh.unlink(missing_ok=True)
            raise

    def write(self, reader: FlowReader, notes: Notes, first: int, offset: int) -> None:
        """Add the records that the reader has read from place ``first`` on."""
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
        """Remove the spool: its file is complete, or never will be."""
        try:
            self._path.unlink(missing_ok=True)
        finally:
            self._file.close()


def spool_of(path: Path) -> Path:
    """Return the path of a file's spool."""
    return path.with_name(f".{path.name}.spool")


def file_of(spool: Path) -> Path:
    """Return the path of a spool's file."""
    return spool.with_name(spool.name.removeprefix(".").removesuffix(".spool"))


def lock(file: BinaryIO) -> bool:
    """Lock a spool. Return False if a living recorder holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def head(file: BinaryIO) -> Head | None:
    """Return the header of a spool; None if it is invalid or cut off."""
    found = _read(file, records=False)
    try:
        return None if found is None else msgspec.msgpack.decode(found[1], type=Head)
    except msgspec.MsgspecError:
        return None


def entries(file: BinaryIO, *, records: bool = True) -> Iterator[Entry]:
    """Yield the complete entries after the header, with or without their records."""
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
    """Return the next entry as it is; None at the end, or if it is cut off."""
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

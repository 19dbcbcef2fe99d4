"""What a killed recorder left: its spools become files, what it had not finished is removed.

A spool that a living recorder holds, or of a router that is called otherwise, is left alone. Where a file
cannot be made of one, because the disk is full, it stays, and is tried again.
"""

import contextlib
import logging
import mmap
from pathlib import Path
from typing import BinaryIO, Final

from routerd.recorder import spool
from routerd.recorder.files import File, own
from routerd.recorder.rows import ROOM, Rows
from shm.native import TELEMETRY_BYTES, TELEMETRY_RECORD, FlowColumns, FlowReader, format_telemetry

LOGGER = logging.getLogger("ROUTER")

_CHUNK: Final = ROOM * TELEMETRY_RECORD


class _Replayed:
    """A reader for `Rows` of records that are in no ring any more."""

    def __init__(self, started: int) -> None:
        memory = mmap.mmap(-1, TELEMETRY_BYTES)
        format_telemetry(memory, started)
        self._reader = FlowReader(memory)
        self._notes = spool.Notes({}, {})

    def give(self, notes: spool.Notes) -> None:
        self._notes.names.update(notes.names)
        self._notes.links.update(notes.links)

    def replay(self, records: bytes) -> None:
        """As if a core had recorded them."""
        self._reader.replay(records)

    def next_generation(self) -> int:
        return self._reader.next_generation()

    def read(self, columns: FlowColumns, offset: int) -> int:
        return self._reader.read(columns, offset)

    def waiting(self) -> int:
        return self._reader.waiting()

    def name(self, number: int) -> bytes | None:
        return self._notes.names.get(number)

    def link(self, number: int) -> spool.Link | None:
        return self._notes.links.get(number)


def left_behind(root: Path, router: str) -> list[Path]:
    """Spools of the router, oldest first."""
    return sorted(root.glob(f"date=*/hour=*/.{own(router)}-*.spool"))


def last_place(root: Path, router: str, started: int) -> int:
    """Of the ring that was made then: behind the records that are in a spool that was left behind."""
    place = 0
    for path in left_behind(root, router):
        with contextlib.suppress(OSError), path.open("r+b") as file:
            found = spool.head(file) if spool.lock(file) else None
            if found is not None and found.router == router and found.started == started:
                place = max([place, *(entry.behind for entry in spool.entries(file, records=False))])
    return place


def recover(root: Path, router: str) -> int:
    """Make files of what killed recorders of the router left; how many records.

    Raises what kept one of them from being made into a file, once the others are.
    """
    rows = 0
    failed: Exception | None = None
    for path in left_behind(root, router):
        try:
            with path.open("r+b") as file:
                if spool.lock(file):
                    rows += _recover(root, router, path, file)
        except FileNotFoundError:
            continue
        except Exception as error:  # whatever is wrong with one spool, the others are no part of it
            failed = failed or error
    if failed is not None:
        raise failed
    return rows


def _recover(root: Path, router: str, path: Path, file: BinaryIO) -> int:
    head = spool.head(file)
    if head is not None and head.router != router:
        return 0
    rows, target = 0, spool.file_of(path)
    if head is None or (head.form, head.record) != (spool.FORM, TELEMETRY_RECORD):
        LOGGER.error(
            "Flow log: %s, which a killed recorder left, cannot be read: it is damaged or of another form; "
            "it is removed, and its records are missing", path,
        )  # fmt: skip
    elif not target.exists():  # otherwise it was killed before it could remove the spool
        rows = _make_file(root, head, file)
        LOGGER.info("Flow log: %d records that a killed recorder left are in %s now", rows, target)
    path.unlink()
    return rows


def _make_file(root: Path, head: spool.Head, file: BinaryIO) -> int:
    """The file that the recorder would have made; how many rows."""
    reader = _Replayed(head.started)
    rows = Rows(reader)
    made = File(root, head.router, head.boot, head.number, head.begun, head.sampling)
    dropped = 0
    try:
        for entry in spool.entries(file):
            reader.give(entry.notes)
            dropped = entry.dropped
            if not _take(entry, head, reader, rows, made):
                break
        _flush(rows, made, head)
        if made.rows:
            made.close(dropped)
        else:
            made.abandon()
    except BaseException:
        made.abandon()
        raise
    return made.rows


def _take(entry: spool.Entry, head: spool.Head, reader: _Replayed, rows: Rows, made: File) -> bool:
    """All records of a turn; whether they were of one core, as those that are whole are."""
    for at in range(0, len(entry.records), _CHUNK):
        reader.replay(entry.records[at : at + _CHUNK])
        while reader.next_generation() == head.generation and rows.read(entry.offset):
            if rows.full:
                _flush(rows, made, head)
        if reader.waiting():
            return False
    return True


def _flush(rows: Rows, made: File, head: spool.Head) -> None:
    if len(rows):
        made.write(rows.table(head.router, head.boot), rows.sequences())
        rows.clear()

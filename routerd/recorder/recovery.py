"""Recovers what a killed recorder left: makes files from its spools and removes unfinished files.

The spool of a living recorder, or of another router, stays untouched. A spool whose file cannot be made, as
on a full disk, stays for the next attempt.
"""

import contextlib
import logging
import mmap
from pathlib import Path
from typing import BinaryIO, Final, Self

from routerd.recorder import spool
from routerd.recorder.files import File, own
from routerd.recorder.rows import ROOM, Rows
from shm.contract.numbers import counted
from shm.native import TELEMETRY_BYTES, TELEMETRY_RECORD, FlowReader, format_telemetry

LOGGER = logging.getLogger("ROUTER")

_CHUNK: Final = ROOM * TELEMETRY_RECORD


class _SpoolReader(FlowReader):
    """A reader of a spool's records, in a ring of its own, and of the spool's notes."""

    notes: spool.Notes

    def __new__(cls, started: int) -> Self:
        memory = mmap.mmap(-1, TELEMETRY_BYTES)
        format_telemetry(memory, started)
        made = super().__new__(cls, memory)
        made.notes = spool.Notes({}, {})
        return made

    def name(self, id: int) -> bytes | None:
        return self.notes.names.get(id)

    def link(self, id: int) -> spool.Link | None:
        found = self.notes.links.get(id)
        return None if found is None else _whole(found)


def _whole(link: tuple[int, ...]) -> spool.Link:
    """Return a link as today's spools have it."""
    connection, number, container, kind, user, host = (*link, 0, 0)[:6]
    return connection, number, container, kind, user, host


def left_behind(root: Path, router: str) -> list[Path]:
    """Return the router's spools, oldest first."""
    return sorted(root.glob(f"date=*/hour=*/.{own(router)}-*.spool"))


def last_place(root: Path, router: str, started: int) -> int:
    """Return the place in the ring of that start behind all records in spools."""
    place = 0
    for path in left_behind(root, router):
        with contextlib.suppress(OSError), path.open("r+b") as file:
            found = spool.head(file) if spool.lock(file) else None
            if found is not None and found.router == router and found.started == started:
                place = max([place, *(entry.behind for entry in spool.entries(file, records=False))])
    return place


def recover(root: Path, router: str) -> int:
    """Make files from the spools of killed recorders. Return the number of records.

    Raises the first error after it has tried all spools.
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
        except Exception as error:  # one bad spool must not block the others
            failed = failed or error
    if failed is not None:
        raise failed
    return rows


def _recover(root: Path, router: str, path: Path, file: BinaryIO) -> int:
    head = spool.head(file)
    if head is not None and head.router != router:
        return 0
    rows, target = 0, spool.file_of(path)
    if head is None or head.form not in spool.FORMS or head.record != TELEMETRY_RECORD:
        LOGGER.error(
            "Flow log: %s, which a killed recorder left, cannot be read: it is damaged or of another form; "
            "it is removed, and its records are missing", path,
        )  # fmt: skip
    elif not target.exists():  # otherwise the recorder died before it removed the spool
        rows = _make_file(root, head, file)
        count = counted(rows, "record is", "records are")
        LOGGER.info("Flow log: %s in %s now, which a killed recorder left", count, target)
    path.unlink()
    return rows


def _make_file(root: Path, head: spool.Head, file: BinaryIO) -> int:
    """Make the file that the recorder would have made. Return the number of rows."""
    reader = _SpoolReader(head.started)
    rows = Rows(reader, further=head.form >= spool.FURTHER)
    made = File(root, head)
    dropped = 0
    try:
        for entry in spool.entries(file):
            reader.notes.add(entry.notes)
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


def _take(entry: spool.Entry, head: spool.Head, reader: _SpoolReader, rows: Rows, made: File) -> bool:
    """Add all records of an entry. Return whether one core recorded them, as it does in an intact spool."""
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

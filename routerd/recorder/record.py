"""The recorder as a state machine: records in, files out. Time is an argument, so tests need no clock.

    idle --records--> gathering --a row group is full, or the file is due--> writing --> idle or gathering
    writing --OSError--> resting --back-off is over--> gathering

Records stay in the ring or in the spool until the file that holds them is complete. While resting, the
recorder still reads: records without room count as lost and show as gaps in their numbers.
"""

import contextlib
import errno
import logging
from collections.abc import Callable
from datetime import datetime
from mmap import mmap
from pathlib import Path
from typing import Final

from routerd.recorder.files import File, next_number, path_of, remove_unfinished
from routerd.recorder.former import take_over
from routerd.recorder.recovery import last_place
from routerd.recorder.rows import ROOM, Rows
from routerd.recorder.spool import ENOUGH, Head, NotingReader, Spool
from shm.contract.complaints import Complaints
from shm.contract.flow_log.schema import RAW, folder
from shm.contract.flow_log.setup import FlowLogSetup
from shm.contract.numbers import counted
from shm.contract.text import cause
from shm.native import StatsPage
from shm.statistics.stats import COUNTERS

LOGGER = logging.getLogger("ROUTER")

READ_SECONDS: Final = 0.05  # between reads of the ring, which holds 20 times as much at 130,000 records/s
READS: Final = 4  # reads in a turn, for twice the content of the ring
LEAST_REST: Final = 1.0
LONGEST_REST: Final = 60.0

_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)


class Recorder:
    """Writes the records of ``flow``. ``wall`` is the time of day in UTC, ``offset`` that of monotonic 0 in ns."""

    def __init__(
        self,
        flow: mmap,
        page: StatsPage,
        router: str,
        wall: Callable[[], datetime],
        offset: Callable[[], int],
        room: int = ROOM,
    ) -> None:
        self._reader = NotingReader(flow)
        self._page = page
        self._router = router
        self._wall = wall
        self._offset = offset
        self._setup = FlowLogSetup()
        self._rows = Rows(self._reader, room)
        self._file: File | None = None
        self._spool: Spool | None = None  # the spool of the current file, or of the next one
        self._spooled = True  # False: the current file has no spool
        self._generation = 0
        self._number = 0  # the next file's; 0 means not known yet
        self._begun: datetime | None = None  # arrival of the first row that no file holds yet
        self._due = 0.0  # when that row, or the file, reaches its age
        self._rest = 0.0
        self._resting = 0.0  # rests until this time
        self._complaints = Complaints()
        self._bad = 0
        self._why = "flow_lost_io"
        self.closed: Callable[[Path], None] = lambda _: None  # called for each complete file

    def configure(self, setup: FlowLogSetup, now: float) -> None:
        """Use this set-up from now on."""
        if setup.directory != self._setup.directory:
            self.roll(now)
            self._number, self._rest, self._resting = 0, 0.0, 0.0
            self._setup = setup
            self._follow_killed()
        self._setup = setup

    @property
    def root(self) -> Path:
        return Path(self._setup.directory) / RAW

    def turn(self, now: float) -> float:
        """Read, and write what is due. Return the seconds until there is more to do."""
        pause = READ_SECONDS
        for _ in range(READS):
            self._follow_core(now)
            first, offset = self._reader.place, self._offset()
            read = self._rows.read(offset)
            if len(self._rows) and self._begun is None:
                self._begun = self._wall()
                if self._file is None:
                    self._due = now + self._setup.roll_seconds
            if read and self._spooled and now >= self._resting:
                self._keep(first, offset, now)
            self._reader.give_back()
            if self._rows.full:
                self._flush(now)
            if not read:
                break
        else:
            pause = 0.0
        if self._is_due(now):
            self.roll(now)
        self._count("bad_records", self._reader.bad - self._bad)
        self._bad = self._reader.bad
        return pause

    def finish(self, now: float) -> None:
        """Read the remaining records and complete the file."""
        while not self.turn(now):
            pass
        self.roll(now)

    def roll(self, now: float) -> None:
        """Complete the file with all records read."""
        if len(self._rows):
            self._flush(now)
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            path = file.close(self._reader.dropped)
            size = path.stat().st_size
        except OSError as error:
            file.abandon()
            self._lost(file.rows, error, now)
            return
        self._end_spool()
        self._rest = 0.0
        self._count("flow_rows", file.rows)
        self._count("flow_files", 1)
        self._count("flow_bytes", size)
        self.closed(path)

    def _follow_core(self, now: float) -> None:
        """Begin a new file for a new core: a file holds one core's records."""
        generation = self._reader.next_generation()
        if generation == self._generation:
            return
        self.roll(now)
        if len(self._rows):
            self._discard()
        self._generation, self._number = generation, 0

    def _is_due(self, now: float) -> bool:
        if self._file is None and not len(self._rows):
            return False
        begun = self._file.begun if self._file else self._begun
        hour_over = begun is not None and folder(begun) != folder(self._wall())
        large = self._file is not None and self._file.size >= self._setup.roll_bytes
        large = large or (self._spool is not None and self._spool.size >= ENOUGH)
        return now >= self._due or hour_over or large

    @property
    def _boot(self) -> str:
        return f"{self._reader.started // 1_000_000:x}.{self._generation}"

    def _flush(self, now: float) -> None:
        """Write the records read as a row group."""
        if now < self._resting:
            if self._rows.full:
                self._discard()
            return
        sequences = self._rows.sequences()
        count, table = len(self._rows), self._rows.table(self._router, self._boot)
        begun, self._begun = self._begun or self._wall(), None
        try:
            if self._file is None:
                self._file = File(self.root, self._head(begun))
                self._number += 1
            self._file.write(table, sequences)
        except OSError as error:
            rows = self._file.rows if self._file else 0
            if self._file is not None:
                self._file.abandon()
                self._file = None
            self._lost(rows + count, error, now)
        finally:
            self._rows.clear()

    def _head(self, begun: datetime) -> Head:
        """Return what names the next file."""
        boot = self._boot
        if not self._number:
            self._number = next_number(self.root, self._router, boot)
        started, sampling = self._reader.started, self._setup.sampling
        return Head(self._router, boot, started, self._generation, self._number, begun, sampling)

    # ---- the spool ----

    def _follow_killed(self) -> None:
        """Continue after the records in a killed recorder's spool."""
        with contextlib.suppress(OSError):  # these files do no harm, and writing will report the error
            take_over(self.root.parent, self._router)
            remove_unfinished(self.root, self._router)
        self._reader.pass_over(last_place(self.root, self._router, self._reader.started))

    def _keep(self, first: int, offset: int, now: float) -> None:
        """Add the records from ``first`` on to the spool, for a successor if this process is killed."""
        try:
            if self._spool is None:
                head = self._head(self._begun or self._wall())
                self._spool = Spool(path_of(self.root, head), head)
            self._spool.write(self._reader, self._reader.fresh, first, offset)
            self._reader.noted()
        except OSError as error:
            self._end_spool()
            self._spooled = False
            text = cause(error)
            self._complaints.tell(
                now, LOGGER, logging.WARNING,
                "The flow log has no spool in %s: %s; a recorder that is killed now loses up to %d s of "
                "records. The recorder tries again with the next file", self.root, text, self._setup.roll_seconds,
                key=("spool", text),
            )  # fmt: skip

    def _end_spool(self) -> None:
        """Remove the spool: a file holds its records, or they are lost."""
        spool, self._spool, self._spooled = self._spool, None, True
        self._reader.forget()
        with contextlib.suppress(OSError):  # the next recorder finds the complete file
            if spool is not None:
                spool.remove()

    def _discard(self) -> None:
        """Drop records: there is no room and no file for them."""
        self._count(self._why, len(self._rows))
        self._rows.clear()
        self._begun = None
        self._end_spool()

    def _lost(self, rows: int, error: OSError, now: float) -> None:
        """Count lost rows, rest longer each time, and log once a minute."""
        self._why = "flow_lost_no_space" if error.errno in _NO_SPACE else "flow_lost_io"
        self._count(self._why, rows)
        self._count("flow_errors", 1)
        self._end_spool()
        self._rest = min(max(LEAST_REST, self._rest * 2), LONGEST_REST)
        self._resting = now + self._rest
        text = cause(error)
        self._complaints.tell(
            now, LOGGER, logging.ERROR,
            "The flow log cannot be written to %s: %s; %s lost, and more until it can. "
            "Trying again with pauses of up to %g s",
            self.root, text, counted(rows, "record is", "records are"), LONGEST_REST, key=("file", text),
        )  # fmt: skip

    def _count(self, name: str, number: int) -> None:
        if number:
            self._page.add(COUNTERS[name].place, number)

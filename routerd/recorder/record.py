"""The recorder as a state machine: records in, files out; time is told, so tests need no clock.

    idle --records--> gathering --a row group is full, or the file is due--> writing --> idle or gathering
    writing --OSError--> resting --back-off is over--> gathering

While it rests it goes on reading: what finds no room is counted as lost, and shows as gaps in the numbers.
"""

import errno
import logging
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from routerd.recorder.files import File, next_number, remove_unfinished
from routerd.recorder.rows import ROOM, Rows
from shm.flow import RAW, folder
from shm.flow_setup import FlowSetup
from shm.native import FlowReader, StatsPage
from shm.stats import COUNTERS

LOGGER = logging.getLogger("ROUTER")

READ_SECONDS: Final = 0.05  # between two looks at the ring, which holds 20 times that at 130,000 a second
READS: Final = 4  # in a turn: twice what the ring holds
LEAST_REST: Final = 1.0
LONGEST_REST: Final = 60.0
TOLD_SECONDS: Final = 60.0  # between two log lines about the same kind of error

_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)


class Recorder:
    """Writes what a reader has. ``wall`` is the time of day in UTC, ``offset`` that of monotonic 0 in ns."""

    def __init__(
        self,
        reader: FlowReader,
        page: StatsPage,
        router: str,
        wall: Callable[[], datetime],
        offset: Callable[[], int],
        room: int = ROOM,
    ) -> None:
        self._reader = reader
        self._page = page
        self._router = router
        self._wall = wall
        self._offset = offset
        self._setup = FlowSetup()
        self._rows = Rows(reader, room)
        self._file: File | None = None
        self._generation = 0
        self._number = 0  # of the next file; 0: not known yet
        self._begun: datetime | None = None  # when the first of the rows came that are in no file yet
        self._due = 0.0  # when that, or the file, has its age
        self._rest = 0.0
        self._resting = 0.0  # until when
        self._told: dict[str, float] = {}
        self._bad = 0
        self._why = "flow_lost_io"
        self.closed: Callable[[Path], None] = lambda _: None  # whoever wants to know of complete files

    def configure(self, setup: FlowSetup, now: float) -> None:
        """Write there and so from now on."""
        if setup.directory != self._setup.directory:
            self.roll(now)
            self._number, self._rest, self._resting = 0, 0.0, 0.0
        self._setup = setup

    @property
    def root(self) -> Path:
        return Path(self._setup.directory) / RAW

    def turn(self, now: float) -> float:
        """Read and write what is due, for a while; seconds until there is more to do."""
        pause = READ_SECONDS
        for _ in range(READS):
            self._follow_core(now)
            read = self._rows.read(self._offset())
            if len(self._rows) and self._begun is None:
                self._begun = self._wall()
                if self._file is None:
                    self._due = now + self._setup.roll_seconds
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
        """Read what there is, and end the file."""
        while not self.turn(now):
            pass
        self.roll(now)

    def roll(self, now: float) -> None:
        """End the file, with everything that was read."""
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
        self._rest = 0.0
        self._count("flow_rows", file.rows)
        self._count("flow_files", 1)
        self._count("flow_bytes", size)
        self.closed(path)

    def _follow_core(self, now: float) -> None:
        """A file holds what one core has recorded."""
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
        return now >= self._due or hour_over or large

    @property
    def _boot(self) -> str:
        return f"{self._reader.started // 1_000_000:x}.{self._generation}"

    def _flush(self, now: float) -> None:
        """Write what was read as a row group."""
        if now < self._resting:
            if self._rows.full:
                self._discard()
            return
        sequences = self._rows.sequences()
        count, table = len(self._rows), self._rows.table(self._router, self._boot)
        begun, self._begun = self._begun or self._wall(), None
        try:
            if self._file is None:
                self._file = self._open(begun, now)
            self._file.write(table, sequences)
        except OSError as error:
            rows = self._file.rows if self._file else 0
            if self._file is not None:
                self._file.abandon()
                self._file = None
            self._lost(rows + count, error, now)
        finally:
            self._rows.clear()

    def _open(self, begun: datetime, now: float) -> File:
        if not self._number:
            remove_unfinished(self.root, self._router)
            self._number = next_number(self.root, self._router, self._boot)
        file = File(self.root, self._router, self._boot, self._number, begun, self._setup.sampling)
        self._number += 1
        return file

    def _discard(self) -> None:
        """There is no room for them, and no file."""
        self._count(self._why, len(self._rows))
        self._rows.clear()
        self._begun = None

    def _lost(self, rows: int, error: OSError, now: float) -> None:
        """Rest for a while, longer each time, and say so once a minute."""
        self._why = "flow_lost_no_space" if error.errno in _NO_SPACE else "flow_lost_io"
        self._count(self._why, rows)
        self._count("flow_errors", 1)
        self._rest = min(max(LEAST_REST, self._rest * 2), LONGEST_REST)
        self._resting = now + self._rest
        text = error.strerror or str(error)
        if now >= self._told.get(text, now):
            self._told[text] = now + TOLD_SECONDS
            LOGGER.error(
                "The flow log cannot be written to %s: %s; %d records are lost, and more until it can. "
                "Trying again with pauses of up to %g s",
                self.root, text, rows, LONGEST_REST,
            )  # fmt: skip

    def _count(self, name: str, number: int) -> None:
        if number:
            self._page.add(COUNTERS[name][0], number)

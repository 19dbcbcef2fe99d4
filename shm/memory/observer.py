"""The observer: a read-only, lock-free view of a router's shared memory.

It maps only the control segment and the rings. After a restart of the router under the same names,
``look_again`` maps the new segments.
"""

import mmap
import os
from typing import Final, NamedTuple

from shm import native
from shm.contract.roles import Role, process_name
from shm.memory import flight
from shm.memory.journal import Journal, journal_of
from shm.memory.segment import DIRECTORY, Names, SegmentError
from shm.memory.space import open_file
from shm.statistics import board, stats

_SLOTS_BEHIND_WORKERS: Final = (Role.CORE, Role.SUPERVISOR, Role.RECORDER)
_ALWAYS: Final = _SLOTS_BEHIND_WORKERS[:2]


class Page(NamedTuple):
    """One process's statistics page at one moment; ``counters`` has the names of shm.statistics.stats as keys."""

    process: str
    pid: int
    generation: int
    heartbeat: int
    counters: dict[str, int]


class Ring(NamedTuple):
    """The number of records that wait in a worker's ``ring``, which is actions or work."""

    process: str
    ring: str
    records: int


class Histogram(NamedTuple):
    """The sum of a histogram's values, and its counts by bucket of ``shm.native.BUCKET_FLOORS``."""

    sum: int
    counts: list[int]


class SharedView:
    """A reader of one router's statistics; ``prefix`` is that of its segments. Raises ``SegmentError``."""

    def __init__(self, prefix: str) -> None:
        self._names = Names(prefix)
        self._attach()

    def look_again(self) -> None:
        """Map the segments that have these names now; no-op if they are mapped. Raises ``SegmentError``."""
        try:
            if os.stat(DIRECTORY / self._names.control[1:]).st_ino != self._inode:
                self._attach()
        except FileNotFoundError:
            raise SegmentError(f"{self._names.control} is gone: its router has stopped") from None

    def _attach(self) -> None:
        control, inode = _map(self._names.control)
        if (wrong := native.check_control(control)) is not None:
            raise SegmentError(f"{self._names.control} cannot be used: {wrong}; restart the router")
        places, arena_bytes = native.control_header(control)
        rings, _ = _map(self._names.rings)
        if (wrong := native.check_rings(rings, places)) is not None:
            raise SegmentError(f"{self._names.rings} cannot be used: {wrong}; restart the router")
        there = (DIRECTORY / self._names.flight[1:]).exists()
        flown = _map(self._names.flight)[0] if there else None
        # From here on nothing fails: an attempt half-way leaves the former view, and the next one tries again.
        self._control, self._inode, self._rings, self._flight = control, inode, rings, flown
        self._places, self.arena_bytes = places, arena_bytes
        slots = (*_workers(0, self._places), *_SLOTS_BEHIND_WORKERS)
        self._pages = {name: native.StatsPage(control, native.stats_offset(slot)) for slot, name in enumerate(slots)}
        self._board = native.Board(control, native.board_offset(self._places))
        self._shown = board.Board()

    @property
    def workers(self) -> int:
        """The current number of workers."""
        return native.workers(self._control)[0]

    @property
    def processes(self) -> tuple[str, ...]:
        """The names of the current workers, the core, the supervisor, and the recorder if there is one."""
        recorder = (Role.RECORDER,) if self._pages[Role.RECORDER].pid else ()
        return *_workers(0, self.workers), *_ALWAYS, *recorder

    def pages(self) -> list[Page]:
        """Return each process's page, in the order of ``processes``."""
        return [self.page(process) for process in self.processes]

    def former(self) -> list[Page]:
        """Return the pages of removed workers and a stopped recorder; totals still include their counts."""
        recorder = self.page(Role.RECORDER)
        gone = [recorder] if recorder.generation and not recorder.pid else []
        return [*(self.page(process) for process in _workers(*native.workers(self._control))), *gone]

    def page(self, process: str) -> Page:
        """Return one process's page."""
        page = self._pages[process]
        return Page(process, page.pid, page.generation, page.heartbeat, stats.read(page))

    def histogram(self, process: str, name: str) -> Histogram:
        """Return a histogram of one process; ``name`` is a key of ``shm.statistics.stats.HISTOGRAMS``."""
        return Histogram(*self._pages[process].histogram(stats.HISTOGRAMS[name]))

    def journal(self, role: Role) -> Journal:
        """Return the last log lines of the core, the supervisor, the recorder or the exporter."""
        return journal_of(self._control, self._places, role)

    def rings(self) -> list[Ring]:
        """Return both rings of each current worker."""
        waiting = native.ring_records
        return [
            Ring(process_name(Role.WORKER, i), ring, waiting(self._rings, offset(i)))
            for i in range(self.workers)
            for ring, offset in (("actions", native.action_ring_offset), ("work", native.work_ring_offset))
        ]

    def flight_head(self) -> flight.Header | None:
        """Return the head of the flight recorder's ring; None without one, or before its core has begun."""
        if self._flight is None:
            return None
        try:
            return flight.header(self._flight)
        except flight.RecordingError:
            return None

    def board(self) -> board.Board:
        """Return the board; while the core replaces it, the one read last."""
        self._shown = board.decode(self._board.read()) or self._shown
        return self._shown


def spans(prefix: str, later: bool = False) -> native.SpanReader:
    """Return a reader of a router's spans, with ``later`` of those made from now on. Raises ``SegmentError``."""
    name = Names(prefix).flow
    memory, _ = _map(name)
    try:
        return native.SpanReader(memory, later)
    except ValueError as error:
        raise SegmentError(f"{name} cannot be used: {error}; restart the router") from None


def _workers(first: int, behind: int) -> list[str]:
    return [process_name(Role.WORKER, i) for i in range(first, behind)]


def _map(name: str) -> tuple[mmap.mmap, int]:
    try:
        fd = open_file(name[1:])
    except OSError as error:
        raise SegmentError(f"{name} cannot be opened: {error.strerror}; is its router running?") from None
    try:
        status = os.fstat(fd)
        return mmap.mmap(fd, status.st_size, prot=mmap.PROT_READ), status.st_ino
    except (OSError, ValueError) as error:
        raise SegmentError(f"{name} cannot be mapped: {error}; restart the router") from None
    finally:
        os.close(fd)

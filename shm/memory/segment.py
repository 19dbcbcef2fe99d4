"""The segments and the semaphore of one router: the supervisor creates them, its children attach to them.

layout.h and docs/memory-layout.md describe their content.

The control segment shows whether a family of segments is alive: the supervisor holds an exclusive flock on it
all its life. It is created first and removed last, so a family without one has no owner. ``shm.memory.sweep``
removes what killed routers left.

A ``SegmentError`` says what failed, why, and what to do about it.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import time
from types import TracebackType
from typing import Any, Final, Self

import posix_ipc  # type: ignore[import-not-found]  # an extension without type information

from shm import native
from shm.memory import flight, snapshot_store
from shm.memory.backing import back_marks, back_supervisor
from shm.memory.names import Names, segment_prefix
from shm.memory.space import DIRECTORY, MIB, SegmentError, check_space

__all__ = [
    "DIRECTORY", "MIB", "Names", "SegmentError", "Segments", "attach", "create", "remove_file",
    "segment_prefix",
]  # fmt: skip

MAX_ARENA_MIB: Final = MIB  # a TiB
MODE: Final = 0o600


class Segments:
    """The mapped segments of one router; a context manager.

    ``control``, ``rings`` and ``arenas[i]`` are the mappings; ``arenas[places]`` is the core's. ``close``
    unmaps them, and in the process that created them also removes their names. ``places`` is the number of
    places for workers. The first ``workers`` of them are filled.
    """

    def __init__(self, prefix: str, places: int, lock: int | None) -> None:
        self.names = Names(prefix)
        self.places = places
        self._lock = lock
        self._maps: dict[str, mmap.mmap] = {}
        self._semaphore: posix_ipc.Semaphore | None = None
        # In the process that created the segments, which believes no other:
        self._filled = 0, 0  # as `counts`
        self._started = 0  # nanoseconds since 1970

    @property
    def control(self) -> mmap.mmap:
        return self._maps["control"]

    @property
    def workers(self) -> int:
        return self.counts()[0]

    def set_workers(self, workers: int) -> list[SegmentError]:
        """Set the number of workers and return what there was no room for.

        Only the process that created the segments may do so. Who asks for more workers has checked that there is room.
        """
        before, most = self._filled
        errors = []
        for place in range(before, workers):
            try:
                back_marks(self, place)
            except SegmentError as error:
                errors.append(error)
        self._filled = workers, max(workers, most)
        native.set_workers(self.control, *self._filled)
        return errors

    def counts(self) -> tuple[int, int]:
        """Return the number of workers and its maximum since the router's start."""
        return native.workers(self.control) if self._lock is None else self._filled

    def give_back(self, worker: int) -> None:
        """Return to the kernel the memory of all unmarked blocks of an arena without an owner."""
        arena = self.arenas[worker]
        native.format_arena_segment(arena)  # its last owner may have gone mad
        for start, end in native.Arena(arena).gaps():
            first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
            if first < last:
                arena.madvise(mmap.MADV_REMOVE, first, last - first)

    @property
    def rings(self) -> mmap.mmap:
        return self._maps["rings"]

    @property
    def flow(self) -> mmap.mmap:
        return self._maps["flow"]

    @property
    def flight(self) -> mmap.mmap | None:
        """The flight recorder's ring, or None without one."""
        return self._maps.get("flight")

    @property
    def arenas(self) -> list[mmap.mmap]:
        return [self._maps[f"arena-{i}"] for i in range(self.places + 1)]

    @property
    def semaphore(self) -> posix_ipc.Semaphore:
        """The core's semaphore: only the core acquires it, processes that ring the core release it."""
        if self._semaphore is None:
            raise SegmentError(f"the segments {self.names.prefix} are closed")
        return self._semaphore

    def address(self, name: str) -> int:
        """Return the address at which ``control``, ``rings`` or ``arena-<i>`` is mapped until ``close``."""
        return native.address(self._maps[name])

    def size(self, name: str) -> int:
        """Bytes of ``control``, ``rings`` or ``arena-<i>``."""
        return len(self._maps[name])

    def worker_stats(self, worker: int) -> native.StatsPage:
        """A worker's statistics page."""
        return self._page(self._known(worker))

    def core_stats(self) -> native.StatsPage:
        """The core's statistics page."""
        return self._page(self.places)

    def supervisor_stats(self) -> native.StatsPage:
        """The supervisor's statistics page."""
        return self._page(self.places + 1)

    def recorder_stats(self) -> native.StatsPage:
        """The recorder's statistics page."""
        return self._page(self.places + 2)

    def board(self) -> native.Board:
        """The board."""
        return native.Board(self.control, native.board_offset(self.places))

    def _page(self, slot: int) -> native.StatsPage:
        try:
            return native.StatsPage(self.control, native.stats_offset(slot))
        except ValueError:
            if self._lock is None:
                raise
            self._format()
            return native.StatsPage(self.control, native.stats_offset(slot))

    def _format(self) -> None:
        """Write the header again, and what marks the statistics pages, where a process that went mad has damaged them.

        What is undamaged is not written: the native functions begin with other numbers, which readers would see.
        """
        arena_bytes = len(self._maps["arena-0"])
        there = native.check_control(self.control) is None
        if not there or native.control_header(self.control) != (self.places, arena_bytes):
            native.format_control(self.control, self.places, arena_bytes)
        if native.workers(self.control) != self._filled:
            native.set_workers(self.control, *self._filled)

    def _known(self, worker: int) -> int:
        if not 0 <= worker < self.places:
            raise IndexError(f"there is no worker {worker}; there are places for {self.places}")
        return worker

    def mend(self) -> None:
        """Write again what says where everything is before a process attaches; the records in rings stay.

        One that went mad may have damaged it, and no later one could attach.
        """
        self._format()
        native.mend_rings(self.rings, self.places)
        native.format_telemetry(self.flow, self._started)
        for arena in self.arenas:
            native.format_arena_segment(arena)

    def reset(self) -> None:
        """After the core's death, empty the rings, free every block, and reset the core's doorbell.

        The formats are written again in case the core has damaged them. Counters and the workers' doorbells
        stay. No process may use the segments meanwhile.
        """
        self.mend()
        native.format_rings(self.rings, self.places)
        for i, arena in enumerate(self.arenas):
            if i < self._filled[1] or i == self.places:  # the others have no marks, and touching them allocates memory
                native.Arena(arena).mark_none()
        native.wake_core(self.control)
        with contextlib.suppress(posix_ipc.BusyError):
            while True:
                self.semaphore.acquire(0)

    def unlink(self) -> None:
        """Remove all names; mappings stay usable until ``close``."""
        for i in range(self.places + 1):
            _remove(self.names.arena(i))
        _remove(self.names.rings)
        _remove(self.names.flow)
        _remove(self.names.flight)
        snapshot_store.clear(self.names.prefix)
        with contextlib.suppress(posix_ipc.ExistentialError):
            posix_ipc.unlink_semaphore(self.names.semaphore)
        _remove(self.names.control)

    def close(self) -> None:
        """Unmap all segments; the creating process removes the names first and releases the lock last.

        Raises BufferError while an object on a mapping (an arena, a statistics page) exists.
        """
        if self._lock is not None:
            self.unlink()
        if self._semaphore is not None:
            self._semaphore.close()
            self._semaphore = None
        for name in list(self._maps):
            self._maps[name].close()
            del self._maps[name]
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


# ---- the supervisor's side --------------------------------------------------------------------------------


def create(prefix: str, workers: int, arena_mib: int, places: int | None = None, records: int = 0) -> Segments:
    """Create, format and lock all segments and the semaphore of a router; an error leaves nothing behind.

    ``arena_mib`` is the size of each worker's arena segment in MiB. ``places`` defaults to ``workers``; an
    empty place takes no memory. ``records`` is how many the flight recorder holds; 0: there is none. Raises
    ``SegmentError``.
    """
    places = places or workers
    if not 1 <= workers <= native.MAX_WORKERS:
        raise SegmentError(f"{workers} workers: 1 to {native.MAX_WORKERS} are possible; change `workers`")
    if not 1 <= arena_mib <= MAX_ARENA_MIB:
        raise SegmentError(f"an arena of {arena_mib} MiB: 1 to {MAX_ARENA_MIB} are possible; change `arenaSize`")
    ring = flight.segment_bytes(records)
    check_space(workers, arena_mib, ring=ring)
    control, lock = _create_control(prefix, native.control_bytes(places))
    segments = Segments(prefix, places, lock)
    try:
        segments._maps["control"] = control
        segments._maps["rings"] = _create_segment(segments.names.rings, native.rings_bytes(places))
        native.format_rings(segments.rings, places)
        segments._maps["flow"] = _create_segment(segments.names.flow, native.TELEMETRY_BYTES)
        segments._started = time.time_ns()
        native.format_telemetry(segments.flow, segments._started)
        if ring:
            segments._maps["flight"] = _create_segment(segments.names.flight, ring)
        for i in range(places + 1):
            size = arena_mib * MIB if i < places else native.CORE_ARENA_BYTES
            segments._maps[f"arena-{i}"] = _create_segment(segments.names.arena(i), size)
            native.format_arena_segment(segments._maps[f"arena-{i}"])
        segments._semaphore = _create_semaphore(segments.names.semaphore)
        native.format_control(control, places, arena_mib * MIB)
        segments._filled = workers, workers
        native.set_workers(control, *segments._filled)
        back_supervisor(segments)
    except BaseException:
        segments.close()
        raise
    return segments


def _create_control(prefix: str, size: int) -> tuple[mmap.mmap, int]:
    name = Names(prefix).control
    for _ in range(10):
        memory = _create_file(name)
        try:
            # A sweeper may have taken the lock since _create_file; it removes the name before it unlocks.
            fcntl.flock(memory.fd, fcntl.LOCK_EX)
            if os.fstat(memory.fd).st_nlink:
                return _map_new(name, memory.fd, size), memory.fd
        except BaseException:
            _remove(name)
            os.close(memory.fd)
            raise
        os.close(memory.fd)
    raise SegmentError(f"{name} was removed ten times while it was made; stop what else sweeps {DIRECTORY}")


def _create_segment(name: str, size: int) -> mmap.mmap:
    memory = _create_file(name)
    try:
        return _map_new(name, memory.fd, size)
    finally:
        os.close(memory.fd)


def _create_file(name: str) -> posix_ipc.SharedMemory:
    try:
        return posix_ipc.SharedMemory(name, posix_ipc.O_CREX, mode=MODE)
    except posix_ipc.ExistentialError:
        raise SegmentError(
            f"{name} exists in {DIRECTORY} already: a router with this id and process id lives there "
            f"(in another container?); give this router another `id`, or remove the file if no router uses it"
        ) from None
    except (OSError, posix_ipc.Error) as e:
        raise SegmentError(f"{name} cannot be made in {DIRECTORY}: {e}; check its permissions") from None


def _map_new(name: str, fd: int, size: int) -> mmap.mmap:
    try:
        os.ftruncate(fd, size)
        return mmap.mmap(fd, size)
    except OSError as e:
        hint = "lower `workers`, `arenaSize` or `flightRecords`"
        if e.errno == errno.EFBIG:
            hint = "raise the limit (ulimit -f)"
        raise SegmentError(f"{name} cannot have {size} bytes: {e.strerror}; {hint}") from None


def _create_semaphore(name: str) -> posix_ipc.Semaphore:
    try:
        return posix_ipc.Semaphore(name, posix_ipc.O_CREX, mode=MODE, initial_value=0)
    except posix_ipc.ExistentialError:
        raise SegmentError(
            f"the semaphore {name} exists already; remove {DIRECTORY}/sem.{name[1:]} if no router uses it"
        ) from None
    except (OSError, posix_ipc.Error) as e:
        raise SegmentError(f"{name} cannot be made in {DIRECTORY}: {e}; check its permissions") from None


# ---- the children's side ----------------------------------------------------------------------------------


def attach(prefix: str) -> Segments:
    """Map all segments of a running router. Raises ``SegmentError``, also for a malformed segment."""
    names = Names(prefix)
    control = _attach_segment(names.control)
    if (wrong := native.check_control(control)) is not None:
        control.close()
        raise SegmentError(f"{names.control} cannot be used: {wrong}; restart the router")
    places, arena_bytes = native.control_header(control)
    segments = Segments(prefix, places, None)
    segments._maps["control"] = control
    try:
        rings = segments._maps["rings"] = _attach_segment(names.rings)
        _refuse(names.rings, native.check_rings(rings, places))
        flow = segments._maps["flow"] = _attach_segment(names.flow)
        _refuse(names.flow, native.check_telemetry(flow))
        if (DIRECTORY / names.flight[1:]).exists():
            segments._maps["flight"] = _attach_segment(names.flight)
        for i in range(places + 1):
            arena = segments._maps[f"arena-{i}"] = _attach_segment(names.arena(i))
            wanted = arena_bytes if i < places else native.CORE_ARENA_BYTES
            short = None if len(arena) == wanted else f"it has {len(arena)} bytes and not {wanted}"
            _refuse(names.arena(i), short or native.check_arena(arena))
        segments._semaphore = _open(posix_ipc.Semaphore, names.semaphore)
    except BaseException:
        segments.close()
        raise
    return segments


def _refuse(name: str, wrong: str | None) -> None:
    if wrong is not None:
        raise SegmentError(f"{name} cannot be used: {wrong}; restart the router")


def _open(kind: Any, name: str) -> Any:
    """Open a shared memory or semaphore that exists."""
    try:
        return kind(name)
    except posix_ipc.ExistentialError:
        raise SegmentError(f"{name} does not exist: its router is gone; start the router") from None
    except (OSError, posix_ipc.Error) as e:
        raise SegmentError(f"{name} cannot be opened: {e}; run as the router's user") from None


def _attach_segment(name: str) -> mmap.mmap:
    memory = _open(posix_ipc.SharedMemory, name)
    try:
        return mmap.mmap(memory.fd, os.fstat(memory.fd).st_size)
    except (OSError, ValueError) as e:
        raise SegmentError(f"{name} cannot be mapped: {e}; restart the router") from None
    finally:
        os.close(memory.fd)


def _remove(name: str) -> None:
    remove_file(name[1:])


def remove_file(name: str) -> bool:
    """Remove a file of /dev/shm; return False if it does not exist or belongs to another user."""
    try:
        os.unlink(DIRECTORY / name)
    except (FileNotFoundError, PermissionError):
        return False
    return True

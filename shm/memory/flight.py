"""The flight recorder's ring as others than the core see it, and the file that it is written to (docs/replay.md).

A recording is a file: ``MAGIC``, the length of an ``About`` in MessagePack as four octets, the ``About``, and the lines
of flight.h in their order. It comes from anywhere, so whoever reads it checks everything.
"""

import errno
import os
import stat
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC: Final = b"routerd flight 1\n"
LINE: Final = 64
HEADER: Final = 4096
LEAST, MOST = 1024, 1 << 24  # lines
CONFIGURED_LEAST: Final = 16384  # lines: a smaller ring has hardly room for a checkpoint
ABOUT_MOST: Final = 65536
IN_FLIGHT: Final = 64  # lines that the processor may write before it shows that the head has moved

BATCH, WORK, FANS, PARKED, CALL, TEXT, ROUTED, STATE, FORGOTTEN, KEY, HOPS = range(128, 139)
CHECKPOINT, ENTRY, CHECKPOINT_END = 144, 145, 146
MORE: Final = 255
INLINE, MORE_OCTETS, OCTETS_MOST = 40, 63, 1 << 20
_CUT: Final = frozenset({BATCH, FANS, PARKED, CALL, CHECKPOINT})  # lines that a reader can begin with

_HEAD: Final = struct.Struct("=QIIQIIIIQQQQQII")
_COUNTS_AT: Final = 128  # the first of these that the core changes
_COUNTS: Final = struct.Struct("=QQQQI")
_MAGIC: Final = 0x31746867696C66


class RecordingError(Exception):
    """A recording cannot be made or read; the text says why."""


class Header(NamedTuple):
    """The head of the ring, as in flight.h."""

    magic: int
    version: int
    layout: int
    lines: int
    places: int
    workers: int
    generation: int
    pid: int
    began: int
    wall: int
    image: int
    arena_bytes: int
    core_arena_bytes: int
    texts: int
    unused: int
    head: int
    checkpoint: int
    checkpoints: int
    skipped: int
    blind: int


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a recording says of itself.

    ``first`` is the number of its first line since the core's begin; ``began`` and ``wall`` are that moment in
    nanoseconds of CLOCK_MONOTONIC and since 1970. ``whole``: it begins with the core. ``blind``: calls were made that a
    replay does not know. ``image`` and ``layout`` are those of the build that wrote it.
    """

    router: str
    version: str
    why: str
    saved: int
    lines: int
    first: int
    whole: bool
    layout: int
    image: int
    places: int
    workers: int
    generation: int
    pid: int
    began: int
    wall: int
    arena_bytes: int
    core_arena_bytes: int
    texts: bool
    blind: bool


def ring_bytes(lines: int) -> int:
    """Return the size of the segment for so many lines, a power of two."""
    return HEADER + lines * LINE


def lines_for(records: int) -> int:
    """Return the lines of a ring for at least so many, a power of two."""
    return 1 << max(CONFIGURED_LEAST.bit_length() - 1, (records - 1).bit_length())


def segment_bytes(records: int) -> int:
    """Return the size of the segment for a configured number of records; 0: there is none."""
    return ring_bytes(lines_for(records)) if records else 0


def header(memory: "Buffer") -> Header:
    """Read the head of a ring. Raises RecordingError if no core has begun it."""
    view = memoryview(memory)
    if len(view) < HEADER:
        raise RecordingError("there is no flight recorder")
    found = Header(*_HEAD.unpack_from(view), *_COUNTS.unpack_from(view, _COUNTS_AT))
    if found.magic != _MAGIC or found.lines != (len(view) - HEADER) // LINE or not found.lines:
        raise RecordingError("no core has begun to record yet")
    return found


def cut(head: Header, slots: memoryview, oldest: int, since: int | None) -> tuple[int, list[memoryview]]:
    """Choose what is to be written of a ring's slots. Return the number of the first line, and the parts in order.

    ``oldest``: the first line that is whole. ``since``: nanoseconds of CLOCK_MONOTONIC from which on lines are wanted;
    None: as many as there are. It begins with the core or a checkpoint, so that it can be replayed; if neither is
    there, with the first line that can be read.
    """
    mask = head.lines - 1
    types = bytes(slots[::LINE])
    kinds = (types[oldest & mask :] + types[: oldest & mask])[: head.head - oldest]
    first = oldest + _first(head, slots, kinds, oldest, since)
    parts, at = [], first
    while at < head.head:
        end = min(head.head, (at | mask) + 1)
        parts.append(slots[(at & mask) * LINE : ((end - 1) & mask) * LINE + LINE])
        at = end
    return first, parts


def _copied(memory: "Buffer") -> tuple[Header, memoryview, int]:
    """Copy the slots of a ring whose core goes on. Return the head, the slots, and the oldest line that is whole."""
    head = header(memory)
    time.sleep(0.02)  # what is written past the caches arrives meanwhile
    slots = memoryview(bytes(memoryview(memory)[HEADER:]))
    after = header(memory)
    if (head.generation, head.pid, head.began) != (after.generation, after.pid, after.began):
        raise RecordingError("the core died meanwhile; try again")
    oldest = max(0, after.head - head.lines + IN_FLIGHT)
    if oldest and oldest >= head.head:
        raise RecordingError("the core writes faster than its records can be copied; raise flightRecords")
    return head, slots, oldest


def _first(head: Header, slots: memoryview, kinds: bytes, oldest: int, since: int | None) -> int:
    """Return the place among ``kinds`` where a recording begins."""
    starts, at = [] if oldest else [0], -1
    while (at := kinds.find(CHECKPOINT, at + 1)) >= 0 and oldest + at < head.checkpoint:
        starts.append(at)
    if not starts:
        return next((at for at, kind in enumerate(kinds) if kind in _CUT), len(kinds))
    chosen = starts[0]
    for at in starts if since is not None else []:
        line = ((oldest + at) & (head.lines - 1)) * LINE
        if since is not None and (oldest + at == 0 or struct.unpack_from("=Q", slots, line + 8)[0] <= since):
            chosen = at
    return chosen


class Taken(NamedTuple):
    """A recording that is no file yet."""

    about: About
    lines: bytes

    def write(self, path: Path) -> None:
        """Write it to a file that only its owner may read, at once or not at all. Raises OSError.

        Until then it is a hidden file beside it, whose name ends with eight letters or digits. It takes the place of
        a file, and of nothing else: root would put it in the place of a device.
        """
        import tempfile  # noqa: PLC0415  all processes of a router have this module, and only who writes files needs it

        with suppress(FileNotFoundError):
            mode = os.lstat(path).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a folder is refused in the end
                raise OSError(errno.EEXIST, "it is there, and is no regular file")
        told = msgspec.msgpack.encode(self.about)
        fd, new = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(MAGIC + struct.pack("=I", len(told)) + told)
                file.write(self.lines)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
        except BaseException:
            os.unlink(new)
            raise


def take(memory: "Buffer", router: str, version: str, why: str, last: float | None = None, *, running: bool) -> Taken:
    """Copy what a ring holds.

    ``last``: only so many seconds, and what a replay needs of the time before. ``running``: a core writes meanwhile.
    Raises RecordingError.
    """
    since = None if last is None else time.monotonic_ns() - int(last * 1e9)
    if running:
        head, slots, oldest = _copied(memory)
    else:
        head, slots = header(memory), memoryview(memory)[HEADER:]
        oldest = max(0, head.head - head.lines)
    first, parts = cut(head, slots, oldest, since)
    lines = b"".join(parts)
    about = About(
        router, version, why, time.time_ns(), len(lines) // LINE, first, first == 0, head.layout, head.image,
        head.places, head.workers, head.generation, head.pid, head.began, head.wall, head.arena_bytes,
        head.core_arena_bytes, bool(head.texts), bool(head.blind),
    )  # fmt: skip
    return Taken(about, lines)

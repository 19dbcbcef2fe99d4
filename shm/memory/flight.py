"""The flight recorder's ring as others than the core see it, and the file that it is written to (docs/replay.md).

A recording is a file: ``MAGIC``, the length of an ``About`` in MessagePack as four octets, the ``About``, and the lines
of flight.h in their order. It comes from anywhere, so whoever reads it checks everything.
"""

import os
import struct
import time
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from typing_extensions import Buffer

MAGIC: Final = b"routerd flight 1\n"
LINE: Final = 64
HEADER: Final = 4096
LEAST, MOST = 1024, 1 << 26  # lines
ABOUT_MOST: Final = 65536
MARGIN: Final = 4096  # lines that a running core may write while they are copied

BATCH, WORK, FANS, PARKED, CALL, TEXT, ROUTED, STATE, FORGOTTEN = range(128, 137)
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
    return 1 << max(LEAST.bit_length() - 1, (records - 1).bit_length())


def header(memory: Buffer) -> Header:
    """Read the head of a ring. Raises RecordingError if no core has begun it."""
    view = memoryview(memory)
    if len(view) < HEADER:
        raise RecordingError("there is no flight recorder")
    found = Header(*_HEAD.unpack_from(view), *_COUNTS.unpack_from(view, _COUNTS_AT))
    if found.magic != _MAGIC or found.lines != (len(view) - HEADER) // LINE or not found.lines:
        raise RecordingError("no core has begun to record yet")
    return found


def cut(memory: Buffer, since: int | None, running: bool) -> tuple[Header, int, bool, list[memoryview]]:
    """Choose what is to be written.

    Return the ring's head, the number of the first line, whether that is the core's first, and the parts in order.

    ``since``: nanoseconds of CLOCK_MONOTONIC from which on lines are wanted; None: as many as there are. It begins with
    the core or a checkpoint, so that it can be replayed; if neither is there, with the first line that can be read.
    """
    head = header(memory)
    if running:
        time.sleep(0.02)  # what is written past the caches arrives meanwhile
    view = memoryview(memory)[HEADER:]
    oldest = max(0, head.head - head.lines + (MARGIN if running else 0))
    mask = head.lines - 1
    ring = bytes(view[::LINE])  # the types of all lines
    kinds = (ring[oldest & mask :] + ring[: oldest & mask])[: head.head - oldest]
    first = oldest + _first(head, view, kinds, oldest, since)
    parts, at = [], first
    while at < head.head:
        end = min(head.head, (at | mask) + 1)
        parts.append(view[(at & mask) * LINE : ((end - 1) & mask) * LINE + LINE])
        at = end
    return head, first, first == 0, parts


def _first(head: Header, view: memoryview, kinds: bytes, oldest: int, since: int | None) -> int:
    """Return the place among ``kinds`` where a recording begins."""
    starts, at = [] if oldest else [0], -1
    while (at := kinds.find(CHECKPOINT, at + 1)) >= 0 and oldest + at < head.checkpoint:
        starts.append(at)
    if not starts:
        return next((at for at, kind in enumerate(kinds) if kind in _CUT), len(kinds))
    chosen = starts[0]
    for at in starts if since is not None else []:
        line = ((oldest + at) & (head.lines - 1)) * LINE
        if since is not None and (oldest + at == 0 or struct.unpack_from("=Q", view, line + 8)[0] <= since):
            chosen = at
    return chosen


class Taken(NamedTuple):
    """A recording that is no file yet."""

    about: About
    lines: bytes

    def write(self, path: Path) -> None:
        """Write it to a file that only its owner may read, at once or not at all. Raises OSError."""
        told = msgspec.msgpack.encode(self.about)
        new = path.with_name(f"{path.name}.new")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(MAGIC + struct.pack("=I", len(told)) + told)
                file.write(self.lines)
            new.rename(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise


def take(memory: Buffer, router: str, version: str, why: str, last: float | None = None, *, running: bool) -> Taken:
    """Copy what a ring holds.

    ``last``: only so many seconds, and what a replay needs of the time before. ``running``: a core writes meanwhile.
    Raises RecordingError.
    """
    since = None if last is None else time.monotonic_ns() - int(last * 1e9)
    head, first, whole, parts = cut(memory, since, running)
    lines = b"".join(parts)
    about = About(
        router, version, why, time.time_ns(), len(lines) // LINE, first, whole, head.layout, head.image, head.places,
        head.workers, head.generation, head.pid, head.began, head.wall, head.arena_bytes, head.core_arena_bytes,
        bool(head.texts), bool(head.blind),
    )  # fmt: skip
    return Taken(about, lines)

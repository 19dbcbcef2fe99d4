"""Reads a recording: its head, and its lines as steps of a replay. Everything in it is checked.

A recording is a file from anywhere. A ``RecordingError`` names the file and the record, from 0, that makes no sense.
"""

import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from core.forwarder.forward import IMAGE_MARK, RECORD_LAYOUT
from shm.contract.text import printable
from shm.memory import flight
from shm.memory.flight import LINE, About, RecordingError
from shm.memory.segment import MAX_ARENA_MIB
from shm.memory.space import MIB
from shm.native import CORE_ARENA_BYTES, MAX_WORKERS

FILE_MOST: Final = flight.ring_bytes(flight.MOST) + flight.ABOUT_MOST
ARENA_LEAST, ARENA_MOST = 65536, MAX_ARENA_MIB * MIB
_ABOUT: Final = struct.Struct("=BBHIQ")
_OCTETS: Final = struct.Struct("=II")
_READS: Final = struct.Struct("=IIQ")
_MORE: Final = bytes((flight.MORE,))
_READ_KINDS: Final = (flight.TEXT, flight.ROUTED, flight.STATE, flight.KEY, flight.HOPS)
NAMES: Final = {
    flight.WORK: "work", flight.FANS: "fans", flight.PARKED: "parked", flight.CALL: "call",
    flight.FORGOTTEN: "forgotten", flight.CHECKPOINT: "checkpoint", flight.ENTRY: "entry",
    flight.CHECKPOINT_END: "checkpoint end",
}  # fmt: skip


class Read(NamedTuple):
    """What the core read of a message in a worker's arena while it did a step."""

    kind: int
    worker: int
    block: int
    number: int
    length: int
    hashed: int
    detail: bytes


class Step(NamedTuple):
    """One step: an action or a record of work (``octets``: the record), a call, an entry of a checkpoint, a portion, or
    a text that is forgotten (``what``: its scope; ``octets``: one of bits, enum flight_text).

    ``number`` is that of its line in the file, from 0. ``kind`` is ``action`` or one of ``NAMES``.
    """

    number: int
    kind: str
    worker: int
    now: int
    what: int = 0  # the number of a call or an entry, or what its line counts
    octets: bytes = b""
    reads: tuple[Read, ...] = ()
    hashed: int = 0


class Recording:
    """A recording's head and lines. Raises RecordingError and OSError."""

    def __init__(self, about: About, lines: bytes, name: str = "the recording") -> None:
        self.about, self.lines, self.name = about, lines, name

    @classmethod
    def load(cls, path: Path) -> "Recording":
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise RecordingError(f"{path} is no recording: it is no regular file")
            octets = file.read(FILE_MOST + 1)
        if len(octets) > FILE_MOST:
            raise RecordingError(f"{path} is no recording: it is longer than any can be")
        return cls.parse(octets, str(path))

    @classmethod
    def parse(cls, octets: bytes, name: str = "the recording") -> "Recording":
        if not octets.startswith(flight.MAGIC):
            raise RecordingError(f"{name} is no recording of routerd: it does not begin as one")
        at = len(flight.MAGIC)
        length = int.from_bytes(octets[at : at + 4], "little")
        if length > flight.ABOUT_MOST or len(octets) < at + 4 + length:
            raise RecordingError(f"{name} is cut off in its head")
        try:
            about = msgspec.msgpack.decode(octets[at + 4 : at + 4 + length], type=About)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RecordingError(f"{name} has a head that makes no sense: {printable(str(error))}") from None
        lines = octets[at + 4 + length :]
        if len(lines) % LINE or len(lines) // LINE != about.lines:
            raise RecordingError(f"{name} has {len(lines)} octets of records, not {about.lines} records of {LINE}")
        if not 1 <= about.workers <= about.places <= MAX_WORKERS:
            raise RecordingError(f"{name} tells of {about.workers} workers in {about.places} places")
        if not (
            ARENA_LEAST <= about.arena_bytes <= ARENA_MOST and ARENA_LEAST <= about.core_arena_bytes <= CORE_ARENA_BYTES
        ):
            raise RecordingError(f"{name} tells of arenas that cannot be")
        return cls(about, lines, name)

    def octets(self, lines: bytes) -> bytes:
        """Return a file with other lines and the same head."""
        told = msgspec.msgpack.encode(msgspec.structs.replace(self.about, lines=len(lines) // LINE))
        return flight.MAGIC + len(told).to_bytes(4, "little") + told + lines

    @property
    def unfit(self) -> str | None:
        """Why it cannot be replayed at all, or None."""
        about = self.about
        if about.layout != RECORD_LAYOUT or (not about.whole and about.image != IMAGE_MARK):
            made_by = printable(about.version)
            return f"it was made by routerd {made_by}, whose records differ from this build's; use that version"
        if about.blind:
            return "replay does not know huge route tables, and the router had one"
        if not about.whole and not self.lines.startswith(bytes([flight.CHECKPOINT])):
            return "it begins in the middle: the ring held neither the core's begin nor a checkpoint"
        return None

    def steps(self) -> Iterator[Step]:
        """Go through all steps in their order."""
        return _Steps(self).all()


class _Steps:
    def __init__(self, recording: Recording) -> None:
        self._lines, self._name = recording.lines, recording.name
        self._workers = recording.about.places
        self._end = len(recording.lines) // LINE
        self._at = 0

    def _wrong(self, what: str) -> RecordingError:
        return RecordingError(f"{self._name}, record {self._at}: {what}")

    def _line(self, at: int) -> bytes:
        return self._lines[at * LINE : at * LINE + LINE]

    def all(self) -> Iterator[Step]:
        worker, now = -1, 0
        while self._at < self._end:
            line, number = self._line(self._at), self._at
            kind = line[0]
            if kind < flight.BATCH:
                if worker < 0:
                    raise self._wrong("an action of no worker")
                self._at += 1
                yield Step(number, "action", worker, now, 0, line, self._reads())
                continue
            _, of, which, count, when = _ABOUT.unpack_from(line)
            if of >= self._workers:
                raise self._wrong(f"there is no worker {of}")
            if kind == flight.BATCH:
                worker, now = of, when
                self._at += 1
            elif kind == flight.WORK:
                yield from self._work(of, count, when)
            elif kind in (flight.CALL, flight.ENTRY):
                if (octets := self._octets(line)) is None:
                    return
                yield Step(number, NAMES[kind], of, when, which, octets, self._reads() if kind == flight.CALL else ())
            elif kind in _READ_KINDS or kind == flight.MORE:
                if self._at or kind == flight.MORE:
                    raise self._wrong("it belongs to no record before it")
                self._at += 1
            elif kind in NAMES:
                self._at += 1
                yield self._other(number, line)
            else:
                raise self._wrong(f"its type {kind} is unknown")

    def _other(self, number: int, line: bytes) -> Step:
        kind, of, _, count, when = _ABOUT.unpack_from(line)
        if kind == flight.FORGOTTEN:
            scope, _, hashed = self._tail(line)
            return Step(number, NAMES[kind], of, when, scope, bytes((count & 0xFF,)), hashed=hashed)
        reads = self._reads() if kind in (flight.FANS, flight.PARKED) else ()
        return Step(number, NAMES[kind], of, when, count, b"", reads)

    @staticmethod
    def _tail(line: bytes) -> tuple[int, int, int]:
        length, block, hashed = _READS.unpack_from(line, 16)
        return block, length, hashed

    def _work(self, worker: int, count: int, now: int) -> Iterator[Step]:
        self._at += 1
        count = min(count, self._end - self._at)  # a core that died while it wrote them
        for _ in range(count):
            line = self._line(self._at)
            if line[0] >= flight.BATCH:
                raise self._wrong("work of an unknown type")
            yield Step(self._at, "work", worker, now, 0, line)
            self._at += 1

    def _octets(self, line: bytes) -> bytes | None:
        """Return the octets of a call or an entry; None: the core died while it wrote them."""
        length, _ = _OCTETS.unpack_from(line, 16)
        if length > flight.OCTETS_MOST:
            raise self._wrong(f"it has {length} octets, more than any call")
        self._at += 1
        first = line[24 : 24 + min(length, flight.INLINE)]
        count = -(-(length - len(first)) // flight.MORE_OCTETS)
        more = bytearray(self._lines[self._at * LINE : (self._at + count) * LINE])
        kinds = more[::LINE]
        self._at += (whole := len(kinds) - len(kinds.lstrip(_MORE)))
        if whole < len(kinds):
            raise self._wrong("the octets of a call are cut off")
        if whole < count:
            return None
        del more[::LINE]  # each line's type
        return first + more[: length - len(first)]

    def _reads(self) -> tuple[Read, ...]:
        if self._at >= self._end or self._lines[self._at * LINE] not in _READ_KINDS:
            return ()
        found = []
        while self._at < self._end and self._lines[self._at * LINE] in _READ_KINDS:
            line = self._line(self._at)
            _, worker, _, count, _ = _ABOUT.unpack_from(line)
            block, length, hashed = self._tail(line)
            if worker >= self._workers:
                raise self._wrong(f"there is no worker {worker}")
            found.append(Read(line[0], worker, block, count, length, hashed, line[32:]))
            self._at += 1
        return tuple(found)

"""Whatever stands in a file that should be a recording: it is refused, or replayed, and the replay ends."""

import mmap
from contextlib import suppress
from functools import cache
from typing import Final

import msgspec

from bench import contract as n
from routerd.replay.recording import Recording
from routerd.replay.run import Replay
from routerd.replay.told import step_told
from shm.memory import flight
from shm.memory.flight import LINE, RecordingError
from tests.model.exchange_life import ExchangeLife
from tests.model.network_life import Life, from_checkpoints
from tests.model.world import World

LINES: Final = 700  # of a recording, so that an input takes no more than a moment


@cache
def recordings() -> tuple[bytes, ...]:
    """A recording that begins with the core; from checkpoints one of a router, one of a network's router, and one of a
    router with exchanges and a route table."""
    found = []
    for lines, moves in ((1 << 14, 60), (1 << 13, 4000)):
        ring = mmap.mmap(-1, flight.ring_bytes(lines))
        World(1, capacity=n.RING_CAPACITY, deaths=False, flight=ring).run(moves)
        taken = flight.take(ring, "me", "0", "fuzzing", running=False)
        cut = taken.lines[: LINES * LINE]
        about = msgspec.structs.replace(taken.about, lines=len(cut) // LINE)
        found.append(Recording(about, cut).octets(cut))
    life, tables = Life(1, border=True), ExchangeLife(2, 1 << 13)
    life.run(2000)
    tables.run(2500)
    for ring in (life.net["B"].memory.flight, tables.memory.flight):
        assert ring is not None
        recording = from_checkpoints(ring)[-1]
        found.append(recording.octets(recording.lines[: 2 * LINES * LINE]))
    return tuple(found)


def one(octets: bytes) -> None:
    """The first octet chooses a recording, with its third bit that of a network's router, with its fourth that with a
    route table; then four octets each change one of it: where, and to what.

    With its second bit the octets are a call instead, by the number that the second octet has.
    """
    if octets and octets[0] & 2:
        _run(_with_call(octets[1:]))
        return
    changed = bytearray(recordings()[_chosen(octets[0]) if octets else 0])
    for at in range(1, len(octets) - 3, 4):
        changed[int.from_bytes(octets[at : at + 3], "little") % len(changed)] = octets[at + 3]
    _run(bytes(changed))


def _chosen(octet: int) -> int:
    return 3 if octet & 8 else 2 if octet & 4 else octet & 1


def _with_call(octets: bytes) -> bytes:
    """A recording that has nothing but a call."""
    what, arguments = octets[0] if octets else 0, octets[1:]
    line = bytes([flight.CALL, 0, what, 0]) + bytes(12) + len(arguments).to_bytes(4, "little") + bytes(4)
    lines = line + arguments[: flight.INLINE].ljust(flight.INLINE, b"\0")
    for at in range(flight.INLINE, len(arguments), flight.MORE_OCTETS):
        more = arguments[at : at + flight.MORE_OCTETS]
        lines += bytes([flight.MORE]) + more.ljust(flight.MORE_OCTETS, b"\0")
    return Recording.parse(recordings()[0]).octets(lines)


def _run(octets: bytes) -> None:
    with suppress(RecordingError):
        recording = Recording.parse(octets)
        for step in recording.steps():
            assert step_told(recording, step)
        Replay(recording).run()

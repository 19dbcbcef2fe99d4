"""Cuts a recording down to the records that still do what it does.

Delta debugging: parts of the recording are left out, halves first and single steps last, as long as what is left does
the same. Work is left out at once, since nothing compares with it any more. A step that names what an omitted one has
made is dropped by the core as stale, which is what it is for.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from routerd.replay.recording import Recording
from shm.memory import flight
from shm.memory.flight import LINE, RecordingError

ATTEMPTS: Final = 2000


def minimised(
    recording: Recording,
    same: Callable[[Recording], bool],
    last: int | None = None,
    told: Callable[[int], object] = lambda _: None,
) -> Recording:
    """Return a recording with fewer records, of which ``same`` is true as well. ``recording`` itself if there is none.

    ``same`` is called `ATTEMPTS` times at most. ``last``: the last line that counts; what follows is left out
    at once. ``told`` is called with the number of steps that are left, round by round. An interrupt ends the search,
    and what was found until then is returned.
    """
    head, parts = _parts(recording, last)
    left = ATTEMPTS

    def tried(chosen: list[bytes]) -> bool:
        nonlocal left
        left -= 1
        return same(_of(recording, head + b"".join(chosen)))

    if not tried(parts):
        return recording
    size = max(1, len(parts) // 2)
    with suppress(KeyboardInterrupt):
        while left > 0:
            at, shrunk = 0, False
            while at < len(parts) and left > 0:
                without = parts[:at] + parts[at + size :]
                if without and tried(without):
                    parts, shrunk = without, True
                else:
                    at += size
            told(len(parts))
            if size == 1 and not shrunk:
                break
            size = max(1, size // 2)
    return _of(recording, head + b"".join(parts))


def _of(recording: Recording, lines: bytes) -> Recording:
    about = msgspec.structs.replace(recording.about, lines=len(lines) // LINE)
    return Recording(about, lines, recording.name)


def _parts(recording: Recording, last: int | None) -> tuple[bytes, list[bytes]]:
    """Return the lines of the checkpoint that it begins with, and those of each other step but work, with its batch.

    Steps behind the line ``last`` are left out.
    """
    starts: list[tuple[int, str, int, int]] = []
    for step in recording.steps():
        starts.append((step.number, step.kind, step.worker, step.now))
    ends = [number for number, *_ in starts[1:]] + [recording.about.lines]
    head, checkpoint = b"", False
    parts: list[bytes] = []
    for (number, kind, worker, now), end in zip(starts, ends, strict=True):
        if last is not None and number > last:
            break
        lines = _without_marks(recording.lines[number * LINE : end * LINE], kind)
        if kind == "checkpoint":
            checkpoint = not head and not parts
        if kind in ("checkpoint", "entry", "checkpoint end"):
            head += lines if checkpoint else b""
        elif kind == "action":
            parts.append(_batch(worker, now) + lines)
        elif kind != "work":
            parts.append(lines)
    if not parts:
        raise RecordingError(f"{recording.name} has no records to leave out")
    return head, parts


def _batch(worker: int, now: int) -> bytes:
    return bytes([flight.BATCH, worker, 0, 0, 0, 0, 0, 0]) + now.to_bytes(8, "little") + bytes(48)


def _without_marks(lines: bytes, kind: str) -> bytes:
    """Return a step's lines without the marks of batches and work behind it."""
    rows = [lines[at : at + LINE] for at in range(0, len(lines), LINE)]
    return b"".join(row for i, row in enumerate(rows) if not i or row[0] not in (flight.BATCH, flight.WORK))

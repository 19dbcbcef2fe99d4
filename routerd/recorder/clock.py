"""The flow log's clock: the time of day, without large steps until they have proved true.

    agreeing --a step of more than an hour--> doubting --it is taken back--> agreeing
    doubting --a day later it still stands--> agreeing

A step is the time of day's change beyond that of a clock that cannot be set. Small steps add up to a sum, of
which an hour a day is forgotten, so a clock that time servers adjust is always believed. While a step is
doubted, the earlier of the two times counts, so a wrong clock deletes nothing. A file keeps the state:
the next recorder, or the next boot, continues from it, and the first one from the newest hour of the log.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

STEP: Final = 3600.0  # seconds; a sum of steps below this is believed at once
DOUBT: Final = 86400.0  # seconds for which a step is doubted
FORGOTTEN: Final = STEP / DOUBT  # seconds per second that the sum of small steps loses


def steady() -> float:
    """Return seconds since boot, including suspended time (CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def machine() -> str:
    """Return the id of this boot of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


class _Seen(msgspec.Struct):
    """The last reading. ``at`` is by the steady clock; ``time`` is since 1970, without doubted steps."""

    machine: str
    at: float
    time: float
    step: float = 0.0  # the doubted step of the time of day, as it was first seen
    held: float = 0.0  # how long the step has lasted
    before: float = 0.0  # the time before the last believed step
    spare: float = 0.0  # how long hours before that time are still spared


class Reading(NamedTuple):
    """``time`` is what counts; ``step`` is how far the time of day is ahead of it (negative: behind).

    ``spared`` is the time before which the newest hours are kept; 0 spares none.
    """

    time: float
    step: float = 0.0
    spared: float = 0.0
    believed: bool = False  # a step has just been believed


class LogClock:
    """The clock of one router's flow log. ``path`` names the file that keeps its state."""

    def __init__(self, path: Path, ticks: Callable[[], float] = steady, life: Callable[[], str] = machine) -> None:
        self._path = path
        self._ticks = ticks
        self._life = life
        self._seen: _Seen | None = None

    def read(self, wall: float, newest: float, spare: float) -> Reading:
        """Return the time for a time of day ``wall``.

        ``newest`` is the end of the log's newest hour; ``spare`` is how long a believed step forward spares
        the hours before it. All are in seconds.
        """
        at, life = self._ticks(), self._life()
        known = self._seen or self._kept()
        seen = known or _Seen(life, at, min(wall, newest))
        passed = max(0.0, at - seen.at) if life == seen.machine else 0.0
        expected = seen.time + passed
        step = wall - expected
        now = _Seen(life, at, wall, 0.0, 0.0, seen.before, max(0.0, seen.spare - passed))
        going_by = wall
        believed = False
        if abs(step) > STEP:
            # A machine that was off has not seen the time pass.
            same = abs(step - seen.step) <= STEP or (life != seen.machine and step > seen.step > 0)
            now.held = seen.held + passed if same else 0.0
            believed = now.held >= DOUBT
            if not believed:
                # Compared with the previous reading only, a clock that runs away would seem right.
                now.time, now.step = expected, seen.step if same and life == seen.machine else step
                going_by = min(wall, expected)
            elif step > 0:
                now.before, now.spare = expected, spare
        elif known:
            most = passed * FORGOTTEN
            now.time = expected + max(-most, min(most, step))
        self._keep(now)
        doubted = step if now.step else 0.0
        return Reading(going_by, doubted, now.before if now.spare else 0.0, believed)

    def _kept(self) -> _Seen | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Seen)
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return None

    def _keep(self, seen: _Seen) -> None:
        """Save the state for the next recorder; with a full disk, keep it in memory only."""
        self._seen = seen
        hidden = self._path.with_name(f".{self._path.name}.tmp")
        with contextlib.suppress(OSError):
            hidden.write_bytes(msgspec.json.encode(seen))
            hidden.rename(self._path)

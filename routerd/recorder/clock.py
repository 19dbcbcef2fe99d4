"""How late it is for the flow log: the time of day, but no step of it is believed at once.

    agreeing --a step of more than an hour--> doubting --it is taken back--> agreeing
    doubting --a day later it still stands--> agreeing

A step is what the time of day has moved beyond what has passed by a clock that nobody can set. Small ones add
up; an hour of their sum a day is forgotten, so a clock which time servers keep right is believed for good.
While a step is doubted the earlier of the two counts: a wrong clock deletes nothing. What was seen is kept in
a file: another recorder, or another start of the machine, goes on from there, the first one from the newest
hour.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

STEP: Final = 3600.0  # seconds; less, with those before, is believed at once
DOUBT: Final = 86400.0  # for so long a step is doubted
FORGOTTEN: Final = STEP / DOUBT  # of the sum of small steps, by the second


def steady() -> float:
    """Seconds since the machine was started, asleep or not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def machine() -> str:
    """This life of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


class _Seen(msgspec.Struct):
    """When was looked last, in seconds. ``at`` is by the steady clock; ``time`` is of 1970, as it is without
    the steps that are not forgotten."""

    machine: str
    at: float
    time: float
    step: float = 0.0  # that is doubted, of the time of day; what it was when it began to stand
    held: float = 0.0  # for how long
    before: float = 0.0  # when it was, before the last step that was believed
    spare: float = 0.0  # for how long what is from before then is spared


class Reading(NamedTuple):
    """``time``: what to go by. ``step``: how far the time of day is beyond it, or before; 0: they agree.
    ``spared``: the newest hours before that time are to be spared; 0: none is."""

    time: float
    step: float = 0.0
    spared: float = 0.0
    believed: bool = False  # a step, just now


class LogClock:
    """Of one router's log. ``path``: of the file that keeps what was seen."""

    def __init__(
        self, path: Path, ticks: Callable[[], float] = steady, life: Callable[[], str] = machine
    ) -> None:
        self._path = path
        self._ticks = ticks
        self._life = life
        self._seen: _Seen | None = None

    def read(self, wall: float, newest: float, spare: float) -> Reading:
        """How late it is, when the time of day is ``wall``. ``newest``: when the log's newest hour ended;
        ``spare``: for how long a step forward spares what was there before."""
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
            # A machine that was off has seen nothing of the time that it was off.
            same = abs(step - seen.step) <= STEP or (life != seen.machine and step > seen.step > 0)
            now.held = seen.held + passed if same else 0.0
            believed = now.held >= DOUBT
            if not believed:
                # Compared with the last look a clock that runs away would stand still.
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
        """For the next recorder; on a disk without room it is only remembered."""
        self._seen = seen
        hidden = self._path.with_name(f".{self._path.name}.tmp")
        with contextlib.suppress(OSError):
            hidden.write_bytes(msgspec.json.encode(seen))
            hidden.rename(self._path)

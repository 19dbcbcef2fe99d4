"""Detects children that hang.

Core, workers and recorder count the turns of their loops on their statistics pages, at least one a second. The
exporter, which may not write there, reports to the supervisor once a second.

A serving child whose heartbeat stands still for `HUNG_SECONDS` is killed, so that a hang has the consequences
of a death. Only time in which the supervisor ran counts, so a suspended machine or supervisor kills nobody. A
recorder may wait for its disk as long as that takes; it is killed only if a signal or debugger has stopped it. The
exporter gets only the CPU time that the router leaves: time in which it waited for a CPU does not count.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

from routerd.supervise.child import Place
from routerd.supervise.memory import SharedMemory
from shm.contract.roles import Role

POLL_SECONDS = 1.0  # between two polls; an idle child beats as often
HUNG_SECONDS = 5.0  # far longer than any turn of a loop, and bearable for waiting clients

STOPPED = ("stopped", "traced")  # states of a process that a signal or debugger holds
_STATES = {"T": "stopped", "t": "traced", "D": "waiting for a device", "R": "running", "S": "sleeping"}


class _Pulse:
    """The last known heartbeat of one generation of a child."""

    def __init__(self, generation: int, beat: int) -> None:
        self.generation = generation
        self.beat = beat
        self.still = 0.0  # seconds without progress
        self.waited = 0.0  # seconds for which it had waited for a CPU at the last poll
        self.progressed = False  # since the watchdog was last fed


class Watch:
    """Polls the children's heartbeats. Time is an argument; nothing here blocks."""

    def __init__(
        self,
        memory: SharedMemory,
        state: Callable[[int], str] | None = None,
        waited: Callable[[int], float] | None = None,
    ) -> None:
        self._memory = memory
        self._state = state or process_state
        self._waited = waited or seconds_waited
        self._pulses: dict[str, _Pulse] = {}  # by the place's name
        self._polled: float | None = None

    def due(self, now: float) -> float:
        """Return when the next poll is due."""
        return now if self._polled is None else self._polled + POLL_SECONDS

    def poll(self, places: list[Place], now: float) -> None:
        """Kill each child that hangs."""
        passed = 0.0 if self._polled is None else min(now - self._polled, 1.5 * POLL_SECONDS)
        self._polled = now
        for place in places:
            if place.child is None or not place.serving:
                self._pulses.pop(place.name, None)
                continue
            still = self._still(place, passed)
            if still < HUNG_SECONDS:
                continue
            state = self._state(place.child.pid)
            if place.role != Role.RECORDER or state in STOPPED:
                del self._pulses[place.name]
                place.child.kill(f"hung: its loop has not turned for {still:.0f} s (the process is {state})")

    def all_progressed(self, places: list[Place]) -> bool:
        """Whether each serving child has made a turn since the last call that returned True.

        Children that are being replaced do not count: they have deadlines of their own.
        """
        pulses = [self._pulses.get(place.name) for place in places if place.serving]
        if not all(pulse is not None and pulse.progressed for pulse in pulses):
            return False
        for pulse in self._pulses.values():
            pulse.progressed = False
        return True

    def _still(self, place: Place, passed: float) -> float:
        beat = self._beat(place)
        pulse = self._pulses.get(place.name)
        if pulse is None or pulse.generation != place.generation:
            pulse = self._pulses[place.name] = _Pulse(place.generation, beat)
            passed = 0.0
        waited, pulse.waited = pulse.waited, self._has_waited(place)
        if beat != pulse.beat:
            pulse.beat, pulse.still, pulse.progressed = beat, 0.0, True
        else:
            pulse.still += max(0.0, passed - (pulse.waited - waited))
        return pulse.still

    def _has_waited(self, place: Place) -> float:
        if place.role != Role.EXPORTER or place.child is None:
            return 0.0
        return self._waited(place.child.pid)

    def _beat(self, place: Place) -> int:
        if place.role == Role.EXPORTER:
            return place.beats
        if place.role == Role.RECORDER:
            return self._memory.recorder_heartbeat()
        return self._memory.heartbeat(place.index)


def process_state(pid: int) -> str:
    """Return the state of a process as the kernel reports it, in words."""
    with contextlib.suppress(OSError, IndexError):
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return _STATES.get(letter, letter)
    return "gone"


def seconds_waited(pid: int) -> float:
    """Return for how long a process has waited for a CPU; 0 where the kernel does not say (sched-stats.rst)."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) * 1e-9
    return 0.0

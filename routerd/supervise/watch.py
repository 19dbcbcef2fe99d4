"""Whether the children still turn: core, workers and recorder beat on their statistics pages once a loop, at
least once a second; the exporter, which may not write there, tells the supervisor once a second.

A child that serves and whose heartbeat stands still for `HUNG_SECONDS` is taken for dead and killed, so that
what follows a death follows a hang, too. Only time that the supervisor was awake counts: when the whole
machine or the supervisor itself was stopped for a while, nobody is blamed for it. A recorder may wait for its
disk, however long that takes: it is killed only if somebody has stopped it.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from routerd.supervise.child import Place
from shm.contract.roles import Role

LOOK_SECONDS = 1.0  # between two looks; an idle child beats as often
HUNG_SECONDS = 5.0  # far beyond any turn of a loop, near enough for clients that wait

STOPPED = ("stopped", "traced")  # states of a process that somebody holds
_STATES = {"T": "stopped", "t": "traced", "D": "waiting for a device", "R": "running", "S": "sleeping"}


class Beats(Protocol):
    """What is needed of the shared memory."""

    def heartbeat(self, slot: int) -> int:
        """The turns that a worker's loop, or for slot `places` the core's, has made."""

    def recorder_heartbeat(self) -> int:
        """The turns that the recorder's loop has made."""


class _Pulse:
    """What was last seen of one generation of a child."""

    def __init__(self, generation: int, beat: int) -> None:
        self.generation = generation
        self.beat = beat
        self.still = 0.0  # seconds without progress
        self.progressed = False  # since the service manager was last told that all is well


class Watch:
    """Looks at the children's heartbeats. Time is an argument; nothing here blocks."""

    def __init__(self, beats: Beats, state: Callable[[int], str] | None = None) -> None:
        self._beats = beats
        self._state = state or process_state
        self._pulses: dict[str, _Pulse] = {}  # by the place's name
        self._looked: float | None = None

    def due(self, now: float) -> float:
        """When the next look is to be taken."""
        return now if self._looked is None else self._looked + LOOK_SECONDS

    def look(self, places: list[Place], now: float) -> None:
        """Kill every child that has hung for too long."""
        passed = 0.0 if self._looked is None else min(now - self._looked, 1.5 * LOOK_SECONDS)
        self._looked = now
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
        """Whether each serving child has turned since this last was so. Those that are being replaced do not
        count: the supervisor has them in hand, and sees to it that they serve or die in time."""
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
            self._pulses[place.name] = _Pulse(place.generation, beat)
            return 0.0
        if beat != pulse.beat:
            pulse.beat, pulse.still, pulse.progressed = beat, 0.0, True
        else:
            pulse.still += passed
        return pulse.still

    def _beat(self, place: Place) -> int:
        if place.role == Role.EXPORTER:
            return place.beats
        if place.role == Role.RECORDER:
            return self._beats.recorder_heartbeat()
        return self._beats.heartbeat(place.index)


def process_state(pid: int) -> str:
    """What the kernel says a process is doing, in a word or some."""
    with contextlib.suppress(OSError, IndexError):
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return _STATES.get(letter, letter)
    return "gone"

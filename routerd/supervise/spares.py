"""Spare processes: they have everything imported and no role yet, and take the places of those that die.

What a new process costs is its imports: half a second of a CPU, the rest is a fiftieth of it. So there are
two of them: one for who dies next, one for who dies before there is another spare. While other workers serve,
the last one is kept for the core: without it nobody is served; a dead worker's clients go to the others.
"""

import logging
from collections.abc import Callable

from routerd.log.log import event
from routerd.supervise.child import Child, Command, Place
from routerd.supervise.restart_policy import Life
from routerd.supervise.watch import STOPPED, process_state
from shm.contract.roles import Role

SPARES = 2
FIRST_AFTER = 1.0  # since the router's processes were started: until then the machine has better things to do
SECOND_AFTER = 10.0  # the other one, where nobody has died yet: who runs for a moment only does without
SPARE_AFTER = 0.25  # once somebody has died: since a death or a start

LOGGER = logging.getLogger("SERVER")


class Spares:
    """The places of the spares. Time is an argument; nothing here blocks."""

    def __init__(self, command: Command, state: Callable[[int], str] = process_state) -> None:
        self._command = command
        self._state = state
        self._due = 0.0
        self._needed = False  # somebody has died
        self.places = [Place(Role.SPARE, index, []) for index in range(SPARES)]

    def later(self, now: float) -> None:
        """Somebody has been started, or has ended."""
        self._due = now + (SPARE_AFTER if self._needed else FIRST_AFTER)

    def needed(self, now: float) -> None:
        """Somebody has died: others may follow."""
        self._needed = True
        self.later(now)

    def take(self, keep: int = 0) -> Child | None:
        """The one that has been there for longest, if there are more than ``keep``; none that somebody has
        stopped: it is killed."""
        there = []
        for place in self.places:
            if place.child is None or place.dismissed:
                continue
            if self._state(place.child.pid) in STOPPED:
                self._dismiss(place, "somebody has stopped it, and it is needed")
            else:
                there.append((place.child.born, place.index))
        if len(there) <= keep:
            return None
        place = self.places[min(there)[1]]
        child, place.child = place.child, None
        return child

    def dismiss(self, why: str) -> None:
        """Kill them; others are started when there is time for it."""
        for place in self.places:
            self._dismiss(place, why)

    def _dismiss(self, place: Place, why: str) -> None:
        if place.child is not None:
            place.dismissed = True
            place.child.kill(why)

    def step(self, now: float) -> None:
        """Start one that is missing, when it is due."""
        due = self.next_step(now)
        if due is not None and now >= due:
            self._start(min(self._missing(), key=lambda place: place.delay(now)), now)

    def next_step(self, now: float) -> float | None:
        """When `step` has something to do."""
        return min((max(self._due, now + place.delay(now)) for place in self._missing()), default=None)

    def _missing(self) -> list[Place]:
        return [place for place in self.places if place.child is None]

    def _start(self, place: Place, now: float) -> None:
        self._due = now + (SPARE_AFTER if self._needed else SECOND_AFTER)
        place.dismissed = False
        place.generation += 1
        try:
            place.child = Child(self._command(place.role, place.index), None, [], now)
            place.child.generation = place.generation
        except OSError as error:  # then the next death takes longer
            place.lives.append(Life(now, None, now))
            event(LOGGER, logging.WARNING, "no spare process can be started", why=error)

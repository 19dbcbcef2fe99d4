"""Spare processes, which have all code imported and take the role of a core or worker that dies.

A new process costs half a second of CPU for its imports, and a fiftieth of that for all else. There are two
spares: one for the next death, one for a death before another spare is ready. The last spare is reserved for
the core while other workers serve, because they serve the clients of a dead worker, but not without a core.
"""

import logging
from collections.abc import Callable

from routerd.log.log import event
from routerd.supervise.child import Child, Command, Place
from routerd.supervise.restart_policy import Life
from routerd.supervise.watch import STOPPED, process_state
from shm.contract.roles import Role

SPARES = 2
FIRST_AFTER = 3.0  # seconds after the router's start, so that spares do not delay it
SECOND_AFTER = 10.0  # seconds until the second spare, if no process has died
SPARE_AFTER = 0.25  # seconds after a death or start, once a process has died

LOGGER = logging.getLogger("SERVER")


class Spares:
    """The spares. Time is an argument; nothing here blocks."""

    def __init__(self, command: Command, state: Callable[[int], str] = process_state) -> None:
        self._command = command
        self._state = state
        self._due = 0.0
        self._needed = False  # a process has died
        self.places = [Place(Role.SPARE, index, []) for index in range(SPARES)]

    def later(self, now: float) -> None:
        """Postpone the next spare: a process has started or ended."""
        self._due = now + (SPARE_AFTER if self._needed else FIRST_AFTER)

    def needed(self, now: float) -> None:
        """Start spares sooner from now on: a process has died, and others may follow."""
        self._needed = True
        self.later(now)

    def take(self, keep: int = 0) -> Child | None:
        """Return the oldest spare, if there are more than ``keep``; kill spares that are stopped."""
        there = []
        for place in self.places:
            if place.child is None or place.dismissed:
                continue
            if self._state(place.child.pid) in STOPPED:
                self._dismiss(place, "it is needed, but stopped by a signal or debugger")
            else:
                there.append((place.child.born, place.index))
        if len(there) <= keep:
            return None
        place = self.places[min(there)[1]]
        child, place.child = place.child, None
        return child

    def dismiss(self, why: str) -> None:
        """Kill the spares; new ones start later."""
        for place in self.places:
            self._dismiss(place, why)

    def _dismiss(self, place: Place, why: str) -> None:
        if place.child is not None:
            place.dismissed = True
            place.child.kill(why)

    def step(self, now: float) -> None:
        """Start a missing spare when it is due."""
        due = self.next_step(now)
        if due is not None and now >= due:
            self._start(min(self._missing(), key=lambda place: place.delay(now)), now)

    def next_step(self, now: float) -> float | None:
        """Return when `step` has something to do."""
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
        except OSError as error:  # the next death only takes longer
            place.lives.append(Life(now, None, now))
            event(LOGGER, logging.WARNING, "cannot start a spare process", why=error)

"""The rolling restart: workers, then core and recorder, are replaced one at a time while the others serve.

    waiting --all serve--> leaving --its process is gone--> waiting --...--> (over)

A worker that leaves goes through the phases of a stop alone (routerd.supervise.stopping): it accepts no
clients, lets deliveries settle, closes its connections, exits. The other workers accept clients meanwhile;
without others, clients wait in the sockets' queues. The core exits at once; the workers keep their connections
and wait for the next core. The recorder is the last and has the time that its file takes; records wait in its
ring meanwhile, and nobody waits for its successor. The exporter stays, because WebSockets with TLS would end
with it.
Prohibited: a worker or the core leaves before the successor of the last one serves. New code that does not
start therefore costs one process, not all.
"""

import logging
from collections.abc import Callable, Sequence

from routerd.log.log import NOTICE, event
from routerd.supervise.child import Place
from routerd.supervise.stopping import Phase, Stopping
from shm.contract.control import CloseConnections
from shm.contract.roles import Role

REPLACED = CloseConnections("this worker of the router is replaced; connect again")

LOGGER = logging.getLogger("SERVER")


class Rolling:
    """One pass over all workers, the core and the recorder. Time is an argument; nothing here blocks."""

    def __init__(
        self, core: Place, workers: Sequence[Place], recorder: Place, grace: float, wake_core: Callable[[], None]
    ) -> None:
        self._everybody = [*workers, core]
        self._left = [*workers, core, recorder]
        self._grace = grace
        self._wake_core = wake_core
        self._leaving: Place | None = None
        self._generation = 0
        self._stopping: Stopping | None = None

    def step(self, now: float) -> bool:
        """Do what is due now; return True at the end."""
        self._left = [place for place in self._left if _has_to_leave(place)]
        if self._leaving is not None and (not self._asked(self._leaving) or self._leaving.leaving):
            self._leaving = self._stopping = None
        if self._leaving is not None:
            self._go_on(self._leaving, now)
        elif all(place.serving and not place.quiet for place in self._everybody if place.leaving is None):
            if not self._left:
                event(LOGGER, NOTICE, "Rolling restart: all processes are new, except supervisor and exporter")
                return True
            self._begin(self._left.pop(0), now)
        return False

    @property
    def deadline(self) -> float | None:
        """Return when `step` has something to do, if nothing happens before."""
        if self._stopping is None or self._stopping.phase is Phase.KILLING:
            return None
        return self._stopping.deadline

    def answered(self, place: Place, phase: Phase) -> bool:
        """Note that a worker has done what a phase asks for; return False if it was not asked."""
        if self._stopping is None or not self._asked(place):
            return False
        self._stopping.answered(place.index, phase)
        return True

    def _asked(self, place: Place) -> bool:
        """Whether this generation of a place was told to leave."""
        return place is self._leaving and place.generation == self._generation and place.child is not None

    def _begin(self, place: Place, now: float) -> None:
        event(LOGGER, NOTICE, f"Rolling restart: {place.name} leaves", generation=place.generation)
        self._leaving, self._generation = place, place.generation
        if place.role == Role.RECORDER:
            place.end_file(now)
        elif place.role == Role.WORKER:
            self._stopping = Stopping(now, self._grace, {place.index})
            self._order(place, Phase.DRAINING)
        else:
            self._stopping = Stopping(now, 0.0, set())  # the core has no connections
            self._go_on(place, now)

    def _go_on(self, place: Place, now: float) -> None:
        while self._stopping is not None and (phase := self._stopping.step(now)):
            self._order(place, phase)

    def _order(self, place: Place, phase: Phase) -> None:
        place.leave(phase, REPLACED)
        if place.role == Role.CORE:
            self._wake_core()


def _has_to_leave(place: Place) -> bool:
    """Whether a place must be replaced: a removed worker leaves anyway, and a missing recorder starts new."""
    return place.leaving is None and (place.role != Role.RECORDER or place.child is not None)

"""The workers' places: their number, and how workers are added and removed.

    wanted, no place --place, WorkerAdded--> vacant --...--> serving    (in routerd.supervise.children)
    serving --not wanted--> leaving --its process is gone--> told the core --WorkerReclaimed--> no place

Who removes a worker by management may be connected to it: the worker begins to leave when the answer is on its way.
Places have numbers from 0 without a gap: the last ones are added last and removed first. A worker that leaves
goes through the phases of a stop alone (routerd.supervise.stopping): it accepts no clients, lets deliveries
settle, closes its connections, exits. Its clients reconnect to the other workers. Prohibited: to fill a place
before it is empty; to return the memory of a place while the core knows of it.
"""

import logging
from collections.abc import Callable, Sequence

from routerd.log.log import NOTICE, event
from routerd.machine.pinning import repin
from routerd.supervise.child import Place
from routerd.supervise.stopping import Phase, Stopping, order
from shm.contract.control import CloseConnections, WorkerAdded, WorkerGone
from shm.contract.numbers import counted
from shm.contract.roles import Role

ANSWER_SECONDS = 5.0  # a worker that its own client removes stays so long if the client does not take the answer
RECLAIM_SECONDS = 30.0  # the core needs milliseconds; longer is a hang
REMOVED = CloseConnections("this worker of the router is removed; connect again")

LOGGER = logging.getLogger("SERVER")


class WorkerSlots:
    """The places, by index.

    ``counted`` is called with their number when that changes, ``emptied`` with the index of a place whose
    memory has no owner, ``wake_core`` after each message to the core.
    """

    def __init__(
        self,
        core: Place,
        cpus: Sequence[list[int]],
        counted: Callable[[int], None],
        emptied: Callable[[int], None],
        wake_core: Callable[[], None],
    ) -> None:
        self._core = core
        self._cpus = list(cpus)
        self._counted = counted
        self._emptied = emptied
        self._wake_core = wake_core
        self._grace = 0.0
        self._former: dict[int, int] = {}  # last generations of removed places, by index
        self.workers = [Place(Role.WORKER, i, its) for i, its in enumerate(cpus)]

    def want(self, cpus: Sequence[list[int]], grace: float, now: float, answer: int = 0) -> None:
        """Add or remove workers until each list of CPUs has one; removed ones have ``grace`` seconds to settle.

        They begin to leave when the management request ``answer`` is `answered`; 0: at once.
        """
        self._cpus, self._grace = list(cpus), grace
        for worker, its in zip(self.workers, cpus, strict=False):
            if worker.cpus != its:
                worker.cpus = its
                if worker.child is not None:
                    repin(worker.child.pid, its)
        for worker in self.workers[len(cpus) :]:
            if worker.leaving is None:
                event(LOGGER, NOTICE, f"{worker.name} leaves: the router is to have {counted(len(cpus), 'worker')}")
                worker.leaving = Stopping(now, grace, {worker.index})
                worker.answer, worker.leave_at = answer, now + (ANSWER_SECONDS if answer else 0.0)

    def answered(self, answer: int | None, now: float) -> None:
        """Let workers leave that have waited for this answer, or, for None, for any: the core is dead."""
        for worker in self.workers:
            if worker.leave_at is not None and answer in (worker.answer, None):
                worker.leave_at = now

    def step(self, now: float) -> None:
        """Do what is due now."""
        for worker in self.workers:
            if worker.leaving is not None:
                self._go_on(worker, worker.leaving, now)
        count = len(self.workers)
        while self.workers and self.workers[-1].removed:
            gone = self.workers.pop()
            self._former[gone.index] = gone.generation
            event(LOGGER, NOTICE, f"{gone.name} is removed", workers=len(self.workers))
        if not any(worker.leaving for worker in self.workers):
            for index in range(len(self.workers), len(self._cpus)):
                self._join(index, now)
        if len(self.workers) != count:
            self._counted(len(self.workers))

    def place_memory(self, worker: Place) -> None:
        """Release free blocks before a worker starts on other CPUs than the last one, so that new ones are near."""
        if worker.placed is not None and worker.placed != worker.cpus:
            self._emptied(worker.index)
        worker.placed = worker.cpus

    @property
    def deadline(self) -> float | None:
        """Return when `step` has something to do, if nothing happens before."""
        times = [
            worker.leaving.deadline if worker.leave_at is None else worker.leave_at
            for worker in self.workers
            if worker.child is not None and worker.leaving is not None and worker.leaving.phase is not Phase.KILLING
        ]
        return min(times, default=None)

    def _join(self, index: int, now: float) -> None:
        place = Place(Role.WORKER, index, self._cpus[index])
        place.generation = self._former.get(index, 0)
        self.workers.append(place)
        event(LOGGER, NOTICE, f"{place.name} is added", workers=len(self.workers))
        if self._core.child is not None:
            place.reclaim_by = now + RECLAIM_SECONDS
            self._core.child.send(WorkerAdded(index, place.generation))
            self._wake_core()

    def _go_on(self, worker: Place, leaving: Stopping, now: float) -> None:
        if worker.child is not None and worker.leave_at is not None:
            if now >= worker.leave_at:
                worker.leave_at = None
                worker.leaving = Stopping(now, self._grace, {worker.index})
                worker.child.send(order(Phase.DRAINING))
        elif worker.child is not None:
            while phase := leaving.step(now):
                worker.leave(phase, REMOVED)
        elif self._core.child is None:
            worker.removed = True  # the next core does not know of it, and its memory is reset
        elif not worker.given_up:
            worker.given_up = True
            worker.reclaim_by = now + RECLAIM_SECONDS
            self._core.child.send(WorkerGone(worker.index, worker.generation, removed=True))
            self._wake_core()
        elif worker.reclaim_by is None and not worker.removed:
            worker.removed = True
            self._emptied(worker.index)

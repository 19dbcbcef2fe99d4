"""The children: which live, which are to be started, and what follows a death.

    place:  vacant --start--> starting --Ready--> serving --death--> (reclaiming --WorkerReclaimed-->) vacant

A child may be broken, so the supervisor ignores reports of an older generation and reports that make no sense
from their place. When a worker dies, the core reclaims what it held before the next worker starts.

When the core dies, the workers stay with their connections:

    worker:  serving --CoreGone--> quiescing --Quiesced--> quiet --(next core: Ready) CoreBack--> serving

The next core starts when each worker is quiet or gone, because rings and arenas are emptied for it, and until
then a worker may use them. Prohibited: to empty them while a worker is quiescing; to start a worker before the
core serves. A worker that had not served yet, or does not quiesce in time, is killed and starts anew.
"""

import logging
from collections.abc import Iterator

import msgspec

from routerd.log.log import NOTICE, event
from routerd.machine.pinning import Pinning, repin
from routerd.supervise.child import Child, Command, Place, guess
from routerd.supervise.flight import Keeper, directory
from routerd.supervise.memory import SharedMemory
from routerd.supervise.restart_policy import Life
from routerd.supervise.rolling import Rolling
from routerd.supervise.spares import Spares
from routerd.supervise.stopping import Phase, Stopping, order
from routerd.supervise.watch import process_state
from routerd.supervise.worker_slots import RECLAIM_SECONDS, WorkerSlots
from routerd.translate.setup import Blueprint
from shm.contract.complaints import Complaints
from shm.contract.control import (
    Alive,
    Answered,
    Closed,
    CoreBack,
    CoreGone,
    Drained,
    Fatal,
    FromChild,
    Quiesced,
    Ready,
    WorkerGone,
    WorkerReclaimed,
)
from shm.contract.roles import Role

LAST_SECONDS = 2.0  # after the end of all others, in which a recorder ends its file
UNKILLABLE_SECONDS = 3.0  # a killed process that lives longer waits for a device
QUIESCE_SECONDS = 3.0  # a worker quiesces in one turn of its loop

LOGGER = logging.getLogger("SERVER")


class Children:
    """The places of the children and the rules among them. Time is an argument; nothing here blocks."""

    def __init__(self, blueprint: Blueprint, memory: SharedMemory, pinning: Pinning, command: Command) -> None:
        self._blueprint = blueprint
        self._memory = memory
        self._command = command
        router = blueprint.router
        self._keeper = Keeper(directory(router.flight_directory), router.id, blueprint.version)
        if memory.flight is not None:
            self._keeper.check()
        self._orphaned = False  # the core is dead, and its memory must be reset before the next one starts
        self.core = Place(Role.CORE, blueprint.places, pinning.core)
        self._slots = WorkerSlots(self.core, pinning.workers, memory.set_workers, memory.empty, memory.wake_core)
        self.workers = self._slots.workers
        self.exporter = Place(Role.EXPORTER, 0, [])  # no process depends on it
        self.recorder = Place(Role.RECORDER, 0, [])  # nor on this
        self.spares = Spares(command)  # they take the role of the next core or worker that dies
        self.operational = False  # each place has served once
        self.failure = ""  # why the first start failed
        self.stopping: Stopping | None = None
        self._abandon_at: float | None = None  # when a stop waits no longer for processes that do not die
        self._abandoned = False
        self.rolling: Rolling | None = None
        self._odd = Complaints()

    @property
    def places(self) -> list[Place]:
        return [self.core, *self.workers]

    @property
    def absent(self) -> set[int]:
        """Workers whose last generation died before it served."""
        return {one.index for one in self.workers if not one.serving and one.lives and one.lives[-1].ready is None}

    @property
    def able(self) -> list[int]:
        """Workers that serve and stay."""
        return [one.index for one in self.workers if one.serving and one.leaving is None]

    @property
    def everybody(self) -> list[Place]:
        return [*self.places, self.exporter, *self.spares.places, self.recorder]

    @property
    def empty(self) -> bool:
        return self._abandoned or all(place.child is None for place in [*self.places, self.recorder])

    def step(self, now: float) -> None:
        """Do what is due now."""
        for child in self._children():
            if child.kill_at is not None and now >= child.kill_at:
                child.kill(child.why)
        if self.stopping is not None:
            while phase := self.stopping.step(now):
                self._tell(phase, now)
            if self._abandon_at is not None and now >= self._abandon_at:
                self._abandon()
            return
        self._slots.step(now)
        if self.rolling is not None and self.rolling.step(now):
            self.rolling = None
        for worker in self.workers:
            if worker.reclaim_by is not None and now >= worker.reclaim_by and self.core.child is not None:
                worker.reclaim_by = None
                self.core.child.kill(f"did not reclaim what {worker.name} held within {RECLAIM_SECONDS:g} s")
        for place in self._startable():
            if place.delay(now) <= 0:
                self._start(place, now)
        if self._calm:
            self.spares.step(now)

    def next_step(self, now: float) -> float | None:
        """Return when `step` has something to do, if nothing happens before."""
        times = [child.kill_at for child in self._children()]
        if self.stopping is not None:
            times.append(self._abandon_at if self.stopping.phase is Phase.KILLING else self.stopping.deadline)
        else:
            times += [worker.reclaim_by for worker in self.workers]
            times += [self.rolling.deadline if self.rolling else None, self._slots.deadline]
            times += [now + place.delay(now) for place in self._startable()]
            times.append(self.spares.next_step(now) if self._calm else None)
        return min((time for time in times if time is not None), default=None)

    def stop(self, now: float, grace: float) -> None:
        """Begin the stop, or hurry it."""
        if self.stopping is not None:
            self.stopping.hurry(now)
            return
        self.rolling = None
        self.stopping = Stopping(now, grace, {worker.index for worker in self.workers if worker.serving})
        self._tell(Phase.DRAINING, now)
        if not self.operational:
            self.stopping.hurry(now)

    def roll(self, grace: float) -> bool:
        """Begin to replace workers, core and recorder one at a time; return False during that or a stop."""
        if self.rolling is not None or self.stopping is not None:
            return False
        self.spares.dismiss("it has the code that is being replaced")
        self.rolling = Rolling(self.core, self.workers, self.recorder, grace, self._memory.wake_core)
        return True

    def change(self, blueprint: Blueprint, pinning: Pinning | None = None, now: float = 0.0, answer: int = 0) -> None:
        """Set up children by this blueprint from now on, and send the living ones what is new.

        With ``pinning`` the number of workers becomes that of its CPU lists; those that it removes stay until the
        management request ``answer`` is answered.
        """
        if pinning is not None:
            self._place(blueprint, pinning, now, answer)
        before, self._blueprint = self._blueprint, blueprint
        for place in [*self.places, self.exporter, self.recorder]:
            if place.child is not None:
                for message, descriptors in blueprint.news(place.role, place.index, before):
                    place.child.send(message, descriptors)
        self._memory.wake_core()
        if before.records and not blueprint.records:
            if self.recorder.child is not None:
                self.recorder.end_file(now)
            self._miss_no_recorder()

    def _miss_no_recorder(self) -> None:
        """If none is there and none is wanted, show that none is missing; a killed one has not said so."""
        if self.recorder.child is None and not self._blueprint.records:
            self._memory.recorder_gone()

    def answer_awaited(self, answer: int) -> bool:
        """Whether a worker stays until this management request is answered."""
        return any(worker.leave_at is not None and worker.answer == answer for worker in self.workers)

    def _place(self, blueprint: Blueprint, pinning: Pinning, now: float, answer: int) -> None:
        if self.core.cpus != pinning.core:
            self.core.cpus = pinning.core
            if self.core.child is not None:
                repin(self.core.child.pid, pinning.core)
        self._slots.want(pinning.workers, blueprint.router.stop_grace_seconds, now, answer)

    def said(self, place: Place, message: FromChild, now: float) -> None:
        """Act on a child's report."""
        child = place.child
        match message:
            case Ready() if child is not None and child.ready is None:
                child.is_ready(now)
                event(LOGGER, logging.INFO, f"{place.name} serves", pid=child.pid, generation=child.generation)
                self.operational = self.operational or all(one.serving for one in self.places)
                if place is self.core:
                    self._core_back()
            case Alive() if place is self.exporter:
                place.beats += 1
            case WorkerReclaimed(index, generation) if place is self.core and index < len(self.workers):
                worker = self.workers[index]
                if generation == worker.generation:
                    worker.reclaim_by = None
            case Quiesced(generation) if place.role == Role.WORKER and child is not None and self.core.child is None:
                if generation == self.core.generation:
                    place.quiet, child.kill_at = True, None
            case Drained() if self._answered(place, Phase.DRAINING):
                pass
            case Closed() if self._answered(place, Phase.CLOSING):
                pass
            case Answered(number) if place is self.core:
                self._slots.answered(number, now)
            case Fatal():
                pass  # it is part of the death report
            case _:
                text = "%s sent a message that makes no sense now: %s"
                self._odd.tell(now, LOGGER, logging.WARNING, text, place.name, message, key=place.name)

    def _answered(self, place: Place, phase: Phase) -> bool:
        """Note that a worker has done what a phase asks for; return False if it was not asked."""
        if place.role != Role.WORKER:
            return False
        asked = self.stopping or place.leaving
        if asked is not None:
            asked.answered(place.index, phase)
            return True
        return self.rolling is not None and self.rolling.answered(place, phase)

    def hung_up(self, place: Place, why: str, now: float) -> None:
        """Act on a closed control socket; during a stop the child has as long as all others to exit."""
        if place.child is not None:
            place.child.hang_up(now if self.stopping is None else None, why)

    def died(self, place: Place, now: float) -> None:
        """Act on the death of a child, whose pidfd is readable."""
        assert place.child is not None
        child, wanted = place.child, place.dismissed or self.stopping is not None
        death = child.reap()
        place.child, place.quiet = None, False
        why = death.why or ("told to" if wanted else guess(death.how))
        (self.spares.later if wanted else self.spares.needed)(now)
        if not wanted:
            place.died(Life(child.born, child.ready, now), death.why or f"{death.how}: {why}")
            if not self.operational and child.ready is None:
                self.failure = self.failure or f"{place.name} did not start: {death.cause}"
        if place is self.core:
            if self._memory.flight is not None and not wanted:
                self._keeper.keep(self._memory.flight, death, f"{death.how}: {why}")
            self._core_died(now)
        level, verb = (logging.INFO, "ended") if wanted else (logging.ERROR, "died")
        event(
            LOGGER,
            level,
            f"{place.name} {verb}",
            pid=death.pid,
            generation=death.generation,
            how=death.how,
            why=why,
            next=self._next(place, now),
        )
        if place.role == Role.WORKER:
            self._worker_died(place, now)
        elif place is self.recorder:
            self._miss_no_recorder()

    def end(self) -> None:
        """Kill and reap all children that are left when the supervisor exits."""
        for place in self.everybody:
            if place.child is not None:
                place.child.kill("the supervisor exits")
                if place.child.is_gone(0.0 if self._abandoned else UNKILLABLE_SECONDS):
                    place.child.reap()
                place.child = None
        self._keeper.end()

    def _abandon(self) -> None:
        """Wait no longer for processes that do not die."""
        self._abandon_at, self._abandoned = None, True
        for place in [*self.places, self.recorder]:
            if place.child is not None:
                text = (
                    f"{place.name} does not die, and the router ends without it; look for a disk that does not answer"
                )
                state = process_state(place.child.pid)
                event(LOGGER, logging.ERROR, text, pid=place.child.pid, state=state)

    def _next(self, place: Place, now: float) -> str:
        if self.stopping is not None or self.failure:
            return "stopping"
        if place.leaving is not None:
            return "removed"
        delay = place.delay(now)
        return f"restart in {delay:.1f} s" if delay else "restart at once"

    def _core_died(self, now: float) -> None:
        if self.stopping is not None:
            return
        self._orphaned = True
        self._slots.answered(None, now)
        for worker in self.workers:
            worker.reclaim_by = None
            worker.quiet = False
            if worker.child is None:
                continue
            if worker.serving:
                worker.child.kill_at = now + QUIESCE_SECONDS
                worker.child.why = f"did not quiesce after the death of the core within {QUIESCE_SECONDS:g} s"
                worker.child.send(CoreGone(self.core.generation, died=not self.core.dismissed))
            else:
                worker.dismissed = True
                worker.child.kill("the core died before it served")

    def _core_back(self) -> None:
        for worker in self.workers:
            if worker.child is not None and worker.quiet:
                worker.quiet = False
                worker.child.send(CoreBack())

    def _worker_died(self, worker: Place, now: float) -> None:
        self._memory.worker_gone(worker.index)
        if self.stopping is not None:
            self.stopping.gone(worker.index)
        if self.core.child is not None and worker.leaving is None:
            worker.reclaim_by = now + RECLAIM_SECONDS
            self.core.child.send(WorkerGone(worker.index, worker.generation))
            self._memory.wake_core()

    def _startable(self) -> list[Place]:
        """Return the vacant places that wait only for their back-off."""
        wanted = ((self.exporter, self._blueprint.exports), (self.recorder, self._blueprint.records))
        more = [place for place, is_wanted in wanted if is_wanted and place.child is None]
        return [*self._startable_routing(), *(more if self.operational else [])]

    def _startable_routing(self) -> list[Place]:
        if self.core.child is None:
            quiet = all(worker.child is None or worker.quiet for worker in self.workers)
            return [self.core] if quiet or not self._orphaned else []
        if not self.core.serving:
            return []
        vacant = [worker for worker in self.workers if worker.child is None and worker.leaving is None]
        return [worker for worker in vacant if worker.reclaim_by is None]

    def _start(self, place: Place, now: float) -> None:
        if place is self.core and self._orphaned:
            self._memory.reset()
            self._orphaned = False
        else:
            self._memory.mend()
        if place.role == Role.WORKER:
            self._slots.place_memory(place)
        place.generation += 1
        place.dismissed = False
        setup = self._blueprint.setup(
            place.role, place.index, place.generation, place.cpus, self._memory.prefix, len(self.workers)
        )
        setup = msgspec.structs.replace(setup, known_failures=place.known_failures(now))
        if place is self.core:
            outlived = [worker.index for worker in self.workers if worker.child is not None and worker.quiet]
            setup = msgspec.structs.replace(setup, presenting=outlived)
        argv, fds = self._command(place.role, place.index), self._blueprint.inherited(setup)
        self.spares.later(now)
        if (spare := self._spare_for(place)) is not None:
            place.child = spare
            spare.enlist(setup, fds, now)
            text = f"a spare becomes {place.name}"
            event(LOGGER, logging.INFO, text, pid=spare.pid, generation=place.generation)
            return
        try:
            place.child = Child(argv, setup, fds, now)
        except OSError as error:
            place.died(Life(now, None, now), f"it cannot be started: {error}")
            if not self.operational:
                self.failure = self.failure or f"{place.name} cannot be started: {error}"
            event(LOGGER, logging.ERROR, f"{place.name} cannot be started", why=error)

    def _spare_for(self, place: Place) -> Child | None:
        """Return a spare for a place; none during a rolling restart, when spares have the code that is replaced."""
        if self.rolling is not None or place.role not in (Role.CORE, Role.WORKER):
            return None
        return self.spares.take(int(place is not self.core and any(one.serving for one in self.workers)))

    @property
    def _calm(self) -> bool:
        """Whether spares may start: the router runs normally."""
        calm = self.operational and self.stopping is None and self.rolling is None
        return calm and self.core.serving and any(worker.serving for worker in self.workers)

    def _tell(self, phase: Phase, now: float) -> None:
        event(LOGGER, NOTICE, f"Stopping: {phase.value}")
        if phase is Phase.KILLING:
            self._abandon_at = now + LAST_SECONDS + UNKILLABLE_SECONDS
        for place in self.everybody:
            if place.child is None:
                continue
            if phase is Phase.KILLING and place is self.recorder:
                place.child.kill_at, place.child.why = now + LAST_SECONDS, "did not end its file in time"
            elif phase is Phase.KILLING:
                place.child.kill("did not exit in time")
            elif phase is Phase.EXITING or place.role == Role.WORKER or _hears(place, phase):
                place.child.send(order(phase))
        if phase is Phase.EXITING:
            self._memory.wake_core()

    def _children(self) -> Iterator[Child]:
        return (place.child for place in self.everybody if place.child is not None)


def _hears(place: Place, phase: Phase) -> bool:
    """Whether a process hears of the beginning of a stop although it has nothing to do yet."""
    return place.role in (Role.EXPORTER, Role.RECORDER) and phase is Phase.DRAINING

"""The children: who lives, who is to be started, and what follows when one dies.

    place:  vacant --start--> starting --Ready--> serving --death--> (reclaiming --WorkerReclaimed-->) vacant

What a child says is taken for what it is, the word of a process that may be broken: a report of an older
generation, or one that makes no sense from that place, is ignored. When a worker dies, the core takes back
what it held before the next one starts.

When the core dies, the workers stay, and their connections with them:

    worker:  serving --CoreGone--> letting go --Quiesced--> quiet --(next core: Ready) CoreBack--> serving

The next core starts when every worker is quiet or gone: until then somebody may touch a ring or read a block,
and both are emptied for it. Prohibited: emptying them while a worker is letting go; a worker that starts
before the core serves. One that had not served yet, or does not let go in time, is killed and starts anew.
"""

import logging
from collections.abc import Iterator
from typing import Protocol

import msgspec

from routerd.log.log import NOTICE, event
from routerd.machine.pinning import Pinning, repin
from routerd.supervise.child import Child, Command, Place, guess
from routerd.supervise.restart_policy import Life
from routerd.supervise.rolling import Rolling
from routerd.supervise.spares import Spares
from routerd.supervise.stopping import Phase, Stopping, order
from routerd.supervise.worker_slots import RECLAIM_SECONDS, WorkerSlots
from routerd.translate.setup import Blueprint
from shm.contract.control import (
    Alive,
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

LAST_SECONDS = 2.0  # beyond everybody else's end, for a recorder to end its file
QUIESCE_SECONDS = 3.0  # a worker lets go of a dead core in one turn of its loop

LOGGER = logging.getLogger("SERVER")


class Memory(Protocol):
    """What the family needs of the shared memory."""

    @property
    def prefix(self) -> str:
        """The common prefix of the segments' names."""

    def reset(self) -> None:
        """Empty rings, free blocks and a core that does not sleep; nobody may be using any of them."""

    def wake_core(self) -> None:
        """Let the core look at its control socket."""

    def worker_gone(self, index: int) -> None:
        """Let the statistics page of a dead worker say so."""

    def set_workers(self, count: int) -> None:
        """Tell everybody how many workers there are."""

    def empty(self, index: int) -> None:
        """Give back the memory of an arena without an owner, but for what others still read."""


class Children:
    """The children's places and the rules among them. Time is an argument; nothing here blocks."""

    def __init__(self, blueprint: Blueprint, memory: Memory, pinning: Pinning, command: Command) -> None:
        self._blueprint = blueprint
        self._memory = memory
        self._command = command
        self._orphaned = False  # the core is dead: its memory is to be reset before there is another one
        self.core = Place(Role.CORE, blueprint.places, pinning.core)
        self._slots = WorkerSlots(self.core, pinning.workers, memory.set_workers, memory.empty, memory.wake_core)
        self.workers = self._slots.workers
        self.exporter = Place(Role.EXPORTER, 0, [])  # looks on: nobody depends on it
        self.recorder = Place(Role.RECORDER, 0, [])  # nor on this one
        self.spares = Spares(command)  # take the places of the next core or workers that die
        self.operational = False  # every place has served once
        self.failure = ""  # why the first start failed
        self.stopping: Stopping | None = None
        self.rolling: Rolling | None = None

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
        return all(place.child is None for place in [*self.places, self.recorder])

    def step(self, now: float) -> None:
        """Do what is due."""
        for child in self._children():
            if child.kill_at is not None and now >= child.kill_at:
                child.kill(child.why)
        if self.stopping is not None:
            while phase := self.stopping.step(now):
                self._tell(phase, now)
            return
        self._slots.step(now)
        if self.rolling is not None and self.rolling.step(now):
            self.rolling = None
        for worker in self.workers:
            if worker.reclaim_by is not None and now >= worker.reclaim_by and self.core.child is not None:
                worker.reclaim_by = None
                self.core.child.kill(f"did not take back what {worker.name} held within {RECLAIM_SECONDS:g} s")
        for place in self._startable():
            if place.delay(now) <= 0:
                self._start(place, now)
        if self._has_time:
            self.spares.step(now)

    def next_step(self, now: float) -> float | None:
        """When `step` has something to do next, if nothing happens before."""
        times = [child.kill_at for child in self._children()]
        if self.stopping is not None:
            times.append(None if self.stopping.phase is Phase.KILLING else self.stopping.deadline)
        else:
            times += [worker.reclaim_by for worker in self.workers]
            times += [self.rolling.deadline if self.rolling else None, self._slots.deadline]
            times += [now + place.delay(now) for place in self._startable()]
            times.append(self.spares.next_step(now) if self._has_time else None)
        return min((time for time in times if time is not None), default=None)

    def stop(self, now: float, grace: float) -> None:
        """Begin to stop, or hurry if that has begun."""
        if self.stopping is not None:
            self.stopping.hurry(now)
            return
        self.rolling = None
        self.stopping = Stopping(now, grace, {worker.index for worker in self.workers if worker.serving})
        self._tell(Phase.DRAINING, now)
        if not self.operational:
            self.stopping.hurry(now)

    def roll(self, grace: float) -> bool:
        """Begin to replace workers, core and recorder one at a time; False: that is going on, or a stop."""
        if self.rolling is not None or self.stopping is not None:
            return False
        self.spares.dismiss("it is as old as those that are replaced")
        self.rolling = Rolling(self.core, self.workers, self.recorder, grace, self._memory.wake_core)
        return True

    def change(self, blueprint: Blueprint, pinning: Pinning | None = None, now: float = 0.0) -> None:
        """Children are set up by this from now on; those that live are told what is new.

        With ``pinning`` there are as many workers from now on as it has CPUs for.
        """
        if pinning is not None:
            self._place(blueprint, pinning, now)
        before, self._blueprint = self._blueprint, blueprint
        for place in [*self.places, self.exporter, self.recorder]:
            if place.child is not None:
                for message, descriptors in blueprint.news(place.role, place.index, before):
                    place.child.send(message, descriptors)
        self._memory.wake_core()
        if self.recorder.child is not None and not blueprint.records:
            self.recorder.end_file(now)

    def _place(self, blueprint: Blueprint, pinning: Pinning, now: float) -> None:
        if self.core.cpus != pinning.core:
            self.core.cpus = pinning.core
            if self.core.child is not None:
                repin(self.core.child.pid, pinning.core)
        self._slots.want(pinning.workers, blueprint.router.stop_grace_seconds, now)

    def said(self, place: Place, message: FromChild, now: float) -> None:
        """A child's report."""
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
            case Quiesced(generation) if place.role == Role.WORKER and child is not None:
                if generation == self.core.generation:
                    place.quiet, child.kill_at = True, None
            case Drained() if self._answered(place, Phase.DRAINING):
                pass
            case Closed() if self._answered(place, Phase.CLOSING):
                pass
            case Fatal():
                pass  # the child has kept it for its death report
            case _:
                event(LOGGER, logging.WARNING, f"{place.name} said what makes no sense now", message=message)

    def _answered(self, place: Place, phase: Phase) -> bool:
        """A worker has done what a phase asks of it; False: it was not asked."""
        if place.role != Role.WORKER:
            return False
        asked = self.stopping or place.leaving
        if asked is not None:
            asked.answered(place.index, phase)
            return True
        return self.rolling is not None and self.rolling.answered(place, phase)

    def hung_up(self, place: Place, why: str, now: float) -> None:
        """A child has closed its control socket. In a stop it has the time that all have to exit."""
        if place.child is not None:
            place.child.hang_up(now if self.stopping is None else None, why)

    def died(self, place: Place, now: float) -> None:
        """A child's pidfd became readable."""
        assert place.child is not None
        child, wanted = place.child, place.dismissed or self.stopping is not None
        death = child.reap()
        place.child = None
        (self.spares.later if wanted else self.spares.needed)(now)
        if not wanted:
            place.died(Life(child.born, child.ready, now), death.why or death.how)
            if not self.operational and child.ready is None:
                self.failure = self.failure or f"{place.name} did not start: {death.cause}"
        if place is self.core:
            self._core_died(now)
        level, verb = (logging.INFO, "ended") if wanted else (logging.ERROR, "died")
        event(
            LOGGER,
            level,
            f"{place.name} {verb}",
            pid=death.pid,
            generation=death.generation,
            how=death.how,
            why=death.why or ("told to" if wanted else guess(death.how)),
            next=self._following(place, now),
        )
        if place.role == Role.WORKER:
            self._worker_died(place, now)

    def end(self) -> None:
        """Kill and reap whatever is left: the last resort of a supervisor that leaves."""
        for place in self.everybody:
            if place.child is not None:
                place.child.kill("the supervisor left")
                place.child.reap()
                place.child = None

    def _following(self, place: Place, now: float) -> str:
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
        for worker in self.workers:
            worker.reclaim_by = None
            worker.quiet = False
            if worker.child is None:
                continue
            if worker.serving:
                worker.child.kill_at = now + QUIESCE_SECONDS
                worker.child.why = f"did not let go of the dead core within {QUIESCE_SECONDS:g} s"
                worker.child.send(CoreGone(self.core.generation))
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
        """Vacant places for which nothing but their back-off remains to be waited for."""
        wanted = ((self.exporter, self._blueprint.serves_http), (self.recorder, self._blueprint.records))
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
            text = f"the spare process becomes {place.name}"
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
        """One that takes a place now; during a rolling restart it would have the code that is replaced."""
        if self.rolling is not None or place.role not in (Role.CORE, Role.WORKER):
            return None
        return self.spares.take(int(place is not self.core and any(one.serving for one in self.workers)))

    @property
    def _has_time(self) -> bool:
        """For spares: they are for the next death, and of today's code."""
        calm = self.operational and self.stopping is None and self.rolling is None
        return calm and self.core.serving and any(worker.serving for worker in self.workers)

    def _tell(self, phase: Phase, now: float) -> None:
        event(LOGGER, NOTICE, f"Stopping: {phase.value}")
        for place in self.everybody:
            if place.child is None:
                continue
            if phase is Phase.KILLING and place is self.recorder:
                place.child.kill_at, place.child.why = now + LAST_SECONDS, "did not end its file in time"
            elif phase is Phase.KILLING:
                place.child.kill("did not exit in time")
            elif phase is Phase.EXITING or place.role == Role.WORKER or _looks_on(place, phase):
                place.child.send(order(phase))
        if phase is Phase.EXITING:
            self._memory.wake_core()

    def _children(self) -> Iterator[Child]:
        return (place.child for place in self.everybody if place.child is not None)


def _looks_on(place: Place, phase: Phase) -> bool:
    """Whether it is to know that the router stops, although it has nothing to do for that."""
    return place.role in (Role.EXPORTER, Role.RECORDER) and phase is Phase.DRAINING

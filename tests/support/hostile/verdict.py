"""The verdict on an attack: what must hold of the router, and of clients that have nothing to do with it.

``with Verdict(router) as verdict: …`` looks at the router before, lets the bystanders live through what the block does
to it, and judges at the end, when the attackers have gone:

- no process has died and no thread that was there has ended;
- the log has no traceback, not many lines, and no long ones;
- the bystanders lost no connection and no message, and their round trips stayed near the idle ones;
- the workers and the core have about as many descriptors and as much memory as before.
"""

import re
import statistics
import time
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import psutil

from tests.support.hostile.bystanders import PAIRS, Bystanders, Lap
from tests.support.running import LONG, RunningRouter, roles, until

MIB = 1024 * 1024
IDLE_SECONDS = 0.7  # in which the idle round trip is measured
MOMENT = 1.5  # seconds; in an attack of less a busy machine may hold up every round trip, and their median says nothing
HOPS = 8  # times that a round trip waits for a process to run; one to a process that answers at once: 2


@dataclass(frozen=True)
class Bounds:
    """What the verdict allows."""

    times: float = 20.0  # the median of round trips, as a multiple of the idle one
    floor: float = 0.001  # seconds; an idle round trip counts as that much at least
    stall: float = 1.0  # seconds that a single round trip may take on a machine that has nothing else to do
    lines: int = 600  # of the log: 50 of each kind, worker and listener, and
    lines_a_second: float = 5.0  # so many more for each second
    line_octets: int = 8500  # 2,000 characters, and what stands around them
    descriptors: int = 8  # of a process, more than before; the supervisor has some for a spare that begins
    memory: int = 32 * MIB  # of a process, more than before
    lives: bool = True  # whether all processes must outlive the attack, and all bystanders' connections with them


@dataclass
class Living:
    """A process of the router as it was."""

    process: psutil.Process
    threads: set[int]
    descriptors: int
    memory: int  # octets that no other process shares

    @classmethod
    def of(cls, process: psutil.Process) -> "Living":
        threads = {thread.id for thread in process.threads()}
        return cls(process, threads, process.num_fds(), process.memory_full_info().uss)


@dataclass
class Verdict:
    """Judges what happens to a router within a ``with``; ``laps`` are what the bystanders saw, for who wants more."""

    router: RunningRouter
    bounds: Bounds = field(default_factory=Bounds)
    pairs: int = PAIRS
    laps: list[Lap] = field(default_factory=list)
    first: int = 0  # round trips before all others

    def __enter__(self) -> Self:
        supervisor = psutil.Process(self.router.process.pid)
        processes = {"supervisor": supervisor, **roles(supervisor.pid)}
        passed = [one.pid for role, one in processes.items() if role == "core" or role.startswith("worker")]
        prefix = f"bystander-{time.monotonic_ns()}"
        self.bystanders = Bystanders(self.router.address, prefix, self.pairs, passed).__enter__()
        try:
            until(self.begun, "the bystanders' first round trips")
            time.sleep(IDLE_SECONDS)
            self.idle = self.bystanders.lap()
            self.before = {role: Living.of(process) for role, process in processes.items()}
            self.log = len(self.router.log)
            self.began = time.monotonic()
        except BaseException:
            self.bystanders.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.look()
                wrong = [*self.of_processes(), *self.of_bystanders(), *self.of_log(), *self.of_what_is_left()]
                assert not wrong, "\n".join(wrong)
        finally:
            self.bystanders.__exit__(None, None, None)

    def begun(self) -> bool:
        """Whether the bystanders are at it."""
        self.first += len(self.bystanders.lap().trips)
        return self.first >= 2 * self.pairs

    def look(self) -> Lap:
        """What the bystanders have seen since the last look."""
        self.laps.append(self.bystanders.lap())
        return self.laps[-1]

    # ---- what is wrong ----

    def of_processes(self) -> list[str]:
        """Processes that have died, and threads."""
        if not self.bounds.lives:
            return []
        wrong = [f"{role} died" for role, one in self.before.items() if not one.process.is_running()]
        for role, one in self.before.items():
            with suppress(psutil.Error):
                ended = one.threads - {thread.id for thread in one.process.threads()}
                wrong += [f"{role}: {len(ended)} threads ended"] if ended else []
        return wrong

    def of_bystanders(self) -> list[str]:
        """What became of those who did nothing."""
        wrong = [fault for lap in self.laps for fault in lap.faults]
        if self.bounds.lives:
            wrong += [one for lap in self.laps for one in lap.unlucky]
            wrong += self.of_round_trips()
        return [*wrong[:10], f"and {len(wrong) - 10} more"] if len(wrong) > 10 else wrong

    def of_round_trips(self) -> list[str]:
        """Those that took too long, by a measure that a busy machine does not fail."""
        trips = [trip for lap in self.laps for trip in lap.trips] + self.laps[-1].waits
        machine = [trip for lap in self.laps for trip in lap.machine] or self.idle.machine
        usual = max(self.idle.median, self.bounds.floor, HOPS / 2 * statistics.median(machine))
        stall = max(self.bounds.stall, self.bounds.times * usual, HOPS / 2 * max(machine))
        if not trips:
            return []  # the attack was over before anybody had an answer, and nobody waits for one
        median, worst = statistics.median(trips), max(trips)
        wrong = []
        if time.monotonic() - self.began > MOMENT and median > self.bounds.times * usual:
            wrong.append(f"half of {len(trips)} round trips over {1000 * median:.1f} ms; usual: {1000 * usual:.1f} ms")
        if worst > stall:
            wrong.append(f"a round trip of {worst:.2f} s; allowed: {stall:.2f} s")
        return wrong

    def of_log(self) -> list[str]:
        """What an operator would have to read."""
        log = self.router.log[self.log :]
        lines, bounds = log.splitlines(), self.bounds
        allowed = bounds.lines + bounds.lines_a_second * (time.monotonic() - self.began)
        wrong = []
        if (at := log.find("Traceback")) >= 0:
            wrong.append(f"a traceback in the log: {log[at : at + 3000]}")
        if len(lines) > allowed:
            wrong.append(f"{len(lines)} lines in the log, {allowed:.0f} allowed; the last ones: {lines[-5:]}")
        if long := [line for line in log.splitlines() if len(line.encode()) > bounds.line_octets]:
            wrong.append(f"{len(long)} long lines in the log, such as {long[0][:300]}")
        if found := re.search(r".*(?:bad record|invalid control record).*", log):
            wrong.append(found[0])
        return wrong

    def of_what_is_left(self) -> list[str]:
        """Descriptors and memory that have not come back."""
        if not self.bounds.lives:
            return []
        wrong: list[str] = []

        def come_back() -> bool:
            wrong[:] = [what for role, one in self.before.items() for what in self.kept(role, one)]
            return not wrong

        with suppress(AssertionError):
            until(come_back, "return of descriptors and memory", LONG)
        return wrong

    def kept(self, role: str, before: Living) -> list[str]:
        """What a process has more than before."""
        with suppress(psutil.Error):
            descriptors, memory = before.process.num_fds(), before.process.memory_full_info().uss
            more = []
            if descriptors > before.descriptors + self.bounds.descriptors:
                more.append(f"{role}: {descriptors} descriptors, {before.descriptors} before")
            if memory > before.memory + self.bounds.memory:
                more.append(f"{role}: {memory / MIB:.0f} MiB, {before.memory / MIB:.0f} before")
            return more
        return []

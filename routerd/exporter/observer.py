"""The observer: the exporter's view of the router, with figures of this moment, the last minutes and the last hour.

``tick`` runs once a second and records heartbeats and the growth of counters.
"""

import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import psutil

from routerd.exporter.history import History, Starts, Tick
from shm.contract.roles import Role, is_worker
from shm.memory.observer import Page, SharedView
from shm.statistics.board import Board

HUNG_SECONDS: Final = 5.0  # an idle loop turns once a second
# The supervisor looks up the hosts of new listeners in its loop, which a slow resolver makes long.
SUPERVISOR_HUNG_SECONDS: Final = 40.0
RATE_SECONDS: Final = 5.0  # in which growth is recent
MISSING_SECONDS: Final = 5.0  # a killed child is back much sooner, and a replaced one has drained
TICKS: Final = 120


class Figures(msgspec.Struct, frozen=True):
    """The operating system's figures of a process."""

    born: float  # seconds since 1970
    age: float  # seconds, whatever happened to the time of day
    cpu: float  # seconds
    resident: int  # bytes
    shared: int  # bytes
    descriptors: int | None = None  # open ones; None where the system hides them
    most_descriptors: int | None = None


def _age(pid: int) -> float:
    """Return the age of a process in seconds, without /proc/stat: ProcSubset=pid may hide it."""
    with suppress(OSError, IndexError, ValueError):
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    return 0.0


def _descriptors(pid: int) -> tuple[int | None, int | None]:
    """Return how many descriptors a process has open, and how many it may have (proc_pid_fd(5), proc_pid_limits(5))."""
    with suppress(OSError, StopIteration):
        folder = f"/proc/{pid}/fd"
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
        limit = next(line for line in lines if line.startswith("Max open files")).split()[3]
        opened = os.stat(folder).st_size or len(os.listdir(folder))  # kernels before 6.2 tell no size
        return opened, int(limit) if limit.isdecimal() else None
    return None, None


class Pulse(msgspec.Struct):
    """When a process was last alive, and when its heartbeat last moved."""

    pid: int = 0
    heartbeat: int = -1
    lived: float = 0.0
    moved: float = 0.0


class State(msgspec.Struct, frozen=True):
    """The state of a process: for how many seconds it is ``missing`` or ``stalled``, else 0."""

    page: Page
    alive: bool
    missing: float
    stalled: float

    @property
    def hangs(self) -> bool:
        supervisor = self.page.process == Role.SUPERVISOR
        return self.alive and self.stalled >= (SUPERVISOR_HUNG_SECONDS if supervisor else HUNG_SECONDS)

    @property
    def works(self) -> bool:
        return self.alive and not self.hangs


class Observer:
    """Watches a router from outside. ``clock`` is monotonic, in seconds."""

    def __init__(self, view: SharedView, clock: Callable[[], float]) -> None:
        self.view = view
        self._clock = clock
        self._pulses: dict[str, Pulse] = {}
        self._processes: dict[int, psutil.Process] = {}
        self._born: dict[int, float] = {}  # seconds since 1970 by pid, kept when the time of day is set
        self._ticks: deque[Tick] = deque(maxlen=TICKS)
        self._starts: dict[str, Starts] = {}
        self.history = History()
        self.stopping = False
        self._accepted = clock()  # when a live worker last accepted connections

    def tick(self) -> None:
        """Sample everything once. Raises SegmentError when the router is gone."""
        self.view.look_again()
        states = self.states()
        counters: dict[str, int] = {}
        for page in [*(state.page for state in states), *self.view.former()]:
            for name, value in page.counters.items():
                counters[name] = counters.get(name, 0) + value
        found = {state.page.process: self.figures(state.page.pid) for state in states if state.alive}
        cpu = {process: figures.cpu for process, figures in found.items() if figures}
        addresses = {row.address: row for row in self.view.board().addresses}
        tick = Tick(self._clock(), counters, cpu, addresses)
        for state in states:
            self._starts.setdefault(state.page.process, Starts()).add(tick.time, state.page.generation)
        self._ticks.append(tick)
        self.history.add(tick, self.view.histogram(Role.CORE, "delivery_latency_ns").counts)
        living = {state.page.pid for state in states}
        living.add(os.getpid())
        self._processes = {pid: process for pid, process in self._processes.items() if pid in living}
        self._born = {pid: born for pid, born in self._born.items() if pid in living}

    def states(self) -> list[State]:
        """Return the state of each process: the workers, the core, the supervisor."""
        now = self._clock()
        states = [self._state(page, now) for page in self.view.pages()]
        if any(map(_accepts, states)):
            self._accepted = now
        return states

    def unready(self, states: list[State]) -> list[str]:
        """Return why the router takes no traffic, one reason per process; empty if it does.

        It does while the core is alive and a worker accepts connections. For ``MISSING_SECONDS`` none need
        accept: clients wait in the queues of the supervisor's sockets.
        """
        if self.stopping:
            return ["supervisor: the router stops"]
        found = [reason for reason in unhealthy(states) if reason.startswith("core:")]
        if self._clock() - self._accepted >= MISSING_SECONDS:
            found += [f"{state.page.process}: {_in_the_way(state)}" for state in states if _is_worker(state)]
        return found

    def board(self) -> Board:
        return self.view.board()

    def ago(self, moment: float) -> float:
        """Return the seconds since a time of this observer's clock."""
        return self._clock() - moment

    def _state(self, page: Page, now: float) -> State:
        pulse = self._pulses.setdefault(page.process, Pulse(lived=now, moved=now))
        alive = bool(page.pid) and psutil.pid_exists(page.pid)
        if alive:
            pulse.lived = now
        if pulse.heartbeat != page.heartbeat or pulse.pid != page.pid or not alive:
            pulse.heartbeat, pulse.pid, pulse.moved = page.heartbeat, page.pid, now
        return State(page, alive, now - pulse.lived, now - pulse.moved)

    def figures(self, pid: int) -> Figures | None:
        """Return the operating system's figures of a process; None if it is gone."""
        with suppress(psutil.Error, OSError):  # it is gone, or the system hides it
            if pid not in self._processes:
                self._processes[pid] = psutil.Process(pid)
            process = self._processes[pid]
            with process.oneshot():
                memory, times = process.memory_info(), process.cpu_times()
                cpu, age = times.user + times.system, _age(pid)
                born = self._born.setdefault(pid, round(time.time() - age, 2))
                return Figures(born, age, cpu, memory.rss, memory.shared, *_descriptors(pid))
        self._processes.pop(pid, None)
        self._born.pop(pid, None)
        return None

    def rate(self, name: str, seconds: float = RATE_SECONDS) -> float:
        """Return the recent growth of a counter per second, summed over all processes."""
        return self._growth(seconds, lambda tick: tick.counters.get(name, 0))

    def cpu(self, process: str) -> float:
        """Return the part of a CPU that a process used recently."""
        return self._growth(RATE_SECONDS, lambda tick: tick.cpu.get(process, 0.0))

    def address_rate(self, address: str) -> float:
        """Return recent deliveries per second to one of the busiest addresses."""
        if address not in self.span(RATE_SECONDS)[0].addresses:
            return 0.0
        return self._growth(
            RATE_SECONDS, lambda tick: tick.addresses[address].deliveries if address in tick.addresses else 0
        )

    def recently(self, name: str, seconds: float = 60.0) -> int:
        """Return the recent growth of a counter."""
        before, last = self.span(seconds)
        return max(0, last.counters.get(name, 0) - before.counters.get(name, 0))

    def restarts(self, process: str) -> int:
        """Return how often a process was started again within the last ``RESTART_SECONDS``."""
        return self._starts[process].again if process in self._starts else 0

    def span(self, seconds: float) -> tuple[Tick, Tick]:
        """Return the first tick of the last so many seconds, and the last one."""
        last = self._ticks[-1] if self._ticks else Tick(0, {}, {}, {})
        return next((tick for tick in self._ticks if tick.time >= last.time - seconds), last), last

    def _growth(self, seconds: float, value: Callable[[Tick], float]) -> float:
        before, last = self.span(seconds)
        return max(0.0, (value(last) - value(before)) / (last.time - before.time)) if last.time > before.time else 0.0


def unhealthy(states: list[State]) -> list[str]:
    """Return why the router is unhealthy, one reason per process; the recorder does not count."""
    return [
        f"{state.page.process}: {why}"
        for state in states
        if state.page.process != Role.RECORDER
        and (
            why := f"missing for {state.missing:.0f} s"
            if state.missing >= MISSING_SECONDS
            else f"its loop has not turned for {state.stalled:.0f} s"
            if state.hangs
            else ""
        )
    ]


def _is_worker(state: State) -> bool:
    return is_worker(state.page.process)


def _accepts(state: State) -> bool:
    return _is_worker(state) and state.works and bool(state.page.counters["accepting"])


def _in_the_way(state: State) -> str:
    if not state.alive:
        return "not there"
    return "takes no connections" if state.works else "its loop does not turn"

"""A child process from its start to its death, and the place that it fills."""

import os
import select
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from routerd.machine.confidential import environment
from routerd.machine.signals import HANDLED
from routerd.supervise.channel import Channel, ChannelClosedError, pair
from routerd.supervise.restart_policy import (
    CRASHES,
    FORGIVEN_AFTER,
    FULL_SECONDS,
    HISTORY,
    Life,
    deaths_in_a_row,
    restart_delay,
)
from routerd.supervise.stopping import Phase, Stopping, order
from shm.contract.control import CloseConnections, Exit, Fatal, FromChild, Setup
from shm.contract.roles import Role
from shm.memory.space import DIRECTORY, free_mib

READY_SECONDS = 20.0  # a slow machine that starts many workers needs a few; more is a hang
CLOSING_SECONDS = 1.0  # from the moment a child closes its control socket until its exit
MANY = 3  # deaths in a row
HUGE_PAGE_MIB = 2  # a process may ask for as much at once, with `hugePages`
# For glibc: larger pieces of memory go back to the system as soon as they are free, where it would otherwise keep those
# of up to 32 MB for later ones, and lose them between others.
HEAP = {"MALLOC_MMAP_THRESHOLD_": str(256 << 10), "MALLOC_TRIM_THRESHOLD_": str(4 << 20)}
LAST_FILE_SECONDS = 30.0  # in which a recorder ends its file when only it is told to exit

Command = Callable[[Role, int], list[str]]


def command(role: Role, index: int) -> list[str]:
    """Return a child's command line without the control socket; operators see the role in it."""
    more = {Role.WORKER: [str(index)], Role.SPARE: ["--until-needed"]}.get(role, [])
    return [sys.executable, "-P", "-m", "routerd.process", role, *more]


class Death(msgspec.Struct, frozen=True):
    """The end of a child: `how` as the kernel reports it, `why` as child or supervisor report it, or empty."""

    pid: int
    generation: int
    how: str
    why: str

    @property
    def cause(self) -> str:
        """The reason and the kernel's report in one text."""
        return f"{self.why} ({self.how})" if self.why else self.how


def guess(how: str) -> str:
    """Return a likely reason of an end that no process has explained."""
    if how == "SIGKILL":
        return "killed from outside: by a user, or by the kernel for lack of memory, which dmesg shows"
    if how == "SIGBUS" and (why := _no_memory()):
        return why
    if how in CRASHES:
        return "it crashed; coredumpctl shows it, if core dumps are kept"
    if how.startswith("SIG"):
        return "killed from outside"
    return "it ended by itself; its last log lines, or standard error, say why"


def _no_memory() -> str:
    """Return that shared memory is full, where the kernel allocates each page at its first use; empty if it is not."""
    try:
        free = free_mib()
    except OSError:
        return ""
    if free is None or free >= HUGE_PAGE_MIB:
        return ""
    return f"{DIRECTORY} is full ({free} MiB free): make room there, enlarge it, or lower arenaSize"


class Child:
    """A process that is started and not yet reaped; without a ``setup`` it is a spare."""

    def __init__(self, argv: list[str], setup: Setup | None, fds: Sequence[int], now: float) -> None:
        self.generation = setup.generation if setup else 0
        self.born = now
        self.ready: float | None = None
        self.kill_at: float | None = now + READY_SECONDS if setup else None
        self.why = f"not ready after {READY_SECONDS:g} s"  # the reason for a kill at `kill_at`
        self._killed_for = ""
        self._fatal = ""
        self.channel: Channel[FromChild] | None
        self.channel, theirs = pair()
        with theirs:
            try:
                self._process = _start([*argv, "--control-fd", str(theirs.fileno())], [theirs.fileno(), *fds])
                self.pidfd = _watched(self._process)
            except OSError:
                self.close_channel()
                raise
        if setup:
            self.send(setup)

    def enlist(self, setup: Setup, fds: Sequence[int], now: float) -> None:
        """Give a spare its role."""
        self.generation, self.born, self.kill_at = setup.generation, now, now + READY_SECONDS
        self.send(setup, fds)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: msgspec.Struct, descriptors: Sequence[int] = ()) -> None:
        """Send a message; a child that cannot receive it is killed."""
        if self.channel is None:
            return
        try:
            self.channel.send(message, descriptors)
        except ChannelClosedError as error:
            self.kill(str(error))

    def receive(self) -> FromChild | None:
        """Return the next message, or None. Raises `ChannelClosedError`."""
        message = self.channel.receive() if self.channel else None
        if isinstance(message, Fatal):
            self._fatal = message.text
        return message

    def is_ready(self, now: float) -> None:
        """Note that the child serves."""
        self.ready, self.kill_at = now, None

    def hang_up(self, now: float | None, why: str) -> None:
        """Close the channel; a child that does not exit by itself soon is killed, unless `now` is None."""
        self.close_channel()
        if not self._killed_for and now is not None:
            self.kill_at, self.why = now + CLOSING_SECONDS, why

    def kill(self, why: str) -> None:
        """Kill the child; its death is reported with `why`, unless an earlier kill gave a reason."""
        self.kill_at = None
        self._killed_for = self._killed_for or why
        self.close_channel()
        signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def close_channel(self) -> None:
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def is_gone(self, seconds: float) -> bool:
        """Wait so long at most for the process to end; one that waits for a device outlives a kill."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def reap(self) -> Death:
        """Return the end of a process whose pidfd is readable."""
        status = self._process.wait()
        self.close_channel()
        os.close(self.pidfd)
        how = f"exit status {status}" if status >= 0 else _signal_name(-status)
        return Death(self.pid, self.generation, how, self._killed_for or self._fatal)


class Place:
    """The place of the core, a worker, the exporter, the recorder or a spare; it has at most one child."""

    def __init__(self, role: Role, index: int, cpus: list[int]) -> None:
        self.role = role
        self.index = index
        self.cpus = cpus
        self.placed: list[int] | None = None  # worker: the CPUs near which its arena's memory is
        self.generation = 0
        self.child: Child | None = None
        self.reclaim_by: float | None = None  # worker: the deadline for the core to reclaim what a dead one held
        self.quiet = False  # worker: it has quiesced and waits for the next core
        self.leaving: Stopping | None = None  # worker: it leaves for good
        self.leave_at: float | None = None  # worker: when it is told to leave at the latest
        self.answer = 0  # worker: the management request whose answer it may have to send before
        self.given_up = False  # worker: the core knows that it has no successor
        self.removed = False  # worker: the core has reclaimed what it held
        self.beats = 0  # exporter: how often it has reported that its loop turns
        self.dismissed = False  # told to exit, or killed through no fault of its own
        self.lives: deque[Life] = deque(maxlen=HISTORY)
        self.cause = ""  # cause of the last death
        self._logged: dict[str, float] = {}  # when a kind of death was last logged in full

    @property
    def name(self) -> str:
        """The name in the log: role, and number of a worker."""
        return f"{self.role} {self.index}" if self.role == Role.WORKER else self.role

    @property
    def serving(self) -> bool:
        """Whether a child serves in the place."""
        return self.child is not None and self.child.ready is not None

    def leave(self, phase: Phase, closing: CloseConnections) -> None:
        """Tell the child to do what a phase of its leaving asks for; in the last phase it is killed."""
        assert self.child is not None
        if phase is Phase.KILLING:
            self.child.kill("did not exit in time")
            return
        self.dismissed = self.dismissed or phase is Phase.EXITING
        if self.role == Role.WORKER or phase is Phase.EXITING:
            self.child.send(order(phase, closing))

    def end_file(self, now: float) -> None:
        """Tell a recorder to end its file and exit; nobody waits for it."""
        assert self.child is not None
        self.dismissed = True
        self.child.send(Exit())
        self.child.kill_at, self.child.why = now + LAST_FILE_SECONDS, "it did not end its file in time"

    def delay(self, now: float) -> float:
        """Return the seconds until the next generation may start."""
        return restart_delay(self.lives, now, awaited=self.role not in (Role.EXPORTER, Role.RECORDER))

    def died(self, life: Life, cause: str) -> None:
        """Remember an unexpected end."""
        if _kind(cause) not in self.known_failures(life.born):
            self._logged[_kind(cause)] = life.died
        self.lives.append(life)
        self.cause = cause

    def known_failures(self, now: float) -> list[str]:
        """Return the kinds of death that the log has in full since a moment ago."""
        self._logged = {kind: when for kind, when in self._logged.items() if now - when < FULL_SECONDS}
        return list(self._logged)

    def trouble(self, now: float) -> str:
        """Return a warning about a child that keeps dying, or did until recently; empty without one."""
        deaths = deaths_in_a_row(self.lives)
        recovered = self.child is not None and now - (self.child.ready or now) >= FORGIVEN_AFTER
        if deaths < MANY or recovered:
            return ""
        count = f"{deaths} or more" if deaths == HISTORY else str(deaths)
        if self.serving:
            return f"{self.name} serves again after {count} deaths in a row, the last one: {self.cause}"
        return f"{self.name} keeps dying, {count} times in a row: {self.cause}"


def _kind(cause: str) -> str:
    """Return the name of the exception or signal, because the rest of the text differs each time."""
    return cause.partition(":")[0]


def _start(argv: list[str], fds: Sequence[int]) -> "subprocess.Popen[bytes]":
    """Start a process with signals blocked, which stay blocked in it until it ignores them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        return subprocess.Popen(  # noqa: S603  the supervisor's own argv
            argv, stdin=subprocess.DEVNULL, pass_fds=fds, env={**HEAP, **environment()}
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watched(process: "subprocess.Popen[bytes]") -> int:
    """Return a descriptor that tells of a process's end. Raises OSError, and then the process has ended."""
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        process.kill()
        process.wait()
        raise


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

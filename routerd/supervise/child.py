"""One living child process, from birth to death, and the place it fills."""

import os
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
from routerd.supervise.stopping import Stopping
from shm.contract.control import Exit, Fatal, FromChild, Setup
from shm.contract.roles import Role

READY_SECONDS = 20.0  # a slow machine starting many workers at once needs a few; more is a hang
CLOSING_SECONDS = 1.0  # between a child's closing its control socket and its exit
MANY = 3  # deaths in a row
LAST_FILE_SECONDS = 30.0  # a recorder that is told to end, while the router goes on, ends its file

Command = Callable[[Role, int], list[str]]


def command(role: Role, index: int) -> list[str]:
    """The command line of a child, without the control socket: operators find the role in it."""
    more = {Role.WORKER: [str(index)], Role.SPARE: ["--until-needed"]}.get(role, [])
    return [sys.executable, "-P", "-m", "routerd.process", role, *more]


class Death(msgspec.Struct, frozen=True):
    """How a child ended: `how` says the kernel; `why` the child or the supervisor, or it is empty."""

    pid: int
    generation: int
    how: str
    why: str

    @property
    def cause(self) -> str:
        return f"{self.why} ({self.how})" if self.why else self.how


def guess(how: str) -> str:
    """Why a child may have ended as the kernel says that it did, where nobody has said it."""
    if how == "SIGKILL":
        return "killed from outside: by somebody, or by the kernel for want of memory, which dmesg tells"
    if how in CRASHES:
        return "it crashed; coredumpctl has it, if core dumps are kept"
    if how.startswith("SIG"):
        return "killed from outside"
    return "it ended by itself; what it wrote before tells why"


class Child:
    """A process that has been started and not yet been reaped; without a ``setup`` it is a spare."""

    def __init__(self, argv: list[str], setup: Setup | None, fds: Sequence[int], now: float) -> None:
        self.generation = setup.generation if setup else 0
        self.born = now
        self.ready: float | None = None
        self.kill_at: float | None = now + READY_SECONDS if setup else None
        self.why = f"not ready after {READY_SECONDS:g} s"  # what is to be said if `kill_at` comes
        self._killed_for = ""
        self._fatal = ""
        self.channel: Channel[FromChild] | None
        self.channel, theirs = pair()
        with theirs:
            try:
                self._process = _start([*argv, "--control-fd", str(theirs.fileno())], [theirs.fileno(), *fds])
            except OSError:
                self.close_channel()
                raise
        self.pidfd = os.pidfd_open(self._process.pid)
        if setup:
            self.send(setup)

    def enlist(self, setup: Setup, fds: Sequence[int], now: float) -> None:
        """Tell a spare what it is from now on."""
        self.generation, self.born, self.kill_at = setup.generation, now, now + READY_SECONDS
        self.send(setup, fds)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: msgspec.Struct, descriptors: Sequence[int] = ()) -> None:
        """Send; a child that cannot be spoken to is killed."""
        if self.channel is None:
            return
        try:
            self.channel.send(message, descriptors)
        except ChannelClosedError as error:
            self.kill(str(error))

    def receive(self) -> FromChild | None:
        """The next message, or None. Raises `ChannelClosedError`."""
        message = self.channel.receive() if self.channel else None
        if isinstance(message, Fatal):
            self._fatal = message.text
        return message

    def is_ready(self, now: float) -> None:
        self.ready, self.kill_at = now, None

    def hang_up(self, now: float | None, why: str) -> None:
        """Nothing more will be heard of it: it exits by itself soon, or is killed; None: by somebody else."""
        self.close_channel()
        if not self._killed_for and now is not None:
            self.kill_at, self.why = now + CLOSING_SECONDS, why

    def kill(self, why: str) -> None:
        """Kill it; `why` is what its death will be reported with, unless there was a reason before."""
        self.kill_at = None
        self._killed_for = self._killed_for or why
        self.close_channel()
        signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def close_channel(self) -> None:
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def reap(self) -> Death:
        """Collect the exit status of a process whose pidfd is readable."""
        status = self._process.wait()
        self.close_channel()
        os.close(self.pidfd)
        how = f"exit status {status}" if status >= 0 else _signal_name(-status)
        return Death(self.pid, self.generation, how, self._killed_for or self._fatal)


class Place:
    """Of the core, a worker, the exporter or the spare: at most one child at a time, then the next."""

    def __init__(self, role: Role, index: int, cpus: list[int]) -> None:
        self.role = role
        self.index = index
        self.cpus = cpus
        self.placed: list[int] | None = None  # a worker's: the CPUs near which its arena's memory is
        self.generation = 0
        self.child: Child | None = None
        self.reclaim_by: float | None = None  # a worker's: until when the core takes back what the dead one held
        self.quiet = False  # a worker's: it has let go of the dead core, and waits for the next one
        self.leaving: Stopping | None = None  # a worker's: it goes for good
        self.leave_at: float | None = None  # when it is told so
        self.given_up = False  # the core has been told that nobody will follow
        self.removed = False  # and has let go of it
        self.beats = 0  # the exporter's: how often it has said that its loop turns
        self.dismissed = False  # told to go, or killed through no fault of its own
        self.lives: deque[Life] = deque(maxlen=HISTORY)
        self.cause = ""  # of the last death
        self._told: dict[str, float] = {}  # when a death of a kind was last told in full

    @property
    def name(self) -> str:
        return f"{self.role} {self.index}" if self.role == Role.WORKER else self.role

    @property
    def serving(self) -> bool:
        return self.child is not None and self.child.ready is not None

    def end_file(self, now: float) -> None:
        """Tell a recorder to end, in its own time: nobody waits for it."""
        assert self.child is not None
        self.dismissed = True
        self.child.send(Exit())
        self.child.kill_at, self.child.why = now + LAST_FILE_SECONDS, "it was told to end"

    def delay(self, now: float) -> float:
        """Seconds until the next generation may start."""
        return restart_delay(self.lives, now, awaited=self.role not in (Role.EXPORTER, Role.RECORDER))

    def died(self, life: Life, cause: str) -> None:
        """Remember an unwanted end."""
        if _kind(cause) not in self.known_failures(life.born):
            self._told[_kind(cause)] = life.died
        self.lives.append(life)
        self.cause = cause

    def known_failures(self, now: float) -> list[str]:
        """The kinds of death that were told in full just now, and need not be again."""
        self._told = {kind: told for kind, told in self._told.items() if now - told < FULL_SECONDS}
        return list(self._told)

    def trouble(self, now: float) -> str:
        """What is to be said of a child that keeps dying, or did until just now; empty: it does not."""
        deaths = deaths_in_a_row(self.lives)
        recovered = self.child is not None and now - (self.child.ready or now) >= FORGIVEN_AFTER
        if deaths < MANY or recovered:
            return ""
        count = f"{deaths} or more" if deaths == HISTORY else str(deaths)
        if self.serving:
            return f"{self.name} serves again after {count} deaths in a row, the last one: {self.cause}"
        return f"{self.name} keeps dying, {count} times in a row: {self.cause}"


def _kind(cause: str) -> str:
    """The exception's name, or the signal's: texts tell of what was at hand, and differ."""
    return cause.partition(":")[0]


def _start(argv: list[str], fds: Sequence[int]) -> "subprocess.Popen[bytes]":
    """Start with signals blocked: they stay so in the child until it has said that it ignores them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        return subprocess.Popen(  # noqa: S603  our own argv
            argv, stdin=subprocess.DEVNULL, pass_fds=fds, env=environment()
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

"""Entry point of every child: `python -P -m routerd.process ROLE --control-fd N`; ROLE is core, worker INDEX,
exporter or recorder.

The role stands in the command line so that operators find it there. What else a child needs to know comes
as the first message on the control socket. Imports stay few: every module loaded here is paid for in each
process.

A spare has no role yet: `… spare --until-needed --control-fd N`. It has everything imported when somebody
dies, and takes that place as soon as it is told which; then its command line says so, too.
"""

import contextlib
import ctypes
import faulthandler
import importlib
import logging
import mmap
import os
import signal
import sys
import time
from select import select
from typing import Protocol, cast

import msgspec

from routerd.log.log import LogError, configure, keep_in
from routerd.supervise.channel import Channel, ChannelClosedError, ChildEnd, of_child
from routerd.supervise.proctitle import call
from routerd.supervise.restart_policy import CRASHES, FULL_SECONDS
from shm.contract.control import Exit, Fatal, LogSetup, Setup, ToChild
from shm.contract.failures import start_thread, watch_process
from shm.contract.roles import Role, process_name
from shm.journal import journal_of
from shm.segment import DIRECTORY, Names

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
SETUP_SECONDS = 10.0
REASON_CHARACTERS = 500  # of an exception's text: it may hold what a peer has sent
SPARE = [Role.SPARE, "--until-needed"]
PROGRAMS = {
    Role.CORE: "core.main",
    Role.WORKER: "workers.main",
    Role.EXPORTER: "routerd.exporter.main",
    Role.RECORDER: "routerd.recorder.main",
}
ONE_OF_A_KIND = PROGRAMS.keys() - {Role.WORKER}

LOGGER = logging.getLogger("SERVER")


class Program(Protocol):
    """What the modules of `PROGRAMS` offer."""

    def run(self, setup: Setup, channel: Channel[ToChild]) -> None:
        """Serve until told to exit."""


def main(argv: list[str]) -> int:
    name, control = _arguments(argv)
    if sys.stderr is not None:
        faulthandler.enable()  # a crash in native code leaves the stack there, and kills as before
    _belong_to_supervisor(name)
    channel = of_child(control)
    spare = argv[: len(SPARE)] == SPARE
    try:
        if spare:
            _import_everything(channel)
        setup = _setup(channel, None if spare else SETUP_SECONDS)
        if setup is None:
            return 0
        spare_stacks(setup.known_failures)
        if spare:
            setup = with_descriptors(setup, channel.take_descriptors())
            _take_role(setup, control)
        return _serve(setup, channel)
    except ChannelClosedError:
        return 1  # the supervisor is gone, and with it whatever there was to serve or to report to


def _arguments(argv: list[str]) -> tuple[str, int]:
    """The name the kernel shows for this process (15 characters at most), and the control socket."""
    match argv:
        case [Role.WORKER, index, "--control-fd", control] if index.isdecimal() and control.isdecimal():
            return f"routerd-w{index}", int(control)
        case [*words, "--control-fd", control] if words == SPARE and control.isdecimal():
            return "routerd-spare", int(control)
        case [role, "--control-fd", control] if role in ONE_OF_A_KIND and control.isdecimal():
            return f"routerd-{role}"[:15], int(control)
    sys.exit("routerd.process is started by the supervisor; start a router with: routerd run")


def _belong_to_supervisor(name: str) -> None:
    """Die with the supervisor, and leave signals to it: it stops its children in order.

    A terminal sends Ctrl-C to the whole process group; a service manager, SIGTERM to all. The supervisor
    starts a child with these signals blocked, so none is lost or fatal before they are ignored here.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        LOGGER.warning("prctl: a killed supervisor is noticed by its closed control socket only")


def _import_everything(channel: ChildEnd) -> None:
    """What the core and workers are made of: the core first, and no more when somebody waits for it already.
    What cannot be imported is told by whoever needs it."""
    with contextlib.suppress(Exception):
        importlib.import_module(PROGRAMS[Role.CORE])
        if not select([channel], [], [], 0)[0]:
            importlib.import_module(PROGRAMS[Role.WORKER]).warm_up()


def spare_stacks(known_failures: list[str]) -> None:
    """Leave no stack for a minute if a former process of this place has just crashed and left one. Who was
    killed by another signal has left none."""
    if faulthandler.is_enabled() and not CRASHES.isdisjoint(known_failures):
        faulthandler.disable()
        start_thread("stacks", _leave_stacks_later, again=1.0)


def _leave_stacks_later() -> None:
    time.sleep(FULL_SECONDS)
    faulthandler.enable()


def _take_role(setup: Setup, control: int) -> None:
    """Be called, in every list of processes, as if started for that role."""
    role = [Role.WORKER, str(setup.index)] if setup.role == Role.WORKER else [setup.role]
    name, _ = _arguments([*role, "--control-fd", str(control)])
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    call([*role, "--control-fd", str(control)], SPARE[0])


def with_descriptors(setup: Setup, descriptors: list[int]) -> Setup:
    """A set-up that came with its sockets and doorbells, in this order, named by what they are here."""
    mine = iter(descriptors)
    listeners = [msgspec.structs.replace(one, fds=[next(mine) for _ in one.fds]) for one in setup.listeners]
    doorbells = [next(mine) if fd >= 0 else fd for fd in setup.doorbells]
    return msgspec.structs.replace(setup, listeners=listeners, doorbells=doorbells)


def _setup(channel: Channel[ToChild], seconds: float | None) -> Setup | None:
    """The first message; None: not needed any more. ``seconds`` None: it may take for ever."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        message = channel.receive()
        if isinstance(message, Setup):
            return message
        if isinstance(message, Exit):
            return None
        if message is not None or (deadline is not None and time.monotonic() > deadline):
            raise ChannelClosedError(f"no set-up came first, but {message!r}")
        select([channel], [], [], seconds)


def _serve(setup: Setup, channel: ChildEnd) -> int:
    name = process_name(setup.role, setup.index)
    try:
        configure(setup.logs, name, starting=True)
        _keep_lines(setup)
        watch_process()
        channel.set_logs = lambda logs: _configure_again(logs, name)
        _pin(setup.cpus)
        cast(Program, importlib.import_module(PROGRAMS[setup.role])).run(setup, channel)
    except ChannelClosedError:
        raise
    except (
        Exception
    ) as error:  # whatever it is, the supervisor's log is the place that tells why a child ended
        known = type(error).__name__ in setup.known_failures  # its traceback stands in the log already
        LOGGER.critical("%s ends: unhandled %s", name, reason(error), exc_info=not known)
        channel.send(Fatal(reason(error)))
        return 1
    return 0


def _keep_lines(setup: Setup) -> None:
    """Let GET-LOG tell what this process logs."""
    control = DIRECTORY / Names(setup.segments).control.lstrip("/")
    with control.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    keep_in(journal_of(memory, setup.places, setup.role, setup.index))


def _configure_again(logs: list[LogSetup], title: str) -> None:
    """A new log while running; one that cannot be written leaves the old one in place."""
    try:
        configure(logs, title)
    except LogError as error:
        LOGGER.error("%s goes on logging as before: %s", title, error)


def reason(error: BaseException) -> str:
    """An exception in one line, as a supervisor's log takes it."""
    try:
        text = " ".join(str(error)[:REASON_CHARACTERS].split())
    except ValueError:  # a number of thousands of digits, for one, has no text
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _pin(cpus: list[int]) -> None:
    if not cpus:
        return
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        LOGGER.warning("cannot run on CPU %s only: %s; running on any", cpus, error.strerror)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

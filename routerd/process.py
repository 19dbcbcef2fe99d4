"""Entry point of every child: `python -P -m routerd.process ROLE --control-fd N`.

ROLE is core, worker INDEX, exporter or recorder. It is in the command line, where operators see it;
everything else arrives as the first message on the control socket. Each import here costs memory in every
process, so they are few.

A spare starts without a role, as `spare --until-needed --control-fd N`. It has everything imported when
another process dies, takes that process's role on request, and then changes its command line.
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
from routerd.machine.proctitle import call
from routerd.supervise.channel import Channel, ChannelClosedError, ChildEnd, of_child
from routerd.supervise.restart_policy import CRASHES, FULL_SECONDS
from shm.contract.control import Exit, Fatal, LogSetup, Setup, ToChild
from shm.contract.failures import start_thread, watch_process
from shm.contract.roles import Role, process_name
from shm.contract.text import reason
from shm.memory.journal import journal_of
from shm.memory.segment import DIRECTORY, Names

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
SETUP_SECONDS = 10.0
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
    """The interface of the modules in `PROGRAMS`."""

    def run(self, setup: Setup, channel: Channel[ToChild]) -> None:
        """Serve until the supervisor sends Exit."""


def main(argv: list[str]) -> int:
    name, control = _arguments(argv)
    if sys.stderr is not None:
        faulthandler.enable()  # prints the stack on a crash in native code, which still kills
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
        return 1  # the supervisor is gone, so there is nothing left to serve


def _arguments(argv: list[str]) -> tuple[str, int]:
    """Return this process's name in the kernel (at most 15 characters), and the control socket."""
    match argv:
        case [Role.WORKER, index, "--control-fd", control] if index.isdecimal() and control.isdecimal():
            return f"routerd-w{index}", int(control)
        case [*words, "--control-fd", control] if words == SPARE and control.isdecimal():
            return "routerd-spare", int(control)
        case [role, "--control-fd", control] if role in ONE_OF_A_KIND and control.isdecimal():
            return f"routerd-{role}"[:15], int(control)
    sys.exit("routerd.process is started by the supervisor; start a router with: routerd run")


def _belong_to_supervisor(name: str) -> None:
    """Die with the supervisor and ignore signals that it handles: it stops its children in order.

    A terminal sends SIGINT to the whole process group, and a service manager SIGTERM to all processes. The
    supervisor blocks these signals before it starts a child, so none is fatal before this ignores them.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        LOGGER.warning("prctl: a killed supervisor is noticed by its closed control socket only")


def _import_everything(channel: ChildEnd) -> None:
    """Import the core, then the workers' code unless a role already waits; errors show when it is needed."""
    with contextlib.suppress(Exception):
        importlib.import_module(PROGRAMS[Role.CORE])
        if not select([channel], [], [], 0)[0]:
            importlib.import_module(PROGRAMS[Role.WORKER]).warm_up()


def spare_stacks(known_failures: list[str]) -> None:
    """Print no stack for a minute after a crash that has just left one; other signals leave none."""
    if faulthandler.is_enabled() and not CRASHES.isdisjoint(known_failures):
        faulthandler.disable()
        if start_thread("stacks", _leave_stacks_later, again=1.0) is None:
            faulthandler.enable()


def _leave_stacks_later() -> None:
    time.sleep(FULL_SECONDS)
    faulthandler.enable()


def _take_role(setup: Setup, control: int) -> None:
    """Show the role's name and command line in process lists."""
    role = [Role.WORKER, str(setup.index)] if setup.role == Role.WORKER else [setup.role]
    name, _ = _arguments([*role, "--control-fd", str(control)])
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
    call([*role, "--control-fd", str(control)], SPARE[0])


def with_descriptors(setup: Setup, descriptors: list[int]) -> Setup:
    """Return a set-up whose descriptors, sockets first and doorbells second, have their numbers here."""
    mine = iter(descriptors)
    listeners = [msgspec.structs.replace(one, fds=[next(mine) for _ in one.fds]) for one in setup.listeners]
    doorbells = [next(mine) if fd >= 0 else fd for fd in setup.doorbells]
    return msgspec.structs.replace(setup, listeners=listeners, doorbells=doorbells)


def _setup(channel: Channel[ToChild], seconds: float | None) -> Setup | None:
    """Return the first message, or None if the child is no longer needed; ``seconds`` None waits for ever."""
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
    except Exception as error:  # whatever it is, the supervisor's log must say why a child ended
        known = type(error).__name__ in setup.known_failures  # the log has its traceback already
        LOGGER.critical("%s ends: unhandled %s", name, reason(error), exc_info=not known)
        channel.send(Fatal(reason(error)))
        return 1
    return 0


def _keep_lines(setup: Setup) -> None:
    """Keep this process's log lines in its journal, which GET-LOG reads."""
    control = DIRECTORY / Names(setup.segments).control.lstrip("/")
    with control.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    keep_in(journal_of(memory, setup.places, setup.role, setup.index))


def _configure_again(logs: list[LogSetup], title: str) -> None:
    """Change the log while running; keep the old one if the new one cannot be opened."""
    try:
        configure(logs, title)
    except LogError as error:
        LOGGER.error("%s keeps its former log: %s", title, error)


def _pin(cpus: list[int]) -> None:
    if not cpus:
        return
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        LOGGER.warning("cannot run on CPU %s only: %s; running on any", cpus, error.strerror)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The supervisor: `run` assembles a router, keeps it alive until it is told to stop, and leaves nothing behind.

It owns the configuration, the shared segments, the listening sockets and the children. It never handles a
message.
"""

import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count

import msgspec

from routerd.config import Config
from routerd.config.entities.router import MAX_WORKERS
from routerd.config.entities.transport import SslProfile
from routerd.config.formats.source import Mistake
from routerd.log.beginnings import RELOAD, ROLL_REFUSED
from routerd.log.journald import STDOUT, for_stderr, is_journal
from routerd.log.log import NOTICE, configure, event, keep_in
from routerd.machine.descriptors import TooFewError, claim_standard_streams, raise_limit
from routerd.machine.listeners import ListenError, Listening, close_all, listen_all
from routerd.machine.lookups import meanwhile
from routerd.machine.pinning import UnknownCpuError, plan
from routerd.machine.signals import ROLL, STOP, Signals
from routerd.machine.systemd import Manager, Passed, passed_sockets
from routerd.machine.version import version
from routerd.reload.changes import BAD_REQUEST, INTERNAL, ChangeError, changed, named
from routerd.reload.reload import CANNOT, RefusedError, Reloaded, prepare, reload, retire, tell, tell_refused, withdraw
from routerd.supervise.banner import banner
from routerd.supervise.certificates import Certificates
from routerd.supervise.channel import ChannelClosedError
from routerd.supervise.child import Command, Place, command
from routerd.supervise.children import Children
from routerd.supervise.condition import condition
from routerd.supervise.memory import SharedMemory
from routerd.supervise.watch import POLL_SECONDS, Watch
from routerd.translate.connectors import taken_over
from routerd.translate.identities import Identities
from routerd.translate.security import unusable
from routerd.translate.setup import Blueprint, blueprint, log_setups
from shm.contract.control import ChangeReply, ChangeRequest
from shm.contract.failures import failures
from shm.contract.roles import Role
from shm.contract.text import reason
from shm.memory.placement import huge_pages_refused
from shm.memory.segment import DIRECTORY, SegmentError
from shm.memory.sweep import owners, sweep

LOGGER = logging.getLogger("SERVER")

MOST_NAMED = 10  # killed routers in a line of the log
REPORTS = 64  # of a child in a turn: one that went mad must not hold up the others
_STARTING = (SegmentError, TooFewError, UnknownCpuError)


def say(text: str) -> None:
    """Print a text for the user who starts the router on a terminal; the journal has log lines instead."""
    if is_journal(STDOUT):
        return
    with suppress(OSError, ValueError):  # standard output is closed, which is no reason to stop
        print(text, flush=True)


def run(config: Config, launch: Command = command, announce: Callable[[str], None] = say) -> int:
    """Run a router until it is told to stop. Returns the exit status: 0, or 1 if it could not start.

    `announce` is called once, with the banner, as soon as the router serves.
    """
    claim_standard_streams()
    signals = Signals()
    signals.install()
    manager = Manager(os.environ, os.getpid())
    try:
        # A wait for names is bounded and no hang.
        with ExitStack() as stack, meanwhile(lambda: manager.feed(time.monotonic(), lambda: True)):
            return _assemble(config, launch, signals, manager, stack, announce).run()
    except ListenError as error:
        manager.failed(str(error))
        return _failed(config, str(error), error.line)
    except _STARTING as error:
        manager.failed(str(error))
        return _failed(config, str(error))
    except Exception as error:  # the log, which may be a file, must have it
        text = f"the supervisor ends: unhandled {reason(error)}"
        manager.failed(text)
        LOGGER.critical(text, exc_info=True)
        return 1
    finally:
        signals.restore()


def _assemble(
    config: Config,
    launch: Command,
    signals: Signals,
    manager: Manager,
    stack: ExitStack,
    announce: Callable[[str], None],
) -> "Supervisor":
    """Return a supervisor whose router lacks only its children; `stack` releases all that it has."""
    router = config.router
    shut = configure(log_setups(config.logs), Role.SUPERVISOR, starting=True)
    for error in shut:
        event(LOGGER, logging.ERROR, f"{error}; until then its lines go to standard error")
    raise_limit()
    if swept := sweep():
        left = ",".join(owners(swept)[:MOST_NAMED])
        event(LOGGER, NOTICE, "Removed what a killed router left in shared memory", of=left, segments=len(swept))
    if router.huge_pages and (why := huge_pages_refused(DIRECTORY)):
        event(LOGGER, logging.WARNING, f"hugePages: shared memory cannot use them: {why}")
    pinning = plan(router.core_cpu, router.worker_cpus, router.workers, os.sched_getaffinity(0))
    passed = passed_sockets(os.environ, os.getpid())
    stack.callback(passed.close)
    listening = _listen(config, passed)
    stack.callback(close_all, listening)
    doorbells = [os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in range(MAX_WORKERS)]
    for fd in doorbells:
        stack.callback(os.close, fd)
    memory = SharedMemory(router.id, router.workers, router.arena_size, MAX_WORKERS, router.flight_records)
    stack.callback(memory.close)
    keep_in(memory.journal())
    stack.callback(keep_in, None)
    identities = Identities()
    first = blueprint(config, version(), listening, doorbells, identities)
    children = Children(first, memory, pinning, launch)
    stack.callback(children.end)  # no child outlives the supervisor
    return Supervisor(
        config, first, children, memory, manager, listening=listening, signals=signals, announce=announce,
        identities=identities, passed=passed,
    )  # fmt: skip


def _listen(config: Config, passed: Passed) -> list[Listening]:
    """Open the sockets of all listeners: those that the service manager has passed, and new ones."""
    left = passed.beside(())
    try:
        return listen_all(config.listeners, left)
    finally:
        for where in left.unused():
            event(
                LOGGER,
                logging.WARNING,
                "A socket of the service manager fits no listener, and its clients wait in vain; give a listener "
                "this host and port, or remove ListenStream from the socket unit",
                socket=where,
            )


def _failed(config: Config, text: str, line: int = 0) -> int:
    """Print why the router does not start; log it, too, if the log is elsewhere."""
    shown = str(Mistake(config.file, line, text)) if config.file else text
    print(for_stderr(shown, logging.CRITICAL), file=sys.stderr, flush=True)
    if any(log.output_file not in (None, "stderr") for log in config.logs):
        event(LOGGER, logging.CRITICAL, "cannot start", why=text)
    return 1


class Supervisor:
    """The main loop: waits for signals, reports and deaths, and passes them on."""

    def __init__(
        self,
        config: Config,
        blueprint: Blueprint,
        children: Children,
        memory: SharedMemory,
        manager: Manager,
        *,
        listening: list[Listening],
        signals: Signals,
        announce: Callable[[str], None] = say,
        clock: Callable[[], float] = time.monotonic,
        identities: Identities | None = None,
        passed: Passed | None = None,
    ) -> None:
        self._config = config
        self._blueprint = blueprint
        self._children = children
        self._memory = memory
        self._watch = Watch(memory)
        self._certificates = Certificates(memory.set_certificate_expiry)
        self._certificates.set(config.of(SslProfile))
        self._manager = manager
        self._listening = listening
        self._passed = passed or Passed()
        self._signals = signals
        self._clock = clock
        self._announce_to = announce
        self._identities = identities or Identities()
        self._announced = False
        self._note = ""

    def run(self) -> int:
        children = self._children
        source = self._config.file or "built-in configuration"
        event(LOGGER, logging.INFO, "Starting", router=self._config.router.id, pid=os.getpid(), config=source)
        while True:
            self._memory.beat()
            if children.failure and children.stopping is None:
                self._stop()
            children.step(self._clock())
            self._poll()
            self._report()
            if children.operational and not self._announced and children.stopping is None:
                self._announce()
            if children.stopping is not None and children.empty:
                break
            self._wait()
        if children.failure:
            return _failed(self._config, f"the router did not start: {children.failure}")
        event(LOGGER, NOTICE, "Stopped", router=self._config.router.id)
        return 0

    def _wait(self) -> None:
        """Wait until something happens or is due, and act on it."""
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        actions: dict[int, Callable[[], None]] = {self._signals.fileno(): self._take_signals}
        deaths: dict[int, Place] = {}
        for place in self._children.everybody:
            if place.child is None:
                continue
            poll.register(place.child.pidfd, select.POLLIN)
            deaths[place.child.pidfd] = place
            if place.child.channel is not None:
                poll.register(place.child.channel, select.POLLIN)
                actions[place.child.channel.fileno()] = lambda place=place: self._take_reports(place)  # type: ignore[misc]  # mypy has no lambda defaults
        happened = [fd for fd, _ in poll.poll(self._timeout())]
        for fd in happened:
            if fd in actions:
                actions[fd]()
        for fd in happened:  # after the reports, in which a dying child says why
            if fd in deaths:
                self._take_reports(deaths[fd], most=None)
                self._children.died(deaths[fd], self._clock())

    def _poll(self) -> None:
        """Poll certificates and heartbeats; a stop has deadlines of its own."""
        now = self._clock()
        self._certificates.poll(now)
        if self._children.stopping is None and now >= self._watch.due(now):
            self._watch.poll(self._children.everybody, now)
            if moved := taken_over(self._blueprint.connecting, self._children.absent, self._children.able):
                self._blueprint = msgspec.structs.replace(self._blueprint, connecting=moved)
                self._children.change(self._blueprint)

    def _report(self) -> None:
        """Report the router's state to the service manager."""
        children = self._children
        if children.stopping is not None:
            self._manager.stopping()
        elif self._announced:
            self._manager.status(self._status())
        self._manager.feed(
            self._clock(), lambda: children.stopping is not None or self._watch.all_progressed(children.places)
        )

    def _status(self) -> str:
        connections = self._memory.connections()
        return condition(self._children, self._blueprint, connections, self._note, self._clock())

    def _timeout(self) -> float:
        now = self._clock()
        due = now + POLL_SECONDS  # the exporter takes a loop that does not turn for one that hangs
        if (step := self._children.next_step(now)) is not None:
            due = min(due, step)
        if self._children.stopping is None:
            due = min(due, self._watch.due(now))
        return max(0.0, due - now) * 1000 + 1

    def _take_reports(self, place: Place, most: int | None = REPORTS) -> None:
        """Act on what a child says; the rest of one that says more waits for the next turn."""
        for _ in count() if most is None else range(most):
            if place.child is None:
                return
            try:
                message = place.child.receive()
            except ChannelClosedError as error:
                self._children.hung_up(place, str(error), self._clock())
                return
            if message is None:
                return
            if isinstance(message, ChangeRequest) and place is self._children.core:
                place.child.send(self._change(message))
                self._memory.wake_core()
                continue
            self._children.said(place, message, self._clock())

    def _take_signals(self) -> None:
        for number in self._signals.arrived():
            if number in STOP:
                event(LOGGER, NOTICE, f"{number.name}: stopping" + (" at once" if self._children.stopping else ""))
                self._stop()
            elif number == ROLL:
                self._roll()
            elif number == signal.SIGHUP and self._signals.terminal_is_gone():
                event(LOGGER, NOTICE, "SIGHUP: the terminal is closed; stopping")
                self._stop()
            else:
                self._reload()

    def _reload(self) -> None:
        """Apply the changes of the configuration file; the service manager waits for the end."""
        if self._children.stopping is not None:
            event(LOGGER, NOTICE, "Reload refused: the router is stopping")
            return
        if self._announced:
            self._manager.reloading()
        try:
            self._apply(reload(self._config, self._listening, self._passed), RELOAD)
        except RefusedError as error:
            tell_refused(error)
            self._note = "the last reload was refused; the log says why"
        except Exception as error:  # no reload may end the router
            failures.tell("Reload", error, "the router goes on with what it has")
            self._note = "the last reload failed; the log says why"
        else:
            self._note = ""
        self._memory.configuration_read(taken=not self._note)
        if self._announced:
            self._manager.ready(self._status())

    def _change(self, request: ChangeRequest) -> ChangeReply:
        """Apply a change that management requests, as a reload would."""
        if self._children.stopping is not None:
            return ChangeReply(request.number, BAD_REQUEST, "the router is stopping")
        what = f"Management: {request.operation} {request.kind}"
        try:
            new = changed(self._config, request, self._identities)
            prepared = prepare(self._config, new.config, self._listening, passed=self._passed)
            self._apply(prepared, f"{what}: ", request.number)
        except (ChangeError, *CANNOT) as error:
            event(LOGGER, NOTICE, f"{what} refused: {error}")
            status = error.status if isinstance(error, ChangeError) else BAD_REQUEST
            return ChangeReply(request.number, status, str(error))
        except Exception as error:  # one request must not end the router
            failures.tell(what, error, "it is refused")
            return ChangeReply(request.number, INTERNAL, f"{what} failed: {error}; the log says more")
        identity = ""
        if new.entity is not None:
            identities = named(self._config, self._identities)
            identity = identities[self._config.checked.index(new.entity)]
        awaited = self._children.answer_awaited(request.number)
        return ChangeReply(request.number, new.status, "; ".join(new.remarks), identity, awaited)

    def _apply(self, reloaded: Reloaded, begins: str, answer: int = 0) -> None:
        config, before = reloaded.difference.effective, self._blueprint
        try:
            new = blueprint(
                config, before.version, reloaded.listening, before.doorbells, self._identities, before.connecting
            )
        except Exception:
            withdraw(reloaded, self._config, self._listening)
            raise
        warnings, self._config, self._blueprint = self._config.warnings, config, new
        self._listening[:] = reloaded.listening
        self._certificates.set(self._blueprint.profiles)
        self._children.change(self._blueprint, reloaded.pinning, self._clock(), answer)
        retire(reloaded.retired, reloaded.listening)
        tell(reloaded, warnings, begins)

    def _roll(self) -> None:
        if why := unusable(self._config.listeners, self._blueprint.profiles):
            event(LOGGER, logging.ERROR, f"{ROLL_REFUSED}{why}")
        elif self._children.roll(self._config.router.stop_grace_seconds):
            event(LOGGER, NOTICE, "Rolling restart: workers, core and recorder are replaced one at a time")
        else:
            event(LOGGER, logging.WARNING, f"{ROLL_REFUSED}one is in progress, or the router stops")

    def _stop(self) -> None:
        self._children.stop(self._clock(), self._config.router.stop_grace_seconds)
        close_all(self._listening)

    def _announce(self) -> None:
        self._announced = True
        self._manager.ready(self._status())
        router, places = self._config.router, self._children.places
        for one in self._listening:
            for url in one.urls:
                event(LOGGER, NOTICE, "Listening", url=url, role=one.listener.role, name=one.listener.name or "")
        event(LOGGER, NOTICE, f"Operational, {router.workers} Threads Running (process ID {os.getpid()})")
        self._announce_to(banner(version(), router.id, places, self._listening))

"""Reloads the configuration file: prepares everything that the new configuration needs, or changes nothing.

All that can fail comes first: reading and checking the file, binding sockets, opening the log. Only then do
the children get the new configuration, and sockets no longer needed are closed.
"""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from routerd.config import Config, ConfigError, Listener, Log, load
from routerd.config.formats.source import Mistake
from routerd.log.beginnings import RELOAD
from routerd.log.log import NOTICE, LogError, configure, event
from routerd.machine.listeners import ListenError, Listening, close_all, kept_by, listen_all, look_up, undo
from routerd.machine.pinning import Pinning, UnknownCpuError, plan
from routerd.machine.systemd import Passed
from routerd.reload.changes import kept
from routerd.reload.difference import Difference, difference, places
from routerd.translate import remote_hosts
from routerd.translate.setup import log_setups
from shm.contract.failures import failures
from shm.contract.roles import Role
from shm.memory.space import SegmentError, check_space

MOST_SOCKETS = 64  # the sockets that a worker can serve

NO_LISTENER = (
    "the file no longer has a listener for clients, so nobody could connect; check that it is complete, "
    "or set allowNoListener: yes in router if you intend that"
)

LOGGER = logging.getLogger("SERVER")


class RefusedError(Exception):
    """A reload is refused; `reasons` holds all reasons, one line each."""

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = reasons
        super().__init__("\n".join(reasons))


class NoRoomError(Exception):
    """The CPUs or the memory do not suffice for the workers."""

    def __init__(self, line: int, text: str) -> None:
        self.line = line  # the line of router in its file
        super().__init__(text)


CANNOT = (LogError, ListenError, NoRoomError)  # errors that prevent a configuration without mistakes


class Reloaded(msgspec.Struct, frozen=True):
    """A configuration ready for use: its listeners listen, and `retired` ones wait to be closed.

    `dropped` says why entities from management are not in it.
    """

    difference: Difference
    listening: list[Listening]
    retired: list[Listening]
    pinning: Pinning
    dropped: tuple[str, ...] = ()


def reload(old: Config, listening: Sequence[Listening], passed: Passed | None = None) -> Reloaded:
    """Read the configuration file again. Raises RefusedError, and then nothing has changed."""
    if not old.file:
        raise RefusedError(["the router was started without a configuration file; restart it with --config"])
    try:
        read = load(old.file, old.router.id, regular=True)
    except ConfigError as error:
        raise RefusedError([str(mistake) for mistake in error.mistakes if not mistake.warning]) from error
    except Exception as error:  # no file may end the router
        failures.tell(f"reading {old.file}", error, "the router stays as it is")
        raise RefusedError([f"{old.file}: {type(error).__name__}: {error}"]) from error
    if _loses_listeners(old, read):
        raise RefusedError([str(Mistake(old.file, 1, NO_LISTENER))])
    new, dropped = kept(old, read)
    try:
        prepared = prepare(old, new, listening, dropped, passed)
    except CANNOT as error:
        line = _line_of(new, error) if isinstance(error, LogError) else error.line
        raise RefusedError([str(Mistake(old.file, line, str(error)))]) from error
    remote_hosts.forget()
    return prepared


def _line_of(config: Config, error: LogError) -> int:
    """Return the line that names the log that cannot be written; 0 if management named it."""
    logs = (at for at in config.checked if isinstance(at.entity, Log) and at.entity.output_file == error.name)
    return next((at.line_of("outputFile") for at in logs), 0)


def _loses_listeners(old: Config, read: Config) -> bool:
    """Whether a file removes all client listeners without saying so: it is empty or half written."""
    had = any(isinstance(at.entity, Listener) and at.entity.for_clients and at.line for at in old.checked)
    return had and not read.router.allow_no_listener and not any(one.for_clients for one in read.listeners)


def prepare(
    old: Config, new: Config, listening: Sequence[Listening], dropped: Sequence[str] = (), passed: Passed | None = None
) -> Reloaded:
    """Prepare what a new configuration needs. Raises one of ``CANNOT``; whatever it raises, nothing has changed."""
    pinning, changes = _room(old, new), difference(old, new)
    try:
        configure(log_setups(new.logs), Role.SUPERVISOR)
        found, retired = exchange(listening, new.listeners, passed)
    except Exception:
        _restore_log(old)
        raise
    return Reloaded(changes, found, retired, pinning, tuple(dropped))


def withdraw(reloaded: Reloaded, old: Config, listening: Sequence[Listening]) -> None:
    """Undo what was prepared, of which no child knows."""
    undo(reloaded.listening, listening)
    _restore_log(old)


def _restore_log(old: Config) -> None:
    with suppress(LogError):
        configure(log_setups(old.logs), Role.SUPERVISOR)


def _room(old: Config, new: Config) -> Pinning:
    """Return the pinning of the workers, if memory and CPUs suffice. Raises NoRoomError."""
    router = new.router
    try:
        check_space(router.workers, old.router.arena_size, old.router.workers)
        return plan(router.core_cpu, router.worker_cpus, router.workers, os.sched_getaffinity(0))
    except (SegmentError, UnknownCpuError) as error:
        raise NoRoomError(router.line, str(error)) from error


def exchange(
    listening: Sequence[Listening], wanted: Sequence[Listener], passed: Passed | None = None
) -> tuple[list[Listening], list[Listening]]:
    """Open the wanted listeners, keeping sockets of those that stay; return them and the listeners to retire.

    New listeners may take sockets of the service manager that no other listener has (sd_listen_fds(3)).
    A socket pair that a listener needs no more is to be retired, too. Raises `ListenError`, and then everything listens
    as before.
    """
    have = dict(zip(places([one.listener for one in listening]), listening, strict=True))
    want = places(wanted)
    leaving = [one for place, one in have.items() if place not in want]
    joining = [one for place, one in want.items() if place not in have]
    ports = {one.port_number for one in joining}
    in_the_way = [one for one in leaving if one.listener.port_number in ports]
    lookups = look_up(joining)  # meanwhile all listen
    for one in in_the_way:
        one.pause()  # `*:5672` cannot be bound while `127.0.0.1:5672` listens
    staying = [sock for place, one in have.items() if place in want for sock in one.sockets]
    opened: list[Listening] = []
    kept: list[Listening] = []
    try:
        opened = listen_all(joining, (passed or Passed()).beside(staying), lookups)
        if sum(len(one.sockets) for one in (*listening, *opened)) > MOST_SOCKETS:
            raise ListenError(joining[-1], f"there are more than {MOST_SOCKETS} sockets; remove a listener")
        new = iter(opened)
        for place, listener in want.items():
            kept.append(kept_by(have[place], listener) if place in have else next(new))
    except Exception:
        undo([*opened, *kept], listening)
        raise
    stays = dict(zip(want, kept, strict=True))
    unpaired = [one for place, one in have.items() if one.handover and place in stays and not stays[place].handover]
    return kept, [*leaving, *(msgspec.structs.replace(one, sockets=[]) for one in unpaired)]


def retire(leaving: Sequence[Listening], staying: Sequence[Listening] = ()) -> None:
    """Stop listening in every process at once; connections stay.

    A warning names sockets that the service manager keeps open and no listener in `staying` serves.
    """
    served = {url.partition("://")[2] for one in staying for url in one.urls}
    for one in leaving:
        one.pause()
        held = {url.partition("://")[2] for url in one.urls[: one.held]}
        if held - served:
            event(
                LOGGER,
                logging.WARNING,
                "The service manager still listens for a removed listener, and its clients wait in vain; "
                "remove ListenStream from the socket unit and restart that",
                urls=",".join(one.urls),
            )
    close_all(leaving)


def tell(reloaded: Reloaded, former_warnings: Sequence[Mistake], begins: str = RELOAD) -> None:
    """Log a line for each change; ``begins`` is how each begins.

    What waits for a restart is in the file: a reload tells of it, and no request of management.
    """
    found = reloaded.difference
    waiting = found.restart if begins == RELOAD else []
    for text in found.applied:
        event(LOGGER, NOTICE, f"{begins}{text}")
    for text in reloaded.dropped:
        event(LOGGER, logging.WARNING, f"{begins}removed what management had created: {text}")
    for text in waiting:
        event(LOGGER, logging.WARNING, f"{begins}{text}; it needs a restart of the router to take effect")
    known = {warning.text for warning in former_warnings}
    for warning in found.effective.warnings:
        if warning.text not in known:
            event(LOGGER, logging.WARNING, f"{begins}{warning}")
    if not found.applied and not waiting:
        event(LOGGER, NOTICE, f"{begins}nothing has changed")


def tell_refused(error: RefusedError) -> None:
    """Log every reason, and that the router keeps its configuration."""
    for reason in error.reasons:
        event(LOGGER, logging.ERROR, f"{RELOAD}{reason}")
    event(LOGGER, logging.ERROR, "Reload refused: the router keeps its configuration")

"""What `routerd record` and `routerd replay` do.

A replay of a crash must not end the command: it runs in a process of its own, which tells the number of each record
before it handles it. What a file says is shown as printable text, for it comes from anywhere.
"""

import errno
import math
import mmap
import os
import resource
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from routerd.machine.version import version
from routerd.replay.minimise import minimised
from routerd.replay.recording import Recording, Step
from routerd.replay.run import Difference, Replay
from routerd.replay.told import record as record_told
from routerd.replay.told import step_told
from shm.contract.text import printable, reason
from shm.memory import flight
from shm.memory.flight import RecordingError
from shm.memory.segment import Names
from shm.memory.space import open_file

_NUMBER: Final = struct.Struct("=q")
_UNWRITTEN: Final = struct.Struct("=i")  # behind that
SAME: Final = 0
OTHER: Final = 1
REFUSED: Final = 2
SLOWER: Final = 10  # so many times as long as the first replay may one with fewer records take: it hangs, perhaps
LEAST_SECONDS: Final = 10


class RefusedError(click.ClickException):
    """A file that cannot be replayed."""

    exit_code = REFUSED


def record(prefix: str, router: str, last: float | None, file: Path | None) -> tuple[Path, int]:
    """Write what a running router's recorder holds to a file. Return the file, and how many records it has."""
    path = file or Path(f"{router}.flight")
    try:
        with os.fdopen(open_file(Names(prefix).flight[1:]), "rb") as segment:
            ring = mmap.mmap(segment.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise click.ClickException(
            f"router {router} has no flight recorder: set flightRecords in its configuration and restart it"
        ) from None
    except OSError as error:
        raise click.ClickException(
            f"the flight recorder cannot be read: {error.strerror}; run this as root or as the router's user"
        ) from None
    why = "routerd record" if last is None else f"routerd record --last {last:g}"
    try:
        taken = flight.take(ring, router, version(), why, last, running=True)
        taken.write(path)
    except RecordingError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror}") from None
    return path, taken.about.lines


def replay(file: Path, shown: bool, before: int | None, until_crash: bool, minimise: bool, no_run: bool) -> int:
    """Replay a file as the options say. Return the exit status."""
    try:
        recording = Recording.load(file)
    except OSError as error:
        raise RefusedError(f"{file} cannot be read: {error.strerror}") from None
    except RecordingError as error:
        raise RefusedError(str(error)) from None
    try:
        about = recording.about
        router, made_by, why = map(printable, (about.router, about.version, about.why))
        click.echo(f"router {router}, core generation {about.generation}, routerd {made_by}: {why}")
        if no_run:
            for step in recording.steps():
                click.echo(step_told(recording, step))
            return SAME
        begun = time.monotonic()
        died = Attempt(recording).run(before, lambda step: click.echo(step_told(recording, step)) if shown else None)
        if died.how == REFUSED and died.text:
            raise RefusedError(died.text)
        click.echo(died.told(recording, before))
        if minimise and died.crashed:
            limit = math.ceil(max(LEAST_SECONDS, SLOWER * (time.monotonic() - begun)))
            small = minimised(
                recording,
                lambda one: Attempt(one, limit).run(None).how == died.how,
                last=died.number,
                told=lambda left: click.echo(f"{left} steps are left", err=True),
            )
            path = file.with_name(f"{file.name}.small")
            try:
                flight.Taken(small.about, small.lines).write(path)
            except OSError as error:
                raise click.ClickException(f"{path} cannot be written: {error.strerror}") from None
            click.echo(f"{path}: {small.about.lines} of {about.lines} records still make the core die")
        elif minimise:
            click.echo("it does not die: there is nothing to minimise")
        elif until_crash and not died.crashed:
            click.echo("the core does not die")
    except RecordingError as error:
        raise RefusedError(str(error)) from None
    if until_crash:
        return SAME if died.crashed else OTHER
    return SAME if died.how == 0 else OTHER


class Attempt:
    """A replay in a process of its own. SIGALRM ends it after ``limit`` seconds, if that is not 0."""

    def __init__(self, recording: Recording, limit: int = 0) -> None:
        self._recording, self._limit = recording, limit
        self.number = -1  # of the last record that was begun
        self.how = SAME  # exit status, or minus the number of a signal
        self.text = ""  # what the process has found

    @property
    def crashed(self) -> bool:
        return self.how < 0

    def run(self, before: int | None, shown: Callable[[Step], object] = lambda _: None) -> "Attempt":
        """Replay up to a record. Return itself.

        Raises click.ClickException if no process can be had, and OSError if ``shown`` did.
        """
        number = mmap.mmap(-1, _NUMBER.size + _UNWRITTEN.size)  # shared with the process, which may die at any moment
        _NUMBER.pack_into(number, 0, -1)
        told, tells = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(told)
            os.close(tells)
            raise click.ClickException(f"there is no process for the replay: {error.strerror}") from None
        if pid == 0:
            os.close(told)
            self._child(before, shown, number, tells)
        os.close(tells)
        with os.fdopen(told, "rb") as file:
            self.text = file.read().decode("utf-8", "replace")
        self.how = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        (self.number,) = _NUMBER.unpack_from(number)
        (unwritten,) = _UNWRITTEN.unpack_from(number, _NUMBER.size)
        if unwritten:
            raise OSError(unwritten, os.strerror(unwritten))
        return self

    def _child(self, before: int | None, shown: Callable[[Step], object], number: mmap.mmap, tells: int) -> None:
        """Replay, tell what was found, and end the process whatever happens."""
        status = REFUSED
        try:
            signal.signal(signal.SIGABRT, signal.SIG_DFL)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(self._limit)
            if self._limit:  # thousands of deaths are to come
                resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

            def told(step: Step) -> None:
                if step.kind != "work":
                    _NUMBER.pack_into(number, 0, step.number)
                try:
                    shown(step)
                except OSError as error:
                    _UNWRITTEN.pack_into(number, _NUMBER.size, error.errno or errno.EIO)
                    raise

            try:
                difference = Replay(self._recording).run(before, told)
                text = "" if difference is None else _difference(difference)
                status = SAME if difference is None else OTHER
            except RecordingError as error:
                text = str(error)
            except BaseException as error:
                text = f"the replay failed: {reason(error)}"
            os.write(tells, text.encode(errors="replace"))
        finally:
            os._exit(status)

    def told(self, recording: Recording, before: int | None = None) -> str:
        """Return what became of it, as a sentence."""
        if self.crashed:
            name = signal.Signals(-self.how).name
            return f"the core dies of {name} in record {self.number}"
        if self.how != SAME and not self.text:
            return f"the replay's process ended with status {self.how} in record {self.number}"
        lines = recording.about.lines
        part = "" if before is None or before >= lines else f"the first {before} of "
        return self.text or f"the same work as recorded, in {part}{lines} records"


def _difference(found: Difference) -> str:
    def said(octets: bytes | None) -> str:
        return "nothing" if octets is None else record_told(octets, False)

    return (
        f"record {found.number} is the first that differs, for worker {found.worker}:\n"
        f"  recorded: {said(found.recorded)}\n  replayed: {said(found.replayed)}"
    )

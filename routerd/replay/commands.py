"""What `routerd record` and `routerd replay` do.

A replay of a crash must not end the command: it runs in a process of its own, which tells the number of each record
before it handles it.
"""

import mmap
import os
import signal
import struct
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
from shm.memory import flight
from shm.memory.flight import RecordingError
from shm.memory.segment import DIRECTORY, Names

_NUMBER: Final = struct.Struct("=q")
SAME: Final = 0
OTHER: Final = 1


def record(prefix: str, router: str, last: float | None, file: Path | None) -> str:
    """Write what a running router's recorder holds to a file. Return a line that says so."""
    path = file or Path(f"{router}.flight")
    try:
        with (DIRECTORY / Names(prefix).flight[1:]).open("rb") as segment:
            ring = mmap.mmap(segment.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise click.ClickException(
            f"router {router} records nothing; give it flightRecords and start it anew"
        ) from None
    except OSError as error:
        raise click.ClickException(
            f"the flight recorder cannot be read: {error.strerror}; be the router's user"
        ) from None
    why = "routerd record" if last is None else f"routerd record --last {last:g}"
    try:
        taken = flight.take(ring, router, version(), why, last, running=True)
        taken.write(path)
    except RecordingError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror}") from None
    return f"{path}: {taken.about.lines} records"


def replay(file: Path, shown: bool, before: int | None, until_crash: bool, minimise: bool, no_run: bool) -> int:
    """Replay a file as the options say. Return the exit status."""
    try:
        recording = Recording.load(file)
        about = recording.about
        click.echo(f"router {about.router}, core generation {about.generation}, routerd {about.version}: {about.why}")
        if no_run:
            for step in recording.steps():
                click.echo(step_told(recording, step))
            return SAME
        died = Attempt(recording).run(before, lambda step: click.echo(step_told(recording, step)) if shown else None)
        click.echo(died.told(recording))
        if minimise and died.crashed:
            small = minimised(recording, lambda one: Attempt(one).run(None).how == died.how)
            path = file.with_name(f"{file.name}.small")
            flight.Taken(small.about, small.lines).write(path)
            click.echo(f"{path}: {small.about.lines} of {about.lines} records still make the core die")
    except RecordingError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}") from None
    if until_crash:
        return SAME if died.crashed else OTHER
    return SAME if died.how == 0 else OTHER


class Attempt:
    """A replay in a process of its own."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.number = -1  # of the last record that was begun
        self.how = 0  # exit status, or minus the number of a signal
        self.text = ""  # what the process has found

    @property
    def crashed(self) -> bool:
        return self.how < 0

    def run(self, before: int | None, shown: Callable[[Step], object] = lambda _: None) -> "Attempt":
        """Replay up to a record. Return itself."""
        told, tells = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(told)
            self._child(before, shown, tells)
        os.close(tells)
        with os.fdopen(told, "rb") as file:
            said = file.read()
        self.how = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        numbers, _, text = said.partition(b"\xff" * 8)
        whole = len(numbers) // 8 * 8
        self.number = _NUMBER.unpack_from(numbers, whole - 8)[0] if whole else -1
        self.text = text.decode("utf-8", "replace")
        return self

    def _child(self, before: int | None, shown: Callable[[Step], object], tells: int) -> None:
        status, text = OTHER, ""
        signal.signal(signal.SIGABRT, signal.SIG_DFL)

        def told(step: Step) -> None:
            if step.kind != "work":
                os.write(tells, _NUMBER.pack(step.number))
            shown(step)

        try:
            difference = Replay(self._recording).run(before, told)
            text = "" if difference is None else _difference(difference)
            status = SAME if difference is None else OTHER
        except RecordingError as error:
            text = str(error)
        finally:
            os.write(tells, b"\xff" * 8 + text.encode())
            os._exit(status)

    def told(self, recording: Recording) -> str:
        """Return what became of it, as a sentence."""
        if self.crashed:
            name = signal.Signals(-self.how).name
            return f"the core dies of {name} in record {self.number}"
        return self.text or f"the same work as recorded, in {recording.about.lines} records"


def _difference(found: Difference) -> str:
    def said(octets: bytes | None) -> str:
        return "nothing" if octets is None else record_told(octets, False)

    return (
        f"record {found.number} is the first that differs, for worker {found.worker}:\n"
        f"  recorded: {said(found.recorded)}\n  replayed: {said(found.replayed)}"
    )

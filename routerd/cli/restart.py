"""`routerd restart --rolling`: finds a local router, has its processes replaced and reports each replacement.

The command sends SIGUSR1 to the supervisor and follows progress in the router's shared memory, so it needs
neither a listener nor a log.
"""

import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec
import psutil

from routerd.cli.client import Client, ClientError, Place
from routerd.cli.log import later
from routerd.cli.printed import print_json
from routerd.log.beginnings import ROLL_REFUSED
from shm.contract.numbers import counted, whole
from shm.contract.roles import Role
from shm.contract.text import printable
from shm.memory.journal import Journal, Line
from shm.memory.observer import Page, SharedView
from shm.memory.segment import SegmentError
from shm.memory.space import open_file, segments

LOOK_SECONDS = 0.1
PATIENCE_SECONDS = 10.0  # without progress until a line says who is late; a worker takes about 4 s
OVER = "All processes are new except the supervisor and the exporter, which a rolling restart keeps."
LINES = 50  # of the supervisor's last ones, among which it is
_CONTROL = re.compile(r"routerd-(?P<id>.*)-(?P<pid>\d+)-control")


class RestartError(click.ClickException):
    """There is no router to restart, or the restart does not go on; the text says why and what to do."""


class Found(msgspec.Struct, frozen=True):
    """A router that runs on this machine."""

    id: str
    pid: int  # of its supervisor

    @property
    def prefix(self) -> str:
        """The name that the router's shared memory segments begin with."""
        return f"/routerd-{self.id}-{self.pid}"


def running() -> list[Found]:
    """Return the routers on this machine whose shared memory this user may open."""
    matches = filter(None, map(_CONTROL.fullmatch, segments()))
    return [one for one in (Found(match["id"], int(match["pid"])) for match in matches) if lives(one)]


def lives(router: Found) -> bool:
    """Whether a live supervisor holds the lock of a router's control segment.

    Every user may make a file of such a name, with the id of any process in it, and lock it: a signal would end that
    process. So the file must belong to the user of the process.
    """
    fd = -1
    try:
        fd = open_file(f"{router.prefix[1:]}-control")
        if os.fstat(fd).st_uid == psutil.Process(router.pid).uids().effective:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, ValueError, psutil.Error):
        return False
    finally:
        if fd >= 0:
            os.close(fd)
    return False


def find(
    pid: int | None = None, pid_file: Path | None = None, unit: str | None = None, bus: str | None = None
) -> Found:
    """Return the router whose supervisor is named by process id, pid file, systemd unit or URL.

    Without any of them, return the only router on this machine. Raises RestartError.
    """
    if pid_file is not None:
        pid = _pid_in(pid_file)
    elif unit is not None:
        pid = _main_pid(unit)
    elif bus is not None:
        pid = _asked(bus)
    found = [one for one in running() if pid in (None, one.pid)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(f"{one.id} ({one.pid})" for one in found)
        raise RestartError(f"several routers run here: {printable(names)}; give --pid, --pid-file, --unit or --bus")
    what = "there is no router" if pid is None else f"process {pid} is not the supervisor of a router"
    if os.geteuid() == 0:
        there = ", ".join(f"{one.id} ({one.pid})" for one in running())
        raise RestartError(f"{what} that runs here; " + (f"there is {printable(there)}" if there else "none runs here"))
    raise RestartError(
        f"{what} that runs here and that this user may look at; run this as root, or as the router's user"
    )


def _pid_in(file: Path) -> int:
    try:
        text = file.read_text("ascii", "replace").strip()
    except OSError as error:
        raise RestartError(f"{file} cannot be read: {error.strerror}") from None
    if (pid := whole(text)) is None:
        raise RestartError(f"{file} does not hold a process id, but {text[:40]!r}")
    return pid


def _main_pid(unit: str) -> int:
    command = ["systemctl", "show", "--property=MainPID", "--value", "--", unit]
    try:
        answer = subprocess.run(  # noqa: S603  no shell
            command, capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RestartError(f"systemctl cannot be asked for {unit}: {error}; give --pid or --pid-file") from None
    text = answer.stdout.strip()
    if answer.returncode or not text.isdecimal():
        why = " ".join(answer.stderr.split()) or "it gave no process id"
        raise RestartError(f"systemctl does not know {unit}: {why}; give --pid or --pid-file")
    if text == "0":
        raise RestartError(f"{unit} is not running; start it with: systemctl start {unit}")
    return int(text)


def _asked(bus: str) -> int:
    try:
        with Client(Place(bus)) as client:
            return next(int(row["pid"]) for row in client.query("worker") if row["name"] == Role.SUPERVISOR)
    except (ClientError, StopIteration) as error:
        raise RestartError(f"{error}; or give --pid, --pid-file or --unit") from error


class Replaced(msgspec.Struct, frozen=True):
    """A process that has a successor, with the process ids of both."""

    process: str
    before: int
    pid: int


class Follower:
    """Watches a router's processes being replaced. `clock` returns seconds; no method blocks."""

    def __init__(self, pages: Callable[[], list[Page]], clock: Callable[[], float]) -> None:
        self._pages = pages
        self._clock = clock
        self._before = {page.process: page for page in self._all()}
        self.replaced: list[Replaced] = []
        self._moved = clock()
        self.total = len(self._before)

    def _all(self) -> list[Page]:
        return [page for page in self._pages() if page.process != Role.SUPERVISOR]

    @property
    def _done(self) -> set[str]:
        return {one.process for one in self.replaced}

    @property
    def waiting(self) -> list[str]:
        """The processes that have no successor yet.

        A worker that was removed needs none. A recorder that ended has no statistics page, but a successor
        follows.
        """
        there = {page.process for page in self._all()} | {Role.RECORDER}
        return [process for process in self._before if process not in self._done and process in there]

    def step(self) -> Iterator[str]:
        """Yield a line for each process replaced since the last call, and one after a long wait."""
        for page in self._all():
            before = self._before.get(page.process)
            if before is None or page.process in self._done or not _serves(page, before):
                continue
            self.replaced.append(Replaced(page.process, before.pid, page.pid))
            self._moved = self._clock()
            count = f"{len(self.replaced)} of {self.total}"
            yield f"{page.process} is new: process {page.pid} instead of {before.pid} ({count})"
        if self.waiting and self._clock() - self._moved >= PATIENCE_SECONDS:
            self._moved = self._clock()
            yield f"still waiting for {self.waiting[0]}; the router's log says why"


def _serves(page: Page, before: Page) -> bool:
    """Whether `page` is that of a successor that is ready."""
    accepts = page.process in (Role.CORE, Role.RECORDER) or bool(page.counters["accepting"])
    return page.generation > before.generation and bool(page.pid) and accepts


def run(router: Found, timeout: float, as_json: bool = False) -> None:
    """Replace a router's processes within `timeout` seconds and print what was replaced. Raises RestartError."""
    try:
        view = SharedView(router.prefix)
        follower = Follower(view.pages, time.monotonic)
        journal = view.journal(Role.SUPERVISOR)
        known = journal.lines(LINES)
        os.kill(router.pid, signal.SIGUSR1)
    except SegmentError as error:
        raise RestartError(f"router {router.id}: {error}") from error
    except (PermissionError, ProcessLookupError) as error:
        raise RestartError(f"router {router.id}, process {router.pid}: {error.strerror}") from error
    try:
        for line in _progress(router, follower, timeout, lambda: _refusal(known, journal)):
            click.echo(line, err=as_json)
    finally:
        if as_json:
            found = {"replaced": follower.replaced, "waiting": follower.waiting}
            print_json({"router": router.id, "pid": router.pid, **found})


def _refusal(known: list[Line], journal: Journal) -> str | None:
    """Return why the supervisor has refused, in the words of its log; None unless it has since the `known` lines."""
    texts = [text for _, _, text, *_ in later(known, journal.lines(LINES))]
    why = next((text for text in texts if text.startswith(ROLL_REFUSED)), None)
    return why and why.removeprefix(ROLL_REFUSED).removesuffix(f" process={Role.SUPERVISOR}")


def _progress(router: Found, follower: Follower, timeout: float, refusal: Callable[[], str | None]) -> Iterator[str]:
    """Yield lines about the restart until it is over. Raises RestartError."""
    yield f"Router {router.id}, process {router.pid}: {counted(follower.total, 'process')}, one after the other"
    end = time.monotonic() + timeout
    while True:
        yield from follower.step()
        if not follower.waiting:
            yield OVER
            return
        if not lives(router):
            raise RestartError(f"router {router.id} has stopped meanwhile; its log says why")
        if not follower.replaced and (why := refusal()):
            raise RestartError(f"router {router.id} refuses, and goes on as it is: {why}")
        if time.monotonic() >= end:
            raise RestartError(
                f"{follower.waiting[0]} has not been replaced within {timeout:g} s; the router goes on with "
                "the others, and tries again: its log says why"
            )
        time.sleep(LOOK_SECONDS)

"""A router as users run it, on free ports, with an eye on what it says and leaves behind."""

import fcntl
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import proton
import psutil
import pytest

from shm import native
from shm.memory.segment import DIRECTORY, Segments, attach, segment_prefix
from shm.statistics import stats
from tests.model.balance import unbalanced

LONG = 60.0  # far beyond what anything here takes on a busy machine; it only ends a broken test
STOP = 20.0  # a signal stops a router within 5 s, whatever its clients do, if it gets a CPU
PROGRAM = Path(sys.executable).with_name("routerd")

needs_users = pytest.mark.skipif(
    not proton.SASL.extended(),
    reason="the AMQP engine was built without Cyrus SASL: install libsasl2-dev, then make clean-all build",
)


def until(condition: Callable[[], object], what: str, seconds: float = LONG) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds:g} s"
        time.sleep(0.01)


PORTS = range(20_000, 32_000)  # below those that the system gives to whoever does not ask for one
_taken: list[int] = []


def free_port() -> int:
    """A port that nobody listens on. It is this process's until its end: no other test gets it, and the
    system gives it to nobody, so a router may take it, lose it and take it again.
    """
    if not _taken:
        _taken.append(os.open(f"{tempfile.gettempdir()}/routerd-test-ports-{os.getuid()}", os.O_CREAT | os.O_RDWR))
    for port in random.sample(PORTS, len(PORTS)):
        if port not in _taken[1:] and _is_free(_taken[0], port):
            _taken.append(port)
            return port
    raise AssertionError("no port is free")


def _is_free(ledger: int, port: int) -> bool:
    """Whether the port is nobody's; then its byte of the ledger is locked."""
    with suppress(OSError), socket.socket() as sock:
        fcntl.lockf(ledger, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        sock.bind(("127.0.0.1", port))
        return True
    return False


def roles(supervisor: int) -> dict[str, psutil.Process]:
    """A router's processes by role, as their command lines tell: ``core``, ``worker 0``. One that begins or
    ends just now has none.
    """
    found = {}
    for process in psutil.Process(supervisor).children():
        with suppress(psutil.Error):
            words = process.cmdline()
            if "routerd.process" in words and "--control-fd" in words:
                role = words[words.index("routerd.process") + 1 : words.index("--control-fd")]
                found[" ".join(role)] = process
    return found


class Since:
    """A router from a moment on, when nobody is connected: what it counts and says more."""

    def __init__(self, router: "RunningRouter") -> None:
        until(lambda: router.counted("connections") == 0, "end of earlier connections")
        until(lambda: router.core["connections_admitted"] == 0, "end of earlier connections in the core")
        self._router, self._log = router, len(router.log)
        self._totals = self._all()

    def _all(self) -> dict[str, int]:
        pages = [self._router.core, *self._router.workers]
        return {name: sum(page[name] for page in pages) for name in pages[0]}

    def counted(self, name: str, number: int) -> None:
        """Wait until something has happened so many times more."""
        until(lambda: self._all()[name] - self._totals[name] >= number, f"{number} {name}")
        assert self._all()[name] - self._totals[name] == number

    def says(self, what: str, times: int = 1) -> None:
        """Wait until the log says something, by a regular expression."""
        until(lambda: len(re.findall(what, self._router.log[self._log :])) >= times, f"{what} in the log")


def own_lines(log: str) -> list[str]:
    """Lines of a log but for those about what other tests have killed."""
    return [line for line in log.splitlines() if "Removed what a killed router left" not in line]


@dataclass(frozen=True)
class Configuration:
    """What a router's file says: attributes of its router and listener, further sections."""

    router: str = ""
    listener: str = "host: 127.0.0.1\n port: 0"
    sections: str = ""
    expected: str = r"^$"  # complaints in the log that the tests cause

    def text(self, router_id: str) -> str:
        return f"router {{\n id: {router_id}\n {self.router}\n}}\nlistener {{\n {self.listener}\n}}\n{self.sections}\n"


def router_id(folder: Path) -> str:
    """The id of the router that a test of this process runs in a folder."""
    return f"system-{os.getpid()}-{folder.name}"


class RunningRouter:
    """A router process and its children; ``stop`` insists on a clean end."""

    def __init__(self, folder: Path, configuration: Configuration, program: Path = PROGRAM) -> None:
        self.id = router_id(folder)
        self.output_file, self.log_file = folder / "out", folder / "log"
        self.expected = configuration.expected
        self.config = config = folder / "router.conf"
        config.write_text(configuration.text(self.id))
        with self.output_file.open("wb") as out, self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [program, "run", "--config", config], stdout=out, stderr=log, start_new_session=True
            )
        self._segments: Segments | None = None
        try:
            until(lambda: "Ctrl-C stops it." in self.output or self.process.poll() is not None, "start")
            assert self.process.poll() is None, self.log
            self._segments = attach(segment_prefix(self.id, self.process.pid))
            until(lambda: all(small for small, _ in self.free_blocks), "first count of blocks")
        except BaseException:
            self.kill()
            raise

    @property
    def output(self) -> str:
        return self.output_file.read_text()

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def urls(self) -> list[str]:
        """Where clients connect to, in the order of the listeners."""
        return re.findall(r"(?:amqp|rmr|ockam)://\S+", self.output)

    @property
    def url(self) -> str:
        return self.urls[0]

    @property
    def address(self) -> tuple[str, int]:
        return address_of(self.url)

    @property
    def workers(self) -> list[dict[str, int]]:
        """The statistics of each worker."""
        assert self._segments is not None
        return [stats.read(self._segments.worker_stats(i)) for i in range(self._segments.workers)]

    @property
    def core(self) -> dict[str, int]:
        """The statistics of the core."""
        assert self._segments is not None
        return stats.read(self._segments.core_stats())

    def counted(self, name: str) -> int:
        """A counter of the workers, summed."""
        return sum(worker[name] for worker in self.workers)

    @property
    def free_blocks(self) -> list[tuple[int, int]]:
        """Small and large ones of each worker."""
        return [(worker["small_free"], worker["large_free"]) for worker in self.workers]

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """All that each worker has; at the start some may be in use: clients, endpoints are there already."""
        assert self._segments is not None
        return [native.Arena(arena).blocks for arena in self._segments.arenas[: self._segments.workers]]

    @property
    def left_in_shared_memory(self) -> list[str]:
        children = segment_prefix(self.id, self.process.pid)[1:]
        return [name for name in os.listdir(DIRECTORY) if children in name]

    def come_to_rest(self) -> None:
        """With its clients gone the router holds no link, no delivery and no block, and saw no nonsense.

        Each delivery has ended in one counter.
        """
        until(lambda: self.counted("connections") == 0, "end of the connections")
        until(lambda: self.counted("links") == self.counted("unsettled") == 0, "end of links and deliveries")
        until(lambda: self.core["live_deliveries"] == 0, "end of the core's deliveries")
        all_free = f"return of all blocks ({self.blocks})"
        until(lambda: self.free_blocks == self.blocks, all_free)
        assert self.counted("bad_records") == self.core["bad_records"] == 0
        until(lambda: unbalanced(self.core) == {}, f"one counter for each delivery ({unbalanced(self.core)})")

    def stop(self) -> None:
        """As `end`, without clients; no complaint in the log."""
        try:
            self.come_to_rest()
        except BaseException:
            self.kill()
            raise
        self.end()
        lines = re.findall(r"(?m)^.*(?:\((?:warning|error|critical)\)|Traceback).*$", self.log)
        refusals = r"(connection of \S+|AGENT \(error\) .*) refused: |message of \S+ rejected: "
        refusals += r"|Route table \S+: .* refused, "
        complaints = [line for line in lines if not re.search(f"{refusals}|{self.expected}", line)]
        assert complaints == [], "\n".join(complaints)

    def end(self) -> None:
        """SIGTERM, whatever is on its way: status 0, soon, nothing in /dev/shm."""
        try:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(timeout=STOP) == 0, self.log
        finally:
            self.kill()
        assert self.left_in_shared_memory == []

    def kill(self) -> None:
        """End what still runs, and unmap."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self._segments is not None:
            self._segments.close()
            self._segments = None


def address_of(url: str) -> tuple[str, int]:
    """Host and port of an amqp URL."""
    match = re.fullmatch(r"(?:amqp|rmr|ockam)://\[?([^]/]+?)\]?:(\d+)", url)
    assert match is not None, url
    return match[1], int(match[2])

"""The cost of a management client that reads every link, for the messages that pass meanwhile.

Agent and client together keep about one CPU busy. The cost of any other program that does so is measured in the same
way; the rest is the cost of the queries.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from proton import Event
from proton.handlers import MessagingHandler
from proton.reactor import Container

from bench.clients import ClientSpec, transfer
from bench.processes import processes
from bench.results import Run
from bench.targets import BenchError, Running
from routerd.cli import client as management

ATTACH_LIMIT_S = 60.0
# Some milliseconds of work for each octet that comes in; then it goes out.
TURNS = """
import os
while octet := os.read(0, 1):
    sum(range(500_000))
    os.write(1, octet)
"""


@dataclass(frozen=True, kw_only=True)
class Queries:
    """Messages one at a time: alone, with a client that reads all links in pages, and with busy strangers."""

    links: int
    count: int

    def run(self, running: Running, kind: str, scale: float) -> Run:
        """See `Measurement`. The links belong to a further client and carry nothing."""
        if running.process is None:
            raise BenchError("the target is not a router")
        links = max(1, round(self.links * scale))
        ping = ClientSpec(
            mode="pingpong", port=running.port, address="bench.ping", count=max(1, round(self.count * scale))
        )
        with Crowd(f"127.0.0.1:{running.port}", links):
            core = processes(running.process.pid)["core"]
            before = forwarder_seconds(core)
            alone = transfer(running, [], [ping], kind=kind)
            between = forwarder_seconds(core)
            asking = Asking(f"amqp://127.0.0.1:{running.port}")
            with asking:
                beside = transfer(running, [], [ping], kind=kind)
            after = forwarder_seconds(core)
            with strangers():
                disturbed = transfer(running, [], [ping], kind=kind)
        return figures(alone, disturbed, beside, (between - before, after - between), asking)


@contextmanager
def strangers() -> Iterator[None]:
    """Run two programs that take turns, as the agent and its client do, and have nothing to do with the router."""
    command = [sys.executable, "-c", TURNS]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as one,  # noqa: S603  TURNS
        subprocess.Popen(command, stdin=one.stdout, stdout=one.stdin) as other,  # noqa: S603  TURNS
    ):
        assert one.stdin is not None
        one.stdin.write(b".")
        one.stdin.close()
        try:
            yield
        finally:
            one.kill()
            other.kill()


class Crowd(MessagingHandler):
    """A client with many links, which are open while the context lasts.

    Each is on an address of its own; with ``addresses`` they share so many.
    """

    def __init__(self, place: str, links: int, addresses: int = 0) -> None:
        super().__init__(prefetch=0)
        self._place = place
        self._links = links
        self._addresses = addresses or links
        self._open = 0
        self._ready = threading.Event()
        self._container = Container(self)
        self._thread = threading.Thread(target=self._container.run, daemon=True)

    def __enter__(self) -> Crowd:
        self._thread.start()
        if not self._ready.wait(ATTACH_LIMIT_S):
            raise BenchError(f"{self._open} of {self._links} links were attached in {ATTACH_LIMIT_S:.0f} s")
        return self

    def __exit__(self, *_: object) -> None:
        self._container.stop()
        self._thread.join()

    def on_start(self, event: Event) -> None:
        """Attach all links."""
        connection = event.container.connect(self._place)
        for i in range(self._links):
            event.container.create_receiver(connection, f"bench.crowd.{i % self._addresses}", name=str(i))

    def on_link_opened(self, event: Event) -> None:
        """Count the links that the router has attached."""
        self._open += 1
        if self._open == self._links:
            self._ready.set()


class Asking:
    """A thread that reads all links repeatedly while the context lasts."""

    def __init__(self, url: str) -> None:
        self.queries = 0
        self.rows = 0
        self.seconds = 0.0
        self._place = management.Place(url)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        began = time.monotonic()
        with management.Client(self._place) as client:
            while not self._over.is_set():
                self.rows = sum(1 for _ in client.query("link"))
                self.queries += 1
        self.seconds = time.monotonic() - began


def forwarder_seconds(core: int) -> float:
    """Return the CPU seconds of the forwarder's thread, the first of the core; another one answers requests."""
    text = Path(f"/proc/{core}/task/{core}/schedstat").read_text(encoding="ascii")
    return int(text.split()[0]) / 1e9


def figures(alone: Run, disturbed: Run, beside: Run, cpu: tuple[float, float], asking: Asking) -> Run:
    """Return the run with the queries, and for each query the CPU time beyond that of as many messages ``alone``.

    ``cpu`` has the seconds of the forwarder's thread, alone and with the queries.
    """
    latencies = [run.latency_us for run in (alone, disturbed, beside)]
    if not asking.queries or None in latencies:
        raise BenchError("no query was answered while messages passed; give a larger scale")
    alone_p999, strangers_p999, beside_p999 = (one.p999 for one in latencies if one is not None)
    expected = cpu[0] * beside.messages / alone.messages
    extra = {
        "rows": float(asking.rows),
        "query_s": asking.seconds / asking.queries,
        "query_core_ms": max(0.0, cpu[1] - expected) / asking.queries * 1e3,
        "alone_p999": alone_p999,
        "strangers_p999": strangers_p999,
        "query_delay_us": max(0.0, beside_p999 - max(alone_p999, strangers_p999)),
    }
    return msgspec.structs.replace(beside, extra={**beside.extra, **extra})

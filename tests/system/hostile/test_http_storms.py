"""Five thousand HTTP clients within a few seconds: the exporter is busy for as long, and answers all the while."""

import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

import psutil
import pytest

from routerd.supervise.watch import seconds_waited
from tests.support.clients.web import get
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import Bounds, Verdict
from tests.support.running import RunningRouter, roles, until

CLIENTS = 2_000
HELD = 500  # of them, at the same time
ANSWERED = 3.0  # seconds that a scrape, or the live page, may take meanwhile, if nobody waits for a CPU
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: the end of a connection comes as a reset
PAGES = ("/metrics", "/", "/status.json", "/healthz")


def asking(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def silent(client: socket.socket, _: int) -> None:
    """It asks for nothing."""


def pages(client: socket.socket, number: int) -> None:
    client.sendall(asking(PAGES[number % len(PAGES)]))


def selections(client: socket.socket, number: int) -> None:
    """No two of these pages are the same."""
    client.sendall(asking(f"/metrics?name[]=none_{number}"))


def halves(client: socket.socket, _: int) -> None:
    client.sendall(asking("/metrics")[:-2])


def resets(client: socket.socket, number: int) -> None:
    pages(client, number)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


STORMS: dict[str, tuple[Callable[[socket.socket, int], None], int]] = {
    "silent, and gone": (silent, 0),
    "silent, and there": (silent, HELD),
    "asking, and gone": (pages, 0),
    "asking, and reset": (resets, 0),
    "asking for what nobody else asks for, and gone": (selections, 0),
    "asking, and taking nothing": (pages, HELD),
    "asking by halves": (halves, HELD),
}


def storm(port: int, says: Callable[[socket.socket, int], None], held: int) -> None:
    clients: deque[socket.socket] = deque()
    for number in range(CLIENTS):
        clients.append(socket.create_connection(("127.0.0.1", port), timeout=30))
        with suppress(OSError):
            says(clients[-1], number)
        if len(clients) > held:
            clients.popleft().close()
    for client in clients:
        client.close()


def scraping(port: int, over: Event, took: list[float]) -> None:
    """Asks for page after page, and writes down how long each takes; a connection may be lost, and is tried again."""
    while not over.is_set():
        began = time.monotonic()
        for path in ("/metrics", "/"):
            status = 0
            while status != 200:
                with suppress(OSError):
                    status = get(f"http://127.0.0.1:{port}{path}").status
            took.append(time.monotonic() - began)
            began = time.monotonic()
        time.sleep(0.05)


def waits(exporter: int) -> float:
    """For how many seconds the exporter, and the threads of this process, have waited for a CPU."""
    return seconds_waited(exporter) + sum(seconds_waited(thread.id) for thread in psutil.Process().threads())


@pytest.mark.parametrize("kind", STORMS)
def test_a_storm_of_http_clients(attacked: RunningRouter, target: Target, kind: str) -> None:
    """Whatever they do, the exporter is not killed, and others have their pages within a bounded time."""
    until(lambda: "exporter" in roles(attacked.process.pid), "the exporter, which starts last")
    exporter = roles(attacked.process.pid)["exporter"].pid
    over, took = Event(), []  # type: tuple[Event, list[float]]
    waited = waits(exporter)
    scrapes = Thread(target=scraping, args=(target.http, over, took))
    with Verdict(attacked, Bounds(stall=1.0)):
        scrapes.start()
        try:
            storm(target.http, *STORMS[kind])
        finally:
            over.set()
            scrapes.join()
    assert max(took) < ANSWERED + waits(exporter) - waited, sorted(took)[-10:]
    assert roles(attacked.process.pid)["exporter"].pid == exporter

"""SIGUSR1: every worker is replaced, one at a time, then the core, and no client is refused."""

import os
import re
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection
from running import LONG, Configuration, RunningRouter, until

HEADER = b"AMQP\x03\x01\x00\x00"


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def rolled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningRouter]:
    router = RunningRouter(tmp_path, Configuration(router=f"workers: {request.param}\n arenaSize: 4"))
    yield router
    router.kill()


class Client(threading.Thread):
    """Connects in a loop and counts what becomes of it."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(daemon=True)
        self.outcomes: Counter[str] = Counter()
        self.end = threading.Event()
        self._address = address

    def run(self) -> None:
        while not self.end.wait(0.002):
            self.outcomes[self._attempt()] += 1

    def _attempt(self) -> str:
        try:
            with socket.create_connection(self._address, timeout=LONG) as sock:
                sock.sendall(HEADER)
                return "served" if sock.recv(8) == HEADER else "cut off"
        except OSError as error:
            return type(error).__name__


def test_all_workers_are_new_and_nobody_was_refused(rolled: RunningRouter) -> None:
    """A client that stays connected is told to go when its worker leaves; messages flow as before."""
    staying = BlockingConnection(rolled.url, timeout=LONG)
    receiver = staying.create_receiver("a.place")
    count = len(rolled.workers)
    client = Client(rolled.address)
    client.start()
    os.kill(rolled.process.pid, signal.SIGUSR1)
    with pytest.raises(Exception, match="amqp:connection:forced"):
        receiver.receive(timeout=LONG)
    until(lambda: "Rolling restart: all processes are new" in rolled.log, "the end")
    before = client.outcomes["served"]
    until(lambda: client.outcomes["served"] > before + 5, "service")
    client.end.set()
    client.join()
    assert client.outcomes.keys() <= {"served", "cut off", "ConnectionResetError"}, client.outcomes
    assert client.outcomes.total() - client.outcomes["served"] <= count, client.outcomes
    assert sorted(re.findall(r"worker (\d) serves pid=\d+ generation=2", rolled.log)) == [
        str(i) for i in range(count)
    ]
    assert rolled.log.count("core serves") == 2
    assert "(error)" not in rolled.log
    again = BlockingConnection(rolled.url, timeout=LONG)
    receiver = again.create_receiver("a.place")
    again.create_sender("a.place", name="sender").link.send(Message("through"))
    assert receiver.receive(timeout=LONG).body == "through"
    again.close()

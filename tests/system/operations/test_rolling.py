"""SIGUSR1: every worker is replaced, one at a time, then the core, and no client is refused."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection

from tests.support.clients.knocker import Knocker
from tests.support.running import LONG, Configuration, RunningRouter, until


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def rolled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningRouter]:
    router = RunningRouter(tmp_path, Configuration(router=f"workers: {request.param}\n arenaSize: 4"))
    yield router
    router.kill()


def test_all_workers_are_new_and_nobody_was_refused(rolled: RunningRouter) -> None:
    """A client that stays connected is told to go when its worker leaves; messages flow as before."""
    staying = BlockingConnection(rolled.url, timeout=LONG)
    receiver = staying.create_receiver("a.place")
    count = len(rolled.workers)
    client = Knocker(rolled.address)
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
    assert sorted(re.findall(r"worker (\d) serves pid=\d+ generation=2", rolled.log)) == [str(i) for i in range(count)]
    assert rolled.log.count("core serves") == 2
    assert "(error)" not in rolled.log
    again = BlockingConnection(rolled.url, timeout=LONG)
    receiver = again.create_receiver("a.place")
    again.create_sender("a.place", name="sender").link.send(Message("through"))
    assert receiver.receive(timeout=LONG).body == "through"
    again.close()

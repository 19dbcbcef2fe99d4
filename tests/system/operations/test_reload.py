"""SIGHUP under traffic: what changed in the file is applied, and no client notices the rest."""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from proton import Delivery, Message
from proton.utils import BlockingConnection

from routerd.cli.client import Client, Place
from tests.support.running import LONG, Configuration, RunningRouter, free_port, until
from tests.support.tool import ROUTERD

NUMBERS = count()
CLIENTS = "name: clients\n host: 127.0.0.1\n port: 0"


class Reloading:
    """A router whose file is rewritten; each reload is waited for in its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.router = RunningRouter(folder, Configuration(listener=CLIENTS))

    def reload(self, *expected: str, router: str = "", listener: str = CLIENTS, sections: str = "") -> None:
        text = Configuration(router=router, listener=listener, sections=sections).text(self.router.id)
        (self.folder / "router.conf").write_text(text)
        before = len(self.router.log)
        os.kill(self.router.process.pid, signal.SIGHUP)
        for line in expected:
            until(lambda line=line: line in self.router.log[before:], line)

    def connect(self) -> BlockingConnection:
        return BlockingConnection(self.router.url, timeout=LONG)


@pytest.fixture
def reloading(tmp_path: Path) -> Iterator[Reloading]:
    reloading = Reloading(tmp_path)
    yield reloading
    reloading.router.kill()


@pytest.fixture
def port() -> int:
    return free_port()


class Pair:
    """A sender and a receiver, each on one connection, that exchange numbered messages until told to end."""

    def __init__(self, reloading: Reloading) -> None:
        self.sent = 0
        self.received: list[int] = []
        self.failure: BaseException | None = None
        self._reloading = reloading
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._take, self._give)]
        for thread in self._threads:
            thread.start()
        self.go_on()

    def _run(self, work: Callable[[BlockingConnection], None]) -> None:
        try:
            connection = self._reloading.connect()
            work(connection)
            connection.close()
        except BaseException as error:  # the test tells it
            self.failure = error

    def _give(self, connection: BlockingConnection) -> None:
        sender = connection.create_sender("pair.address")
        while not self._end.is_set():
            assert sender.send(Message(self.sent), timeout=LONG).remote_state == Delivery.ACCEPTED
            self.sent += 1
        sender.send(Message(-1), timeout=LONG)

    def _take(self, connection: BlockingConnection) -> None:
        receiver = connection.create_receiver("pair.address")
        while (number := receiver.receive(timeout=LONG).body) >= 0:
            self.received.append(number)
            receiver.accept()
        receiver.accept()

    def go_on(self) -> None:
        """Wait until more messages have been through."""
        before = len(self.received)
        until(lambda: len(self.received) > before + 5 or self.failure, "messages")
        assert self.failure is None, self.failure

    def end(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        assert self.failure is None, self.failure
        assert self.received == list(range(self.sent))


def test_reloads_do_not_touch_traffic(reloading: Reloading, port: int) -> None:
    """A listener comes and goes, a treatment changes, a bad file is refused: the same connections see all."""
    pair = Pair(reloading)
    more = f"listener {{\n name: more\n host: 127.0.0.1\n port: {port}\n}}\n"
    reloading.reload(f"Reload: listener more 127.0.0.1:{port} added", sections=more)
    pair.go_on()
    through_more = BlockingConnection(f"amqp://127.0.0.1:{port}", timeout=LONG)
    receiver = through_more.create_receiver("other.address")
    reloading.reload(
        f"Reload: listener more 127.0.0.1:{port} removed; its connections stay",
        "Reload: address prefix pair added",
        sections="address {\n prefix: pair\n distribution: closest\n}\n",
    )
    pair.go_on()
    until(lambda: _refused(port), "end of the removed listener")
    through_more.create_sender("other.address").link.send(Message("still here"))
    assert receiver.receive(timeout=LONG).body == "still here"
    reloading.reload("router.conf:6: ", "Reload refused", listener="nonsense: 1")
    pair.go_on()
    reloading.reload("Reload: address prefix pair removed")
    pair.go_on()
    through_more.close()
    pair.end()


def _refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=LONG).close()
    except OSError:
        return True
    return False


def prefixes(router: RunningRouter) -> set[str]:
    """Those of configured addresses, as the core has them: the supervisor logs what it has sent to it."""
    with Client(Place(router.url)) as client:
        return {row["prefix"] for row in client.query("router.config.address", ["prefix"])}


def test_an_address_in_use_is_treated_otherwise(reloading: Reloading) -> None:
    """Two receivers that shared its messages get each of them."""
    connection = reloading.connect()
    receivers = [connection.create_receiver("news.today", name=name) for name in ("one", "two")]
    sender = connection.create_sender("news.today")
    reloading.reload(
        "Reload: address prefix news added", sections="address {\n prefix: news\n distribution: multicast\n}\n"
    )
    until(lambda: "news" in prefixes(reloading.router), "the core's knowledge of it")
    sender.link.send(Message("to all"))
    assert [receiver.receive(timeout=LONG).body for receiver in receivers] == ["to all", "to all"]
    connection.close()


def test_new_links_get_the_new_capacity(reloading: Reloading) -> None:
    """Also on a connection that was there before; a worker's successor gets it, too."""
    connection = reloading.connect()
    connection.create_receiver("a.place")
    first = connection.create_sender("a.place")
    until_credit(connection, first.link, 250)
    reloading.reload("Reload: router changed: linkCapacity from nothing to 17", router="linkCapacity: 17")
    until(lambda: capacity_of_another(connection) == 17, "the new capacity")  # its worker hears of it a moment later
    assert first.link.credit == 250
    connection.close()


def capacity_of_another(connection: BlockingConnection) -> int:
    """The credit that a new link gets."""
    sender = connection.create_sender("a.place", name=f"another-{next(NUMBERS)}")
    connection.wait(lambda: sender.link.credit > 0, timeout=LONG, msg="any credit")
    credit = int(sender.link.credit)
    sender.close()
    return credit


def until_credit(connection: BlockingConnection, link: object, credit: int) -> None:
    connection.wait(lambda: link.credit == credit, timeout=LONG, msg=f"credit {credit}")


def test_every_process_logs_at_the_new_level(reloading: Reloading) -> None:
    """Core and workers as well as the supervisor."""
    reloading.reload("Reload: log DEFAULT added", sections="log {\n module: DEFAULT\n enable: trace+\n}\n")
    connection = reloading.connect()
    connection.create_receiver("a.place")
    until(lambda: "address M0a.place added" in reloading.router.log, "a line of the core")
    connection.close()


def test_what_needs_a_restart_is_said(reloading: Reloading) -> None:
    """And said again at the next reload, for it is still true."""
    for _ in range(2):
        reloading.reload(
            "(warning) Reload: router changed: arenaSize from 96 to 8; it needs a restart", router="arenaSize: 8"
        )


def test_the_next_generation_of_a_worker_has_the_new_configuration(reloading: Reloading, port: int) -> None:
    """All workers die after a reload, and the added listener is served."""
    more = f"listener {{\n name: more\n host: 127.0.0.1\n port: {port}\n}}\n"
    reloading.reload(f"Reload: listener more 127.0.0.1:{port} added", sections=more)
    pids = [worker["pid"] for worker in _worker_pids(reloading.router)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: reloading.router.log.count(" serves ") >= 3 + len(pids), "the next generation")
    connection = BlockingConnection(f"amqp://127.0.0.1:{port}", timeout=LONG)
    connection.create_sender("a.place")
    connection.close()


def _worker_pids(router: RunningRouter) -> list[dict[str, int]]:
    segments = router._segments
    assert segments is not None
    return [{"pid": segments.worker_stats(i).pid} for i in range(segments.workers)]


def test_the_tool_reloads(reloading: Reloading) -> None:
    """It prints what has changed, or every mistake, and then ends with status 1."""
    configuration, pid = Configuration(listener=CLIENTS), str(reloading.router.process.pid)
    file, command = reloading.folder / "router.conf", [ROUTERD, "reload", "--pid", pid]
    file.write_text(configuration.text(reloading.router.id).replace("router {", "router {\n linkCapacity: 100"))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG)
    assert (done.returncode, done.stderr) == (0, "")
    assert "linkCapacity from nothing to 100" in done.stdout
    file.write_text("router {\n linkCapacity: many\n}\n")
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"{file}:2: " in refused.stderr
    assert refused.stderr.endswith("keeps its configuration; mend the file and reload again\n")


def test_management_tells_the_new_configuration(reloading: Reloading) -> None:
    """Whoever asks hears what holds now."""
    sections = "address {\n prefix: news\n distribution: multicast\n}\n"
    reloading.reload("Reload: address prefix news added", sections=sections)
    connection = reloading.connect()
    answers = connection.create_receiver(None, dynamic=True)
    requests = connection.create_sender("$management", name="requests")
    query = {"operation": "QUERY", "entityType": "org.apache.qpid.dispatch.router.config.address"}

    def told() -> bool:
        request = Message({"attributeNames": ["prefix", "distribution"]}, properties=query)
        request.reply_to = answers.link.remote_source.address
        requests.link.send(request)
        return answers.receive(timeout=LONG).body["results"] == [["news", "multicast"]]

    until(told, "the new address")
    connection.close()

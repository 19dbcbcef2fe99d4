"""The log of a running router: changed in all processes at once, told by GET-LOG, with frames on request."""

import os
import re
import resource
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import proton
import pytest
from proton.utils import BlockingConnection

from routerd.cli.client import Client, Place, RefusedError
from tests.support.clients.secured import Credentials, attempt
from tests.support.peer import Net, Peer
from tests.support.programs import sasl_users
from tests.support.running import LONG, Configuration, RunningRouter, needs_users, until

LOG = "log"


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """Each worker gets one of two connections."""
    return Configuration(router="workers: 2", listener="host: 127.0.0.1\n port: 0\n name: in")


@pytest.fixture
def client(router: RunningRouter) -> Iterator[Client]:
    """A client of the router's agent; behind it the log is as in the beginning."""
    with Client(Place(router.url)) as client:
        yield client
        for module in ("DEFAULT", "PROTOCOL"):
            enable = "info+" if module == "DEFAULT" else "default"
            change(client, module, enable=enable, outputFile="stderr", includeSource=False)


def change(client: Client, module: str, **attributes: Any) -> Any:
    return client.call("UPDATE", attributes, type=LOG, name=f"log/{module}")


def lines(client: Client, *words: str, limit: int | None = None) -> list[list[Any]]:
    """What GET-LOG tells of lines that have all these words."""
    properties = {} if limit is None else {"limit": limit}
    found = client.call("GET-LOG", type="org.amqp.management", name="self", **properties)
    return [line for line in found if all(word in line[2] for word in words)]


def attaches(client: Client, address: str) -> int:
    return sum(line[0] == "PROTOCOL" for line in lines(client, "@attach", address))


def silent(client: Client, net: Net, peer: Peer) -> bool:
    """Whether no frame of one more receiver is in the log."""
    address = f"off.{time.monotonic_ns()}"
    peer.receiver(address)
    net.round_trips(peer)
    return attaches(client, address) == 0


def test_all_processes_are_heard(router: RunningRouter, client: Client) -> None:
    """Supervisor, core and workers, in the order of time; a limit gives the newest."""
    with Net(router.address) as net:
        peers = [net.peer() for _ in range(4)]
        assert len(peers) == 4
    every = lines(client)
    for name in ("supervisor", "core", "worker-0", "worker-1"):
        assert any(f"process={name}" in line[2] for line in every), name
    assert [line[5] for line in every] == sorted(line[5] for line in every)
    (module, level, text, file, number, when) = lines(client, "Operational")[0]
    assert (module, level, file) == ("SERVER", "notice", "supervisor.py")
    assert "process=supervisor" in text
    assert number > 0
    assert when > 1_700_000_000
    assert len(lines(client, limit=3)) == 3


def test_counts_are_of_all_processes(router: RunningRouter, client: Client) -> None:
    def opened() -> int:
        rows = {row["name"]: row for row in client.query("logStats")}
        return int(rows["logStats/SERVER"]["infoCount"])

    before = opened()
    with Net(router.address) as net:
        for _ in range(4):
            net.peer()
    until(lambda: opened() >= before + 4, "four more")
    assert len(list(client.query("logStats"))) == 17


def test_another_level_in_all_processes(router: RunningRouter, client: Client) -> None:
    """At trace, every connection's frames are told, whichever worker it is; at info, none."""
    with Net(router.address) as net:
        peers = [net.peer() for _ in range(4)]
        change(client, "DEFAULT", enable="trace+")
        for peer in peers:
            peer.receiver("loud")
        until(lambda: attaches(client, "loud") == 8, "frames of both directions")
        assert {line[1] for line in lines(client, "@attach", "loud")} == {"trace"}
        assert lines(client, "process=core", "get-log")
        change(client, "DEFAULT", enable="info+")
        for peer in peers:  # each worker hears of it a moment later
            until(partial(silent, client, net, peer), "the end of the frames")
        for peer in peers:
            peer.receiver("quiet")
        net.round_trips(*peers)
        assert attaches(client, "quiet") == 0
        change(client, "PROTOCOL", enable="trace")
        peers[0].receiver("again")
        newcomer = net.peer()
        newcomer.receiver("again")
        until(lambda: attaches(client, "again") == 4, "frames of old and new connections")
        assert not lines(client, "get-log", "process=core again")


def test_one_connection(router: RunningRouter, client: Client) -> None:
    """Its frames only, whatever the log's level, until it is switched off."""
    with Net(router.address) as net:
        one, other = net.peer(), net.peer()
        number = int(one.connection.remote_properties["qd.conn-id"])
        connection = {"type": "connection", "identity": str(number)}
        told = client.call("UPDATE", {"enableProtocolTrace": "yes"}, **connection)
        assert told["enableProtocolTrace"] is True
        assert client.call("READ", **connection)["enableProtocolTrace"] is True
        one.receiver("traced")
        other.receiver("traced")
        until(lambda: attaches(client, "traced") == 2, "frames of one connection")
        assert all(line[2].startswith(f"[C{number}]:FRAME: ") for line in lines(client, "@attach", "traced"))
        assert f" PROTOCOL (trace) [C{number}]:FRAME: " in router.log
        client.call("UPDATE", {"enableProtocolTrace": False}, **connection)
        until(lambda: silent(client, net, one), "the end of the frames")  # the worker hears of it a moment later
        assert client.call("READ", **connection)["enableProtocolTrace"] is False
        with pytest.raises(RefusedError, match="neither true nor false"):
            client.call("UPDATE", {"enableProtocolTrace": "loud"}, **connection)


def test_another_file_and_the_source(router: RunningRouter, client: Client) -> None:
    """Of one module, in all processes, with the deprecated names of the attributes, too."""
    path = router.config.parent / "server.log"
    change(client, "SERVER", output=str(path), source=True, timestamp=False)
    with Net(router.address) as net:
        for _ in range(4):
            net.peer()
    until(lambda: path.read_text().count("closed process=worker") >= 4, "lines of both workers")
    assert all(line.startswith("SERVER (") and line.endswith(")") for line in path.read_text().splitlines())
    assert "(handler.py:" in path.read_text()
    with pytest.raises(RefusedError, match="there is no directory"):
        change(client, "SERVER", outputFile=str(router.config.parent / "none" / "log"))
    change(client, "SERVER", outputFile="stderr", includeSource=False, includeTimestamp=True)


@pytest.mark.parametrize("enable", ["loud", "info++", "5"])
def test_a_level_that_is_none(client: Client, enable: str) -> None:
    with pytest.raises(RefusedError, match="is no level; give trace, debug"):
        change(client, "AGENT", enable=enable)


def test_what_a_dead_process_said_last(tmp_path: Path) -> None:
    """It is told by its journal, and the supervisor tells how it died; its stack is on standard error."""
    router = RunningRouter(tmp_path, Configuration(router="workers: 1"))
    try:
        with Client(Place(router.url)) as client:
            number = next(client.query("connection"))["identity"]
        worker = int(re.findall(r"worker 0 serves pid=(\d+)", router.log)[0])
        resource.prlimit(worker, resource.RLIMIT_CORE, (0, 0))
        os.kill(worker, signal.SIGSEGV)
        until(lambda: router.log.count("worker 0 serves") == 2, "the next one")
        assert re.search(r"Fatal Python error: Segmentation fault\n[^$]*workers/main.py\"", router.log)
        with Client(Place(router.url)) as client:
            assert lines(client, f"[C{number}] connection from", "process=worker-0")
            (death,) = lines(client, "worker 0 died", f"pid={worker}", "how=SIGSEGV", "process=supervisor")
            assert death[:2] == ["SERVER", "error"]
    finally:
        router.kill()


def test_a_traced_connection_stays_so_over_the_death_of_the_core(tmp_path: Path) -> None:
    router = RunningRouter(tmp_path, Configuration(router="workers: 1"))
    try:
        with Net(router.address) as net:
            peer = net.peer()
            number = int(peer.connection.remote_properties["qd.conn-id"])
            connection = {"type": "connection", "identity": str(number)}
            with Client(Place(router.url)) as client:
                client.call("UPDATE", {"enableProtocolTrace": True}, **connection)
            os.kill(int(re.findall(r"core serves pid=(\d+)", router.log)[0]), signal.SIGKILL)
            until(lambda: router.log.count("core serves") == 2, "the next one")
            peer.receiver("later")
            with Client(Place(router.url)) as client:
                assert client.call("READ", **connection)["enableProtocolTrace"] is True
                until(lambda: attaches(client, "later") == 2, "its frames")
    finally:
        router.kill()


@needs_users
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_passwords_are_in_no_trace(mechanism: str, tmp_path: Path) -> None:
    sasl_users.make(tmp_path, alice="mellon-mellon")
    settings = f"workers: 1\n saslConfigDir: {tmp_path}\n saslConfigName: routerd"
    listener = "host: 127.0.0.1\n port: 0\n authenticatePeer: yes\n saslMechanisms: PLAIN SCRAM-SHA-256"
    router = RunningRouter(tmp_path, Configuration(settings, listener, "log {\n module: DEFAULT\n enable: trace+\n}"))
    try:
        credentials = Credentials(user="alice", password="mellon-mellon", mechanisms=mechanism)  # noqa: S106 - of this test
        assert attempt(router.url, credentials).opened
        until(lambda: "@sasl-outcome" in router.log, "trace")
        assert f"@sasl-init(65) [mechanism=:{mechanism}, initial-response=" in router.log.replace('"', "")
        assert "mellon" not in router.log
        assert "(hidden)" in router.log
    finally:
        router.kill()


def test_messages_are_logged_where_a_listener_wants_it(tmp_path: Path) -> None:
    """The parts it names, of each message that comes or goes there; also of one that comes in pieces."""
    listener = "host: 127.0.0.1\n port: 0\n maxFrameSize: 1024\n messageLoggingComponents: subject,app-properties"
    router = RunningRouter(tmp_path, Configuration(listener=listener))
    try:
        connection = BlockingConnection(router.url, timeout=LONG)
        receiver = connection.create_receiver("logged", credit=2)
        sender = connection.create_sender("logged")
        for number, body in enumerate(("short", "long" * 50_000)):
            sender.link.send(proton.Message(body, subject="news", properties={"number": number}))
            assert receiver.receive(timeout=LONG).body == body
            receiver.accept()
        connection.close()
        for number in range(2):
            for verb in ("Received", "Sent"):
                line = f'{verb} Message{{subject="news", app-properties={{"number"={number}}}}} on link'
                until(lambda line=line: line in router.log, line)  # type: ignore[misc]  # mypy has no lambda defaults
        router.stop()
    finally:
        router.kill()

"""AMQP clients on the plane of route tables: seed, keys, endpoints, tables pushed to a running router."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proton import Delivery, Message, symbol
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached, SendException

from routerd.cli.client import Client, Place, RefusedError, long_type
from tests.support.running import LONG, Configuration, RunningRouter, until

SEED = """newrt | start | rt-0928
rte | 2000 | logger:30311
mse | 1000 | 10 | forwarder:43086
mse | 1000,forwarder:43086 | 10 | app2:43086
mse | 1000 | -1 | app0:43086,app1:43086;logger:30311
mse | 3000 | -1 | %meid
newrt | end | 5
meid_map | start | m1
mme_ar | app0:43086 | gnb1
meid_map | end | 1
"""


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "seed.rt"
    path.write_text(SEED)
    return path


@pytest.fixture(scope="module")
def configuration(seed: Path) -> Configuration:
    table = f"routeTable {{\n name: ric\n seed: {seed}\n connect: no\n}}\n"
    guarded = "routeTable {\n name: guarded\n pushers: alice, bob\n}\n"
    return Configuration(sections=table + guarded)


@pytest.fixture(scope="module", autouse=True)
def seeded(router: RunningRouter) -> None:
    """The seed is in use."""
    until(lambda: router.core["tables_installed"] == 2, "the seed")


@pytest.fixture
def connection(router: RunningRouter) -> Iterator[BlockingConnection]:
    connection = BlockingConnection(router.url, timeout=LONG)
    yield connection
    connection.close()


@pytest.fixture
def client(router: RunningRouter) -> Iterator[Client]:
    with Client(Place(router.url, timeout=LONG)) as client:
        yield client


def tool(router: RunningRouter, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("routerd")), "table", *arguments, "--bus", router.url]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG)


def keyed(mt: int, sid: int | None = None, **more: Any) -> Message:
    properties: dict[str, Any] = {"rmr.mt": mt} | more
    if sid is not None:
        properties["rmr.sub-id"] = sid
    return Message(body=f"{mt}/{sid}", properties=properties)


def receiver(connection: BlockingConnection, endpoint: str) -> BlockingReceiver:
    return connection.create_receiver(f"ric/{endpoint}", credit=50)


def bodies(receiver: BlockingReceiver, count: int) -> list[Any]:
    found = []
    for _ in range(count):
        found.append(receiver.receive(timeout=LONG).body)
        receiver.accept()
    return found


class Sending:
    """Sends without waiting for outcomes: the same thread receives."""

    def __init__(self, connection: BlockingConnection) -> None:
        self.sender = connection.create_sender("ric")
        self.deliveries: list[Delivery] = []

    def send(self, message: Message) -> None:
        self.deliveries.append(self.sender.link.send(message))

    def states(self, connection: BlockingConnection) -> list[int]:
        connection.wait(lambda: all(one.settled for one in self.deliveries), timeout=LONG)
        return [int(one.remote_state) for one in self.deliveries]


def test_keys_groups_and_turns(connection: BlockingConnection) -> None:
    """By application properties and by annotations; one copy for each group, members in turn."""
    app0, app1 = receiver(connection, "app0:43086"), receiver(connection, "app1:43086")
    logger, forwarder = receiver(connection, "logger:30311"), receiver(connection, "forwarder:43086")
    app2 = receiver(connection, "app2:43086")
    sending = Sending(connection)
    sending.send(keyed(1000, 10))
    sending.send(keyed(1000, 10, **{"rmr.source": "forwarder:43086"}))
    sending.send(keyed(1000, 77))
    sending.send(Message(body="annotated", annotations={symbol("x-opt-rmr.mt"): 1000}))
    sending.send(keyed(3000, **{"rmr.meid": "gnb1"}))
    assert bodies(forwarder, 1) == bodies(app2, 1) == ["1000/10"]
    assert bodies(logger, 2) == ["1000/77", "annotated"]
    assert (bodies(app0, 2), bodies(app1, 1)) == (["1000/77", "3000/None"], ["annotated"])
    assert sending.states(connection) == [Delivery.ACCEPTED] * 5


def test_what_cannot_be_routed_is_said(router: RunningRouter, connection: BlockingConnection) -> None:
    """Released: nobody is there, no entry, no owner. Rejected, with the reason: no key, a reserved type."""
    before = router.core
    sender = connection.create_sender("ric")
    for message in (keyed(2000), keyed(4711, 1), keyed(3000, **{"rmr.meid": "gnb9"})):
        with pytest.raises(SendException) as released:
            sender.send(message, timeout=LONG)
        assert released.value.state == Delivery.RELEASED
    for message, condition in (
        (Message(body="x"), "routerd:no-route-key"),
        (Message(body="x", properties={"rmr.mt": "1000"}), "routerd:no-route-key"),
        (keyed(21), "routerd:reserved-message-type"),
    ):
        delivery = sender.link.send(message)
        connection.wait(lambda delivery=delivery: delivery.settled, timeout=LONG)
        assert delivery.remote_state == Delivery.REJECTED
        assert delivery.remote.condition is not None
        assert delivery.remote.condition.name == condition
        assert "whole number" in str(delivery.remote.condition.description) or condition != "routerd:no-route-key"
    names = ("keyed_no_endpoint", "keyed_no_entry", "keyed_no_owner", "keyed_refused")
    assert [router.core[name] - before[name] for name in names] == [1, 1, 1, 3]


def test_nobody_receives_from_the_table_itself(connection: BlockingConnection) -> None:
    with pytest.raises(LinkDetached, match="not-allowed"):
        connection.create_receiver("ric")


def test_a_bad_table_leaves_the_old_one(router: RunningRouter, tmp_path: Path) -> None:
    """And whoever pushed it is told why, with the line; a good one is in use when the command ends."""
    file = tmp_path / "new.rt"
    file.write_text("newrt|start|bad\nmse|5000|-1|nowhere\nnewrt|end|1\n")
    bad = tool(router, "push", str(file), "--table", "ric")
    assert bad.returncode == 1
    assert "line 2: endpoint 'nowhere' is not host:port" in bad.stderr
    told = r"Route table ric: table bad from.* refused, the former stays in use"
    until(lambda: re.search(told, router.log), "the log line")
    asked = tool(router, "ask", "--table", "ric", "--mt", "2000")
    assert asked.stdout.splitlines()[0].endswith("line 2, mse|2000|-1|logger:30311")
    file.write_text("updatert|start|up-1\nmse|5000|-1|other:1\nupdatert|end|1\n")
    good = tool(router, "push", str(file), "--table", "ric")
    assert (good.returncode, good.stdout) == (0, "ric: update up-1 in use (1 entry)\n")
    again = json.loads(tool(router, "push", str(file), "--table", "ric", "--json").stdout)
    assert again["outcomes"][0]["table_id"] == "up-1"
    assert tool(router, "ask", "--table", "ric", "--mt", "5000").returncode == 0


def test_who_and_management(router: RunningRouter, connection: BlockingConnection, client: Client) -> None:
    """Tables, entries and endpoints, with who is there and what they had."""
    receiver(connection, "app1:43086")
    [table] = [row for row in client.query("routeTable") if row["name"] == "ric"]
    assert table["mapId"] == "m1"
    assert table["meidCount"] == 1
    assert table["liveEndpointCount"] == 1
    entries = [row for row in client.query("routeTable.entry") if row["table"] == "ric"]
    assert [row["groups"] for row in entries if row["messageType"] == 2000] == ["logger:30311"]
    endpoints = {row["endpoint"]: row for row in client.query("routeTable.endpoint")}
    assert endpoints["app1:43086"]["live"]
    assert not endpoints["logger:30311"]["live"]
    shown = tool(router, "who", "--table", "ric")
    assert shown.returncode == 0, shown.stderr
    assert [line.split()[1:3] for line in shown.stdout.splitlines() if "app1" in line] == [["app1:43086", "live"]]
    found = json.loads(tool(router, "who", "--table", "ric", "--json").stdout)
    assert [row["live"] for row in found["endpoints"] if row["endpoint"] == "app1:43086"] == [True]
    asked = json.loads(tool(router, "ask", "--table", "ric", "--mt", "2000", "--json").stdout)
    assert asked["steps"][0].endswith("line 2, mse|2000|-1|logger:30311")


def test_only_pushers_may_push(client: Client) -> None:
    with pytest.raises(RefusedError, match="pushers of the route table 'guarded' do not include"):
        client.call("PUSH", {"text": SEED}, type="org.apache.qpid.dispatch.routeTable", name="guarded")


def test_a_changed_seed_is_read_again(router: RunningRouter, seed: Path) -> None:
    """On SIGHUP; a bad one leaves the table as it is."""
    before = router.core["tables_refused"]
    seed.write_text("newrt|start|cut\nmse|1|1|a:1\n")
    os.kill(router.process.pid, signal.SIGHUP)
    until(lambda: router.core["tables_refused"] == before + 1, "the bad seed")
    assert tool(router, "ask", "--table", "ric", "--mt", "2000").returncode == 0
    seed.write_text("newrt|start|again\nmse|6000|-1|app0:43086\nnewrt|end|1\n")
    os.kill(router.process.pid, signal.SIGHUP)
    until(lambda: "Route table ric: table again from" in router.log, "the new seed")
    assert tool(router, "ask", "--table", "ric", "--mt", "2000").returncode == 1


def test_a_long_table_comes_in_pieces(router: RunningRouter, tmp_path: Path, client: Client) -> None:
    """20,000 entries, several requests; in use as a whole."""
    rows = [f"mse|{1000 + at % 100}|{at // 100}|app{at % 7}:1,app{at % 5}:2" for at in range(20_000)]
    file = tmp_path / "long.rt"
    file.write_text("\n".join(["newrt|start|long", *rows, "newrt|end|20000", ""]))
    pushed = tool(router, "push", str(file), "--table", "ric")
    assert (pushed.returncode, pushed.stdout) == (0, "ric: table long in use (20000 entries)\n")
    asked = tool(router, "ask", "--table", "ric", "--mt", "1099", "--sid", "199")
    assert asked.returncode == 0, asked.stdout
    page = client.call(
        "QUERY",
        {"attributeNames": ["identity"]},
        type="org.amqp.management",
        name="self",
        entityType="org.apache.qpid.dispatch.routeTable.entry",
        offset=19_998,
        count=500,
    )
    assert json.loads(json.dumps(page["results"])) == [["ric/19998"], ["ric/19999"]]


def test_tables_are_made_changed_and_taken_away(client: Client, connection: BlockingConnection) -> None:
    """By management, while it runs: what is wrong is refused, and senders are told when theirs goes."""
    kind = {"type": long_type("routeTable"), "name": "made"}
    client.call("CREATE", {"address": "made.address", "connect": False}, **kind)
    with pytest.raises(RefusedError, match="address"):
        client.call("CREATE", {"address": "made.address"}, type=kind["type"], name="other")
    client.call("PUSH", {"text": "newrt|start|t\nmse|1000|-1|a:1,b:1\nnewrt|end|1\n"}, **kind)
    a = connection.create_receiver("made.address/a:1", credit=50)
    sender = connection.create_sender("made.address")
    sent = [sender.link.send(keyed(1000)) for _ in range(2)]
    assert bodies(a, 2) == ["1000/None"] * 2
    connection.wait(lambda: all(one.settled for one in sent), timeout=LONG)
    client.call("UPDATE", {"skipDead": False, "pushers": "alice"}, **kind)
    (row,) = [row for row in client.query("routeTable") if row["name"] == "made"]
    assert (row["skipDead"], row["tableId"], row["routedCount"]) == (False, "t", 2)
    sent = [sender.link.send(keyed(1000)) for _ in range(2)]
    assert bodies(a, 1) == ["1000/None"]
    connection.wait(lambda: all(one.settled for one in sent), timeout=LONG)
    assert sorted(int(one.remote_state) for one in sent) == [Delivery.ACCEPTED, Delivery.RELEASED]
    with pytest.raises(RefusedError, match="pushers"):
        client.call("PUSH", {"text": "newrt|start|u\nnewrt|end|0\n"}, **kind)
    with pytest.raises(RefusedError, match="address"):
        client.call("UPDATE", {"address": "elsewhere"}, **kind)
    client.call("DELETE", **kind)
    with pytest.raises(LinkDetached):
        connection.wait(lambda: False, timeout=LONG)
    assert "made" not in [row["name"] for row in client.query("routeTable")]

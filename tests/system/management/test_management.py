"""A running router asked and changed by ordinary clients of the management protocol, and by our own tool."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proton import ConnectionException, Message
from proton.utils import BlockingConnection

from routerd.cli.client import NODE, Client, Place, RefusedError
from tests.support.peer import ACCEPTED, MODIFIED, REJECTED, RELEASED, Net, is_closed, is_open
from tests.support.running import LONG, Configuration, RunningRouter, until
from tests.support.tool import tool

NAMES = ("$management", "_local/$management", "amqp:/_local/$management")


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """With one configured address."""
    return Configuration(sections="address {\n prefix: wide\n distribution: multicast\n name: wide\n}")


@pytest.fixture
def client(router: RunningRouter) -> Iterator[Client]:
    """A client of the router's agent."""
    with Client(Place(router.url)) as client:
        yield client


@pytest.mark.parametrize("name", [*NAMES, "_local/agent", None])
def test_the_agent_has_several_addresses(router: RunningRouter, name: str | None) -> None:
    """Of the router one is connected to, and of the router by its id."""
    address = name or f"_topo/0/{router.id}/$management"
    connection = BlockingConnection(router.url, timeout=LONG)
    receiver = connection.create_receiver(None, dynamic=True)
    request = Message(
        address=address if name is None else None,
        reply_to=receiver.remote_source.address,
        properties={"operation": "QUERY", "entityType": "org.apache.qpid.dispatch.router"} | NODE,
        body={"attributeNames": ["id"]},
    )
    connection.create_sender(None if name is None else address).send(request)
    reply = receiver.receive()
    assert reply.body == {"attributeNames": ["id"], "results": [[router.id]]}
    connection.close()


def test_what_clients_do_is_seen(router: RunningRouter, client: Client, net: Net) -> None:
    """Links with their counts, the address, the connection and its container."""
    receiver = net.peer().receiver("seen")
    net.peer().ready_sender("seen")
    container = receiver.connection.container
    rows = {(r["linkDir"], r["owningAddr"]): r for r in client.query("link") if "seen" in r.get("owningAddr", "")}
    assert set(rows) == {("in", "M0seen"), ("out", "M0seen")}
    assert rows["in", "M0seen"]["creditAvailable"] == 250
    (address,) = [r for r in client.query("router.address") if r["key"] == "M0seen"]
    assert (address["subscriberCount"], address["distribution"]) == (1, "balanced")
    connections = {r["container"]: r["identity"] for r in client.query("connection")}
    assert rows["out", "M0seen"]["connectionId"] == connections[container]


def test_answers_of_the_agent_are_no_traffic(client: Client) -> None:
    """They are settled, and there are many while somebody looks."""
    counts = [next(iter(client.query("router")))["presettledDeliveries"] for _ in range(3)]
    assert len(set(counts)) == 1


def test_counts_of_links(client: Client, net: Net) -> None:
    """Every outcome is counted on the links where it happened."""
    peer = net.peer()
    receiver, sender = peer.receiver("counted"), peer.ready_sender("counted")
    receiver.flow(10)
    for outcome in (ACCEPTED, ACCEPTED, REJECTED, RELEASED):
        delivery = net.send(sender, Message(body="x"))
        (arrived,) = peer.take(receiver)
        arrived.settle(outcome)
        assert net.settled(delivery) == [outcome]
    for row in client.query("link"):
        if row.get("owningAddr") == "M0counted":
            told = [row[f"{name}Count"] for name in ("delivery", "accepted", "rejected", "released", "presettled")]
            assert told == [4, 2, 1, 1, 0]


def test_counts_of_presettled_messages(client: Client, net: Net) -> None:
    """A receiver's are counted when they are sent, or dropped; its sender's when they come."""
    peer = net.peer()
    receiver, sender = peer.receiver("presettled"), peer.ready_sender("presettled")
    receiver.flow(10)

    def send(number: int) -> None:
        for _ in range(number):
            net.until(lambda: sender.credit > 0, "credit")
            net.send(sender, Message(body="x"), settled=True)

    send(20)
    peer.take(receiver, 10)
    time.sleep(0.1)  # a receiver that has no credit for a moment may still get them all
    send(280)
    names = ("delivery", "presettled", "droppedPresettled", "undelivered", "unsettled")

    def seen() -> dict[str, list[int]]:
        rows = [r for r in client.query("link") if r["owningAddr"] == "M0presettled"]
        return {r["linkDir"]: [r[f"{name}Count"] for name in names] for r in rows}

    net.until(lambda: seen()["in"] == [300, 300, 0, 0, 0], "the counts of the sender")
    sent, presettled, dropped, waiting, unsettled = seen()["out"]
    assert (sent, presettled, unsettled) == (10, 10 + dropped, 0)
    assert dropped > 0
    assert sent + dropped + waiting == 300


def test_what_waits_for_a_receiver(client: Client, net: Net) -> None:
    """Deliveries that it gives no credit for, and the credit it gives, stand at its link."""
    peer = net.peer()
    receiver, sender = peer.receiver("waiting"), peer.ready_sender("waiting")
    for _ in range(3):
        net.send(sender, Message(body="x"))

    def seen() -> tuple[int, int, int]:
        (row,) = [r for r in client.query("link") if (r["owningAddr"], r["linkDir"]) == ("M0waiting", "out")]
        return row["undeliveredCount"], row["unsettledCount"], row["creditAvailable"]

    net.until(lambda: seen() == (3, 0, 0), "what waits")
    receiver.flow(10)
    net.until(lambda: seen() == (0, 3, 7), "the delivery, and the credit that is left")


def test_a_link_is_detached(client: Client, net: Net) -> None:
    """UPDATE of adminStatus; its connection stays."""
    peer = net.peer()
    receiver = peer.receiver("cut.off")
    (row,) = [r for r in client.query("link") if r["owningAddr"] == "M0cut.off"]
    kind = "org.apache.qpid.dispatch.router.link"
    answer = client.call("UPDATE", {"adminStatus": "disabled"}, type=kind, identity=row["identity"])
    assert answer["operStatus"] == "down"
    net.until(lambda: receiver.remote_condition is not None, "the detach")
    assert receiver.remote_condition.name == "amqp:link:detach-forced"
    peer.receiver("cut.on")


def test_rules_change_at_run_time(client: Client) -> None:
    """An address is made multicast, and is what it was before when the rule is deleted."""
    made = client.call("CREATE", {"prefix": "late", "distribution": "closest"}, type="router.config.address", name="l")
    assert made["identity"]
    assert {r["name"] for r in client.query("address")} == {"wide", "l"}
    client.call("DELETE", type="org.apache.qpid.dispatch.router.config.address", name="l")
    assert [r["name"] for r in client.query("address")] == ["wide"]
    with pytest.raises(RefusedError, match="404"):
        client.call("DELETE", type="org.apache.qpid.dispatch.router.config.address", name="l")


def test_a_connection_is_closed(router: RunningRouter, client: Client) -> None:
    """Its client is told so, others are not."""
    victim = BlockingConnection(router.url, timeout=LONG)
    container = victim.container.container_id
    (row,) = [r for r in client.query("connection") if r["container"] == container]
    answer = client.call(
        "UPDATE", {"adminStatus": "deleted"}, type="org.apache.qpid.dispatch.connection", identity=row["identity"]
    )
    assert answer["operStatus"] == "closing"
    with pytest.raises(ConnectionException, match="forced"):
        victim.wait(lambda: False, timeout=LONG)
    until(lambda: container not in {r["container"] for r in client.query("connection")}, "the connection's end")
    ended = rf"\[C{row['identity']}\] connection of \S+ ended: amqp:connection:forced: .*closed by management"
    until(lambda: re.search(ended, router.log), "why, in the log")


def test_what_a_client_settled_before_it_read_the_close_counts(router: RunningRouter, client: Client, net: Net) -> None:
    """What it had besides is modified when it answers, or has not answered: it keeps nothing by its silence."""
    slow = net.peer()
    receiver = slow.receiver("slow", credit=3)
    sender = net.peer().ready_sender("slow")
    sent = [net.send(sender, Message(body=b"x")) for _ in range(3)]
    settled, *_ = slow.take(receiver, 3)
    (row,) = [r for r in client.query("connection") if r["container"] == slow.connection.container]
    kind = "org.apache.qpid.dispatch.connection"
    client.call("UPDATE", {"adminStatus": "deleted"}, type=kind, identity=row["identity"])
    net.until(lambda: is_closed(slow.connection), "CLOSE")
    slow.expect_error = True
    settled.settle()
    assert net.settled(*sent) == [ACCEPTED, MODIFIED, MODIFIED]
    until(lambda: row["identity"] not in {r["identity"] for r in client.query("connection")}, "the connection's end")


def test_pages_over_many_links(router: RunningRouter, client: Client, net: Net) -> None:
    """All links come once, in pages; a page that would be too long is refused, with what to ask instead."""
    peer = net.peer()
    links = [peer.begin_receiver(f"many.{i}") for i in range(1500)]
    net.until(lambda: all(map(is_open, links)), "the links")
    rows = [r["owningAddr"] for r in client.query("link", ["owningAddr"]) if r["owningAddr"].startswith("M0many.")]
    assert sorted(rows) == sorted(f"M0many.{i}" for i in range(1500))
    big = {"attributeNames": ["owningAddr"] * 63}
    with pytest.raises(RefusedError, match="offset and count") as refused:
        client.call("QUERY", big, **NODE, entityType="org.apache.qpid.dispatch.router.link")
    assert refused.value.status == 400


def test_what_makes_no_sense(router: RunningRouter, client: Client, net: Net) -> None:
    """Wrong types, unknown attributes, missing names, huge maps: the status says whose fault it is, the log
    who it was, a counter how many; everybody else is served."""
    address = {"type": "org.apache.qpid.dispatch.router.config.address"}
    huge: dict[Any, Any] = {f"attribute{i}": "x" * 50 for i in range(10_000)}
    wrong: list[tuple[int, str, dict[str, Any], Any]] = [
        (400, "QUERY", {"offset": "first"} | NODE, {}),
        (400, "QUERY", NODE, [1, 2]),
        (400, "CREATE", address, {"prefix": 7}),
        (400, "CREATE", address, {"prefix": "a", "colour": "red"}),
        (400, "CREATE", {"name": "nameless"}, {"prefix": "a"}),
        (404, "READ", address | {"name": "nobody"}, {}),
        (400, "READ", address | {"identity": {"a": 1}}, {}),
        (501, "NONSENSE", NODE, {}),
        (400, "CREATE", address, huge),
        (404, "QUERY", NODE, huge | {"attributeNames": list(huge)}),
        (404, "READ", address | {"name": "n" * 100_000}, {}),
        (501, "N" * 100_000, NODE, {}),
        (400, "CREATE", address, {i: i for i in range(10_000)}),
    ]
    before = router.core["refused_requests"]
    for status, operation, properties, body in wrong:
        with pytest.raises(RefusedError) as refused:
            client.call(operation, body, **properties)
        assert refused.value.status == status, (operation, properties)
        assert len(str(refused.value)) < 5000
    until(lambda: router.core["refused_requests"] == before + len(wrong), "the count")
    told = re.findall(r"AGENT \(error\) .* (?:by|of) 127\.0\.0\.1:\d+ refused: .*", router.log)
    assert len(told) >= len(wrong)
    assert max(map(len, told)) < 5000
    assert list(client.query("router"))
    net.peer().receiver("unimpressed")
    net.peer().ready_sender("unimpressed")


def test_nobody_waits_for_the_reply(router: RunningRouter, client: Client) -> None:
    """Requesters that go before they are answered, or never take an answer, leave nothing and stop nobody."""
    for _ in range(20):
        connection = BlockingConnection(router.url, timeout=LONG)
        receiver = connection.create_receiver(None, dynamic=True, credit=0)
        sender = connection.create_sender("$management")
        for _ in range(30):
            request = Message(reply_to=receiver.remote_source.address, properties={"operation": "GET-SCHEMA"} | NODE)
            sender.send(request)
        connection.close()
        assert list(client.query("router"))


def test_the_tool_shows_and_changes(router: RunningRouter) -> None:
    """routerd stat and routerd manage, as a user runs them."""
    shown = tool(router, "stat", "--workers")
    assert shown.returncode == 0, shown.stderr
    assert all(name in shown.stdout for name in ("supervisor", "core", "worker-0", "worker-1"))
    data = json.loads(tool(router, "stat", "--json").stdout)
    assert data[0]["id"] == router.id
    made = tool(router, "manage", "create", "--type", "address", "--name", "t", "pattern=tool.#", "priority=3")
    assert json.loads(made.stdout)["priority"] == 3
    assert tool(router, "manage", "delete", "--type", "address", "--name", "t").returncode == 0
    asked = tool(router, "manage", "query", "--type", "link", "linkNme", "linkName")
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "there is no attribute 'linkNme'; did you mean linkName?" in asked.stderr
    nowhere = tool(router, "stat", "--links", "--stuck", "--address", "nix")
    assert (nowhere.returncode, nowhere.stdout) == (0, "no links\n")
    assert nowhere.stderr == "no address in use is like 'nix'; `routerd stat --addresses` shows them all\n"
    for which in ("--connections", "--links", "--traffic"):
        gone = tool(router, "stat", which, "--connection", "9999")
        assert gone.stderr == "there is no connection 9999; `routerd stat --connections` shows them all\n"
    calm = tool(router, "stat", "--links", "--stuck", "--address", "$management")
    assert (calm.returncode, calm.stderr) == (0, "")
    again = tool(router, "manage", "delete", "--type", "address", "--name", "t")
    assert (again.returncode, again.stdout) == (1, "")
    assert "404" in again.stderr


class Screen:
    """A terminal of 24 lines by 80 columns with `routerd stat --watch` in it."""

    def __init__(self, router: RunningRouter, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        tool = str(Path(sys.executable).with_name("routerd"))
        # a test run in the background ignores SIGINT, and so would all that it starts
        heard = ["env", "--default-signal=INT"]
        command = [*heard, tool, "stat", "--bus", router.url, "--watch", "0.1", *arguments]
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")} | {"TERM": "xterm"}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)
        self.written = b""

    def shows(self, *words: str) -> list[str]:
        """Wait for a picture with all these in it; its lines, without what only moves the cursor."""

        def there() -> bool:
            if select.select([self.master], [], [], 0.1)[0]:
                self.written += os.read(self.master, 65536)
            return all(word in self.picture for word in words)

        until(there, f"a picture with {words}")
        return self.picture.splitlines()

    @property
    def picture(self) -> str:
        """The last one that is whole: each begins at the upper left corner."""
        pictures = self.written.decode(errors="replace").split("\x1b[H")
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", pictures[-2]) if len(pictures) > 2 else ""

    def end(self) -> int:
        """Ctrl-C; the exit status."""
        self.process.send_signal(signal.SIGINT)
        try:
            until(self._over, "its end")
        finally:
            self.process.kill()
            os.close(self.master)
        return self.process.wait()

    def _over(self) -> bool:
        """A process whose terminal nobody reads waits, and does not end."""
        over = self.process.poll() is not None
        with contextlib.suppress(OSError):  # the other end is closed
            while select.select([self.master], [], [], 0)[0] and (some := os.read(self.master, 65536)):
                self.written += some
        return over


def test_watching_in_a_terminal(router: RunningRouter, net: Net) -> None:
    """A full screen that changes by itself, within its width, and is gone after Ctrl-C."""
    long = "zz.name.of.an.address.that.is.longer.than.a.terminal.is.wide." * 3
    screen = Screen(router, "--links", "--sort", "address", "--reverse")
    try:
        before = screen.shows("address", "$management")
        assert not any("zz.name" in line for line in before)
        peer = net.peer(router.address)
        receiver = peer.receiver(long, credit=7)
        lines = screen.shows("zz.name.of", "…")
        assert max(map(len, lines)) <= 80
        assert len(lines) <= 24
        assert "zz.name" in lines[2], "the last name comes first"
        peer.close_link(receiver)
        until(lambda: not any("zz.name" in line for line in screen.shows("address")), "its end")
    finally:
        status = screen.end()
    assert status == 0
    assert screen.written.startswith(b"\x1b[?1049h")
    assert b"\x1b[?1049l" in screen.written


def test_a_router_that_is_not_there() -> None:
    """What is wrong and what to do, in one line."""
    command = [str(Path(sys.executable).with_name("routerd")), "stat", "--bus", "amqp://127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG)
    assert done.returncode == 1
    assert "is the router running?" in done.stderr

"""Three routers in a line, as users run them: what goes through one router goes through three."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message

from routerd.cli.client import Client, Place
from tests.support.peer import ACCEPTED, MODIFIED, REJECTED, RELEASED, Net, Peer
from tests.support.routers.network import NetworkRouter
from tests.support.running import address_of, until

MIB = 1 << 20


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NetworkRouter]]:
    """A, B and C; B dials A, and C dials B."""
    folder = tmp_path_factory.mktemp("line")
    routers: list[NetworkRouter] = []
    try:
        for name in "ABC":
            routers.append(NetworkRouter(folder / name, *[one.routers_url for one in routers[-1:]]))
        for router in routers:
            router.knows(*(other.id for other in routers if other is not router))
        yield routers
        for router in routers:
            router.come_to_rest()
        for router in routers:
            router.stop()
    finally:
        for router in routers:
            router.kill()


@pytest.fixture
def net(line: list[NetworkRouter]) -> Iterator[Net]:
    """Clients of any of them."""
    with Net(line[0].address) as net:
        yield net


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An address of the test's own."""
    return str(request.node.name).replace("[", ".").rstrip("]")


def at(net: Net, router: NetworkRouter) -> Peer:
    return net.peer(router.address)


@pytest.fixture
def ends(net: Net, line: list[NetworkRouter]) -> tuple[Peer, Peer]:
    """A client of A, and one of C."""
    return net.peer(line[0].address), net.peer(line[2].address)


@pytest.mark.parametrize("size", [10, 3 * MIB])
def test_the_state_of_a_transfer_is_there_with_its_message(
    net: Net, ends: tuple[Peer, Peer], name: str, size: int
) -> None:
    """Also with a long one, which goes over links of its own."""
    receiver = ends[1].receiver(name, credit=10)
    sender = ends[0].ready_sender(name)
    for number in range(2):
        said = sender.delivery(f"said-{number}")
        said.local.data = [b"x", number]
        said.update(0x29A)
        sender.stream(Message(body=b"x" * size).encode())
        sender.advance()
        (arrived,) = ends[1].take(receiver)
        assert (arrived.delivery.remote_state, arrived.delivery.remote.data) == (0x29A, [b"x", number])
        arrived.settle(ACCEPTED)
        assert net.settled(said) == [ACCEPTED]


@pytest.mark.parametrize("state", [ACCEPTED, REJECTED, RELEASED, MODIFIED])
def test_settlement_end_to_end(net: Net, ends: tuple[Peer, Peer], name: str, state: int) -> None:
    """The sender hears what its receiver says, and not before."""
    receiver = ends[1].receiver(name, credit=10)
    sent = net.send(ends[0].ready_sender(name), Message(body="hello"))
    (arrived,) = ends[1].take(receiver)
    assert arrived.body == "hello"
    assert not sent.settled
    arrived.settle(state)
    assert net.settled(sent) == [state]


@pytest.mark.parametrize("size", [10, 20_000])
@pytest.mark.parametrize("leaves", ["link", "session", "connection"])
def test_who_sends_presettled_and_leaves_has_lost_nothing(
    net: Net, ends: tuple[Peer, Peer], name: str, leaves: str, size: int
) -> None:
    """All in one breath: transfers, and the end behind them."""
    receiver = ends[1].receiver(name, credit=100)
    sender = ends[0].ready_sender(name)
    for number in range(100):
        net.send(sender, Message(id=number, body=b"x" * size), settled=True)
    {"link": sender, "session": sender.session, "connection": sender.connection}[leaves].close()
    arrived = ends[1].take(receiver, 100)
    assert [one.message.id for one in arrived] == list(range(100))


def test_presettled(net: Net, ends: tuple[Peer, Peer], name: str) -> None:
    """In order, and nobody waits for an outcome."""
    receiver = ends[1].receiver(name, credit=100)
    sender = ends[0].ready_sender(name)
    for number in range(100):
        net.send(sender, Message(body=number), settled=True)
    assert [got.body for got in ends[1].take(receiver, 100)] == list(range(100))


def test_what_routers_say_to_each_other_is_no_traffic(line: list[NetworkRouter]) -> None:
    """It is settled, and comes all the time."""
    before = line[1].core
    until(lambda: line[1].core["received"] >= before["received"] + 3, "what others say")
    assert line[1].core["presettled"] == before["presettled"]


def test_closest_stays_here(net: Net, ends: tuple[Peer, Peer], name: str) -> None:
    """As long as there is a receiver at the sender's own router."""
    far = ends[1].receiver(f"closest/{name}", credit=10)
    sender = ends[0].ready_sender(f"closest/{name}")
    near = ends[0].receiver(f"closest/{name}", credit=10)
    net.send(sender, Message(body=1), settled=True)
    assert ends[0].take(near)[0].body == 1
    ends[0].close_link(near)
    net.send(sender, Message(body=2), settled=True)
    assert ends[1].take(far)[0].body == 2


def test_balanced_is_shared(net: Net, ends: tuple[Peer, Peer], name: str) -> None:
    """A receiver here is as good as one two routers away, but for the cost."""
    far = ends[1].receiver(name, credit=50)
    sender = ends[0].ready_sender(name)
    near = ends[0].receiver(name, credit=50)
    sent = [net.send(sender, Message(body=number)) for number in range(20)]
    taken = ends[0].take(near, 11) + ends[1].take(far, 9)
    for got in taken:
        got.settle()
    assert sorted(got.body for got in taken) == list(range(20))
    assert net.settled(*sent) == [ACCEPTED] * 20


def test_multicast_reaches_everybody_once(net: Net, line: list[NetworkRouter], name: str) -> None:
    """At each router, and the sender hears the best of all outcomes."""
    peers = [net.peer(router.address) for router in line]
    receivers = [peer.receiver(f"multicast/{name}", credit=10) for peer in peers for _ in range(2)]
    for router in line:
        until(lambda router=router: _remotes(router, name) == 2, "two routers with receivers")
    sent = net.send(peers[0].ready_sender(f"multicast/{name}"), Message(body="hello"))
    for peer, receiver in zip([p for p in peers for _ in range(2)], receivers, strict=True):
        (got,) = peer.take(receiver)
        got.settle(ACCEPTED if peer is peers[2] else RELEASED)
    assert net.settled(sent) == [ACCEPTED]
    net.round_trips(*peers)
    assert not any(peer.inbox(receiver) for peer in peers for receiver in receivers if receiver.name in peer.inboxes)


def _remotes(router: NetworkRouter, name: str) -> int:
    with Client(Place(router.url)) as client:
        rows = list(client.query("router.address", ["name", "remoteCount"]))
    return sum(row.get("remoteCount", 0) for row in rows if row["name"].endswith(name))


def test_a_large_message(net: Net, ends: tuple[Peer, Peer], name: str) -> None:
    """Through all three, whole."""
    receiver = ends[1].receiver(name, credit=1)
    body = bytes(range(256)) * (5 * MIB // 256)
    sent = net.stream(ends[0].ready_sender(name), Message(body=body).encode())
    (got,) = ends[1].take(receiver)
    assert got.body == body
    got.settle()
    assert net.settled(sent) == [ACCEPTED]


def test_streams_hold_up_nobody(net: Net, ends: tuple[Peer, Peer], name: str) -> None:
    """Messages that never end leave the way free for others; an abort reaches the far end."""
    receivers = [ends[1].receiver(f"{name}.{i}", credit=1) for i in range(4)]
    senders = [ends[0].ready_sender(f"{name}.{i}") for i in range(4)]
    front = Message(body=b"x" * 300_000).encode()[:200_000]
    streams = [net.begin(sender, front) for sender in senders]
    for receiver in receivers:
        net.until(lambda r=receiver: sum(len(a.data) for a in ends[1].inbox(r)) >= 100_000, "a stream")
    other = ends[1].receiver(name, credit=1)
    net.send(ends[0].ready_sender(name), Message(body="short"), settled=True)
    assert ends[1].take(other)[0].body == "short"
    for stream in streams:
        stream.abort()
    for receiver in receivers:
        net.until(lambda r=receiver: ends[1].inbox(r)[0].aborted, "the abort")


def test_replies_to_dynamic_addresses(net: Net, ends: tuple[Peer, Peer], name: str) -> None:
    """A client at A is answered by one at C, which knows nothing but the reply-to."""
    requests = ends[1].receiver(name, credit=10)
    replies = ends[0].receiver(None, credit=10)
    reply_to = replies.remote_source.address
    net.send(ends[0].ready_sender(name), Message(body="how much", reply_to=reply_to), settled=True)
    (request,) = ends[1].take(requests)
    anonymous = ends[1].ready_sender(None)
    sent = net.send(anonymous, Message(address=request.message.reply_to, body="so much"))
    (reply,) = ends[0].take(replies)
    reply.settle()
    assert reply.body == "so much"
    assert net.settled(sent) == [ACCEPTED]


def test_the_far_router_is_managed(line: list[NetworkRouter]) -> None:
    """From A, by its name."""
    a, b, c = line
    rows = {row["id"]: row for row in a.stat("nodes", "--router", c.id)}
    assert rows[c.id]["nextHop"] == "(self)"
    assert (rows[a.id]["nextHop"], rows[a.id]["cost"]) == (b.id, 2)
    assert rows[b.id]["linkState"] == sorted([a.id, c.id])
    through = {row["id"]: row["validOrigins"] for row in a.stat("nodes", "--router", b.id)}
    assert (through[a.id], through[c.id]) == ([c.id], [a.id])
    assert time.time() - 3600 < rows[c.id]["lastTopoChange"] <= time.time() + 1
    assert a.stat("general", "--router", c.id)[0]["mode"] == "interior"


def test_a_connectors_cost_changes_at_both_ends(line: list[NetworkRouter]) -> None:
    """By a command, and back by a reload: the connection stays, and the far router's ways follow, too."""
    a, b, c = line
    port = address_of(a.routers_url)[1]

    def cost(router: NetworkRouter, far: NetworkRouter) -> int:
        with Client(Place(router.url)) as client:
            rows = client.query("router.node", ["id", "cost"])
            return next(row["cost"] for row in rows if row["id"] == far.id)

    def costs() -> list[int]:
        return [cost(one, far) for one, far in ((a, b), (b, a), (a, c), (c, a))]

    assert costs() == [1, 1, 2, 2]
    lost = [one.log.count("is lost") for one in line]
    tool = [Path(sys.executable).with_name("routerd"), "manage", "update", "--bus", b.url]
    change = [*tool, "--type", "connector", "--name", f"to-{port}", "cost=5"]
    subprocess.run(change, check=True, capture_output=True)
    until(lambda: costs() == [5, 5, 6, 6], "the new cost everywhere")
    os.kill(b.process.pid, signal.SIGHUP)
    until(lambda: costs() == [1, 1, 2, 2], "the cost of the file everywhere")
    assert [one.log.count("is lost") for one in line] == lost


def test_priorities_take_links_of_their_own(net: Net, line: list[NetworkRouter], name: str) -> None:
    """Each priority one, between all routers."""
    near, far = net.peer(line[0].address), net.peer(line[2].address)
    receiver = far.receiver(name, credit=100)
    sender = near.ready_sender(name)
    for priority in range(10):
        for _ in range(priority + 5):
            net.send(sender, Message(body="x", priority=priority), settled=True)
    far.take(receiver, sum(priority + 5 for priority in range(10)))
    rows = [row for row in line[1].stat("links") if row["linkType"] == "inter-router"]
    for direction in ("in", "out"):
        for priority in range(10):
            links = [r for r in rows if (r["linkDir"], r["priority"]) == (direction, priority)]
            assert max(row["deliveryCount"] for row in links) >= priority + 5


@pytest.mark.parametrize("annotations", ["map", "auto"])
def test_forms_of_annotations_that_differ_are_told(tmp_path: Path, annotations: str) -> None:
    """Routers that cannot read each other's messages say so, with the name of the connector."""
    expected = "do not hear|may come from routers only"
    far = NetworkRouter(tmp_path / "far", expected=expected)
    host, port = address_of(far.routers_url)
    terms = f"name: forced\n host: {host}\n port: {port}\n role: inter-router\n annotations: {annotations}"
    near = NetworkRouter(tmp_path / "near", more=f"connector {{\n {terms}\n}}\n", expected=expected)
    try:
        if annotations == "auto":
            near.knows(far.id)
        else:
            for router, over in ((near, "connector forced"), (far, "listener")):
                said = re.compile(rf"over {over}.*the two routers do not hear each other.*is `annotations` the same")
                until(lambda router=router, said=said: said.search(router.log), "a complaint")  # type: ignore[misc]  # mypy has no lambda defaults
        assert ("do not hear" in near.log) == (annotations == "map")
    finally:
        near.kill()
        far.kill()


def test_what_nobody_receives(net: Net, ends: tuple[Peer, Peer], name: str) -> None:
    """It is released, also if there was somebody before."""
    receiver = ends[1].receiver(name, credit=1)
    sender = ends[0].ready_sender(name)
    ends[1].close_link(receiver)
    assert net.settled(net.send(sender, Message(body=1))) == [RELEASED]

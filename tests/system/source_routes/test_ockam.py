"""Ockam nodes at listeners and connectors: messages with source routes over plain TCP, in both framings."""

import signal
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from proton import Message, symbol

from tests.model.ockam_framing import BEFORE, TODAY, Framing
from tests.support.clients.ockam_node import Node, said
from tests.support.peer import ACCEPTED, REJECTED, Net, error_of
from tests.support.routers.network import NetworkRouter
from tests.support.running import LONG, Configuration, RunningRouter, address_of, until

ONWARD, RETURN, TRACING = (symbol(f"x-opt-route.{name}") for name in ("onward", "return", "tracing"))
FRAMINGS = {"today": TODAY, "before": BEFORE}
PLACES = {"today": 1, "before": 2}  # of the listeners among the router's
MOST = 200_000


CONNECTOR = """
connector {{
 name: cloud
 host: 127.0.0.1
 port: {}
 protocol: ockam
 routeAddress: T13
 reach: alice
 maxMessageSize: 100000
}}
"""


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    listeners = "".join(
        f"listener {{\n name: {name}\n host: 127.0.0.1\n port: 0\n protocol: ockam\n framing: {framing}\n"
        f" routeAddress: {name}\n maxMessageSize: {most}\n reach: {name}.q, far.*, T13\n linkCapacity: 20\n"
        "}\n"
        for name, framing, most in (("today", "cbor", MOST), ("before", "bare", 65535))
    )
    return Configuration(
        router="workers: 2",
        sections=listeners
        + """
routeWorker {
 kind: forward
 address: hop
 trace: yes
 allow: local, uplink:today, uplink:before, worker:hop
}
routeWorker {
 kind: static
 address: loop
 route: loop
 allow: uplink:today, worker:loop
}
routeWorker {
 kind: forward
 address: closed
}
routeWorker {
 kind: discovery
 address: D1
 inner: D1.in
 route: T13=>F3
 format: bare
 innerAllow: uplink:cloud
}
""",
        expected="connector cloud: ",
    )


@pytest.fixture(scope="module")
def cloud(router: RunningRouter) -> Iterator[Node]:
    """What the router's connector leads to; it comes by a reload, and goes by another."""
    before = router.config.read_text()
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.settimeout(LONG)
        router.config.write_text(before + CONNECTOR.format(listening.getsockname()[1]))
        router.process.send_signal(signal.SIGHUP)
        with Node(listening.accept()[0], TODAY) as node:
            with Net(router.address) as net:
                net.peer().ready_sender("T13")  # the core knows of it
            yield node
            router.config.write_text(before)
            router.process.send_signal(signal.SIGHUP)
            assert node.closed()


@pytest.fixture(params=list(FRAMINGS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def framing(name: str) -> Framing:
    return FRAMINGS[name]


@pytest.fixture
def node(router: RunningRouter, name: str, framing: Framing) -> Iterator[Node]:
    """A node that connects to the router."""
    with Node.to(address_of(router.urls[PLACES[name]]), framing) as node:
        yield node


def answer(onward: list[str], returning: list[str], body: object = b"pong", **more: object) -> Message:
    made = Message(body=body, inferred=True, **more)
    made.annotations = {ONWARD: onward, RETURN: returning}
    return made


def test_there_and_back(net: Net, node: Node, name: str) -> None:
    """A node's message passes a worker and comes to an AMQP client, whose reply by one rule comes back."""
    peer = net.peer()
    receiver = peer.receiver(f"{name}.q", credit=1)
    node.send(f"hop=>{name}.q", "me=>1#far:4000", b"ping", "context")
    (arrived,) = peer.take(receiver)
    arrived.settle()
    there = arrived.message.annotations
    onward, back = list(there[ONWARD]), list(there[RETURN])
    assert (onward, bytes(arrived.message.body), there[TRACING]) == ([f"{name}.q"], b"ping", "context")
    assert (back[0], back[1].rpartition("/")[0], back[2]) == ("hop", name, "me")
    assert back[3] == [1, b"far:4000"]
    reply = answer(back, [f"{name}.q"])
    reply.annotations[TRACING] = "another"
    assert net.settled(net.send(peer.ready_sender(None), reply)) == [ACCEPTED]
    message = node.receive()
    assert said(message) == ("me=>1#far:4000", f"hop=>{name}.q", b"pong")
    assert message.tracing == "another"


def test_a_connector_is_an_address(net: Net, cloud: Node) -> None:
    """Messages to it leave there, without it; what comes back has it in front of its return route."""
    peer = net.peer()
    receiver = peer.receiver("alice", credit=1)
    delivery = net.send(
        peer.ready_sender(None), Message(body=b"hi", inferred=True, address="route:T13=>bob", reply_to="alice")
    )
    assert net.settled(delivery) == [ACCEPTED]
    assert said(cloud.receive()) == ("bob", "alice", b"hi")
    cloud.send("alice", "bob", b"yes")
    (arrived,) = peer.take(receiver)
    arrived.settle()
    assert list(arrived.message.annotations[RETURN]) == ["T13", "bob"]
    assert bytes(arrived.message.body) == b"yes"


def test_discovery_over_it(net: Net, cloud: Node) -> None:
    """A wrapped message leaves as the payload of another, and one that comes is opened: no cloud is seen."""
    peer = net.peer()
    receiver = peer.receiver("alice", credit=1)
    net.settled(net.send(peer.ready_sender(None), answer(["D1", "B2"], ["alice"], b"ping")))
    message = cloud.receive()
    assert said(message)[:2] == ("F3", "")
    assert message.payload.hex() == "01010002423201" + "0005616c6963650470696e67"
    cloud.send("D1.in", "T23=>F3", bytes.fromhex("01010005616c696365010002423204706f6e67"))
    (arrived,) = peer.take(receiver)
    arrived.settle()
    assert list(arrived.message.annotations[RETURN]) == ["D1", "B2"]
    assert bytes(arrived.message.body) == b"pong"


def test_from_node_to_node(node: Node, cloud: Node, name: str) -> None:
    """Through the router, which leaves its trace: by it a reply comes back."""
    node.send("T13=>bob", "me", b"through")
    message = cloud.receive()
    onward, back, payload = said(message)
    assert (onward, payload, back.partition("/")[0]) == ("bob", b"through", name)
    assert back.endswith("=>me")


@pytest.mark.parametrize("size", [0, 1, 500, 20_000, 60_000, 190_000])
def test_payloads_of_any_size(net: Net, node: Node, name: str, size: int) -> None:
    """There and back, octet for octet."""
    payload = bytes(i * 7 % 251 for i in range(min(size, node.framing.most - 100)))
    peer = net.peer()
    receiver = peer.receiver(f"{name}.q", credit=1)
    node.send(f"{name}.q", "me", payload)
    (arrived,) = peer.take(receiver)
    arrived.settle()
    assert bytes(arrived.message.body) == payload
    reply = answer(list(arrived.message.annotations[RETURN]), [], payload)
    assert net.settled(net.send(peer.ready_sender(None), reply)) == [ACCEPTED]
    assert said(node.receive()) == ("me", "", payload)


def test_frames_in_pieces_and_many_at_once(net: Net, node: Node, name: str) -> None:
    """As TCP cuts them."""
    peer = net.peer()
    receiver = peer.receiver(f"{name}.q", credit=250)
    sent = [b"%d" % i * (i % 40) for i in range(120)]
    octets = b"".join(node.framed(f"{name}.q", "me", payload) for payload in sent)
    for at in range(0, len(octets), 997):
        node.socket.sendall(octets[at : at + 997])
    for payload in sent:
        (one,) = peer.take(receiver)
        one.settle()
        assert bytes(one.message.body) == payload


REFUSED = [
    ("nowhere", "", "access"),  # neither a worker that allows it nor listed
    ("closed=>far.x", "", "access"),
    ("hop", "", "route"),
    ("=>".join(["hop"] * 33), "", "length"),
    ("hop=>" + "x" * 256, "", "length"),
]  # fmt: skip


@pytest.mark.parametrize(("onward", "returning", "reason"), REFUSED, ids=str)
def test_a_bad_route_is_counted_and_nothing_else_disturbed(
    router: RunningRouter, net: Net, node: Node, name: str, onward: str, returning: str, reason: str
) -> None:
    before = router.counted("ockam_refused"), router.counted(f"route_refused_{reason}")
    node.send(onward, returning)
    until(lambda: router.counted("ockam_refused") == before[0] + 1, "the count")
    until(lambda: router.counted(f"route_refused_{reason}") == before[1] + 1, f"the count of {reason}")
    works(net, node, name)


def test_a_loop_is_cut(router: RunningRouter, net: Net) -> None:
    with Node.to(address_of(router.urls[PLACES["today"]]), TODAY) as node:
        before = router.counted("route_refused_hops")
        node.send("loop=>x")
        until(lambda: router.counted("route_refused_hops") == before + 1, "the count")
        works(net, node, "today")


def test_a_heartbeat_leads_nowhere(router: RunningRouter, net: Net, node: Node, name: str) -> None:
    before = router.counted("ockam_heartbeats")
    node.send("", "")
    until(lambda: router.counted("ockam_heartbeats") == before + 1, "the count")
    works(net, node, name)


def works(net: Net, node: Node, name: str) -> None:
    peer = net.peer()
    receiver = peer.receiver(f"{name}.q", credit=1)
    node.send(f"{name}.q", "me", b"alive")
    (arrived,) = peer.take(receiver)
    arrived.settle()
    assert bytes(arrived.message.body) == b"alive"


GARBAGE = {
    "today": [
        "0000000584808040", "00000005848080407f", "000000068480804000f6", "00000004018080f6", "ffffffff",
        "0004000000",
        "0000000784819f0041614000", "000000098481821901004161804000", "00000003f6f6f6",
    ],
    "before": [
        "00040100000000", "00050100000000", "00020101", "0003810000", "000a0101ac02017a00000000", "0000",
        "000301ffff",
    ],
}  # fmt: skip
CASES = [(name, octets) for name, some in GARBAGE.items() for octets in some]


def malformed(router: RunningRouter) -> int:
    return router.counted("ockam_bad_frame") + router.counted("ockam_bad_length")


@pytest.mark.parametrize(("name", "octets"), CASES, ids=str)
def test_garbage_ends_its_connection_alone(router: RunningRouter, net: Net, name: str, octets: str) -> None:
    """Counted, told, and the others live on."""
    address, framing = address_of(router.urls[PLACES[name]]), FRAMINGS[name]
    before = malformed(router)
    with Node.to(address, framing) as other, Node.to(address, framing) as node:
        node.socket.sendall(bytes.fromhex(octets))
        node.socket.shutdown(socket.SHUT_WR)
        assert node.closed()
        until(lambda: f"connection of {node.name} ended: " in router.log, "the log")
        cut = f"connection of {node.name} ended: it ended inside a frame" in router.log
        until(lambda: malformed(router) == before + (not cut), "the count")
        works(net, other, name)


def test_another_version(router: RunningRouter) -> None:
    """The first octet of a connection tells it."""
    with closing(socket.create_connection(address_of(router.urls[1]), timeout=LONG)) as node:
        node.sendall(b"\x02\x00\x00\x00\x05")
        while node.recv(100):
            pass


def test_a_frame_that_is_too_long(router: RunningRouter) -> None:
    """Is known by its length: nothing of it is waited for, and no memory taken for it."""
    before = router.counted("ockam_bad_length")
    with Node.to(address_of(router.urls[1]), TODAY) as node:
        node.socket.sendall((MOST + 1).to_bytes(4, "big"))
        assert node.closed()
    until(lambda: router.counted("ockam_bad_length") == before + 1, "the count")


def test_a_slow_receiver_holds_its_node_up_and_nobody_else(net: Net, router: RunningRouter) -> None:
    """The socket fills; nothing is lost when the receiver goes on, and another connection never notices."""
    peer, number, address = net.peer(), 500, address_of(router.urls[1])
    receiver = peer.receiver("far.slow", credit=1)
    with Node.to(address, TODAY) as node, Node.to(address, TODAY) as other:
        frames = [node.framed("far.slow", "", b"%06d" % i + b"x" * 60_000) for i in range(number)]
        left = memoryview(b"".join(frames))
        node.socket.settimeout(1)
        with suppress(TimeoutError):
            while left:
                left = left[node.socket.send(left[: 1 << 20]) :]
        assert left, "credit and socket buffers hold a part of it"
        works(net, other, "today")
        receiver.flow(number)
        node.socket.setblocking(False)
        got = 0

        def more() -> bool:
            nonlocal left, got
            with suppress(BlockingIOError):
                left = left[node.socket.send(left[: 1 << 20]) :] if left else left
            inbox = peer.inboxes.get(receiver.name, [])
            while inbox and inbox[0].complete:
                one = inbox.pop(0)
                assert bytes(one.message.body)[:6] == b"%06d" % got
                one.settle()
                got += 1
            return got == number

        net.until(more, "all of them")


class Joined(NetworkRouter):
    """Another router, whose connector leads to the first one's listener."""

    def __init__(self, folder: Path, url: str) -> None:
        folder.mkdir()
        host, port = address_of(url)
        sections = (
            f"connector {{\n name: first\n host: {host}\n port: {port}\n protocol: ockam\n"
            " routeAddress: T\n}\n"
            "routeWorker {\n kind: discovery\n address: D2\n inner: D2.in\n route: T=>far.D1\n format: bare\n"
            " innerAllow: uplink:first\n}\n"
        )
        RunningRouter.__init__(self, folder, Configuration("workers: 1", sections=sections))


def test_two_routers_joined_by_it(net: Net, router: RunningRouter, tmp_path: Path) -> None:
    """There through a discovery worker, back by the return route, whoever accepted the connection."""
    joined = Joined(tmp_path / "joined", router.urls[1])
    try:
        mine, far = net.peer(), net.peer(joined.address)
        wrapped, end = mine.receiver("far.D1", credit=1), far.receiver("ann", credit=1)
        gone = net.send(far.ready_sender("D2"), answer(["D2", "bob"], ["ann"], b"ping"))
        (carried,) = mine.take(wrapped)
        carried.settle()
        assert net.settled(gone) == [ACCEPTED]
        back = list(carried.message.annotations[RETURN])
        inner = bytes(carried.message.body)
        assert (len(back), back[0].partition("/")[0], inner.hex()) == (
            1,
            "today",
            "01010003626f62010003616e6e0470696e67",
        )
        reply = bytes.fromhex("01010003616e6e010003626f6204706f6e67")
        assert net.settled(net.send(mine.ready_sender(None), answer([*back, "D2.in"], [], reply))) == [ACCEPTED]
        (arrived,) = far.take(end)
        arrived.settle()
        assert (list(arrived.message.annotations[RETURN]), bytes(arrived.message.body)) == (["D2", "bob"], b"pong")
        far.connection.close()  # what it has settled goes before
        net.until(lambda: far.closed, "the end of its connection")
    finally:
        joined.stop()


UNFIT = [
    (answer(["T13"], []), "its onward route ends at this connection"),
    (answer(["T13", "x"], [], "text"), "its body is no data"),
    (answer(["T13", "x"], [], b"x" * 100_000), "the message is longer"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "why"), UNFIT, ids=["end", "text", "long"])
def test_what_makes_no_frame_is_refused(net: Net, cloud: Node, router: RunningRouter, made: Message, why: str) -> None:
    """Its sender is told the reason."""
    before = router.counted("ockam_unfit")
    delivery = net.send(net.peer().ready_sender("T13"), made)
    assert net.settled(delivery) == [REJECTED]
    condition, text = error_of(delivery)
    assert (condition, (text or "")[: len(why)]) == ("amqp:not-implemented", why)
    until(lambda: router.counted("ockam_unfit") == before + 1, "the count")

"""A peer on a router connection that lies: it is logged once by its name, and harms nobody else."""

from collections.abc import Iterator
from typing import Any

import pytest
from proton import Message, symbol

from tests.support.clients.inter_router_links import open_inter_router
from tests.support.peer import ACCEPTED, REJECTED, Net, Peer
from tests.support.routers.members import Network, nodes
from tests.support.running import until

HELLO = "amqp:/_local/qdhello"
ALL = "amqp:/_topo/0/all/qdrouter"
TIMES = 5  # as often each lie is told


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """Two honest routers."""
    network = Network(tmp_path_factory.mktemp("network"))
    network.add("near")
    network.add("far", costs={"near": 1})
    try:
        network.start()
        yield network
    finally:
        network.end()


@pytest.fixture
def net(network: Network) -> Iterator[Net]:
    del network
    with Net(("", 0)) as net:
        yield net


class Liar:
    """A router as far as near can see, which has said who it is."""

    def __init__(self, net: Net, network: Network, name: str) -> None:
        self.net, self.name = net, name
        member = network["near"]
        self.peer: Peer = net.peer((member.inter_router_host, member.inter_router_port))
        self.control, self.data = open_inter_router(self.peer)
        net.until(lambda: self.control.credit > 0, "credit for what routers say")
        self.hello()

    def say(self, opcode: str, body: Any, to: str = ALL) -> None:
        message = Message(address=to, properties={"opcode": opcode}, body=body)
        self.net.send(self.control, message, settled=True)
        self.net.turn(0.01)

    def hello(self, **more: Any) -> None:
        body = {"id": self.name, "pv": 1, "area": "0", "instance": 1, "seen": ["near"]}
        self.say("HELLO", body | more, HELLO)


def lines(network: Network, text: str) -> list[str]:
    return [line for line in network["near"].log.splitlines() if text in line]


def said_once(network: Network, text: str) -> None:
    until(lambda: lines(network, text), f"{text!r} in the log")
    assert len(lines(network, text)) == 1


def unharmed(network: Network, net: Net) -> None:
    """The honest ones know each other, and messages flow."""
    assert any(row["id"] == "far" and row["cost"] == 1 for row in nodes(network["near"]))
    receiver_at, sender_at = net.peer(network["far"].address), net.peer(network["near"].address)
    receiver = receiver_at.receiver("closest.honest", 10)
    sender = sender_at.ready_sender("closest.honest")
    sent = net.send(sender, Message(body="!"))
    receiver_at.take(receiver)[0].settle()
    assert net.settled(sent) == [ACCEPTED]


def test_our_own_name(network: Network, net: Net) -> None:
    """Two routers of one name are critical; the one with the neighbour's name is not believed either."""
    liar = Liar(net, network, "near")
    for _ in range(TIMES):
        liar.hello()
    said_once(network, "near is the id of two routers")
    other = Liar(net, network, "far")
    for _ in range(TIMES):
        other.hello()
    said_once(network, "far is the id of two routers")
    unharmed(network, net)


LIES: dict[str, tuple[str, Any, str]] = {
    "sent LSU that is ignored: the cost of one of its peers": (
        "LSU",
        {"ls_seq": 9, "ls": {"id": "l1", "area": "0", "ls_seq": 9, "peers": {"far": -1}}},
        ALL,
    ),
    "sent RA that is ignored: its ls_seq is no number": ("RA", {"ls_seq": "many", "mobile_seq": 0}, ALL),
    "sent MAU that is ignored: its add contains an invalid address": (
        "MAU",
        {"mobile_seq": 1, "add": [17], "del": []},
        f"{ALL}.ma",
    ),
    "sent HELLO that is ignored: its seen is no list": ("HELLO", {"seen": "near"}, HELLO),
    "its opcode is unknown": ("LIE", {}, ALL),
}


def test_messages_that_no_router_should_send(network: Network, net: Net) -> None:
    """Each kind is logged once; the router stays a neighbour."""
    liar = Liar(net, network, "l1")
    until(lambda: net.turn(0.01) or lines(network, "neighbours are now far, l1"), "the new neighbour")
    base = {"id": "l1", "pv": 1, "area": "0", "instance": 1}
    for opcode, body, to in list(LIES.values()) * TIMES:
        liar.say(opcode, base | body, to)
    for text in LIES:
        said_once(network, text)
    assert all("l1" in line for text in LIES for line in lines(network, text))
    unharmed(network, net)


def test_numbers_that_jump(network: Network, net: Net) -> None:
    """Up, far up and down again: what was last said counts, and others are asked no more often."""
    liar = Liar(net, network, "l2")
    base = {"id": "l2", "pv": 1, "area": "0", "instance": 1}
    for number in (3, 2**62, 1, 2**62, 0):
        liar.say("RA", base | {"ls_seq": number, "mobile_seq": number})
        state = {"id": "l2", "area": "0", "ls_seq": number, "peers": {"near": 1}}
        liar.say("LSU", base | {"ls_seq": number, "ls": state})
        liar.say("MAU", base | {"mobile_seq": number, "add": ["M0lies"], "del": []}, f"{ALL}.ma")
    unharmed(network, net)


def test_a_trace_of_ten_thousand(network: Network, net: Net) -> None:
    """The message is rejected, and that is logged once."""
    liar = Liar(net, network, "l3")
    net.until(lambda: liar.data.credit > 0, "credit")
    trace = {symbol("x-opt-qd.trace"): [f"0/r{i}" for i in range(10_000)], symbol("x-opt-qd.ingress"): "0/r0"}
    message = Message(address="closest.honest", annotations=trace, body="!")
    sent = [net.send(liar.data, message) for _ in range(TIMES)]
    net.settled(*sent)
    assert {delivery.remote.condition.name for delivery in sent} == {"amqp:invalid-field"}
    said_once(network, "rejected")
    unharmed(network, net)


def test_annotations_that_are_cut_short(network: Network, net: Net) -> None:
    """A list that says to have more than it has, and a section that ends in the middle of its map."""
    liar = Liar(net, network, "l4")
    net.until(lambda: liar.data.credit > 0, "credit")
    trace = b"\xc0\x07\x09\xa1\x04" + b"0/r0"  # of nine one
    inside = b"\xa3\x0ex-opt-qd.trace" + trace
    whole = b"\x00\x53\x72\xc1" + bytes((len(inside) + 1, 2)) + inside
    body = Message(address="closest.honest", body="!").encode()
    sent = [net.send(liar.data, content) for content in (whole + body, whole[:-4]) for _ in range(TIMES)]
    assert net.settled(*sent) == [REJECTED] * (2 * TIMES)
    until(lambda: len(lines(network, "rejected")) > 1, "lines of both")
    kinds = [line.partition("rejected: ")[2] for line in lines(network, "rejected")]
    assert len(set(kinds)) == len(kinds)
    unharmed(network, net)

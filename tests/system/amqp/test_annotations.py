"""stripAnnotations of listeners: who sees what routers say of a message, and whose word counts."""

from typing import Any

import pytest
from proton import Described, Message, Sender, symbol, ubyte, ulong

from tests.support.clients.arrival import Arrived
from tests.support.clients.wire import encode
from tests.support.peer import ACCEPTED, REJECTED, Net, Peer, error_of
from tests.support.running import Configuration, RunningRouter, address_of, until

MODES = ("both", "no", "in", "out")
KEY = "x-opt-qd."
CAME = {symbol("mine"): "stays", symbol(f"{KEY}ingress"): "0/first", symbol(f"{KEY}trace"): ["0/first", "0/second"]}
BODY = encode(Described(ulong(0x77), "body"))
OURS = Described(ulong(0xFFFFFFFF00002000), [ubyte(0), None, "0/first", ["0/first"]])
SKUPPER = bytes.fromhex("0080534b50522d2d5241c014045201a1027131a103302f41c00601a103302f41")


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """A listener for each way; the first has none set."""
    others = "".join(f"listener {{\n host: 127.0.0.1\n port: 0\n stripAnnotations: {mode}\n}}\n" for mode in MODES[1:])
    return Configuration(sections=others + "address {\n prefix: multicast\n distribution: multicast\n}")


class Ends:
    """A sender on one kind of listener, a receiver on another."""

    def __init__(self, net: Net, router: RunningRouter, address: str, coming: str, going: str) -> None:
        self.net = net
        self.to: Peer = net.peer(address_of(router.urls[MODES.index(coming)]))
        self.at: Peer = net.peer(address_of(router.urls[MODES.index(going)]))
        self.receiver = self.at.receiver(address, 10)
        self.sender: Sender = self.to.ready_sender(address)

    def arrives(self, message: bytes | Message) -> Arrived:
        sent = self.net.send(self.sender, message)
        got = self.at.take(self.receiver)[0]
        got.settle()
        assert self.net.settled(sent) == [ACCEPTED]
        return got


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An address of the test's own."""
    return f"annotations.{request.node.name}"


def said(values: dict[Any, Any] | None) -> dict[str, Any]:
    """What routers have said, and what the user has."""
    return {str(key).removeprefix(KEY): value for key, value in (values or {}).items()}


@pytest.mark.parametrize("going", MODES)
@pytest.mark.parametrize("coming", MODES)
def test_who_is_believed_and_who_is_told(net: Net, router: RunningRouter, name: str, coming: str, going: str) -> None:
    """in and both: what comes is ignored; out and both: nothing is told. The user's own always stays."""
    ends = Ends(net, router, name, coming, going)
    me = f"0/{router.id}"
    told = {"ingress": me, "trace": [me]}
    if coming in ("no", "out"):
        told = {"ingress": "0/first", "trace": ["0/first", "0/second", me]}
    wanted = {"mine": "stays"} | (told if going in ("no", "in") else {})
    assert said(ends.arrives(Message(body=1, annotations=CAME)).message.annotations) == wanted
    plain = ends.arrives(Message(body=2)).message.annotations
    assert said(plain) == ({"ingress": me, "trace": [me]} if going in ("no", "in") else {})


def test_the_default_is_both(net: Net, router: RunningRouter, name: str) -> None:
    """Octet for octet, whatever the user's annotations look like."""
    ends = Ends(net, router, name, "both", "both")
    own = encode(Described(ulong(0x72), {symbol("mine"): "stays", symbol(f"{KEY}foo"): 1})) + BODY
    for message in (own, encode(Described(ulong(0x72), {})) + BODY, BODY):
        assert ends.arrives(message).data == message


def test_a_client_that_is_believed_names_another_address(net: Net, router: RunningRouter, name: str) -> None:
    """The override comes first where a message is routed by what it says, and is passed on."""
    receiver = net.peer(address_of(router.urls[1])).receiver(f"{name}.over", 1)
    sender = net.peer(address_of(router.urls[1])).ready_sender(None)
    message = Message(body=1, address=f"{name}.nowhere", annotations={symbol(f"{KEY}to"): f"{name}.over"})
    sent = net.send(sender, message)
    got = next(peer for peer in net.peers if receiver.name in peer.inboxes).take(receiver)[0]
    got.settle()
    assert net.settled(sent) == [ACCEPTED]
    assert said(got.message.annotations)["to"] == f"{name}.over"
    assert got.message.address == f"{name}.nowhere"


def test_a_sender_with_a_target_is_held_to_it(net: Net, router: RunningRouter, name: str) -> None:
    """Whatever its messages say: the policy has looked at the target alone."""
    elsewhere = net.peer().receiver(f"{name}.over", 1)
    ends = Ends(net, router, name, "no", "both")
    ends.arrives(Message(body=1, annotations={symbol(f"{KEY}to"): f"{name}.over"}))
    assert all(not peer.inbox(elsewhere) for peer in net.peers if elsewhere.name in peer.inboxes)


@pytest.mark.parametrize("mode", MODES)
def test_no_client_may_send_our_section(net: Net, router: RunningRouter, name: str, mode: str) -> None:
    """It is refused with a reason; the link goes on."""
    ends = Ends(net, router, name, mode, "both")
    sent = net.send(ends.sender, encode(OURS) + BODY)
    assert net.settled(sent) == [REJECTED]
    assert error_of(sent) == ("amqp:not-allowed", "router annotations may come from routers only")
    assert ends.arrives(BODY).data == BODY


@pytest.mark.parametrize("mode", MODES)
def test_the_section_of_another_router_goes_no_further(net: Net, router: RunningRouter, name: str, mode: str) -> None:
    ends = Ends(net, router, name, mode, "both")
    assert ends.arrives(SKUPPER + BODY).data == BODY


WRONG = {"to": 3.145, "trace": "stringy", "ingress": ["0/rA"]}


@pytest.mark.parametrize("key", WRONG)
def test_what_is_wrong_is_rejected_where_it_would_count(net: Net, router: RunningRouter, name: str, key: str) -> None:
    """amqp:invalid-field; from others it is ignored as all they say."""
    wrong = Message(body=1, annotations={symbol(f"{KEY}{key}"): WRONG[key]})
    believed, other = (Ends(net, router, f"{name}.{mode}", mode, "both") for mode in ("out", "in"))
    sent = net.send(believed.sender, wrong)
    assert net.settled(sent) == [REJECTED]
    assert error_of(sent)[0] == "amqp:invalid-field"
    assert error_of(sent)[1]
    assert not other.arrives(wrong).message.annotations


def test_annotations_that_arrive_octet_by_octet(net: Net, router: RunningRouter, name: str) -> None:
    """Nothing is forwarded before they are there; the body streams."""
    ends = Ends(net, router, name, "no", "no")
    front = encode(Described(ulong(0x72), CAME))
    sent = net.begin(ends.sender, front[:1])
    for octet in front[1:]:
        ends.to.round_trip()
        assert ends.at.inbox(ends.receiver) == []
        ends.sender.stream(bytes([octet]))
    long = encode(Described(ulong(0x75), b"x" * 300_000))
    ends.sender.stream(long[:-1])
    net.until(lambda: ends.at.inbox(ends.receiver), "first bytes")
    ends.sender.stream(long[-1:])
    ends.sender.advance()
    got = ends.at.take(ends.receiver)[0]
    got.settle()
    assert net.settled(sent) == [ACCEPTED]
    assert got.data.endswith(long)
    assert said(got.message.annotations)["trace"] == ["0/first", "0/second", f"0/{router.id}"]
    assert said(got.message.annotations)["stream"] == 1


def test_each_of_several_receivers_is_told_in_its_way(net: Net, router: RunningRouter, name: str) -> None:
    """Copies of one message, with annotations and without, also of one that is longer than a block."""
    address = f"multicast.{name}"
    sender = net.peer().sender(address)
    peers = [net.peer(address_of(url)) for url in router.urls]
    receivers = [peer.receiver(address, 5) for peer in peers]
    net.until(lambda: sender.credit > 0, "credit")
    for size in (10, 100_000):
        sent = net.send(sender, Message(body="x" * size, annotations={symbol("mine"): "stays"}))
        seen = {}
        for mode, peer, receiver in zip(MODES, peers, receivers, strict=True):
            got = peer.take(receiver)[0]
            assert len(got.message.body) == size
            seen[mode] = said(got.message.annotations)
            seen[mode].pop("stream", None)  # how much of a long one was there when it was sent on
            got.settle()
        assert net.settled(sent) == [ACCEPTED]
        me = f"0/{router.id}"
        with_trace = {"mine": "stays", "ingress": me, "trace": [me]}
        assert seen == {mode: with_trace if mode in ("no", "in") else {"mine": "stays"} for mode in MODES}


def test_the_management_agent_signs_too(net: Net, router: RunningRouter) -> None:
    """Its answers go through a router: this one."""
    peer = net.peer(address_of(router.urls[1]))
    answers = peer.receiver(None, 1)
    request = Message(
        properties={"operation": "GET-MGMT-NODES", "type": "org.amqp.management", "name": "self"},
        reply_to=answers.remote_source.address,
        correlation_id="1",
    )
    net.send(peer.ready_sender("$management"), request, settled=True)
    answer = peer.take(answers)[0].message
    assert answer.properties["statusCode"] == 200
    assert said(answer.annotations) == {"ingress": f"0/{router.id}", "trace": [f"0/{router.id}"]}


def test_a_peer_that_lies_is_told_of_once(net: Net, router: RunningRouter, name: str) -> None:
    """By its name and with what was wrong; the next ones of that kind are only counted."""
    ends = Ends(net, router, name, "no", "both")
    wrong = Message(body=1, annotations={symbol(f"{KEY}trace"): ["0/a", 12]})
    errors = router.counted("decode_errors")
    sent = [net.send(ends.sender, wrong) for _ in range(20)]
    assert net.settled(*sent) == [REJECTED] * 20
    until(lambda: router.counted("decode_errors") == errors + 20, "count of malformed messages")
    host, port = ends.to.socket.getsockname()[:2]
    what = f"message of {host}:{port} rejected: the trace has an entry that is no string"
    until(lambda: what in router.log, "the log line")
    assert router.log.count("the trace has an entry that is no string") == 1

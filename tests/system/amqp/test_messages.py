"""Messages pass through byte by byte, whatever their size and sections; what is no message is rejected."""

import hashlib
import random
from typing import Any

import pytest
from proton import Array, Described, Message, Receiver, Sender, symbol, ubyte, uint, ulong

from tests.support.clients.wire import encode
from tests.support.peer import ACCEPTED, CHUNK, CREDIT, REJECTED, Net, Peer, error_of
from tests.support.running import Configuration, RunningRouter, until

HEADER, DELIVERY, ANNOTATIONS, PROPERTIES, APPLICATION, DATA, SEQUENCE, VALUE, FOOTER = range(0x70, 0x79)


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(sections="address {\n prefix: multicast\n distribution: multicast\n}")


def section(code: int, value: Any) -> bytes:
    """A message section (AMQP 1.0 part 3.2)."""
    return encode(Described(ulong(code), value))


def properties(to: str | None, subject: str | None = None) -> bytes:
    """message-id, user-id, to, subject."""
    return section(PROPERTIES, [ulong(1), b"user", to, subject])


class Pair:
    """A sender and a receiver on one address, on connections of their own."""

    def __init__(self, net: Net, address: str, credit: int = 1000) -> None:
        self.net = net
        self.to: Peer = net.peer()
        self.at: Peer = net.peer()
        self.receiver: Receiver = self.at.receiver(address, credit)
        self.sender: Sender = self.to.ready_sender(address)

    def passes(self, *messages: bytes) -> None:
        """They arrive as they are, and are settled."""
        sent = [self.net.send(self.sender, message) for message in messages]
        arrived = self.at.take(self.receiver, len(messages))
        assert [bytes(got.data) for got in arrived] == list(messages)
        for got in arrived:
            got.settle()
        assert self.net.settled(*sent) == [ACCEPTED] * len(messages)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An address of the test's own."""
    return f"messages.{request.node.name}"


@pytest.fixture
def pair(net: Net, name: str) -> Pair:
    return Pair(net, name)


FRONT = [
    section(HEADER, [True, ubyte(7), uint(60_000), True, uint(3)]),
    section(DELIVERY, {symbol("x-opt-delivery"): 1, symbol("list"): [1, "zwei", None]}),
    section(ANNOTATIONS, {symbol("x-opt-key"): "value", symbol("x-opt-blob"): b"\0\1\2"}),
    section(PROPERTIES, ["id", b"user", "to", "subject", "reply", ulong(9), symbol("text/plain"), None]),
    section(APPLICATION, {"text": "größe", "number": -1, "float": 1.5, "bytes": b"\xff", "none": None}),
]
BODIES = {
    "data": section(DATA, b"some bytes"),
    "several data": section(DATA, b"some") + section(DATA, b"") + section(DATA, b"bytes" * 100),
    "sequence": section(SEQUENCE, [1, "two", [3], {"four": 5}]),
    "several sequences": section(SEQUENCE, [1]) + section(SEQUENCE, []),
    "null": section(VALUE, None),
    "map": section(VALUE, {"key": ["value", 1], "map": {"deep": True}}),
    "array": section(VALUE, Array(None, 0x0B, 1, 2, 3)),
    "described": section(VALUE, Described(symbol("my:type"), "value")),
}
END = section(FOOTER, {symbol("checksum"): b"1234"})
OPAQUE = {  # what a router need not understand
    "text": b"hello, world",
    "zeros": b"\0\0\0\0\0\0",
    "a section that does not exist": section(0x79, []),
    "an unknown descriptor": section(0x10, []) + BODIES["data"],
    "a symbolic descriptor of nothing": encode(Described(symbol("my:section"), [])),
    "long text": b"hello, world" * 10_000,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_every_section_passes_unchanged(pair: Pair, body: bytes) -> None:
    """Alone and together with all others."""
    pair.passes(body, *[front + body for front in FRONT], b"".join(FRONT) + body + END, body + END)


@pytest.mark.parametrize("body", OPAQUE.values(), ids=OPAQUE.keys())
def test_what_is_no_message_passes_unchanged(pair: Pair, body: bytes) -> None:
    """Alone, and behind sections that are some: other message formats are the receiver's business."""
    pair.passes(body, b"".join(FRONT[:4]) + body)


def test_long_descriptors_and_large_lists_pass_unchanged(pair: Pair) -> None:
    """Encodings that nobody would choose: ulong descriptors of eight bytes, list32 for a short list."""

    def long(code: int, value: bytes) -> bytes:
        return b"\x00\x80" + code.to_bytes(8, "big") + value

    empty, wide = b"\x45", b"\xd0\0\0\0\x05\0\0\0\x01\x40"
    pair.passes(*[long(HEADER, fields) + long(VALUE, b"\x40") for fields in (empty, wide)])
    pair.passes(*[long(PROPERTIES, fields) + long(DATA, b"\xb0\0\0\0\x01x") for fields in (empty, wide)])


def test_a_message_without_body_passes(pair: Pair) -> None:
    """Sections are optional to a router."""
    pair.passes(FRONT[0], FRONT[3], b"".join(FRONT))


def test_sections_by_name_are_those_sections(net: Net, pair: Pair, name: str) -> None:
    """Of an anonymous sender the properties named so say where to; the manager's request is understood; and a
    client gets router annotations past the router neither by number nor by name."""
    named = [symbol("amqp:header:list"), symbol("amqp:properties:list"), symbol("amqp:amqp-value:*")]
    header, properties, value = (encode(Described(one, [])) for one in named)
    to = encode(Described(named[1], [None, None, name]))
    sent = net.send(pair.to.ready_sender(None), header + to + encode(Described(named[2], "body")))
    (got,) = pair.at.take(pair.receiver)
    assert bytes(got.data) == header + to + encode(Described(named[2], "body"))
    got.settle()
    assert net.settled(sent) == [ACCEPTED]
    pair.passes(header + properties + value, properties + section(VALUE, "by number"))
    annotations = [ubyte(0), None, "0/elsewhere", ["0/elsewhere"]]
    for descriptor in (symbol("skupper:router-annotations"), ulong(0xFFFFFFFF00002000)):
        sent = net.send(pair.sender, encode(Described(descriptor, annotations)) + section(VALUE, "body"))
        assert net.settled(sent) == [REJECTED]
        assert error_of(sent)[0] == "amqp:not-allowed"
    answers = pair.at.receiver(f"{name}.answers", 1)
    asked = encode(Described(named[1], [ulong(7), None, "$management", None, f"{name}.answers"]))
    asked += encode(Described(symbol("amqp:application-properties:map"), {"operation": "GET-MGMT-NODES"}))
    net.send(pair.to.ready_sender("$management"), asked + encode(Described(named[2], {})))
    (answer,) = pair.at.take(answers)
    assert answer.message.properties["statusCode"] == 200
    answer.settle()


def test_every_size_around_the_block_sizes_passes(pair: Pair) -> None:
    """Off by one at the end of a block would show here."""
    for sizes in (range(200, 520), range(16_100, 16_420), range(32_500, 32_800, 3)):
        for start in range(sizes.start, sizes.stop, 50 * sizes.step):
            part = range(start, min(start + 50 * sizes.step, sizes.stop), sizes.step)
            pair.passes(*[section(DATA, random.Random(n).randbytes(n)) for n in part])  # noqa: S311 - content only


@pytest.mark.parametrize("size", [0, 1, 100, 10_000, 100_000, 1_000_000, 20_000_000])
def test_a_body_of_any_size_passes(pair: Pair, size: int) -> None:
    """Byte by byte."""
    message = b"".join(FRONT) + section(DATA, random.Random(size).randbytes(size)) + END  # noqa: S311 - content only
    sent = pair.net.stream(pair.sender, message)
    got = pair.at.take(pair.receiver)[0]
    assert hashlib.sha256(got.data).digest() == hashlib.sha256(message).digest()
    got.settle()
    assert pair.net.settled(sent) == [ACCEPTED]


def test_presettled_bodies_of_any_size_pass(pair: Pair) -> None:
    """Nobody settles them; their blocks come back all the same (the router insists at the end)."""
    for size in (0, 1000, 100_000, 3_000_000):
        pair.net.send(pair.sender, Message(body=b"x" * size), settled=True)
        assert len(pair.at.take(pair.receiver)[0].body) == size


def test_long_messages_of_many_links_pass_at_once(net: Net, name: str) -> None:
    """Each receiver gets its own."""
    to, at = net.peer(), net.peer()
    receivers = [at.receiver(f"{name}.{i}", 10) for i in range(20)]
    senders = [to.ready_sender(f"{name}.{i}") for i in range(20)]
    sent = [net.send(s, Message(body=bytes([i]) * 300_000)) for i, s in enumerate(senders) for _ in range(2)]
    for i, receiver in enumerate(receivers):
        for got in at.take(receiver, 2):
            assert got.body == bytes([i]) * 300_000
            got.settle()
    assert net.settled(*sent) == [ACCEPTED] * 40


def test_a_long_multicast_reaches_fast_and_slow_receivers(net: Net) -> None:
    """At the pace of the slowest, whose credit comes late."""
    peers = [net.peer() for _ in range(3)]
    receivers = [p.receiver("multicast.long", c) for p, c in zip(peers, (1, 1, 0), strict=True)]
    sender = net.peer().ready_sender("multicast.long")
    message = Message(body=b"x" * 3_000_000).encode()
    sent = net.send(sender, message)
    net.until(lambda: peers[0].inbox(receivers[0]), "first bytes")
    receivers[2].flow(1)
    for peer, receiver in zip(peers, receivers, strict=True):
        got = peer.take(receiver)[0]
        assert got.data == message
        got.settle()
    assert net.settled(sent) == [ACCEPTED]


# ---- what is no message ----

BROKEN = {
    "empty": b"",
    "half a descriptor": b"\0S",
    "a header that is a map": section(HEADER, {"a": 1}),
    "a header that is too short": b"\0Sp\xc0\x0a\x05",
    "a priority that is text": section(HEADER, [True, "high"]),
    "annotations that are a list": section(ANNOTATIONS, [1, 2]),
    "annotations that end early": FRONT[2][:-1],
    "properties that are a string": section(PROPERTIES, "to"),
    "a to that is a number": section(PROPERTIES, [None, None, ulong(5)]),
    "annotations before the header": FRONT[2] + FRONT[0] + BODIES["data"],
    "annotations in the wrong order": FRONT[2] + FRONT[1] + BODIES["data"],
    "two headers": FRONT[0] + FRONT[0] + BODIES["data"],
    "a field beyond the end of its list": b"\0Ss\xc0\x04\x03\x40\x40\xa1" + BODIES["data"],
    "long and out of order": section(ANNOTATIONS, {symbol("a"): b"x" * 40_000}) + FRONT[0],
}


@pytest.mark.parametrize("anonymous", [False, True], ids=["named", "anonymous"])
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_a_malformed_message_is_rejected(net: Net, pair: Pair, broken: bytes, anonymous: bool) -> None:
    """With an error that fits; connection, link and credit go on, and the receiver hears nothing."""
    sender = pair.to.ready_sender(None) if anonymous else pair.sender
    credit = sender.credit
    for _ in range(2):
        sent = net.send(sender, broken)
        assert net.settled(sent) == [REJECTED]
        known = broken == BROKEN["annotations that are a list"]
        assert error_of(sent)[0] == ("amqp:invalid-field" if known else "amqp:decode-error")
        assert error_of(sent)[1]
    pair.to.round_trip()
    assert credit - sender.credit <= 31  # it comes back in packets
    pair.passes(BODIES["data"])


def test_malformed_messages_cost_no_credit(net: Net, name: str) -> None:
    """A client that sends nothing else can go on doing so."""
    net.peer().receiver(name)
    sender = net.peer().ready_sender(name)
    for _ in range(4):
        net.until(lambda: sender.credit >= 200, "credit")
        sent = [net.send(sender, BROKEN["two headers"]) for _ in range(200)]
        assert net.settled(*sent) == [REJECTED] * 200
    assert sender.credit <= CREDIT


def test_presettled_malformed_messages_are_dropped_and_counted(net: Net, router: RunningRouter, pair: Pair) -> None:
    """There is nobody to tell."""
    errors = router.counted("decode_errors")
    for broken in BROKEN.values():
        net.send(pair.sender, broken, settled=True)
    pair.passes(BODIES["data"])
    until(lambda: router.counted("decode_errors") == errors + len(BROKEN), "count of malformed messages")


def test_a_malformed_beginning_is_rejected_before_the_end(net: Net, pair: Pair) -> None:
    """The router need not see the rest to know; what comes of it is discarded."""
    sent = net.begin(pair.sender, BROKEN["two headers"] * 100)
    net.until(lambda: sent.remote_state == REJECTED, "rejection")
    for _ in range(40):
        pair.sender.stream(b"x" * 100_000)
        net.turn(0)
    pair.sender.advance()
    assert net.settled(sent) == [REJECTED]
    pair.passes(BODIES["data"])


# ---- sections longer than a block ----


@pytest.mark.parametrize("size", [400, 600, 20_000, 100_000, 900_000])
@pytest.mark.parametrize("where", [DELIVERY, ANNOTATIONS])
def test_an_address_behind_long_annotations_is_found(net: Net, name: str, where: int, size: int) -> None:
    """In the second block, or far beyond it."""
    to, at = net.peer(), net.peer()
    receiver = at.receiver(name, 1)
    message = section(where, {symbol("blob"): b"x" * size}) + properties(name) + BODIES["data"]
    sent = net.send(to.ready_sender(None), message)
    got = at.take(receiver)[0]
    assert got.data == message
    got.settle()
    assert net.settled(sent) == [ACCEPTED]


def test_an_address_across_the_end_of_a_block_is_found(net: Net, name: str) -> None:
    """Wherever in it the end lies."""
    name = f"{name}.{'x' * 100}"
    to, at = net.peer(), net.peer()
    receiver = at.receiver(name, 1000)
    sender = to.ready_sender(None)
    for start in (150, 16_100, 32_450):
        sizes = range(start, start + 340, 7)
        blobs = [section(ANNOTATIONS, {symbol("blob"): b"x" * size}) for size in sizes]
        sent = [net.send(sender, blob + properties(name) + BODIES["data"]) for blob in blobs]
        arrived = at.take(receiver, len(sent))
        assert [got.data[: len(b)] for got, b in zip(arrived, blobs, strict=True)] == blobs
        for got in arrived:
            got.settle()
        assert net.settled(*sent) == [ACCEPTED] * len(sent)


def test_an_address_that_arrives_byte_by_byte_is_found(net: Net, name: str) -> None:
    """Nothing is forwarded before it is known."""
    to, at = net.peer(), net.peer()
    receiver = at.receiver(name, 1)
    sender = to.ready_sender(None)
    front = FRONT[0] + properties(name)
    delivery = net.begin(sender, front[:1])
    for byte in front[1:]:
        to.round_trip()
        assert at.inbox(receiver) == []
        sender.stream(bytes([byte]))
    sender.stream(BODIES["data"][:5])
    net.until(lambda: at.inbox(receiver), "first bytes")
    sender.stream(BODIES["data"][5:])
    sender.advance()
    got = at.take(receiver)[0]
    assert got.data == front + BODIES["data"]
    got.settle()
    assert net.settled(delivery) == [ACCEPTED]


def test_too_long_annotations_are_rejected(net: Net) -> None:
    """Beyond a mebibyte the router does not look for an address."""
    message = section(ANNOTATIONS, {symbol("blob"): b"x" * 2_000_000}) + properties("anywhere")
    sent = net.send(net.peer().ready_sender(None), message)
    assert net.settled(sent) == [REJECTED]
    assert error_of(sent)[0] == "amqp:decode-error"


# ---- streaming ----


def test_forwarding_begins_before_the_last_byte_was_sent(net: Net, pair: Pair) -> None:
    """And keeps step: what was sent has arrived while the sender still has more."""
    message = b"".join(FRONT) + section(DATA, b"x" * 1_000_000) + END
    inbox = pair.at.inbox(pair.receiver)
    sent = net.begin(pair.sender, message[:1000])
    for start in range(1000, len(message), 100_000):
        net.until(lambda: inbox and len(inbox[0].data) == start, "the bytes that were sent")  # noqa: B023 - waits here
        assert not inbox[0].complete
        pair.sender.stream(message[start : start + 100_000])
    pair.sender.advance()
    got = pair.at.take(pair.receiver)[0]
    assert got.data == message
    got.settle()
    assert net.settled(sent) == [ACCEPTED]


def test_a_stream_does_not_hold_up_other_links(net: Net, pair: Pair, name: str) -> None:
    """Of the same connections, while it waits for its sender."""
    sent = net.begin(pair.sender, Message(body=b"x" * 50_000).encode()[:-1])
    net.until(lambda: pair.at.inbox(pair.receiver), "first bytes")
    other = pair.at.receiver(f"{name}.other", 1)
    also = net.send(pair.to.ready_sender(f"{name}.other"), Message(body="other"))
    pair.at.take(other)[0].settle()
    assert net.settled(also) == [ACCEPTED]
    pair.sender.stream(b"x")
    pair.sender.advance()
    pair.at.take(pair.receiver)[0].settle()
    assert net.settled(sent) == [ACCEPTED]


def test_a_stream_to_a_receiver_without_credit_waits(net: Net, name: str) -> None:
    """Its sender is held back: the router keeps what the window of a connection's first session bounds, and no more."""
    pair = Pair(net, name, credit=0)
    session = pair.sender.session
    message = Message(body=b"").encode()[:-2] + b"\xb0" + (100_000_000).to_bytes(4, "big")
    sent = net.begin(pair.sender, message)
    taken, quiet = 0, 0
    while quiet < 20:
        quiet += 1
        if session.outgoing_bytes < CHUNK:
            pair.sender.stream(b"x" * CHUNK)
            taken, quiet = taken + CHUNK, 0
        pair.to.round_trip()
    assert taken < 70_000_000
    pair.receiver.flow(1)
    net.until(lambda: session.outgoing_bytes == 0, "the router's readiness for more")
    pair.sender.advance()
    got = pair.at.take(pair.receiver)[0]
    assert got.data == message + b"x" * taken
    got.settle()
    assert net.settled(sent) == [ACCEPTED]

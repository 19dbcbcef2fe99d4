"""A request as bytes of a peer: nothing that it claims is believed, and it goes on as it came."""

import pytest
from proton import Message, symbol

from core.amqp import codec as wire
from core.management import codec
from core.management.request import MOST_VALUES, REPLY_LIMIT, ManagementError, Request, Response, TooLongError
from tests.support.values.spelled import LONG_NAME, NAME, NUMBER, spelled

HEAD = "00537045005373c00b0640404040a10178a1013100"
HOLLOW = bytes.fromhex(  # an array that claims 37,890 elements and has 2
    HEAD + "5374d10000002500000006a1096f7065726174696f6ea1055155455259a10474790065a10174a10178a0017a"
    "005377d10000001900000002a10161f00000000d00009402710000000100000002"
)
DECIMAL_KEY = bytes.fromhex(
    HEAD + "5374d10000003100000004a1096f7065726174696f6ea1055155455259840474797065a1136f72672e616d71"
    "702e6d616e6167656d656e74005377d10700001500000002a10e6174747269627574654e616d657345"
)
FAR = "_topo/0/far/$management"


@pytest.mark.parametrize("content", [HOLLOW, DECIMAL_KEY], ids=["hollow array", "decimal key"])
def test_what_is_no_request_is_a_bad_one(content: bytes) -> None:
    """Whoever sent it is told; it never gets to where it would be passed on."""
    envelope, request = codec.decode(content)
    assert isinstance(request, ManagementError)
    assert (envelope.reply_to, envelope.correlation_id, request.status) == ("x", wire.string("1"), 400)


@pytest.mark.parametrize(
    "value",
    ["f00000000d00009402710000000100000002", "84747970653a13736f00", "73ffffffff", "0040a10161",
     "830000000000000001", "9800000000000000000000000000000000",
     "80ffffffffffffffff", "c0030201", "e0020945"],
)  # fmt: skip
@pytest.mark.parametrize("place", ["body", "properties"])
def test_values_that_no_request_has_are_told(value: str, place: str) -> None:
    """Of any type that AMQP has, and of none."""
    message = Message(reply_to="x", properties={"operation": "QUERY", "k": None}, body={"k": None})
    before, key, after = bytes(message.encode()).rpartition(b"\xa1\x01k")
    if place == "properties":
        before, key, rest = before.rpartition(b"\xa1\x01k")
        after = rest + b"\xa1\x01k" + after
    sections = before + key + bytes.fromhex(value) + after[1:]
    assert isinstance(codec.decode(sections)[1], ManagementError)  # the lengths are wrong now
    entries = [b"\xa1\x09operation", b"\xa1\x05QUERY", b"\xa1\x01k", bytes.fromhex(value)]
    octets = b"".join(entries if place == "properties" else entries[2:])
    size = (len(octets) + 1).to_bytes(1, "big")
    whole = bytes.fromhex("005373c00805404040 40a10178".replace(" ", ""))
    if place == "body":
        whole += bytes.fromhex("005374c11302a1096f7065726174696f6ea1055155455259")
    whole += b"\x00\x53" + (b"\x74" if place == "properties" else b"\x77")
    whole += b"\xc1" + size + bytes((4 if place == "properties" else 2,)) + octets
    envelope, request = codec.decode(whole)
    assert envelope.reply_to == "x"
    assert isinstance(request, ManagementError), request


def test_sections_are_few_and_in_order() -> None:
    """A section more than once ends the reading: 190,000 of them cost what two do."""
    many = b"\x00\x53\x75\xa0\x00" * 190_000 + b"\x00\xa3\x10amqp:data:binary\xa0\x00"
    with pytest.raises(codec.NoReplyError, match="each once and in order"):
        codec.decode(many)
    request = bytes(Message(reply_to="x", properties={"operation": "QUERY"}).encode())
    envelope, told = codec.decode(request + many)
    assert isinstance(told, ManagementError)
    assert (envelope.reply_to, "each once" in told.text) == ("x", True)


def test_a_request_has_as_many_values_as_an_answer() -> None:
    """One that has more is refused, and its sender told."""
    for number, right in ((MOST_VALUES - 100, True), (MOST_VALUES, False)):
        message = Message(reply_to="x", properties={"operation": "QUERY"}, body={"a": []})
        content = bytes(message.encode())
        items = b"\x40" * number
        items = b"\xd0" + (len(items) + 4).to_bytes(4, "big") + number.to_bytes(4, "big") + items
        body = (2).to_bytes(4, "big") + b"\xa1\x01a" + items
        content = content[: content.index(b"\x00\x53\x77")] + b"\x00\x53\x77\xd1" + len(body).to_bytes(4, "big") + body
        assert isinstance(codec.decode(content)[1], Request if right else ManagementError)


def test_an_answer_has_as_many_values_as_clients_can_read() -> None:
    """Their engine reads 65,535 of a body; octets are limited, too."""
    most = Response(200, {"a": [[None] * 1000] * 65 + [None] * (MOST_VALUES - 3 - 65 * 1001)})
    reply = Message()
    reply.decode(codec.encode(codec.Envelope("x"), most))
    assert reply.body == most.body
    most.body["a"].append(None)
    with pytest.raises(TooLongError):
        codec.encode(codec.Envelope("x"), most)
    with pytest.raises(TooLongError):
        codec.encode(codec.Envelope("x"), Response(200, "a" * REPLY_LIMIT))


@pytest.mark.parametrize("spelling", [NUMBER, NAME, LONG_NAME])
def test_what_is_passed_on_is_as_it_came(spelling: int) -> None:
    """All but whom it is to and the annotations, whatever its sections are called."""
    message = Message(address="a" * 300, reply_to="back", subject="s", properties={"operation": "READ", "type": "t"})
    message.correlation_id, message.body, message.durable = b"seven", {"a": [1, 2.5, symbol("b")]}, True
    message.annotations, message.instructions = {symbol("x-opt-a"): 1}, {symbol("x-opt-b"): 1}
    content = spelled(bytes(message.encode()), [spelling])
    message.address, message.annotations, message.instructions = FAR, None, None
    led = codec.led(content, FAR, "back")
    got = Message()
    got.decode(led)
    assert (got.address, got.reply_to, got.subject, got.durable) == (FAR, "back", "s", True)
    assert (got.properties, got.body) == (message.properties, message.body)
    assert bytes(got.correlation_id) == b"seven"
    assert not got.annotations
    assert not got.instructions
    assert codec.decode(led) == codec.decode(content)


def test_a_key_of_octets_is_passed_on() -> None:
    """Whether such a body means anything is for the other agent to say."""
    message = Message(reply_to="back", properties={"operation": "QUERY"}, body={b"key": ["value"]})
    content = bytes(message.encode())
    envelope, request = codec.decode(codec.led(content, FAR, "back"))
    assert (envelope, request) == codec.decode(content)
    assert isinstance(request, Request)
    assert request.body == {b"key": ["value"]}


def test_keys_that_are_equal_here_are_two_keys_of_amqp() -> None:
    """An int 1 and true; the same key twice is refused."""
    assert wire.Parser(bytes.fromhex("c106045401404140")).value() == {1: None}
    with pytest.raises(wire.WireError, match="the same key twice"):
        wire.Parser(bytes.fromhex("c1050441404140")).value()


def test_a_text_that_utf8_cannot_say_is_answered() -> None:
    """A lone surrogate, such as of an octet that was no UTF-8, is U+FFFD in the answer."""
    answer = codec.encode(codec.Envelope("x"), Response(200, {"a\udcff": ["\ud800b"]}, "c\udfff"))
    message = Message()
    message.decode(answer)
    assert message.body == {"a\ufffd": ["\ufffdb"]}
    assert message.properties == {"statusCode": 200, "statusDescription": "c\ufffd"}


def test_a_page_is_encoded_row_by_row() -> None:
    """The core may have the interpreter lock before each; the message is that of the whole page at once."""
    rows = [[f"name {i}", i, None, True, {"k": [i]}] for i in range(700)]
    body = {"attributeNames": ["name", "identity"], "results": rows}
    given: list[int] = []
    page = codec.encode(codec.Envelope("x"), Response(200, body), lambda: given.append(1))
    assert len(given) == len(rows) + 2
    assert page.endswith(wire.value(body))
    message = Message()
    message.decode(page)
    assert message.body == body


@pytest.mark.parametrize("body", [[0] * 65_534, {"results": [[None] * 9] * 6553, "x": 1}, {"a": {"b": {"c": [1]}}}])
def test_values_of_a_body_are_counted_wherever_they_are(body: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the engine counts them that decodes it: one more than may be is too many."""

    def count(thing: object) -> int:
        if isinstance(thing, dict):
            return 1 + sum(map(count, thing)) + sum(map(count, thing.values()))
        return 1 + sum(map(count, thing)) if isinstance(thing, list) else 1

    monkeypatch.setattr(codec, "MOST_VALUES", count(body))
    codec.encode(codec.Envelope("x"), Response(200, body))
    monkeypatch.setattr(codec, "MOST_VALUES", count(body) - 1)
    with pytest.raises(TooLongError):
        codec.encode(codec.Envelope("x"), Response(200, body))

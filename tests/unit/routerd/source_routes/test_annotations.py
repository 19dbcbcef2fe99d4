"""Routes in message annotations, in `to` and `reply-to`, and a whole message wrapped as AMQP."""

import pytest
from proton import Array, Data, symbol, ubyte
from proton import Message as AmqpMessage

from routerd.source_routes.address import Address
from tests.model.source_routes import wrapped
from tests.model.source_routes.annotations import HOPS, META, ONWARD, RETURN, STATE, from_annotations, to_annotations
from tests.model.source_routes.message import DEFAULT_LIMITS, State
from tests.model.source_routes.refusal import Reason, RefusedError
from tests.support.values.source_routing import m, r

AMQP_EXAMPLE = bytes.fromhex(
    "00537045005372d10000005e00000006a312782d6f70742d726f7574652e6f6e77617264d00000000c00000002a1024431"
    "a1024232a312782d6f70742d726f7574652e72657475726ed00000000800000001a1024131a310782d6f70742d726f7574"
    "652e686f70735000005373c007034040a1024431005375a00470696e67"
)


def test_the_example_of_annotations_that_an_engine_encoded() -> None:
    amqp = AmqpMessage()
    amqp.decode(AMQP_EXAMPLE)
    message = from_annotations(amqp.annotations, b"ping", amqp.address)
    assert message == m("D1 B2", "A1")
    assert to_annotations(message) == {ONWARD: ["D1", "B2"], RETURN: ["A1"], HOPS: 0, STATE: "complete"}


@pytest.mark.parametrize("form", ["list", "array"])
def test_annotations_through_an_engine(form: str) -> None:
    """Lists with addresses of other types, and arrays of strings, come through its encoder and decoder."""
    message = m("D1 B2", "A1")
    routes = ["D1", "B2"] if form == "list" else Array(None, Data.STRING, "D1", "B2")
    amqp = AmqpMessage(annotations={symbol(ONWARD): routes, symbol(RETURN): ["A1"]})
    read = AmqpMessage()
    read.decode(amqp.encode())
    assert from_annotations(read.annotations, b"ping") == message
    typed = m("64#D1 200#x", "1#h:1")
    values = {key: [[ubyte(e[0]), e[1]] for e in to_annotations(typed)[key]] for key in (ONWARD, RETURN)}
    amqp.annotations = {symbol(key): value for key, value in values.items()}
    read.decode(amqp.encode())
    assert from_annotations(read.annotations, b"ping") == typed


@pytest.mark.parametrize(
    ("given", "onward", "returning", "state"),
    [
        ({"to": "B2"}, "B2", "", State.NONE),
        ({"to": "B2", "reply_to": "A1"}, "B2", "A1", State.COMPLETE),
        ({"target": "B2"}, "B2", "", State.NONE),
        ({"to": "D1", "target": "B2"}, "D1", "", State.NONE),
        ({"to": "route:D1=>B2", "reply_to": "A1"}, "D1 B2", "A1", State.COMPLETE),
        ({"to": "route:64#D1 => B2"}, "64#D1 B2", "", State.NONE),
        ({"to": "B2", "reply_to": "route:D2=>A1"}, "B2", "D2 A1", State.COMPLETE),
        ({"to": "a=>b"}, "a=>b", "", State.NONE),
    ],
)
def test_a_client_that_knows_nothing_of_routes(
    given: dict[str, str], onward: str, returning: str, state: State
) -> None:
    message = from_annotations({}, b"", **given)
    expected = (Address(0, b"a=>b"),) if onward == "a=>b" else r(onward)
    assert (message.onward, message.returning, message.state) == (expected, r(returning), state)


@pytest.mark.parametrize(
    ("annotations", "reason", "why"),
    [
        ({}, Reason.EMPTY_ROUTE, "onward route is empty"),
        ({ONWARD: []}, Reason.EMPTY_ROUTE, "onward route is empty"),
        ({ONWARD: "D1"}, Reason.BAD_ANNOTATION, "is no list"),
        ({ONWARD: b"D1"}, Reason.BAD_ANNOTATION, "is no list"),
        ({ONWARD: 1}, Reason.BAD_ANNOTATION, "is no list"),
        ({ONWARD: [""]}, Reason.BAD_ANNOTATION, "empty address"),
        ({ONWARD: [1]}, Reason.BAD_ANNOTATION, "neither text nor"),
        ({ONWARD: [[256, b"x"]]}, Reason.BAD_ANNOTATION, "neither text nor"),
        ({ONWARD: [[True, b"x"]]}, Reason.BAD_ANNOTATION, "neither text nor"),
        ({ONWARD: [[1, "x"]]}, Reason.BAD_ANNOTATION, "neither text nor"),
        ({ONWARD: [[1, b"x", 2]]}, Reason.BAD_ANNOTATION, "neither text nor"),
        ({ONWARD: ["a"] * 33}, Reason.ONWARD, "33 addresses"),
        ({ONWARD: ["a"], RETURN: ["a"] * 65}, Reason.RETURN, "65 addresses"),
        ({ONWARD: ["a" * 256]}, Reason.ADDRESS_OCTETS, "256 octets"),
        ({ONWARD: ["a"], RETURN: ["a" * 255] * 17}, Reason.ROUTE_OCTETS, "4335 octets"),
        ({ONWARD: ["a"], HOPS: -1}, Reason.BAD_ANNOTATION, "hops is no number"),
        ({ONWARD: ["a"], HOPS: 200}, Reason.HOPS, "200 worker traversals"),
        ({ONWARD: ["a"], STATE: "fine"}, Reason.BAD_ANNOTATION, "none of complete"),
        ({ONWARD: ["a"], META: [1]}, Reason.BAD_ANNOTATION, "is no map"),
        ({ONWARD: ["a"], META: {1: 2}}, Reason.BAD_ANNOTATION, "no symbol"),
        ({ONWARD: ["a"], META: {"k": 1.5}}, Reason.BAD_ANNOTATION, "neither text"),
        ({ONWARD: ["a"], META: {"k": 1 << 63}}, Reason.BAD_ANNOTATION, "neither text"),
        ({ONWARD: ["a"], META: {"k": [[[[[[]]]]]]}}, Reason.BAD_ANNOTATION, "neither text"),
        ({ONWARD: ["a"], META: {str(n): 1 for n in range(17)}}, Reason.METADATA, "17 metadata keys"),
        ({ONWARD: ["a"], META: {"k": "x" * 1024}}, Reason.METADATA, "1025 octets"),
    ],
)
def test_annotations_that_are_refused(annotations: dict[str, object], reason: Reason, why: str) -> None:
    with pytest.raises(RefusedError, match=why) as refused:
        from_annotations(annotations, b"")
    assert refused.value.reason is reason


def test_a_message_wrapped_as_amqp_keeps_everything() -> None:
    meta = {"trace": ("A1", "B1"), "n": -5, "b": b"\x00" * 300, "yes": True, "no": False, "ü": "ü"}
    message = m("64#D1 B2", "A1")._replace(hops=3, nesting=2, state=State.PARTIAL, meta=meta)
    octets = wrapped.encode(message, "amqp")
    assert wrapped.decode(octets, "amqp", DEFAULT_LIMITS) == message
    engine = AmqpMessage()  # what another engine reads of it
    engine.decode(octets[: -len(message.payload)])
    assert from_annotations(engine.annotations, message.payload) == message


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        ("", "does not begin with message annotations"),
        ("005373c10100", "does not begin with message annotations"),
        ("005372c105", "cut short"),
        ("005372d1ffffffff", "are allowed"),
        ("005372c10102", "no AMQP"),
        ("005372c10100", "onward route is empty"),
    ],
)
def test_wrapped_amqp_that_is_refused(octets: str, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        wrapped.decode(bytes.fromhex(octets), "amqp", DEFAULT_LIMITS)

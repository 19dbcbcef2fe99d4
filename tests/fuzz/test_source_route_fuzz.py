"""Whatever octets arrive as a routed message: they are one or refused by name, in memory that they bound."""

import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model import ockam_cbor as cbor
from tests.model.ockam_framing import BEFORE, TODAY, Framing, Unframer, frame
from tests.model.source_routes import bare, wrapped
from tests.model.source_routes.annotations import from_annotations
from tests.model.source_routes.message import DEFAULT_LIMITS, Message, check_limits, new_message
from tests.model.source_routes.refusal import RefusedError
from tests.support.values.source_routing import VECTORS, m

Decode = Callable[[bytes], Message]
DECODERS: dict[str, Decode] = {
    "bare": bare.decode,
    "lenient": lambda octets: bare.decode(octets, DEFAULT_LIMITS._replace(lenient_tail=True)),
    "cbor": cbor.decode,
    "amqp": lambda octets: wrapped.decode(octets, "amqp", DEFAULT_LIMITS),
}
TYPICAL = m("D1 64#B2", "T23 F3 A1")._replace(meta={"trace": ("a", "b"), "k": 5})
VALID = {
    "bare": [bytes.fromhex(step["bare_hex"]) for case in VECTORS["route_cases"] for step in case["steps"][:1]],
    "lenient": [bytes.fromhex(vector["hex"]) for vector in VECTORS["rust_bare"]],
    "cbor": [cbor.encode(TYPICAL), cbor.encode(new_message((), (), b"", "{}"))],
    "amqp": [wrapped.encode(TYPICAL, "amqp"), wrapped.encode(m("a"), "amqp")],
}
FRAGMENTS = [
    *(bytes([octet]) for octet in (0, 1, 2, 0x7F, 0x80, 0xFF, 0x9B, 0x5B, 0x84, 0xC0, 0xD0, 0xE0, 0xF0, 0xB0)),
    b"\x80" * 9 + b"\x01",
    b"\xff" * 11,
    b"\xff\xff\xff\xff",
    b"\x00\x53\x72\xd1\x00\x00\xff\xff",
]


@st.composite
def mutated(draw: st.DrawFn, valid: list[bytes]) -> bytes:
    """Valid octets with up to five pieces cut out, put in or exchanged."""
    octets = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(octets)))
        end = min(len(octets), start + draw(st.integers(0, 8)))
        octets = octets[:start] + draw(st.sampled_from([b"", *FRAGMENTS])) + octets[end:]
    return octets


def outcome(decode: Decode, octets: bytes) -> Message | RefusedError:
    try:
        return decode(octets)
    except RefusedError as refused:
        return refused


def decodes_or_refuses(decode: Decode, octets: bytes) -> None:
    found = outcome(decode, octets)
    if isinstance(found, RefusedError):
        assert found.detail
        assert found.condition.startswith("amqp:")
        return
    check_limits(found, DEFAULT_LIMITS)
    assert len(found.payload) <= len(octets)


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_mutated_messages(name: str, data: st.DataObject) -> None:
    decodes_or_refuses(DECODERS[name], data.draw(mutated(VALID[name])))


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=100, deadline=None)
@given(octets=st.binary(max_size=300))
def test_random_octets(name: str, octets: bytes) -> None:
    decodes_or_refuses(DECODERS[name], octets)


@pytest.mark.parametrize("name", DECODERS)
def test_the_messages_that_are_mutated_are_valid(name: str) -> None:
    """Otherwise the fuzzing would not get past the first check."""
    for octets in VALID[name]:
        DECODERS[name](octets)


@pytest.mark.parametrize("framing", [TODAY, BEFORE], ids=lambda framing: str(framing.name))
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_connection_of_anything(framing: Framing, data: st.DataObject) -> None:
    good = framing.preamble + frame(m("a b", "c"), framing) * 3
    stream = data.draw(mutated([good]) | st.binary(max_size=100))
    unframer = Unframer(framing)
    with suppress(RefusedError):
        for octet in stream:
            for message in unframer.feed(bytes([octet])):
                check_limits(message, DEFAULT_LIMITS)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
KEYS = st.sampled_from([f"x-opt-route.{name}" for name in ("onward", "return", "hops", "state", "meta", "nesting")])


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYS | st.text(max_size=3) | st.integers(), VALUES, max_size=6), st.text(max_size=12))
def test_annotations_of_anything(annotations: dict[object, object], to: str) -> None:
    decodes_or_refuses(lambda octets: from_annotations(annotations, octets, to), b"")


HOSTILE = {
    "bare": [
        b"\x01" + b"\x80" * 9 + b"\x01",
        b"\x01\x01\x00" + b"\xff" * 9 + b"\x01",
        b"\x01\x20" + b"\x00\xff\x01" * 32,
        b"\x01\x00\x00" + b"\xff\xff\xff\xff\x0f",
    ],
    "cbor": [
        b"\x84\x9b" + b"\x7f" * 8,
        b"\x84\x80\x80\x5b" + b"\x7f" * 8,
        b"\x84\x98\x20" + b"\x82\x00\x5a\xff\xff\xff\xff" * 32,
        b"\x84" * 4000,
    ],
    "amqp": [
        b"\x00\x53\x72\xd1\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x00\x53\x72\xd1\x00\x00\x00\x04\xff\xff\xff\xff",
        b"\x00\x53\x72\xd1\x00\x00\x00\x10\x00\x00\x00\x02\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x44",
        b"\x00\x53\x72\xc1\xff\xff" + b"\xc0\xff\xff" * 100,
    ],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_announced_lengths_and_counts_allocate_nothing(name: str) -> None:
    """Each asks for gigabytes; each is refused within a few kilobytes."""
    for octets in HOSTILE[name]:
        with pytest.raises(RefusedError):  # once before measuring: what is loaded late is not counted
            DECODERS[name](octets)
        tracemalloc.start()
        try:
            with pytest.raises(RefusedError):
                DECODERS[name](octets)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 65_536 + 2 * len(octets)


def test_an_announced_frame_is_not_waited_for_in_memory() -> None:
    unframer = Unframer(TODAY)
    tracemalloc.start()
    try:
        assert list(unframer.feed(b"\x01\x00\xff\xff\xff" + b"x" * 1000)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 65_536

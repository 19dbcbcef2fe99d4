"""Encodings of routed messages: every vector both ways, and everything that must be refused."""

import pytest

from tests.model import ockam_cbor as cbor
from tests.model.ockam_framing import BEFORE, TODAY, Framing, Unframer, frame
from tests.model.source_routes import bare
from tests.model.source_routes.message import Message, new_message
from tests.model.source_routes.place import Limits
from tests.model.source_routes.refusal import Reason, RefusedError
from tests.support.values.source_routing import VECTORS, a, m, r

HELLO = m("B1", "A1", b"hello")
TCP = new_message(r("1#127.0.0.1:4000 printer"), r("1#127.0.0.1:3000"), b"hello")
TRACED = new_message(r("printer"), (), b"hello", '{"traceparent":"00-1234-01","tracestate":{}}')
FINAL = m("B2", "D2 A1")
INNER = m("B2", "A1")
LENIENT = Limits(lenient_tail=True)

# The messages of the vectors, and of those that only the tables of the facts have (B5, B10, B12).
BARE = {
    "B1_min": m("", "", b""),
    "B2_local": HELLO,
    "B3_scopes": m("A1 B1 C2 D2", "", b"hi"),
    "B4_tcp_printer": TCP,
    "B6_D1_out": m("T13 F3 B2", "A1"),
    "B8_final": FINAL,
    "B9_inner": INNER,
    "B11_type200": m("200#z", "", b""),
    "B13_utf8": m("naïve/ü", "", b"\x00\xff\x01"),
    "B14_v2_trace": TRACED,
    "B15_wrapped": m("T13 F3", "", bare.encode(INNER)),
}
CBOR = {
    "C_B1_min": BARE["B1_min"],
    "C_B2_local": HELLO,
    "C_B4_tcp_printer": TCP,
    "C_B8_final": FINAL,
    "C_B14_v2_trace": TRACED,
}
# Values inside payloads: what writes them.
PARTS = {
    "P1_index_wrap(1)": bare.uint(1) + bare.data(bare.encode(INNER)),
    "P2_confirm_wrap(1)": bare.uint(1) + bare.data(bare.encode(INNER)),
    "P3_confirm_payload(300)": bare.uint(300),
    "P4_stream_wrap": bare.string("stream_a") + bare.data(bare.encode(INNER)),
    "P6_protocol_binary": bare.string("binary") + bare.data(bare.data(b"ping")),
    "R1_route": bare.encode_route(r("T13 F3 B2")),
    "R2_addr": bare.encode_address(a("1#localhost:4000")),
    "MAP0": bare.mapping({}),
    "MAP1": bare.mapping({"a": b"x"}),
    "MAP2": bare.mapping({"trace": b"abc", "k": b"v"}),
}
WIRE = {vector["name"]: bytes.fromhex(vector["hex"]) for vector in VECTORS["wire_from_ockam_elixir"]}
STEPS = [(case["case"], step) for case in VECTORS["route_cases"] for step in case["steps"]]


def decoded(octets: bytes) -> Message:
    return bare.decode(octets)


def test_every_vector_is_used() -> None:
    assert set(WIRE) == {*BARE, *CBOR, *PARTS}


@pytest.mark.parametrize("name", BARE)
def test_bare_messages_both_ways(name: str) -> None:
    assert bare.encode(BARE[name]) == WIRE[name]
    assert decoded(WIRE[name]) == BARE[name]


@pytest.mark.parametrize("name", CBOR)
def test_frames_of_today_both_ways(name: str) -> None:
    assert frame(CBOR[name], TODAY) == WIRE[name]
    assert list(Unframer(TODAY).feed(b"\x01" + WIRE[name])) == [CBOR[name]]


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_payloads_are_written(name: str) -> None:
    assert PARTS[name] == WIRE[name]


def test_parts_of_payloads_are_read() -> None:
    index = bare.Reader(WIRE["P1_index_wrap(1)"])
    assert (index.uint(), decoded(index.data())) == (1, INNER)
    assert bare.Reader(WIRE["P3_confirm_payload(300)"]).uint() == 300
    stream = bare.Reader(WIRE["P4_stream_wrap"])
    assert (stream.string(), decoded(stream.data())) == ("stream_a", INNER)
    protocol = bare.Reader(WIRE["P6_protocol_binary"])
    assert (protocol.string(), bare.Reader(protocol.data()).data()) == ("binary", b"ping")
    assert bare.Reader(WIRE["R1_route"]).route() == r("T13 F3 B2")
    assert bare.Reader(WIRE["R2_addr"]).address() == a("1#localhost:4000")
    assert [bare.Reader(WIRE[name]).mapping() for name in ("MAP0", "MAP1", "MAP2")] == [
        {},
        {"a": b"x"},
        {"k": b"v", "trace": b"abc"},
    ]


@pytest.mark.parametrize(
    ("message", "octets"),
    [
        (
            new_message(r("2#127.0.0.1:4000 printer"), r("2#127.0.0.1:3000"), b"hello"),
            "0102020e3132372e302e302e313a3430303000077072696e74657201020e3132372e302e302e313a333030300568656c6c6f",
        ),
        (m("x" * 128, "", b"p"), "0101008001" + "78" * 128 + "000170"),
        (m("a", "", b"y" * 300), "010100016100ac02" + "79" * 300),
    ],
)
def test_longer_lengths_and_other_types(message: Message, octets: str) -> None:
    assert bare.encode(message).hex() == octets
    assert decoded(bytes.fromhex(octets)) == message


@pytest.mark.parametrize(("case", "step"), STEPS, ids=[f"{c}: {s['step']}" for c, s in STEPS])
def test_octets_of_every_step_of_the_examples(case: str, step: dict[str, object]) -> None:
    message = m(" ".join(step["onward"]), " ".join(step["return"]), bytes.fromhex(str(step["payload_hex"])))
    assert bare.encode(message).hex() == step["bare_hex"]
    assert decoded(bytes.fromhex(str(step["bare_hex"]))) == message


@pytest.mark.parametrize(("name", "context"), [("v2 no trace", None), ("v2 trace", TRACED.tracing)])
def test_version_2(name: str, context: str | None) -> None:
    octets = next(bytes.fromhex(v["hex"]) for v in VECTORS["version2"] if v["name"] == name)
    assert decoded(octets).tracing == context
    assert bare.encode(decoded(octets), version=2) == octets


def test_version_1_holds_no_context() -> None:
    with pytest.raises(ValueError, match="version 1 cannot hold this message"):
        bare.encode(TRACED, version=1)
    with pytest.raises(ValueError, match="version 3 cannot"):
        bare.encode(HELLO, version=3)


@pytest.mark.parametrize("vector", VECTORS["rust_bare"], ids=lambda vector: str(vector["name"]))
def test_another_implementation_ends_version_1_with_a_zero(vector: dict[str, str]) -> None:
    """It is read on request only; version 2 of that implementation needs no request."""
    octets = bytes.fromhex(vector["hex"])
    message = bare.decode(octets, LENIENT)
    assert bare.encode(message, version=octets[0]) == (octets[:-1] if octets[0] == 1 else octets)
    if octets[0] == 1:
        with pytest.raises(RefusedError, match="trailing"):
            bare.decode(octets)
        for tail in (b"\x01", b"\x00\x00"):
            with pytest.raises(RefusedError, match="trailing"):
                bare.decode(octets[:-1] + tail, LENIENT)


WORDS = {
    "empty": "it is empty",
    "version": "its version is",
    "trailing bytes": "trailing bytes",
    "short": "cut short",
    "non-minimal": "non-minimal",
    "address type": "address type is 300",
    "route too long": "a route is too long",
}
MORE_REJECTED = [
    ("02010002423101000241310568656c6c6f02", "begins with 2"),
    ("8100", "non-minimal"),
    ("01" + "ff" * 11, "more than 64 bits"),
    ("01" + "ff" * 9 + "02", "more than 64 bits"),
    ("010100ffffffffffffffffff01", "cut short"),
    ("0100", "cut short"),
    ("020000000101ff", "not UTF-8"),
]


@pytest.mark.parametrize("vector", VECTORS["rejected"], ids=lambda vector: str(vector["name"]))
def test_what_must_be_rejected(vector: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match=WORDS[vector["error"]]) as refused:
        bare.decode(bytes.fromhex(vector["hex"]))
    assert refused.value.reason in (Reason.BAD_ENCODING, Reason.ONWARD)


@pytest.mark.parametrize(("octets", "why"), MORE_REJECTED)
def test_what_else_must_be_rejected(octets: str, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        bare.decode(bytes.fromhex(octets))


@pytest.mark.parametrize(
    ("octets", "why"),
    [("02016100016100", "twice"), ("80808080808080808001", "entries"), ("010161", "entries|cut short")],
)
def test_maps_that_must_be_rejected(octets: str, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        bare.Reader(bytes.fromhex(octets)).mapping()


@pytest.mark.parametrize(
    ("number", "octets"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2097151, "ffff7f"),
        ((1 << 64) - 1, "ffffffffffffffffff01"),
    ],
)
def test_numbers(number: int, octets: str) -> None:
    assert bare.uint(number).hex() == octets
    assert bare.Reader(bytes.fromhex(octets)).uint() == number


@pytest.mark.parametrize("number", [-1, 1 << 64])
def test_numbers_that_do_not_fit(number: int) -> None:
    with pytest.raises(ValueError, match="no number of 64 bits"):
        bare.uint(number)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(onward=1), Reason.ONWARD),
        (Limits(returning=0), Reason.RETURN),
        (Limits(address_octets=2), Reason.ADDRESS_OCTETS),
        (Limits(route_octets=4), Reason.ROUTE_OCTETS),
    ],
)
@pytest.mark.parametrize("codec", [bare, cbor])
def test_limits_hold_while_decoding(codec: object, limits: Limits, reason: Reason) -> None:
    message = m("T13 F3", "A1")
    with pytest.raises(RefusedError) as refused:
        codec.decode(codec.encode(message), limits)
    assert refused.value.reason is reason


@pytest.mark.parametrize("codec", [bare, cbor])
def test_a_message_has_so_many_octets(codec: object) -> None:
    with pytest.raises(RefusedError) as refused:
        codec.decode(codec.encode(m("T13 F3", "A1")), most=10)
    assert refused.value.reason is Reason.MESSAGE_OCTETS


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        ("", "cut short"),
        ("808040f6", "0 elements"),
        ("85808040f6f6", "5 elements"),
        ("84808040f600", "trailing"),
        ("9804808040f6", "non-minimal"),
        ("9f808040f6ff", "no definite length"),
        ("848181008040f6", "1 elements"),
        ("84818219012c418040f6", "address type is 300"),
        ("84818200617a8040f6", "type 3 stands where type 2"),
        ("849bffffffffffffffff8040f6", "too long"),
        ("8480805bfffffffffffffffff6", "cut short"),
        ("8480804061ff", "not UTF-8"),
        ("84808040f5", "type 7"),
    ],
)
def test_cbor_that_must_be_rejected(octets: str, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        cbor.decode(bytes.fromhex(octets))


def test_a_cbor_message_of_three_elements_has_no_context() -> None:
    assert cbor.decode(bytes.fromhex("83808040")) == BARE["B1_min"]


def test_the_frame_of_the_specification_s_time() -> None:
    octets = bytes.fromhex("001101010002423101000241310568656c6c6f")
    assert frame(HELLO, BEFORE) == octets
    assert list(Unframer(BEFORE).feed(octets)) == [HELLO]


@pytest.mark.parametrize("framing", [TODAY, BEFORE], ids=lambda framing: str(framing.name))
def test_messages_arrive_in_pieces(framing: Framing) -> None:
    messages = [HELLO, FINAL, BARE["B1_min"], TRACED]
    stream = framing.preamble + b"".join(frame(one, framing) for one in messages)
    unframer = Unframer(framing)
    found = [one for octet in stream for one in unframer.feed(bytes([octet]))]
    assert found == messages
    unframer.end()
    assert list(unframer.feed(b"\x00")) == []
    with pytest.raises(RefusedError, match="1 octets into a frame"):
        unframer.end()


def test_frames_have_a_longest() -> None:
    with pytest.raises(RefusedError, match="BARE frames have 65535 at most"):
        frame(m("a", "", bytes(65_536)), BEFORE)
    with pytest.raises(RefusedError, match="16777217"):
        list(Unframer(TODAY).feed(b"\x01\x01\x00\x00\x01"))
    with pytest.raises(RefusedError, match="a frame of 11 octets"):
        list(Unframer(TODAY, most=10).feed(b"\x01\x00\x00\x00\x0b"))


def test_a_connection_of_another_version_is_refused() -> None:
    with pytest.raises(RefusedError, match="begins with 0x02"):
        list(Unframer(TODAY).feed(b"\x02"))

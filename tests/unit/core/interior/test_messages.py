"""Control messages as bytes: what is sent, and what comes back out of it."""

import pytest
from proton import Message

from core.amqp import codec as wire
from core.interior.advertisement import Advertisement
from core.interior.hello import Hello, greeting
from core.interior.linkstate import LinkStateRequest, LinkStateUpdate
from core.interior.message import ALL_MOBILE, BadMessageError, Fields, addressee, decode, encode, is_router
from core.interior.mobile import MobileRequest, MobileUpdate


def compound(code: str, *parts: str) -> str:
    """A list8 (c0) or map8 (c1) of values in hexadecimal: size, count, values."""
    octets = bytes.fromhex("".join(parts))
    return f"{code} {len(octets) + 1:02x} {len(parts):02x} {octets.hex()}"


def text(value: str) -> str:
    return f"a1 {len(value):02x} {value.encode().hex()}"


def envelope(to: str, opcode: str, *body: str) -> bytes:
    """What stands around every body, octet by octet (AMQP 1.0, part 3.2)."""
    return bytes.fromhex(
        "00 53 70 c0 02 01 42"
        f"00 53 73 {compound('c0', '40', '40', text(to))}"
        f"00 53 74 {compound('c1', text('opcode'), text(opcode))}"
        f"00 53 77 {compound('c1', *body)}"
    )


ID_A, AREA = "a1 02 6964", "a1 04 61726561"
HEAD = (ID_A, "a1 01 41", "a1 02 7076", "55 01", AREA, "a1 01 30")  # id "A", pv 1, area "0"
INSTANCE_FIELD = ("a1 08 696e7374616e6365", "81 00000000 6553f100")  # instance 1700000000
LS_SEQ = ("a1 06 6c735f736571", "55 03")
HELLO = envelope(
    "amqp:/_local/qdhello",
    "HELLO",
    *HEAD,
    *INSTANCE_FIELD,
    "a1 04 7365656e",  # seen
    "c0 07 02 a1 01 42 a1 01 43",  # ["B", "C"]
)
RA = envelope(
    "amqp:/_topo/0/all/qdrouter",
    "RA",
    *HEAD,
    *INSTANCE_FIELD,
    *LS_SEQ,
    "a1 0a 6d6f62696c655f736571",  # mobile_seq
    "55 7f",
)
LSR = envelope("amqp:/_topo/0/B/qdrouter", "LSR", *HEAD)
LS = compound(
    "c1",
    ID_A,
    "a1 01 41",
    AREA,
    "a1 01 30",
    *LS_SEQ,
    "a1 05 7065657273",  # peers
    "c1 06 02 a1 01 42 55 0a",  # {"B": 10}
)
LSU = envelope(
    "amqp:/_topo/0/B/qdrouter",
    "LSU",
    *HEAD,
    *INSTANCE_FIELD,
    *LS_SEQ,
    "a1 02 6c73",  # ls
    LS,
)
# Keys of these are symbols.
MOBILE_HEAD = ("a3 02 6964", "a1 01 41", "a3 02 7076", "55 01", "a3 04 61726561", "a1 01 30")
SKUPPER_HEAD = (*MOBILE_HEAD[:3], "55 02", *MOBILE_HEAD[4:])
MOBILE_SEQ = ("a3 0a 6d6f62696c655f736571", "55 05")
ADD, DEL, EXIST, HINTS = "a3 03 616464", "a3 03 64656c", "a3 05 6578697374", "a3 05 68696e7473"
MAR = envelope(
    "amqp:/_topo/0/B/qdrouter.ma",
    "MAR",
    *MOBILE_HEAD,
    "a3 08 686176655f736571",  # have_seq
    "55 04",
)
SKUPPER_MAR = envelope(
    "amqp:/_topo/0/B/qdrouter.ma",
    "MAR",
    *SKUPPER_HEAD,
    "a3 08 686176655f736571",  # have_seq
    "55 04",
)
MAU_CHANGES = envelope(
    "amqp:/_topo/0/all/qdrouter.ma",
    "MAU",
    *MOBILE_HEAD,
    *MOBILE_SEQ,
    HINTS,
    "c0 05 02 54 03 54 02",
    ADD,
    "c0 0b 02 a1 04 4d307131 a1 02 4865",  # ["M0q1", "He"]
    DEL,
    "c0 07 01 a1 04 4d307132",  # ["M0q2"]
)
MAU_ALL = envelope(
    "amqp:/_topo/0/B/qdrouter.ma",
    "MAU",
    *MOBILE_HEAD,
    *MOBILE_SEQ,
    EXIST,
    "c0 07 01 a1 04 4d307131",
    HINTS,
    "c0 03 01 54 03",
)
SKUPPER_CHANGES = envelope(
    "amqp:/_topo/0/all/qdrouter.ma",
    "MAU",
    *SKUPPER_HEAD,
    *MOBILE_SEQ,
    ADD,
    "c0 0d 01 c0 0a 03 a1 03 4d7131 54 03 54 00",  # [["Mq1", 3, 0]]
    DEL,
    "c0 09 01 c0 06 01 a1 03 4d7132",  # [["Mq2"]]
)
SKUPPER_ALL = envelope(
    "amqp:/_topo/0/B/qdrouter.ma",
    "MAU",
    *SKUPPER_HEAD,
    *MOBILE_SEQ,
    EXIST,
    "c0 0d 01 c0 0a 03 a1 03 4d7131 54 04 54 00",  # [["Mq1", 4 (unavailable), 0]]
)

INSTANCE = 1_700_000_000
TO_B = "amqp:/_topo/0/B/qdrouter.ma"
VECTORS = {
    "HELLO": (HELLO, greeting("A", INSTANCE, ["B", "C"])),
    "RA": (RA, Advertisement("A", INSTANCE, 3, 127).encode()),
    "LSR": (LSR, LinkStateRequest("A").encode("B")),
    "LSU": (LSU, LinkStateUpdate("A", INSTANCE, 3, {"B": 10}).encode("amqp:/_topo/0/B/qdrouter")),
    "MAR": (MAR, MobileRequest("A", 4).encode("B")),
    "MAR skupper": (SKUPPER_MAR, MobileRequest("A", 4, 2).encode("B")),
    "MAU": (MAU_CHANGES, MobileUpdate("A", 5, {"M0q1": 3, "He": 2}, ("M0q2",)).encode(ALL_MOBILE)),
    "MAU all": (MAU_ALL, MobileUpdate("A", 5, {"M0q1": 3}, absolute=True).encode(TO_B)),
    "MAU skupper": (
        SKUPPER_CHANGES,
        MobileUpdate("A", 5, {"M0q1": 3, "Cin": 4, "M1q1": 3}, ("M0q2", "M1q2"), version=2).encode(ALL_MOBILE),
    ),
    "MAU all skupper": (SKUPPER_ALL, MobileUpdate("A", 5, {"M0q1": 5}, absolute=True, version=2).encode(TO_B)),
}


@pytest.mark.parametrize("name", VECTORS)
def test_bytes_of(name: str) -> None:
    """Every octet stands where the other routers' composers put it."""
    expected, composed = VECTORS[name]
    assert composed == expected


@pytest.mark.parametrize("name", VECTORS)
def test_the_engine_reads_them(name: str) -> None:
    """Another decoder finds the same values."""
    content, _ = VECTORS[name]
    message = Message()
    message.decode(content)
    control = decode(content)
    assert message.address == control.to
    assert message.properties == {"opcode": control.opcode}
    assert message.body == control.body
    assert not message.durable


def fields(content: bytes) -> Fields:
    return Fields(decode(content).body)


def test_messages_read_what_they_write() -> None:
    """Each class reads its own bytes."""
    assert Hello.read(fields(HELLO)) == Hello("A", INSTANCE, frozenset({"B", "C"}))
    assert Advertisement.read(fields(RA)) == Advertisement("A", INSTANCE, 3, 127)
    assert LinkStateRequest.read(fields(LSR)) == LinkStateRequest("A")
    assert LinkStateUpdate.read(fields(LSU)) == LinkStateUpdate("A", INSTANCE, 3, {"B": 10})
    assert MobileRequest.read(fields(MAR)) == MobileRequest("A", 4)
    assert MobileUpdate.read(fields(MAU_CHANGES)) == MobileUpdate("A", 5, {"M0q1": 3, "He": 2}, ("M0q2",))
    assert MobileUpdate.read(fields(MAU_ALL)) == MobileUpdate("A", 5, {"M0q1": 3}, absolute=True)
    changes = MobileUpdate.read(fields(SKUPPER_CHANGES))
    assert changes == MobileUpdate("A", 5, {"M0q1": 3}, ("M0q2",), version=2)
    everything = MobileUpdate.read(fields(SKUPPER_ALL))
    assert everything == MobileUpdate("A", 5, {"M0q1": 5}, absolute=True, version=2)


def test_long_lists_take_the_long_form() -> None:
    """More than 255 octets or entries."""
    names = [f"router-{number}" for number in range(300)]
    assert Hello.read(fields(greeting("A", 1, names))).seen == frozenset(names)


def test_a_greeting_names_routers_only() -> None:
    """Whatever else a peer puts among those it has heard is passed over."""
    body = {"id": "A", "area": "0", "instance": 1, "pv": 1, "seen": ["B", 7, ["C"], "a/b", "", None]}
    assert Hello.read(Fields(body)).seen == {"B"}
    update = MobileUpdate("A", 1, {f"M0{number}": 3 for number in range(70_000)}, absolute=True)
    assert MobileUpdate.read(fields(update.encode(TO_B))) == update


def mau(**members: bytes) -> Fields:
    head = {"id": "A", "pv": 1, "mobile_seq": 1}
    return fields(encode(ALL_MOBILE, "MAU", head | {key: wire.Encoded(value) for key, value in members.items()}))


def strings(*values: str) -> bytes:
    return wire.sequence(map(wire.string, values))


def test_hints_that_are_not_as_many_are_no_hints() -> None:
    """The addresses count all the same."""
    hints = wire.sequence([wire.integer(3)])
    update = MobileUpdate.read(mau(exist=strings("M0a", "M0b"), hints=hints))
    assert update.present == {"M0a": -1, "M0b": -1}


def test_hints_that_are_no_treatments_are_unknown() -> None:
    """A number from later, or no number."""
    hints = wire.sequence([wire.integer(9), wire.string("closest"), wire.integer(2)])
    update = MobileUpdate.read(mau(exist=strings("M0a", "M0b", "M0c"), hints=hints))
    assert update.present == {"M0a": -1, "M0b": -1, "M0c": 2}


def test_addresses_of_other_classes_are_passed_over() -> None:
    """Nothing that is another router's own business."""
    update = MobileUpdate.read(mau(exist=strings("M0a", "Lb", "Tc", "", "M0", "Cd", "Ee", "Hf")))
    assert set(update.present) == {"M0a", "Cd", "Ee", "Hf"}


@pytest.mark.parametrize(
    "members",
    [
        {"exist": strings(), "add": strings()},
        {"exist": strings(), "del": strings()},
        {"add": strings()},
        {"del": strings()},
        {},
        {"exist": wire.string("M0a")},
        {"exist": wire.sequence([wire.long(1)])},
        {"add": strings(), "del": wire.sequence([wire.long(1)])},
        {"exist": strings("M0a"), "hints": wire.long(1)},
        {"pv": wire.long(2), "exist": strings("Ma")},
        {"pv": wire.long(2), "exist": wire.sequence([wire.sequence([])])},
        {"pv": wire.long(2), "add": wire.sequence([]), "del": strings("Ma")},
    ],
    ids=str,
)
def test_malformed_updates(members: dict[str, bytes]) -> None:
    """Both kinds at once, neither, or entries of the wrong type."""
    with pytest.raises(BadMessageError):
        MobileUpdate.read(mau(**members))


def lsr(body: bytes) -> bytes:
    return encode("x", "LSR", wire.Encoded(body))


def lsu(peers: bytes) -> bytes:
    state = {"id": "A", "ls_seq": 1, "peers": wire.Encoded(peers)}
    return encode("amqp:/_topo/0/B/qdrouter", "LSU", {"id": "A", "ls_seq": 1, "ls": state})


@pytest.mark.parametrize(
    "peers",
    [
        wire.value({"B": -1}),
        wire.value({"B": 0}),
        wire.value({"B": 2**31}),
        wire.value({"B": "1"}),
        wire.value({"B": True}),
        wire.value({"A": 1}),
        wire.value({"": 1}),
        wire.value({"a/b": 1}),
        wire.value({1: 1}),
        wire.value({f"R{number}": 1 for number in range(10_000)}),
        strings("B"),
    ],
    ids=["negative", "zero", "large", "text", "true", "itself", "empty", "slash", "number", "many", "list"],
)
def test_peers_that_cannot_be(peers: bytes) -> None:
    """A link state with one of them is no link state."""
    with pytest.raises(BadMessageError):
        LinkStateUpdate.read(fields(lsu(peers)))


def test_a_link_state_of_another_router_is_refused() -> None:
    body = {"id": "A", "ls_seq": 1, "ls": {"id": "C", "ls_seq": 1, "peers": {}}}
    with pytest.raises(BadMessageError, match="another router's"):
        LinkStateUpdate.read(fields(encode("amqp:/_topo/0/B/qdrouter", "LSU", body)))


@pytest.mark.parametrize("number", [wire.string("1"), b"\x41", wire.long(-1), b"\x40", b"\x72\x3f\x80\x00\x00"])
def test_numbers_are_whole_and_not_negative(number: bytes) -> None:
    """No text, no boolean, nothing below zero, no null, no float."""
    body = {"id": "A", "ls_seq": wire.Encoded(number), "mobile_seq": 0}
    with pytest.raises(BadMessageError, match="ls_seq"):
        Advertisement.read(fields(encode("x", "RA", body)))


@pytest.mark.parametrize(
    "number", ["50 07", "52 07", "53 07", "54 07", "55 07", "60 0007", "70 00000007", "80 0000000000000007"]
)
def test_numbers_may_have_any_width(number: str) -> None:
    """Others write what suits them."""
    body = {"id": wire.Encoded(wire.symbol("A")), "ls_seq": wire.Encoded(bytes.fromhex(number)), "mobile_seq": 0}
    assert Advertisement.read(fields(encode("x", "RA", body))).ls_seq == 7


def test_annotations_are_passed_over() -> None:
    """Whatever stands between header and properties, and fields that nobody knows."""
    ingress = wire.mapping([(wire.symbol("x-opt-qd.ingress"), wire.string("0/B"))])
    annotations = b"\x00\x53\x72" + ingress
    content = LSR[:7] + annotations + LSR[7:]
    assert decode(content) == decode(LSR)
    more = {"id": "A", "new": [wire.Encoded(b"\x98" + bytes(16)), None]}
    assert LinkStateRequest.read(fields(encode("x", "LSR", more))) == LinkStateRequest("A", 0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x40",
        LSR[:-1],
        LSR + b"\x00",
        LSR + LSR,
        LSR[7:] + LSR[:7],
        b"\x00\x53\x75\xa0\x01x",
        lsr(wire.string("A")),
        lsr(b"\x45"),
        lsr(bytes.fromhex("c1 05 02 a1 02 6964 a1")),
        lsr(bytes.fromhex("c1 0b 04 a1 01 61 40 a1 01 61 40")),
        lsr(bytes.fromhex("c1 02 01 40")),
        lsr(bytes.fromhex("c1 03 02 45 40")),
        lsr(bytes.fromhex("d1 00000005 7fffffff 40")),
        lsr(b"\x01"),
        lsr(b"\xa1\x01\xff"),
        lsr(b"\x56\x02"),
        lsr(b"\xf0\x00\x00\x00\x05\x7f\xff\xff\xff\x40"),
        lsr(b"\xe0\x05\x01\x00\x53\x01\x40"),
        lsr(b"\xc0\xff\x01" * 3000),
        lsr(b"\xd0\x00\x00\x40\x00\x00\x00\x00\x01" * 3000),
        lsr(b"\x00" * 3000),
    ],
    ids=range(22),
)
def test_bytes_that_are_no_control_message(content: bytes) -> None:
    """Each is refused, with a reason."""
    with pytest.raises(BadMessageError, match=r"\w"):
        decode(content)


def test_a_message_without_an_address_or_opcode_is_none() -> None:
    """Both are needed to know whom it is for."""
    body = b"\x00\x53\x77" + wire.value({})
    for content in (body, b"\x00\x53\x73\x45" + body, b"\x00\x53\x74\x40" + body):
        with pytest.raises(BadMessageError, match="no address or no opcode"):
            decode(content)


@pytest.mark.parametrize(
    ("to", "router"),
    [
        ("amqp:/_topo/0/B/qdrouter", "B"),
        ("_topo/0/B/qdrouter.ma", "B"),
        ("/_topo/0/all/qdrouter", "all"),
        ("amqp:/_local/qdhello", ""),
        ("_topo/0/B", ""),
        ("", ""),
    ],
)
def test_addressee(to: str, router: str) -> None:
    """In all spellings that are on the wire."""
    assert addressee(to) == router


def test_names_of_routers() -> None:
    """At most 127 characters, and nothing that an address would be cut at."""
    assert is_router("R" * 127)
    assert not any(map(is_router, ("", "R" * 128, "a/b", 1, None, b"R")))

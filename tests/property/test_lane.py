"""Frames and states of the data lane: each field in each of its forms."""

import ctypes
import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from proton import Data, Described, symbol, ulong
from proton import uint as proton_uint

from tests.model.lane import WRAP

ROOM = 1 << 14
NULL, LIST0, LIST8, LIST32 = b"\x40", b"\x45", b"\xc0", b"\xd0"
MALFORMED = "amqp:decode-error"


def tell(lane: ctypes.CDLL, frame: bytes) -> str:
    words = ctypes.create_string_buffer(ROOM)
    lane.tell(frame, ctypes.c_size_t(len(frame)), words, ctypes.c_size_t(ROOM))
    return words.value.decode()


# ---- frames: a field is its octets in one of its forms, and the words that the lane must find ----

Field = tuple[bytes, str]


def frame(code: int, items: list[bytes], payload: bytes = b"", *, wide: bool = False, extended: bool = False) -> bytes:
    """A frame with this performative: descriptor and list in their short or long forms, or with a longer head."""
    content = b"".join(items)
    long_list = wide or len(content) > 254
    head = struct.pack(">II", len(content) + 4, len(items)) if long_list else bytes((len(content) + 1, len(items)))
    body = b"\0" + (b"\x80" + struct.pack(">Q", code) if wide else bytes((0x53, code)))
    body += LIST0 if not items and not wide else (LIST32 if long_list else LIST8) + head + content
    rest = (b"\x03\0\0\x09more" if extended else b"\x02\0\0\x09") + body + payload
    return struct.pack(">I", len(rest) + 4) + rest


def uint(name: str) -> st.SearchStrategy[Field]:
    def of(number: int) -> list[Field]:
        forms = [b"\x70" + struct.pack(">I", number)]
        forms += [b"\x52" + struct.pack("B", number)] if number < 256 else []
        forms += [b"\x43"] if number == 0 else []
        return [(form, f" {name}={number}") for form in forms]

    numbers = st.one_of(st.integers(0, 300), st.integers(0, WRAP - 1), st.sampled_from((0, 2**31, WRAP - 1)))
    return numbers.flatmap(lambda number: st.sampled_from(of(number)))


def truth(say: Callable[[bool], str]) -> st.SearchStrategy[Field]:
    forms = [(b"\x41", True), (b"\x56\x01", True), (b"\x42", False), (b"\x56\x00", False)]
    return st.sampled_from([(octets, say(value)) for octets, value in forms])


def flag(name: str) -> st.SearchStrategy[Field]:
    return optional(truth(lambda value: f" {name}" if value else ""))


def optional(of: st.SearchStrategy[Field]) -> st.SearchStrategy[Field]:
    return st.one_of(st.just((NULL, "")), of)


def unsaid(of: st.SearchStrategy[Field]) -> st.SearchStrategy[Field]:
    """A field that must be what it is, of which nobody wants to know more."""
    return of.map(lambda field: (field[0], ""))


def octets(name: str, code: int, most: int) -> st.SearchStrategy[Field]:
    def of(content: bytes) -> list[Field]:
        forms = [bytes((code | 0x10,)) + struct.pack(">I", len(content)) + content]
        forms += [bytes((code, len(content))) + content] if len(content) < 256 else []
        return [(form, f" {name}={content.hex()}") for form in forms]

    return st.binary(max_size=most).flatmap(lambda content: st.sampled_from(of(content)))


def engine_state(code: int, value: list[object]) -> bytes:
    data = Data()
    data.put_object(Described(ulong(code), value))
    return bytes(data.encode())


def engine_value(octets: bytes) -> object:
    data = Data()
    assert data.decode(octets) == len(octets)
    data.rewind()
    assert data.next()
    return data.get_object()


STATES = (
    b"\0\x53\x24\x45",
    b"\0\x80" + bytes(7) + b"\x24\xc0\x01\x00",
    engine_state(0x23, [proton_uint(1), ulong(2)]),
    engine_state(0x25, [Described(ulong(0x1D), [symbol("amqp:not-allowed"), "no" * 200, {symbol("a"): ["b"]}])]),
    engine_state(0x27, [True, False, {symbol("a"): 1}]),
    engine_state(0x34, [b"transaction", Described(ulong(0x24), [])]),
    b"\0\xa3\x12amqp:accepted:list\x45",
)
STATE = optional(st.sampled_from([(state, f" state={state.hex()}") for state in STATES]))
SHORT = st.one_of(st.just((NULL, "")), st.integers(0, 65535).map(
    lambda n: (b"\x60" + struct.pack(">H", n), f" remote_channel={n}")))  # fmt: skip
MODE = st.sampled_from([(NULL, ""), (b"\x50\x00", " settle_mode=0"), (b"\x50\x01", " settle_mode=1")])
SKIPPED = st.sampled_from([(NULL, ""), (b"\x50\x01", ""), (b"\0\x53\x28\x45", ""), (b"\xc1\x01\x00", "")])

TRANSFER = (
    0x14, 1, "transfer",
    (uint("handle"), optional(uint("id")), optional(octets("tag", 0xA0, 32)), optional(uint("format")),
     optional(truth(lambda value: f" settled={value:d}")), flag("more"), MODE, STATE, flag("resume"), flag("aborted"),
     unsaid(flag("batchable"))),
)  # fmt: skip
FLOW = (
    0x13, 4, "flow",
    (optional(uint("next_in")), uint("in_window"), uint("next_out"), uint("out_window"), optional(uint("handle")),
     optional(uint("count")), optional(uint("credit")), optional(uint("available")), flag("drain"), flag("echo"),
     SKIPPED),
)  # fmt: skip
BEGIN = (
    0x11, 4, "begin",
    (SHORT, uint("next_out"), uint("in_window"), unsaid(uint("out_window")), unsaid(uint("handle_max")), SKIPPED,
     SKIPPED, SKIPPED),
)  # fmt: skip
ATTACH = (
    0x12, 3, "attach",
    (octets("name", 0xA1, 300), uint("handle"), truth(lambda value: f" receiver={value:d}"), SKIPPED, SKIPPED, SKIPPED,
     SKIPPED, SKIPPED, SKIPPED, uint("count"), SKIPPED),
)  # fmt: skip
DETACH = (0x16, 1, "detach", (uint("handle"), SKIPPED, SKIPPED))


def known(code: int, words: str, count: int) -> str:
    """What a performative with so many fields says: defaults are said of those that are not there."""
    if code == 0x12 and (count < 10 or "receiver=1" in words):
        return f"{words.partition(' count=')[0]} count=0"
    return words


@given(data=st.data(), wide=st.booleans(), extended=st.booleans())
@pytest.mark.parametrize("performative", [TRANSFER, FLOW, BEGIN, ATTACH, DETACH], ids=lambda one: one[2])
def test_a_performative_says_what_its_fields_say(
    lane: ctypes.CDLL, performative: tuple[int, int, str, tuple[st.SearchStrategy[Field], ...]], data: st.DataObject,
    wide: bool, extended: bool,
) -> None:  # fmt: skip
    """In every form of each, with trailing fields absent or null; what is written again says the same."""
    code, least, name, strategies = performative
    count = data.draw(st.integers(least, len(strategies)))
    fields = [data.draw(strategy) for strategy in strategies[:count]]
    payload = data.draw(st.binary(max_size=9)) if code == 0x14 else b""
    whole = frame(code, [octets for octets, _ in fields], payload, wide=wide, extended=extended)
    words = known(code, name + "".join(said for _, said in fields), count)
    words += f" payload={payload.hex()}" if code == 0x14 else ""
    assert tell(lane, whole) == words
    if code not in (0x13, 0x14):
        return
    again = ctypes.create_string_buffer(ROOM)
    size = lane.rewritten(whole, ctypes.c_size_t(len(whole)), again)
    assert tell(lane, again.raw[:size]) == words
    assert size <= len(whole)


@given(
    channel=st.integers(0, 2**16 - 1), handle=st.integers(0, WRAP - 1), number=st.integers(0, WRAP - 1),
    tag=st.binary(min_size=8, max_size=8), settled=st.booleans(),
)  # fmt: skip
@example(channel=0, handle=0, number=0, tag=bytes(8), settled=False)
@example(channel=0, handle=255, number=WRAP - 1, tag=bytes(8), settled=True)
def test_a_links_head_says_what_its_deliveries_of_one_transfer_say(
    lane: ctypes.CDLL, channel: int, handle: int, number: int, tag: bytes, settled: bool
) -> None:
    to = ctypes.create_string_buffer(ROOM)
    size = lane.headed(
        ctypes.c_uint16(channel), ctypes.c_uint32(handle), ctypes.c_uint32(number), tag, ctypes.c_int(settled), to
    )
    whole = to.raw[:size]
    assert struct.unpack(">IBBH", whole[:8]) == (len(whole), 2, 0, channel)
    words = f"transfer handle={handle} id={number} tag={tag.hex()} format=0 settled={int(settled)}"
    assert tell(lane, whole) == f"{words} payload="


@given(
    receiver=st.booleans(), first=uint(""), length=st.integers(0, 2**31 - 1), settled=flag("settled"), state=STATE,
    wide=st.booleans(),
)  # fmt: skip
def test_a_disposition_says_its_range(
    lane: ctypes.CDLL, receiver: bool, first: Field, length: int, settled: Field, state: Field, wide: bool
) -> None:
    """Of one delivery without `last`; a range may wrap, and none runs backwards."""
    number = int(first[1].partition("=")[2])
    last = (number + length) % WRAP
    items = [b"\x41" if receiver else b"\x42", first[0], b"\x70" + struct.pack(">I", last) if length else NULL]
    words = f"disposition receiver={receiver:d} first={number} last={last}{settled[1]}{state[1]}"
    assert tell(lane, frame(0x15, [*items, settled[0], state[0]], wide=wide)) == words
    backwards = struct.pack(">I", (number - 1 - length) % WRAP)
    assert tell(lane, frame(0x15, [*items[:2], b"\x70" + backwards])) == "amqp:invalid-field"


@pytest.mark.parametrize(
    ("code", "items"),
    [
        (0x14, []),
        (0x14, [NULL]),
        (0x14, [b"\x53\x01"]),
        (0x14, [b"\x43", b"\x41"]),
        (0x14, [b"\x43", NULL, b"\xa1\x01a"]),
        (0x14, [b"\x43", NULL, NULL, NULL, b"\x56\x02"]),
        (0x14, [b"\x43", NULL, NULL, NULL, NULL, NULL, b"\x50\x02"]),
        (0x14, [b"\x43", NULL, NULL, NULL, NULL, NULL, NULL, b"\x43"]),
        (0x13, [NULL, b"\x43", b"\x43"]),
        (0x13, [b"\x50\x01", b"\x43", b"\x43", b"\x43"]),
        (0x15, [b"\x41"]),
        (0x15, [b"\x43", b"\x43"]),
        (0x11, [b"\x43", b"\x43", b"\x43", b"\x43"]),
        (0x12, [b"\xa3\x01a", b"\x43", b"\x41"]),
        (0x16, []),
        (0x77, [b"\x43"]),
    ],
)
def test_what_is_missing_or_of_another_type_is_malformed(lane: ctypes.CDLL, code: int, items: list[bytes]) -> None:
    """A field that must be there, one that its place does not allow, and a performative that nobody knows."""
    assert tell(lane, frame(code, items)) == MALFORMED


def test_a_list_that_holds_fewer_fields_than_it_says_is_malformed(lane: ctypes.CDLL) -> None:
    whole = bytearray(frame(0x14, [b"\x43", b"\x43"]))
    whole[13] += 1
    assert tell(lane, bytes(whole)) == MALFORMED


# ---- states ----


@pytest.mark.parametrize("state", STATES)
def test_a_state_of_the_engine_is_sound_and_cut_it_is_not(lane: ctypes.CDLL, state: bytes) -> None:
    assert lane.sound(state, ctypes.c_size_t(len(state)))
    assert not any(lane.sound(state[:cut], ctypes.c_size_t(cut)) for cut in range(1, len(state)))
    assert lane.typed(state, ctypes.c_size_t(len(state)))


@pytest.mark.parametrize(
    "inside",
    [
        b"\xc0\x02\x02\x43",
        b"\xc0\x03\x01\x43\x43",
        b"\xc1\x02\x01\x43",
        b"\xe0\x02\x05\x60",
        b"\xe0\x01\x00",
        b"\xf0\0\0\0\x05\xff\xff\xff\xff\x60",
        b"\xc0\xff\x01",
        b"\x0f",
        b"\xd0" + b"\xff" * 8,
        b"\xc0\x03\x01" * 20,
        b"\xc0\x02\x01\x46",
        b"\xc0\x03\x01\x57\x01",
        b"\xc0\x03\x01\x56\x02",
        b"\xe0\x04\x02\x56\x01\x02",
        b"\xc0\x06\x01\x73\0\x11\0\0",
        b"\xc0\x06\x01\x73\0\0\xd8\0",
        b"\xe0\x02\0\x9f",
        b"\xf0\0\0\0\x05\xff\xff\xff\xff\x41",
        b"\xf0\0\0\0\x05\0\0\x01\x01\x45",
    ],
)
def test_a_state_that_lies_is_not_passed_on(lane: ctypes.CDLL, inside: bytes) -> None:
    """Counts without items, items without counts, odd maps, arrays without octets, lengths that reach outside; types
    that nobody has, booleans and characters that are none."""
    for state in (b"\0\x53\x25" + inside, b"\0\x53\x34\xc0" + bytes((len(inside) + 1, 1)) + inside):
        assert not lane.sound(state, ctypes.c_size_t(len(state)))


NAME = b"\xa3\x12amqp:rejected:list"


@pytest.mark.parametrize(
    "state",
    [
        b"\0\x53\x23\xc0\x02\x01\x43",
        b"\0\x53\x23\xc0\x03\x02\x40\x44",
        b"\0\x53\x24\xa1\x01x",
        b"\0\x53\x24\xc1\x01\0",
        b"\0\x53\x25\xc0\x04\x01\xa1\x01x",
        b"\0\x53\x25\xc0\x05\x01\0\x53\x1d\x45",
        b"\0\x53\x25\xc0\x05\x01\0\x53\x24\x45",
        b"\0" + NAME + b"\xc0\x0a\x01\0\x53\x1d\xc0\x04\x01\xa1\x01x",
        b"\0\x53\x25\xc0\x0a\x01\0\x53\x1d\xc0\x04\x01\xa3\x01\xff",
        b"\0\x53\x27\xc0\x03\x01\x50\x01",
        b"\0\x53\x27\xc0\x04\x03\x40\x40\x45",
        b"\0\x53\x27\xc0\x0a\x03\x40\x40\xc1\x05\x02\xa1\x01\xff\x40",
        b"\0\x53\x33\x45",
        b"\0\x53\x34\xc0\x07\x02\xa0\0\0\x53\x25\x40",
        b"\0\x53\x99\xa1\x01\xff",
    ],
)
def test_a_state_whose_fields_are_others_is_no_state_of_that_name(lane: ctypes.CDLL, state: bytes) -> None:
    """A peer that reads it by the standard (AMQP 1.0 part 3.4) would end its connection."""
    assert lane.sound(state, ctypes.c_size_t(len(state)))
    assert not lane.typed(state, ctypes.c_size_t(len(state)))


def shorter(lane: ctypes.CDLL, state: bytes, room: int) -> bytes:
    to = ctypes.create_string_buffer(ROOM)
    size = lane.shortened(state, ctypes.c_size_t(len(state)), to, room)
    return to.raw[:size]


def test_a_long_state_loses_what_matters_least(lane: ctypes.CDLL) -> None:
    """An error first its info, then its description; a modified delivery its annotations; others cannot be shorter."""
    error, modified = STATES[3], STATES[4]
    without_info = engine_state(0x25, [Described(ulong(0x1D), [symbol("amqp:not-allowed"), "no" * 200])])
    name_alone = engine_state(0x25, [Described(ulong(0x1D), [symbol("amqp:not-allowed")])])
    for state, room, expected in (
        (error, 450, without_info),
        (error, 200, name_alone),
        (error, 30, b"\0\x53\x25\x45"),
        (modified, 40, engine_state(0x27, [True, False])),
    ):
        found = shorter(lane, state, room)
        assert 0 < len(found) <= room
        assert engine_value(found) == engine_value(expected)
    assert not shorter(lane, STATES[5], 10)


# ---- texts: octets of a value, and whether all strings in it are UTF-8 and all symbols ASCII ----

Said = tuple[bytes, bool]
TEXTS = st.text(max_size=9).map(str.encode) | st.binary(max_size=9) | st.just(b"x" * 300)


def text_of(code: int, content: bytes, *, wide: bool) -> bytes:
    head = struct.pack(">BI", code | 0x10, len(content)) if wide else bytes((code, len(content)))
    return head + content


def fine(code: int, content: bytes) -> bool:
    try:
        content.decode({0xA1: "utf-8", 0xA3: "ascii"}.get(code, "latin-1"))
    except UnicodeDecodeError:
        return False
    return True


def plain(code: int, content: bytes, wide: bool) -> Said:
    return text_of(code, content, wide=wide or len(content) > 255), fine(code, content)


PLAIN = st.builds(plain, st.sampled_from((0xA0, 0xA1, 0xA3)), TEXTS, st.booleans())


def compound(code: int, items: list[Said], head: bytes = b"", count: int | None = None) -> Said:
    content = head + b"".join(octets for octets, _ in items)
    size = struct.pack(">II", len(content) + 4, len(items) if count is None else count)
    return bytes((code,)) + size + content, all(right for _, right in items)


def pairs(items: list[Said]) -> Said:
    return compound(0xD1, items * 2)


def elements(code: int, contents: list[bytes]) -> Said:
    items = [(struct.pack(">I", len(one)) + one, fine(code, one)) for one in contents]
    return compound(0xF0, items, bytes((code | 0x10,)))


def lists(items: list[Said]) -> Said:
    """An array of lists of one item."""
    return compound(0xF0, [(struct.pack(">II", len(one) + 4, 1) + one, right) for one, right in items], b"\xd0")


VALUES = st.recursive(
    PLAIN | st.sampled_from([(NULL, True), (b"\x41", True), (b"\x70\0\0\0\xff", True)]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: compound(0xD0, items))
        | st.lists(inner, max_size=2).map(pairs)
        | st.lists(inner, max_size=2).map(lists)
        | st.builds(elements, st.sampled_from((0xA0, 0xA1, 0xA3)), st.lists(TEXTS, max_size=3))
        | st.tuples(PLAIN, inner).map(lambda two: (b"\0" + two[0][0] + two[1][0], two[0][1] and two[1][1]))
    ),
    max_leaves=8,
)


@given(value=VALUES, code=st.sampled_from((0x10, 0x12)), end=st.sampled_from((None, 0x28, 0x29)))
def test_what_is_no_text_is_found_wherever_it_stands(
    lane: ctypes.CDLL, value: Said, code: int, end: int | None
) -> None:
    """In an OPEN's or ATTACH's properties, or as an address; and nothing else is said to be none."""
    octets, right = value
    if end is None:
        items = [plain(0xA1, b"name", False)[0], *[NULL] * (8 if code == 0x10 else 12), octets]
    else:
        items = [NULL] * (5 if end == 0x28 else 6) + [b"\0\x53" + bytes((end,)) + compound(0xD0, [value])[0]]
        code = 0x12
        right = right and not (octets[0] & 0xEF == 0xA1 and b"\0" in octets[2 if octets[0] == 0xA1 else 5 :])
    said = frame(code, items, wide=True)
    words = ctypes.create_string_buffer(ROOM)
    lane.untext.restype = ctypes.c_size_t
    assert bool(lane.untext(said, ctypes.c_size_t(len(said)), words, ctypes.c_size_t(ROOM))) != right, words.value

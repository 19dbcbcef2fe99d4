"""The native scan of a message against a plain reading of AMQP 1.0 part 3.2."""

import ctypes
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from proton import Message, symbol

from shm.contract.sections import SECTIONS
from tests.support.values.spelled import SPELLINGS, spelled

ROOT = Path(__file__).parents[2]
ABSENT = 2**32 - 1
VERDICTS = ("done", "more", "bad")
HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES, FOOTER = (
    *range(0x70, 0x75),
    0x78,
)


class Found(ctypes.Structure):
    """scan_found of shm/codec/scan.h."""

    _fields_ = (
        ("message_annotations", ctypes.c_uint32),
        ("properties", ctypes.c_uint32),
        ("application_properties", ctypes.c_uint32),
        ("annotations_end", ctypes.c_uint32),
        ("body", ctypes.c_uint32),
        ("to", ctypes.c_uint32),
        ("to_length", ctypes.c_uint32),
        ("priority", ctypes.c_uint8),
        ("section", ctypes.c_uint8),
        ("section_end", ctypes.c_uint32),
        ("why", ctypes.c_char_p),
        ("condition", ctypes.c_char_p),
        ("need", ctypes.c_uint32),
    )


VALUES = [name for name, _ in Found._fields_[:-3]]
Scan = Callable[[bytes, bool], tuple[str, dict[str, Any]]]


class Digest(ctypes.Structure):
    """content_digest of shm/memory/content.h."""

    _fields_ = (
        ("message", ctypes.c_uint64),
        ("body", ctypes.c_uint32),
        ("trace", ctypes.c_uint32),
        ("transaction", ctypes.c_uint32),
        ("onward", ctypes.c_uint32),
        ("back", ctypes.c_uint32),
        ("delivery_count", ctypes.c_uint16),
        ("reserved", ctypes.c_uint16),
    )


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """scan.c."""
    library = tmp_path_factory.mktemp("scan") / "scan.so"
    command = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-shared"]
    command += ["-Wno-unused-function", f"-I{ROOT}"]
    command += ["-fPIC", str(Path(__file__).with_name("scan.c")), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


@pytest.fixture(scope="module")
def scan(native: ctypes.CDLL) -> Scan:
    """The native scan: its verdict, and what it found when that is ``done``."""
    native.scan.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.POINTER(Found))

    def call(data: bytes, complete: bool) -> tuple[str, dict[str, Any]]:
        found = Found()
        verdict = VERDICTS[native.scan(data, len(data), complete, ctypes.byref(found))]
        values = {name: getattr(found, name) for name in VALUES}
        return verdict, values if verdict == "done" else {}

    return call


def needed(native: ctypes.CDLL, data: bytes) -> int:
    """How many bytes a scan of an incomplete message asks for; 0: it has enough."""
    found = Found()
    more = VERDICTS[native.scan(data, len(data), False, ctypes.byref(found))] == "more"
    return int(found.need) if more else 0


# ---- the model ------------------------------------------------------------------------------------------


class MoreError(Exception):
    """The bytes end here, and it matters."""


class BadError(Exception):
    """This is no message."""


class OpaqueError(Exception):
    """Here begins no section of a message."""


@dataclass
class Value:
    """An encoded value: where it begins and ends, its format code, and where its content begins."""

    start: int
    end: int
    code: int
    content: int


def take(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise MoreError
    return data[at : at + size]


def value_at(data: bytes, at: int, descriptors: int) -> Value:
    """The value that begins here (1.2); it may end behind the data. ``descriptors``: their depth."""
    code = take(data, at, 1)[0]
    if code == 0:
        if not descriptors:
            raise BadError
        descriptor = value_at(data, at + 1, descriptors - 1)
        take(data, at, descriptor.end - at)
        return Value(at, value_at(data, descriptor.end, descriptors - 1).end, code, descriptor.end)
    width = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}.get(code >> 4)
    if width is not None:
        return Value(at, at + 1 + width, code, at + 1)
    if code >> 4 not in (0xA, 0xB, 0xC, 0xD, 0xE, 0xF):
        raise BadError
    length = 4 if code >> 4 & 1 else 1
    size = int.from_bytes(take(data, at + 1, length), "big")
    return Value(at, at + 1 + length + size, code, at + 1 + length)


def fields_of(data: bytes, value: Value, wanted: int) -> list[Value]:
    """The first fields of a list that is here as a whole."""
    if value.code == 0x45:
        return []
    if value.code not in (0xC0, 0xD0):
        raise BadError
    width = 1 if value.code == 0xC0 else 4
    inside = data[: value.end]
    try:
        count = int.from_bytes(take(inside, value.content, width), "big")
        at, fields = value.content + width, []
        for _ in range(min(count, wanted)):
            field = value_at(inside, at, 2)
            take(inside, at, field.end - at)
            fields.append(field)
            at = field.end
    except MoreError:
        raise BadError from None
    return fields


def descriptor_at(data: bytes, at: int) -> tuple[int, int]:
    """A section's code and where its value begins."""
    if take(data, at, 1) != b"\0":
        raise OpaqueError
    form = take(data, at + 1, 1)
    if form in (b"\xa3", b"\xb3"):
        start = at + 3 if form == b"\xa3" else at + 6
        size = int.from_bytes(take(data, at + 2, start - at - 2), "big")
        if size > max(map(len, SECTIONS)):
            raise OpaqueError
        name = take(data, start, size)
        return SECTIONS.get(name.decode("latin-1"), 0), start + size
    if form not in (b"\x53", b"\x80"):
        raise OpaqueError
    width = 1 if form == b"\x53" else 8
    return int.from_bytes(take(data, at + 2, width), "big"), at + 2 + width


def read_header(data: bytes, value: Value, found: dict[str, int]) -> None:
    fields = fields_of(data, value, 2)
    if fields and fields[0].code not in (0x40, 0x41, 0x42, 0x56):
        raise BadError
    if len(fields) > 1:
        if fields[1].code == 0x50:
            found["priority"] = min(9, data[fields[1].content])
        elif fields[1].code != 0x40:
            raise BadError


def read_properties(data: bytes, value: Value, found: dict[str, int]) -> None:
    fields = fields_of(data, value, 3)
    if len(fields) == 3 and fields[2].code != 0x40:
        if fields[2].code not in (0xA1, 0xB1):
            raise BadError
        found["to"], found["to_length"] = fields[2].content, fields[2].end - fields[2].content


def read_section(data: bytes, at: int, previous: int, found: dict[str, int]) -> tuple[int, int]:
    """The section that begins here: its code, and where the next one begins."""
    code, start = descriptor_at(data, at)
    if not HEADER <= code <= FOOTER:
        raise OpaqueError
    if code <= previous:
        raise BadError
    if code >= APPLICATION_PROPERTIES:
        if code == APPLICATION_PROPERTIES:
            found["application_properties"] = at
        return code, at
    if data[start : start + 1] and data[start] not in (0x45, 0xC0, 0xD0, 0xC1, 0xD1):
        raise BadError
    value = value_at(data, start, 0)
    take(data, start, value.end - start)
    if code == HEADER:
        read_header(data, value, found)
    elif code == PROPERTIES:
        found["properties"] = at
        read_properties(data, value, found)
    elif value.code not in (0xC1, 0xD1):
        raise BadError
    elif code == MESSAGE_ANNOTATIONS:
        found["message_annotations"] = at
    if code < PROPERTIES:
        found["annotations_end"] = value.end
    return code, value.end


def model(data: bytes, complete: bool) -> tuple[str, dict[str, int]]:
    """What the scan must say."""
    found = {name: ABSENT if "properties" in name or name == "to" else 0 for name in VALUES}
    found |= {"message_annotations": ABSENT, "priority": 4}
    at = code = 0
    try:
        while code < PROPERTIES:
            if at == len(data) and complete and data:
                break
            code, at = read_section(data, at, code, found)
    except OpaqueError:
        pass
    except BadError:
        return "bad", {}
    except MoreError:
        return ("bad" if complete else "more"), {}
    found["body"] = at
    return "done", found


# ---- the comparison -------------------------------------------------------------------------------------

TEXT = st.text(max_size=40)
ANNOTATIONS = st.none() | st.dictionaries(st.text("abc", min_size=1, max_size=5), st.integers(0, 9) | TEXT)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A message as python-qpid-proton encodes it."""
    message = Message(
        body=draw(st.none() | TEXT | st.binary(max_size=300) | st.lists(st.integers(0, 9), max_size=4)),
        durable=draw(st.booleans()),
        priority=draw(st.integers(0, 255)),
        address=draw(st.none() | TEXT),
        id=draw(st.none() | TEXT | st.integers(0, 2**64 - 1)),
        user_id=draw(st.binary(max_size=9)),
        subject=draw(st.none() | TEXT),
        instructions=draw(ANNOTATIONS),
        annotations=draw(ANNOTATIONS),
        properties=draw(st.none() | st.dictionaries(TEXT, st.booleans(), max_size=3)),
    )
    message.delivery_count = draw(st.sampled_from([0, 1, 255, 256, 40_000]))
    return bytes(message.encode())


LIKELY = b"\x00\x53\x80\x70\x71\x72\x73\x74\x75\x77\x78\x45\xc0\xd0\xc1\xd1\xa1\xb1\x40\x41\x50\x03\x02\x01\xff"
NOISE = st.lists(st.sampled_from(LIKELY) | st.integers(0, 255), max_size=40).map(bytes)
SPELLED = st.lists(st.sampled_from(SPELLINGS), min_size=1, max_size=4)
DAMAGE = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=3)


@given(messages(), SPELLED, DAMAGE, st.integers(0, 400), st.booleans())
@settings(max_examples=500, deadline=None)
def test_scan_of_messages(
    scan: Scan, message: bytes, spelling: list[int], damage: list[tuple[int, int]], size: int, complete: bool
) -> None:
    """Messages in order and damaged ones, as a whole and cut off anywhere; sections by number and by name."""
    data = bytearray(spelled(message, spelling))
    for at, byte in damage:
        data[at % len(data)] = byte
    for part in (bytes(data), bytes(data[:size])):
        assert scan(part, complete) == model(part, complete)


@given(NOISE, st.booleans())
@example(b"", True)
@example(b"", False)
@example(bytes.fromhex("005370c0"), False)
@example(bytes.fromhex("005373c00603404000a3004040"), True)  # a described `to`
@example(bytes.fromhex("005370c0050256015005"), True)  # durable in its long form
@example(bytes.fromhex("005370c003025701"), True)
@settings(max_examples=500, deadline=None)
def test_scan_of_noise(scan: Scan, data: bytes, complete: bool) -> None:
    """What is no message is told from what may become one, and from what is the receiver's business."""
    assert scan(data, complete) == model(data, complete)


@given(messages(), SPELLED, st.integers(0, 70_000))
@settings(max_examples=120, deadline=None)
def test_scan_asks_for_what_it_needs(
    scan: Scan, native: ctypes.CDLL, message: bytes, spelling: list[int], long: int
) -> None:
    """With fewer bytes it would find no more; so a message that comes byte by byte is scanned a few times only."""
    annotations = b"\0\x53\x72\xd1" + (4 + long).to_bytes(4, "big") + bytes(4 + long)
    data = annotations + spelled(message, spelling)
    scans, size = 1, 0
    while need := needed(native, data[:size]):
        assert size < need <= len(data)
        assert scan(data[: need - 1], False)[0] == "more"
        scans, size = scans + 1, need
    assert scans < 200


@given(messages(), SPELLED)
@settings(max_examples=100, deadline=None)
def test_scan_finds_what_the_engine_put_there(scan: Scan, data: bytes, spelling: list[int]) -> None:
    """`to` and priority are those that the engine reads, whatever the spelling of the sections."""
    message = Message()
    message.decode(data)
    data = spelled(data, spelling)
    verdict, found = scan(data, True)
    assert verdict == "done"
    to = None if found["to"] == ABSENT else data[found["to"] : found["to"] + found["to_length"]].decode()
    assert to == message.address
    assert found["priority"] == min(9, message.priority)


def message_hash(value: str | int | bytes) -> int:
    """As docs/flow-log.md says."""
    octets = value.to_bytes(8, "big") if isinstance(value, int) else value
    octets = octets.encode() if isinstance(octets, str) else octets
    odd, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    found = len(octets) * odd & mask
    for at in range(0, len(octets), 8):
        found = (found ^ int.from_bytes(octets[at : at + 8], "little")) * odd & mask
        found ^= found >> 32
    return found >> 1 or 1


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@given(messages(), SPELLED, st.booleans(), st.booleans())
@settings(max_examples=120, deadline=None)
def test_digest_is_of_what_the_engine_reads(
    native: ctypes.CDLL, data: bytes, spelling: list[int], traced: bool, routed: bool
) -> None:
    """Message-id, delivery-count, the body's place, a traceparent and the routes of a source route."""
    message = Message()
    message.decode(data)
    if traced:
        message.properties = {**(message.properties or {}), "traceparent": TRACE}
    if routed:
        message.annotations = {**(message.annotations or {}), symbol("x-opt-route.onward"): ["A", "B"]}
    data = spelled(bytes(message.encode()), spelling)
    found = Digest()
    assert native.digest(data, ctypes.c_size_t(len(data)), ctypes.byref(found))
    assert found.message == (message_hash(message.id) if message.id is not None else 0)
    assert found.delivery_count == min(message.delivery_count, 2**15 - 1)
    message.body = None
    assert found.body == len(spelled(bytes(message.encode()), spelling))
    assert bool(found.trace) == traced
    if traced:
        assert data[found.trace : found.trace + 55].decode() == TRACE
    assert bool(found.onward) == routed
    assert not found.back
    assert not found.transaction


@given(messages(), DAMAGE)
@settings(max_examples=200, deadline=None)
def test_digest_stays_within_the_message(native: ctypes.CDLL, message: bytes, damage: list[tuple[int, int]]) -> None:
    """Wherever it points to is there."""
    data = bytearray(message)
    for at, byte in damage:
        data[at % len(data)] = byte
    found = Digest()
    if native.digest(bytes(data), ctypes.c_size_t(len(data)), ctypes.byref(found)):
        assert found.body <= len(data)
        assert found.trace + 55 <= len(data) or not found.trace
        assert max(found.onward, found.back) < len(data)

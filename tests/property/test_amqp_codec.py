"""The native codec of AMQP values against the engine's own, for every type in each of its widths."""

import ctypes
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import (
    UNDESCRIBED,
    Array,
    Data,
    Described,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)

from tests.support.native.library import library

ROOM = 1 << 16


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """amqp.c, with what it returns."""
    found = library(Path(__file__).with_name("amqp.c"), tmp_path_factory.mktemp("amqp"))
    for name in ("number", "octets", "items", "described"):
        getattr(found, name).restype = ctypes.c_size_t
    return found


def tell(native: ctypes.CDLL, octets: bytes) -> str:
    """What the codec reads of a value, in words."""
    words = ctypes.create_string_buffer(ROOM)
    assert native.tell(octets, ctypes.c_size_t(len(octets)), words, ctypes.c_size_t(ROOM))
    return words.value.decode()


def encoded(put: Callable[[Data], object]) -> bytes:
    data = Data()
    put(data)
    return bytes(data.encode())


def encoded_value(value: Any) -> bytes:
    return encoded(lambda data: data.put_object(value))


# ---- what the engine writes is read ----

# The engine knows a number's type by its class; `words` is what the codec has to say.
WHOLE: dict[type, tuple[int, int]] = {
    ubyte: (0, 2**8 - 1),
    ushort: (0, 2**16 - 1),
    uint: (0, 2**32 - 1),
    ulong: (0, 2**63 - 1),
    byte: (-(2**7), 2**7 - 1),
    short: (-(2**15), 2**15 - 1),
    int32: (-(2**31), 2**31 - 1),
    int: (-(2**63), 2**63 - 1),
}


def whole_of(kind: type) -> st.SearchStrategy[Any]:
    low, high = WHOLE[kind]
    return (st.sampled_from([low, high, 0, 1, 127]) | st.integers(low, high)).map(kind)


SCALARS = (
    st.none()
    | st.booleans()
    | st.one_of([whole_of(kind) for kind in WHOLE])
    | st.floats(allow_nan=False)
    | st.floats(width=32, allow_nan=False).map(float32)
    | st.integers(0, 2**63 - 1).map(timestamp)
    | st.characters(codec="utf-8").map(char)
    | st.uuids()
    | st.integers(0, 2**32 - 1).map(decimal32)
    | st.integers(0, 2**64 - 1).map(decimal64)
    | st.binary(min_size=16, max_size=16).map(decimal128)
    | st.binary(max_size=300)
    | st.text(max_size=150)
    | st.text("abc", max_size=300).map(symbol)
)
ARRAYS = st.lists(st.text("ab", max_size=300), max_size=4).map(lambda texts: Array(UNDESCRIBED, Data.STRING, *texts))
VALUES = st.recursive(
    SCALARS | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.text("abc", max_size=5) | whole_of(uint), inner, max_size=4)
        | st.tuples(whole_of(ulong), SCALARS).map(lambda pair: Described(*pair))
    ),
    max_leaves=12,
)


def fixed(value: Any) -> str | None:
    """Of values that have neither items nor a size."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    forms: dict[type, Callable[[Any], bytes]] = {
        float32: lambda one: struct.pack(">f", one),
        timestamp: lambda one: one.to_bytes(8, "big"),
        char: lambda one: ord(one).to_bytes(4, "big"),
        decimal32: lambda one: one.to_bytes(4, "big"),
        decimal64: lambda one: one.to_bytes(8, "big"),
        decimal128: bytes,
        float: lambda one: struct.pack(">d", one),
    }
    if type(value) in forms:
        return f"bits:{forms[type(value)](value).hex()}"
    if hasattr(value, "bytes") and not isinstance(value, bytes):
        return f"bits:{value.bytes.hex()}"
    return str(int(value)) if isinstance(value, int) else None


def words(value: Any) -> str:
    """What the codec has to say of a value that the engine has written."""
    if isinstance(value, Array):
        said = "array(b1" + "".join(f" :{one.encode().hex()}" for one in value.elements) + ")"
    elif isinstance(value, Described):
        said = f"described({words(value.descriptor)} {words(value.value)})"
    elif isinstance(value, list):
        said = f"list({' '.join(map(words, value))})"
    elif isinstance(value, dict):
        said = f"map({' '.join(words(one) for pair in value.items() for one in pair)})"
    elif isinstance(value, bytes) and not isinstance(value, decimal128):
        said = f"binary:{value.hex()}"
    elif isinstance(value, str) and not isinstance(value, char):
        said = f"{'symbol' if isinstance(value, symbol) else 'string'}:{value.encode().hex()}"
    else:
        said = fixed(value) or "nothing"
    return said


@given(VALUES)
@settings(max_examples=500, deadline=None)
def test_what_the_engine_writes_is_read(native: ctypes.CDLL, value: Any) -> None:
    """Every type, nested, in the width that the engine chooses."""
    assert tell(native, encoded_value(value)) == words(value)


# ---- what the codec writes is read by the engine ----

# Constructors of a fixed width: octets, how the engine calls the type, and how its bits become a value.
FIXED: dict[int, tuple[int, int, Callable[[bytes], Any]]] = {
    0x40: (0, Data.NULL, lambda _: None),
    0x41: (0, Data.BOOL, lambda _: True),
    0x42: (0, Data.BOOL, lambda _: False),
    0x43: (0, Data.UINT, lambda _: 0),
    0x44: (0, Data.ULONG, lambda _: 0),
    0x50: (1, Data.UBYTE, lambda bits: bits[0]),
    0x51: (1, Data.BYTE, lambda bits: int.from_bytes(bits, "big", signed=True)),
    0x52: (1, Data.UINT, lambda bits: bits[0]),
    0x53: (1, Data.ULONG, lambda bits: bits[0]),
    0x54: (1, Data.INT, lambda bits: int.from_bytes(bits, "big", signed=True)),
    0x55: (1, Data.LONG, lambda bits: int.from_bytes(bits, "big", signed=True)),
    0x60: (2, Data.USHORT, lambda bits: int.from_bytes(bits, "big")),
    0x61: (2, Data.SHORT, lambda bits: int.from_bytes(bits, "big", signed=True)),
    0x70: (4, Data.UINT, lambda bits: int.from_bytes(bits, "big")),
    0x71: (4, Data.INT, lambda bits: int.from_bytes(bits, "big", signed=True)),
    0x72: (4, Data.FLOAT, lambda bits: struct.unpack(">f", bits)[0]),
    0x80: (8, Data.ULONG, lambda bits: int.from_bytes(bits, "big")),
    0x81: (8, Data.LONG, lambda bits: int.from_bytes(bits, "big", signed=True)),
    0x82: (8, Data.DOUBLE, lambda bits: struct.unpack(">d", bits)[0]),
    0x83: (8, Data.TIMESTAMP, lambda bits: int.from_bytes(bits, "big", signed=True)),
}
OCTETS = {
    0xA0: (Data.BINARY, lambda octets: octets),
    0xA1: (Data.STRING, bytes.decode),
    0xA3: (Data.SYMBOL, bytes.decode),
}


def plain(value: Any) -> Any:
    """With binaries as bytes, which the engine's own are not equal to."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, Described):
        return Described(value.descriptor, plain(value.value))
    return bytes(value) if isinstance(value, memoryview) else value


def decoded(octets: bytes) -> tuple[int, Any]:
    """Type and value that the engine reads; it takes all octets."""
    data = Data()
    assert data.decode(octets) == len(octets)
    data.rewind()
    kind = data.next()
    return kind, plain(data.get_object())


def written(write: Callable[..., int], *arguments: Any) -> bytes:
    room = ctypes.create_string_buffer(ROOM)
    size = write(room, *arguments)
    return room.raw[:size]


@given(st.sampled_from(sorted(FIXED)), st.binary(min_size=8, max_size=8))
@settings(max_examples=400, deadline=None)
def test_numbers_are_read_by_the_engine(native: ctypes.CDLL, code: int, bits: bytes) -> None:
    """Each constructor of a fixed width gives the engine the type and the value that were meant."""
    width, kind, value = FIXED[code]
    octets = written(native.number, ctypes.c_uint8(code), ctypes.c_uint64(int.from_bytes(bits, "big")))
    found_kind, found = decoded(octets)
    wanted = value(bits[8 - width :])
    assert (found_kind, len(octets)) == (kind, 1 + width)
    assert found == wanted or (math.isnan(found) and math.isnan(wanted))
    if isinstance(wanted, int) and kind not in (Data.BOOL, Data.TIMESTAMP) and wanted < 2**63:
        assert tell(native, octets) == str(wanted)


@given(st.sampled_from(sorted(OCTETS)), st.text("abc", max_size=300), st.booleans())
@settings(max_examples=200, deadline=None)
def test_octets_are_read_by_the_engine_in_either_width(native: ctypes.CDLL, code: int, text: str, wide: bool) -> None:
    """Strings, symbols and binaries: the long form also where the short one would do."""
    octets = text.encode()
    wide = wide or len(octets) > 255
    constructor = code | 0x10 if wide else code
    made = written(native.octets, ctypes.c_uint8(constructor), octets, ctypes.c_uint32(len(octets)))
    kind, value = OCTETS[code]
    assert decoded(made) == (kind, value(octets))
    assert tell(native, made).partition(":")[2] == octets.hex()


@given(st.lists(SCALARS, max_size=6), st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_lists_and_maps_are_read_by_the_engine_in_either_width(
    native: ctypes.CDLL, values: list[Any], wide: bool, mapped: bool
) -> None:
    """Around items that the engine wrote; a section's descriptor in front is the engine's, too."""
    if mapped:
        values = [one for number, value in enumerate(values) for one in (uint(number), value)]
    inside = b"".join(map(encoded_value, values))
    wide = wide or len(inside) > 254
    code = (0xC1 if mapped else 0xC0) | (0x10 if wide else 0)
    made = written(
        native.items, ctypes.c_uint8(code), inside, ctypes.c_uint32(len(inside)), ctypes.c_uint32(len(values))
    )
    kind, found = decoded(made)
    assert kind == (Data.MAP if mapped else Data.LIST)
    assert found == (dict(zip(values[::2], values[1::2], strict=True)) if mapped else values)
    kind, section = decoded(written(native.described, ctypes.c_uint8(0x77)) + made)
    assert (kind, section.descriptor, section.value) == (Data.DESCRIBED, 0x77, found)


@given(st.lists(st.text("abc", max_size=60), max_size=3), st.booleans(), st.booleans())
@settings(max_examples=120, deadline=None)
def test_arrays_are_read_by_the_engine_in_either_width(
    native: ctypes.CDLL, texts: list[str], wide: bool, wide_elements: bool
) -> None:
    """Of strings, each without a constructor of its own."""
    width = 4 if wide_elements else 1
    code = b"\xb1" if wide_elements else b"\xa1"
    octets = [one.encode() for one in texts]
    inside = code + b"".join(len(one).to_bytes(width, "big") + one for one in octets)
    constructor, size = ctypes.c_uint8(0xF0 if wide else 0xE0), ctypes.c_uint32(len(inside))
    made = written(native.items, constructor, inside, size, ctypes.c_uint32(len(texts)))
    kind, found = decoded(made)
    assert (kind, found.type, list(found.elements)) == (Data.ARRAY, Data.STRING, texts)
    assert tell(native, made) == f"array({code.hex()}" + "".join(f" :{one.hex()}" for one in octets) + ")"

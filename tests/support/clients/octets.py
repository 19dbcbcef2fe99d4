"""AMQP values and frames as octets, in short and in long forms, and back (AMQP 1.0 parts 1.6, 2.3 and 2.7).

No engine is asked: what it would not write, and would not show, is what conformance is about.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

AMQP_HEADER = b"AMQP\0\1\0\0"
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
ERROR, SOURCE, TARGET = 0x1D, 0x28, 0x29
RECEIVED, ACCEPTED, REJECTED, RELEASED, MODIFIED = range(0x23, 0x28)
WRAP = 2**32

# The names that tests use for the fields of each performative, in their order.
FIELDS = {
    OPEN: "container hostname max_frame channel_max idle locales in_locales offered desired properties",
    BEGIN: "remote_channel next_out in_window out_window handle_max",
    ATTACH: "name handle receiver snd_mode rcv_mode source target unsettled incomplete count max_message offered"
    " desired properties",
    FLOW: "next_in in_window next_out out_window handle count credit available drain echo properties",
    TRANSFER: "handle id tag format settled more rcv_mode state resume aborted batchable",
    DISPOSITION: "receiver first last settled state batchable",
    DETACH: "handle closed error",
    END: "error",
    CLOSE: "error",
}


class Uint(int):
    """A uint."""


class Ulong(int):
    """A ulong."""


class Ushort(int):
    """A ushort."""


class Ubyte(int):
    """A ubyte."""


class Symbol(str):
    """A symbol."""

    __slots__ = ()


class Encoded(bytes):
    """A value that is octets already."""


class Described(NamedTuple):
    """A described value; the descriptor is a ulong or a symbol."""

    descriptor: Any
    value: Any


# ---- octets of values ----


def encode(value: Any, wide: bool = False) -> bytes:
    """A value's octets: in its shortest form, or in its longest (``wide``). An int must say which type it has."""
    for kind in type(value).__mro__:
        if kind in ENCODERS:
            return ENCODERS[kind](value, wide)
    raise TypeError(f"of which AMQP type is {value!r}?")


def _boolean(value: bool, wide: bool) -> bytes:
    return (b"\x56" + bytes((value,))) if wide else (b"\x41" if value else b"\x42")


def _described(value: Described, wide: bool) -> bytes:
    descriptor = Ulong(value.descriptor) if isinstance(value.descriptor, int) else value.descriptor
    return b"\0" + encode(descriptor, wide) + encode(value.value, wide)


def _number(value: int, codes: bytes, layout: str, wide: bool) -> bytes:
    """``codes``: the constructors of zero, of one octet, and of all octets."""
    if wide or value > 0xFF:
        return codes[2:] + struct.pack(layout, value)
    return codes[1:2] + bytes((value,)) if value else codes[:1]


def _variable(octets: bytes, code: int, wide: bool) -> bytes:
    if wide or len(octets) > 0xFF:
        return struct.pack(">BI", code + 0x10, len(octets)) + octets
    return bytes((code, len(octets))) + octets


ENCODERS: dict[type, Callable[[Any, bool], bytes]] = {
    Encoded: lambda value, _: bytes(value),
    type(None): lambda _, __: b"\x40",
    bool: _boolean,
    Described: _described,
    Uint: lambda value, wide: _number(value, b"\x43\x52\x70", ">I", wide),
    Ulong: lambda value, wide: _number(value, b"\x44\x53\x80", ">Q", wide),
    Ushort: lambda value, _: b"\x60" + struct.pack(">H", value),
    Ubyte: lambda value, _: b"\x50" + struct.pack("B", value),
    bytes: lambda value, wide: _variable(value, 0xA0, wide),
    Symbol: lambda value, wide: _variable(value.encode(), 0xA3, wide),
    str: lambda value, wide: _variable(value.encode(), 0xA1, wide),
    list: lambda value, wide: listed([encode(item, wide) for item in value], 32 if wide else None),
    dict: lambda value, wide: _compound([encode(one, wide) for pair in value.items() for one in pair], 0xC1, wide),
}


def _compound(items: list[bytes], code: int, wide: bool) -> bytes:
    content = b"".join(items)
    if wide or len(content) > 254 or len(items) > 255:
        return struct.pack(">BII", code + 0x10, len(content) + 4, len(items)) + content
    return bytes((code, len(content) + 1, len(items))) + content


def listed(items: list[bytes], form: int | None = None) -> bytes:
    """A list of encoded values as list0, list8 or list32 (``form`` 0, 8 or 32); None: the shortest that holds it."""
    if form == 0 or (form is None and not items):
        assert not items
        return b"\x45"
    return _compound(items, 0xC0, form == 32)


# ---- octets of frames ----


def frame(channel: int, body: bytes, kind: int = 0, extended: bytes = b"") -> bytes:
    """A frame of that type; an empty body makes it a heartbeat. ``extended`` is a header in whole words of four."""
    offset = 2 + len(extended) // 4
    return struct.pack(">IBBH", 4 * offset + len(body), offset, kind, channel) + extended + body


def performative(code: int, *, wide: bool = False, form: int | None = None, **fields: Any) -> bytes:
    """A performative by its fields' names; those behind the last that is named are left out."""
    names = FIELDS[code].split()
    assert set(fields) <= set(names), set(fields) - set(names)
    last = max((names.index(name) for name in fields), default=-1)
    items = [encode(typed(code, name, fields.get(name)), wide) for name in names[: last + 1]]
    return b"\0" + encode(Ulong(code), wide) + listed(items, 32 if wide else form)


USHORTS = {"remote_channel", "channel_max"}
UBYTES = {"snd_mode", "rcv_mode"}


def typed(code: int, name: str, value: Any) -> Any:
    """A plain int in the type of its field."""
    if type(value) is not int:
        return value
    if name in USHORTS:
        return Ushort(value)
    if name in UBYTES:
        return Ubyte(value)
    return Ulong(value) if name == "max_message" else Uint(value % WRAP)


def said(code: int, channel: int = 0, payload: bytes = b"", **fields: Any) -> bytes:
    """A frame with that performative."""
    return frame(channel, performative(code, **fields) + payload)


def state(code: int, *fields: Any) -> Described:
    """A delivery state."""
    return Described(Ulong(code), list(fields))


def trimmed(thing: Any) -> Any:
    """A state without what its list says by fields that are absent or false."""
    fields = [False if one is None else one for one in thing.value]
    while fields and fields[-1] is False:
        fields.pop()
    return Described(thing.descriptor, fields)


# ---- and back ----


class Value(NamedTuple):
    """A value and the octets that it came as."""

    value: Any
    octets: bytes


WIDTHS = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}
NUMBERS = {0x50: ">B", 0x52: ">B", 0x53: ">B", 0x60: ">H", 0x70: ">I", 0x80: ">Q", 0x54: ">b", 0x55: ">b", 0x71: ">i",
           0x81: ">q", 0x56: ">?"}  # fmt: skip
FIXED = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0, 0x45: []}


def decode(octets: bytes) -> Value:
    """The first value of the octets. Arrays, and numbers that nobody sends here, stay octets."""
    code = octets[0]
    if code == 0:
        descriptor = decode(octets[1:])
        inner = decode(octets[1 + len(descriptor.octets) :])
        size = 1 + len(descriptor.octets) + len(inner.octets)
        return Value(Described(descriptor.value, inner.value), octets[:size])
    if code >> 4 in WIDTHS:
        size = 1 + WIDTHS[code >> 4]
        assert len(octets) >= size
        value = FIXED[code] if code in FIXED else octets[1:size]
        if code in NUMBERS:
            (value,) = struct.unpack(NUMBERS[code], octets[1:size])
        return Value(value, octets[:size])
    width = 4 if code >> 4 & 1 else 1
    size = 1 + width + int.from_bytes(octets[1 : 1 + width], "big")
    assert len(octets) >= size
    return Value(_content(code & 0xEF, octets[1 + width : size], width), octets[:size])


def _content(code: int, content: bytes, width: int) -> Any:
    match code:
        case 0xA1:
            return content.decode()
        case 0xA3:
            return Symbol(content.decode())
        case 0xC0 | 0xC1:
            values = [one.value for one in items(content, width)]
            return values if code == 0xC0 else dict(zip(values[::2], values[1::2], strict=True))
    return content


def items(content: bytes, width: int) -> Iterator[Value]:
    """The values behind a list's size: its count and what follows."""
    count, rest = int.from_bytes(content[:width], "big"), content[width:]
    for _ in range(count):
        item = decode(rest)
        yield item
        rest = rest[len(item.octets) :]
    assert not rest


@dataclass(frozen=True)
class Frame:
    """A frame that has come; ``code`` 0: it is empty. ``frame["name"]`` is a field, None where it is absent."""

    code: int
    channel: int
    values: dict[str, Value]
    payload: bytes
    size: int

    def __getitem__(self, name: str) -> Any:
        return self.values[name].value if name in self.values else None

    def octets(self, name: str) -> bytes:
        """A field as it came."""
        return self.values[name].octets

    @property
    def condition(self) -> str | None:
        """That of its error."""
        return str(self["error"].value[0]) if self["error"] else None


def parse(octets: bytes) -> Frame:
    """A whole frame."""
    channel = struct.unpack(">H", octets[6:8])[0]
    body = octets[4 * octets[4] :]
    if not body:
        return Frame(0, channel, {}, b"", len(octets))
    assert body[0] == 0
    descriptor = decode(body[1:])
    rest = body[1 + len(descriptor.octets) :]
    fields = decode(rest).octets
    width = {0x45: 0, 0xC0: 1, 0xD0: 4}[fields[0]]
    found = items(fields[1 + width :], width) if width else iter(())
    names = FIELDS.get(descriptor.value, "").split()
    named = dict(zip(names, found, strict=False))
    return Frame(descriptor.value, channel, named, rest[len(fields) :], len(octets))

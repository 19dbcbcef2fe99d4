"""Encodes and decodes the AMQP values of control messages (AMQP 1.0 part 1.6).

Encoding uses the shortest form. Decoding takes every encoding of every type, and checks each length and count
against the octets that are present.
"""

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

NULL: Final = b"\x40"
TRUE: Final = b"\x41"
FALSE: Final = b"\x42"

# Limits of one message: enough for 100,000 addresses with their hints.
LONGEST_MESSAGE: Final = 8 * 1024 * 1024
MOST_VALUES: Final = 500_000
DEEPEST: Final = 8

_SURROGATES: Final = re.compile("[\ud800-\udfff]")


class WireError(Exception):
    """The octets are not valid AMQP, or exceed a limit."""


OTHER: Final = object()  # stands for any value of a type that no control message uses


class Described(msgspec.Struct, eq=False):
    """A described value: its descriptor and the value."""

    descriptor: object
    value: Any


class Encoded(bytes):
    """An encoded value, which `value` takes as it is."""


def value(thing: Any) -> bytes:
    """Encode None, a boolean, number, text, octets, sequence or map; an int becomes a long.

    Raises TypeError for any other type, and struct.error for an int of more than 64 bits.
    """
    for kind in type(thing).__mro__:
        if (encode := _ENCODERS.get(kind)) is not None:
            return encode(thing)
    raise TypeError(f"AMQP has no type for {type(thing).__name__}")


def string(text: str) -> bytes:
    """Encode a text. A lone surrogate, for which UTF-8 has no octets, becomes U+FFFD."""
    try:
        octets = text.encode()
    except UnicodeEncodeError:
        octets = _SURROGATES.sub("\ufffd", text).encode()
    return _variable(octets, 0xA1)


def binary(octets: bytes) -> bytes:
    return _variable(octets, 0xA0)


def symbol(text: str) -> bytes:
    return _variable(text.encode("ascii"), 0xA3)


def _variable(octets: bytes, code: int) -> bytes:
    """Encode a variable-width value. ``code`` is the short form's constructor; the long form's is 16 more."""
    if len(octets) < 256:
        return bytes((code, len(octets))) + octets
    return struct.pack(">BI", code + 0x10, len(octets)) + octets


def integer(number: int) -> bytes:
    """Encode an int."""
    return struct.pack(">Bb", 0x54, number) if -128 <= number < 128 else struct.pack(">Bi", 0x71, number)


def long(number: int) -> bytes:
    """Encode a long."""
    return struct.pack(">Bb", 0x55, number) if -128 <= number < 128 else struct.pack(">Bq", 0x81, number)


def small(number: int) -> Encoded:
    """Encode a uint below 256."""
    return Encoded((0x52, number))


def double(number: float) -> bytes:
    return struct.pack(">Bd", 0x82, number)


def sequence(items: Iterable[bytes]) -> Encoded:
    """Encode a list of encoded values."""
    encoded = list(items)
    return _compound(encoded, 0xC0) if encoded else Encoded(b"\x45")


def mapping(pairs: Iterable[tuple[bytes, bytes]]) -> Encoded:
    """Encode a map of encoded keys and values."""
    return _compound([part for pair in pairs for part in pair], 0xC1)


def _compound(parts: list[bytes], code: int) -> Encoded:
    content = b"".join(parts)
    if len(content) < 255 and len(parts) < 256:
        return Encoded(bytes((code, len(content) + 1, len(parts))) + content)
    return Encoded(struct.pack(">BII", code + 0x10, len(content) + 4, len(parts)) + content)


def _list(things: Iterable[Any]) -> bytes:
    return sequence(map(value, things))


def _map(things: Mapping[Any, Any]) -> bytes:
    return mapping((value(key), value(thing)) for key, thing in things.items())


_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): lambda _: NULL, bool: lambda truth: TRUE if truth else FALSE, int: long, float: double, str: string,
    bytes: binary, Encoded: lambda encoded: encoded, list: _list, tuple: _list, dict: _map,
}  # fmt: skip


def section(code: int, value: bytes) -> bytes:
    """Encode a described value whose descriptor is a smallulong."""
    return bytes((0x00, 0x53, code)) + value


# Formats of fixed-width payloads by constructor; None: a type that control messages do not use.
_FIXED: Final[dict[int, str | None]] = {
    0x50: ">B", 0x51: ">b", 0x52: ">B", 0x53: ">B", 0x54: ">b", 0x55: ">b", 0x60: ">H", 0x61: ">h",
    0x70: ">I", 0x71: ">i", 0x72: ">f", 0x73: None, 0x74: None, 0x80: ">Q", 0x81: ">q", 0x82: ">d",
    0x83: None, 0x84: None, 0x94: None, 0x98: None,
}  # fmt: skip
_EMPTY: Final[dict[int, Any]] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0}
_WIDTHS: Final = {5: 1, 6: 2, 7: 4, 8: 8, 9: 16}


# Constructors of short strings and symbols, and of small ints and longs.
_SHORT: Final = frozenset((0xA1, 0xA3, 0x54, 0x55))
_SMALL: Final = frozenset((0x54, 0x55))


def _decoded(octets: bytes, code: int) -> str:
    """Decode a string or a symbol. Raises WireError."""
    try:
        return octets.decode("utf-8" if code & 0x0F == 1 else "ascii")
    except UnicodeDecodeError as error:
        raise WireError("a text is not in its encoding") from error


class Parser:
    """Decodes the values in some octets, one after the other.

    Integers of every width become int, strings and symbols str, lists and arrays list, maps dict. Every
    method raises WireError. ``most`` limits the number of values.
    """

    def __init__(self, content: bytes, most: int = MOST_VALUES) -> None:
        if len(content) > LONGEST_MESSAGE:
            raise WireError(f"the message is longer than {LONGEST_MESSAGE} octets")
        self._content = content
        self._at = 0
        self._values = 0
        self._most = most

    @property
    def at(self) -> int:
        """The number of octets decoded so far."""
        return self._at

    @property
    def finished(self) -> bool:
        return self._at == len(self._content)

    def value(self) -> Any:
        """Decode the next value."""
        return self._value(len(self._content), 0)

    def descriptor(self) -> Any:
        """Decode the descriptor of a described value, whose value comes next."""
        end = len(self._content)
        if self._take(1, end)[0]:
            raise WireError("a value has no descriptor")
        return self._value(end, 1)

    def fields(self) -> Iterator[bytes]:
        """Yield the encoded values of a list."""
        end = len(self._content)
        code = self._take(1, end)[0]
        if code == 0x45:
            return
        if code & ~0x10 != 0xC0:
            raise WireError("a value is no list")
        end, count = self._inside(code, end, 0)
        for _ in range(count):
            at = self._at
            self._value(end, 1)
            yield self._content[at : self._at]
        self._must_be_at(end)

    def _take(self, count: int, end: int) -> bytes:
        at = self._at
        if count > end - at:
            raise WireError("a value is cut short")
        self._at = at + count
        return self._content[at : at + count]

    def _value(self, end: int, depth: int) -> Any:
        at = self._at
        if at >= end:
            raise WireError("a value is cut short")
        code = self._content[at]
        self._at = at + 1
        if code in _SHORT:
            return self._short(code, end)
        if code:
            return self._of(code, end, depth)
        if depth >= DEEPEST:
            raise WireError("values are nested too deeply")
        descriptor = self._value(end, depth + 1)
        return Described(descriptor, self._value(end, depth + 1))

    def _short(self, code: int, end: int) -> Any:
        """Decode a short text or a small number, which nearly all values are."""
        self._values += 1
        at = self._at
        if at >= end or self._values > self._most:
            raise WireError("a value is cut short, or one too many")
        octet = self._content[at]
        if code in _SMALL:
            self._at = at + 1
            return octet - 256 if octet > 127 else octet
        stop = at + 1 + octet
        if stop > end:
            raise WireError("a value is cut short")
        self._at = stop
        return _decoded(self._content[at + 1 : stop], code)

    def _of(self, code: int, end: int, depth: int) -> Any:
        self._values += 1
        if self._values > self._most:
            raise WireError(f"the message has more than {self._most} values")
        if code in _FIXED:
            return self._fixed(code, end)
        if code in _EMPTY:
            return _EMPTY[code]
        # The constructors of a type's short and long form differ in one bit.
        match code & ~0x10 if code >= 0xA0 else code:
            case 0x45:
                value: Any = []
            case 0x56:
                value = self._boolean(end)
            case 0xA0:
                value = self._octets(code, end)
            case 0xA1 | 0xA3:
                value = self._text(code, end)
            case 0xC0:
                value = self._list(code, end, depth)
            case 0xC1:
                value = self._map(code, end, depth)
            case 0xE0:
                value = self._array(code, end, depth)
            case _:
                raise WireError("a value has an unknown type")
        return value

    def _fixed(self, code: int, end: int) -> Any:
        octets = self._take(_WIDTHS[code >> 4], end)
        form = _FIXED[code]
        return OTHER if form is None else struct.unpack(form, octets)[0]

    def _boolean(self, end: int) -> bool:
        octet = self._take(1, end)[0]
        if octet > 1:
            raise WireError("a boolean is neither 0 nor 1")
        return octet == 1

    def _size(self, code: int, end: int) -> int:
        """Decode a length or count: one octet if the constructor's high half is even, else four."""
        return int.from_bytes(self._take(4 if code & 0x10 else 1, end), "big")

    def _octets(self, code: int, end: int) -> bytes:
        return self._take(self._size(code, end), end)

    def _text(self, code: int, end: int) -> str:
        return _decoded(self._octets(code, end), code)

    def _inside(self, code: int, end: int, depth: int) -> tuple[int, int]:
        """Return the end of a compound value and its stated number of values."""
        if depth >= DEEPEST:
            raise WireError("values are nested too deeply")
        size = self._size(code, end)
        if size > end - self._at:
            raise WireError("a value is cut short")
        end = self._at + size
        return end, self._size(code, end)

    def _list(self, code: int, end: int, depth: int) -> list[Any]:
        end, count = self._inside(code, end, depth)
        if count > end - self._at:
            raise WireError("a list is shorter than its count")
        values = [self._value(end, depth + 1) for _ in range(count)]
        self._must_be_at(end)
        return values

    def _map(self, code: int, end: int, depth: int) -> dict[Any, Any]:
        values = self._list(code, end, depth)
        if len(values) % 2:
            raise WireError("a map has a key without a value")
        keys = values[::2]
        try:
            result = dict(zip(keys, values[1::2], strict=True))
            # 1 and true are two keys, though equal here; no control message has a use for either.
            twice = len(result) != len(keys) != len({(type(key), key) for key in keys})
        except TypeError as error:
            raise WireError("a map has a key of a type that control messages do not use") from error
        if twice:
            raise WireError("a map has the same key twice")
        return result

    def _array(self, code: int, end: int, depth: int) -> list[Any]:
        end, count = self._inside(code, end, depth)
        element = self._take(1, end)[0]
        if not element:
            raise WireError("an array has described values")
        # Values without octets of their own would allow any count.
        if count > end - self._at:
            raise WireError("an array is shorter than its count")
        values = [self._of(element, end, depth + 1) for _ in range(count)]
        self._must_be_at(end)
        return values

    def _must_be_at(self, end: int) -> None:
        if self._at != end:
            raise WireError("a value is longer than its content")

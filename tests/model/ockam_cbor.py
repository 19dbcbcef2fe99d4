"""The CBOR message of today's Ockam transports (facts source-routes 1.3).

    message = [onward, return, payload: bytes, tracing: text or null]      route = [[type, value: bytes], ...]

Only this shape is read, with definite lengths in as few octets as they need (RFC 8949, 4.2.1). A message of
three elements has no tracing context, as another implementation's schema allows.
"""

from typing import Final

from routerd.source_routes.address import Address, Route
from tests.model.source_routes.bare import wrong
from tests.model.source_routes.message import DEFAULT_LIMITS, MESSAGE_OCTETS, Message, new_message
from tests.model.source_routes.place import Limits
from tests.model.source_routes.refusal import Reason, RefusedError

_UINT, _BYTES, _TEXT, _ARRAY = 0, 2, 3, 4
_NULL: Final = 0xF6


def encode(message: Message) -> bytes:
    """The message without the length in front of it."""
    tracing = bytes((_NULL,))
    if message.tracing is not None:
        text = message.tracing.encode()
        tracing = _head(_TEXT, len(text)) + text
    routes = _route(message.onward) + _route(message.returning)
    return _head(_ARRAY, 4) + routes + _head(_BYTES, len(message.payload)) + message.payload + tracing


def _route(route: Route) -> bytes:
    return _head(_ARRAY, len(route)) + b"".join(
        _head(_ARRAY, 2) + _head(_UINT, address.type) + _head(_BYTES, len(address.value)) + address.value
        for address in route
    )


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes((major << 5 | number,))
    width = next(n for n in range(4) if number < 1 << (8 << n))
    return bytes((major << 5 | 24 + width,)) + number.to_bytes(1 << width, "big")


def decode(octets: bytes, limits: Limits = DEFAULT_LIMITS, most: int = MESSAGE_OCTETS) -> Message:
    """The message in the content of one frame. Raises RefusedError."""
    if len(octets) > most:
        text = f"it has {len(octets)} octets; {most} are allowed"
        raise RefusedError(Reason.MESSAGE_OCTETS, text)
    reader = _Reader(octets, limits)
    elements = reader.head(_ARRAY)
    if elements not in (3, 4):
        raise wrong(f"a message has {elements} elements; there are 3 or 4")
    onward = reader.route(limits.onward, Reason.ONWARD)
    returning = reader.route(limits.returning, Reason.RETURN)
    payload = reader.octets(_BYTES)
    tracing = reader.optional_text() if elements == 4 else None
    reader.end()
    return new_message(onward, returning, payload, tracing)


class _Reader:
    def __init__(self, octets: bytes, limits: Limits) -> None:
        self._octets = octets
        self._limits = limits
        self._at = 0

    def _take(self, count: int) -> bytes:
        if count > len(self._octets) - self._at:
            raise wrong("it is cut short")
        self._at += count
        return self._octets[self._at - count : self._at]

    def head(self, major: int) -> int:
        """The number, length or count of a value that must be of this major type."""
        first = self._take(1)[0]
        if first >> 5 != major:
            raise wrong(f"a value of type {first >> 5} stands where type {major} belongs")
        short = first & 31
        if short < 24:
            return short
        if short > 27:
            raise wrong("a value has no definite length")
        number = int.from_bytes(self._take(1 << short - 24), "big")
        least = 24 if short == 24 else 1 << (8 << short - 25)
        if number < least:
            raise wrong("a number is not written in as few octets as it needs (non-minimal)")
        return number

    def octets(self, major: int) -> bytes:
        return self._take(self.head(major))

    def optional_text(self) -> str | None:
        if self._octets[self._at : self._at + 1] == bytes((_NULL,)):
            self._at += 1
            return None
        try:
            return self.octets(_TEXT).decode()
        except UnicodeDecodeError as error:
            raise wrong("a text is not UTF-8") from error

    def route(self, most: int, reason: Reason) -> Route:
        count = self.head(_ARRAY)
        if count > most:
            raise RefusedError(reason, f"a route is too long: {count} addresses; {most} are allowed")
        found: list[Address] = []
        total = 0
        for _ in range(count):
            found.append(self._address())
            total += len(found[-1].value)
            if total > self._limits.route_octets:
                text = f"a route has more than the {self._limits.route_octets} octets that are allowed"
                raise RefusedError(Reason.ROUTE_OCTETS, text)
        return tuple(found)

    def _address(self) -> Address:
        if (elements := self.head(_ARRAY)) != 2:
            raise wrong(f"an address has {elements} elements; there are 2")
        if (kind := self.head(_UINT)) > 255:
            raise wrong(f"an address type is {kind}; the largest is 255")
        value = self.octets(_BYTES)
        if len(value) > self._limits.address_octets:
            text = f"an address has {len(value)} octets; {self._limits.address_octets} are allowed"
            raise RefusedError(Reason.ADDRESS_OCTETS, text)
        return Address(kind, value)

    def end(self) -> None:
        if self._at < len(self._octets):
            raise wrong(f"{len(self._octets) - self._at} octets follow its end (trailing bytes)")

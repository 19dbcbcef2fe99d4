"""Messages in BARE (draft-devault-bare), versions 1 and 2 (docs/source-routes.md, "In BARE and CBOR").

    message = version:uint  onward:[]address  return:[]address  payload:data  (2:) tracing:optional<string>
    address = type:uint  value:data

A uint is LEB128 of at most 64 bits in as few octets as possible; data and string are a uint length and
octets. The reader checks each length and count against its limit and the octets left before it allocates.
"""

from collections.abc import Mapping
from typing import Final

from routerd.source_routes.address import Address, Route
from tests.model.source_routes.message import DEFAULT_LIMITS, MESSAGE_OCTETS, Message, new_message
from tests.model.source_routes.place import Limits
from tests.model.source_routes.refusal import Reason, RefusedError

MOST: Final = (1 << 64) - 1
_MOST_ENTRIES: Final = 65_536  # entries of a map; a message's metadata has a smaller limit
VERSIONS: Final = (1, 2)


def uint(number: int) -> bytes:
    """Encode an unsigned number. Raises ValueError beyond 64 bits."""
    if not 0 <= number <= MOST:
        raise ValueError(f"{number} is no number of 64 bits")
    octets = bytearray()
    while number > 127:
        octets.append(number & 127 | 128)
        number >>= 7
    octets.append(number)
    return bytes(octets)


def data(octets: bytes) -> bytes:
    """Encode octets with their length in front."""
    return uint(len(octets)) + octets


def string(text: str) -> bytes:
    """Encode a text as UTF-8 with its length in octets in front."""
    return data(text.encode())


def mapping(entries: Mapping[str, bytes]) -> bytes:
    """Encode `map[string]data`, sorted by the octets of the keys, so that equal maps have equal octets."""
    pairs = sorted((key.encode(), value) for key, value in entries.items())
    return uint(len(pairs)) + b"".join(data(key) + data(value) for key, value in pairs)


def encode_address(address: Address) -> bytes:
    return uint(address.type) + data(address.value)


def encode_route(route: Route) -> bytes:
    return uint(len(route)) + b"".join(map(encode_address, route))


def encode(message: Message, version: int = 0) -> bytes:
    """Encode a message; version 0 picks 2 for a message with a tracing context and 1 for others.

    Raises ValueError if version 1 would have to hold a tracing context.
    """
    version = version or (1 if message.tracing is None else 2)
    if version not in VERSIONS or (version == 1 and message.tracing is not None):
        raise ValueError(f"version {version} cannot hold this message")
    routes = encode_route(message.onward) + encode_route(message.returning)
    octets = uint(version) + routes + data(message.payload)
    if version == 1:
        return octets
    return octets + (b"\x00" if message.tracing is None else b"\x01" + string(message.tracing))


def decode(octets: bytes, limits: Limits = DEFAULT_LIMITS, most: int = MESSAGE_OCTETS) -> Message:
    """Decode a message. Raises RefusedError."""
    if not octets:
        raise wrong("it is empty")
    if len(octets) > most:
        text = f"it has {len(octets)} octets; {most} are allowed"
        raise RefusedError(Reason.MESSAGE_OCTETS, text)
    reader = Reader(octets)
    version = reader.uint()
    if version not in VERSIONS:
        raise wrong(f"its version is {version}; there are 1 and 2")
    onward = reader.route(limits.onward, limits, Reason.ONWARD)
    returning = reader.route(limits.returning, limits, Reason.RETURN)
    payload = reader.data()
    tracing = reader.optional_string() if version == 2 else None
    if version == 1 and limits.lenient_tail and reader.rest == b"\x00":
        reader.octet()
    reader.end()
    return new_message(onward, returning, payload, tracing)


def wrong(why: str) -> RefusedError:
    """Return the error for octets that are not a message."""
    return RefusedError(Reason.BAD_ENCODING, f"the encoding is wrong: {why}")


class Reader:
    """Reads values one after the other from octets. Every method raises RefusedError."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._at = 0

    @property
    def rest(self) -> bytes:
        """The octets not read yet."""
        return self._octets[self._at :]

    def octet(self) -> int:
        if self._at >= len(self._octets):
            raise wrong("it is cut short")
        self._at += 1
        return self._octets[self._at - 1]

    def uint(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            octet = self.octet()
            number |= (octet & 127) << shift
            if octet < 128:
                if not octet and shift:
                    raise wrong("a number is not written in as few octets as it needs (non-minimal)")
                if number > MOST:
                    break
                return number
        raise wrong("a number has more than 64 bits")

    def data(self) -> bytes:
        length = self.uint()
        if length > len(self._octets) - self._at:
            raise wrong(f"it is cut short: {length} octets are announced")
        self._at += length
        return self._octets[self._at - length : self._at]

    def string(self) -> str:
        try:
            return self.data().decode()
        except UnicodeDecodeError as error:
            raise wrong("a text is not UTF-8") from error

    def optional_string(self) -> str | None:
        flag = self.octet()
        if flag > 1:
            raise wrong(f"an optional value begins with {flag}; 0 is absent, 1 is present")
        return self.string() if flag else None

    def address(self, limits: Limits = DEFAULT_LIMITS) -> Address:
        kind = self.uint()
        if kind > 255:
            raise wrong(f"an address type is {kind}; the largest is 255")
        value = self.data()
        if len(value) > limits.address_octets:
            text = f"an address has {len(value)} octets; {limits.address_octets} are allowed"
            raise RefusedError(Reason.ADDRESS_OCTETS, text)
        return Address(kind, value)

    def route(self, most: int = 32, limits: Limits = DEFAULT_LIMITS, reason: Reason = Reason.ONWARD) -> Route:
        """Read a route of at most `most` addresses."""
        count = self.uint()
        if count > most:
            raise RefusedError(reason, f"a route is too long: {count} addresses; {most} are allowed")
        found: list[Address] = []
        total = 0
        for _ in range(count):
            found.append(self.address(limits))
            total += len(found[-1].value)
            if total > limits.route_octets:
                text = f"a route has more than the {limits.route_octets} octets that are allowed"
                raise RefusedError(Reason.ROUTE_OCTETS, text)
        return tuple(found)

    def mapping(self, most: int = _MOST_ENTRIES) -> dict[str, bytes]:
        """Read `map[string]data` of at most `most` entries, in any order, without duplicate keys."""
        count = self.uint()
        if count > min(most, (len(self._octets) - self._at) // 2):  # an entry has at least two octets
            raise wrong(f"a map has {count} entries, more than are there or allowed")
        found: dict[str, bytes] = {}
        for _ in range(count):
            key = self.string()
            if key in found:
                raise wrong(f"a map has the key {key[:60]!r} twice")
            found[key] = self.data()
        return found

    def end(self) -> None:
        """Check that nothing is left to read."""
        if self._at < len(self._octets):
            raise wrong(f"{len(self._octets) - self._at} octets follow its end (trailing bytes)")

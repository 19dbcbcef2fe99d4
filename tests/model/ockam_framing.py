"""How messages follow each other on Ockam's TCP transports, as codecs without sockets (facts 1.3).

| framing | first octets | a frame |
|---|---|---|
| `TODAY` | one octet 01, the version | length in 4 octets, then a CBOR message; 16 MiB at most |
| `BEFORE` (to June 2024) | none | length in 2 octets, then a BARE message; 65,535 octets at most |
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tests.model import ockam_cbor as cbor
from tests.model.source_routes import bare
from tests.model.source_routes.bare import wrong
from tests.model.source_routes.message import DEFAULT_LIMITS, MESSAGE_OCTETS, Message
from tests.model.source_routes.place import Limits
from tests.model.source_routes.refusal import Reason, RefusedError


class Framing(NamedTuple):
    """`preamble` is what each side sends first, `width` the octets of a length, `most` the longest frame."""

    name: str
    preamble: bytes
    width: int
    most: int
    encode: Callable[[Message], bytes]
    decode: Callable[[bytes, Limits], Message]


TODAY: Final = Framing("CBOR", b"\x01", 4, 16 * 1024 * 1024, cbor.encode, cbor.decode)
BEFORE: Final = Framing("BARE", b"", 2, 65_535, bare.encode, bare.decode)


def frame(message: Message, framing: Framing) -> bytes:
    """A message with its length in front. Raises RefusedError: it is too long for the framing."""
    content = framing.encode(message)
    if len(content) > framing.most:
        raise _too_long(len(content), framing.most, framing)
    return len(content).to_bytes(framing.width, "big") + content


def _too_long(octets: int, most: int, framing: Framing) -> RefusedError:
    text = f"a frame of {octets} octets; {framing.name} frames have {most} at most"
    return RefusedError(Reason.MESSAGE_OCTETS, text)


class Unframer:
    """From the octets of a connection, in pieces, to its messages. After a refusal it cannot go on.

    It keeps less than one frame, and never more than has arrived, whatever length is announced.
    """

    def __init__(self, framing: Framing, limits: Limits = DEFAULT_LIMITS, most: int = MESSAGE_OCTETS) -> None:
        self._framing = framing
        self._limits = limits
        self._most = min(framing.most, most)
        self._waiting = bytearray()
        self._begun = not framing.preamble

    def feed(self, octets: bytes) -> Iterator[Message]:
        """The messages that these octets complete. Raises RefusedError behind those before the mistake."""
        self._waiting += octets
        if not self._begun and not self._begin():
            return
        at, width = 0, self._framing.width
        try:
            while len(self._waiting) - at >= width:
                length = int.from_bytes(self._waiting[at : at + width], "big")
                if length > self._most:
                    raise _too_long(length, self._most, self._framing)
                end = at + width + length
                if end > len(self._waiting):
                    return
                content = bytes(self._waiting[at + width : end])
                at = end
                yield self._framing.decode(content, self._limits)
        finally:
            del self._waiting[:at]

    def _begin(self) -> bool:
        preamble = self._framing.preamble
        if not self._waiting:
            return False
        if self._waiting[: len(preamble)] != preamble:
            raise wrong(f"the connection begins with {self._waiting[0]:#04x}; version 0x01 was expected")
        del self._waiting[: len(preamble)]
        self._begun = True
        return True

    def end(self) -> None:
        """The connection has ended. Raises RefusedError: in the middle of a frame."""
        if self._waiting:
            raise wrong(f"it is cut short: the connection ended {len(self._waiting)} octets into a frame")

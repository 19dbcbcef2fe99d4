"""Frames of RMR's own transport as values (docs/rmr.md).

A frame is a transport header of 50 octets, RMR's header, trace data, two further data areas and the payload.
Numbers are in network byte order, except the first length and the flags, which are little-endian.
"""

import struct
from typing import Final

import msgspec

from core.rmr.tables import decoding

TRANSPORT_BYTES: Final = 50
HEADER_BYTES: Final = 280
OLD_HEADER_BYTES: Final = 216  # of version 2, which ends before the ip:port
VERSION: Final = 3
LONGEST: Final = 16 << 20  # longer frames are refused
NO_SUBSCRIPTION: Final = -1
CALL: Final = 4  # flag: sent by a blocking call

_LITTLE: Final = struct.Struct("<I")
_TRANSPORT: Final = struct.Struct("<I4sc41x")
_HEADER: Final = struct.Struct(">iiI32s32s64s32s20x4siiiii64s")
_SHORT: Final = struct.Struct(">iiI32s32s64s32s20x4siiiii")
_HEADER_LENGTH: Final = struct.Struct(">i")
_HEADER_LENGTH_AT: Final = 196
_TEXT: Final = 63  # octets of a source
_MEID: Final = 31
_NO_CALL: Final = bytes(4)


class FrameError(ValueError):
    """The octets are no frame. The text says why."""


class Frame(msgspec.Struct, frozen=True):
    """One message.

    ``source`` is name:port, ``source_ip`` the same with an address. ``transaction`` and ``sid`` have up to 32
    octets. ``d1`` begins with the number of a blocking call, or 0.
    """

    message_type: int
    payload: bytes = b""
    subscription: int = NO_SUBSCRIPTION
    meid: str = ""
    source: str = ""
    source_ip: str = ""
    transaction: bytes = b""
    sid: bytes = b""
    flags: int = 0
    trace: bytes = b""
    d1: bytes = _NO_CALL
    d2: bytes = b""
    version: int = VERSION
    short: bool = False  # the header is of version 2

    @property
    def call(self) -> int:
        """The number of the blocking call that the frame makes or answers; 0: none."""
        return self.d1[0] if self.d1 else 0


def header(frame: Frame) -> bytes:
    """Encode what stands between the transport header and the payload. Raises FrameError."""
    size = OLD_HEADER_BYTES if frame.short else HEADER_BYTES
    values = (
        frame.message_type,
        len(frame.payload),
        frame.version,
        _octets(frame.transaction, 32, "transaction id"),
        _octets(frame.sid, 32, "sid"),
        _octets(decoding.octets_of(frame.source), _TEXT, "source"),
        _octets(decoding.octets_of(frame.meid), _MEID, "MEID"),
        _LITTLE.pack(frame.flags),
        size,
        len(frame.trace),
        len(frame.d1),
        len(frame.d2),
        frame.subscription,
    )
    try:
        if frame.short:
            front = _SHORT.pack(*values)
        else:
            source_ip = decoding.octets_of(frame.source_ip)
            front = _HEADER.pack(*values, _octets(source_ip, _TEXT, "source's address"))
    except struct.error as error:
        raise FrameError(f"a number does not fit the header: {error}") from error
    return front + frame.trace + frame.d1 + frame.d2


def encode(frame: Frame) -> bytes:
    """Encode a whole frame. Raises FrameError."""
    return transport(header(frame) + frame.payload)


def transport(rest: bytes) -> bytes:
    """Return a frame from what follows its transport header."""
    length = TRANSPORT_BYTES + len(rest)
    return _TRANSPORT.pack(length, length.to_bytes(4, "big"), b"$") + rest


def length_of(data: bytes | bytearray) -> int | None:
    """Return the length of the frame that begins here, or None if unknown yet. Raises FrameError."""
    if len(data) < 4:
        return None
    (length,) = _LITTLE.unpack_from(data)
    if not TRANSPORT_BYTES + OLD_HEADER_BYTES <= length <= LONGEST:
        raise FrameError(f"a frame of {length} octets")
    return int(length)


def decode(data: bytes) -> Frame:
    """Decode a frame that fills the octets. Raises FrameError."""
    length = length_of(data)
    if length is None or length > len(data):
        raise FrameError("the frame is cut off")
    return parse(data[TRANSPORT_BYTES:length])


def parse(rest: bytes) -> Frame:
    """Decode a frame from what follows its transport header. Raises FrameError."""
    if len(rest) < OLD_HEADER_BYTES:
        raise FrameError(f"a header of {len(rest)} octets")
    (size,) = _HEADER_LENGTH.unpack_from(rest, _HEADER_LENGTH_AT)
    if not OLD_HEADER_BYTES <= size <= len(rest):
        raise FrameError(f"a header whose length is given as {size}")
    known = (_HEADER if size >= HEADER_BYTES else _SHORT).unpack_from(rest)
    kind, payload, version, transaction, sid, source, meid, flags, _, *lengths, subscription = known[:13]
    trace, d1, d2 = (int(one) for one in lengths)
    if min(trace, d1, d2, payload) < 0 or size + trace + d1 + d2 + payload > len(rest):
        raise FrameError(f"parts of {size}, {trace}, {d1}, {d2} and {payload} octets in {len(rest)}")
    at = size
    parts = []
    for part in (trace, d1, d2, payload):
        parts.append(rest[at : at + part])
        at += part
    return Frame(
        message_type=kind,
        payload=parts[3],
        subscription=subscription,
        meid=_word(meid),
        source=_word(source),
        source_ip=_word(known[13]) if size >= HEADER_BYTES else "",
        transaction=transaction.rstrip(b"\0"),
        sid=sid.rstrip(b"\0"),
        flags=int(_LITTLE.unpack(flags)[0]),
        trace=parts[0],
        d1=parts[1],
        d2=parts[2],
        version=version,
        short=size < HEADER_BYTES,
    )


class Reader:
    """Decodes frames from the octets of a stream in pieces of any size."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take octets and return the frames that are complete now. Raises FrameError."""
        self._data += data
        found = []
        while (length := length_of(self._data)) is not None and length <= len(self._data):
            found.append(parse(bytes(self._data[TRANSPORT_BYTES:length])))
            del self._data[:length]
        return found


def _word(octets: bytes) -> str:
    return decoding.lossless(octets.partition(b"\0")[0])


def _octets(value: bytes, most: int, what: str) -> bytes:
    if len(value) > most:
        raise FrameError(f"{what} has {len(value)} octets; {most} fit")
    return value

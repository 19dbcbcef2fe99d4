"""RMR frames in AMQP messages, as workers encode and decode them (docs/rmr.md).

RMR's header is a message annotation, followed by trace data and two further data areas. The payload is a data
section. Numbers of the header are in network byte order, its flags little-endian.
"""

import struct
from typing import Final

from core.amqp.codec import Described, Parser, WireError, binary, mapping, section, symbol
from core.rmr.managers.messages import Heard, Said
from core.rmr.tables import decoding
from shm.contract.text import printable

ANNOTATION: Final = "x-opt-rmr.header"
LONGEST: Final = 64 << 20  # octets of a control message; a table of a million entries takes 43 MB
CALL: Final = 4  # flag of a header: sent by a blocking call

# Message type, payload length, version, transaction id, sid, source, MEID, flags, the lengths of header, trace data and
# the two data areas, and the subscription id. Version 3 adds the source's ip:port, which the router only writes.
_HEADER: Final = struct.Struct(">iiI32s32s64s32s20x4siiiii")
_VERSION: Final = 3
_HOST_BYTES: Final = 64
_ANNOTATIONS: Final = 0x72
_DATA: Final = 0x75
_SIZES: Final = {0x40: 0, 0x45: 0, 0xA0: 1, 0xC0: 1, 0xC1: 1, 0xB0: 4, 0xD0: 4, 0xD1: 4}


class EnvelopeError(ValueError):
    """The message was not made from a frame by a worker. The text says why."""


def opened(content: bytes, answer: str, host: str) -> Heard:
    """Return the frame in a message. Raises EnvelopeError."""
    header, payload = b"", []
    for code, start, stop in _sections(content):
        if code == _DATA:
            payload.append(content[start:stop])
        elif code == _ANNOTATIONS:
            header = _header(content[:stop], start)
    frame = header + b"".join(payload)
    if len(frame) < _HEADER.size:
        raise EnvelopeError(f"a header of {len(frame)} octets")
    kind, length, _, xact, _, named, _, flags, size, trace, d1, d2, _ = _HEADER.unpack_from(frame)
    if not _HEADER.size <= size <= len(frame):
        raise EnvelopeError(f"a header whose length is given as {size}")
    start = size + trace + d1 + d2
    if min(trace, d1, d2, length) < 0 or start + length > len(frame):
        raise EnvelopeError(f"parts of {size}, {trace}, {d1}, {d2} and {length} octets in {len(frame)}")
    call = frame[size + trace] if d1 and int.from_bytes(flags, "little") & CALL else 0
    text = decoding.lossless(named.partition(b"\0")[0])
    source = printable(text, decoding.LONGEST_SHOWN)
    why = decoding.fault(text)
    fault = f"its source {source!r} {why}" if why else ""
    return Heard(kind, source, frame[start : start + length], answer, host, xact.rstrip(b"\0"), call, fault)


def sealed(said: Said, source: str) -> bytes:
    """Encode a message of the router itself. Raises EnvelopeError.

    ``source``: its ip:port, needed if answers use another connection.
    """
    names = [decoding.octets_of(one) for one in (said.source, source)]
    if max(map(len, names)) >= _HOST_BYTES:
        raise EnvelopeError(f"a source of more than {_HOST_BYTES - 1} octets")
    header = _HEADER.pack(
        said.kind, len(said.payload), _VERSION, said.xact, b"", names[0], b"", b"", _HEADER.size + _HOST_BYTES,
        0, 4, 0, said.subscription,
    )  # fmt: skip
    header += names[1].ljust(_HOST_BYTES, b"\0") + bytes((said.call, 0, 0, 0))
    annotations = mapping([(symbol(ANNOTATION), binary(header))])
    return section(_ANNOTATIONS, annotations) + section(_DATA, binary(said.payload))


def _sections(content: bytes) -> list[tuple[int, int, int]]:
    """Return each section's code, and where the content of its value begins and ends.

    Raises EnvelopeError.
    """
    found = []
    at = 0
    while at < len(content):
        if content[at : at + 2] != b"\x00\x53" or at + 4 > len(content):
            raise EnvelopeError(f"no section begins at octet {at}")
        width = _SIZES.get(content[at + 3])
        if width is None:
            raise EnvelopeError(f"a section of type {content[at + 3]:#x}")
        start = at + 4 + width
        stop = start + int.from_bytes(content[at + 4 : start], "big")
        if stop > len(content):
            raise EnvelopeError("a section is cut short")
        found.append((content[at + 2], start if content[at + 2] == _DATA else at, stop))
        at = stop
    return found


def _header(content: bytes, start: int) -> bytes:
    try:
        value = Parser(content[start:]).value()
    except WireError as error:
        raise EnvelopeError(f"the annotations: {error}") from error
    annotations = value.value if isinstance(value, Described) else None
    header = annotations.get(ANNOTATION) if isinstance(annotations, dict) else None
    if not isinstance(header, bytes):
        raise EnvelopeError("the annotations contain no RMR header")
    return header

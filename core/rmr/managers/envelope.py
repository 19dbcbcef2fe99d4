"""RMR frames in AMQP messages, as workers encode and decode them.

The header is a message annotation, and the payload is a data section (docs/rmr.md).
"""

from typing import Final

from core.amqp.codec import Described, Parser, WireError, binary, mapping, section, symbol
from core.rmr.managers import frames
from core.rmr.managers.words import Heard, Said
from core.rmr.tables import border
from shm.contract.text import printable

ANNOTATION: Final = "x-opt-rmr.header"
LONGEST: Final = 64 << 20  # octets of a control message; a table of a million entries takes 43 MB

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
    try:
        frame = frames.parse(header + b"".join(payload))
    except frames.FrameError as error:
        raise EnvelopeError(str(error)) from error
    call = frame.call if frame.flags & frames.CALL else 0
    why = border.fault(frame.source)
    fault = f"its source {printable(frame.source, border.LONGEST_SHOWN)!r} {why}" if why else ""
    source = printable(frame.source, border.LONGEST_SHOWN)
    return Heard(frame.message_type, source, frame.payload, answer, host, frame.transaction, call, fault)


def sealed(said: Said, source: str) -> bytes:
    """Encode a message of the router itself.

    ``source``: its ip:port, needed if answers use another connection.
    """
    frame = frames.Frame(
        said.kind,
        said.payload,
        said.subscription,
        source=said.source,
        source_ip=source,
        transaction=said.xact,
        d1=bytes((said.call, 0, 0, 0)),
    )
    header = frames.header(frame)
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

"""A whole message as the payload of another (docs/source-routes.md).

| form | octets | holds |
|---|---|---|
| `amqp` | a message-annotations section, then the payload, which is the AMQP bare message | everything |
| `bare` | a BARE message | routes, payload and tracing context; no metadata, state or hops |
"""

import struct
from typing import Any, Final

from core.amqp import codec as wire
from tests.model.source_routes import bare
from tests.model.source_routes.annotations import HOPS, META, NESTING, STATE, TRACING, from_annotations, to_annotations
from tests.model.source_routes.bare import wrong
from tests.model.source_routes.message import Message
from tests.model.source_routes.place import Limits
from tests.model.source_routes.refusal import Reason, RefusedError
from tests.model.source_routes.workers import Form

_SECTION: Final = b"\x00\x53\x72"  # a described map of message annotations (AMQP 1.0 part 3.2.3)
_MOST_ANNOTATIONS: Final = 65_536  # octets; the limits allow at most a third of this


def encode(message: Message, form: Form) -> bytes:
    """Encode the message as a payload."""
    if form == "bare":
        return bare.encode(message)
    pairs = [(wire.symbol(key), _annotation(key, one)) for key, one in to_annotations(message).items()]
    return wire.section(0x72, wire.mapping(pairs)) + message.payload


def _annotation(key: str, value: Any) -> bytes:
    if key in (HOPS, NESTING):
        return _ubyte(value)
    if key == STATE:
        return wire.symbol(value)
    if key == TRACING:
        return wire.string(value)
    if key == META:
        return wire.mapping((_key(name), _value(one)) for name, one in value.items())
    return wire.sequence(
        _value(one) if isinstance(one, str) else wire.sequence((_ubyte(one[0]), _value(one[1]))) for one in value
    )


def _key(name: str) -> bytes:
    return wire.symbol(name) if name.isascii() else wire.string(name)


def _ubyte(number: int) -> bytes:
    return bytes((0x50, number))


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"\x41" if value else b"\x42"
    if isinstance(value, int):
        return wire.long(value)
    if isinstance(value, str):
        return wire.string(value)
    if isinstance(value, bytes):
        short = len(value) < 256
        return struct.pack(">BB" if short else ">BI", 0xA0 if short else 0xB0, len(value)) + value
    return wire.sequence(map(_value, value))


def decode(octets: bytes, form: Form, limits: Limits) -> Message:
    """Decode the message in a payload. Raises RefusedError."""
    if form == "bare":
        return bare.decode(octets, limits)
    size, at = _size(octets)
    if size > _MOST_ANNOTATIONS:
        text = f"{size} octets of annotations; {_MOST_ANNOTATIONS} are allowed"
        raise RefusedError(Reason.MESSAGE_OCTETS, text)
    if size > len(octets) - at:
        raise wrong("its annotations are cut short")
    end = at + size
    try:
        annotations = wire.Parser(octets[len(_SECTION) : end]).value()
    except wire.WireError as error:
        raise wrong(f"its annotations are no AMQP: {error}") from error
    return from_annotations(annotations, octets[end:], limits=limits)


def _size(octets: bytes) -> tuple[int, int]:
    """Return the length of the map of annotations in octets, and the offset of its content."""
    head = octets[:8]
    if head.startswith(_SECTION + b"\xc1") and len(head) >= 5:
        return head[4], 5
    if head.startswith(_SECTION + b"\xd1") and len(head) == 8:
        return int.from_bytes(head[4:8], "big"), 8
    raise wrong("it does not begin with message annotations")

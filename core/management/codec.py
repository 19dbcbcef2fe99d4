"""Decodes management requests from AMQP messages and encodes the responses.

Our own codec decodes requests and checks every length and count, because the engine re-encodes values from
malformed input unchecked, which could crash the router. The engine's message class encodes responses, whose
values are our own. The agent imports this module with the first request, so that a router without requests
does not load the engine in its core.
"""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

import msgspec
from proton import Message, ProtonException, ulong

from core.amqp import codec as wire
from core.management.request import BAD_REQUEST, TEXTS, ManagementError, Request, Response, request_of
from shm.contract.sections import section_code

MOST_VALUES: Final = 65_535  # of a request; a response has no more either

# Descriptors of sections, and indices in the properties (AMQP 1.0 part 3.2).
_HEADER: Final = 0x70
_DELIVERY_ANNOTATIONS: Final = 0x71
_MESSAGE_ANNOTATIONS: Final = 0x72
_PROPERTIES: Final = 0x73
_APPLICATION: Final = 0x74
_BODIES: Final = (0x75, 0x76, 0x77)
_FOOTER: Final = 0x78
_TO: Final = 2
_REPLY_TO: Final = 4
_CORRELATION_ID: Final = 5
_MOST_FIELDS: Final = 13
_LARGEST: Final = 2**63 - 1


class Envelope(msgspec.Struct, frozen=True):
    """Where the response goes, and its correlation-id in the original type."""

    reply_to: str
    correlation_id: Any = None


class NoReplyError(Exception):
    """The request cannot be answered: it is no AMQP message or has no reply-to."""


class TooManyValuesError(Exception):
    """The response has more than the 65,535 values that the engine encodes in one message."""


def decode(content: bytes) -> tuple[Envelope, Request | ManagementError]:
    """Decode a message into a request, or into the error to answer. Raises NoReplyError."""
    fields: list[bytes] = []
    properties = body = None
    wrong = ""
    try:
        for code, _, value in _sections(content, fields):
            if code == _APPLICATION:
                properties = value
            elif code in _BODIES:
                body = value
    except wire.WireError as error:  # the reply-to may already be decoded
        wrong = f"the request cannot be decoded: {error}"
    reply_to = wire.Parser(fields[_REPLY_TO]).value() if len(fields) > _REPLY_TO else None
    if not isinstance(reply_to, str) or not reply_to:
        raise NoReplyError(wrong or "the request has no reply-to")
    envelope = Envelope(reply_to)
    try:
        envelope = Envelope(reply_to, _correlation(fields))
        if wrong:
            raise ManagementError(BAD_REQUEST, wrong)
        _check(properties, body)
        return envelope, request_of(properties, body)
    except ManagementError as error:
        return envelope, error


def _sections(content: bytes, fields: list[bytes]) -> Iterator[tuple[int, bytes, Any]]:
    """Yield the code, encoded value and value of each section. Raises WireError unless they are in order.

    ``fields`` receives the encoded fields of the properties, up to a malformed one.
    """
    parser = wire.Parser(content, MOST_VALUES)
    last = 0
    while not parser.finished:
        code = section_code(parser.descriptor())
        if code is None or not _HEADER <= code <= _FOOTER or code <= last:
            raise wire.WireError("the sections are not those of a message, each once and in order")
        if code in _BODIES and last in _BODIES:
            raise wire.WireError("the message has two kinds of body")
        last, at = code, parser.at
        value = None
        if code == _PROPERTIES:
            for field in parser.fields():
                if len(fields) == _MOST_FIELDS:
                    raise wire.WireError(f"the properties have more than {_MOST_FIELDS} fields")
                fields.append(field)
        else:
            value = parser.value()
        yield code, content[at : parser.at], value


def _correlation(fields: list[bytes]) -> Any:
    """Return the correlation-id in its original type. Raises ManagementError."""
    field = fields[_CORRELATION_ID] if len(fields) > _CORRELATION_ID else wire.NULL
    value = wire.Parser(field).value()
    match field[0]:
        case 0x40 | 0xA0 | 0xB0 | 0xA1 | 0xB1:
            return value
        case 0x44 | 0x53 | 0x80:
            return ulong(value)
        case 0x98:
            return UUID(bytes=field[1:])
    raise ManagementError(BAD_REQUEST, "correlation-id must be a ulong, a uuid, binary or a string")


def _check(properties: Any, body: Any) -> None:
    """Raises ManagementError for values that no request contains."""
    if isinstance(properties, dict) and not all(isinstance(name, str) for name in properties):
        raise ManagementError(BAD_REQUEST, "a key of the application properties is no string")
    rest = [properties, body]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            rest += [*value, *value.values()]
        elif isinstance(value, list):
            rest += value
        elif isinstance(value, wire.Described) or value is wire.OTHER:
            raise ManagementError(BAD_REQUEST, "the request has a value of a type that management does not use")
        elif isinstance(value, int) and value > _LARGEST:
            raise ManagementError(BAD_REQUEST, f"the request has a number larger than {_LARGEST}")


def led(content: bytes, to: str) -> bytes:
    """Return a request for another router's agent: unchanged, but with a new `to` and without annotations.

    It raises WireError only for content that `decode` rejects.
    """
    fields: list[bytes] = []
    parts = []
    for code, encoded, _ in _sections(content, fields):
        if code == _PROPERTIES:
            fields[_TO] = wire.string(to)
            parts.append(wire.section(code, wire.sequence(fields)))
        elif code not in (_DELIVERY_ANNOTATIONS, _MESSAGE_ANNOTATIONS):
            parts.append(wire.section(code, encoded))
    return b"".join(parts)


def encode(envelope: Envelope, response: Response) -> bytes:
    """Encode a response. Raises TooManyValuesError."""
    message = Message(
        address=envelope.reply_to,
        correlation_id=envelope.correlation_id,
        durable=False,
        properties={
            "statusCode": _status(response.status),
            "statusDescription": response.text or TEXTS[response.status],
        },
        body={} if response.body is None else response.body,
    )
    try:
        return bytes(message.encode())
    except ProtonException as error:
        raise TooManyValuesError(str(error)) from error


def _status(status: int) -> Any:
    from proton import int32  # noqa: PLC0415  at module level the name would shadow another

    return int32(status)

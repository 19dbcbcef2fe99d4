"""Between AMQP messages and requests.

What a peer has sent is read by our own parser, which checks every length and count: the engine encodes values
that it has decoded from bad ones without looking, and a router must not end by that. The engine's message
class writes answers, from values of our own. It is imported with the first request: a router that nobody asks
does without the engine in its core process.
"""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

import msgspec
from proton import Message, ProtonException, ulong

from core.amqp import codec as wire
from core.management.request import BAD_REQUEST, TEXTS, ManagementError, Request, Response, request_of
from shm.contract.sections import section_code

MOST_VALUES: Final = 65_535  # of a request; an answer has no more, either

# Descriptors of sections, and places in the properties (AMQP 1.0 part 3.2).
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
    """Whom to answer, and with which correlation-id (of its original type)."""

    reply_to: str
    correlation_id: Any = None


class NoReplyError(Exception):
    """The request cannot be answered: it is no AMQP message, or does not say to whom."""


class TooManyValuesError(Exception):
    """The response has more values than the engine puts into one message: 65,535."""


def decode(content: bytes) -> tuple[Envelope, Request | ManagementError]:
    """The request in a message, or what is wrong with it. Raises NoReplyError."""
    fields: list[bytes] = []
    properties = body = None
    wrong = ""
    try:
        for code, _, value in _sections(content, fields):
            if code == _APPLICATION:
                properties = value
            elif code in _BODIES:
                body = value
    except wire.WireError as error:  # whoever is to be answered may be known by now
        wrong = f"the request cannot be decoded: {error}"
    reply_to = wire.Parser(fields[_REPLY_TO]).value() if len(fields) > _REPLY_TO else None
    if not isinstance(reply_to, str) or not reply_to:
        raise NoReplyError(wrong or "it has no reply-to")
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
    """Code, encoded value and value of each section, once each and in their order. Raises WireError.

    ``fields`` gets those of the properties, as they are encoded, up to one that is wrong.
    """
    parser = wire.Parser(content, MOST_VALUES)
    last = 0
    while not parser.finished:
        code = section_code(parser.descriptor())
        if code is None or not _HEADER <= code <= _FOOTER or code <= last:
            raise wire.WireError("its sections are not those of a message, once each and in their order")
        if code in _BODIES and last in _BODIES:
            raise wire.WireError("it has bodies of two kinds")
        last, at = code, parser.at
        value = None
        if code == _PROPERTIES:
            for field in parser.fields():
                if len(fields) == _MOST_FIELDS:
                    raise wire.WireError(f"its properties have more than {_MOST_FIELDS} fields")
                fields.append(field)
        else:
            value = parser.value()
        yield code, content[at : parser.at], value


def _correlation(fields: list[bytes]) -> Any:
    """The correlation-id, of its own type. Raises ManagementError."""
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
    """Raises ManagementError for values that no request has."""
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
            raise ManagementError(
                BAD_REQUEST, "the request has a value of a type that management does not use"
            )
        elif isinstance(value, int) and value > _LARGEST:
            raise ManagementError(BAD_REQUEST, f"the request has a number larger than {_LARGEST}")


def led(content: bytes, to: str) -> bytes:
    """A request as it goes on to the agent of another router: as it came, but for whom it is to and what
    routers on its way have noted. Raises WireError, never for one that has been decoded."""
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
    """The message that answers."""
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
    from proton import int32  # noqa: PLC0415  the name shadows nothing only in here

    return int32(status)

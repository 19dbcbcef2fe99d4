"""Decodes management requests from AMQP messages and encodes the responses."""

from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Any, Final

import msgspec

from core.amqp import codec as wire
from core.amqp import message
from core.amqp.message import BODIES, composed, sections
from core.management.request import (
    BAD_REQUEST,
    MOST_VALUES,
    REPLY_LIMIT,
    ManagementError,
    Request,
    Response,
    TooLongError,
    request_of,
)

_LARGEST: Final = 2**63 - 1
_PORTIONED: Final = 2  # containers around the rows of a page
_CONTAINERS: Final = (dict, list, tuple)
# Constructors of null, binary, string, ulong and uuid.
_CORRELATIONS: Final = frozenset((0x40, 0xA0, 0xB0, 0xA1, 0xB1, 0x44, 0x53, 0x80, 0x98))


class Envelope(msgspec.Struct, frozen=True):
    """The address of the response, and its correlation-id, encoded as in the request."""

    reply_to: str
    correlation_id: bytes = wire.NULL


class NoReplyError(Exception):
    """The request cannot be answered: it is no AMQP message or has no reply-to."""


def decode(content: bytes) -> tuple[Envelope, Request | ManagementError]:
    """Decode a message into a request, or into the error to answer. Raises NoReplyError."""
    fields: list[bytes] = []
    properties = body = None
    wrong = ""
    try:
        for code, value, _ in sections(content, MOST_VALUES, fields):
            if code == message.APPLICATION:
                properties = value
            elif code in BODIES:
                body = value
    except wire.WireError as error:  # the reply-to may already be decoded
        wrong = f"the request cannot be decoded: {error}"
    reply_to = wire.Parser(fields[message.REPLY_TO]).value() if len(fields) > message.REPLY_TO else None
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


def _correlation(fields: list[bytes]) -> bytes:
    """Return the encoded correlation-id. Raises ManagementError for a type that no correlation-id has."""
    field = fields[message.CORRELATION_ID] if len(fields) > message.CORRELATION_ID else wire.NULL
    if field[0] not in _CORRELATIONS:
        raise ManagementError(BAD_REQUEST, "correlation-id must be a ulong, a uuid, binary or a string")
    return field


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


def led(content: bytes, to: str, reply_to: str) -> bytes:
    """Return a request for another router's agent, with a new `to` and reply-to and without annotations.

    It raises WireError only for content that `decode` rejects.
    """
    fields: list[bytes] = []
    parts = []
    for code, _, encoded in sections(content, MOST_VALUES, fields):
        if code == message.PROPERTIES:
            fields[message.TO], fields[message.REPLY_TO] = wire.string(to), wire.string(reply_to)
            parts.append(wire.section(code, wire.sequence(fields)))
        elif code not in (message.DELIVERY_ANNOTATIONS, message.MESSAGE_ANNOTATIONS):
            parts.append(wire.section(code, encoded))
    return b"".join(parts)


def encode(envelope: Envelope, response: Response, give_way: Callable[[], None] = lambda: None) -> bytes:
    """Encode a response, and call ``give_way`` before each row of a page. Raises TooLongError."""
    body = _Body(give_way).encoded({} if response.body is None else response.body, _PORTIONED)
    properties = {message.TO: wire.string(envelope.reply_to), message.CORRELATION_ID: envelope.correlation_id}
    text = response.text or HTTPStatus(response.status).phrase
    status = {"statusCode": wire.Encoded(wire.integer(response.status)), "statusDescription": text}
    content = composed(properties, status, wire.Encoded(body))
    if len(content) > REPLY_LIMIT:
        raise TooLongError
    return content


class _Body:
    """Encodes a body in portions: the rows of a page, which are lists in a list in a map, one after the other."""

    def __init__(self, give_way: Callable[[], None]) -> None:
        self._give_way = give_way
        self._left = MOST_VALUES

    def encoded(self, thing: Any, portioned: int) -> bytes:
        """Encode a value whose outer containers, ``portioned`` deep, are encoded in portions. Raises TooLongError."""
        if portioned and isinstance(thing, dict):
            self._count(1 + len(thing))
            pairs = ((wire.value(key), self.encoded(one, portioned - 1)) for key, one in thing.items())
            return wire.mapping(pairs)
        if portioned and isinstance(thing, list | tuple):
            self._count(1)
            return wire.sequence(self.encoded(one, portioned - 1) for one in thing)
        self._give_way()
        self._count(_values(thing))
        return wire.value(thing)

    def _count(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise TooLongError


def _values(thing: Any) -> int:
    """Return the number of values in a value."""
    if isinstance(thing, dict):
        return 1 + len(thing) + _inside(thing.values())
    return 1 + _inside(thing) if isinstance(thing, list | tuple) else 1


def _inside(things: Collection[Any]) -> int:
    return len(things) + sum(_values(one) - 1 for one in things if isinstance(one, _CONTAINERS))

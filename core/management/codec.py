"""Between AMQP messages and requests, with the engine's own message class.

Imported with the first request: a router that nobody asks does without the engine in its core process.
"""

from typing import Any

import msgspec
from proton import Data, Message, ProtonException

from core.management.request import BAD_REQUEST, TEXTS, ManagementError, Request, Response, request_of
from shm.sections import section_code

# TypeError: a map with a key that Python's have no place for
_UNDECODABLE = (ProtonException, TypeError, ValueError, RecursionError)
_SYMBOL8 = 0xA3  # constructor of a short symbol (AMQP 1.6.21)
_PROPERTIES = 0x73  # descriptor of that section (AMQP 3.2.4)
_CORRELATION_ID = 5  # its place in it


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
    message = Message()
    try:
        content = _numbered(content)
        message.decode(content)
        correlation = message.correlation_id
        if isinstance(correlation, memoryview):  # of the message's own memory
            correlation = bytes(correlation)
        envelope = Envelope(message.reply_to or "", correlation)
    except _UNDECODABLE as error:
        raise NoReplyError(f"it cannot be decoded: {error}") from error
    if not envelope.reply_to:
        raise NoReplyError("it has no reply-to")
    try:
        if correlation is None and _has_correlation(content):
            text = "correlation-id must be a ulong, a uuid, binary or a string"
            return envelope, ManagementError(BAD_REQUEST, text)
        return envelope, request_of(_kept(message.properties), _kept(message.body))
    except ManagementError as error:
        return envelope, error
    except _UNDECODABLE as error:
        return envelope, ManagementError(BAD_REQUEST, f"the request cannot be decoded: {error}")


def _numbered(content: bytes) -> bytes:
    """The message with its sections by number: the engine passes over those that stand there by name."""
    sections = []
    while content and b"amqp:" in content:
        data = Data()
        size = data.decode(content)
        data.rewind()
        data.next()
        data.enter()
        if data.next() == Data.SYMBOL and (code := section_code(str(data.get_symbol()))) is not None:
            name = 3 + content[2] if content[1] == _SYMBOL8 else 6 + int.from_bytes(content[2:6])
            sections += [bytes((0x00, 0x53, code)), content[name:size]]
        else:
            sections.append(content[:size])
        content = content[size:]
    return b"".join((*sections, content))


def _has_correlation(content: bytes) -> bool:
    """Whether a message has a correlation-id; one of a wrong type the engine takes for none."""
    data = Data()
    while content:
        data.clear()
        size = data.decode(content)
        data.rewind()
        data.next()
        data.enter()  # the section's descriptor and value
        data.next()
        if data.type() == Data.ULONG and data.get_ulong() == _PROPERTIES:
            data.next()
            data.enter()
            fields = [data.type() for _ in range(_CORRELATION_ID + 1) if data.next() is not None]
            return len(fields) > _CORRELATION_ID and fields[_CORRELATION_ID] != Data.NULL
        content = content[size:]
    return False


def _kept(value: Any) -> Any:
    """Binary values as bytes of our own: they are views of the message's memory, which goes with it."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return {_kept(name): _kept(one) for name, one in value.items()}
    return [_kept(one) for one in value] if type(value) is list else value


def led(content: bytes, to: str) -> bytes:
    """A request as it goes on to the agent of another router."""
    message = Message()
    message.decode(content)
    message.address, message.annotations, message.instructions = to, None, None
    return bytes(message.encode())


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

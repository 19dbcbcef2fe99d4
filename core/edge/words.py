"""The messages on an edge connection, encoded as AMQP 1.0 messages (part 3.2)."""

from typing import Any, Final

import msgspec

from core.amqp import codec as wire
from core.interior.message import BadMessageError, composed, sections
from core.interior.skupper import from_skupper, to_skupper

_PROPERTIES: Final = 0x73
_APPLICATION: Final = 0x74
_VALUE: Final = 0x77
_TO: Final = 2
_REPLY_TO: Final = 4
_CORRELATION: Final = 5

TRUE: Final = b"\x41"
OK, NOT_FOUND = 0, 3  # statuses of an answer about an address
VERSION: Final = 1
OPCODE: Final = 1


class Question(msgspec.Struct, frozen=True):
    """A question where links to an address lead, and the address for the answer."""

    reply_to: str
    correlation: str
    address: str
    receives: bool


class Answer(msgspec.Struct, frozen=True):
    """An answer: whether links to the address are routed, and whether a broker is connected."""

    correlation: str
    routed: bool
    reached: bool


def _truth(value: bool) -> bytes:
    return TRUE if value else wire.FALSE


def _small(number: int) -> bytes:
    """Encode an unsigned number below 256 as smalluint."""
    return bytes((0x52, number))


_SAID: Final = {"version": _small(VERSION), "opcode": _small(OPCODE)}


def tracking(key: str, reached: bool, skupper: bool = False) -> bytes:
    """Encode whether an address has receivers beyond. ``skupper`` selects skupper-router's spelling."""
    if skupper:
        key = to_skupper(key) or key
    return composed({}, {}, wire.sequence([wire.string(key), _truth(reached)]))


def tracked(content: bytes, skupper: bool = False) -> tuple[str, bool]:
    """Decode a message of ``tracking``: key, and whether it has receivers. Raises BadMessageError."""
    match sections(content).get(_VALUE):
        case [str(key), bool(reached)]:
            return (from_skupper(key) or key) if skupper else key, reached
    raise BadMessageError("the body is no list of an address and a boolean")


def heartbeat(number: int) -> bytes:
    """Encode a heartbeat of the edge router."""
    return composed({}, {}, wire.integer(number & 0x7FFFFFFF))


def question(content: bytes) -> Question:
    """Decode an edge router's question. Raises BadMessageError, and the message is rejected."""
    parts = sections(content)
    properties = parts.get(_PROPERTIES)
    if not isinstance(properties, list) or len(properties) <= _CORRELATION:
        raise BadMessageError("the question has no reply-to or no correlation-id")
    reply_to, correlation = properties[_REPLY_TO], properties[_CORRELATION]
    if not isinstance(reply_to, str) or not isinstance(correlation, str):
        raise BadMessageError("the question's reply-to or correlation-id is no string")
    said: Any = parts.get(_APPLICATION)
    if not isinstance(said, dict) or (said.get("version"), said.get("opcode")) != (VERSION, OPCODE):
        raise BadMessageError(f"the message is no question (opcode {OPCODE}) of version {VERSION}")
    match parts.get(_VALUE):
        case [str(address), bool(receives)]:
            return Question(reply_to, correlation, address, receives)
    raise BadMessageError("the body is no list of an address and a boolean")


def answer(asked: Question, routed: bool, reached: bool) -> bytes:
    """Encode an answer: whether links to the address are routed, and whether a broker is connected."""
    said = _SAID | {"status": _small(OK if routed else NOT_FOUND)}
    body = wire.sequence([_truth(routed), _truth(reached)])
    return composed({_TO: asked.reply_to, _CORRELATION: asked.correlation}, said, body)


def ask(reply_to: str, correlation: str, address: str, receives: bool) -> bytes:
    """Encode a question, which ``question`` decodes."""
    body = wire.sequence([wire.string(address), _truth(receives)])
    return composed({_REPLY_TO: reply_to, _CORRELATION: correlation}, _SAID, body)


def answered(content: bytes) -> Answer:
    """Decode an answer of ``answer``. Raises BadMessageError."""
    parts = sections(content)
    match parts.get(_PROPERTIES), parts.get(_APPLICATION), parts.get(_VALUE):
        case [_, _, _, _, _, str(correlation), *_], {"status": int(status)}, [bool(routed), bool(reached)]:
            known = status == OK
            return Answer(correlation, routed and known, reached and known)
    raise BadMessageError("the answer has no correlation-id, no status or no pair of booleans")

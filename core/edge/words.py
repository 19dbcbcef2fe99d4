"""The messages on an edge connection, encoded as AMQP 1.0 messages (part 3.2)."""

from typing import Any, Final

import msgspec

from core.amqp import codec as wire
from core.amqp.message import APPLICATION, CORRELATION_ID, PROPERTIES, REPLY_TO, TO, VALUE, composed
from core.interior.message import BadMessageError, sections
from core.interior.skupper import from_skupper, to_skupper

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


_SAID: Final = {"version": wire.small(VERSION), "opcode": wire.small(OPCODE)}


def tracking(key: str, reached: bool, skupper: bool = False) -> bytes:
    """Encode whether an address has receivers beyond. ``skupper`` selects skupper-router's spelling."""
    if skupper:
        key = to_skupper(key) or key
    return composed({}, {}, [key, reached])


def tracked(content: bytes, skupper: bool = False) -> tuple[str, bool]:
    """Decode a message of ``tracking``: key, and whether it has receivers. Raises BadMessageError."""
    match sections(content).get(VALUE):
        case [str(key), bool(reached)]:
            return (from_skupper(key) or key) if skupper else key, reached
    raise BadMessageError("the body is no list of an address and a boolean")


def heartbeat(number: int) -> bytes:
    """Encode a heartbeat of the edge router."""
    return composed({}, {}, wire.Encoded(wire.integer(number & 0x7FFFFFFF)))


def question(content: bytes) -> Question:
    """Decode an edge router's question. Raises BadMessageError, and the message is rejected."""
    parts = sections(content)
    properties = parts.get(PROPERTIES)
    if not isinstance(properties, list) or len(properties) <= CORRELATION_ID:
        raise BadMessageError("the question has no reply-to or no correlation-id")
    reply_to, correlation = properties[REPLY_TO], properties[CORRELATION_ID]
    if not isinstance(reply_to, str) or not isinstance(correlation, str):
        raise BadMessageError("the question's reply-to or correlation-id is no string")
    said: Any = parts.get(APPLICATION)
    if not isinstance(said, dict) or (said.get("version"), said.get("opcode")) != (VERSION, OPCODE):
        raise BadMessageError(f"the message is no question (opcode {OPCODE}) of version {VERSION}")
    match parts.get(VALUE):
        case [str(address), bool(receives)]:
            return Question(reply_to, correlation, address, receives)
    raise BadMessageError("the body is no list of an address and a boolean")


def answer(asked: Question, routed: bool, reached: bool) -> bytes:
    """Encode an answer: whether links to the address are routed, and whether a broker is connected."""
    said = _SAID | {"status": wire.small(OK if routed else NOT_FOUND)}
    properties = {TO: wire.string(asked.reply_to), CORRELATION_ID: wire.string(asked.correlation)}
    return composed(properties, said, [routed, reached])


def ask(reply_to: str, correlation: str, address: str, receives: bool) -> bytes:
    """Encode a question, which ``question`` decodes."""
    properties = {REPLY_TO: wire.string(reply_to), CORRELATION_ID: wire.string(correlation)}
    return composed(properties, _SAID, [address, receives])


def answered(content: bytes) -> Answer:
    """Decode an answer of ``answer``. Raises BadMessageError."""
    parts = sections(content)
    match parts.get(PROPERTIES), parts.get(APPLICATION), parts.get(VALUE):
        case [_, _, _, _, _, str(correlation), *_], {"status": int(status)}, [bool(routed), bool(reached)]:
            known = status == OK
            return Answer(correlation, routed and known, reached and known)
    raise BadMessageError("the answer has no correlation-id, no status or no pair of booleans")

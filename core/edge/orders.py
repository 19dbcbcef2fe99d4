"""Requests of an edge router to its interior router's agent for link routes, encoded as AMQP 1.0 messages."""

from typing import Any, Final

import msgspec

from core.amqp import codec as wire
from core.amqp.message import APPLICATION, CORRELATION_ID, PROPERTIES, REPLY_TO, TO, VALUE, composed
from core.interior.message import BadMessageError, sections

TYPE: Final = "org.apache.qpid.dispatch.router.connection.linkRoute"


class Envelope(msgspec.Struct, frozen=True):
    """The address of the reply and the correlation id of a request."""

    reply_to: str
    correlation: str


class Reply(msgspec.Struct, frozen=True):
    """The result of a request. ``identity`` names a created entity."""

    correlation: str
    status: int
    text: str = ""
    identity: str = ""


def create(envelope: Envelope, name: str, pattern: str, direction: str) -> bytes:
    """Return a request for a link route to the connection that carries it."""
    body = {"type": TYPE, "pattern": pattern, "direction": direction, "name": name}
    return _request(envelope, {"operation": "CREATE", "type": TYPE, "name": name}, body)


def delete(envelope: Envelope, identity: str) -> bytes:
    """Return a request to delete such a link route."""
    return _request(envelope, {"operation": "DELETE", "type": TYPE, "identity": identity}, {})


def _request(envelope: Envelope, said: dict[str, str], body: dict[str, str]) -> bytes:
    fields = {TO: "$management", REPLY_TO: envelope.reply_to, CORRELATION_ID: envelope.correlation}
    return composed({at: wire.string(text) for at, text in fields.items()}, said, body)


def replied(content: bytes) -> Reply:
    """Decode the agent's reply. Raises BadMessageError."""
    parts = sections(content)
    properties, said, body = (parts.get(code) for code in (PROPERTIES, APPLICATION, VALUE))
    correlation = _item(properties, CORRELATION_ID)
    status = said.get("statusCode") if isinstance(said, dict) else None
    if not isinstance(correlation, str) or not isinstance(said, dict) or not isinstance(status, int):
        raise BadMessageError("the reply has no correlation-id or no statusCode")
    identity = body.get("identity") if isinstance(body, dict) else None
    text = said.get("statusDescription")
    return Reply(correlation, status, text if isinstance(text, str) else "", "" if identity is None else str(identity))


def _item(items: Any, index: int) -> Any:
    return items[index] if isinstance(items, list) and len(items) > index else None

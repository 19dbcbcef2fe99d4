"""What an edge router asks of its interior router's agent: the messages, byte by byte (facts 12)."""

from typing import Any, Final

import msgspec

from core.amqp import codec as wire
from core.interior.message import BadMessageError, sections

_HEADER: Final = 0x70
_PROPERTIES: Final = 0x73
_APPLICATION: Final = 0x74
_VALUE: Final = 0x77
_CORRELATION: Final = 5

TYPE: Final = "org.apache.qpid.dispatch.router.connection.linkRoute"


class Envelope(msgspec.Struct, frozen=True):
    """To whom the answer goes, and what it is known by there."""

    reply_to: str
    correlation: str


class Reply(msgspec.Struct, frozen=True):
    """How a request has ended; ``identity`` of what was created."""

    correlation: str
    status: int
    text: str = ""
    identity: str = ""


def create(envelope: Envelope, name: str, pattern: str, direction: str) -> bytes:
    """Ask for a link route to the connection that this is sent over."""
    body = {"type": TYPE, "pattern": pattern, "direction": direction, "name": name}
    return _request(envelope, {"operation": "CREATE", "type": TYPE, "name": name}, body)


def delete(envelope: Envelope, identity: str) -> bytes:
    """Ask for its end."""
    return _request(envelope, {"operation": "DELETE", "type": TYPE, "identity": identity}, {})


def _request(envelope: Envelope, said: dict[str, str], body: dict[str, str]) -> bytes:
    properties = [wire.NULL] * (_CORRELATION + 1)
    properties[2] = wire.string("$management")
    properties[4] = wire.string(envelope.reply_to)
    properties[_CORRELATION] = wire.string(envelope.correlation)
    return b"".join(
        (
            wire.section(_HEADER, wire.sequence([wire.FALSE])),
            wire.section(_PROPERTIES, wire.sequence(properties)),
            wire.section(_APPLICATION, _texts(said)),
            wire.section(_VALUE, _texts(body)),
        )
    )


def _texts(pairs: dict[str, str]) -> bytes:
    return wire.mapping((wire.string(name), wire.string(text)) for name, text in pairs.items())


def replied(content: bytes) -> Reply:
    """What the agent answers. Raises BadMessageError."""
    try:
        parts = sections(content)
    except wire.WireError as error:
        raise BadMessageError(str(error)) from error
    properties, said, body = (parts.get(code) for code in (_PROPERTIES, _APPLICATION, _VALUE))
    correlation = _item(properties, _CORRELATION)
    status = said.get("statusCode") if isinstance(said, dict) else None
    if not isinstance(correlation, str) or not isinstance(said, dict) or not isinstance(status, int):
        raise BadMessageError("it has no correlation-id or no statusCode")
    identity = body.get("identity") if isinstance(body, dict) else None
    text = said.get("statusDescription")
    return Reply(
        correlation, status, text if isinstance(text, str) else "", "" if identity is None else str(identity)
    )


def _item(items: Any, index: int) -> Any:
    return items[index] if isinstance(items, list) and len(items) > index else None

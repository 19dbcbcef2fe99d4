"""The envelope of all control messages, and how their fields are decoded.

A message is header {durable=false}, properties {to}, application-properties {opcode} and an amqp-value map.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from core.amqp import codec as wire
from core.amqp import message
from core.amqp.message import APPLICATION, PROPERTIES, TO, VALUE, composed

AREA: Final = "0"
LONGEST_ID: Final = 127  # octets
_LARGEST: Final = 2**63 - 1

HELLO_ADDRESS: Final = "amqp:/_local/qdhello"
ALL_ROUTERS: Final = "amqp:/_topo/0/all/qdrouter"
NEXT_ROUTER: Final = "amqp:/_local/qdrouter"
ALL_MOBILE: Final = "amqp:/_topo/0/all/qdrouter.ma"
MOBILE_SUFFIX: Final = ".ma"

_MANDATORY: Final = object()


class BadMessageError(Exception):
    """A control message that its sender should not have sent.

    The text says why, without numbers of its own, because complaints are counted by their texts.
    """


class Control(msgspec.Struct, frozen=True):
    """A control message as it arrived."""

    to: str
    opcode: str
    body: dict[Any, Any]


def router_address(router: str) -> str:
    """Return the address where one router takes LSR and LSU."""
    return f"amqp:/_topo/{AREA}/{router}/qdrouter"


def mobile_address(router: str) -> str:
    """Return the address where one router takes MAR and MAU."""
    return f"amqp:/_topo/{AREA}/{router}/qdrouter{MOBILE_SUFFIX}"


def addressee(to: str) -> str:
    """Return the router id in an address like those above, or an empty text."""
    parts = to.removeprefix("amqp:").removeprefix("/").split("/")
    return parts[2] if len(parts) == 4 and parts[0] == "_topo" else ""


def encode(to: str, opcode: str, body: object) -> bytes:
    """Encode a message from its address, opcode and body."""
    return composed({TO: wire.string(to)}, {"opcode": opcode}, body)


def symbols(fields: Mapping[str, object]) -> wire.Encoded:
    """Encode a body whose keys are symbols."""
    return wire.mapping((wire.symbol(key), wire.value(field)) for key, field in fields.items())


def decode(content: bytes) -> Control:
    """Decode a control message. Raises BadMessageError."""
    parts = sections(content)
    properties = parts.get(PROPERTIES)
    to = properties[TO] if isinstance(properties, list) and len(properties) > TO else None
    application = parts.get(APPLICATION)
    opcode = application.get("opcode") if isinstance(application, dict) else None
    if not isinstance(to, str) or not isinstance(opcode, str):
        raise BadMessageError("it has no address or no opcode")
    body = parts.get(VALUE)
    if not isinstance(body, dict):
        raise BadMessageError("its body is not a map")
    return Control(to, opcode, body)


def sections(content: bytes) -> dict[int, Any]:
    """Return the values of a message's sections by number. Raises BadMessageError."""
    try:
        return {code: value for code, value, _ in message.sections(content)}
    except wire.WireError as error:
        raise BadMessageError(str(error)) from error


class Fields:
    """The fields of a body, each checked for its type. Every method raises BadMessageError."""

    def __init__(self, body: dict[Any, Any]) -> None:
        self._body = body

    def __contains__(self, name: str) -> bool:
        return name in self._body

    def router(self, name: str = "id") -> str:
        """Return a router id."""
        value = self._body.get(name)
        if not is_router(value):
            raise BadMessageError(f"its {name} is no router id")
        return str(value)

    def number(self, name: str, default: object = _MANDATORY) -> int:
        """Return a whole number that is not negative."""
        value = self._body.get(name, default)
        if type(value) is not int or not 0 <= value <= _LARGEST:
            raise BadMessageError(f"its {name} is no number from 0")
        return value

    def sequence(self, name: str, most: int) -> list[Any]:
        """Return a list of at most ``most`` values."""
        value = self._body.get(name)
        if not isinstance(value, list):
            raise BadMessageError(f"its {name} is no list")
        if len(value) > most:
            raise BadMessageError(f"its {name} has more than {most} entries")
        return value

    def mapping(self, name: str) -> dict[Any, Any]:
        """Return a map."""
        value = self._body.get(name)
        if not isinstance(value, dict):
            raise BadMessageError(f"its {name} is no map")
        return value


def is_router(value: object) -> bool:
    """Whether a value can be the id of a router."""
    return isinstance(value, str) and 0 < len(value.encode()) <= LONGEST_ID and "/" not in value

"""Values of control messages between routers, by the composer of core.interior."""

from typing import Any

from core.amqp import codec as wire


def encoded(value: Any) -> bytes:
    """A value by our composer."""
    match value:
        case None:
            return wire.NULL
        case bool():
            return b"\x41" if value else wire.FALSE
        case int():
            return wire.long(value)
        case str():
            return wire.string(value)
        case list():
            return wire.sequence(map(encoded, value))
        case _:
            return wire.mapping((wire.string(key), encoded(inner)) for key, inner in value.items())

"""Messages with source routes as AMQP has them, and as the model has them."""

from typing import Any

from proton import Message, symbol, ubyte

from routerd.source_routes.address import Address, local, show_route
from tests.model.source_routes.message import Message as Model

BODY = b"\x00Su\xa0\x04ping"  # the bare message of every message


def element(address: Address) -> Any:
    return address.value.decode() if not address.type else [ubyte(address.type), address.value]


def encoded(message: Model, **properties: Any) -> bytes:
    made = Message(body=b"ping", inferred=True, **properties)
    made.annotations = {
        symbol("x-opt-route.onward"): [element(one) for one in message.onward],
        symbol("x-opt-route.return"): [element(one) for one in message.returning],
        symbol("x-opt-route.hops"): ubyte(message.hops),
        symbol("x-opt-route.state"): symbol(message.state.value),
        symbol("x-opt-own"): "kept",
    }
    if message.tracing is not None:
        made.annotations[symbol("x-opt-route.tracing")] = message.tracing
    if message.meta:
        meta = {symbol(k): list(v) if isinstance(v, tuple) else v for k, v in message.meta.items()}
        made.annotations[symbol("x-opt-route.meta")] = meta
    return bytes(made.encode())


def address_of(value: Any) -> Address:
    if isinstance(value, str):
        return local(value)
    return Address(int(value[0]), bytes(value[1]))


def plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    return bytes(value) if isinstance(value, memoryview) else value


def said(octets: bytes) -> tuple[Any, ...]:
    """What annotations say, as the model has it."""
    message = Message()
    message.decode(octets)
    there = message.annotations
    return (
        show_route(tuple(map(address_of, there["x-opt-route.onward"]))),
        show_route(tuple(map(address_of, there["x-opt-route.return"]))),
        str(there["x-opt-route.state"]),
        int(there["x-opt-route.hops"]),
        int(there.get("x-opt-route.nesting", 0)),
        {str(key): plain(value) for key, value in there.get("x-opt-route.meta", {}).items()},
        there.get("x-opt-route.tracing"),
    )


def shown(message: Model) -> tuple[Any, ...]:
    routes = show_route(message.onward), show_route(message.returning)
    return (*routes, message.state.value, message.hops, message.nesting, plain_meta(message), message.tracing)


def plain_meta(message: Model) -> dict[str, Any]:
    return {key: plain(value) for key, value in message.meta.items()}

"""Routes in AMQP: message annotations, or just `to` and `reply-to` (docs/source-routes.md, "In AMQP").

| key | type | meaning |
|---|---|---|
| `x-opt-route.onward`, `x-opt-route.return` | list | type 0: a string; another: [ubyte, binary] |
| `x-opt-route.hops` | ubyte | workers passed |
| `x-opt-route.state` | symbol | complete, partial, none |
| `x-opt-route.meta` | map | metadata |
| `x-opt-route.nesting` | ubyte | wrappers around the payload; absent: none |
| `x-opt-route.tracing` | string | tracing context |
| `x-opt-route.reply` | symbol | on a reply: the state of the return route that it follows |

Values are plain Python: str for strings and symbols, int, bytes, list and dict.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from routerd.source_routes.address import LOCAL, Address, Route, local, parse_route
from tests.model.source_routes.message import (
    DEFAULT_LIMITS,
    NO_META,
    Message,
    Meta,
    MetaValue,
    State,
    check_limits,
    check_usable,
)
from tests.model.source_routes.place import Limits
from tests.model.source_routes.refusal import Reason, RefusedError

PREFIX: Final = "x-opt-route."
ONWARD: Final = PREFIX + "onward"
RETURN: Final = PREFIX + "return"
HOPS: Final = PREFIX + "hops"
STATE: Final = PREFIX + "state"
META: Final = PREFIX + "meta"
NESTING: Final = PREFIX + "nesting"
TRACING: Final = PREFIX + "tracing"
REPLY: Final = PREFIX + "reply"
MOST_TRACING: Final = 4096  # octets
SCHEME: Final = "route:"  # begins a `to` that holds a whole route
_DEEPEST = 4  # levels of lists in a value of metadata


def to_annotations(message: Message) -> dict[str, Any]:
    """Return all annotations of a message: they tell a peer everything but the payload."""
    found: dict[str, Any] = {
        ONWARD: list(map(_value, message.onward)),
        RETURN: list(map(_value, message.returning)),
        HOPS: message.hops,
        STATE: message.state.value,
    }
    if message.nesting:
        found[NESTING] = message.nesting
    if message.meta:
        found[META] = {key: _listed(value) for key, value in message.meta.items()}
    if message.tracing is not None:
        found[TRACING] = message.tracing
    return found


def _value(address: Address) -> Any:
    if address.type == LOCAL:
        try:
            return address.value.decode()
        except UnicodeDecodeError:
            pass  # a name that is not UTF-8 travels as octets
    return [address.type, address.value]


def _listed(value: MetaValue) -> Any:
    return list(map(_listed, value)) if isinstance(value, tuple) else value


def from_annotations(
    annotations: Mapping[Any, Any],
    payload: bytes,
    to: str | None = None,
    reply_to: str | None = None,
    target: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Message:
    """Return the message that annotations and properties describe; `target` is that of the sender's link.

    Without an onward list, `to` is the onward route, or else `target`; without a return list, `reply-to` is
    the return route. Without a state, the message is complete if it has a return route. Raises RefusedError.
    """
    named = {str(key): value for key, value in annotations.items() if _is_ours(key)}
    _check_reply(named.get(REPLY))
    onward = _given(named, ONWARD, limits.onward, Reason.ONWARD)
    if onward is None:
        onward = _by_name(to or target or "")
    returning = _given(named, RETURN, limits.returning, Reason.RETURN)
    if returning is None:
        returning = _by_name(reply_to or "")
    message = Message(
        onward,
        returning,
        payload,
        state=_state(named.get(STATE), returning),
        hops=_count(named, HOPS),
        nesting=_count(named, NESTING),
        meta=_meta(named.get(META), limits),
        tracing=_tracing(named.get(TRACING)),
    )
    message.first  # noqa: B018  raises for an empty route while the sender is still known
    return check_limits(message, limits)


def _is_ours(key: object) -> bool:
    return isinstance(key, str) and key.startswith(PREFIX)


def _by_name(text: str) -> Route:
    if text.startswith(SCHEME):
        try:
            return parse_route(text.removeprefix(SCHEME))
        except ValueError as error:
            raise RefusedError(Reason.BAD_ADDRESS, str(error)) from error
    return (local(text),) if text else ()


def _given(named: Mapping[str, Any], key: str, most: int, reason: Reason) -> Route | None:
    value = named.get(key)
    if value is None:
        return None
    elements = getattr(value, "elements", value)  # Proton has a class of its own for an AMQP array
    if isinstance(elements, str | bytes) or not isinstance(elements, Sequence):
        raise _wrong(key, "is no list")
    if len(elements) > most:
        raise RefusedError(reason, f"{key} has {len(elements)} addresses; {most} are allowed")
    return tuple(_address(key, element) for element in elements)


def _address(key: str, element: Any) -> Address:
    if isinstance(element, str):
        if not element:
            raise _wrong(key, "holds an empty address")
        return local(element)
    if isinstance(element, Sequence) and not isinstance(element, bytes | memoryview) and len(element) == 2:
        kind, value = element
        octets = bytes(value) if isinstance(value, bytes | memoryview) else None
        if _is_octet(kind) and octets:
            return Address(int(kind), octets)
    raise _wrong(key, "holds an address that is neither text nor [type from 0 to 255, octets]")


def _is_octet(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 255


def _state(value: object, returning: Route) -> State:
    if value is None:
        return State.COMPLETE if returning else State.NONE
    try:
        return State(str(value))
    except ValueError:
        raise _wrong(STATE, "is none of complete, partial, none") from None


def _check_reply(value: object) -> None:
    """Refuse a reply whose return route was not complete. Raises RefusedError."""
    if value is None:
        return
    try:
        state = State(str(value))
    except ValueError:
        raise _wrong(REPLY, "is none of complete, partial, none") from None
    check_usable(state)


def _tracing(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise _wrong(TRACING, "is no text")
    if (octets := len(value.encode())) > MOST_TRACING:
        raise RefusedError(Reason.METADATA, f"the tracing context has {octets} octets; {MOST_TRACING} are allowed")
    return str(value)


def _count(named: Mapping[str, Any], key: str) -> int:
    value = named.get(key, 0)
    if not _is_octet(value):
        raise _wrong(key, "is no number from 0 to 255")
    assert isinstance(value, int)
    return int(value)


def _meta(value: object, limits: Limits) -> Meta:
    if value is None:
        return NO_META
    if not isinstance(value, Mapping):
        raise _wrong(META, "is no map")
    if len(value) > limits.meta_keys:
        text = f"there are {len(value)} metadata keys; {limits.meta_keys} are allowed"
        raise RefusedError(Reason.METADATA, text)
    if not all(isinstance(key, str) for key in value):
        raise _wrong(META, "has a key that is no symbol")
    return {str(key): _kept(one, 0) for key, one in value.items()}


def _kept(value: Any, depth: int) -> MetaValue:
    if isinstance(value, bool | str | bytes) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63):
        return value
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, Sequence) and depth < _DEEPEST:
        return tuple(_kept(one, depth + 1) for one in value)
    raise _wrong(META, "holds a value that is neither text, number, truth value, octets nor a list of them")


def _wrong(key: str, why: str) -> RefusedError:
    return RefusedError(Reason.BAD_ANNOTATION, f"annotation {key} {why}")

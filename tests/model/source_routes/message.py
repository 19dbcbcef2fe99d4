"""A message with a source route, and its limits (docs/source-routes.md)."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from routerd.source_routes.address import Address, Route
from tests.model.source_routes.place import Limits
from tests.model.source_routes.refusal import Reason, RefusedError

MetaValue: TypeAlias = "str | bytes | int | bool | tuple[MetaValue, ...]"
Meta: TypeAlias = Mapping[str, MetaValue]
NO_META: Meta = MappingProxyType({})


class State(Enum):
    """Says whether a reply over the return route reaches the first sender."""

    COMPLETE = "complete"  # every change of scope so far is traced or wrapped
    PARTIAL = "partial"  # a change of scope is not, or a needed part of the route is cut off
    NONE = "none"  # the first sender gave no return route


class Message(NamedTuple):
    """A message between two route workers.

    `onward` lists the addresses to visit, its current one first; `returning` those that a reply visits.
    `payload` is opaque; `tracing` is the tracing context, or None. `hops` counts the route workers passed and
    `nesting` the wrappers around the payload.
    """

    onward: Route
    returning: Route
    payload: bytes
    tracing: str | None = None
    state: State = State.NONE
    hops: int = 0
    nesting: int = 0
    meta: Meta = NO_META

    @property
    def first(self) -> Address:
        """The address where the message is now. Raises RefusedError if the onward route is empty."""
        if not self.onward:
            raise RefusedError(Reason.EMPTY_ROUTE, "the onward route is empty; give at least one address")
        return self.onward[0]


DEFAULT_LIMITS = Limits()
MESSAGE_OCTETS = 16 * 1024 * 1024  # of one encoded message that is held whole


def new_message(onward: Route, returning: Route, payload: bytes, tracing: str | None = None) -> Message:
    """Return a message as its first sender makes it: complete if it has a return route."""
    return Message(onward, returning, payload, tracing, State.COMPLETE if returning else State.NONE)


def reply_to(message: Message, me: Address, payload: bytes, *, any_state: bool = False) -> Message:
    """Return the reply that `me` sends: onward is the return route, return is `me`, without metadata.

    Raises RefusedError if the return route is unusable; with `any_state`, only if it is empty.
    """
    if not message.returning:
        raise RefusedError(Reason.UNUSABLE_RETURN, "there is no return route to reply over", str(me))
    if not any_state:
        check_usable(message.state, str(me))
    return new_message(message.returning, (me,), payload)


def check_usable(state: State, where: str = "") -> None:
    """Check that a return route is complete. Raises RefusedError."""
    if state is State.COMPLETE:
        return
    why = "a change of scope on the way was neither traced nor wrapped"
    if state is State.NONE:
        why = "the first sender gave none"
    raise RefusedError(Reason.UNUSABLE_RETURN, f"the return route is {state.value}: {why}", where)


def check_limits(message: Message, limits: Limits, where: str = "") -> Message:
    """Return the message. Raises RefusedError, with the address `where`, if it exceeds a limit."""
    _check_route(message.onward, "onward", Reason.ONWARD, limits.onward, limits, where)
    _check_route(message.returning, "return", Reason.RETURN, limits.returning, limits, where)
    for what, is_, most, reason in (
        ("worker traversals", message.hops, limits.hops, Reason.HOPS),
        ("wrappers around each other", message.nesting, limits.nesting, Reason.NESTING),
        ("metadata keys", len(message.meta), limits.meta_keys, Reason.METADATA),
        ("octets of metadata", meta_octets(message.meta), limits.meta_octets, Reason.METADATA),
    ):
        if is_ > most:
            raise RefusedError(reason, f"there are {is_} {what}; {most} are allowed", where)
    return message


def _check_route(route: Route, name: str, reason: Reason, most: int, limits: Limits, where: str) -> None:
    if len(route) > most:
        raise RefusedError(reason, f"the {name} route has {len(route)} addresses; {most} are allowed", where)
    total = 0
    for address in route:
        if len(address.value) > limits.address_octets:
            text = f"an address of {len(address.value)} octets; {limits.address_octets} are allowed"
            raise RefusedError(Reason.ADDRESS_OCTETS, f"the {name} route has {text}", where)
        total += len(address.value)
    if total > limits.route_octets:
        text = f"the {name} route has {total} octets; {limits.route_octets} are allowed"
        raise RefusedError(Reason.ROUTE_OCTETS, text, where)


def meta_octets(meta: Meta) -> int:
    """Return the octets of keys and values; a number or boolean counts as 9, its longest AMQP encoding."""
    return sum(len(key.encode("utf-8", "replace")) + _octets(value) for key, value in meta.items())


def _octets(value: MetaValue) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "replace"))
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, tuple):
        return sum(map(_octets, value))
    return 9

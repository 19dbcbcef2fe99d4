"""A message as source routing sees it, and the limits it must keep (facts source-routes 1.1, 7.2, 7.5)."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from routerd.source_routes.address import Address, Route
from routerd.source_routes.refusal import Reason, RefusedError

MetaValue: TypeAlias = "str | bytes | int | bool | tuple[MetaValue, ...]"
Meta: TypeAlias = Mapping[str, MetaValue]
NO_META: Meta = MappingProxyType({})


class State(Enum):
    """What is known of the return route: whether a reply over it arrives at who sent the message."""

    COMPLETE = "complete"  # every change of scope so far was traced or wrapped
    PARTIAL = "partial"  # one was not, or a part was cut off that belonged to it
    NONE = "none"  # the first sender gave none


class Message(NamedTuple):
    """`onward`: addresses still to visit, the first is the receiver's own; `returning`: those a reply visits.

    `payload` are octets that nobody on the way looks at; `tracing` is the context of version 2, or None;
    `hops` are the workers passed so far, `nesting` the wrappers around the payload now.
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
        """Where it is now. Raises RefusedError: the onward route is empty."""
        if not self.onward:
            raise RefusedError(Reason.EMPTY_ROUTE, "the onward route is empty; give at least one address")
        return self.onward[0]


class Limits(NamedTuple):
    """What one message may have; octets of a route are those of its addresses, without their lengths.

    `lenient_tail`: the encoder of another implementation ends version 1 with a zero octet.
    """

    hops: int = 64
    onward: int = 32
    returning: int = 64
    address_octets: int = 255
    route_octets: int = 4096
    nesting: int = 8
    meta_keys: int = 16
    meta_octets: int = 1024
    message_octets: int = 16 * 1024 * 1024  # of one encoded message that is held whole
    lenient_tail: bool = False  # a zero octet may follow a BARE message of version 1


DEFAULT_LIMITS = Limits()


def new_message(onward: Route, returning: Route, payload: bytes, tracing: str | None = None) -> Message:
    """A message as its first sender gives it: complete if it says where a reply goes."""
    return Message(onward, returning, payload, tracing, State.COMPLETE if returning else State.NONE)


def reply_to(message: Message, me: Address, payload: bytes, *, any_state: bool = False) -> Message:
    """The reply of `me`: onward := return, return := [me]; metadata is not copied.

    Raises RefusedError: the return route is unusable; with `any_state` only if it is empty.
    """
    if not message.returning:
        raise RefusedError(Reason.UNUSABLE_RETURN, "there is no return route to reply over", str(me))
    if not any_state:
        check_usable(message.state, str(me))
    return new_message(message.returning, (me,), payload)


def check_usable(state: State, where: str = "") -> None:
    """Raises RefusedError if a return route is not complete."""
    if state is State.COMPLETE:
        return
    why = "a change of scope on the way was neither traced nor wrapped"
    if state is State.NONE:
        why = "the first sender gave none"
    raise RefusedError(Reason.UNUSABLE_RETURN, f"the return route is {state.value}: {why}", where)


def check_limits(message: Message, limits: Limits, where: str = "") -> Message:
    """The message itself. Raises RefusedError naming the limit that it exceeds, and the address `where`."""
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
    """Octets of all keys and values; a number or truth value is counted as 9, the most AMQP needs for one."""
    return sum(len(key.encode("utf-8", "replace")) + _octets(value) for key, value in meta.items())


def _octets(value: MetaValue) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "replace"))
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, tuple):
        return sum(map(_octets, value))
    return 9

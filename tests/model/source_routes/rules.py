"""Rules of the kinds of route workers as pure functions: a message in, messages out (docs/source-routes.md).

`step` is the only entry point. It also applies the rules common to all kinds: the first address is the route
worker's own, each route worker counts as a hop, and results keep the limits.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from routerd.source_routes.address import Address, Route
from tests.model.source_routes import bare, wrapped
from tests.model.source_routes.message import NO_META, Message, State, check_limits, new_message
from tests.model.source_routes.metadata import TRACE, appended, leaving, outside, unwrapped
from tests.model.source_routes.place import Rules
from tests.model.source_routes.refusal import Reason, RefusedError
from tests.model.source_routes.workers import (
    MARKER,
    Collapse,
    Count,
    Discovery,
    Extend,
    Forward,
    KeepScopes,
    PayloadUnwrap,
    PayloadWrap,
    Proxy,
    Static,
    Strip,
    Tee,
    ToMarker,
    Transform,
    Unwrap,
    Unwrapped,
    Worker,
    Wrap,
    Wrapped,
)

DEFAULT_RULES = Rules()


class Changing(Transform, frozen=True, kw_only=True):
    """One with its function."""

    use: str = ""
    change: Callable[[bytes], bytes]


class _Passing(Struct, frozen=True):
    """A message at a route worker; `at`, the address that it came to, is no longer in the onward route."""

    message: Message
    at: Address
    source: frozenset[str]
    rules: Rules


def step(
    worker: Worker, message: Message, source: frozenset[str] = frozenset(), rules: Rules = DEFAULT_RULES
) -> tuple[Message, ...]:
    """Return what a route worker sends for a message from `source`: the message, then any copies.

    Raises RefusedError with the route worker's address.
    """
    at = message.first
    if at not in worker.addresses:
        mine = " or ".join(map(str, worker.addresses))
        raise RefusedError(Reason.NOT_MINE, f"the onward route begins with {at}; {mine} is expected", mine)
    if message.hops >= rules.limits.hops:
        text = f"the message has passed {message.hops} workers; {rules.limits.hops} are allowed"
        raise RefusedError(Reason.HOPS, text, str(at))
    passed = message._replace(
        onward=message.onward[1:], hops=message.hops + 1, meta=appended(message.meta, rules.classes, TRACE, str(at))
    )
    try:
        results = _RULES[type(worker)](worker, _Passing(passed, at, source, rules))
        return tuple(check_limits(one, rules.limits) for one in results)
    except RefusedError as refused:
        if refused.address:
            raise
        raise RefusedError(refused.reason, refused.detail, str(at)) from refused


def _next(onward: Route) -> Route:
    """Return the route. Raises RefusedError if it is empty."""
    if not onward:
        raise RefusedError(Reason.NO_NEXT, "the onward route ends at a worker that only passes messages on")
    return onward


def _moved(worker: Worker, passing: _Passing, onward: Route, traced: Address | None = None) -> Message:
    """Return the message with another onward route, as the next scope gets it if the route worker crosses."""
    message = passing.message._replace(onward=_next(onward))
    if worker.crosses:
        untraced = traced is None and message.state is State.COMPLETE
        message = message._replace(
            state=State.PARTIAL if untraced else message.state, meta=leaving(message.meta, passing.rules.classes)
        )
    return message if traced is None else message._replace(returning=(traced, *message.returning))


def _forward(worker: Forward, passing: _Passing) -> tuple[Message, ...]:
    return (_moved(worker, passing, passing.message.onward, worker.traced),)


def _static(worker: Static, passing: _Passing) -> tuple[Message, ...]:
    return (_moved(worker, passing, worker.route + passing.message.onward),)


def _proxy(worker: Proxy, passing: _Passing) -> tuple[Message, ...]:
    message = passing.message
    if passing.at == worker.address:
        return (_moved(worker, passing, worker.route + message.onward, worker.inner),)
    # The first return address is that of the service, or its last tracer; this route worker's replaces it.
    answer = _with(passing, returning=message.returning[1:])
    return (_moved(worker, answer, message.onward, worker.address),)


def _with(passing: _Passing, **changed: Any) -> _Passing:
    """Return `passing` with some fields of its message changed."""
    return _Passing(passing.message._replace(**changed), passing.at, passing.source, passing.rules)


def _extend(worker: Extend, passing: _Passing) -> tuple[Message, ...]:
    message = _moved(worker, passing, worker.route + passing.message.onward, worker.traced)
    return (_marked(message) if worker.marker else message,)


def _marked(message: Message) -> Message:
    return message._replace(returning=(MARKER, *message.returning))


def _collapse(worker: Collapse, passing: _Passing) -> tuple[Message, ...]:
    return (_moved(worker, _strip(passing, worker.strip), passing.message.onward, worker.traced),)


def _strip(passing: _Passing, how: Strip) -> _Passing:
    """Cut off what other scopes traced. A return route with nothing left is no longer complete."""
    message = passing.message
    left, found = stripped(message.returning, how)
    state = message.state
    if state is State.COMPLETE and not (left and found):
        state = State.PARTIAL
    return _with(passing, returning=left, state=state)


def _transform(worker: Changing, passing: _Passing) -> tuple[Message, ...]:
    message = _moved(worker, passing, passing.message.onward, worker.traced)
    try:
        return (message._replace(payload=worker.change(message.payload)),)
    except Exception as error:
        text = f"the transform failed: {type(error).__name__}: {error}"
        raise RefusedError(Reason.TRANSFORM, text) from error


def _payload_wrap(worker: PayloadWrap, passing: _Passing) -> tuple[Message, ...]:
    message = _moved(worker, passing, worker.route + passing.message.onward, worker.traced)
    return (message._replace(payload=bare.mapping(worker.meta) + bare.data(message.payload)),)


def _payload_unwrap(worker: PayloadUnwrap, passing: _Passing) -> tuple[Message, ...]:
    message = _moved(worker, passing, passing.message.onward, worker.traced)
    reader = bare.Reader(message.payload)
    reader.mapping()
    payload = reader.data()
    reader.end()
    return (message._replace(payload=payload),)


def _wrap(worker: Wrap, passing: _Passing) -> tuple[Message, ...]:
    return (_sealed(passing, worker.route, worker.returning, worker.form, worker.metadata),)


def _sealed(passing: _Passing, route: Route, returning: Route, form: wrapped.Form, metadata: Wrapped) -> Message:
    """Return a new message around the whole message, whose route must continue after the unwrapper.

    Hops carry over, so a loop that contains a wrapper ends as well.
    """
    message, classes = passing.message, passing.rules.classes
    _next(message.onward)
    inside = message._replace(meta=leaving(message.meta, classes))
    return new_message(_next(route), returning, wrapped.encode(inside, form))._replace(
        hops=message.hops, nesting=message.nesting + 1, meta=outside(message.meta, classes, metadata)
    )


def _unwrap(worker: Unwrap, passing: _Passing) -> tuple[Message, ...]:
    inner = _opened(passing, worker.form, worker.metadata)
    return (_moved(worker, inner, inner.message.onward, worker.traced),)


def _opened(passing: _Passing, form: wrapped.Form, metadata: Unwrapped) -> _Passing:
    """Return the wrapped message with the wrapper's hops, nesting and metadata, and none of its routes."""
    outer, rules = passing.message, passing.rules
    if outer.onward:
        text = f"{len(outer.onward)} addresses follow the worker that unwraps; it must be the last"
        raise RefusedError(Reason.SURPLUS, text)
    inner = wrapped.decode(outer.payload, form, rules.limits)
    return _with(
        passing,
        **inner._asdict()
        | {
            "hops": max(inner.hops, outer.hops),
            "nesting": max(outer.nesting - 1, 0),
            "meta": unwrapped(inner.meta, outer.meta, rules.classes, metadata),
        },
    )


def _tee(worker: Tee, passing: _Passing) -> tuple[Message, ...]:
    """Forward the message and a copy with half of the remaining hops: copies of copies end soon."""
    message = passing.message
    hops = (message.hops + passing.rules.limits.hops + 1) // 2
    copy = message._replace(onward=_next(worker.route), returning=(), state=State.NONE, hops=hops, meta=NO_META)
    return (_moved(worker, passing, message.onward, worker.traced), copy)


def _discovery(worker: Discovery, passing: _Passing) -> tuple[Message, ...]:
    inward = passing.at == worker.inner or bool(passing.source & worker.uplinks)
    if worker.strip is None:
        if inward:
            inner = _opened(passing, worker.form, "restore")
            return (_moved(worker, inner, inner.message.onward, worker.address),)
        return (_sealed(passing, worker.route, (), worker.form, worker.metadata),)
    if inward:
        passing = _strip(passing, worker.strip)
        return (_moved(worker, passing, passing.message.onward, worker.address),)
    _next(passing.message.onward)
    onward = worker.route + passing.message.onward
    message = passing.message._replace(onward=onward, meta=leaving(passing.message.meta, passing.rules.classes))
    return (_marked(message) if isinstance(worker.strip, ToMarker) else message,)


_RULES: dict[type[Worker], Callable[[Any, _Passing], tuple[Message, ...]]] = {
    Forward: _forward, Static: _static, Proxy: _proxy, Extend: _extend, Collapse: _collapse,
    Changing: _transform, PayloadWrap: _payload_wrap, PayloadUnwrap: _payload_unwrap, Wrap: _wrap,
    Unwrap: _unwrap, Tee: _tee, Discovery: _discovery,
}  # fmt: skip


def stripped(route: Route, how: Strip) -> tuple[Route, bool]:
    """Return what is left of a return route, and whether the part to cut off was in it."""
    if isinstance(how, Count):
        return route[how.count :], len(route) >= how.count
    if isinstance(how, ToMarker):
        found = MARKER in route
        return (route[route.index(MARKER) + 1 :], True) if found else (route, False)
    at = 0
    while at < len(route) and (scope := _scope(route[at], how)) is not None and scope not in how.scopes:
        at += 1
    return route[at:], True


def _scope(address: Address, how: KeepScopes) -> str | None:
    match = how.pattern.search(address.value.decode("utf-8", "replace"))
    return match[1] if match else None

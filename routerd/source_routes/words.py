"""Descriptions of what a route worker did to a message."""

from routerd.source_routes import wrapped
from routerd.source_routes.address import Address, show_route
from routerd.source_routes.message import Limits, Message
from routerd.source_routes.workers import (
    Collapse,
    Discovery,
    Extend,
    PayloadUnwrap,
    PayloadWrap,
    Proxy,
    Static,
    Tee,
    Transform,
    Unwrap,
    Worker,
    Wrap,
)

_DOES: dict[type[Worker], str] = {
    Transform: "transforms the payload",
    PayloadWrap: "wraps the payload",
    PayloadUnwrap: "unwraps the payload",
    Tee: "forwards, and copies the payload",
}


def described(worker: Worker, at: Address, message: Message, result: Message, limits: Limits) -> str:
    """Say what `worker`, reached at `at`, made of the message."""
    if result.nesting > message.nesting:
        assert isinstance(worker, Wrap | Discovery)
        inside = wrapped.decode(result.payload, worker.form, limits)
        return f"wraps {show_route(inside.onward)} / {show_route(inside.returning) or 'no return'}"
    does = _does(worker, at, result.onward == message.onward[1:])
    traced = result.returning[:1]
    if traced and traced != message.returning[:1]:
        name = "itself" if traced[0] == at else str(traced[0])
        does += f", traces {name}"
    return does


def _does(worker: Worker, at: Address, shortened: bool) -> str:
    if isinstance(worker, Static | Extend):
        return f"replaces itself by {show_route(worker.route)}"
    if isinstance(worker, Proxy):
        back = at == worker.inner
        return "passes the answer back" if back else f"stands for {show_route(worker.route)}"
    if isinstance(worker, Unwrap) or (isinstance(worker, Discovery) and worker.strip is None):
        return "unwraps"
    if isinstance(worker, Collapse):
        return "removes the trace of other scopes"
    if isinstance(worker, Discovery):
        outward = f"replaces itself by {show_route(worker.route)}"
        return "removes the trace of other scopes" if shortened else outward
    return _DOES.get(type(worker), "forwards")

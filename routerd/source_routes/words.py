"""Descriptions of what a route worker did to a message."""

from routerd.source_routes.address import Address, Route, show_route
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
)

_DOES: dict[type[Worker], str] = {
    Transform: "transforms the payload",
    PayloadWrap: "wraps the payload",
    PayloadUnwrap: "unwraps the payload",
    Tee: "forwards, and copies the payload",
}
Routes = tuple[Route, Route]  # onward and return


def described(worker: Worker, before: Routes, after: Routes, inside: Routes | None) -> str:
    """What `worker`, at the first onward address, made of a message; `inside`: what it wrapped."""
    if inside is not None:
        return f"wraps {show_route(inside[0])} / {show_route(inside[1]) or 'no return'}"
    at, *rest = before[0]
    does = _does(worker, at, list(after[0]) == rest)
    traced = after[1][:1]
    if traced and traced != before[1][:1]:
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

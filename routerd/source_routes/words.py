"""Descriptions of what a route worker did to a message."""

from routerd.source_routes.address import ARROW, Address, Route, show_route
from shm.contract.source_routes import RouteWorkerSetup

_DOES = {
    "transform": "transforms the payload",
    "payload-wrap": "wraps the payload",
    "payload-unwrap": "unwraps the payload",
    "tee": "forwards, and copies the payload",
    "unwrap": "unwraps",
    "collapse": "removes the trace of other scopes",
}
Routes = tuple[Route, Route]  # onward and return


def described(worker: RouteWorkerSetup, before: Routes, after: Routes, inside: Routes | None) -> str:
    """Say what a route worker, the first of the onward route, did; `inside`: the routes that it wrapped."""
    if inside is not None:
        return f"wraps {show_route(inside[0])} / {show_route(inside[1]) or 'no return'}"
    at, *rest = before[0]
    does = _does(worker, at, list(after[0]) == rest)
    traced = after[1][:1]
    if traced and traced != before[1][:1]:
        name = "itself" if traced[0] == at else str(traced[0])
        does += f", traces {name}"
    return does


def _does(worker: RouteWorkerSetup, at: Address, shortened: bool) -> str:
    route = ARROW.join(one.text for one in worker.route)
    match worker.kind:
        case "static" | "extend":
            return f"replaces itself by {route}"
        case "proxy":
            back = worker.inner is not None and str(at) == worker.inner.text
            return "passes the answer back" if back else f"stands for {route}"
        case "discovery" if not worker.strip:
            return "unwraps"
        case "discovery":
            return _DOES["collapse"] if shortened else f"replaces itself by {route}"
    return _DOES.get(worker.kind, "forwards")

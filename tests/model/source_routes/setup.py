"""A model's router as worker processes are told of it."""

from collections.abc import Iterable

from routerd.source_routes.address import Address
from shm.contract.source_routes import RouteWorkerSetup, SourceRoutesSetup, Stop
from tests.model.source_routes import workers
from tests.model.source_routes.access import Access
from tests.model.source_routes.place import Place
from tests.model.source_routes.workers import Count, KeepScopes, Strip, ToMarker, Worker

_KINDS: dict[type[Worker], str] = {
    workers.Forward: "forward", workers.Static: "static", workers.Proxy: "proxy", workers.Extend: "extend",
    workers.Collapse: "collapse", workers.PayloadWrap: "payload-wrap",
    workers.PayloadUnwrap: "payload-unwrap", workers.Wrap: "wrap", workers.Unwrap: "unwrap",
    workers.Tee: "tee", workers.Discovery: "discovery", workers.Transform: "transform",
}  # fmt: skip


def setup_of(place: Place) -> SourceRoutesSetup:
    """What worker processes are told of a router; the identity of a route worker is its address."""
    each = {worker.address: worker for worker in place.workers.values()}
    return SourceRoutesSetup(
        on=True,
        workers=[_setup(worker, place.access) for worker in each.values()],
        classes={key: kind.value for key, kind in place.rules.classes.of.items()},
        **place.rules.limits._asdict(),
    )


def _setup(worker: Worker, access: Access) -> RouteWorkerSetup:
    inner: Address | None = getattr(worker, "inner", None)
    send_to = access.outgoing.get(worker.address)
    strip: Strip | None = getattr(worker, "strip", None)
    metadata = getattr(worker, "metadata", "hide")
    return RouteWorkerSetup(
        identity=str(worker.address),
        kind=_KINDS[type(worker)],
        address=_stop(worker.address),
        inner=None if inner is None else _stop(inner),
        route=_stops(getattr(worker, "route", ())),
        returning=_stops(getattr(worker, "returning", ())),
        traced=_traced(worker),
        crosses=worker.crosses,
        marks=getattr(worker, "marker", False),
        strip=_strip_name(strip),
        strip_count=strip.count if isinstance(strip, Count) else 0,
        scopes=sorted(strip.scopes) if isinstance(strip, KeepScopes) else [],
        pattern=_pattern(strip),
        form=getattr(worker, "form", "amqp"),
        metadata="keys" if isinstance(metadata, tuple) else metadata,
        keys=list(metadata) if isinstance(metadata, tuple) else [],
        uplinks=sorted(getattr(worker, "uplinks", ())),
        allow=_listed(access, worker.address),
        inner_allow=None if inner is None else _listed(access, inner),
        send_to=None if send_to is None else _stops(sorted(send_to)),
        use=getattr(worker, "use", ""),
    )


def _strip_name(strip: Strip | None) -> str:
    match strip:
        case Count():
            return "count"
        case KeepScopes():
            return "scopes"
        case ToMarker():
            return "marker"
    return ""


def _pattern(strip: Strip | None) -> str:
    """Return the pattern of scopes; empty for the default, which needs no regular expression."""
    if not isinstance(strip, KeepScopes) or strip.pattern == workers.TRAILING_DIGITS:
        return ""
    return strip.pattern.pattern


def _traced(worker: Worker) -> Stop | None:
    traced = worker.traced if isinstance(worker, workers.Tracer) else None
    return None if traced is None else _stop(traced)


def _listed(access: Access, address: Address) -> list[str] | None:
    listed = access.incoming.get(address)
    return None if listed is None else sorted(listed)


def _stops(route: Iterable[Address]) -> list[Stop]:
    return [_stop(address) for address in route]


def _stop(address: Address) -> Stop:
    return Stop(address.type, address.value, str(address))

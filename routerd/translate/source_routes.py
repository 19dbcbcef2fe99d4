"""Translates route workers and limits of source routes into the set-up of workers and core."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from routerd.config import Config
from routerd.config.entities.attribute import Entity
from routerd.config.entities.source_routes import RouteWorker, SourceRoutes
from routerd.config.entities.transport import Connector, Listener
from routerd.config.rules.route_workers import place_of
from routerd.source_routes import workers
from routerd.source_routes.access import Access
from routerd.source_routes.address import Address, Route, parse_address
from routerd.source_routes.place import Place
from routerd.source_routes.workers import Count, KeepScopes, Strip, ToMarker, Worker
from routerd.translate.identities import Identities
from shm.contract.source_routes import RouteWorkerSetup, SourceRoutesSetup, Stop

_KINDS: dict[type[Worker], str] = {
    workers.Forward: "forward", workers.Static: "static", workers.Proxy: "proxy", workers.Extend: "extend",
    workers.Collapse: "collapse", workers.PayloadWrap: "payload-wrap",
    workers.PayloadUnwrap: "payload-unwrap", workers.Wrap: "wrap", workers.Unwrap: "unwrap",
    workers.Tee: "tee", workers.Discovery: "discovery", workers.Transform: "transform",
}  # fmt: skip


def source_routes(config: Config, identities: Identities) -> SourceRoutesSetup:
    """Return the set-up of source routes."""
    entities: list[Entity] = [*config.addresses, *config.entities]
    named = {
        str(parse_address(one.address)): identity
        for one, identity in zip(entities, identities.of(entities), strict=True)
        if isinstance(one, RouteWorker)
    }
    on = any(_asks(one) for one in (*entities, *config.listeners))
    return setup_of(place_of("", entities), named, on=on)


def setup_of(
    place: Place, identities: Mapping[str, str] = MappingProxyType({}), *, on: bool = True
) -> SourceRoutesSetup:
    """Return what worker processes are told of a router; `identities` maps address texts."""
    limits = place.rules.limits
    each = {worker.address: worker for worker in place.workers.values()}
    return SourceRoutesSetup(
        on=on,
        workers=[
            _setup(worker, place.access, identities.get(str(address), str(address))) for address, worker in each.items()
        ],
        hops=limits.hops,
        onward=limits.onward,
        returning=limits.returning,
        nesting=limits.nesting,
        meta_keys=limits.meta_keys,
        address_octets=limits.address_octets,
        route_octets=limits.route_octets,
        meta_octets=limits.meta_octets,
        lenient_tail=limits.lenient_tail,
        classes={key: kind.value for key, kind in place.rules.classes.of.items()},
    )


def _asks(one: Entity) -> bool:
    """Whether an entity needs source routes."""
    if isinstance(one, Listener | Connector):
        return one.protocol == "ockam"
    return isinstance(one, RouteWorker | SourceRoutes)


def _setup(worker: Worker, access: Access, identity: str) -> RouteWorkerSetup:
    inner: Address | None = getattr(worker, "inner", None)
    send_to = access.outgoing.get(worker.address)
    strip: Strip | None = getattr(worker, "strip", None)
    metadata = getattr(worker, "metadata", "hide")
    return RouteWorkerSetup(
        identity=identity,
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


def _stops(route: Route | Iterable[Address]) -> list[Stop]:
    return [_stop(address) for address in route]


def _stop(address: Address) -> Stop:
    return Stop(address.type, address.value, str(address))

"""Translates route workers, limits of source routes and Ockam's transport into set-ups of workers and core."""

from collections.abc import Iterable

from routerd.config import Config
from routerd.config.entities.attribute import Entity
from routerd.config.entities.source_routes import RouteWorker, SourceRoutes
from routerd.config.entities.transport import Connector, Listener
from routerd.config.formats.source import listed
from routerd.source_routes.address import Address, parse_address, parse_route
from routerd.translate.identities import Identities
from shm.contract.ockam import OckamSetup
from shm.contract.source_routes import RouteWorkerSetup, SourceRoutesSetup, Stop
from shm.contract.structs import same

MOST_BARE = 65_535  # octets of a frame in Ockam's former framing


def source_routes(config: Config, identities: Identities) -> SourceRoutesSetup:
    """Return the set-up of source routes."""
    entities: list[Entity] = [*config.addresses, *config.entities]
    named = zip(entities, identities.of(entities), strict=True)
    limits = next((one for one in entities if isinstance(one, SourceRoutes)), SourceRoutes())
    return same(
        limits,
        SourceRoutesSetup,
        on=any(_asks(one) for one in (*entities, *config.listeners)),
        workers=[_route_worker(one, identity) for one, identity in named if isinstance(one, RouteWorker)],
        onward=limits.onward_addresses,
        returning=limits.return_addresses,
        meta_keys=limits.metadata_keys,
        meta_octets=limits.metadata_octets,
        classes={key: kind for kind, keys in limits.classes.items() for key in keys},
    )


def _asks(one: Entity) -> bool:
    """Whether an entity needs source routes."""
    if isinstance(one, Listener | Connector):
        return one.protocol == "ockam"
    return isinstance(one, RouteWorker | SourceRoutes)


def _route_worker(given: RouteWorker, identity: str) -> RouteWorkerSetup:
    strip, (metadata, keys) = given.strip, _metadata(given)
    send_to = None if given.send_to is None else sorted({parse_address(one) for one in listed(given.send_to)})
    return RouteWorkerSetup(
        identity=identity,
        kind=given.kind,
        address=_stop(parse_address(given.address)),
        inner=_stop(parse_address(given.inner)) if given.inner else None,
        route=_stops(parse_route(given.route or "")),
        returning=_stops(parse_route(given.return_route or "")),
        traced=_stop(parse_address(given.trace_as or given.address)) if given.traces else None,
        crosses=given.scope_change,
        marks=given.marker and not strip,
        strip=strip,
        strip_count=given.strip_count or 0 if strip == "count" else 0,
        scopes=sorted(set(listed(given.keep_scopes))),
        pattern=given.scope_pattern or "" if strip == "scopes" else "",
        form=given.format,
        metadata=metadata,
        keys=keys,
        uplinks=sorted({f"uplink:{name}" for name in listed(given.uplinks)}),
        allow=_sources(given.allow),
        inner_allow=_sources(given.inner_allow),
        send_to=None if send_to is None else _stops(send_to),
        use=given.use or "",
    )


def _metadata(given: RouteWorker) -> tuple[str, list[str]]:
    """Return what becomes of the metadata of a wrapped message, and the keys that a wrapper copies."""
    if given.kind == "unwrap":
        return given.metadata or "restore", []
    if given.metadata in (None, "hide", "copy"):
        return given.metadata or "hide", []
    return "keys", listed(given.metadata)


def _sources(text: str | None) -> list[str] | None:
    return None if text is None else sorted(set(listed(text)))


def _stops(route: Iterable[Address]) -> list[Stop]:
    return [_stop(address) for address in route]


def _stop(address: Address) -> Stop:
    return Stop(address.type, address.value, str(address))


def ockam_setup(one: Listener | Connector) -> OckamSetup | None:
    """Return the set-up for Ockam; None for another protocol."""
    if one.protocol != "ockam":
        return None
    bare = one.framing == "bare"
    return OckamSetup(
        _stop(parse_address(one.route_address or "")),
        bare,
        min(one.max_message_size, MOST_BARE) if bare else one.max_message_size,
        [_reach(word) for word in listed(one.reach)],
    )


def _reach(word: str) -> tuple[int, bytes, bool]:
    if word == "*":
        return 0, b"", True
    address = parse_address(word.removesuffix("*"))
    return address.type, address.value, word.endswith("*")

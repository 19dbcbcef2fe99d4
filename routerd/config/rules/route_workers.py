"""Rules of routeWorker entities, and the route workers that they declare (docs/source-routes.md)."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from routerd.config.entities.attribute import Entity
from routerd.config.entities.source_routes import RouteWorker, SourceRoutes
from routerd.config.entities.transport import Connector, Listener
from routerd.config.formats.source import Mistake, closest, shown
from routerd.config.rules.check import Checked
from routerd.source_routes import workers
from routerd.source_routes.access import KINDS, LOCAL, Access
from routerd.source_routes.address import Address, Route, parse_address, parse_route
from routerd.source_routes.place import Classes, Limits, MetaClass, Place, Rules
from routerd.source_routes.workers import TRAILING_DIGITS, Strip, Unwrapped, Worker, Wrapped


class _Takes(NamedTuple):
    """The attributes that a kind needs and those that it may have, by their names in files."""

    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


_TRACE = ("trace", "traceAs")
_STRIP = ("stripCount", "keepScopes", "scopePattern", "marker")
_TAKES: dict[str, _Takes] = {
    "forward": _Takes(may=_TRACE),
    "static": _Takes(("route",)),
    "proxy": _Takes(("route", "inner"), ("innerAllow",)),
    "extend": _Takes(("route",), (*_TRACE, "marker")),
    "collapse": _Takes(may=(*_TRACE, *_STRIP)),
    "transform": _Takes(("use",), _TRACE),
    "payload-wrap": _Takes(may=("route", *_TRACE)),
    "payload-unwrap": _Takes(may=_TRACE),
    "wrap": _Takes(("route",), ("returnRoute", "format", "metadata")),
    "unwrap": _Takes(may=(*_TRACE, "format", "metadata")),
    "tee": _Takes(("route",), _TRACE),
    "discovery": _Takes(("route",), ("inner", "innerAllow", "uplinks", "mode", "format", "metadata", *_STRIP)),
}
MOST_SOURCES = 256  # the limit of workers/source_routes/table.c
_ALL = ("name", "kind", "address", "scopeChange", "allow", "sendTo")
_USE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


def check_route_workers(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in route workers and in sourceRoutes."""
    connectors = [at.entity.name for at in checked if _is_uplink(at.entity) and at.entity.name]
    seen: dict[Address, Checked] = {}
    sources: set[str] = set()
    for at in checked:
        if isinstance(at.entity, RouteWorker) and not at.wrong:
            yield from _fits(at, at.entity)
            yield from _values(at, at.entity, connectors, seen)
            few = len(sources) <= MOST_SOURCES
            sources |= {f"uplink:{name}" for name in _words(at.entity.uplinks)}
            sources |= {*_words(at.entity.allow), *_words(at.entity.inner_allow)} - {LOCAL}
            if few and len(sources) > MOST_SOURCES:
                text = f"allow and uplinks of all workers name more than {MOST_SOURCES} sources; name fewer"
                yield at.mistake("", text)
        elif isinstance(at.entity, SourceRoutes):
            yield from _keys(at, at.entity)


def _is_uplink(one: Entity) -> bool:
    """Whether messages from other networks arrive through the entity."""
    return isinstance(one, Connector) or (isinstance(one, Listener) and one.protocol == "ockam")


def _fits(at: Checked, worker: RouteWorker) -> Iterator[Mistake]:
    takes = _TAKES[worker.kind]
    for name in takes.needs:
        if name not in at.lines:
            yield at.mistake("", f"of kind {worker.kind} needs {name}; give it")
    for name in at.lines:
        if name not in (*_ALL, *takes.needs, *takes.may):
            others = [kind for kind, one in _TAKES.items() if name in (*one.needs, *one.may)]
            yield at.mistake(name, f"has no effect in one of kind {worker.kind}; it is for {', '.join(others)}")
    strips = [name for name in ("stripCount", "keepScopes", "marker") if _is_given(at, worker, name)]
    stripping = worker.kind == "collapse" or (worker.kind == "discovery" and worker.mode == "strip")
    if stripping and len(strips) != 1:
        yield at.mistake("", "has to know what to cut off; give one of stripCount, keepScopes, marker")
    elif worker.kind == "discovery" and not stripping and strips:
        yield at.mistake(strips[0], "has no effect in mode wrap; give mode: strip, or remove it")
    if worker.kind == "discovery" and not worker.inner and not _words(worker.uplinks):
        text = "has neither inner nor uplinks, so nothing comes in by it; give one of them"
        yield at.mistake("", text, warning=True)
    if worker.trace_as and not _traces(worker):
        yield at.mistake("traceAs", "has no effect without tracing; give trace: yes, too")


def _is_given(at: Checked, worker: RouteWorker, name: str) -> bool:
    value = getattr(worker, at.type.attributes[name].field)
    return name in at.lines and value is not None and value is not False  # a count of 0 is a value


def _values(at: Checked, worker: RouteWorker, connectors: list[str], seen: dict[Address, Checked]) -> Iterator[Mistake]:
    for name, read in _READ.items():
        value = getattr(worker, at.type.attributes[name].field)
        try:
            if value is not None:
                read(value)
        except ValueError as error:
            yield at.mistake(name, f"{error}; {_INSTEAD[read]}")
            return
    for name in ("address", "inner"):
        value = getattr(worker, name)
        if value is None:
            continue
        first = seen.setdefault(parse_address(value), at)
        if first is not at or (name == "inner" and parse_address(value) == parse_address(worker.address)):
            where = f"of the worker {first.where(at)}" if first is not at else "the worker's own"
            yield at.mistake(name, f"{shown(value)} is {where}; give another")
    for name in _words(worker.uplinks):
        if name not in connectors:
            guess = closest(name, connectors)
            hint = f"did you mean {shown(guess)}?" if guess else "add a connector with that name"
            yield at.mistake("uplinks", f"there is no connector named {shown(name)}; {hint}")
    options = ("restore", "merge") if worker.kind == "unwrap" else ()
    if worker.metadata and options and worker.metadata not in options:
        yield at.mistake("metadata", f"{shown(worker.metadata)} does not fit; give restore or merge")


def _keys(at: Checked, given: SourceRoutes) -> Iterator[Mistake]:
    seen: dict[str, str] = {}
    for attribute, keys in _classes(given):
        for key in keys:
            if seen.setdefault(key, attribute) != attribute:
                yield at.mistake(attribute, f"{shown(key)} stands in {seen[key]}, too; give it one class")


def _classes(given: SourceRoutes) -> tuple[tuple[str, list[str]], ...]:
    return (
        ("appendKeys", _words(given.append_keys)),
        ("localKeys", _words(given.local_keys)),
        ("sealedKeys", _words(given.sealed_keys)),
    )


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _sources(text: str) -> frozenset[str]:
    for word in _words(text):
        kind, _, name = word.partition(":")
        if word != LOCAL and (kind not in KINDS or not name):
            raise ValueError(f"{shown(word)} is no source")
    return frozenset(_words(text))


def _addresses(text: str) -> frozenset[Address]:
    return frozenset(map(parse_address, _words(text)))


def _some_route(text: str) -> Route:
    route = parse_route(text)
    if not route:
        raise ValueError("it is empty")
    return route


def _function(text: str) -> str:
    if not _USE.fullmatch(text):
        raise ValueError(f"{shown(text)} is no function")
    return text


def _pattern(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ValueError(f"{shown(text)} is no regular expression: {error}") from None
    if pattern.groups != 1:
        raise ValueError(f"{shown(text)} has {pattern.groups} groups")
    return pattern


_READ: dict[str, Callable[[str], Any]] = {
    "address": parse_address, "inner": parse_address, "traceAs": parse_address, "route": _some_route,
    "returnRoute": parse_route, "scopePattern": _pattern, "use": _function, "allow": _sources,
    "innerAllow": _sources, "sendTo": _addresses,
}  # fmt: skip
_INSTEAD: dict[Callable[[str], Any], str] = {
    parse_address: "give a name or TYPE#NAME, such as D1 or 64#D1",
    _some_route: "give addresses such as T13=>F3",
    parse_route: "give addresses such as T13=>F3",
    _pattern: "give one with one group, such as ([0-9]+)$",
    _function: "give module:function",
    _sources: f"give {LOCAL}, or one of {', '.join(KINDS)} with a colon and a name",
    _addresses: "give addresses separated by commas",
}


def place_of(name: str, entities: Iterable[Entity]) -> Place:
    """Return the route workers of a configuration without mistakes, in the form that `explain` takes."""
    found = [(one, _worker(one)) for one in entities if isinstance(one, RouteWorker)]
    given = next((one for one in entities if isinstance(one, SourceRoutes)), SourceRoutes())
    incoming: dict[Address, frozenset[str]] = {}
    outgoing: dict[Address, frozenset[Address]] = {}
    for entity, worker in found:
        for address, text in ((entity.address, entity.allow), (entity.inner, entity.inner_allow)):
            if address is not None and text is not None:
                incoming[parse_address(address)] = _sources(text)
        if entity.send_to is not None:
            outgoing[worker.address] = _addresses(entity.send_to)
    by_address = {address: worker for _, worker in found for address in worker.addresses}
    return Place(name, by_address, Access(incoming, outgoing), _rules(given))


def _rules(given: SourceRoutes) -> Rules:
    limits = Limits(
        hops=given.hops,
        onward=given.onward_addresses,
        returning=given.return_addresses,
        address_octets=given.address_octets,
        route_octets=given.route_octets,
        nesting=given.nesting,
        meta_keys=given.metadata_keys,
        meta_octets=given.metadata_octets,
        lenient_tail=given.lenient_tail,
    )
    kinds = {"appendKeys": MetaClass.APPEND, "localKeys": MetaClass.LOCAL, "sealedKeys": MetaClass.SEALED}
    classes = {key: kinds[attribute] for attribute, keys in _classes(given) for key in keys}
    return Rules(limits, Classes(classes))


def _traces(worker: RouteWorker) -> bool:
    return worker.kind in ("extend", "collapse", "tee") if worker.trace is None else worker.trace


def _worker(given: RouteWorker) -> Worker:
    return _MAKE[given.kind](given)


def _common(given: RouteWorker) -> dict[str, Any]:
    return {"address": parse_address(given.address), "crosses": given.scope_change}


def _tracer(given: RouteWorker) -> dict[str, Any]:
    other = parse_address(given.trace_as) if given.trace_as else None
    return {**_common(given), "trace": _traces(given), "trace_as": other}


def _routed(given: RouteWorker) -> dict[str, Any]:
    return {"route": parse_route(given.route or "")}


def _strip(given: RouteWorker) -> Strip:
    if given.strip_count is not None:
        return workers.Count(given.strip_count)
    if given.keep_scopes is not None:
        pattern = TRAILING_DIGITS if given.scope_pattern is None else _pattern(given.scope_pattern)
        return workers.KeepScopes(frozenset(_words(given.keep_scopes)), pattern)
    return workers.ToMarker()


def _hidden(given: RouteWorker) -> Wrapped:
    if given.metadata in (None, "hide"):
        return "hide"
    return "copy" if given.metadata == "copy" else tuple(_words(given.metadata))


def _discovery(given: RouteWorker) -> Worker:
    return workers.Discovery(
        **_common(given),
        **_routed(given),
        inner=parse_address(given.inner) if given.inner else None,
        uplinks=frozenset(f"uplink:{name}" for name in _words(given.uplinks)),
        strip=_strip(given) if given.mode == "strip" else None,
        form=given.format,
        metadata=_hidden(given),
    )


def _wrap(given: RouteWorker) -> Worker:
    back = parse_route(given.return_route or "")
    return workers.Wrap(**_common(given), **_routed(given), returning=back, form=given.format, metadata=_hidden(given))


def _unwrap(given: RouteWorker) -> Worker:
    option: Unwrapped = "merge" if given.metadata == "merge" else "restore"
    return workers.Unwrap(**_tracer(given), form=given.format, metadata=option)


_MAKE: dict[str, Callable[[RouteWorker], Worker]] = {
    "forward": lambda given: workers.Forward(**_tracer(given)),
    "static": lambda given: workers.Static(**_common(given), **_routed(given)),
    "proxy": lambda given: workers.Proxy(**_common(given), **_routed(given), inner=parse_address(given.inner or "")),
    "extend": lambda given: workers.Extend(**_tracer(given), **_routed(given), marker=given.marker),
    "collapse": lambda given: workers.Collapse(**_tracer(given), strip=_strip(given)),
    "transform": lambda given: workers.Transform(**_tracer(given), use=given.use or ""),
    "payload-wrap": lambda given: workers.PayloadWrap(**_tracer(given), **_routed(given)),
    "payload-unwrap": lambda given: workers.PayloadUnwrap(**_tracer(given)),
    "wrap": _wrap,
    "unwrap": _unwrap,
    "tee": lambda given: workers.Tee(**_tracer(given), **_routed(given)),
    "discovery": _discovery,
}

"""Rules of routeWorker and sourceRoutes entities (docs/source-routes.md)."""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from routerd.config.entities.attribute import Entity
from routerd.config.entities.source_routes import RouteWorker, SourceRoutes
from routerd.config.entities.transport import Connector, Listener
from routerd.config.formats.closest import closest
from routerd.config.formats.source import Mistake, listed, shown
from routerd.config.rules.check import Checked
from routerd.source_routes.access import KINDS, LOCAL
from routerd.source_routes.address import Address, Route, parse_address, parse_route
from shm.contract.scope_pattern import compile_scope_pattern


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
            sources |= {f"uplink:{name}" for name in listed(at.entity.uplinks)}
            sources |= {*listed(at.entity.allow), *listed(at.entity.inner_allow)} - {LOCAL}
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
            yield at.mistake("", f"kind {worker.kind} needs {name}; add it")
    for name in at.lines:
        if name not in (*_ALL, *takes.needs, *takes.may):
            others = [kind for kind, one in _TAKES.items() if name in (*one.needs, *one.may)]
            yield at.mistake(name, f"has no effect for kind {worker.kind}, only for {', '.join(others)}")
    strips = [name for name in ("stripCount", "keepScopes", "marker") if _is_given(at, name)]
    stripping = worker.kind == "collapse" or (worker.kind == "discovery" and worker.mode == "strip")
    if stripping and len(strips) != 1:
        yield at.mistake("", "does not say what to cut off; give one of stripCount, keepScopes, marker")
    elif worker.kind == "discovery" and not stripping and strips:
        yield at.mistake(strips[0], "has no effect in mode wrap; give mode: strip, or remove it")
    if worker.kind == "discovery" and not worker.inner and not listed(worker.uplinks):
        text = "has neither inner nor uplinks, so no message arrives through it; give one of them"
        yield at.mistake("", text, warning=True)
    if worker.trace_as and not worker.traces:
        yield at.mistake("traceAs", "has no effect without tracing; set trace: yes, too")


def _is_given(at: Checked, name: str) -> bool:
    value = at.value(name)
    return name in at.lines and value is not None and value is not False  # a count of 0 is a value


def _values(at: Checked, worker: RouteWorker, connectors: list[str], seen: dict[Address, Checked]) -> Iterator[Mistake]:
    for name, read in _READ.items():
        value = at.value(name)
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
    for name in listed(worker.uplinks):
        if name not in connectors:
            guess = closest(name, connectors)
            hint = f"did you mean {shown(guess)}?" if guess else "add a connector with that name"
            yield at.mistake("uplinks", f"there is no connector named {shown(name)}; {hint}")
    options = ("restore", "merge") if worker.kind == "unwrap" else ()
    if worker.metadata and options and worker.metadata not in options:
        yield at.mistake("metadata", f"{shown(worker.metadata)} does not fit; give restore or merge")


def _keys(at: Checked, given: SourceRoutes) -> Iterator[Mistake]:
    seen: dict[str, str] = {}
    for name, keys in given.classes.items():
        attribute = f"{name}Keys"
        for key in keys:
            if seen.setdefault(key, attribute) != attribute:
                yield at.mistake(attribute, f"{shown(key)} is in {seen[key]}, too; give it one class")


def _sources(text: str) -> frozenset[str]:
    for word in listed(text):
        kind, _, name = word.partition(":")
        if word != LOCAL and (kind not in KINDS or not name):
            raise ValueError(f"{shown(word)} is not a source")
    return frozenset(listed(text))


def _addresses(text: str) -> frozenset[Address]:
    return frozenset(map(parse_address, listed(text)))


def _some_route(text: str) -> Route:
    route = parse_route(text)
    if not route:
        raise ValueError("it is empty")
    return route


def _function(text: str) -> str:
    if not _USE.fullmatch(text):
        raise ValueError(f"{shown(text)} is not a function")
    return text


_READ: dict[str, Callable[[str], Any]] = {
    "address": parse_address, "inner": parse_address, "traceAs": parse_address, "route": _some_route,
    "returnRoute": parse_route, "scopePattern": compile_scope_pattern, "use": _function, "allow": _sources,
    "innerAllow": _sources, "sendTo": _addresses,
}  # fmt: skip
_INSTEAD: dict[Callable[[str], Any], str] = {
    parse_address: "give a name or TYPE#NAME, such as D1 or 64#D1",
    _some_route: "give addresses such as T13=>F3",
    parse_route: "give addresses such as T13=>F3",
    compile_scope_pattern: "give one with one group, such as ([0-9]+)$, and without lookaround and backreferences",
    _function: "give module:function",
    _sources: f"give {LOCAL}, or one of {', '.join(KINDS)} with a colon and a name",
    _addresses: "give addresses separated by commas",
}

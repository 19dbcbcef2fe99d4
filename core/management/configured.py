"""Configured entity types: the supervisor reports their entities and applies requested changes."""

from collections.abc import Callable
from typing import Any

from core.exchanges import exchanges
from core.links import auto_links, connectors
from core.links.terminus import ROUTE_CONTAINER
from core.management.entities import Entities
from core.management.entity_type import EntityType
from core.management.request import BAD_REQUEST, ManagementError, Request, Response
from core.management.view import View
from core.source_routes.route_workers import RouteWorkers as RouteWorkerPlane
from shm.contract.management import TypeSchema

WAITING = "its connection is there; the link is attached within seconds"  # after a core's death
MOST_VALUES = 10_000  # in the attributes of one request


def column(name: str, otherwise: Any = None) -> Callable[[dict[str, Any]], Any]:
    """Return the reader of an attribute's column."""
    return lambda row: row.get(name, otherwise)


class Configured(EntityType):
    """Entities of the configuration. The supervisor owns it, and checks and applies requested changes."""

    def __init__(self, view: View, schema: TypeSchema) -> None:
        columns = {a.name: column(a.name, None if a.create else a.default) for a in schema.attributes}
        super().__init__(view, schema, columns | {"type": lambda row: schema.long_name})

    @property
    def _entities(self) -> Entities:
        return self._view.entities(self.schema.name)

    def rows(self) -> list[dict[str, Any]]:
        return list(self._entities.rows)

    def among(self, name: str | None, identity: str | None) -> list[dict[str, Any]]:
        """Return the entity with this identity, or those of this name."""
        return self._entities.find(name, identity)

    def create(self, request: Request) -> Response:
        """Create an entity, which lasts until the router stops."""
        if "CREATE" not in self.schema.operations:
            raise self.cannot("CREATE")
        attributes = self._attributes(request)
        if request.name is not None and attributes.setdefault("name", request.name) != request.name:
            raise ManagementError(BAD_REQUEST, "name: the body and the request differ")
        return self._change("CREATE", "", attributes)

    def update(self, request: Request) -> Response:
        """Change attributes. Those given with their present value are ignored."""
        if "UPDATE" not in self.schema.operations:
            raise self.cannot("UPDATE")
        row = self.find(request.name, request.identity)
        attributes = {
            name: value
            for name, value in self._attributes(request).items()
            if name not in self.columns or value != self.columns[name](row)
        }
        return self._change("UPDATE", str(row["identity"]), attributes)

    def delete(self, request: Request) -> Response:
        """Delete an entity."""
        if "DELETE" not in self.schema.operations:
            raise self.cannot("DELETE")
        row = self.find(request.name, request.identity)
        return self._change("DELETE", str(row["identity"]), {})

    def _attributes(self, request: Request) -> dict[str, Any]:
        _check(request.attributes)
        given = request.attributes.items()
        return {name: value for name, value in given if name != "type" and (name != "identity" or value is not None)}

    def _change(self, operation: str, identity: str, attributes: dict[str, Any]) -> Response:
        reply = self._view.change(operation, self.schema.name, identity, attributes)
        if reply.status >= BAD_REQUEST:
            raise ManagementError(reply.status, reply.text)
        body = self.values(self.find(None, reply.identity)) if reply.identity else {}
        return Response(reply.status, body, reply.text)


class Connectors(Configured):
    """Connectors and their states."""

    def row(self, entity: dict[str, Any]) -> dict[str, Any]:
        state = self._view.core.plane(connectors.Connectors).find(entity["name"])
        if state is None:
            return entity | {"connectionStatus": "INITIALIZING"}
        return {
            **entity,
            "connectionStatus": state.status,
            "connectionMsg": state.message,
            "failoverUrls": ", ".join(state.hosts),
        }


def _check(attributes: dict[str, Any]) -> None:
    """Raises ManagementError for more values than a configuration has, or for one that fits no attribute."""
    count, rest = 0, [attributes]
    while rest:
        value: Any = rest.pop()
        count += 1
        if count > MOST_VALUES:
            raise ManagementError(BAD_REQUEST, f"the attributes have more than {MOST_VALUES} values")
        if isinstance(value, dict):
            if wrong := [name for name in value if not isinstance(name, str)]:
                raise ManagementError(BAD_REQUEST, f"the name of an attribute is {wrong[0]!r}; give a string")
            rest += value.values()
        elif isinstance(value, list):
            rest += value
        elif value is not None and not isinstance(value, bool | int | float | str):
            raise ManagementError(BAD_REQUEST, f"a value of type {type(value).__name__} fits no attribute")


# Columns of router.config.address in qdrouterd, in its order.
_ADDRESS_COLUMNS = (
    "name", "identity", "type", "prefix", "distribution", "waypoint", "ingressPhase", "egressPhase",
    "pattern", "priority", "fallback",
)  # fmt: skip


class Routing(Configured):
    """Entity types that qdrouterd keeps in its core, with its order of columns and null if unknown."""

    lenient = True

    def __init__(self, view: View, schema: TypeSchema) -> None:
        super().__init__(view, schema)
        names, own = _ROUTING[schema.name]
        everything = dict.fromkeys((*names, *self.columns))
        self.columns = {name: own.get(name, self.columns.get(name, column(name))) for name in everything}
        self.standard = list(names)

    def values(self, row: Any) -> dict[str, Any]:
        """Return all standard attributes, also those without a value, as qdrouterd's core does."""
        return dict.fromkeys(self.standard) | super().values(row)


def _phase(name: str, with_waypoint: int) -> Callable[[dict[str, Any]], Any]:
    def read(row: dict[str, Any]) -> Any:
        value = row.get(name)
        return value if value is not None else with_waypoint if row.get("waypoint") else 0

    return read


def unserved(view: View, entity: dict[str, Any]) -> str:
    """Return why no connection is there for an inactive auto link or link route."""
    if container := entity.get("containerId"):
        return f"no connection with the role {ROUTE_CONTAINER} has the container id {container}"
    name = str(entity.get("connection"))
    for kind in ("connector", "listener"):
        if found := next(iter(view.entities(kind).find(name, None)), None):
            if (role := found.get("role", "normal")) != ROUTE_CONTAINER:
                return f"the {kind} {name} has the role {role}; give it the role {ROUTE_CONTAINER}"
            if kind == "listener":
                return f"nobody is connected to the listener {name}"
            why = view.core.plane(connectors.Connectors).trouble(name)
            return f"connector {name}: {why or f'no connection with the role {ROUTE_CONTAINER} yet'}"
    return f"there is no connector or listener with the name {name}"


Columns = dict[str, Callable[[dict[str, Any]], Any]]

_ADDRESS: Columns = {
    "waypoint": lambda row: bool(row.get("waypoint")),
    "ingressPhase": _phase("ingressPhase", 0),
    "egressPhase": _phase("egressPhase", 1),
    "priority": lambda row: -1 if row.get("priority") is None else row["priority"],
    "fallback": lambda row: bool(row.get("enableFallback")),
}

_LINK_ROUTE_COLUMNS = (
    "name", "identity", "type", "prefix", "distribution", "connection", "containerId", "direction", "dir",
    "operStatus", "pattern", "addExternalPrefix", "delExternalPrefix",
)  # fmt: skip
_LINK_ROUTE: Columns = {"dir": column("direction")}

_AUTO_LINK_COLUMNS = (
    "name", "identity", "type", "address", "addr", "direction", "dir", "phase", "connection", "containerId",
    "externalAddress", "externalAddr", "linkRef", "operStatus", "lastError", "fallback",
)  # fmt: skip


def _auto_link_phase(row: dict[str, Any]) -> Any:
    phase = row.get("phase")
    return phase if phase is not None else int(row.get("direction") == "in" and not row.get("fallback"))


_AUTO_LINK: Columns = {
    "addr": column("address"),
    "dir": column("direction"),
    "externalAddr": column("externalAddress"),
    "phase": _auto_link_phase,
}

_EXCHANGE_COLUMNS = (
    "name", "identity", "address", "phase", "alternateAddress", "alternatePhase", "matchMethod",
    "bindingCount", "receivedCount", "droppedCount", "forwardedCount", "divertedCount",
)  # fmt: skip
_BINDING_COLUMNS = (
    "name", "identity", "exchangeName", "bindingKey", "nextHopAddress", "nextHopPhase", "matchedCount",
)  # fmt: skip


def _or_zero(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda row: row.get(name) or 0


_EXCHANGE: Columns = {"phase": _or_zero("phase"), "alternatePhase": _or_zero("alternatePhase")}

_ROUTING: dict[str, tuple[tuple[str, ...], Columns]] = {
    "router.config.address": (_ADDRESS_COLUMNS, _ADDRESS),
    "router.config.linkRoute": (_LINK_ROUTE_COLUMNS, _LINK_ROUTE),
    "router.config.autoLink": (_AUTO_LINK_COLUMNS, _AUTO_LINK),
    "router.config.exchange": (_EXCHANGE_COLUMNS, _EXCHANGE),
    "router.config.binding": (_BINDING_COLUMNS, {"nextHopPhase": _or_zero("nextHopPhase")}),
}
ROUTING = frozenset(_ROUTING)


class AutoLinks(Routing):
    """Auto links and their states."""

    def row(self, entity: dict[str, Any]) -> dict[str, Any]:
        auto = self._view.core.plane(auto_links.AutoLinks).find(entity["identity"])
        if auto is None:
            return entity
        reference = None if auto.reference is None else str(auto.reference)
        error = auto.error
        if not error and auto.state == "inactive":
            error = WAITING if auto.legs else unserved(self._view, entity)
        return entity | {"operStatus": auto.state, "lastError": error or None, "linkRef": reference}


class Exchanges(Routing):
    """Exchanges and their counts."""

    def row(self, entity: dict[str, Any]) -> dict[str, Any]:
        counts = self._view.core.plane(exchanges.Exchanges).counts(entity["identity"])
        received, forwarded, diverted, dropped, bindings = counts
        return {
            **entity,
            "bindingCount": len(bindings),
            "receivedCount": received,
            "droppedCount": dropped,
            "forwardedCount": forwarded,
            "divertedCount": diverted,
        }


class RouteWorkers(Configured):
    """Route workers and their counts, which are at most a second old."""

    def row(self, entity: dict[str, Any]) -> dict[str, Any]:
        count = self._view.core.plane(RouteWorkerPlane).count(entity["identity"])
        return {
            **entity,
            "inCount": count.came,
            "outCount": count.went,
            "refusedCount": sum(count.refused.values()),
            "refusedByReason": dict(count.refused),
        }


class Bindings(Routing):
    """Bindings and their numbers of matches."""

    def row(self, entity: dict[str, Any]) -> dict[str, Any]:
        matched = self._view.core.plane(exchanges.Exchanges).matched(entity["identity"])
        return entity | {"matchedCount": matched}

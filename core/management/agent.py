"""The agent: passes each request to the entity type or management node that it concerns.

It knows neither messages nor threads: a request comes in, a response goes out.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from core.management.address import Addresses
from core.management.allocator import Allocators
from core.management.configured import (
    ROUTING,
    AutoLinks,
    Bindings,
    Configured,
    Connectors,
    Exchanges,
    RouteWorkers,
    Routing,
)
from core.management.connection import Connections
from core.management.dummy import Dummy
from core.management.entity_type import EntityType, Table
from core.management.link import Links
from core.management.link_route import ConnectionLinkRoutes, LinkRoutes
from core.management.log import LogStats
from core.management.node import Nodes
from core.management.policy import Policies
from core.management.request import (
    BAD_REQUEST,
    FORBIDDEN,
    INTERNAL,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    Later,
    ManagementError,
    Request,
    Response,
)
from core.management.route_managers import Applications, Managers
from core.management.route_table import RouteTableEndpoints, RouteTableEntries, RouteTables
from core.management.router import Router
from core.management.self_node import NAME, TYPES, SelfNode
from core.management.vhost_stats import VhostStats
from core.management.view import View
from core.management.worker import Workers
from core.rmr.active.route_tables import RouteTables as Tables
from shm.contract.administering import reads
from shm.contract.complaints import bursts
from shm.contract.failures import failures
from shm.contract.management import Delta, Management
from shm.contract.text import printable
from shm.memory.journal import NOTICE

LOGGER = logging.getLogger("AGENT")

LONGEST_NAME = 100  # characters of a name in the log
LONGEST_TEXT = 4000  # characters of an error text

_TABLES: tuple[type[Table], ...] = (
    Connections, Links, Addresses, Nodes, Allocators, LogStats, VhostStats, Workers, ConnectionLinkRoutes,
)  # fmt: skip
_OF_ROUTE_TABLES: tuple[type[Table], ...] = (RouteTableEntries, RouteTableEndpoints, Applications, Managers)
_CONFIGURED: dict[str, type[Configured]] = {
    "router": Router,
    "policy": Policies,
    "connector": Connectors,
    "router.config.autoLink": AutoLinks,
    "router.config.exchange": Exchanges,
    "router.config.routeWorker": RouteWorkers,
    "router.config.binding": Bindings,
    "router.config.linkRoute": LinkRoutes,
}
DONE, REFUSED = "%s of %s by %s done", "%s of %s by %s refused: %s"
Respond = Callable[[Request], Response | Later]
_CRUD = ("CREATE", "READ", "UPDATE", "DELETE")


class Agent:
    """Answers requests about one router."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._refusals, self._changes = bursts(), bursts()
        kinds = _CONFIGURED
        tables = _TABLES
        if view.core.find(Tables) is not None:
            kinds, tables = kinds | {"routeTable": RouteTables}, tables + _OF_ROUTE_TABLES
        types: list[EntityType] = [table(view) for table in tables]
        for schema in view.types:
            kind = kinds.get(schema.name, Routing if schema.name in ROUTING else Configured)
            types.insert(0 if kind is Router else len(types), kind(view, schema))
        types.append(dummy := Dummy(view))
        self._entity_types = {entity_type.schema.name: entity_type for entity_type in types}
        self._calls: dict[tuple[str, str | None], Respond] = {("CALLME", "dummy"): dummy.call}
        if isinstance(table := self._entity_types.get("routeTable"), RouteTables):
            self._calls |= {("PUSH", "routeTable"): table.push, ("EXPLAIN", "routeTable"): table.explain}
        self._self = SelfNode(self._entity_types, view.recent)

    def configure(self, management: Management) -> None:
        """Replace all entities by those of a newly read configuration."""
        self._view.configure(management)

    def change(self, deltas: Sequence[Delta]) -> None:
        """Apply changes of entities."""
        for delta in deltas:
            self._view.entities(delta.kind).change(delta)

    def handle(self, request: Request) -> Response | Later:
        """Return the response to a request, or what will have it. Neither this nor ``finish`` raises."""
        LOGGER.debug("%s of %s", printable(request.operation, LONGEST_NAME).lower(), _about(request))

        def respond() -> Response | Later:
            request.requester.permit(request.operation)
            return self._respond(request)

        self._view.requester = request.requester
        return self._told(request, respond)

    def _told(self, request: Request, respond: Callable[[], Response | Later]) -> Response | Later:
        """Return what ``respond`` does, and log it if it changes something, or fails."""
        operation = printable(request.operation, LONGEST_NAME)
        try:
            response = respond()
        except ManagementError as error:
            text, who = printable(error.text, LONGEST_TEXT), request.requester.who
            self._refusals.tell(time.monotonic(), LOGGER, logging.ERROR, REFUSED, operation, _about(request), who, text)
            return Response(error.status, {}, text)
        except Exception as error:
            failures.tell("a management request", error, f"{operation} of {_about(request)} is answered with an error")
            return Response(INTERNAL, {}, f"{type(error).__name__}: {error}")
        if isinstance(response, Later):
            finish = response.finish
            return Later(response.then, lambda: cast(Response, self._told(request, finish)))
        if not reads(request.operation):
            who = request.requester.who
            self._changes.tell(time.monotonic(), LOGGER, NOTICE, DONE, operation, _about(request), who)
        return response

    def _respond(self, request: Request) -> Response | Later:
        if request.type == "console":
            raise ManagementError(FORBIDDEN, "the console is not managed")
        if request.operation == "QUERY" and request.type is not None and not self._is_self(request):
            # qdrouterd also accepts the queried type in place of the agent's own
            request = msgspec.structs.replace(request, type=None, entity_type=request.type)
        if request.operation in _CRUD and not self._is_self(request):
            return self._crud(request)
        if (call := self._calls.get((request.operation, request.type))) is not None:
            return call(request)
        operation = self._self.operations.get(request.operation)
        if operation is None:
            raise ManagementError(NOT_IMPLEMENTED, f"the operation {request.operation!r} is not implemented")
        if not self._is_self(request):
            raise ManagementError(NOT_IMPLEMENTED, f"{request.operation} is not implemented for {_about(request)}")
        return operation(request)

    def _is_self(self, request: Request) -> bool:
        if request.type is not None:
            return request.type in TYPES
        named = {one for one in (request.name, request.identity) if one is not None}
        return named <= {NAME} and (bool(named) or request.operation != "CREATE")

    def _crud(self, request: Request) -> Response:
        if request.operation == "CREATE":
            return self._self.entity_type(self._created_type(request)).create(request)
        entity_type = self._self.entity_type(request.type) if request.type is not None else self._owner(request)
        self._check_type(entity_type, request)
        match request.operation:
            case "READ":
                return entity_type.read(request)
            case "UPDATE":
                return entity_type.update(request)
            case _:
                return entity_type.delete(request)

    def _check_type(self, entity_type: EntityType, request: Request) -> None:
        """Raises ManagementError if the named entity exists with another type than the request says."""
        if (request.name is None and request.identity is None) or not isinstance(entity_type, Configured):
            return
        try:
            entity_type.find(request.name, request.identity)
        except ManagementError as error:
            if error.status != NOT_FOUND:
                return
            try:
                other = self._owner(request).schema.name
            except ManagementError:
                return
            text = f"{_about(request)} is no {entity_type.schema.name} but a {other}"
            raise ManagementError(BAD_REQUEST, text) from error

    def _created_type(self, request: Request) -> str:
        stated = request.attributes.get("type")
        if stated is not None and not isinstance(stated, str):
            raise ManagementError(BAD_REQUEST, "type must be a string")
        name = request.type or (stated and Request("", type=stated).type)
        if not name:
            raise ManagementError(BAD_REQUEST, "CREATE needs the type of the new entity")
        return str(name)

    def _owner(self, request: Request) -> EntityType:
        """Return the entity type of a named entity, for a request without a type. Raises ManagementError."""
        for entity_type in self._entity_types.values():
            try:
                entity_type.find(request.name, request.identity)
            except ManagementError:
                continue
            return entity_type
        raise ManagementError(NOT_FOUND, f"there is no entity {_about(request)}")


def _about(request: Request) -> str:
    parts = {"type": request.type or request.entity_type, "name": request.name, "identity": request.identity}
    named = ((key, repr(value)) for key, value in parts.items() if value is not None)
    return " ".join(f"{key} {printable(value, LONGEST_NAME)}" for key, value in named) or "the agent"

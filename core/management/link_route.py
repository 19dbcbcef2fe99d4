"""Link routes: configured ones with their state, and those that connections request for themselves."""

from typing import Any

from core.addresses.agent_address import is_own
from core.link_routes.routes import Host, Offer, Routes
from core.management.configured import Routing, column, unserved
from core.management.entity_type import Column, Table, type_column
from core.management.request import (
    BAD_REQUEST,
    CREATED,
    FORBIDDEN,
    NO_CONTENT,
    ManagementError,
    Request,
    Requester,
    Response,
)
from core.management.view import View
from shm.contract.control import LinkRouteSetup
from shm.contract.management import TypeSchema

DIRECTIONS = ("in", "out")
MOST = 250  # link routes of one connection: 30 MB of the core
LONGEST = 1000  # characters of a pattern, because routes are searched token by token
LONGEST_NAME = 2 * LONGEST  # characters: an edge router names its routes by its id and their patterns


class LinkRoutes(Routing):
    """The entity type `router.config.linkRoute`."""

    def __init__(self, view: View, schema: TypeSchema) -> None:
        super().__init__(view, schema)
        self.columns["lastError"] = column("lastError")  # of routerd alone, only if asked for

    def row(self, entity: dict[str, Any]) -> dict[str, Any]:
        if self._view.core.plane(Routes).active(_setup(entity)):
            return entity | {"operStatus": "active"}
        return entity | {"operStatus": "inactive", "lastError": unserved(self._view, entity)}


def _setup(row: dict[str, Any]) -> LinkRouteSetup:
    return LinkRouteSetup(
        row.get("direction") == "out",
        row.get("prefix"),
        row.get("pattern"),
        row.get("containerId"),
        row.get("connection"),
    )


class ConnectionLinkRoutes(Table):
    """Link routes that last as long as the connection that requests them. Only that connection sees them."""

    NAME = "router.connection.linkRoute"
    DESCRIPTION = "A link route to the connection that requested it."
    OPERATIONS = ("CREATE", "READ", "DELETE")
    COLUMNS = (
        Column("name", "string", "Name of the link route, if it has one.", lambda o: o.name),
        Column("identity", "string", "Number of the link route.", lambda o: o.identity),
        type_column("router.connection.linkRoute"),
        Column("pattern", "string", "Pattern of the addresses.", lambda o: o.pattern),
        Column("direction", "string", "in for senders, out for receivers.", lambda o: DIRECTIONS[o.outgoing]),
        Column("containerId", "string", "Container id of the connection.", lambda o: o.container),
    )

    def _host(self, requester: Requester) -> Host | None:
        """Return a requester's connection as `Routes` names it, or None if it is gone."""
        client = self._view.client(requester)
        return None if client is None else (client[0], client[1].connection)

    def rows(self) -> list[Offer]:
        return self._view.core.plane(Routes).offers(self._host(self._view.requester))

    def among(self, name: str | None, identity: str | None) -> list[Offer]:
        """Return this connection's link route of this identity, or those of this name."""
        routes, host = self._view.core.plane(Routes), self._host(self._view.requester)
        return routes.named(host, name or "") if identity is None else routes.identified(host, identity)

    def create(self, request: Request) -> Response:
        """Create a link route to the connection that requests it."""
        requester = self._view.requester
        if requester.connection is None:
            raise ManagementError(BAD_REQUEST, "the requester is unknown; send the request unsettled")
        if not requester.may_route_links:
            raise ManagementError(FORBIDDEN, "allowDynamicLinkRoutes of the policy is no")
        attributes = request.attributes
        pattern, direction = attributes.get("pattern"), attributes.get("direction")
        if not isinstance(pattern, str) or not pattern:
            raise ManagementError(BAD_REQUEST, "pattern: give the pattern of the addresses")
        if direction not in DIRECTIONS:
            raise ManagementError(BAD_REQUEST, "direction: give one of in, out")
        _check(str(pattern), direction == "out", requester)
        name = request.name or attributes.get("name")
        name = None if name is None else str(name)
        if name is not None and len(name) > LONGEST_NAME:
            raise ManagementError(BAD_REQUEST, f"name: give at most {LONGEST_NAME} characters, not {len(name)}")

        def act() -> Offer:
            """Look for the connection in the core's thread: a route of one that is gone would stay for ever."""
            routes, host = self._view.core.plane(Routes), self._host(requester)
            if host is None:
                raise ManagementError(BAD_REQUEST, "the connection that asked is gone")
            if routes.offered(host) >= MOST:
                raise ManagementError(FORBIDDEN, f"the connection has {MOST} link routes already; delete one first")
            return routes.offer(host, name, str(pattern), direction == "out", requester.container)

        return Response(CREATED, self.values(self._view.command(act)))

    def delete(self, request: Request) -> Response:
        """Delete a link route of this connection."""
        offer = self.find(request.name, request.identity)
        self._view.command(lambda: self._view.core.plane(Routes).withdraw(offer))
        return Response(NO_CONTENT, {})


def _check(pattern: str, outgoing: bool, requester: Requester) -> None:
    """Raises ManagementError for a pattern that no connection, or not this one, may serve."""
    if len(pattern) > LONGEST:
        raise ManagementError(BAD_REQUEST, f"pattern: give at most {LONGEST} characters, not {len(pattern)}")
    if is_own(pattern):
        raise ManagementError(
            BAD_REQUEST, f"pattern: {pattern!r} is one of the router's own addresses; they have no link route"
        )
    if not requester.routable(pattern, outgoing):
        rights, entry = ("sources", "sourcePattern") if outgoing else ("targets", "targetPattern")
        raise ManagementError(
            FORBIDDEN,
            f"no entry of {rights} of its user group covers all addresses of the pattern {pattern!r}; "
            f"name it by {entry}",
        )

"""The entity types `router` and `router.node`."""

import socket
from typing import Any

from msgspec.structs import replace

from core.management.configured import Configured, column
from core.management.noun import Column, Table, constant, type_column
from core.management.processes import memory_usage
from core.management.request import FORBIDDEN, ManagementError, Request, Response
from core.management.view import View
from shm import stats
from shm.management import TypeSchema

# The counts of the core's statistics page by the attribute that tells them.
_COUNTS = {
    "presettledDeliveries": "presettled",
    "droppedPresettledDeliveries": "dropped_presettled",
    "acceptedDeliveries": "accepted",
    "rejectedDeliveries": "rejected",
    "releasedDeliveries": "released",
    "modifiedDeliveries": "modified",
    "deliveriesDelayed1Sec": "delayed_1s",
    "deliveriesDelayed10Sec": "delayed_10s",
}
_ZERO = (
    "nodeCount",
    "deliveriesTransit",
    "deliveriesIngressRouteContainer",
    "deliveriesEgressRouteContainer",
    "deliveriesRedirectedToFallback",
)
_COLUMNS = (
    "name", "identity", "id", "type", "mode", "area", "version", "metadata", "addrCount", "linkCount",
    "nodeCount", "linkRouteCount", "autoLinkCount", "connectionCount", "presettledDeliveries",
    "droppedPresettledDeliveries", "acceptedDeliveries", "rejectedDeliveries", "releasedDeliveries",
    "modifiedDeliveries", "deliveriesDelayed1Sec", "deliveriesDelayed10Sec", "deliveriesStuck",
    "deliveriesIngress", "deliveriesEgress", "deliveriesTransit", "deliveriesIngressRouteContainer",
    "deliveriesEgressRouteContainer", "deliveriesRedirectedToFallback", "linksBlocked", "uptimeSeconds",
    "memoryUsage", "workerThreads",
)  # fmt: skip


class Router(Configured):
    """The router: what is configured, and what it counts."""

    lenient = True

    def __init__(self, view: View, schema: TypeSchema) -> None:
        names = [*_COLUMNS, *(a.name for a in schema.attributes if a.name not in _COLUMNS)]
        super().__init__(view, schema)
        self.columns = {name: column(name) for name in names}
        self.standard = list(_COLUMNS)

    def rows(self) -> list[dict[str, Any]]:
        configured = self._view.management.entities.get("router") or [{}]
        return [configured[0]]

    def row(self, entity: dict[str, Any]) -> dict[str, Any]:
        """What is configured, and the counts as they are now."""
        view, setup = self._view, self._view.setup
        counts = view.core.forwarder.counts()
        page = stats.read(view.segments.core_stats())
        entities = view.management.entities
        workers = (view.segments.worker_stats(i) for i in range(view.segments.workers))
        blocked = counts["blocked"] + sum(stats.read(one)["links_blocked"] for one in workers)
        return {
            **entity,
            "id": setup.router_id,
            "name": entity.get("name", f"router/{setup.router_id}"),
            "identity": entity.get("identity", f"router/{setup.router_id}"),
            "type": self.schema.long_name,
            "mode": entity.get("mode", "standalone"),
            "area": setup.area,
            "version": setup.version,
            "hostName": socket.gethostname(),
            "workerThreads": view.segments.workers,
            "addrCount": len(view.core.addresses),
            "linkCount": len(view.links),
            "connectionCount": len(view.connections),
            "linkRouteCount": len(entities.get("router.config.linkRoute", ())),
            "autoLinkCount": len(entities.get("router.config.autoLink", ())),
            "deliveriesIngress": page["received"] - counts["from_core"],
            "deliveriesEgress": page["forwarded"] - counts["to_core"],
            "uptimeSeconds": view.seconds_since(view.started),
            "memoryUsage": memory_usage(view.segments),
            **{attribute: page[name] for attribute, name in _COUNTS.items()},
            "deliveriesStuck": counts["stuck"],
            "linksBlocked": blocked,
            "blockedLinkCount": blocked,
            **dict.fromkeys(_ZERO, 0),
        }

    def update(self, request: Request) -> Response:
        """There is one only: it need not be named."""
        if request.name is None and request.identity is None:
            request = replace(request, identity=str(self.row(self.rows()[0])["identity"]))
        return super().update(request)

    def read(self, request: Request) -> Response:
        """By name or identity alone; with its type, QUERY is the way, as in qdrouterd."""
        if request.type is None:
            return super().read(request)
        raise ManagementError(FORBIDDEN, "the router is not read but queried: QUERY with entityType router")


class Nodes(Table):
    """The routers of the network; a router that stands alone has none."""

    lenient = False
    NAME = "router.node"
    DESCRIPTION = "A router in the network."
    COLUMNS = (
        Column("name", "string", "router.node/ and the id.", lambda r: f"router.node/{r}"),
        Column("identity", "string", "router.node/ and the id.", lambda r: f"router.node/{r}"),
        type_column("router.node"),
        Column("id", "string", "Id of the router.", lambda r: r),
        Column("index", "integer", "Its place in the tables.", constant(0)),
        Column("protocolVersion", "integer", "Version of the router protocol.", constant(1)),
        Column("instance", "integer", "When it started, in seconds.", constant(0)),
        Column("linkState", "list", "Ids of its neighbours.", lambda r: []),
        Column("nextHop", "string", "Where messages to it go next.", constant("(self)")),
        Column("validOrigins", "list", "Whose messages may go to it through this one.", lambda r: []),
        Column("address", "string", "Its address.", lambda r: f"amqp:/_topo/0/{r}"),
        Column("routerLink", "integer", "Link to it.", constant(None)),
        Column("cost", "integer", "Cost of the way to it.", constant(None)),
        Column("lastTopoChange", "integer", "When the network changed last, in seconds.", constant(0)),
    )

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    def rows(self) -> list[str]:
        configured = self._view.management.entities.get("router") or [{}]
        alone = configured[0].get("mode", "standalone") == "standalone"
        return [] if alone else [self._view.setup.router_id]

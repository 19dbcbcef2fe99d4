"""The entity type `router`."""

from typing import Any

from msgspec.structs import replace

from core.interior.network_adapter import NetworkAdapter
from core.management.configured import Configured, column
from core.management.processes import memory_usage
from core.management.request import FORBIDDEN, ManagementError, Request, Response
from core.management.view import View
from shm.contract.hosts import machine_name
from shm.contract.management import TypeSchema
from shm.statistics import stats
from shm.statistics.stats import DROPPED_PRESETTLED

# attribute -> counter of the core's statistics page
_COUNTS = {
    "presettledDeliveries": "presettled", "acceptedDeliveries": "accepted", "rejectedDeliveries": "rejected",
    "releasedDeliveries": "released", "modifiedDeliveries": "modified", "noOutcomeDeliveries": "no_outcome",
    "unsentDeliveries": "unsent", "inDoubtDeliveries": "in_doubt",
    "deliveriesDelayed1Sec": "delayed_1s", "deliveriesDelayed10Sec": "delayed_10s",
    "deliveriesIngress": "ingress", "deliveriesEgress": "egress", "deliveriesTransit": "transit",
    "deliveriesRedirectedToFallback": "redirected", "deliveriesIngressRouteContainer": "from_containers",
    "deliveriesEgressRouteContainer": "to_containers",
}  # fmt: skip
_COLUMNS = (
    "name", "identity", "id", "type", "mode", "area", "version", "metadata", "addrCount", "linkCount",
    "nodeCount", "linkRouteCount", "autoLinkCount", "connectionCount", "presettledDeliveries",
    "droppedPresettledDeliveries", "acceptedDeliveries", "rejectedDeliveries", "releasedDeliveries",
    "modifiedDeliveries", "deliveriesDelayed1Sec", "deliveriesDelayed10Sec", "deliveriesStuck",
    "deliveriesIngress", "deliveriesEgress", "deliveriesTransit", "deliveriesIngressRouteContainer",
    "deliveriesEgressRouteContainer", "deliveriesRedirectedToFallback", "linksBlocked", "uptimeSeconds",
    "memoryUsage", "workerThreads",
)  # fmt: skip
_OWN = ("coreUptimeSeconds", "coreRestarts")  # of routerd alone, only if asked for


class Router(Configured):
    """The router: its configuration and its counts."""

    lenient = True

    def __init__(self, view: View, schema: TypeSchema) -> None:
        names = [*_COLUMNS, *_OWN, *(a.name for a in schema.attributes if a.name not in _COLUMNS)]
        super().__init__(view, schema)
        self.columns = {name: column(name) for name in names}
        self.standard = list(_COLUMNS)

    def rows(self) -> list[dict[str, Any]]:
        configured = self._view.entities("router").rows or [{}]
        return [configured[0]]

    def among(self, name: str | None, identity: str | None) -> list[dict[str, Any]]:
        """Return the router, which has a name and an identity also if its configuration has none."""
        return self.rows()

    def row(self, entity: dict[str, Any]) -> dict[str, Any]:
        """Return the configuration with the present counts."""
        view, setup, network_adapter = self._view, self._view.core.setup, self._view.core.find(NetworkAdapter)
        counts = view.core.forwarder.counts()
        page = stats.read(view.segments.core_stats())
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
            "hostName": machine_name(),
            "workerThreads": view.segments.workers,
            "addrCount": len(view.core.addresses),
            "linkCount": len(view.core.links),
            "connectionCount": len(view.core.connections),
            "linkRouteCount": len(view.entities("router.config.linkRoute").rows),
            "autoLinkCount": len(view.entities("router.config.autoLink").rows),
            "nodeCount": 0 if network_adapter is None else len(network_adapter),
            "uptimeSeconds": view.seconds_since(view.started),
            "coreUptimeSeconds": view.seconds_since(view.core_started),
            "coreRestarts": max(0, setup.generation - 1),
            "memoryUsage": memory_usage(view.segments),
            **{attribute: page[name] for attribute, name in _COUNTS.items()},
            "droppedPresettledDeliveries": sum(page[name] for name in DROPPED_PRESETTLED),
            "deliveriesStuck": counts["stuck"],
            "linksBlocked": blocked,
            "blockedLinkCount": blocked,
        }

    def update(self, request: Request) -> Response:
        """Update the router, which a request need not name."""
        if request.name is None and request.identity is None:
            request = replace(request, identity=str(self.row(self.rows()[0])["identity"]))
        return super().update(request)

    def read(self, request: Request) -> Response:
        """READ by name or identity alone.

        With a type, QUERY is required, as in qdrouterd. Raises ManagementError.
        """
        if request.type is None:
            return super().read(request)
        raise ManagementError(FORBIDDEN, "the router is not read but queried: QUERY with entityType router")

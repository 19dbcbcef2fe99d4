"""The entity type `router.node`."""

import time
from typing import Any

from core.interior.network_adapter import NetworkAdapter
from core.management.entity_type import Column, Table, item, key_columns


def _next_hop(row: dict[str, Any]) -> str | None:
    """Return the next hop, or None for a neighbour, as qdrouterd does."""
    return None if row["nextHop"] == row["id"] else row["nextHop"]


def _last_change(row: dict[str, Any]) -> int:
    """Return seconds since 1970. The router protocol's clock starts with the machine."""
    last = row.get("lastTopoChange")
    return round(time.time() - time.monotonic() + last) if last else 0


class Nodes(Table):
    """The routers of the network, this one first. A standalone router has none."""

    lenient = False
    NAME = "router.node"
    DESCRIPTION = "A router of the network."
    COLUMNS = (
        *key_columns("router.node", "router.node/ and the id of the router.", lambda r: f"router.node/{r['id']}"),
        item("id", "string", "Id of the router."),
        item("index", "integer", "Index of the router in the tables."),
        item("protocolVersion", "integer", "Version of the router protocol."),
        item("instance", "integer", "Number of this run of the router; a later run has a larger one."),
        item("linkState", "list", "Ids of the router's neighbours."),
        Column("nextHop", "string", "Next router on the path, unless the router is a neighbour.", _next_hop),
        item("validOrigins", "list", "Routers whose messages go to it through this one."),
        item("address", "string", "Address of the router."),
        item("routerLink", "integer", "Number of the connection to the neighbour."),
        item("cost", "integer", "Cost of the path to the router."),
        Column("lastTopoChange", "integer", "Last change of the network, in seconds since 1970.", _last_change),
    )

    def rows(self) -> list[dict[str, Any]]:
        """Return all routers. The core's own thread reads them, because they change."""
        network_adapter = self._view.core.find(NetworkAdapter)
        nodes: list[dict[str, Any]] = []
        return nodes if network_adapter is None else self._view.command(network_adapter.network.nodes)

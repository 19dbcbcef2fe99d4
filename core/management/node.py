"""The entity type `router.node`."""

import time
from typing import TYPE_CHECKING

from core.interior.network_adapter import NetworkAdapter
from core.management.entity_type import Column, Table, key_columns

if TYPE_CHECKING:
    from core.interior.nodes import NodeView


def _next_hop(row: "NodeView") -> str | None:
    """Return the next hop, or None for a neighbour, as qdrouterd does."""
    return None if row.next_hop == row.id else row.next_hop


def _last_change(row: "NodeView") -> int:
    """Return seconds since 1970. The router protocol's clock starts with the machine."""
    last = row.last_topo_change
    return round(time.time() - time.monotonic() + last) if last else 0


class Nodes(Table):
    """The routers of the network, this one first. A standalone router has none."""

    lenient = False
    NAME = "router.node"
    DESCRIPTION = "A router of the network."
    COLUMNS = (
        *key_columns("router.node", "router.node/ and the id of the router.", lambda r: f"router.node/{r.id}"),
        Column("id", "string", "Id of the router.", lambda r: r.id),
        Column("index", "integer", "Index of the router in the tables.", lambda r: r.index),
        Column("protocolVersion", "integer", "Version of the router protocol.", lambda r: r.protocol_version),
        Column(
            "instance",
            "integer",
            "Number of this run of the router; a later run has a larger one.",
            lambda r: r.instance,
        ),
        Column("linkState", "list", "Ids of the router's neighbours.", lambda r: r.link_state),
        Column("nextHop", "string", "Next router on the path, unless the router is a neighbour.", _next_hop),
        Column("validOrigins", "list", "Routers whose messages go to it through this one.", lambda r: r.valid_origins),
        Column("address", "string", "Address of the router.", lambda r: r.address),
        Column("routerLink", "integer", "Number of the connection to the neighbour.", lambda r: r.router_link),
        Column("cost", "integer", "Cost of the path to the router.", lambda r: r.cost),
        Column("lastTopoChange", "integer", "Last change of the network, in seconds since 1970.", _last_change),
    )

    def rows(self) -> "list[NodeView]":
        """Return all routers. The core's own thread reads them, because they change."""
        network_adapter = self._view.core.find(NetworkAdapter)
        nodes: list[NodeView] = [] if network_adapter is None else self._view.command(network_adapter.network.nodes)
        return nodes

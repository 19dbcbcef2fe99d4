"""The planes of a router, one line each, in the order in which they see events.

Some planes also decide which part an attach belongs to; ``core.process.attaches`` asks these by name.
"""

from typing import TYPE_CHECKING

import msgspec

from core.exchanges.exchanges import Exchanges
from core.flow_log.names import FlowLog
from core.interior.network_adapter import NetworkAdapter
from core.link_routes.ends import Ends
from core.link_routes.routes import Routes
from core.links.administration import Administration
from core.links.auto_links import AutoLinks
from core.links.connectors import Connectors
from core.links.link import Edges
from core.links.listeners import Listeners
from core.links.streams import Streams
from core.rmr import planes as route_tables
from core.source_routes.route_workers import RouteWorkers
from shm.contract.control import SetLinkRoutes, SetRouting, SetSourceRoutes, SetTables, Setup
from shm.contract.flow_log.setup import SetFlowLog
from shm.contract.tracing import SetTracing

if TYPE_CHECKING:
    from core.process.router import Core


def build(core: "Core") -> None:
    """Fill ``core.planes``."""
    routes, streams = Routes(), Streams(core)
    network_adapter = _network_adapter(core, routes, streams)
    edges = _edges(core, routes, streams, network_adapter)
    ends = Ends(core, routes, None if network_adapter is None else network_adapter.path_to)
    planes = core.planes
    planes += [core.local, Administration(core), Connectors(), Listeners(core.connections), routes, ends]
    planes += route_tables.planes(core)
    planes += [RouteWorkers(core), FlowLog(core), AutoLinks(core), Exchanges(core), streams]
    planes += [] if network_adapter is None else [network_adapter.inter_routers, network_adapter]
    planes += [] if edges is None else [edges]


def parts(setup: Setup) -> tuple[msgspec.Struct, ...]:
    """Return the messages that configure the planes at the start. Later changes come as the same messages."""
    return (
        SetSourceRoutes(setup.source_routes),
        SetFlowLog(setup.flow),
        SetTracing(setup.tracing),
        SetRouting(setup.routing),
        SetLinkRoutes(setup.link_routes),
        SetTables(setup.tables),
    )


def _network_adapter(core: "Core", routes: Routes, streams: Streams) -> NetworkAdapter | None:
    """Return the network of interior routers, which exchanges link routes; None in other modes."""
    if core.setup.mode != "interior":
        return None
    network_adapter = NetworkAdapter(core, streams)
    network_adapter.share(routes)
    return network_adapter


def _edges(core: "Core", routes: Routes, streams: Streams, network_adapter: NetworkAdapter | None) -> Edges | None:
    """Return an interior router's downlinks, an edge router's uplink, or None for a standalone router."""
    if network_adapter is not None:
        from core.edge.downlinks import Downlinks  # noqa: PLC0415  a standalone router does not load it

        return Downlinks(core, streams, routes, lambda: network_adapter.routes)
    if core.setup.mode != "edge":
        return None
    from core.edge.uplink import Uplink  # noqa: PLC0415  as above

    uplink = Uplink(core, streams, core.decide)
    routes.advertise = uplink.route_proxies.offer
    return uplink

"""The planes of a router, one line each, in the order in which they see events.

Some planes also decide which part an attach belongs to; the links (``core.links``) hold these by name.
"""

from typing import TYPE_CHECKING

import msgspec

from core.addresses.exchanges import Exchanges
from core.flow_log.names import FlowLog
from core.interior.network_adapter import NetworkAdapter
from core.link_routes.ends import Ends
from core.link_routes.routes import Routes
from core.links.auto_links import AutoLinks
from core.links.connectors import Connectors
from core.links.link import Edges
from core.links.links import Links
from core.links.refusals import Refusals
from core.links.streams import Streams
from core.rmr import planes as route_tables
from core.source_routes.route_workers import RouteWorkers
from shm.contract.control import SetLinkRoutes, SetRouting, SetSourceRoutes, SetTables, Setup
from shm.contract.flow_setup import SetFlow

if TYPE_CHECKING:
    from core.process.router import Core
    from shm.contract.payloads import Attach, ConnectionOpened


def build(core: "Core") -> Links:
    """Fill ``core.planes`` and return the links, whose events the planes see."""
    forwarder, addresses, names, planes = core.forwarder, core.addresses, core.names, core.planes
    routes, streams = Routes(), Streams(forwarder, names)
    auto_links = AutoLinks(forwarder, core.connections, names)
    network_adapter = _network_adapter(core, routes, streams)
    edges = _edges(core, routes, streams, network_adapter)
    refusals = Refusals(forwarder, core.connections.find)
    ends = Ends(forwarder, routes, refusals, network_adapter, core.setup.resumable_link_routes)
    links = Links(
        forwarder, addresses, core.me, names, admissions=core.admissions, auto_links=auto_links,
        streams=streams, refusals=refusals, planes=planes, network_adapter=network_adapter, edges=edges,
        ends=ends,
    )  # fmt: skip
    planes.append(Connectors())
    planes += [routes, ends]
    planes += route_tables.planes(core, links)
    planes.append(RouteWorkers(addresses, core.local, links, core.served, forwarder.post_control))
    planes.append(FlowLog(forwarder, addresses, core.connections, core.memory.flow, core.setup, names, links.entries))
    planes.append(auto_links)
    planes.append(Exchanges(forwarder, addresses, core.served))
    planes.append(streams)
    planes += [] if network_adapter is None else [network_adapter]
    planes += [] if edges is None else [edges]
    return links


def parts(setup: Setup) -> tuple[msgspec.Struct, ...]:
    """Return the messages that configure the planes at the start. Later changes come as the same messages."""
    return (
        SetSourceRoutes(setup.source_routes),
        SetFlow(setup.flow),
        SetRouting(setup.routing),
        SetLinkRoutes(setup.link_routes),
        SetTables(setup.tables),
    )


def _network_adapter(core: "Core", routes: Routes, streams: Streams) -> NetworkAdapter | None:
    """Return the network of interior routers, which exchanges link routes; None in other modes."""
    if core.setup.mode != "interior":
        return None
    network_adapter = NetworkAdapter(core.forwarder, core.addresses, core.local, core.me, core.names, streams)
    network_adapter.share(routes)
    return network_adapter


def _edges(core: "Core", routes: Routes, streams: Streams, network_adapter: NetworkAdapter | None) -> Edges | None:
    """Return an interior router's downlinks, an edge router's uplink, or None for a standalone router."""
    if network_adapter is not None:
        from core.edge.downlinks import Downlinks  # noqa: PLC0415  a standalone router does not load it

        find = core.connections.find
        return Downlinks(
            core.forwarder, core.addresses, core.local, streams, routes, find, lambda: network_adapter.routes
        )
    if core.setup.mode != "edge":
        return None
    from core.edge.uplink import Uplink  # noqa: PLC0415  as above

    def decide(
        worker: int,
        attach: "Attach",
        connection: "ConnectionOpened",
        beyond: "tuple[int, ConnectionOpened] | None",
        reached: bool,
    ) -> None:
        core.links.decide(worker, attach, connection, beyond, reached)  # the links are made after the uplink

    uplink = Uplink(core.forwarder, core.addresses, core.local, core.me, core.names, streams, decide)
    routes.advertise = uplink.route_proxies.offer
    return uplink

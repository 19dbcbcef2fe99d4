"""Which planes a router has: one line for each, in the order in which they hear.

Some also decide: whose an attach is (``core.links``). Those the links are made with.
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
    """Fill ``core.planes``; the links, of which the planes hear."""
    forwarder, addresses, names, planes = core.forwarder, core.addresses, core.names, core.planes
    routes, streams = Routes(), Streams(forwarder, names)
    auto_links = AutoLinks(forwarder, core.connections, names)
    network_adapter = _network_adapter(core, routes, streams)
    edges = _edges(core, routes, streams, network_adapter)
    refusals = Refusals(forwarder, core.connections.find)
    ends = Ends(forwarder, routes, refusals, network_adapter, core.setup.resumable_link_routes)
    links = Links(
        forwarder, addresses, core.me, names, core.admissions, auto_links, streams, refusals, planes,
        network_adapter, edges, ends,
    )  # fmt: skip
    planes.append(Connectors())
    planes += [routes, ends]
    planes += route_tables.planes(core, links)
    planes.append(RouteWorkers(addresses, core.local, links, core.served, forwarder.post_control))
    planes.append(
        FlowLog(forwarder, addresses, core.connections, core.memory.flow, core.setup, names, links.entries)
    )
    planes.append(auto_links)
    planes.append(Exchanges(forwarder, addresses, core.served))
    planes.append(streams)
    planes += [] if network_adapter is None else [network_adapter]
    planes += [] if edges is None else [edges]
    return links


def parts(setup: Setup) -> tuple[msgspec.Struct, ...]:
    """What planes are configured by at the start, as they are later."""
    return (
        SetSourceRoutes(setup.source_routes),
        SetFlow(setup.flow),
        SetRouting(setup.routing),
        SetLinkRoutes(setup.link_routes),
        SetTables(setup.tables),
    )


def _network_adapter(core: "Core", routes: Routes, streams: Streams) -> NetworkAdapter | None:
    """The network of interior routers; it hears of our link routes, and tells of theirs."""
    if core.setup.mode != "interior":
        return None
    network_adapter = NetworkAdapter(core.forwarder, core.addresses, core.local, core.me, core.names, streams)
    network_adapter.share(routes)
    return network_adapter


def _edges(
    core: "Core", routes: Routes, streams: Streams, network_adapter: NetworkAdapter | None
) -> Edges | None:
    """The edge connections of an interior router, or those that an edge router has."""
    if network_adapter is not None:
        from core.edge.downlinks import Downlinks  # noqa: PLC0415  a router that stands alone does without

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
        core.links.decide(worker, attach, connection, beyond, reached)  # they are made after the uplink

    uplink = Uplink(core.forwarder, core.addresses, core.local, core.me, core.names, streams, decide)
    routes.advertise = uplink.route_proxies.offer
    return uplink

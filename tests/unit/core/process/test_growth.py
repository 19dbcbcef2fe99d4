"""What one event costs the core's control plane does not grow with what peers, or the configuration, make many."""

import pytest

from bench.contract import C_ATTACH, C_CONNECTION_CLOSED, C_CONNECTION_OPENED, C_DETACH, C_LINK_REFUSED
from core.interior.network_adapter import PORTION as DESTINATIONS
from core.interior.network_adapter import NetworkAdapter
from core.link_routes.ends import Ends
from core.link_routes.routes import PORTION, Routes
from core.links.auto_links import AutoLinks
from shm.contract.control import LinkRouteSetup, SetSourceRoutes, Setup
from shm.contract.payloads import (
    Attach,
    ConnectionClosed,
    ConnectionOpened,
    Detach,
    LinkRefused,
    OpenLink,
    RouteReach,
    Termini,
    Terminus,
)
from shm.contract.routing import AutoLinkSetup, Routing
from shm.contract.security import Admission
from shm.contract.source_routes import RouteWorkerSetup, SourceRoutesSetup, Stop
from tests.support.beds.crowd import Crowd, Event
from tests.support.beds.effort import Effort

FEW, MANY = 60, 240
SOME = 20  # events of a kind that are counted
GROWTH = 1.25
STRANGER = 50_000  # connections and links that have nothing to do with the crowd


def setup(mode: str = "standalone", auto: int = 0, routes: int = 0, of_one: int = 0, of_one_route: int = 0) -> Setup:
    links = [AutoLinkSetup(f"a{i}", f"q.{i}", True, 0, container=f"broker{i}") for i in range(auto)]
    links += [AutoLinkSetup(f"one{i}", f"q.{i}", True, 0, container="one") for i in range(of_one)]
    link_routes = [LinkRouteSetup(bool(i % 2), prefix=f"q{i}", container=f"broker{i}") for i in range(routes)]
    link_routes += [LinkRouteSetup(False, prefix=f"one{i}", container="one") for i in range(of_one_route)]
    return Setup(
        "core", 1, 1, "/none", "me", "0", 1, [-1], mode=mode, routing=Routing(auto_links=links), link_routes=link_routes
    )


def opened(number: int, container: str, role: str = "normal") -> Event:
    return C_CONNECTION_OPENED, ConnectionOpened(number, 1, container, f"h{number}:1", role=role, number=number + 1)


def attach(number: int, connection: int, outgoing: bool, address: str | None, *capabilities: str) -> Event:
    return C_ATTACH, Attach(number, 1, connection, f"l{number}", outgoing, address, capabilities=list(capabilities))


def strangers(crowd: Crowd) -> None:
    """Clients that come, attach a link of their own, and go."""
    numbers = range(STRANGER, STRANGER + SOME)
    crowd.count("stranger opens", [opened(i, f"stranger{i}") for i in numbers])
    crowd.count("stranger attaches", [attach(i, i, bool(i % 2), f"strange.{i}") for i in numbers])
    crowd.turn("turn", 0)
    crowd.turn("turn after a second", 1)
    crowd.count("stranger detaches", [(C_DETACH, Detach(i, 1)) for i in numbers])
    crowd.count("stranger closes", [(C_CONNECTION_CLOSED, ConnectionClosed(i, 1)) for i in numbers])


def clients(n: int) -> Crowd:
    """Each with a sender and a receiver of its own address, and a receiver that shares one with all others."""
    crowd = Crowd(setup())
    crowd.count("client opens", [opened(i, f"c{i}") for i in range(n)])
    crowd.count("sender attaches", [attach(i, i, False, f"own.{i}") for i in range(n)])
    crowd.count("anonymous sender attaches", [attach(n + i, i, False, None) for i in range(n)])
    crowd.count("receiver attaches", [attach(2 * n + i, i, True, f"own.{i}") for i in range(n)])
    crowd.count("shared receiver attaches", [attach(3 * n + i, i, True, "shared") for i in range(n)])
    strangers(crowd)
    crowd.count("client detaches", [(C_DETACH, Detach(i, 1)) for i in range(4 * n)])
    crowd.count("client closes", [(C_CONNECTION_CLOSED, ConnectionClosed(i, 1)) for i in range(n)])
    assert len(crowd.core.links) == len(crowd.core.connections) == 0
    return crowd


def auto_links(n: int) -> Crowd:
    """Configured ones, each with its broker."""
    crowd = Crowd(setup(auto=n))
    crowd.do(opened(i, f"broker{i}", "route-container") for i in range(SOME, n))
    crowd.count("broker opens", [opened(i, f"broker{i}", "route-container") for i in range(SOME)])
    strangers(crowd)
    crowd.count("broker goes", [(C_CONNECTION_CLOSED, ConnectionClosed(i, 1)) for i in range(SOME)])
    return crowd


def state(crowd: Crowd, identity: str) -> str:
    auto = crowd.core.plane(AutoLinks).find(identity)
    return "" if auto is None else auto.state


def auto_links_of_one(n: int) -> Crowd:
    """Configured ones of one broker, which refuses them all, and another broker's, of which some attach anew."""
    crowd = Crowd(setup(auto=1, of_one=n))
    crowd.count("broker opens", [opened(1, "one", "route-container")])
    crowd.turn("turn while links attach", 0)
    links = crowd.core.plane(AutoLinks)
    while links.restless:
        crowd.turn("last turn", 0)
    del crowd.costs["last turn"]  # of what is left
    assert {state(crowd, f"one{i}") for i in range(n)} == {"attaching"}
    refused = [(C_LINK_REFUSED, LinkRefused(request)) for request in range(1, n + 1)]
    crowd.count("link is refused", refused)
    turns = []
    for _ in range(5):  # another thread's memory counts, too
        crowd.turn("turn while links pause", 0.1)
        turns.append(crowd.costs["turn while links pause"])
    crowd.costs["turn while links pause"] = min(turns)
    crowd.count("broker of another opens", [opened(2, "broker0", "route-container")])
    crowd.turn("turn in which links attach again", 2)
    assert links.restless
    return crowd


def auto_links_restored(n: int) -> Crowd:
    """Of one broker, whose links have outlived a core."""
    crowd = Crowd(setup(of_one=n))
    crowd.do([(C_CONNECTION_OPENED, ConnectionOpened(1, 1, "one", "h:1", role="route-container", restored=True))])
    presented = [Attach(i, 1, 1, f"l{i}", False, f"q.{i}", restored=True, router_initiated=True) for i in range(n)]
    crowd.count("link is presented", [(C_ATTACH, attach) for attach in presented[-SOME:]])
    assert state(crowd, f"one{n - 1}") == "active"
    return crowd


def link_routes(n: int) -> Crowd:
    """Configured ones, each with its broker."""
    crowd = Crowd(setup(routes=n))
    crowd.do(opened(i, f"broker{i}", "route-container") for i in range(SOME, n))
    crowd.count("broker opens", [opened(i, f"broker{i}", "route-container") for i in range(SOME)])
    strangers(crowd)
    routed = [attach(i, 0, bool(i % 2), f"q{i}.x") for i in range(SOME)]
    crowd.count("routed link attaches", routed)
    crowd.count("broker goes", [(C_CONNECTION_CLOSED, ConnectionClosed(i, 1)) for i in range(n - SOME, n)])
    return crowd


def served(crowd: Crowd) -> int:
    return sum(bool(route.hosts) for route in crowd.core.plane(Routes).entries())


def broker_of_many(n: int) -> Crowd:
    """One broker of all routes, to which links are asked for that it does not answer; they go, and then it goes."""
    crowd = Crowd(setup(of_one_route=n))
    crowd.count("broker of one route opens", [opened(1, "broker0", "route-container")])
    crowd.count("broker opens, per route", [opened(2, "one", "route-container")])
    crowd.costs["broker opens, per route"] /= n
    crowd.do([opened(3, "client")])
    termini = Termini(Terminus(1, "one1.x"), Terminus(2, "one1.x"))
    crowd.do((C_ATTACH, Attach(i, 1, 3, f"l{i}", False, "one1.x", termini=termini)) for i in range(n))
    assert len(crowd.core.plane(Ends)._pending) == n
    crowd.count("link that waits for a broker detaches", [(C_DETACH, Detach(i, 1)) for i in range(n)])
    assert not crowd.core.plane(Ends)._waiting

    routes = crowd.core.plane(Routes)
    crowd.count("broker of all goes", [(C_CONNECTION_CLOSED, ConnectionClosed(2, 1))])
    crowd.turn("turn while its routes go", 0)
    left = served(crowd)
    assert left > n // 2
    address = next(route.key[1:] for route in routes.entries() if route.hosts)  # of which no broker is left
    assert crowd.core.plane(Ends).wanted(Attach(n, 1, 3, "late", False, address), "") == address
    while routes.restless:
        crowd.core.tick(crowd.now)
        before, left = left, served(crowd)
        assert 0 <= before - left <= PORTION
    assert left == 0
    return crowd


def edge_links(i: int) -> list[Event]:
    """What an edge router attaches, and a sender of one of its clients."""
    return [
        attach(4 * i, i, True, f"edge{i}", "qd.router-edge-downlink"),
        attach(4 * i + 1, i, True, "_$qd.edge_addr_tracking"),
        attach(4 * i + 2, i, False, "_$qd.edge_heartbeat"),
        attach(4 * i + 3, i, False, f"beyond.{i}"),
    ]


def rest(crowd: Crowd) -> None:
    """Let the core do what it has left to its next steps."""
    while crowd.core.restless:
        crowd.core.step(crowd.now)
        crowd._heard()


def edges(n: int) -> Crowd:
    """Edge routers, each with a client that sends to an address of its own."""
    crowd = Crowd(setup("interior"))
    crowd.do(opened(i, f"edge{i}", "edge") for i in range(n - SOME))
    crowd.do(event for i in range(n - SOME) for event in edge_links(i))
    for _ in range(2):  # in the first one, other routers hear of all addresses
        rest(crowd)
        crowd.turn("turn in which edge routers are polled", 2)
    rest(crowd)
    late = range(n - SOME, n)
    crowd.count("edge router opens", [opened(i, f"edge{i}", "edge") for i in late])
    crowd.count("edge router attaches", [event for i in late for event in edge_links(i)])
    crowd.count("edge router closes", [(C_CONNECTION_CLOSED, ConnectionClosed(i, 1)) for i in late])
    return crowd


class Text(str):
    """An address of a route worker; ``compared`` counts how often one was compared with another."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Text.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def route_workers(n: int) -> Crowd:
    """They come, are replaced by as many of the same addresses, and go."""
    crowd = Crowd(setup())
    for name, count in (("route worker comes", n), ("route worker is replaced", n), ("route worker goes", 0)):
        found = [RouteWorkerSetup(f"w{i}", "forward", Stop(0, b"%d" % i, Text(f"stop.{i}"))) for i in range(count)]
        Text.compared = 0
        with Effort() as effort:
            crowd.core.configure(SetSourceRoutes(SourceRoutesSetup(workers=found)))
        crowd.costs[name] = (effort.count + Text.compared) / n
    strangers(crowd)
    return crowd


def guarded(number: int, *targets: str) -> Event:
    """A client under vhost policy, whose anonymous senders reach some route workers."""
    may = False, True, False, False, False, False  # anonymous senders
    admission = Admission("v", "g", "u", "h", 9, 9, 9, 999, 999, *may, ["*"], list(targets), [], [])
    return C_CONNECTION_OPENED, ConnectionOpened(number, 1, f"c{number}", "h:1", number=number, admission=admission)


def reaching(n: int) -> Crowd:
    """So many route workers, of which the senders of some clients may reach a few."""
    crowd = Crowd(setup(auto=SOME))
    found = [RouteWorkerSetup(f"w{i}", "forward", Stop(0, b"%d" % i, f"stop.{i}")) for i in range(n)]
    crowd.core.configure(SetSourceRoutes(SourceRoutesSetup(workers=found)))
    crowd.do([guarded(1, "stop.1", "stop.2")])
    crowd.do([attach(0, 1, False, None)])
    crowd.told.clear()
    crowd.count("anonymous sender attaches", [attach(1 + i, 1, False, None) for i in range(SOME)])
    reached = [one.addresses for one in crowd.told if isinstance(one, RouteReach)]
    assert reached == [["stop.1", "stop.2"]] * SOME
    crowd.do(opened(2 + i, f"broker{i}", "route-container") for i in range(SOME))
    asked = [one for one in crowd.told if isinstance(one, OpenLink)]
    links = [(STRANGER + i, one.request, one.connection) for i, one in enumerate(asked)]
    answers = [Attach(i, 1, on, f"a{i}", False, "q.0", request=no, router_initiated=True) for i, no, on in links]
    crowd.count("auto link attaches", [(C_ATTACH, one) for one in answers])
    return crowd


def ockam_nodes(n: int) -> Crowd:
    """Each has a sender and an address of its own; there are as many route workers."""
    crowd = Crowd(setup("interior"))
    found = [RouteWorkerSetup(f"w{i}", "forward", Stop(64, b"%d" % i, f"64#{i}")) for i in range(n)]
    crowd.core.configure(SetSourceRoutes(SourceRoutesSetup(workers=found)))

    def links(i: int) -> list[Event]:
        return [attach(2 * i, i, False, None), attach(2 * i + 1, i, True, f"64#in/{i}")]

    crowd.do(opened(i, f"n{i}", "ockam") for i in range(n - SOME))
    crowd.do(event for i in range(n - SOME) for event in links(i))
    rest(crowd)
    late = range(n - SOME, n)
    crowd.count("node opens", [opened(i, f"n{i}", "ockam") for i in late])
    crowd.count("node attaches", [event for i in late for event in links(i)])
    crowd.count("node's address is looked up", [attach(STRANGER + i, i, False, f"64#in/{i}") for i in late])
    crowd.count("route worker's address is looked up", [attach(2 * STRANGER + i, i, False, f"64#{i}") for i in late])
    rest(crowd)
    crowd.count("node's link detaches", [(C_DETACH, Detach(2 * i + 1, 1)) for i in late])
    crowd.count("node closes", [(C_CONNECTION_CLOSED, ConnectionClosed(i, 1)) for i in late])
    return crowd


def brokers_of_one_route(n: int) -> Crowd:
    """They serve it in turns."""
    crowd = Crowd(setup(of_one_route=1))
    crowd.do(opened(1 + i, "one", "route-container") for i in range(n - SOME))
    crowd.count("broker opens", [opened(1 + i, "one", "route-container") for i in range(n - SOME, n)])
    crowd.do([opened(STRANGER, "client")])
    termini = Termini(Terminus(1, "one0.x"), Terminus(2, "one0.x"))
    attaches = [Attach(i, 1, STRANGER, f"l{i}", False, "one0.x", termini=termini) for i in range(2 * SOME)]
    crowd.do([(C_ATTACH, one) for one in attaches[:SOME]])
    ends = crowd.core.plane(Ends)
    route = next(iter(crowd.core.plane(Routes).entries()))
    cost = 0.0
    for one in attaches[SOME:]:
        with Effort() as effort:
            found = ends._choose(route, (0, one.connection))
        assert found is not None
        cost += effort.count
    crowd.costs["broker is chosen"] = cost
    crowd.count("broker goes", [(C_CONNECTION_CLOSED, ConnectionClosed(1 + i, 1)) for i in range(n - SOME, n)])
    assert len({pending.far for pending in ends._pending.values()}) == SOME
    return crowd


def routers(n: int) -> Crowd:
    """One has so many addresses and link routes; others come, have one of each, and go again."""
    crowd = Crowd(setup("interior"))
    adapter = crowd.core.plane(NetworkAdapter)
    adapter.add_router(1, "many")
    for i in range(n):
        adapter.map_destination(f"Mq.{i}", 1, -1)
        adapter.map_destination(f"Cr.{i}", 1, -1)
    rest(crowd)
    comes = goes = 0.0
    for i in range(2, 2 + SOME):
        crowd.core.step(crowd.now)  # it has a portion before it
        with Effort() as effort:
            adapter.add_router(i, f"r{i}")
            for key in ("Mq.1", "Cr.1"):
                adapter.map_destination(key, i, -1)
        comes += effort.count
        with Effort() as effort:
            for key in ("Mq.1", "Cr.1"):
                adapter.unmap_destination(key, i)
            adapter.remove_router(i)
        goes += effort.count
    crowd.costs["router comes"], crowd.costs["router goes"] = comes / SOME, goes / SOME
    left = {address.key for address in crowd.core.addresses.entries()}
    assert left >= {"Rmany", "Mq.1"}
    assert "Rr2" not in left
    found = crowd.core.plane(Routes).known("Cr.1")
    assert found is not None
    assert found.remotes == {1}
    for i in range(n):
        adapter.unmap_destination(f"Mq.{i}", 1)
        adapter.unmap_destination(f"Cr.{i}", 1)
    adapter.remove_router(1)
    crowd.turn("turn while destinations go", 0)
    while adapter.restless:
        before = len(crowd.core.addresses) + len(crowd.core.plane(Routes).entries())
        crowd.core.tick(crowd.now)
        after = len(crowd.core.addresses) + len(crowd.core.plane(Routes).entries())
        assert before - after <= DESTINATIONS
    assert not crowd.core.plane(Routes).entries()
    assert crowd.core.addresses.known("Mq.1") is None
    return crowd


MANY_OF = [
    clients,
    auto_links,
    auto_links_of_one,
    auto_links_restored,
    link_routes,
    broker_of_many,
    brokers_of_one_route,
    edges,
    route_workers,
    reaching,
    ockam_nodes,
    routers,
]


@pytest.mark.parametrize("many", MANY_OF, ids=lambda many: str(many.__name__))
def test_events_cost_as_much_among_many(many: object) -> None:
    """Connections open and close, and links come and go: those of the crowd, and those of others."""
    assert callable(many)
    few, more = many(FEW).costs, many(MANY).costs
    assert {name: (few[name], cost) for name, cost in more.items() if cost > few[name] * GROWTH} == {}

"""Links routed through a network, and through edge routers at its ends: who is asked, and who is told."""

from itertools import pairwise

import pytest

from bench.contract import C_ATTACH, C_CONNECTION_OPENED, C_LINK_REFUSED
from core.edge import words
from core.edge.uplink import Uplink
from core.interior.message import BadMessageError
from core.link_routes.ends import Ends
from core.link_routes.requests import SHARE
from core.link_routes.routes import Routes
from shm.contract.control import LinkRouteSetup, SetLinkRoutes
from shm.contract.payloads import ConnectionOpened, LinkRefused
from tests.model.internet import Internet, cut, join
from tests.model.routed_site import RoutedSite, termini
from tests.model.sites import SiteLink

ROLE = "edge"


def star(*interiors: str) -> Internet:
    """A line of interior routers, with an edge router at each end."""
    net = Internet(*interiors, "edge1", "edge2", kind=RoutedSite)
    for left, right in pairwise(interiors):
        join(net[left], net[right])
    join(net["edge1"], net[interiors[0]], role=ROLE)
    join(net["edge2"], net[interiors[-1]], role=ROLE)
    net.settle()
    net.run(6)
    return net


def routed(net: Internet, name: str) -> RoutedSite:
    site = net[name]
    assert isinstance(site, RoutedSite)
    return site


def broker(net: Internet, name: str) -> int:
    site = routed(net, name)
    site.route("bank")
    connection = site.broker()
    net.settle()
    net.run(3)
    return connection


def attach(net: Internet, name: str, outgoing: bool, address: str = "bank.counter") -> SiteLink:
    link = routed(net, name).client(outgoing, address)
    net.settle()
    return link


def at_rest(net: Internet) -> None:
    """Nothing of a routed link is left anywhere."""
    for name in net.sites:
        core = net[name].core
        assert [link.name for link in core.links.entries() if link.routed] == [], name
        assert not core.plane(Ends)._pending, name
        assert not core.plane(Ends)._partners, name


EVERYWHERE = ["edge1", "A", "B", "edge2"]


@pytest.mark.parametrize("outgoing", [True, False])
@pytest.mark.parametrize("at", EVERYWHERE)
@pytest.mark.parametrize("broker_at", EVERYWHERE)
def test_a_link_reaches_a_broker_from_everywhere(broker_at: str, at: str, outgoing: bool) -> None:
    """Its name says whose it is; closed at one end it is closed at the other, and forgotten between them."""
    net = star("A", "B")
    connection = broker(net, broker_at)
    link = attach(net, at, outgoing)
    assert link.open, link.error
    [far] = routed(net, broker_at).brokers[connection]
    assert far.open
    assert far.outgoing is not outgoing
    assert far.name.startswith(f"l{link.index}@client")
    assert far.address == "bank.counter"
    net[at].detach(link)
    net.settle()
    assert not far.open
    at_rest(net)


@pytest.mark.parametrize("at", EVERYWHERE)
@pytest.mark.parametrize("broker_at", ["edge1", "A"])
def test_a_broker_that_goes_closes_its_links_and_the_route_with_it(broker_at: str, at: str) -> None:
    net = star("A", "B")
    connection = broker(net, broker_at)
    link = attach(net, at, True)
    site = routed(net, broker_at)
    site.lose_broker(connection)
    net.settle()
    assert not link.open
    assert link.error == "qd:routed-link-lost"
    net.run(3)
    again = attach(net, at, True)
    known = at == broker_at or (at, broker_at) == ("edge1", "A")  # elsewhere it is an address as any
    assert again.error == ("qd:no-route-to-dest" if known else "")
    at_rest(net)
    for name in EVERYWHERE:
        if name != broker_at:
            assert [route.key for route in net[name].core.plane(Routes).entries()] == [], name


@pytest.mark.parametrize("at", ["edge1", "A", "B"])
def test_a_client_fills_no_router_on_the_way_to_a_silent_broker(at: str) -> None:
    """Clients beside it, there and at the routers between, come through behind its share."""
    net = star("A", "B")
    connection = broker(net, "B")
    far, site = routed(net, "B"), routed(net, at)
    far.silent = []
    attacker = site.connect()
    for _ in range(3):
        links = [site._new_link(attacker, False, "bank.counter") for _ in range(SHARE // 2)]
        for link in links:
            link.name = f"l{link.index}"
            site.control(C_ATTACH, site._attach(link, 0, termini("bank.counter")))
        net.settle()
        for link in links:
            site.detach(link)
        net.settle()
    assert len(far.silent) == SHARE
    for name in EVERYWHERE:
        assert len(net[name].core.plane(Ends)._pending) <= SHARE
    others = [attach(net, name, False) for name in EVERYWHERE]
    assert len(far.silent) == SHARE + len(others)
    for asked in far.silent:
        far.control(C_LINK_REFUSED, LinkRefused(asked.request))
    far.lose_broker(connection)
    net.settle()
    assert {link.error for link in others} == {"qd:routed-link-lost"}
    at_rest(net)


def test_an_edge_router_with_a_new_uplink_has_its_routes_known_again() -> None:
    net = Internet("A", "B", "edge1", "edge2", kind=RoutedSite)
    join(net["A"], net["B"])
    ends = join(net["edge1"], net["A"], role=ROLE)
    join(net["edge1"], net["B"], role=ROLE)
    join(net["edge2"], net["A"], role=ROLE)
    net.settle()
    net.run(6)
    connection = broker(net, "edge1")
    assert attach(net, "edge2", False).open
    assert [bool(route.hosts) for route in net["A"].core.plane(Routes).entries()] == [True, True]
    cut(net["edge1"], net["A"], ends)
    net.settle()
    net.run(5)
    assert [bool(route.hosts) for route in net["A"].core.plane(Routes).entries()] == [False, False]
    assert [bool(route.hosts) for route in net["B"].core.plane(Routes).entries()] == [True, True]
    assert attach(net, "edge2", False).open
    assert len(routed(net, "edge1").brokers[connection]) == 2


def test_an_edge_router_whose_route_is_refused_tells_so_and_asks_its_next_uplink(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once for each route and uplink; its own clients reach the broker as before."""
    net = Internet("A", "edge1", kind=RoutedSite)
    ends = join(net["edge1"], net["A"], role=ROLE)
    net.settle()
    net.run(6)
    above = routed(net, "A")
    above.refuses = True
    broker(net, "edge1")
    net.run(30)
    assert above.asked == 2  # in and out
    assert "refused to announce a link route: Dbank: 403" in caplog.text
    assert attach(net, "edge1", True).open
    assert net["A"].core.plane(Routes).entries() == []
    above.refuses = False
    cut(net["edge1"], net["A"], ends)
    net.run(2)
    join(net["edge1"], net["A"], role=ROLE)
    net.settle()
    net.run(6)
    assert above.asked == 4
    assert [bool(route.hosts) for route in net["A"].core.plane(Routes).entries()] == [True, True]


def test_an_attach_whose_question_is_not_answered_is_decided_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_: bytes) -> words.Question:
        raise BadMessageError("lost on the way")

    net = star("A")
    monkeypatch.setattr(words, "question", unreadable)
    link = attach(net, "edge1", True, "plain")
    net.run(2)
    assert not link.open
    net.run(2)
    assert link.open


def test_a_client_that_goes_before_the_answer_is_forgotten() -> None:
    net = star("A")
    broker(net, "A")
    site = routed(net, "edge1")
    link = site.client(True, "bank.counter")
    site.core.step(net.now)
    site.detach(link)
    net.settle()
    net.run(4)
    at_rest(net)
    assert not site.core.plane(Uplink).lookup._waiting


@pytest.mark.parametrize("outgoing", [True, False])
@pytest.mark.parametrize("at", ["A", "edge1"])
def test_an_attach_of_a_router_whose_route_has_gone_meanwhile_is_refused(at: str, outgoing: bool) -> None:
    """It would be a receiver, or a sender, of an address that nobody has meant."""
    net = star("A", "B")
    site = routed(net, at)
    inter_router = next(one for one, (peer, _) in site.sites.items() if peer.name == ("B" if at == "A" else "A"))
    link = site._new_link(inter_router, outgoing, "bank.counter")
    site.control(C_ATTACH, site._attach(link, 0, termini("bank.counter")))
    net.settle()
    assert link.error == "qd:no-route-to-dest"
    assert site.core.addresses.known("M0bank.counter") is None


def test_a_route_that_two_brokers_are_configured_for_takes_turns() -> None:
    """By its connection, or by its container id; one of them is forgotten, the other one stays."""
    net = star("A")
    site = routed(net, "A")
    setups = [LinkRouteSetup(False, "bank", None, *by) for by in ((None, "broker"), ("teller", None))]
    site.core.configure(SetLinkRoutes(setups))
    first = site.broker()
    site.connect(role="route-container", connector="other")
    net.settle()
    (route,) = site.core.plane(Routes).entries()
    assert len(route.hosts) == 1
    teller = site.connections = site.connections + 1
    site.control(C_CONNECTION_OPENED, ConnectionOpened(teller, 1, "teller", "host:1", role="route-container"))
    site.brokers[teller] = []
    net.settle()
    assert len(route.hosts) == 2
    for number in range(4):
        assert attach(net, "A", False, f"bank.{number}").open
    assert [len(site.brokers[one]) for one in (first, teller)] == [2, 2]
    site.core.configure(SetLinkRoutes(setups[1:]))
    assert list(route.hosts) == [(0, teller)]
    assert attach(net, "A", False).open
    assert len(site.brokers[teller]) == 3

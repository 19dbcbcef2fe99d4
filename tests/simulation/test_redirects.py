"""Ways beyond the receivers of an address, in a network: waypoints, fallback destinations, exchanges; and
what goes on without its sender."""

import pytest

from core.exchanges.exchanges import Exchanges
from shm import native as n
from shm.contract.control import SetRouting
from shm.contract.routing import BindingSetup, ExchangeSetup, Routing
from shm.statistics.stats import COUNTERS
from tests.model.internet import Internet
from tests.model.sites import Packet, SiteLink
from tests.support.beds.edge import at_rest, star
from tests.support.beds.internet import check_rest, line, numbers, receiver, sender, sent


def waypoint(net: Internet, site: str, address: str) -> tuple[SiteLink, SiteLink]:
    """What it receives, and what it sends."""
    receives = net[site].attach(True, address, capabilities=["qd.waypoint"])
    net.run(3)
    return receives, net[site].attach(False, address, capabilities=["qd.waypoint"])


@pytest.mark.parametrize(("frm", "by", "to"), [("A", "C", "A"), ("A", "B", "C"), ("C", "C", "A"), ("B", "A", "B")])
def test_a_message_passes_its_waypoint_first(frm: str, by: str, to: str) -> None:
    """Wherever sender, waypoint and receiver are."""
    net = line("A", "B", "C")
    there = receiver(net, to, "queue.1")
    receives, sends = waypoint(net, by, "queue.1")
    link = sender(net, frm, "queue.1")
    sent(net, net[frm], link, Packet(1))
    assert (numbers(receives), numbers(there)) == ([1], [])
    sent(net, net[by], sends, Packet(2))
    assert (numbers(receives), numbers(there)) == ([1], [2])
    check_rest(net)


def test_a_fallback_has_what_no_receiver_is_there_for() -> None:
    """On another router; senders have credit for it, and it is left alone while there is a receiver."""
    net = line("A", "B", "C")
    second = net["C"].attach(True, "second.x", capabilities=["qd.fallback"])
    link = sender(net, "A", "second.x")
    assert link.credit == 250
    sent(net, net["A"], link, Packet(1))
    first = receiver(net, "B", "second.x")
    net.run(3)
    sent(net, net["A"], link, Packet(2))
    net["B"].detach(first)
    net.run(3)
    sent(net, net["A"], link, Packet(3))
    assert (numbers(second), numbers(first)) == ([1, 3], [2])
    assert net["A"].outcomes == {1: [n.S_ACCEPTED], 2: [n.S_ACCEPTED], 3: [n.S_ACCEPTED]}
    page = n.StatsPage(net["A"].memory.control, n.stats_offset(1))
    assert page.get(COUNTERS["redirected"].place) == 2
    check_rest(net)


def test_what_a_fallback_sends_goes_to_no_fallback() -> None:
    """Its sender waits for a receiver of the address itself."""
    net = line("A", "B")
    net["A"].attach(True, "second.x", capabilities=["qd.fallback"])
    net.run(3)
    link = net["A"].attach(False, "second.x", capabilities=["qd.fallback"])
    net.settle()
    assert link.credit == 0
    there = receiver(net, "B", "second.x")
    net.run(3)
    assert link.credit == 250
    sent(net, net["A"], link, Packet(1))
    assert numbers(there) == [1]
    check_rest(net)


def test_an_address_without_leave_has_no_fallback() -> None:
    """Whatever a receiver asks for."""
    net = line("A")
    net["A"].attach(True, "other", capabilities=["qd.fallback"])
    net.settle()
    assert sender(net, "A", "other").credit == 0


def test_an_exchange_is_known_in_the_network() -> None:
    """Its copies start afresh where it is, and go back the way the message came."""
    net = line("A", "B", "C")
    bindings = [BindingSetup("2", None, "one"), BindingSetup("3", None, "multicast.two")]
    net["B"].core.configure(SetRouting(Routing(exchanges=[ExchangeSetup("1", "x", bindings=bindings)])))
    there = [receiver(net, *at) for at in (("A", "one"), ("A", "multicast.two"), ("C", "multicast.two"))]
    link = sender(net, "A", "x")
    assert link.credit == 250
    sent(net, net["A"], link, Packet(1), Packet(2, settled=True))
    assert [numbers(one) for one in there] == [[1, 2]] * 3
    assert net["A"].outcomes == {1: [n.S_ACCEPTED]}
    assert net["B"].core.plane(Exchanges).counts("1") == (2, 2, 0, 0, [2, 2])
    net["B"].core.configure(SetRouting(Routing()))
    net.run(3)
    assert sent(net, net["A"], link, Packet(3))[3] == [n.S_RELEASED]
    check_rest(net)


@pytest.mark.parametrize("targeted", [True, False])
@pytest.mark.parametrize("frm", ["edge1", "A", "edge2"])
@pytest.mark.parametrize("at", ["edge1", "A"])
def test_an_exchange_is_known_on_edge_routers_and_knows_theirs(at: str, frm: str, targeted: bool) -> None:
    """Wherever it is: its copies reach everybody, also beyond the connection that it came on."""
    net = star("A")
    places = ["edge1", "A", "edge2"]
    bindings = [BindingSetup(name, None, name) for name in (*places, "multicast.all")]
    net[at].core.configure(
        SetRouting(Routing(exchanges=[ExchangeSetup("1", "x", bindings=bindings, alternate="other")]))
    )
    there = [net[site].attach(True, site) for site in places]
    everybody = [net[site].attach(True, "multicast.all") for site in places]
    net.run(3)
    link = sender(net, frm, "x" if targeted else None)
    assert link.credit == 250
    sent(net, net[frm], link, Packet(1, to="" if targeted else "x"))
    assert [numbers(one) for one in there + everybody] == [[1]] * 6
    for site, *links in zip(places, there, everybody, strict=True):
        for one in links:
            net[site].detach(one)
    net.run(3)
    other = net["A"].attach(True, "other")
    net.run(3)
    sent(net, net[frm], link, Packet(2, to="" if targeted else "x"))
    assert numbers(other) == [2]
    assert net[at].core.plane(Exchanges).counts("1") == (2, 2, 1, 0, [2, 2, 2, 2])
    net[at].core.configure(SetRouting(Routing()))
    net.run(3)
    assert sent(net, net[frm], link, Packet(3, to="" if targeted else "x"))[3] == [n.S_RELEASED]
    at_rest(net)


@pytest.mark.parametrize("address", ["closest.x", "multicast.x", "q"])
@pytest.mark.parametrize("targeted", [True, False])
def test_settled_messages_outlive_the_link_they_came_on(address: str, targeted: bool) -> None:
    """A client that detaches at once has lost none of them, wherever the receiver is."""
    net = line("A", "B", "C")
    there = [receiver(net, site, address) for site in ("B", "C")]
    link = sender(net, "A", address if targeted else None)
    site = net["A"]
    for number in range(100):
        site.send(link, Packet(number, to="" if targeted else address, settled=True))
    site.detach(link)
    net.settle()
    net.run(1)
    got = [numbers(one) for one in there]
    everything = list(range(100))
    if address.startswith("multicast"):
        assert got == [everything] * 2
    else:
        assert sorted(got[0] + got[1]) == everything
    check_rest(net)

"""Edge routers around interior routers, and their clients."""

from itertools import pairwise

from shm import native as n
from shm.statistics.stats import read
from tests.model.balance import unbalanced
from tests.model.internet import Internet, join
from tests.model.sites import Packet, SiteLink

SENDERS = [True, False]  # with a target, or without one


def star(*interiors: str) -> Internet:
    """A line of interior routers, with an edge router at each end."""
    net = Internet(*interiors, "edge1", "edge2")
    for left, right in pairwise(interiors):
        join(net[left], net[right])
    join(net["edge1"], net[interiors[0]], role="edge")
    join(net["edge2"], net[interiors[-1]], role="edge")
    net.settle()
    net.run(6)
    return net


def attached(net: Internet, site: str, outgoing: bool, address: str | None) -> SiteLink:
    link = net[site].attach(outgoing, address)
    net.settle()
    net.run(3)
    return link


def send(net: Internet, site: str, address: str, count: int, targeted: bool) -> list[list[int]]:
    """Messages from a new client; their outcomes."""
    link = attached(net, site, False, address if targeted else None)
    assert link.credit > 0
    first = len(net[site].outcomes) + 1
    for number in range(first, first + count):
        net[site].send(link, Packet(number, to="" if targeted else address))
        net.settle()
    outcomes = [net[site].outcomes[number] for number in range(first, first + count)]
    net[site].detach(link)
    net.run(2)
    return outcomes


def at_rest(net: Internet) -> None:
    for site in net.sites.values():
        counts = site.core.forwarder.counts()
        assert counts["incoming"] == counts["outgoing"] == counts["payloads"] == 0, site.name
        page = n.StatsPage(site.memory.control, n.stats_offset(1))
        assert page.get(24) == 0, f"{site.name}: records that made no sense"
        assert unbalanced(read(page)) == {}, site.name

"""Routers of one network, their clients, and what must hold when all is at rest."""

from itertools import pairwise

from bench import contract as n
from shm.statistics.stats import read
from tests.model.balance import unbalanced
from tests.model.internet import Internet, join
from tests.model.sites import Packet, Site, SiteLink

NEWS = 3  # seconds until everybody knows of a new receiver


def line(*names: str) -> Internet:
    net = Internet(*names)
    for left, right in pairwise(names):
        join(net[left], net[right])
    net.settle()
    net.run(6)
    return net


def receiver(net: Internet, site: str, address: str, answer: int = n.S_ACCEPTED) -> SiteLink:
    link = net[site].attach(True, address)
    link.answer = answer
    return link


def sender(net: Internet, site: str, address: str | None) -> SiteLink:
    net.run(NEWS)
    link = net[site].attach(False, address)
    net.settle()
    return link


def sent(net: Internet, site: Site, link: SiteLink, *packets: Packet) -> dict[int, list[int]]:
    """The outcomes, by number."""
    for packet in packets:
        site.send(link, packet)
        net.settle()
    return site.outcomes


def numbers(link: SiteLink) -> list[int]:
    return [packet.number for packet in link.got]


def check_rest(net: Internet) -> None:
    """Nothing is on its way or outstanding, no record made no sense, and credit between interior routers is whole."""
    for site in net.sites.values():
        counts = site.core.forwarder.counts()
        assert counts["incoming"] == counts["outgoing"] == 0, site.name
        assert site.core.forwarder.counts()["payloads"] == 0
        for address in site.core.addresses.entries() if site.mode == "interior" else ():
            assert site.network_adapter.nodes.outstanding(address.handle) == {}
        page = n.StatsPage(site.memory.control, n.stats_offset(1))
        assert page.get(24) == 0, f"{site.name}: records that made no sense"
        assert unbalanced(read(page)) == {}, site.name
        for link in site.links.values():
            if link.peer is not None and not link.outgoing and link.connection not in site.edges:
                assert link.credit > 250 - 250 // 4

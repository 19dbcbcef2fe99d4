"""Messages that never end, over edge connections: each on a link of its own."""

import pytest

from bench import contract as n
from core.links.streams import Streams
from tests.model.internet import Internet, cut, join
from tests.model.sites import Packet
from tests.support.beds.edge import SENDERS, attached, send

STREAMS = "qd.streaming-links"


def streaming_star(*offered: str) -> Internet:
    """An interior router with two edge routers, all offering each other those capabilities."""
    net = Internet("A", "edge1", "edge2")
    for edge in ("edge1", "edge2"):
        join(net[edge], net["A"], role="edge", offered=offered)
    net.settle()
    net.run(6)
    return net


def begin(net: Internet, site: str, address: str, number: int, targeted: bool) -> None:
    """A message begins that never ends."""
    link = attached(net, site, False, address if targeted else None)
    net[site].send(link, Packet(number, to="" if targeted else address, streaming=True))
    net.run(2)


@pytest.mark.parametrize("targeted", SENDERS)
@pytest.mark.parametrize("address", ["orders", "closest.orders", "multicast.orders"])
@pytest.mark.parametrize(("sender", "receiver"), [("edge1", "edge2"), ("edge1", "A"), ("A", "edge2")])
def test_a_message_that_never_ends_holds_up_no_other(sender: str, receiver: str, address: str, targeted: bool) -> None:
    """Not on the uplink, nor on the way down to an edge router: each such message has a link of its own."""
    net = streaming_star(STREAMS)
    first = attached(net, receiver, True, address)
    for number in range(901, 904):
        begin(net, sender, address, number, targeted)
    streams = [packet.number for packet in first.got]
    assert streams == [901, 902, 903]
    assert send(net, sender, address, 3, targeted) == [[n.S_ACCEPTED]] * 3
    assert len(first.got) == 6


@pytest.mark.parametrize("targeted", SENDERS)
def test_a_message_that_never_ends_to_one_edge_router(targeted: bool) -> None:
    """Its dynamic addresses have a link of their own for whatever comes."""
    net = streaming_star(STREAMS)
    receiver = net["edge2"].attach(True, None, dynamic=True)
    net.settle()
    net.run(3)
    assert receiver.address is not None
    begin(net, "edge1", receiver.address, 901, targeted)
    assert send(net, "edge1", receiver.address, 2, targeted) == [[n.S_ACCEPTED]] * 2


def test_a_message_that_never_ends_keeps_its_phase() -> None:
    """It says itself which phase of its address it is in: a waypoint sends it."""
    net = streaming_star(STREAMS)
    receiver = attached(net, "edge2", True, "queue.orders")
    waypoint = net["edge1"].attach(False, "queue.orders", capabilities=["qd.waypoint"])
    net.settle()
    net.run(3)
    for number in (901, 902):
        net["edge1"].send(waypoint, Packet(number, streaming=True))
        net.run(2)
    assert [(packet.number, packet.phase) for packet in receiver.got] == [(901, 1), (902, 1)]


def test_without_links_for_streams_all_share_one() -> None:
    """A router that does not know them is not asked for any."""
    net = streaming_star()
    receiver = attached(net, "edge2", True, "orders")
    sender = attached(net, "edge1", False, "orders")
    before = len(net["A"].links)
    net["edge1"].send(sender, Packet(901, streaming=True))
    net.run(2)
    assert [packet.number for packet in receiver.got] == [901]
    assert len(net["A"].links) == before
    net["edge1"].send(sender, Packet(1))
    net.run(2)
    assert 1 not in net["edge1"].outcomes


def test_what_waits_for_a_link_is_released_when_the_uplink_is_lost() -> None:
    """And what has begun is modified: part of it has been seen."""
    net = Internet("A", "edge1")
    ends = join(net["edge1"], net["A"], role="edge", offered=(STREAMS,))
    net.run(6)
    attached(net, "A", True, "orders")
    begin(net, "edge1", "orders", 901, True)
    cut(net["edge1"], net["A"], ends)
    net.settle()
    assert net["edge1"].outcomes[901] == [n.S_MODIFIED]
    assert net["edge1"].core.plane(Streams)._pools == {}
    assert net["A"].core.plane(Streams)._pools == {}

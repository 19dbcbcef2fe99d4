"""Links of link routes whose clients call themselves and their links the same: each keeps what is its own."""

import pytest
from proton import Link, Receiver, Terminus

from tests.support.beds.queue_routes import queue_routes
from tests.support.peer import Net, Peer, is_closed, is_open
from tests.support.running import Configuration
from tests.support.servers.broker import Broker


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return queue_routes("broker")


def named(net: Net, container: str = "same") -> Peer:
    peer = net.begin_peer()
    peer.connection.container = container
    return peer.open()


def begun(peer: Peer, lasting: bool = False) -> Receiver:
    """A receiver that has the same name as others."""
    assert peer.default_session is not None
    link = peer.default_session.receiver("subscription")
    link.source.address = "queue.a"
    if lasting:
        link.source.durability = Terminus.DELIVERIES
        link.source.expiry_policy = Terminus.EXPIRE_NEVER
    link.open()
    peer.flush()
    return link


def attached(net: Net, peer: Peer, lasting: bool = False) -> Receiver:
    link = begun(peer, lasting)
    net.until(lambda: is_open(link), "attach")
    return link


def names(links: list[Link]) -> list[str]:
    return [link.name for link in links]


def test_two_links_of_one_name_are_two_at_the_broker(net: Net, broker: Broker) -> None:
    """A broker that takes a name from whoever has it would end the first one."""
    first = attached(net, named(net))
    second = attached(net, named(net))
    assert broker.attached[0].name == "subscription@same"
    assert broker.attached[1].name.startswith("subscription@same@")
    broker.round_trip()
    assert is_open(first)
    assert is_open(second)
    assert not is_closed(first)


def test_a_subscription_is_one_clients_at_a_time(net: Net, broker: Broker) -> None:
    """The next one has it when the first one's connection is gone. The broker keeps it: nobody has closed it."""
    peers = [named(net) for _ in range(2)]
    attached(net, peers[0], lasting=True)
    second = begun(peers[1], lasting=True)
    net.round_trips(peers[1], broker)
    assert names(broker.attached) == ["subscription@same"]
    assert not is_open(second)
    peers[0].drop()
    net.until(lambda: is_open(second), "the next client's attach")
    assert names(broker.attached) == ["subscription@same"] * 2
    assert [closed for _, closed in broker.detached] == [False]


@pytest.mark.parametrize("lasting", [True, False])
def test_only_what_is_to_last_outlives_its_clients_connection(net: Net, broker: Broker, lasting: bool) -> None:
    client = named(net)
    attached(net, client, lasting)
    client.drop()
    net.until(lambda: broker.detached, "detach at the broker")
    assert [closed for _, closed in broker.detached] == [not lasting]
    attached(net, named(net), lasting)
    assert names(broker.attached) == ["subscription@same"] * 2

"""Links routed through to a broker that go and come again by the same name."""

import pytest
from broker import Broker
from peer import Net, is_closed, is_open
from proton import Link
from running import Configuration, RunningRouter, address_of, until

ROUTES = """
listener {
 host: 127.0.0.1
 port: 0
 role: route-container
}
linkRoute {
 prefix: queue
 direction: in
 containerId: broker
}
linkRoute {
 prefix: queue
 direction: out
 containerId: broker
}
"""


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(sections=ROUTES)


@pytest.mark.parametrize("closed", [True, False])
def test_a_link_that_is_let_go_comes_again_at_once(net: Net, router: RunningRouter, closed: bool) -> None:
    """By its name, before the broker has answered the detach; links beside it stay."""
    until(lambda: router.core["connections_admitted"] == 0, "end of earlier connections")
    (broker := Broker(net, address_of(router.urls[1])).open()).round_trip()
    client = net.peer()
    stays = client.ready_sender("queue.a")
    assert client.default_session is not None
    before = len(broker.attached)
    for _ in range(3):
        links: list[Link] = [client.default_session.receiver(name) for name in ("one", "two")]
        for link in links:
            link.source.address = "queue.a"
            link.open()
        net.until(lambda links=links: all(map(is_open, links)), "attaches")
        for link in links:
            link.close() if closed else link.detach()
        client.flush()
    net.until(lambda: len(broker.detached) == 6, "detaches at the broker")
    names = sorted(link.name for link in broker.attached[before:])
    assert names == [f"{name}@{client.connection.container}" for name in ("one",) * 3 + ("two",) * 3]
    assert is_open(stays)
    assert not is_closed(stays)

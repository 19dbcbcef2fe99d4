"""Links routed through to a broker that go and come again by the same name."""

import pytest
from proton import Link

from tests.support.beds.queue_routes import queue_routes
from tests.support.peer import Net, is_closed, is_open
from tests.support.running import Configuration
from tests.support.servers.broker import Broker


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return queue_routes("broker")


IDLE = 16  # sessions


@pytest.mark.parametrize("closed", [True, False])
def test_a_link_that_is_let_go_comes_again_at_once(net: Net, broker: Broker, closed: bool) -> None:
    """By its name, before the broker has answered the detach; links beside it stay."""
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


def test_the_next_client_has_the_session_of_one_that_went(net: Net, broker: Broker) -> None:
    """Its end and the next one's begin would be on one channel, which brokers mix up. Not all are kept."""
    first = net.peer()
    for _ in range(2):
        first.ready_sender("queue.a")
    first.connection.close()
    net.until(lambda: len(broker.detached) == 2, "detaches")
    second = net.peer()
    second.ready_sender("queue.a")
    sessions = [link.session for link in broker.attached]
    assert sessions == [sessions[0]] * 3
    for _ in range(IDLE + 3):
        second.ready_sender("queue.a", second.session())
    sessions = [link.session for link in broker.attached]
    second.connection.close()

    def open_ones() -> int:
        return sum(not is_closed(session) for session in sessions[2:])

    net.until(lambda: open_ones() == IDLE, "ends of those that are not kept")

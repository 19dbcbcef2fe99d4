"""A real broker: RabbitMQ keeps the messages.

Link routes connect clients to it; by auto links it is a waypoint, takes what finds nobody, and what an
exchange sends on.
"""

from collections.abc import Iterator

import pytest
from proton import Message, Receiver, Sender

from tests.support.peer import ACCEPTED, RELEASED, Net
from tests.support.running import Configuration, RunningRouter, until
from tests.support.servers.rabbit import Rabbit

MANY = 200
PATHS = """
address {
    prefix: way
    waypoint: yes
}
address {
    prefix: rest
    enableFallback: yes
}
exchange {
    name: news
    address: news
    matchMethod: amqp
}
binding {
    exchangeName: news
    bindingKey: sport.#
    nextHopAddress: sport
}
"""


def auto_links(address: str, *directions: str, fallback: str = "no") -> str:
    """To the broker's queue of the same name, and from it."""
    return "".join(
        f"autoLink {{\n address: {address}\n direction: {direction}\n connection: rabbit\n"
        f" externalAddress: /queue/{address}\n fallback: {fallback}\n}}\n"
        for direction in directions
    )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rabbit]:
    rabbit = Rabbit(tmp_path_factory.mktemp("rabbit"))
    yield rabbit
    rabbit.end()


@pytest.fixture(scope="module")
def configuration(broker: Rabbit) -> Configuration:
    routes = "".join(
        f"linkRoute {{\n prefix: queue\n direction: {direction}\n connection: rabbit\n}}\n"
        for direction in ("in", "out")
    )
    return Configuration(
        sections=f"connector {{\n name: rabbit\n host: 127.0.0.1\n port: {broker.port}\n"
        " role: route-container\n saslMechanisms: PLAIN\n saslUsername: guest\n saslPassword: guest\n}\n"
        + routes
        + PATHS
        + auto_links("way.1", "in", "out")
        + auto_links("rest.1", "in", "out", fallback="yes")
        + auto_links("sport", "out")
    )


AUTO_LINKS = 5  # of `way`, `rest` and `sport`


@pytest.fixture(scope="module")
def router(configuration: Configuration, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRouter]:
    """Its connector is connected until the end, so it has not come to rest when it is stopped."""
    router = RunningRouter(tmp_path_factory.mktemp("router"), configuration)
    yield router
    router.end()


@pytest.fixture
def links(net: Net, router: RunningRouter, request: pytest.FixtureRequest) -> tuple[Sender, Receiver]:
    """A sender and a receiver of a queue of the test's own."""
    until(lambda: "link route queue.# out is active" in router.log, "connection to the broker")
    others_gone = "the auto links, and the end of the links of the test before, at the broker, too"
    until(lambda: router.counted("links") == AUTO_LINKS, others_gone)
    peer = net.peer()
    sender = peer.ready_sender(f"/queue/{request.node.name}")
    return sender, peer.receiver(f"/queue/{request.node.name}")


def test_messages_wait_in_the_broker(net: Net, links: tuple[Sender, Receiver]) -> None:
    """All are accepted before anybody receives; then they come in order, by the credit given."""
    sender, receiver = links
    peer = net.peers[0]
    sent = []
    for number in range(MANY):
        net.until(lambda: sender.credit > 0, "the broker's credit")
        sent.append(net.send(sender, Message(body=f"message {number}", durable=True)))
    assert net.settled(*sent) == [ACCEPTED] * MANY
    assert peer.inbox(receiver) == []
    receiver.flow(10)
    first = peer.take(receiver, 10)
    receiver.flow(MANY - 10)
    arrived = first + peer.take(receiver, MANY - 10)
    assert [one.body for one in arrived] == [f"message {number}" for number in range(MANY)]
    for one in arrived:
        one.delivery.update(ACCEPTED)
        one.delivery.settle()


def test_what_is_released_comes_again(net: Net, links: tuple[Sender, Receiver]) -> None:
    """The broker heeds a receiver's outcome."""
    sender, receiver = links
    peer = net.peers[0]
    assert net.settled(net.send(sender, Message(body="again"))) == [ACCEPTED]
    receiver.flow(2)
    first = peer.take(receiver)[0]
    first.delivery.update(RELEASED)
    first.delivery.settle()
    second = peer.take(receiver)[0]
    assert second.body == "again"
    second.delivery.update(ACCEPTED)
    second.delivery.settle()


def test_a_long_message_is_kept(net: Net, links: tuple[Sender, Receiver]) -> None:
    """Frame by frame there and back."""
    sender, receiver = links
    body = "0123456789" * 100_000
    sent = net.stream(sender, Message(body=body).encode())
    assert net.settled(sent) == [ACCEPTED]
    receiver.flow(1)
    arrived = net.peers[0].take(receiver)[0]
    assert arrived.body == body
    arrived.delivery.update(ACCEPTED)
    arrived.delivery.settle()


def taken(net: Net, receiver: Receiver, number: int) -> list[object]:
    """Bodies of messages, accepted."""
    arrived = net.peers[0].take(receiver, number)
    for one in arrived:
        one.delivery.update(ACCEPTED)
        one.delivery.settle()
    return [one.body for one in arrived]


def test_the_broker_is_a_waypoint(net: Net, router: RunningRouter) -> None:
    """Messages wait there for a receiver, who hears of no broker; the sender's outcome is the broker's."""
    peer = net.peer()
    sender = peer.ready_sender("way.1")
    sent = [net.send(sender, Message(body=f"message {number}", durable=True)) for number in range(20)]
    assert net.settled(*sent) == [ACCEPTED] * 20
    receiver = peer.receiver("way.1", 20)
    assert taken(net, receiver, 20) == [f"message {number}" for number in range(20)]


def test_the_broker_takes_what_finds_nobody(net: Net, router: RunningRouter) -> None:
    """And gives it to the next receiver; while there is one, messages do not go by the broker."""
    peer = net.peer()
    sender = peer.ready_sender("rest.1")
    assert net.settled(net.send(sender, Message(body="nobody is there"))) == [ACCEPTED]
    receiver = peer.receiver("rest.1", 10)
    assert taken(net, receiver, 1) == ["nobody is there"]
    sent = net.send(sender, Message(body="somebody is there"))
    net.until(lambda: peer.inbox(receiver), "the message")
    assert not sent.settled  # a broker would have taken it
    assert taken(net, receiver, 1) == ["somebody is there"]
    assert net.settled(sent) == [ACCEPTED]


def test_the_broker_keeps_what_an_exchange_sends_on(net: Net, router: RunningRouter) -> None:
    """By subject; a receiver beside it has its copy, too."""
    peer = net.peer()
    beside = peer.receiver("news", 10)
    peer.ready_sender("sport")  # the auto link is there
    sender = peer.ready_sender("news")
    subjects = ["sport.chess", "weather", "sport"]
    sent = [net.send(sender, Message(body=subject, subject=subject)) for subject in subjects]
    assert taken(net, beside, 3) == subjects
    assert net.settled(*sent) == [ACCEPTED] * 3
    kept = peer.receiver("/queue/sport", 10)
    assert taken(net, kept, 2) == ["sport.chess", "sport"]

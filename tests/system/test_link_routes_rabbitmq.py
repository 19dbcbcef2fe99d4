"""Link routes to a real broker: RabbitMQ keeps the messages, the router only connects the links."""

import signal
from collections.abc import Iterator

import pytest
from peer import ACCEPTED, RELEASED, Net
from proton import Message, Receiver, Sender
from rabbit import Rabbit
from running import STOP, Configuration, RunningRouter, until

MANY = 200


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
    )


@pytest.fixture(scope="module")
def router(configuration: Configuration, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRouter]:
    """Its connector is connected until the end, so it has not come to rest when it is stopped."""
    router = RunningRouter(tmp_path_factory.mktemp("router"), configuration)
    yield router
    router.process.send_signal(signal.SIGTERM)
    try:
        assert router.process.wait(timeout=STOP) == 0, router.log
    finally:
        router.kill()


@pytest.fixture
def links(net: Net, router: RunningRouter, request: pytest.FixtureRequest) -> tuple[Sender, Receiver]:
    """A sender and a receiver of a queue of the test's own."""
    until(lambda: "link route Dqueue is active" in router.log, "connection to the broker")
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

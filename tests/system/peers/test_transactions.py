"""Transactions of clients at a real broker, ActiveMQ, through link routes; and drain, which it answers."""

from collections.abc import Iterator
from typing import Any

import pytest
from proton import Delivery, Described, Message, Receiver, Sender, ulong

from tests.support.peer import ACCEPTED, Net, Peer
from tests.support.running import Configuration, RunningRouter, until
from tests.support.servers.activemq import ActiveMQ

DECLARE, DISCHARGE, DECLARED, TRANSACTIONAL = 0x31, 0x32, 0x33, 0x34  # AMQP 4.5
ROUTES = [("$coordinator", "in"), ("queue", "in"), ("queue", "out")]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActiveMQ]:
    broker = ActiveMQ(tmp_path_factory.mktemp("activemq"))
    yield broker
    broker.end()


@pytest.fixture(scope="module")
def configuration(broker: ActiveMQ) -> Configuration:
    routes = "".join(
        f"linkRoute {{\n prefix: {prefix}\n direction: {direction}\n connection: broker\n}}\n"
        for prefix, direction in ROUTES
    )
    return Configuration(
        sections=f"connector {{\n name: broker\n host: 127.0.0.1\n port: {broker.port}\n"
        " role: route-container\n saslMechanisms: ANONYMOUS\n}\n" + routes
    )


@pytest.fixture(scope="module")
def router(configuration: Configuration, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRouter]:
    """Its connector is connected until the end, so it has not come to rest when it is stopped."""
    router = RunningRouter(tmp_path_factory.mktemp("router"), configuration)
    until(lambda: "link route queue.# out is active" in router.log, "connection to the broker")
    yield router
    router.end()


class Client:
    """One session with a coordinator, a sender to a queue and a receiver from it."""

    def __init__(self, net: Net, queue: str) -> None:
        self.net = net
        self.peer: Peer = net.peer()
        self.control: Sender = self.peer.coordinator()
        net.until(lambda: self.control.credit > 0, "coordinator")
        self.sender = self.peer.ready_sender(queue)
        self.receiver: Receiver = self.peer.receiver(queue)

    def _ask(self, what: int, *fields: Any) -> Delivery:
        asked = self.net.send(self.control, Message(body=Described(ulong(what), list(fields))))
        self.net.until(lambda: asked.remote_state, "the coordinator's answer")
        asked.settle()
        return asked

    def declare(self) -> bytes:
        """Begin a transaction; its id."""
        declared = self._ask(DECLARE, None)
        assert declared.remote_state == DECLARED
        return bytes(declared.remote.data[0])

    def discharge(self, transaction: bytes, fail: bool) -> None:
        """End it: take it back, or let it count."""
        assert self._ask(DISCHARGE, transaction, fail).remote_state == ACCEPTED

    def send(self, body: str, transaction: bytes) -> None:
        """A message that is in the queue when the transaction counts."""
        self.net.tags += 1
        sent = self.sender.delivery(f"tag-{self.net.tags}")
        sent.local.data = [transaction]
        sent.update(TRANSACTIONAL)
        self.sender.stream(Message(body=body).encode())
        self.sender.advance()
        self.net.until(lambda: sent.remote_state, "provisional outcome")
        assert sent.remote_state == TRANSACTIONAL
        assert bytes(sent.remote.data[0]) == transaction
        sent.settle()

    def take(self, transaction: bytes | None = None) -> str:
        """The next message, accepted, in a transaction if there is one."""
        self.receiver.flow(1)
        arrived = self.peer.take(self.receiver)[0]
        if transaction is None:
            arrived.delivery.update(ACCEPTED)
        else:
            arrived.delivery.local.data = [transaction, Described(ulong(ACCEPTED), [])]
            arrived.delivery.update(TRANSACTIONAL)
        arrived.delivery.settle()
        return str(arrived.body)

    def drained(self, credit: int) -> int:
        """How many messages come when all credit is used or taken back."""
        self.receiver.drain(credit)
        self.net.until(lambda: not self.receiver.credit, "end of the drain")
        return len(self.peer.inbox(self.receiver))


@pytest.fixture
def client(net: Net, router: RunningRouter, request: pytest.FixtureRequest) -> Client:
    """With a queue of the test's own."""
    return Client(net, f"queue.{request.node.name}")


def test_what_was_sent_counts_with_the_commit(client: Client) -> None:
    """Not before."""
    transaction = client.declare()
    for number in range(3):
        client.send(f"message {number}", transaction)
    assert client.drained(10) == 0
    client.discharge(transaction, fail=False)
    assert [client.take() for _ in range(3)] == ["message 0", "message 1", "message 2"]


def test_what_was_sent_is_gone_with_the_rollback(client: Client) -> None:
    """The transaction after it is another one."""
    first = client.declare()
    client.send("never", first)
    client.discharge(first, fail=True)
    second = client.declare()
    assert second != first
    client.send("counts", second)
    client.discharge(second, fail=False)
    assert client.take() == "counts"
    assert client.drained(10) == 0


def test_what_was_accepted_comes_again_after_a_rollback(client: Client) -> None:
    """And does not after a commit."""
    client.net.settled(client.net.send(client.sender, Message(body="again")))
    first = client.declare()
    assert client.take(first) == "again"
    client.discharge(first, fail=True)
    second = client.declare()
    assert client.take(second) == "again"
    client.discharge(second, fail=False)
    assert client.drained(10) == 0


def test_a_client_that_goes_takes_its_transaction_along(client: Client, net: Net) -> None:
    """The broker is told that its session is over."""
    client.send("never", client.declare())
    queue = client.sender.target.address
    client.peer.drop()
    other = Client(net, queue)
    assert other.drained(10) == 0
    transaction = other.declare()
    other.send("counts", transaction)
    other.discharge(transaction, fail=False)
    assert other.take() == "counts"


def test_drain(client: Client, net: Net) -> None:
    """What is there comes, and the rest of the credit is taken back."""
    assert client.drained(10) == 0
    net.settled(*[net.send(client.sender, Message(body=number)) for number in range(3)])
    assert client.drained(10) == 3

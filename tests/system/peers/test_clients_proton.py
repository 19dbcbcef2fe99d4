"""python-qpid-proton as its users use it: blocking, and with handlers."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from proton import Message
from proton.handlers import TransactionHandler
from proton.reactor import AtMostOnce, Container, DynamicNodeProperties
from proton.utils import BlockingConnection, LinkDetached, SendException, SyncRequestResponse

from tests.support.clients.handlers import TIMEOUT, Client, Exchange
from tests.support.running import Configuration, RunningRouter


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(sections="address {\n prefix: closed\n distribution: unavailable\n}")


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An address of the test's own."""
    return f"proton.{request.node.name}"


@pytest.fixture
def connection(router: RunningRouter) -> Iterator[BlockingConnection]:
    connection = BlockingConnection(router.url, timeout=TIMEOUT)
    yield connection
    connection.close()


# ---- blocking ----


def test_blocking(router: RunningRouter, connection: BlockingConnection, name: str) -> None:
    """send() returns when the receiver has accepted, so it takes two threads."""
    other = BlockingConnection(router.url, timeout=TIMEOUT)
    receiver = other.create_receiver(name, credit=10)
    sender = connection.create_sender(name)
    bodies: list[object] = []

    def receive() -> None:
        for _ in range(100):
            bodies.append(receiver.receive(timeout=TIMEOUT).body)
            receiver.accept()
        other.close()  # sends the last disposition, too

    thread = threading.Thread(target=receive)
    thread.start()
    for i in range(100):
        sender.send(Message(body=i))
    thread.join()
    assert bodies == list(range(100))


def test_blocking_in_one_thread(connection: BlockingConnection, name: str) -> None:
    """A presettled message needs no answer, nor does a receiver that takes settled ones."""
    receiver = connection.create_receiver(name, credit=1, options=AtMostOnce())
    sender = connection.create_sender(name, options=AtMostOnce())
    for i in range(10):
        sender.send(Message(body=i))
        assert receiver.receive(timeout=TIMEOUT).body == i


def test_blocking_send_to_nobody(connection: BlockingConnection, name: str) -> None:
    """What is released is an exception to the sender."""
    sender = connection.create_sender(None)
    with pytest.raises(SendException):
        sender.send(Message(address=name))


def test_blocking_link_to_a_closed_address(connection: BlockingConnection) -> None:
    """What is refused is an exception, too, and names the reason."""
    with pytest.raises(LinkDetached, match="amqp:not-found"):
        connection.create_sender("closed.shop")
    with pytest.raises(LinkDetached, match="amqp:not-found"):
        connection.create_receiver("closed.shop")


class Service(threading.Thread):
    """A server that answers requests at their reply-to, as its own connection's handler."""

    def __init__(self, url: str, address: str) -> None:
        super().__init__(daemon=True)
        self.url, self.address = url, address
        self.ready, self.stopping = threading.Event(), threading.Event()

    def run(self) -> None:
        connection = BlockingConnection(self.url, timeout=TIMEOUT)
        receiver = connection.create_receiver(self.address, credit=10)
        sender = connection.create_sender(None)
        self.ready.set()
        while (request := receiver.receive(timeout=TIMEOUT)).body != "stop":
            reply = Message(address=request.reply_to, correlation_id=request.correlation_id)
            reply.body = str(request.body).upper()
            sender.send(reply)
            receiver.accept()
        receiver.accept()
        connection.close()


def test_request_and_reply(router: RunningRouter, connection: BlockingConnection, name: str) -> None:
    """SyncRequestResponse: a dynamic source for the replies, matched by correlation id."""
    service = Service(router.url, name)
    service.start()
    assert service.ready.wait(TIMEOUT)
    client = SyncRequestResponse(connection, name)
    assert client.reply_to.startswith(f"amqp:/_topo/0/{router.id}/temp.")
    for word in ("one", "two", "three"):
        assert client.call(Message(body=word)).body == word.upper()
    also = SyncRequestResponse(connection)  # names the address in each request
    assert also.call(Message(address=name, body="four")).body == "FOUR"
    connection.create_sender(name, name="stop").send(Message(body="stop"))
    service.join(TIMEOUT)
    assert not service.is_alive()


# ---- handlers ----


@pytest.mark.parametrize("prefetch", [2, 10, 1000])
def test_handlers(router: RunningRouter, name: str, prefetch: int) -> None:
    """Far more messages than credit, in order, each accepted."""
    exchange = Exchange(router.url, name, 2000, prefetch=prefetch)
    exchange.run()
    assert exchange.bodies == list(range(2000))
    assert exchange.accepted == 2000


class Reject(Exchange):
    """The receiver refuses every message in turn: rejected, released, modified."""

    def __init__(self, url: str, address: str) -> None:
        super().__init__(url, address, 30, auto_accept=False)
        self.outcomes: list[str] = []

    def on_message(self, event: Any) -> None:
        number = event.message.id
        if number % 3 == 0:
            self.reject(event.delivery)
        else:
            self.release(event.delivery, delivered=number % 3 == 1)

    def on_rejected(self, event: Any) -> None:
        self.outcomes.append("rejected")

    def on_released(self, event: Any) -> None:
        """Called for modified ones, too."""
        self.outcomes.append(event.delivery.remote_state.name.lower())


def test_handlers_that_refuse(router: RunningRouter, name: str) -> None:
    """The sender is told how."""
    client = Reject(router.url, name)
    client.run()
    assert client.accepted == 0
    assert sorted(client.outcomes) == ["modified"] * 10 + ["rejected"] * 10 + ["released"] * 10


class Replies(Client):
    """Asks a service over a dynamic reply address, and is the service as well."""

    def __init__(self, url: str, address: str) -> None:
        super().__init__(url)
        self.address = address
        self.answers: list[str] = []
        self.questions = ["one", "two", "three"]

    def begin(self, container: Container) -> None:
        self.requests = container.create_receiver(self.connection, self.address)
        self.relay = container.create_sender(self.connection, None)
        self.sender = container.create_sender(self.connection, self.address)
        options = DynamicNodeProperties({"x-opt": "temporary"})
        self.replies = container.create_receiver(self.connection, None, dynamic=True, options=options)

    def on_link_opened(self, event: Any) -> None:
        if event.link == self.replies:
            for question in self.questions:
                self.sender.send(Message(reply_to=self.replies.remote_source.address, body=question))

    def on_message(self, event: Any) -> None:
        if event.receiver == self.requests:
            self.relay.send(Message(address=event.message.reply_to, body=event.message.body.upper()))
            return
        self.answers.append(event.message.body)
        if len(self.answers) == len(self.questions):
            self.end()


def test_handlers_with_reply_addresses(router: RunningRouter, name: str) -> None:
    """Service and client in one, messages queued before there is credit."""
    client = Replies(router.url, name)
    client.run()
    assert client.answers == ["ONE", "TWO", "THREE"]


class Declare(Client, TransactionHandler):
    """Begins a transaction; a router has none."""

    def begin(self, container: Container) -> None:
        container.declare_transaction(self.connection, handler=self)

    def on_link_error(self, event: Any) -> None:
        self.condition = event.link.remote_condition.name
        self.end()


def test_handlers_that_want_a_transaction(router: RunningRouter) -> None:
    """The link to the coordinator is refused, which the handler is told."""
    client = Declare(router.url)
    client.run()
    assert client.condition == "amqp:precondition-failed"


class Stay(Client):
    """Waits until the router closes the connection."""

    def begin(self, container: Container) -> None:
        container.create_receiver(self.connection, "nowhere")

    def on_link_opened(self, event: Any) -> None:
        event.link.drain(5)

    def on_link_flow(self, event: Any) -> None:
        if not event.link.draining():
            self.end()


def test_handlers_that_drain(router: RunningRouter) -> None:
    """A drain ends although there is nothing to get."""
    Stay(router.url, prefetch=0).run()

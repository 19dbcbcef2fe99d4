"""python-qpid-proton as its users use it: blocking, handlers, events from other threads, asyncio."""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import (
    ApplicationEvent,
    AtLeastOnce,
    AtMostOnce,
    Container,
    DynamicNodeProperties,
    EventInjector,
)
from proton.utils import BlockingConnection, LinkDetached, SendException, SyncRequestResponse
from running import Configuration, RunningRouter

TIMEOUT = 20.0


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


class Client(MessagingHandler):
    """A handler that ends with an error instead of hanging, and keeps what went wrong."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(**options)
        self.url = url
        self.wrong: list[str] = []

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = event.container.connect(self.url, reconnect=False)
        self.begin(event.container)
        self.timer = event.container.schedule(TIMEOUT, self)

    def begin(self, container: Container) -> None:
        raise NotImplementedError

    def on_timer_task(self, event: Any) -> None:
        self.fail("took too long")

    def on_transport_error(self, event: Any) -> None:
        self.fail(str(event.transport.condition))

    def fail(self, why: str) -> None:
        self.wrong.append(why)
        self.container.stop()

    def run(self) -> None:
        Container(self).run()
        assert self.wrong == []

    def end(self) -> None:
        """Everything is as it should be: with nothing left to wait for the container ends."""
        self.connection.close()
        self.timer.cancel()


class Exchange(Client):
    """Sends and receives a number of messages over one connection."""

    def __init__(self, url: str, address: str, number: int, **options: Any) -> None:
        super().__init__(url, **options)
        self.address, self.number = address, number
        self.sent = self.accepted = self.settled = 0
        self.bodies: list[object] = []

    def begin(self, container: Container) -> None:
        container.create_receiver(self.connection, self.address)
        container.create_sender(self.connection, self.address)

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and self.sent < self.number:
            event.sender.send(Message(id=self.sent, body={"sequence": self.sent}))
            self.sent += 1

    def on_message(self, event: Any) -> None:
        self.bodies.append(event.message.body["sequence"])

    def on_accepted(self, event: Any) -> None:
        self.accepted += 1

    def on_settled(self, event: Any) -> None:
        self.settled += 1
        if self.settled == self.number:
            self.end()


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


# ---- events from other threads ----


class Injected(Client):
    """A container in a thread of its own that others ask to send by events."""

    def __init__(self, url: str, address: str) -> None:
        super().__init__(url)
        self.address = address
        self.events = EventInjector()
        self.ready = threading.Event()
        self.waiting: dict[bytes | str, Callable[[str], object]] = {}
        self.received: list[object] = []

    def begin(self, container: Container) -> None:
        container.selectable(self.events)
        self.receiver = container.create_receiver(self.connection, self.address)
        self.sender = container.create_sender(self.connection, self.address, options=AtLeastOnce())

    def on_sendable(self, event: Any) -> None:
        self.ready.set()

    def on_submit(self, event: Any) -> None:
        body, done = event.subject
        delivery: Any = self.sender.send(Message(body=body))
        self.waiting[delivery.tag] = done

    def on_accepted(self, event: Any) -> None:
        self.waiting.pop(event.delivery.tag)("accepted")

    def on_message(self, event: Any) -> None:
        self.received.append(event.message.body)

    def on_finish(self, event: Any) -> None:
        self.end()

    def submit(self, body: object, done: Callable[[str], object]) -> None:
        """From any thread; ``done`` is called in the container's."""
        self.events.trigger(ApplicationEvent("submit", subject=(body, done)))

    def finish(self) -> None:
        self.events.trigger(ApplicationEvent("finish"))
        self.events.close()


@pytest.fixture
def injected(router: RunningRouter, name: str) -> Iterator[Injected]:
    client = Injected(router.url, name)
    thread = threading.Thread(target=client.run)
    thread.start()
    assert client.ready.wait(TIMEOUT)
    yield client
    client.finish()
    thread.join(TIMEOUT)
    assert not thread.is_alive()
    assert client.wrong == []


def test_events_from_other_threads(injected: Injected) -> None:
    """Four threads send through one container, and each learns what became of its messages."""
    outcomes: list[tuple[int, str]] = []

    def send(start: int) -> None:
        for body in range(start, start + 25):
            done: queue.Queue[str] = queue.Queue()
            injected.submit(body, done.put)
            outcomes.append((body, done.get(timeout=TIMEOUT)))

    threads = [threading.Thread(target=send, args=(start,)) for start in range(0, 100, 25)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [(body, "accepted") for body in range(100)]
    assert sorted(map(int, map(str, injected.received))) == list(range(100))


def test_asyncio_over_events(injected: Injected) -> None:
    """Coroutines await the outcomes of what they send, all at once."""

    async def send(body: int) -> str:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[str] = loop.create_future()
        injected.submit(body, lambda said: loop.call_soon_threadsafe(outcome.set_result, said))
        return await asyncio.wait_for(outcome, TIMEOUT)

    async def send_all() -> list[str]:
        return await asyncio.gather(*[send(body) for body in range(100)])

    assert asyncio.run(send_all()) == ["accepted"] * 100


def test_a_reactor_turned_by_asyncio(router: RunningRouter, name: str) -> None:
    """The event loop gives the container its turns between other work, in one thread."""
    exchange = Exchange(router.url, name, 200)
    container = Container(exchange)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while exchange.settled < 200 and not exchange.wrong:
            turns += 1
            await asyncio.sleep(0)

    async def work() -> None:
        container.timeout = 0.0
        container.start()
        while container.process():
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.wait_for(asyncio.gather(work(), others()), TIMEOUT)

    asyncio.run(both())
    assert exchange.wrong == []
    assert exchange.bodies == list(range(200))
    assert turns > 1

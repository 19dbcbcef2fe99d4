"""python-qpid-proton beside other work: events from other threads, and asyncio."""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from proton import Message
from proton.reactor import ApplicationEvent, AtLeastOnce, Container, EventInjector

from tests.support.clients.handlers import TIMEOUT, Client, Exchange
from tests.support.running import RunningRouter


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An address of the test's own."""
    return f"proton.{request.node.name}"


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

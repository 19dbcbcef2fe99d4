"""proton handlers that the tests of its clients share."""

from typing import Any

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

from tests.support.running import LONG as TIMEOUT


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

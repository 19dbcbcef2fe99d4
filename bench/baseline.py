"""A router on python-qpid-proton's handler classes, as one would write it in an afternoon.

It routes by address to the next receiver with credit and settles end to end. The benchmark compares routerd with it to
show the cost of Python for each message.
"""

from __future__ import annotations

from collections import deque
from typing import Any  # the attributes of an event depend on its kind, which its class does not say

import click
from proton import Connection, Delivery, Message, Sender
from proton.handlers import MessagingHandler
from proton.reactor import Container


class BaselineRouter(MessagingHandler):
    """A router of one process and one thread, with one Python call per event."""

    def __init__(self, port: int) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self._port = port
        self._receivers: dict[str, list[Sender]] = {}
        self._queues: dict[str, deque[tuple[Message, Delivery]]] = {}
        self._incoming: dict[str, Delivery] = {}

    def on_start(self, event: Any) -> None:
        """Listen on the loopback interface."""
        event.container.listen(f"127.0.0.1:{self._port}")

    def on_link_opening(self, event: Any) -> None:
        """Mirror the peer's termini, and grant senders credit at once."""
        link = event.link
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        if link.is_sender:
            self._receivers.setdefault(link.source.address, []).append(link)
        else:
            self._queues.setdefault(link.target.address, deque())
            link.flow(250)

    def on_sendable(self, event: Any) -> None:
        """Send what waits, as a receiver has credit again."""
        self._serve(event.link.source.address)

    def on_message(self, event: Any) -> None:
        """Append a message to its address's queue."""
        address = event.link.target.address
        self._queues[address].append((event.message, event.delivery))
        self._serve(address)

    def _serve(self, address: str) -> None:
        queue, receivers = self._queues.get(address), self._receivers.get(address)
        while queue and receivers:
            link = next((one for one in receivers if one.credit), None)
            if link is None:
                return
            message, arrived = queue.popleft()
            sent: Any = link.send(message)
            if arrived.settled:
                sent.settle()
                self._done(arrived)
            else:
                self._incoming[sent.tag + link.name] = arrived

    def on_delivery(self, event: Any) -> None:
        """Pass the receiver's outcome and settlement back to the sender."""
        sent = event.delivery
        if not event.link.is_sender or not sent.updated:
            return
        arrived = self._incoming.pop(sent.tag + event.link.name, None)
        if arrived is not None:
            arrived.update(sent.remote_state)
            self._done(arrived)
        sent.settle()

    def _done(self, arrived: Any) -> None:
        arrived.settle()
        arrived.link.flow(1)

    def on_connection_closing(self, event: Any) -> None:
        """Forget the links of a connection that closes."""
        self._forget(event.connection)

    def on_disconnected(self, event: Any) -> None:
        """Forget the links of a connection that is lost."""
        self._forget(event.connection)

    def _forget(self, connection: Connection) -> None:
        for address, links in self._receivers.items():
            self._receivers[address] = [link for link in links if link.connection != connection]


@click.command(help=__doc__)
@click.option("--port", type=int, required=True)
def main(port: int) -> None:
    """Run until stopped."""
    Container(BaselineRouter(port)).run()


if __name__ == "__main__":
    main()

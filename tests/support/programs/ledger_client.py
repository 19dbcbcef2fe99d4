"""``python ledger_client.py URL send=ADDRESS… receive=ADDRESS…``: clients that keep a ledger.

Each sender and each receiver has a connection of its own, and reconnects at once. ``send/4=ADDRESS`` has four
messages unsettled at most, instead of ``WINDOW``. On standard input:
``count`` is answered by how many messages of each sender have been accepted, as one line of JSON;
``since TIME`` (of the monotonic clock) by when each of ``STEPS`` was first taken by each sender after it, or
null: its connection was lost, it had asked for another one, that was open, its link had credit, a message
that it sent after TIME was accepted;
``stop`` ends the sending, and is answered by ``quiet`` when every sender knows what became of its messages;
``close`` ends the program, which prints its ledger as one line of JSON.
"""

import json
import random
import select
import sys
import time
from collections import Counter
from typing import Any

from proton import Connection, Delivery, Event, Message, Sender, Transport
from proton.handlers import IOHandler, MessagingHandler
from proton.reactor import Container

WINDOW = 50  # unsettled deliveries of a sender and of a receiver
AGAIN = 0.02  # seconds until the next attempt to connect
TURN = 0.05  # seconds between acceptances: most deliveries are unsettled at any time
STEPS = ("lost", "dialled", "opened", "credit", "accepted")
SIZES = (0, 100, 330, 700, 4_000, 16_100, 40_000, 300_000)  # bytes; the last ones are rare
WEIGHTS = (10, 200, 40, 40, 20, 10, 5, 4)


def filling(name: str, number: int, size: int) -> bytes:
    """Bytes that tell whose they are wherever one looks."""
    unit = f"{name}:{number};".encode()
    return (unit * (size // len(unit) + 1))[:size]


class Party(MessagingHandler):
    """A connection with one link that comes back whenever it is lost."""

    def __init__(self, client: "Client", address: str, name: str, **options: Any) -> None:
        super().__init__(**options)
        self.client, self.address, self.name = client, address, name
        self.connection: Connection | None = None
        self.steps: list[tuple[str, float, float]] = []  # what, when, and when its message was sent
        self.connect()

    def took(self, step: str, sent: float = 0.0) -> None:
        now = time.monotonic()
        self.steps.append((step, now, sent or now))

    def since(self, begin: float) -> list[float | None]:
        """When each step was first taken."""
        self.steps = [step for step in self.steps if step[2] > begin]
        return [next((when for what, when, _ in self.steps if what == step), None) for step in STEPS]

    def connect(self) -> None:
        self.took("dialled")
        self.connection = self.client.container.connect(self.client.url, handler=self, reconnect=False)

    def on_connection_opened(self, event: Event) -> None:
        if event.connection == self.connection:
            self.took("opened")
            self.attach(event.connection)

    def on_disconnected(self, event: Event) -> None:
        self.again(event.connection)

    def on_connection_closed(self, event: Event) -> None:
        self.again(event.connection)

    def on_link_error(self, event: Event) -> None:
        self.client.wrong.append(f"{self.name}: {event.link.remote_condition}")

    def again(self, connection: Connection) -> None:
        if connection == self.connection and not self.client.closing:
            self.connection = None
            self.took("lost")
            self.lost()
            self.client.counts["reconnects"] += 1
            self.client.container.schedule(AGAIN, self)

    def on_timer_task(self, event: Event) -> None:
        if self.connection is None and not self.client.closing:
            self.connect()

    def attach(self, connection: Connection) -> None:
        raise NotImplementedError

    def lost(self) -> None:
        raise NotImplementedError


class SendingParty(Party):
    """Sends numbered messages; what was accepted stands in the ledger, what was in doubt is forgotten."""

    def __init__(self, client: "Client", address: str, name: str, window: int) -> None:
        self.number, self.window = 0, window
        self.pending: dict[str, tuple[int, float]] = {}  # number, when it was sent
        self.accepted: list[int] = []
        self.sender: Sender | None = None  # of the present connection; events of the one before may come late
        super().__init__(client, address, name)

    def attach(self, connection: Connection) -> None:
        self.sender = self.client.container.create_sender(connection, self.address)

    def lost(self) -> None:
        self.pending.clear()
        self.sender = None

    def on_sendable(self, event: Event) -> None:
        if event.sender == self.sender:
            self.took("credit")
            self.send()

    def send(self) -> None:
        while self.sender is not None and self.sender.credit and len(self.pending) < self.window:
            if self.client.stopping:
                return
            self.number += 1
            size = random.choices(SIZES, WEIGHTS)[0]  # noqa: S311 - no secret
            message = Message(
                id=f"{self.name}:{self.number}", priority=self.number % 10, body=filling(self.name, self.number, size)
            )
            self.pending[self.sender.send(message).tag] = self.number, time.monotonic()

    def on_accepted(self, event: Event) -> None:
        if event.sender == self.sender and (known := self.pending.get(event.delivery.tag)) is not None:
            number, sent = known
            self.accepted.append(number)
            self.took("accepted", sent)

    def on_released(self, event: Event) -> None:
        kind = "modified" if event.delivery.remote_state == Delivery.MODIFIED else "released"
        self.client.counts[kind] += 1

    def on_rejected(self, event: Event) -> None:
        self.client.wrong.append(f"{self.name}: rejected: {event.delivery.remote.condition}")

    def on_settled(self, event: Event) -> None:
        if event.sender == self.sender:
            self.pending.pop(event.delivery.tag, None)
            self.send()


class ReceivingParty(Party):
    """Enters every message in the ledger, and accepts it a while later."""

    def __init__(self, client: "Client", address: str, name: str) -> None:
        self.held: list[Delivery] = []
        super().__init__(client, address, name, prefetch=WINDOW, auto_accept=False)

    def attach(self, connection: Connection) -> None:
        self.client.container.create_receiver(connection, self.address)

    def lost(self) -> None:
        self.held.clear()

    def on_message(self, event: Event) -> None:
        name, _, number = event.message.id.rpartition(":")
        body = bytes(event.message.body)
        if body != filling(name, int(number), len(body)):
            self.client.wrong.append(f"{self.name}: {event.message.id} is damaged")
        self.client.received.setdefault(name, []).append(int(number))
        self.held.append(event.delivery)

    def accept_some(self) -> None:
        random.shuffle(self.held)
        keep = len(self.held) // 4
        for delivery in self.held[keep:]:
            self.accept(delivery)
        del self.held[keep:]


class Patient(IOHandler):
    """The library's own stumbles over a timer that is due in the turn in which its connection is lost."""

    def update(self, transport: Transport | None, selectable: Any, now: float) -> None:
        if transport is not None:
            super().update(transport, selectable, now)


class Client(MessagingHandler):
    """All parties of one process."""

    def __init__(self, url: str, roles: list[str]) -> None:
        super().__init__()
        self.url, self.roles = url, roles
        self.senders: list[SendingParty] = []
        self.receivers: list[ReceivingParty] = []
        self.received: dict[str, list[int]] = {}
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self.stopping = self.quiet = self.closing = False

    def on_start(self, event: Event) -> None:
        self.container = event.container
        for i, role in enumerate(self.roles):
            kind, _, address = role.partition("=")
            name = f"{self.container.container_id}.{i}"
            if kind.startswith("send"):
                window = int(kind.partition("/")[2] or WINDOW)
                self.senders.append(SendingParty(self, address, name, window))
            else:
                self.receivers.append(ReceivingParty(self, address, name))
        self.container.schedule(TURN, self)

    def on_timer_task(self, event: Event) -> None:
        for receiver in self.receivers:
            receiver.accept_some()
        if select.select([sys.stdin], [], [], 0)[0]:
            line = sys.stdin.readline().strip()
            if line == "count":
                counts = {sender.name: len(sender.accepted) for sender in self.senders}
                print(json.dumps(counts), flush=True)
            elif line.startswith("since "):
                begin = float(line.removeprefix("since "))
                print(json.dumps({one.name: one.since(begin) for one in self.senders}), flush=True)
            else:
                self.stopping = True
                self.closing = line != "stop"
        if self.stopping and not self.quiet and not any(sender.pending for sender in self.senders):
            self.quiet = True
            print("quiet", flush=True)
        if self.closing:
            for party in (*self.senders, *self.receivers):
                if party.connection is not None:
                    party.connection.close()
            return
        self.container.schedule(TURN, self)


def main(url: str, *roles: str) -> None:
    client = Client(url, list(roles))
    container = Container(client, global_handler=Patient())
    container.run()
    ledger = {
        "accepted": {sender.name: sender.accepted for sender in client.senders},
        "received": client.received,
        "wrong": client.wrong,
        "counts": client.counts,
    }
    print(json.dumps(ledger), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""`routerd bench`: a first figure for a router, with simple clients of its own.

Clients in Python cost many times what a router does, so messages per second say more about them than about the
router. Its CPU time per message is the figure to go by; `make bench` of the source has faster clients.
"""

import multiprocessing
import time
from enum import StrEnum
from multiprocessing.connection import Connection, wait
from typing import Any, Final

import click
import msgspec
from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

from routerd.cli.client import Client, ClientError, Place
from routerd.cli.connection_options import security, words
from routerd.cli.printed import print_json
from shm.contract.numbers import counted

SAMPLE: Final = 16  # one message of so many carries the time of its sending
ATTACH_S: Final = 30.0  # for each stage before a client has its link
LAST_S: Final = 1.0  # for messages on their way when the senders stop


class Stage(StrEnum):
    """What a client does; the next one begins when it says so."""

    STARTING = "starting"
    CONNECTING = "connecting"
    ATTACHING = "attaching"
    MEASURING = "sending or receiving"


ADVICE: Final = {
    Stage.STARTING: "this machine is slow or busy; give fewer --senders and --receivers",
    Stage.CONNECTING: "the router answered another connection before; see its log, and give fewer clients",
    Stage.ATTACHING: "the router has not answered; see its log, and whether it is busy with `routerd stat --workers`",
    Stage.MEASURING: "its connection hangs or this machine is busy; see the router's log, and try fewer clients",
}


class Load(msgspec.Struct, frozen=True):
    """How many clients send messages of how many octets, and for how many seconds."""

    address: str
    senders: int = 1
    receivers: int = 1
    size: int = 100
    seconds: float = 5.0


class Result(msgspec.Struct):
    """What a client counted: messages, and the seconds on their way of some of those that it received."""

    messages: int = 0
    latencies: list[float] = []
    trouble: str = ""


class _Client(MessagingHandler):
    """One link, until its time is over; it tells the parent each stage, and its result at the end."""

    def __init__(self, place: Place, load: Load, parent: Connection, seconds: float) -> None:
        super().__init__(prefetch=500)
        self._place, self.load, self._parent, self._seconds = place, load, parent, seconds
        self.result = Result()
        self.over = False

    def link(self, container: Container, connection: Any) -> None:
        """Attach the link."""
        raise NotImplementedError

    def on_start(self, event: Any) -> None:
        self._parent.send(Stage.CONNECTING)
        self._connection = event.container.connect(self._place.url, reconnect=False, **security(self._place))
        self.link(event.container, self._connection)

    def on_connection_opened(self, event: Any) -> None:
        self._parent.send(Stage.ATTACHING)

    def on_link_opened(self, event: Any) -> None:
        self._parent.send(Stage.MEASURING)
        event.container.schedule(self._seconds, self)

    def on_timer_task(self, event: Any) -> None:
        self.over = True
        self._connection.close()

    def on_transport_error(self, event: Any) -> None:
        self.result.trouble = words(event.transport.condition)

    def on_link_error(self, event: Any) -> None:
        self.result.trouble = words(event.link.remote_condition)
        event.connection.close()


class _Sender(_Client):
    def link(self, container: Container, connection: Any) -> None:
        container.create_sender(connection, self.load.address)

    def on_sendable(self, event: Any) -> None:
        while event.sender.credit and not self.over:
            sent = time.monotonic_ns() if self.result.messages % SAMPLE == 0 else 0
            event.sender.send(Message(id=sent, body=b"x" * self.load.size))
            self.result.messages += 1


class _Receiver(_Client):
    def link(self, container: Container, connection: Any) -> None:
        container.create_receiver(connection, self.load.address)

    def on_message(self, event: Any) -> None:
        self.result.messages += 1
        sent = event.message.id
        if isinstance(sent, int) and sent:  # others may send to the address, too
            self.result.latencies.append((time.monotonic_ns() - sent) / 1e9)


def _main(kind: type[_Client], place: Place, load: Load, parent: Connection, seconds: float) -> None:
    """Run a client in a process of its own."""
    client = kind(place, load, parent, seconds)
    Container(client).run()
    parent.send(client.result)


def run(place: Place, load: Load, as_json: bool) -> None:
    """Run the clients and print what they, and the router's processes, did meanwhile. Raises ClientError."""
    spawn = multiprocessing.get_context("spawn")
    clients: list[tuple[Any, Connection]] = []
    kinds = [(_Receiver, load.seconds + LAST_S)] * load.receivers + [(_Sender, load.seconds)] * load.senders
    with Client(place) as agent:
        try:
            before = _cpu(agent)
            for kind, seconds in kinds:
                here, there = spawn.Pipe()
                process = spawn.Process(target=_main, args=(kind, place, load, there, seconds), daemon=True)
                process.start()
                there.close()
                clients.append((process, here))
            for _, pipe in clients:
                attached(pipe, load.address)
            results = [_next(pipe, Stage.MEASURING, load.seconds + ATTACH_S) for _, pipe in clients]
            after = _cpu(agent)
        finally:
            for process, _ in clients:
                process.kill()
    received = sum(result.messages for result in results[: load.receivers])
    if not received:
        raise ClientError(f"no message has arrived at {load.address}: {'; '.join(one.trouble for one in results)}")
    latencies = sorted(one for result in results for one in result.latencies) or [float("nan")]
    found = {
        "messages": received,
        "messagesPerSecond": round(received / load.seconds),
        "medianMilliseconds": 1000 * latencies[len(latencies) // 2],
        "p99Milliseconds": 1000 * latencies[len(latencies) * 99 // 100],
        "cpuMicroseconds": {name: 1e6 * (after[name] - before.get(name, 0.0)) / received for name in after},
    }
    if as_json:
        print_json(found)
        return
    taken = f"{counted(received, 'message')} of {counted(load.size, 'octet')}"
    click.echo(f"{taken}, {found['messagesPerSecond']} a second with these clients")
    click.echo(f"on their way: median {found['medianMilliseconds']:.2f} ms, p99 {found['p99Milliseconds']:.2f} ms")
    for name, cost in found["cpuMicroseconds"].items():
        click.echo(f"CPU time of {name}: {cost:.2f} µs per message")


def attached(pipe: Connection, address: str, seconds: float = ATTACH_S) -> None:
    """Return when a client has its link. Raises ClientError, also if a stage takes more than `seconds`."""
    stage = Stage.STARTING
    while stage is not Stage.MEASURING:
        said = _next(pipe, stage, seconds)
        if isinstance(said, Result):
            raise ClientError(f"a client cannot attach to {address}: {said.trouble}")
        stage = said


def _next(pipe: Connection, stage: Stage, seconds: float) -> Any:
    """Return what a client in a stage says next. Raises ClientError."""
    try:
        if wait([pipe], seconds):
            return pipe.recv()
    except EOFError:
        raise ClientError("a client ended too early; its error stands above") from None
    raise ClientError(f"a client is still {stage} after {seconds:g} s; {ADVICE[stage]}")


def _cpu(agent: Client) -> dict[str, float]:
    """Return the CPU seconds of the router's processes that messages pass, by name."""
    rows = agent.query("worker", ["name", "cpuSeconds"])
    return {row["name"]: row["cpuSeconds"] for row in rows if row["name"].startswith(("core", "worker"))}

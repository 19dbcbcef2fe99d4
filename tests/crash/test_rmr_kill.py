"""kill -9 of workers and core while messages flow to RMR endpoints: what was accepted has been received."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest
from proton import Delivery, Message

from routerd.cli.client import Client, Place
from tests.support.clients.rmr import Application, Link
from tests.support.clients.rmr_frames import CALL, Frame
from tests.support.peer import ACCEPTED, Net
from tests.support.routers.hurt import HurtRouter
from tests.support.routers.rmr_stage import changed
from tests.support.running import LONG, Configuration, address_of, until

KILLS = 4
WORKERS = 2
PATIENCE = 1.0  # seconds that an application waits for an answer


class Ledger:
    """An AMQP sender that comes back whenever it is thrown out, and knows what was accepted."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.accepted: set[int] = set()
        self.number = 0
        self.pending: dict[int, Delivery] = {}
        self.stopped = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while not self.stopped:
            with suppress(AssertionError, OSError), Net(self.address) as net:
                self.send(net)
            time.sleep(0.05)

    def send(self, net: Net) -> None:
        """Until the connection is lost."""
        self.pending.clear()
        peer = net.begin_peer()  # its worker may be gone before it answers: nothing is waited for here
        peer.connection.open()
        sender = peer.begin_sender("rt", peer.session())
        while not peer.closed and not list(net.errors()):
            while sender.credit > 0 and not self.stopped:
                self.number += 1
                message = Message(
                    body=b"%d" % self.number, inferred=True, properties={"rmr.mt": 1000, "rmr.sub-id": -1}
                )
                self.pending[self.number] = net.send(sender, message)
            net.turn(0.01)
            for number in [one for one, delivery in self.pending.items() if delivery.settled]:
                if self.pending.pop(number).remote_state == ACCEPTED:
                    self.accepted.add(number)
            if self.stopped and not self.pending:
                return

    def stop(self) -> None:
        self.stopped = True
        self.thread.join(LONG)
        assert not self.thread.is_alive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped = True


class Caller:
    """An RMR application that makes blocking calls, each until it is answered; thrown out, it comes back."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.answered: set[int] = set()
        self.lives = 0
        self.name = ""  # its end of the connection
        self.wrong: list[Frame] = []
        self.stopped = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while not self.stopped:
            with suppress(OSError):
                link = Link.to("{}:{}".format(*self.address))
                self.lives += 1
                self.name = link.name
                try:
                    while not self.stopped:
                        self.call(link, -1 - len(self.answered))
                finally:
                    link.close()
            time.sleep(0.01)

    def call(self, link: Link, number: int) -> None:
        """Ask, and again when no answer comes; the connection's end is an OSError."""
        transaction = b"%032d" % -number
        link.send(Frame(1000, b"%d" % number, transaction=transaction, d1=b"\2\0\0\0", flags=CALL, source="x:1"))
        link.socket.settimeout(PATIENCE)
        with suppress(socket.timeout):
            while number not in self.answered:
                if not (data := link.socket.recv(1 << 16)):
                    raise ConnectionError
                for frame in link.reader.feed(data):
                    answered = -int(frame.transaction)
                    if frame.payload != b"%d" % answered or answered < number:
                        self.wrong.append(frame)
                    self.answered.add(answered)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped = True
        self.thread.join(LONG)


@pytest.fixture
def endpoints() -> Iterator[list[Application]]:
    with Application() as one, Application() as other:
        yield [one, other]


@pytest.fixture
def router(tmp_path: Path, endpoints: list[Application]) -> Iterator[HurtRouter]:
    seed = tmp_path / "seed"
    names = ",".join(one.name for one in endpoints)
    seed.write_text(f"newrt|start\nrte|1000|{names}\nnewrt|end|1\n")
    router = HurtRouter(
        tmp_path,
        Configuration(
            router=f"workers: {WORKERS}",
            sections=f"routeTable {{\n name: rt\n seed: {seed}\n reply: sameConnection\n}}\n"
            "listener {\n host: 127.0.0.1\n port: 0\n protocol: rmr\n table: rt\n}\n",
        ),
    )
    try:
        yield router
    finally:
        router.kill()


class Collector:
    """Reads what endpoints get, all the time, and answers calls."""

    def __init__(self, endpoints: list[Application]) -> None:
        self.endpoints = endpoints
        self.numbers: list[int] = []
        self.stopped = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while not self.stopped:
            for one in self.endpoints:
                for link in list(one.links):
                    with suppress(OSError):
                        link.read(0.001)
                        for frame in link.inbox:
                            self.numbers.append(int(frame.payload))
                            if frame.flags & CALL:
                                link.send(changed(frame, message_type=1001, source=one.name, flags=0))
                    link.inbox.clear()
                one.accept()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nobody else closes sockets while they are read."""
        self.stopped = True
        self.thread.join(LONG)


def worker_of(router: HurtRouter, name: str) -> str:
    """Whose connection that is, by its other end."""
    found: list[int] = []

    def look() -> list[int]:
        with suppress(OSError), Client(Place(router.url)) as client:
            rows = client.query("connection", ["host", "worker"])
            found.extend(int(row["worker"]) for row in rows if row["host"] == name)
        return found

    until(look, f"the connection of {name}")
    return f"worker {found[0]}"


def test_workers_are_killed_under_load(router: HurtRouter, endpoints: list[Application]) -> None:
    """An AMQP sender is told accepted only of what an endpoint has got. An RMR application that is connected
    to who dies connects again and goes on; one that is connected to another worker does not notice."""
    listener = address_of(router.urls[1])
    with Collector(endpoints) as collector, Ledger(router.address) as ledger, Caller(listener) as caller:
        until(lambda: len(ledger.accepted) > 100, "the first ones")
        for kill in range(KILLS):
            until(lambda: all(f"worker {i}" in router.children for i in range(WORKERS)), "who died is back")
            until(lambda: router.all_serve, "both serve")
            lives, host = caller.lives, worker_of(router, caller.name)
            theirs = kill % 2 == 0
            router.hit(host if theirs else f"worker {1 - int(host[-1])}")
            until(lambda lives=lives + theirs: caller.lives == lives, "another connection")
            accepted, answered = len(ledger.accepted), len(caller.answered)
            until(lambda before=accepted: len(ledger.accepted) > before + 100, "more")
            until(lambda before=answered: len(caller.answered) > before + 20, "more answers")
            assert caller.lives == lives + theirs
            assert caller.lives == lives + theirs
        ledger.stop()
        until(lambda: ledger.accepted <= set(collector.numbers), "all that was accepted")
    assert caller.answered <= set(collector.numbers)
    assert not caller.wrong
    for one in endpoints:
        one.close()
    until(lambda: router.all_serve, "all workers back")
    router.come_to_rest()


def test_the_core_is_killed_under_load(router: HurtRouter, endpoints: list[Application]) -> None:
    """Applications stay connected, and what they send while nobody routes is routed by the next core."""
    with Collector(endpoints) as collector, Ledger(router.address) as ledger:
        until(lambda: len(ledger.accepted) > 100, "the first ones")
        application = Link.to("{}:{}".format(*address_of(router.urls[1])))
        application.send(Frame(1000, b"0"))
        until(lambda: 0 in collector.numbers, "a frame")
        sent: set[int] = set()
        for _ in range(3):
            before, core = len(ledger.accepted), router.children["core"]
            router.hit("core")
            # all workers know by then: what is sent to one that does not goes to the dead core
            until(lambda core=core: router.children.get("core", core) != core, "the next core")
            end = time.monotonic() + LONG
            while len(ledger.accepted) <= before + 100:
                assert time.monotonic() < end, "more"
                sent.add(-len(sent) - 1)
                application.send(Frame(1000, b"%d" % -len(sent)))
                time.sleep(0.01)
            until(lambda: sent <= set(collector.numbers), "all frames of who stayed")
        ledger.stop()
        until(lambda: ledger.accepted <= set(collector.numbers), "all that was accepted")
    application.close()
    for one in endpoints:
        one.close()
    router.come_to_rest()

"""kill -9 of workers and core while messages flow to RMR endpoints: what was accepted has been received."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest
from hurt import HurtRouter
from peer import ACCEPTED, Net
from proton import Delivery, Message
from rmr import Application, Link
from running import LONG, Configuration, address_of, until

from core.routes.frames import Frame

KILLS = 6
WORKERS = 2


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
            sections=f"routeTable {{\n name: rt\n seed: {seed}\n}}\n"
            "listener {\n host: 127.0.0.1\n port: 0\n protocol: rmr\n table: rt\n}\n",
        ),
    )
    try:
        yield router
    finally:
        router.kill()


class Collector:
    """Reads what endpoints get, all the time."""

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
                    self.numbers += [int(frame.payload) for frame in link.inbox]
                    link.inbox.clear()
                one.accept()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nobody else closes sockets while they are read."""
        self.stopped = True
        self.thread.join(LONG)


def test_workers_are_killed_under_load(router: HurtRouter, endpoints: list[Application]) -> None:
    """An AMQP sender is told accepted only of what an endpoint has got."""
    with Collector(endpoints) as collector, Ledger(router.address) as ledger:
        until(lambda: len(ledger.accepted) > 100, "the first ones")
        for kill in range(KILLS):
            before = len(ledger.accepted)
            victim = f"worker {kill % WORKERS}"
            until(lambda victim=victim: victim in router.children, "the one before is back")
            router.hit(victim)
            until(lambda before=before: len(ledger.accepted) > before + 100, "more")
        ledger.stop()
        until(lambda: ledger.accepted <= set(collector.numbers), "all that was accepted")
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

"""Blocks run low: reading pauses, nothing is lost, and what does not cause it hardly notices."""

from pathlib import Path

import pytest
from proton import Delivery, Message, Sender

from tests.support.peer import ACCEPTED, Net, Peer
from tests.support.running import Configuration, RunningRouter, roles, until

ARENA_MIB = 4
MIB = 1024 * 1024


@pytest.fixture(scope="module", params=[1, 2], ids=["1 worker", "2 workers"])
def configuration(request: pytest.FixtureRequest) -> Configuration:
    """As little memory for messages as can be configured."""
    return Configuration(router=f"workers: {request.param}\n arenaSize: {ARENA_MIB}")


class Flow:
    """A sender with much to send, and its receiver, which may be slow."""

    def __init__(self, net: Net, address: str, size: int, to: Peer | None = None, at: Peer | None = None) -> None:
        self.net, self.body = net, bytes(size)
        self.to, self.at = to or net.peer(), at or net.peer()
        self.receiver = self.at.receiver(address)
        self.sender: Sender = self.to.sender(address)
        self.sent: list[Delivery] = []
        self.got: list[int] = []

    def offer(self, total: int) -> None:
        """Send as far as there is credit, and the socket takes it."""
        while len(self.sent) < total and self.sender.credit > 0 and self.to.transport.pending() < MIB // 4:
            message = Message(id=len(self.sent), body=self.body)
            self.sent.append(self.net.send(self.sender, message))

    def accept(self) -> None:
        """Accept what has come, and ask for as much more."""
        inbox = self.at.inbox(self.receiver)
        while inbox and inbox[0].complete:
            arrived = inbox.pop(0)
            assert arrived.data[-len(self.body) :] == self.body
            self.got.append(arrived.message.id)
            arrived.settle()
            self.receiver.flow(1)

    def fill(self) -> None:
        """Offer until nothing more is taken for a while."""
        quiet, before = 0, -1
        while quiet < 20:
            self.offer(10_000)
            self.net.turn(0.01)
            now = len(self.sent) - self.to.transport.pending()
            quiet, before = (quiet + 1 if now == before else 0), now

    def finish(self) -> None:
        """Everything sent arrives, once, in order, and is accepted."""
        if not self.receiver.credit:
            self.receiver.flow(50)

        def done() -> bool:
            self.accept()
            return len(self.got) == len(self.sent)

        self.net.until(done, "the rest of the messages")
        assert self.got == list(range(len(self.sent)))
        assert set(self.net.settled(*self.sent)) == {ACCEPTED}


def test_free_blocks_are_told_from_the_start(tmp_path: Path) -> None:
    """Nobody is alarmed by a router that has just begun."""
    router = RunningRouter(tmp_path, Configuration(router=f"workers: 2\n arenaSize: {ARENA_MIB}"))
    try:
        assert all(worker["small_free"] and worker["large_free"] for worker in router.workers)
    finally:
        router.kill()


@pytest.mark.parametrize("size", [300, 15_000, 40_000, 200_000])
def test_nothing_is_lost(router: RunningRouter, net: Net, size: int) -> None:
    """Senders of more than fits, a receiver that takes nothing until they are stuck."""
    flows = [Flow(net, f"pressure.{size}.{i}", size) for i in range(3)]
    for flow in flows:
        flow.receiver.flow(1)
        flow.fill()
    for flow in flows:
        flow.finish()


def test_sender_and_receiver_on_one_connection(router: RunningRouter, net: Net) -> None:
    """Its dispositions are read though its messages find no block: no deadlock."""
    both = net.peer()
    flow = Flow(net, "pressure.both", 15_000, both)
    flow.receiver.flow(5)
    net.until(lambda: flow.offer(10_000) or len(flow.sent) > 100, "more than it has credit for")
    flow.fill()
    flow.finish()


def test_reading_pauses_and_goes_on(router: RunningRouter, net: Net) -> None:
    """When many are slow at once there are no blocks for all: that is counted, and passes by itself."""
    pauses = router.counted("pauses")
    flows = [Flow(net, f"pressure.many.{i}", 16_000) for i in range(40)]
    for flow in flows:
        flow.receiver.flow(1)

    def paused() -> bool:
        for flow in flows:
            flow.offer(30)
        return router.counted("pauses") > pauses

    net.until(paused, "pause")
    for flow in flows:
        flow.finish()
    until(lambda: router.counted("paused") == 0, "end of the pause")


@pytest.mark.parametrize("size", [300, 15_000, 200_000])
def test_a_slow_receiver_does_not_slow_the_others(router: RunningRouter, net: Net, size: int) -> None:
    """Its senders come to a halt, and everybody else goes on, connected before or afterwards."""
    before = Flow(net, f"pressure.fast.{size}", 15_000)
    before.receiver.flow(50)
    slow = [Flow(net, f"pressure.slow.{size}.{i}", size) for i in range(3)]
    for flow in slow:
        flow.receiver.flow(1)
        flow.fill()
    after = Flow(net, f"pressure.new.{size}", 15_000)
    after.receiver.flow(50)
    for fast in (before, after):
        while len(fast.sent) < 200:
            fast.offer(200)
            net.turn(0.01)
            fast.accept()
        fast.finish()
    for flow in slow:
        flow.finish()


def test_memory_stays_flat(router: RunningRouter, net: Net) -> None:
    """After the arenas have been used once, more of the same needs no more memory."""
    workers = [p for role, p in roles(router.process.pid).items() if role.startswith("worker")]

    def burden() -> int:
        for i in range(3):
            flow = Flow(net, f"pressure.flat.{i}", 15_000)
            flow.receiver.flow(1)
            flow.fill()
            flow.finish()
            flow.to.drop()
            flow.at.drop()
        return sum(p.memory_full_info().uss for p in workers)

    burden()
    first = burden()
    assert max(burden() for _ in range(2)) < first + 4 * MIB

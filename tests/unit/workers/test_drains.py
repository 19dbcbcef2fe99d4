"""Receivers that drain: the answer comes when nothing else does, whatever has waited (AMQP 1.0 part 2.6.7)."""

from collections.abc import Iterator

import pytest
from proton import Described, uint, ulong

from bench import contract as n
from shm.contract.payloads import Attach, Attached
from tests.support.beds.door import Client, Door
from tests.support.clients.wire import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    FLOW,
    OPEN,
    SOURCE,
    TARGET,
    TRANSFER,
    begin,
    described,
    frame,
)

VALUE = b"\0\x53\x77\xa1\x01x"  # a message


class Receiver:
    """A client whose window is shut; the test is its core."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.client = client = Client(door, door.dial())
        ends = Described(ulong(SOURCE), ["a"]), Described(ulong(TARGET), [])
        attach = frame(0, described(ATTACH, "r", uint(0), True, None, None, *ends))
        client.write(AMQP_HEADER + frame(0, described(OPEN, "peer")) + begin(0, 0) + attach)
        client.take(8)
        (asked,) = door.hear(Attach)
        self.link = {"link": asked.link, "link_gen": asked.generation}
        door.tell(n.C_ATTACHED, Attached(asked.link, asked.generation))
        client.frames(OPEN, BEGIN, ATTACH)

    def flow(self, got: int, window: int, *, drain: bool) -> None:
        """After so many deliveries, open the window so wide; give credit for one more to drain it."""
        link = (uint(0), uint(got), uint(1), None, True) if drain else ()
        self.client.write(frame(0, described(FLOW, uint(got), uint(window), uint(0), uint(9), *link)))

    def hear(self, **record: int) -> None:
        """Let the core say something."""
        self.door.work.push(n.pack(**record, **self.link))
        for _ in range(3):
            self.client.step()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    door = Door("drains", None)
    receiver = Receiver(door)
    yield receiver
    receiver.client.socket.close()
    door.end()


def test_a_drain_is_answered_when_the_delivery_that_had_its_credit_is_aborted(receiver: Receiver) -> None:
    """It has begun, but waits for the window; the core has answered that no other follows."""
    writer = receiver.door.own.begin(True)
    assert writer.write(VALUE)
    writer.publish(n.CONTENT_RECEIVING)
    receiver.hear(type=n.W_SEND, arena=1, block=writer.head, peer=9)
    receiver.flow(0, 0, drain=True)
    receiver.hear(type=n.W_DRAINED)
    assert not receiver.client.got
    writer.publish(n.CONTENT_ABORTED)
    receiver.hear(type=n.W_CONTINUE, peer=9, flags=n.F_ABORTED)
    (flow,) = receiver.client.frames(FLOW)
    assert (flow[5], flow[6], flow[8]) == (1, 0, True)


def test_a_drain_whose_credit_is_used_up_needs_no_answer(receiver: Receiver) -> None:
    """The next one has its own, from the core."""
    for got in range(2):
        head = receiver.door.own.write(VALUE)
        receiver.hear(type=n.W_SEND, arena=1, block=head, peer=9 + got, flags=n.F_COMPLETE | n.F_SETTLED)
        receiver.flow(got, 0, drain=True)
        receiver.hear(type=n.W_DRAINED)
        receiver.flow(got, 1, drain=False)
        receiver.client.frames(TRANSFER)
    receiver.flow(2, 0, drain=True)
    receiver.hear(type=n.W_DRAINED)
    receiver.client.frames(FLOW)

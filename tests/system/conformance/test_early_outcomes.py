"""Outcomes that a receiver says, and does not settle, before it has all of a message (AMQP 1.0 part 2.6.12 and 2.6.14).

The router keeps such an outcome until it has written all of the message: whoever knows one may let go of the octets.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.beds.conformance import Connect
from tests.support.clients.frame_client import FrameClient, disposition, flow, message, transfer
from tests.support.clients.octets import ACCEPTED, CLOSE, DISPOSITION, REJECTED, said, state

PLENTY = 100
PIECE = 15_000
PIECES = 20
LONG = message("l" * PIECE * PIECES)
OTHER = message("o" * PIECE)
SHUT = {"in_window": 4}  # transfers that the receiver takes at first, each of 512 octets


class Halfway:
    """A receiver that has the beginning of a message, and has said its outcome; its sender has said all, or half.

    ``settled``: the sender had settled it before.
    """

    def __init__(
        self, connect: Connect, name: str, *, all_said: bool, outcome: int = ACCEPTED, settled: bool = False
    ) -> None:
        self.at, self.to = connect(0, max_frame=4096), connect()
        begun = self.at.begin(**SHUT)
        self.next_in = begun["next_out"]
        self.at.receiver(name, credit=0)
        self.open(4)
        self.to.sender(name)
        pieces = [LONG[at : at + PIECE] for at in range(0, len(LONG), PIECE)]
        last = len(pieces) - 1 if all_said else PIECES // 2
        for number, piece in enumerate(pieces[: last + 1]):
            self.to.write(transfer(None if number else 0, piece, more=number < len(pieces) - 1))
        self.begun = self.at.frames(4)
        if settled:
            self.to.write(disposition(0, receiver=False, state=state(ACCEPTED)))
            self.to.round_trip()
        self.at.write(disposition(0, settled=False, state=state(outcome)))
        self.at.round_trip()

    def open(self, window: int) -> None:
        self.at.write(flow(handle=0, count=0, credit=PLENTY, next_in=self.next_in, in_window=window))

    def heard(self) -> list[Any]:
        """What the sender has been told of its message by now."""
        return [got for got in self.to.round_trip() if got.code == DISPOSITION]

    def rest(self) -> bytes:
        """Take what has not come yet; all of the message."""
        frames = self.begun
        self.next_in = (self.next_in + 4) % 2**32
        self.open(2**31 - 1)
        while frames[-1]["more"]:
            frames += self.at.frames(1)
        assert not frames[-1]["aborted"]
        return b"".join(one.payload for one in frames)


@pytest.mark.parametrize("outcome", [ACCEPTED, REJECTED])
def test_an_early_outcome_is_told_when_all_is_written(connect: Connect, name: str, outcome: int) -> None:
    half = Halfway(connect, name, all_said=True, outcome=outcome)
    assert half.heard() == []
    assert half.rest() == LONG
    (told,) = [half.to.expect(DISPOSITION, 0)]
    assert (told["first"], bool(told["settled"]), told["state"].descriptor) == (0, False, outcome)
    half.to.write(disposition(0, receiver=False, state=state(outcome)))
    assert half.at.expect(DISPOSITION, 0)["settled"]


ENDS: dict[str, Callable[[FrameClient], None]] = {
    "settles": lambda to: to.write(disposition(0, receiver=False, state=state(ACCEPTED))),
    "closes": lambda to: to.write(said(CLOSE)),
    "goes": lambda to: to.socket.close(),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_rest_of_a_message_is_its_own(connect: Connect, name: str, end: Callable[[FrameClient], None]) -> None:
    """Whatever its sender does, and whoever needs blocks meanwhile."""
    half = Halfway(connect, name, all_said=True)
    other, slow = connect(), connect(0)
    end(half.to)
    slow.begin(in_window=1)
    slow.receiver(f"{name}.other", credit=0)
    slow.write(flow(handle=0, count=0, credit=PLENTY, in_window=1))
    other.sender(f"{name}.other")
    other.write(*(transfer(number, OTHER) for number in range(60)))
    other.round_trip()
    assert half.rest() == LONG


def test_a_message_that_is_aborted_behind_its_outcome(connect: Connect, name: str) -> None:
    """Its receiver gets the abort, and the next message."""
    half = Halfway(connect, name, all_said=False)
    half.to.write(transfer(None, b"", aborted=True), transfer(1, OTHER))
    half.next_in = (half.next_in + 4) % 2**32
    half.open(2**31 - 1)
    frames = half.at.frames(1)
    while not frames[-1]["aborted"]:
        frames += half.at.frames(1)
    assert half.at.take(1)[0].payload == OTHER


def test_an_outcome_behind_the_senders_settlement(connect: Connect, name: str) -> None:
    """It concerns nobody; the rest comes settled, and the next message follows."""
    half = Halfway(connect, name, all_said=True, settled=True)
    assert half.rest() == LONG
    half.to.write(transfer(1, OTHER))
    assert half.at.take(1)[0].payload == OTHER

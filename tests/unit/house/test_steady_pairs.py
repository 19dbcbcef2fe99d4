"""What the bystanders of hostile tests call a fault: nothing that a router may do, and each thing that it must not."""

from collections.abc import Callable

import pytest

from tests.support.clients.octets import ACCEPTED, DISPOSITION, RELEASED, TRANSFER, Frame, parse, said, state
from tests.support.programs.steady_pairs import Pair, Pairs


@pytest.fixture
def pair() -> Pair:
    """A pair whose first message is on its way; nobody listens to what it says."""
    pair = Pairs(("127.0.0.1", 1), "p", 1, []).pairs[0]
    pair.connected = pair.sender.ready = pair.receiver.ready = True
    pair.step(pair.due)
    return pair


def arrives(pair: Pair, body: bytes) -> None:
    """A message comes to the receiver, with the header of the router before it."""
    pair.arrived(parse(said(TRANSFER, 0, b"\0\x53\x70\x45\0\x53\x75\xb0" + body, handle=0, id=0, more=False)))


def outcome(code: int) -> Frame:
    return parse(said(DISPOSITION, receiver=True, first=0, settled=True, state=state(code)))


def loses_and_sends_again(pair: Pair) -> None:
    """The connections are lost before the outcome is known; the next message follows on new ones."""
    pair.lost(EOFError("gone"))
    pair.connected = pair.sender.ready = pair.receiver.ready = True
    pair.step(pair.due)


def test_a_message_that_arrives_once_and_is_accepted_is_no_fault(pair: Pair) -> None:
    arrives(pair, pair.body(1))
    pair.decided(outcome(ACCEPTED))
    assert not pair.pairs.faults
    assert not pair.pairs.unlucky


def test_a_message_whose_outcome_was_lost_may_arrive_late(pair: Pair) -> None:
    """The router still had it when a receiver came again: nobody had been told what became of it."""
    loses_and_sends_again(pair)
    arrives(pair, pair.body(1))
    arrives(pair, pair.body(2))
    pair.decided(outcome(ACCEPTED))
    assert not pair.pairs.faults


def twice_late(pair: Pair) -> None:
    loses_and_sends_again(pair)
    arrives(pair, pair.body(1))
    arrives(pair, pair.body(1))


def twice(pair: Pair) -> None:
    arrives(pair, pair.body(1))
    arrives(pair, pair.body(1))


def after_its_outcome(pair: Pair) -> None:
    arrives(pair, pair.body(1))
    pair.decided(outcome(ACCEPTED))
    pair.step(pair.due)
    arrives(pair, pair.body(1))


def damaged(pair: Pair) -> None:
    arrives(pair, pair.body(1)[:-1])


def late_and_damaged(pair: Pair) -> None:
    loses_and_sends_again(pair)
    arrives(pair, pair.body(1)[:-1])


def accepted_for_nobody(pair: Pair) -> None:
    pair.decided(outcome(ACCEPTED))


@pytest.mark.parametrize(
    "fault", [twice_late, twice, after_its_outcome, damaged, late_and_damaged, accepted_for_nobody]
)
def test_what_must_not_be_is_a_fault(pair: Pair, fault: Callable[[Pair], None]) -> None:
    fault(pair)
    assert pair.pairs.faults


def test_a_message_that_nobody_took_is_bad_luck(pair: Pair) -> None:
    pair.decided(outcome(RELEASED))
    assert not pair.pairs.faults
    assert pair.pairs.unlucky

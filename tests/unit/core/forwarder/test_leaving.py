"""A link that goes in portions: nothing is sent to it any more, and what it has to do with stays until the last one."""

import pytest

from bench import contract as n
from core.forwarder.link_terms import LinkTerms
from routerd.replay.run import Replay
from tests.support.beds import recorded
from tests.support.beds.forwarding import RECEIVER, SENDER, Bed

COPIES = 3000  # more than one portion


@pytest.fixture
def bed() -> Bed:
    """A receiver of thousands of deliveries of which the first portion is over."""
    bed = Bed()
    block = bed.arena.write(b"x")  # of all of them: nobody reads it
    assert block is not None
    for number in range(COPIES):
        fields = {"link_gen": 1, "block": block, "peer": number + 1, "length": 1, "time": 1}
        bed.act(SENDER, type=n.A_DELIVER, flags=n.F_COMPLETE, link=0, **fields)
        bed.heard(RECEIVER, 0)
    assert bed.forwarder.thin_link(RECEIVER, 0, 1)
    assert 0 < bed.forwarder.counts()["outgoing"] < COPIES
    return bed


def test_its_address_stays(bed: Bed) -> None:
    """Until the link is removed, though its senders are gone."""
    bed.forwarder.remove_link(SENDER, 0, 1)
    assert not bed.forwarder.remove_address(bed.address)
    bed.forwarder.remove_link(RECEIVER, 0, 1)
    assert bed.forwarder.counts()["outgoing"] == 0
    assert bed.forwarder.remove_address(bed.address)


def test_it_is_not_moved(bed: Bed) -> None:
    """It would be among the receivers of an address after its end."""
    other = bed.forwarder.add_address(0)
    assert not bed.forwarder.move_link(RECEIVER, 0, 1, other)
    bed.forwarder.remove_link(RECEIVER, 0, 1)
    assert bed.forwarder.remove_address(other)


def test_messages_go_to_others(bed: Bed) -> None:
    bed.forwarder.add_link(RECEIVER, 1, 1, LinkTerms(True, bed.address, 10))
    bed.deliver()
    assert [r["link"] for r in bed.heard(RECEIVER, n.W_SEND)] == [1]


def test_a_replay_ends_the_same_portions() -> None:
    bed = recorded.Bed(1 << 15)
    for peer in range(1, COPIES + 1):
        bed.act(0, type=n.A_DELIVER, flags=n.F_COMPLETE, link=0, link_gen=1, block=1, peer=peer, length=1)
        bed.heard(1)
    assert bed.forwarder.thin_link(1, 0, 1)
    bed.forwarder.remove_link(0, 0, 1)
    bed.act(1, type=n.A_UPDATE, flags=n.F_SETTLED, delivery=1)  # of none: the work of the portion is published
    recording = bed.recording()
    assert recording.about.whole
    assert Replay(recording).run() is None

"""Links and connections that go away with deliveries under way: every sender gets a true answer."""

import pytest
from proton import Delivery, Message, Receiver, Sender

from tests.support.clients.wire import Wire
from tests.support.peer import ACCEPTED, CHUNK, MODIFIED, RELEASED, Net, Peer
from tests.support.running import RunningRouter, until


class Pair:
    """A sender and a receiver on one address, on connections of their own."""

    def __init__(self, net: Net, address: str, credit: int = 0) -> None:
        self.net = net
        self.to: Peer = net.peer()
        self.at: Peer = net.peer()
        self.receiver: Receiver = self.at.receiver(address, credit)
        self.sender: Sender = self.to.ready_sender(address)

    def send(self, number: int) -> list[Delivery]:
        """Messages that the router has."""
        sent = [self.net.send(self.sender, Message(body=i)) for i in range(number)]
        self.net.round_trips(self.to, self.at)
        return sent


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An address of the test's own."""
    return f"loss.{request.node.name}"


HALF = Message(body="x" * 100_000).encode()


def lose_link(pair: Pair) -> None:
    pair.receiver.close()


def lose_session(pair: Pair) -> None:
    assert pair.at.default_session is not None
    pair.at.default_session.close()


def lose_connection(pair: Pair) -> None:
    pair.at.drop()


def close_connection(pair: Pair) -> None:
    pair.at.connection.close()


LOSSES = pytest.mark.parametrize("lose", [lose_link, lose_session, lose_connection, close_connection])


@LOSSES
def test_a_lost_receiver_gives_back_what_it_had(net: Net, name: str, lose: object) -> None:
    """Released if it was never sent, modified(delivery-failed) if it was: it may have been seen."""
    pair = Pair(net, name, credit=2)
    sent = pair.send(5)
    pair.at.take(pair.receiver, 2)
    assert callable(lose)
    lose(pair)
    assert net.settled(*sent) == [MODIFIED, MODIFIED, RELEASED, RELEASED, RELEASED]
    assert all(delivery.remote.failed for delivery in sent[:2])
    assert not any(delivery.remote.undeliverable for delivery in sent[:2])


@LOSSES
def test_what_a_lost_receiver_had_settled_stays_settled(net: Net, name: str, lose: object) -> None:
    """Only what was open is affected."""
    pair = Pair(net, name, credit=2)
    sent = pair.send(2)
    first = pair.at.take(pair.receiver, 2)[0]
    first.settle()
    assert net.settled(sent[0]) == [ACCEPTED]
    assert callable(lose)
    lose(pair)
    assert net.settled(*sent) == [ACCEPTED, MODIFIED]


def stream_until(net: Net, sender: Sender, sent: Delivery, state: int) -> None:
    """Go on with a message until its sender hears what became of it."""

    def told() -> bool:
        if sender.session.outgoing_bytes < CHUNK:
            sender.stream(HALF)
        return sent.remote_state == state

    net.until(told, "the outcome of a message that is still being sent")


def test_a_message_lost_half_way_to_its_receiver_is_modified(net: Net, name: str) -> None:
    """It was begun."""
    pair = Pair(net, name, credit=1)
    sent = net.begin(pair.sender, HALF)
    net.until(lambda: pair.at.inbox(pair.receiver), "first bytes")
    pair.at.drop()
    stream_until(net, pair.sender, sent, MODIFIED)
    assert sent.remote.failed
    pair.sender.advance()
    assert net.settled(sent) == [MODIFIED]


def test_the_next_receiver_gets_what_the_first_gave_back(net: Net, name: str) -> None:
    """A sender that sends again reaches whoever is there."""
    pair = Pair(net, name, credit=1)
    other = pair.to.receiver(name)
    pair.at.close_link(pair.receiver)
    other.flow(1)
    sent = net.send(pair.sender, Message(body="again"))
    pair.to.take(other)[0].settle()
    assert net.settled(sent) == [ACCEPTED]


# ---- senders ----


def test_a_lost_sender_does_not_take_its_messages_along(net: Net, name: str) -> None:
    """What it had sent is delivered; a receiver's outcome goes nowhere and harms nobody."""
    pair = Pair(net, name, credit=1)
    pair.send(3)
    first = pair.at.take(pair.receiver)[0]
    pair.to.drop()
    pair.receiver.flow(10)
    rest = pair.at.take(pair.receiver, 2)
    assert [got.body for got in (first, *rest)] == [0, 1, 2]
    for got in (first, *rest):
        got.settle()
    pair.at.round_trip()


def test_a_detached_sender_does_not_either(net: Net, name: str) -> None:
    """The same with a polite goodbye."""
    pair = Pair(net, name)
    pair.send(3)
    pair.to.close_link(pair.sender)
    pair.receiver.flow(10)
    for got in pair.at.take(pair.receiver, 3):
        got.settle()
    pair.at.round_trip()


def test_a_sender_lost_in_the_middle_of_a_message_aborts_it(net: Net, name: str) -> None:
    """The receiver has part of it, and learns that there will be no more."""
    pair = Pair(net, name, credit=2)
    net.begin(pair.sender, HALF)
    inbox = pair.at.inbox(pair.receiver)
    net.until(lambda: inbox, "first bytes")
    pair.to.drop()
    net.until(lambda: inbox[0].aborted, "abort")
    assert not inbox[0].complete
    to = net.peer()
    net.send(to.ready_sender(name), Message(body="next"))
    net.until(lambda: inbox[-1].complete, "next message")
    assert inbox[-1].body == "next"
    inbox[-1].settle()


def test_a_presettled_message_is_aborted_as_well(net: Net, router: RunningRouter, name: str) -> None:
    """By frames of our own: the engine cannot leave a settled message half sent."""
    at = net.peer()
    receiver = at.receiver(name, 2)
    with Wire(router.address) as wire:
        wire.attach_sender(name)
        wire.transfer(0, HALF[:10_000], settled=True, more=True)
        inbox = at.inbox(receiver)
        net.until(lambda: inbox, "first bytes")
    net.until(lambda: inbox[0].aborted, "abort")


def test_a_sender_may_abort(net: Net, name: str) -> None:
    """AMQP 2.7.5, in the middle of a message; the link goes on and no credit is lost."""
    pair = Pair(net, name, credit=2)
    credit = pair.sender.credit
    sent = net.begin(pair.sender, HALF)
    inbox = pair.at.inbox(pair.receiver)
    net.until(lambda: inbox, "first bytes")
    sent.abort()
    net.until(lambda: inbox[0].aborted, "abort")
    following = net.send(pair.sender, Message(body="following"))
    net.until(lambda: inbox[-1].complete, "following message")
    assert inbox[-1].body == "following"
    inbox[-1].settle()
    assert net.settled(following) == [ACCEPTED]
    assert pair.sender.credit >= credit - 31  # credit comes back in packets


def test_what_is_aborted_before_anybody_saw_it_is_never_seen(net: Net, router: RunningRouter, name: str) -> None:
    """Too little of it had come to know where it goes."""
    pair = Pair(net, name, credit=2)
    aborted = router.counted("aborted_in")
    sent = net.begin(pair.sender, Message(annotations={"a": "x" * 2000}).encode()[:1000])
    net.turn(0.05)
    sent.abort()
    following = net.send(pair.sender, Message(body="following"))
    got = pair.at.take(pair.receiver)[0]
    assert got.body == "following"
    got.settle()
    assert net.settled(following) == [ACCEPTED]
    until(lambda: router.counted("aborted_in") == aborted + 1, "count of aborted deliveries")


def test_a_multicast_is_aborted_everywhere(router: RunningRouter, net: Net) -> None:
    """Begun copies end as aborted, one that waits for credit is never begun."""
    address = "_topo/0/all/loss.multicast"  # every router: a multicast address
    peers = [net.peer() for _ in range(3)]
    receivers = [p.receiver(address, credit) for p, credit in zip(peers, (1, 1, 0), strict=True)]
    to = net.peer()
    sender = to.ready_sender(address)
    sent = net.begin(sender, HALF)
    net.until(lambda: all(p.inbox(r) for p, r in zip(peers[:2], receivers[:2], strict=True)), "first bytes")
    sent.abort()
    begun = [peer.inbox(receiver) for peer, receiver in zip(peers[:2], receivers[:2], strict=True)]
    net.until(lambda: all(inbox[0].aborted for inbox in begun), "aborts")
    receivers[2].flow(1)
    net.round_trips(to, peers[2])
    assert peers[2].inbox(receivers[2]) == []


def test_an_abort_while_the_receiver_has_no_credit(net: Net, name: str) -> None:
    """It is taken out of the queue; what comes behind it is delivered."""
    pair = Pair(net, name)
    sent = net.begin(pair.sender, HALF)
    net.round_trips(pair.to)
    sent.abort()
    following = net.send(pair.sender, Message(body="following"))
    net.round_trips(pair.to, pair.at)
    pair.receiver.flow(2)
    got = pair.at.take(pair.receiver)[0]
    assert got.body == "following"
    got.settle()
    assert net.settled(following) == [ACCEPTED]


def test_an_early_outcome_is_told_once(net: Net, name: str) -> None:
    """With the end of the message and settled: a client takes each telling for an outcome of its own."""
    peer = net.peer()
    sender = peer.ready_sender(None)
    sent = net.begin(sender, Message(address=name, body=HALF).encode()[:-1])
    net.round_trips(peer)
    assert (sent.remote_state, sent.settled) == (0, False)
    sender.stream(HALF[-1:])
    sender.advance()
    assert net.settled(sent) == [RELEASED]


def test_a_receiver_that_settles_before_the_end_gets_no_more(net: Net, name: str) -> None:
    """The sender of a long message learns the outcome while it is still sending; the rest goes nowhere."""
    pair = Pair(net, name, credit=2)
    sent = net.begin(pair.sender, HALF)
    inbox = pair.at.inbox(pair.receiver)
    net.until(lambda: inbox, "first bytes")
    inbox[0].settle(RELEASED)
    stream_until(net, pair.sender, sent, RELEASED)
    for _ in range(30):
        pair.sender.stream(HALF)
        net.turn(0)
    pair.sender.advance()
    assert net.settled(sent) == [RELEASED]
    following = net.send(pair.sender, Message(body="following"))
    net.until(lambda: len(inbox) == 2 and inbox[1].complete, "following message")
    assert inbox[1].body == "following"
    inbox[1].settle()
    assert net.settled(following) == [ACCEPTED]

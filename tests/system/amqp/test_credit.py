"""Credit and drain: what senders are granted, when, and what becomes of it (AMQP 1.0 part 2.6.7)."""

import socket
import time

import pytest
from proton import Message, Receiver, Sender

from tests.support.peer import ACCEPTED, CREDIT, RELEASED, Net, Peer
from tests.support.running import Configuration, RunningRouter

SMALL = 5
MOMENT = 0.03  # seconds without credit


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(
        sections=f"listener {{\n host: 127.0.0.1\n port: 0\n linkCapacity: {SMALL}\n}}\n"
        "address {\n prefix: multicast\n distribution: multicast\n}\n"
    )


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An address of the test's own."""
    return f"credit.{request.node.name}"


def small(net: Net, router: RunningRouter) -> Peer:
    """A client of the listener with a small linkCapacity."""
    host, port = router.urls[1].removeprefix("amqp://").split(":")
    return net.peer((host, int(port)))


def release_one(net: Net, sender: Sender) -> None:
    """A message to nowhere."""
    assert net.settled(net.send(sender, Message())) == [RELEASED]


def test_a_sender_has_250_credit_when_there_is_a_receiver(net: Net, name: str) -> None:
    """All at once; a receiver without credit of its own is a destination, too."""
    net.peer().receiver(name)
    assert net.peer().ready_sender(name).credit == CREDIT


def test_a_listener_sets_the_credit_of_its_clients(net: Net, router: RunningRouter, name: str) -> None:
    """linkCapacity."""
    net.peer().receiver(name)
    assert small(net, router).ready_sender(name).credit == SMALL


def test_an_anonymous_sender_has_credit_at_once(net: Net) -> None:
    """Where its messages go is not known before they come."""
    assert net.peer().ready_sender(None).credit == CREDIT


def test_no_credit_before_there_is_a_receiver(net: Net, name: str) -> None:
    """And all of it when the first one comes, for every sender that waits."""
    peers = [net.peer(), net.peer()]
    senders = [peer.sender(name) for peer in peers]
    net.round_trips(*peers)
    assert [sender.credit for sender in senders] == [0, 0]
    net.peer().receiver(name)
    net.until(lambda: [sender.credit for sender in senders] == [CREDIT, CREDIT], "credit")


def test_no_credit_beyond_the_capacity(net: Net, router: RunningRouter, name: str) -> None:
    """What is not settled is not replenished."""
    at, to = net.peer(), small(net, router)
    receiver = at.receiver(name, 100)
    sender = to.ready_sender(name)
    sent = [net.send(sender, Message(body=i)) for i in range(SMALL)]
    arrived = at.take(receiver, SMALL)
    net.round_trips(at, to)
    assert sender.credit == 0
    for number, got in enumerate(arrived, 1):
        got.settle()
        net.round_trips(at, to)
        assert sender.credit == number
    assert net.settled(*sent) == [ACCEPTED] * SMALL


def test_credit_comes_back_at_settlement(net: Net, name: str) -> None:
    """A sender goes on for ever, though it had 250 only once."""
    at, to = net.peer(), net.peer()
    receiver = at.receiver(name, 1000)
    sender = to.ready_sender(name)
    for _ in range(4):
        net.until(lambda: sender.credit >= 200, "credit")
        sent = [net.send(sender, Message(body="x")) for _ in range(200)]
        for got in at.take(receiver, 200):
            got.settle()
        assert net.settled(*sent) == [ACCEPTED] * 200
    assert sender.credit <= CREDIT


def test_credit_of_presettled_messages_comes_back_when_they_are_gone(net: Net, name: str) -> None:
    """Nobody settles them."""
    at, to = net.peer(), net.peer()
    receiver = at.receiver(name, 2000)
    sender = to.ready_sender(name)
    for _ in range(4):
        net.until(lambda: sender.credit >= 200, "credit")
        for _ in range(200):
            net.send(sender, Message(body="x"), settled=True)
        at.take(receiver, 200)


def send_settled(net: Net, sender: Sender, total: int) -> None:
    """So many presettled messages, each as soon as there is credit for it."""
    for number in range(total):
        net.until(lambda: sender.credit > 0, "credit")
        net.send(sender, Message(body=number), settled=True)


def test_a_receiver_without_credit_does_not_hold_up_presettled_messages(
    net: Net, router: RunningRouter, name: str
) -> None:
    """As many as its link's capacity wait for it; when there are more all but the first are dropped."""
    at, to = small(net, router), small(net, router)
    receiver = at.receiver(name, 2)
    sender = to.ready_sender(name)
    dropped = router.core["dropped_slow"]
    send_settled(net, sender, 4 * SMALL)
    assert [got.body for got in at.take(receiver, 2)] == [0, 1]
    net.until(lambda: sender.credit == SMALL, "the credit of what waits, or is dropped")
    gone = router.core["dropped_slow"] - dropped
    waiting = 4 * SMALL - 2 - gone
    assert 0 < waiting <= SMALL + 1
    receiver.flow(100)
    bodies = [got.body for got in at.take(receiver, waiting)]
    assert bodies[0] == 2, "the first that waits is kept"
    assert bodies[1:] == list(range(4 * SMALL - len(bodies) + 1, 4 * SMALL)), "and the latest"


def test_a_receiver_without_credit_for_moments_loses_no_presettled_message(
    net: Net, router: RunningRouter, name: str
) -> None:
    """It holds up its sender instead, whose next messages would make too many: another process had the CPU."""
    at, to = small(net, router), small(net, router)
    receiver = at.receiver(name, SMALL)
    sender = to.ready_sender(name)
    dropped = router.core["dropped_slow"]
    sent: list[int] = []
    got: list[object] = []
    for _ in range(10):
        pause = time.monotonic() + MOMENT
        while time.monotonic() < pause:
            while sender.credit > 0:
                net.send(sender, Message(body=len(sent)), settled=True)
                sent.append(len(sent))
            net.turn(0.001)
        receiver.flow(SMALL)
        got += [message.body for message in at.take(receiver, len(at.inbox(receiver)))]
    receiver.flow(10 * SMALL)
    got += [message.body for message in at.take(receiver, len(sent) - len(got))]
    assert got == sent
    assert router.core["dropped_slow"] == dropped


def test_a_receiver_that_reads_nothing_does_not_hold_up_presettled_messages(
    net: Net, router: RunningRouter, name: str
) -> None:
    """Whatever credit it gave: it has begun no message for a second."""
    at, to = small(net, router), small(net, router)
    at.receiver(name, 100_000)
    sender = to.ready_sender(name)
    net.round_trips(at)
    at.deaf = True
    at.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    body = bytes(200_000)
    for _ in range(1000):  # what the sockets take
        net.turn(0.01)
        if sender.credit == 0 and not to.transport.pending():
            break
        net.send(sender, Message(body=body), settled=True)
    net.until(lambda: sender.credit == SMALL, "the credit of what waits")


def test_nothing_is_sent_without_the_receivers_credit(net: Net, name: str) -> None:
    """Messages wait in order, and come as credit does."""
    at, to = net.peer(), net.peer()
    receiver = at.receiver(name)
    sender = to.ready_sender(name)
    for i in range(10):
        net.send(sender, Message(body=i))
    net.round_trips(to, at)
    assert at.inbox(receiver) == []
    for expected in (range(3), range(3, 4), range(4, 10)):
        receiver.flow(len(expected))
        assert [got.body for got in at.take(receiver, len(expected))] == list(expected)
        net.round_trips(to, at)
        assert at.inbox(receiver) == []


# ---- drain by a receiver ----


def drain(net: Net, receiver: Receiver, credit: int) -> None:
    """Ask for what there is, and wait for the answer that there is no more."""
    receiver.drain(credit)
    net.until(lambda: not receiver.draining(), "answer to drain")


def test_a_drain_of_nothing_is_answered(net: Net, name: str) -> None:
    """The credit is used up without a message."""
    receiver = net.peer().receiver(name)
    drain(net, receiver, 10)
    assert receiver.credit == 0


def test_a_drain_gets_what_is_queued_first(net: Net, name: str) -> None:
    """Then the rest of the credit is gone; after it messages flow as before."""
    at, to = net.peer(), net.peer()
    receiver = at.receiver(name)
    sender = to.ready_sender(name)
    sent = [net.send(sender, Message(body=i)) for i in range(3)]
    net.round_trips(to, at)
    drain(net, receiver, 10)
    assert [got.body for got in at.inbox(receiver)] == [0, 1, 2]
    assert receiver.credit == 0
    receiver.drain_mode = False
    receiver.flow(1)
    sent.append(net.send(sender, Message(body=3)))
    for got in at.take(receiver, 4):
        got.settle()
    assert net.settled(*sent) == [ACCEPTED] * 4


def test_a_drain_with_less_credit_than_messages(net: Net, name: str) -> None:
    """Takes as many as it has credit for; the others stay."""
    at, to = net.peer(), net.peer()
    receiver = at.receiver(name)
    sender = to.ready_sender(name)
    for i in range(5):
        net.send(sender, Message(body=i))
    net.round_trips(to, at)
    drain(net, receiver, 2)
    assert [got.body for got in at.take(receiver, 2)] == [0, 1]
    net.round_trips(to, at)
    assert at.inbox(receiver) == []
    drain(net, receiver, 10)
    assert [got.body for got in at.inbox(receiver)] == [2, 3, 4]


def test_a_drain_is_answered_when_the_receiver_settles_a_message_before_it_has_all_of_it(net: Net, name: str) -> None:
    """That message was the last one that the drain waited for."""
    peer = net.peer()
    receiver, sender = peer.receiver(name), net.peer().sender(name)
    receiver.flow(5)
    net.until(lambda: sender.credit > 0, "credit")
    net.begin(sender, b"\0\x53\x75\xb0" + (200_000).to_bytes(4) + b"x" * 50_000)
    net.until(lambda: peer.inbox(receiver) and len(peer.inbox(receiver)[0].data) > 1000, "a part")
    receiver.drain(0)
    net.round_trips(peer)
    assert receiver.credit
    peer.inbox(receiver)[0].settle()
    net.until(lambda: not receiver.draining(), "answer to drain")


def test_drains_one_after_the_other(net: Net, name: str) -> None:
    """Each one is answered."""
    receiver = net.peer().receiver(name)
    for _ in range(5):
        drain(net, receiver, 3)
        assert receiver.credit == 0


# ---- destinations that come and go ----


def test_without_a_destination_messages_are_released_and_the_sender_is_drained(net: Net, name: str) -> None:
    """What is sent to nowhere comes back, and the sender is told to stop; with a receiver it may go on."""
    at, to = net.peer(), net.peer()
    receiver = at.receiver(name, 10)
    sender = to.ready_sender(name)
    at.close_link(receiver)
    release_one(net, sender)
    net.until(lambda: sender.drain_mode, "drain")
    sender.drained()
    to.round_trip()
    assert sender.credit == 0
    again = at.receiver(name, 10)
    net.until(lambda: sender.credit == CREDIT, "credit")
    sent = net.send(sender, Message(body="here"))
    got = at.take(again)[0]
    got.settle()
    assert (got.body, net.settled(sent)) == ("here", [ACCEPTED])


def test_a_drain_tells_of_credit_that_was_not_told_of_yet(net: Net, name: str) -> None:
    """Settled and given back in portions, it is all in the frame that asks for the rest."""
    at, to = net.peer(), net.peer()
    receiver = at.receiver(name, 10)
    sender = to.ready_sender(name)
    sent = net.send(sender, Message(body="here"))
    at.take(receiver)[0].settle()
    assert net.settled(sent) == [ACCEPTED]
    at.close_link(receiver)
    release_one(net, sender)
    net.until(lambda: sender.drain_mode, "drain")
    assert sender.drained() == CREDIT - 1


def test_a_sender_that_ignores_the_drain_goes_on_when_there_is_a_receiver(net: Net, name: str) -> None:
    """Its messages are released meanwhile; none is lost."""
    at, to = net.peer(), net.peer()
    receiver = at.receiver(name, 10)
    sender = to.ready_sender(name)
    at.close_link(receiver)
    for _ in range(3):
        release_one(net, sender)
    at.receiver(name, 10)
    net.until(lambda: sender.credit == CREDIT, "credit")


def test_credit_used_up_while_there_was_no_destination_is_granted_again(net: Net, name: str) -> None:
    """All 250 went to nowhere."""
    at, to = net.peer(), net.peer()
    receiver = at.receiver(name)
    sender = to.ready_sender(name)
    at.close_link(receiver)
    sent = [net.send(sender, Message()) for _ in range(CREDIT)]
    assert net.settled(*sent) == [RELEASED] * CREDIT
    assert sender.credit == 0
    at.receiver(name)
    net.until(lambda: sender.credit == CREDIT, "credit")


def test_destinations_that_come_and_go_leave_the_credit_as_it_was(net: Net, name: str) -> None:
    """No credit is lost or made by draining and granting in turns."""
    at, to = net.peer(), net.peer()
    sender = to.sender(name)
    for turn in range(10):
        receiver = at.receiver(name)
        net.until(lambda: sender.credit == CREDIT, "credit")
        at.close_link(receiver)
        release_one(net, sender)
        if turn % 2:
            net.until(lambda: sender.drain_mode, "drain")
            sender.drained()


def test_one_of_two_receivers_goes_and_nothing_happens(net: Net, name: str) -> None:
    """There is still a destination."""
    at, to = net.peer(), net.peer()
    first, second = at.receiver(name, 10), at.receiver(name, 10)
    sender = to.ready_sender(name)
    at.close_link(first)
    sent = net.send(sender, Message(body="still"))
    at.take(second)[0].settle()
    assert net.settled(sent) == [ACCEPTED]
    assert not sender.drain_mode


def test_a_multicast_sender_needs_a_destination_too(net: Net, name: str) -> None:
    """The treatment does not matter."""
    sender = net.peer().sender(f"multicast.{name}")
    net.round_trips(*net.peers)
    assert sender.credit == 0
    net.peer().receiver(f"multicast.{name}")
    net.until(lambda: sender.credit == CREDIT, "credit")

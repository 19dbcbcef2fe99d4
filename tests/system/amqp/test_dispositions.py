"""What receivers say of a message reaches its sender exactly, and back (AMQP 1.0 parts 2.6 and 3.4)."""

from typing import Any

import pytest
from proton import Condition, Delivery, Link, Message, Receiver, Sender, symbol

from tests.support.peer import ACCEPTED, MODIFIED, REJECTED, RELEASED, Net, Peer, error_of
from tests.support.running import Configuration


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(sections="address {\n prefix: multicast\n distribution: multicast\n}")


class Pair:
    """A sender and a receiver on one address, on connections of their own."""

    def __init__(self, net: Net, address: str, **modes: Any) -> None:
        self.net = net
        self.to, self.at = net.peer(), net.peer()
        self.receiver = self.at.receiver(address, 10, **modes)
        self.sender = self.to.ready_sender(address)

    def deliver(self, body: Any = "x") -> tuple[Delivery, Delivery]:
        """A message that has arrived and is not settled: the sender's and the receiver's delivery."""
        sent = self.net.send(self.sender, Message(body=body))
        return sent, self.at.take(self.receiver)[0].delivery


@pytest.fixture
def pair(net: Net, request: pytest.FixtureRequest) -> Pair:
    return Pair(net, f"pair.{request.node.name}")


def test_presettled_stays_presettled(net: Net, pair: Pair) -> None:
    """Nobody has anything to settle."""
    net.send(pair.sender, Message(body="x"), settled=True)
    arrived = pair.at.take(pair.receiver)[0]
    assert arrived.delivery.settled
    assert arrived.body == "x"


def test_unsettled_stays_unsettled_until_its_receiver_settles(net: Net, pair: Pair) -> None:
    """The router does not answer for a receiver."""
    sent, arrived = pair.deliver()
    assert not arrived.settled
    net.round_trips(pair.at, pair.to)
    assert not sent.settled
    assert sent.remote_state == 0


@pytest.mark.parametrize("state", [ACCEPTED, REJECTED, RELEASED, MODIFIED])
def test_an_outcome_is_passed_on(net: Net, pair: Pair, state: int) -> None:
    """As it is, with the settlement."""
    sent, arrived = pair.deliver()
    arrived.update(state)
    arrived.settle()
    assert net.settled(sent) == [state]


def test_rejected_carries_condition_description_and_info(net: Net, pair: Pair) -> None:
    """The application's error reaches the application."""
    sent, arrived = pair.deliver()
    info: Any = {symbol("line"): 7, symbol("why"): "größer als erlaubt"}
    arrived.local.condition = Condition("app:no-such-order", "order 17 is unknown: try 18 or größer", info)
    arrived.update(REJECTED)
    arrived.settle()
    assert net.settled(sent) == [REJECTED]
    assert error_of(sent) == ("app:no-such-order", "order 17 is unknown: try 18 or größer")
    assert sent.remote.condition is not None
    assert sent.remote.condition.info == info


def test_a_rejection_with_a_long_description_arrives(net: Net, pair: Pair) -> None:
    """Longer than a small block holds."""
    sent, arrived = pair.deliver()
    arrived.local.condition = Condition("app:long", "d" * 2000)
    arrived.update(REJECTED)
    arrived.settle()
    net.settled(sent)
    assert error_of(sent) == ("app:long", "d" * 2000)


@pytest.mark.parametrize(("failed", "undeliverable"), [(a, b) for a in (False, True) for b in (False, True)])
def test_modified_carries_flags_and_annotations(net: Net, pair: Pair, failed: bool, undeliverable: bool) -> None:
    """All of 3.4.5."""
    sent, arrived = pair.deliver()
    annotations: Any = {symbol("x-opt-a"): [1, "zwei"], symbol("x-opt-b"): {"k": "v"}}
    arrived.local.failed, arrived.local.undeliverable = failed, undeliverable
    arrived.local.annotations = annotations
    arrived.update(MODIFIED)
    arrived.settle()
    assert net.settled(sent) == [MODIFIED]
    assert (sent.remote.failed, sent.remote.undeliverable) == (failed, undeliverable)
    assert sent.remote.annotations == annotations


def test_settled_without_an_outcome_stays_so(net: Net, pair: Pair) -> None:
    """It must not turn into accepted."""
    sent, arrived = pair.deliver()
    arrived.settle()
    assert net.settled(sent) == [0]


def test_received_is_passed_on_before_the_outcome(net: Net, pair: Pair) -> None:
    """A state that is no outcome, with section and offset."""
    sent, arrived = pair.deliver("x" * 1000)
    arrived.local.section_number, arrived.local.section_offset = 3, 123_456
    arrived.update(Delivery.RECEIVED)
    net.until(lambda: sent.remote_state == Delivery.RECEIVED, "received")
    assert (sent.remote.section_number, sent.remote.section_offset) == (3, 123_456)
    assert not sent.settled
    arrived.update(ACCEPTED)
    arrived.settle()
    assert net.settled(sent) == [ACCEPTED]


def test_a_state_the_router_does_not_know_is_passed_on(net: Net, pair: Pair) -> None:
    """With its fields: 0x34 is a transactional state (part 4.5.8)."""
    sent, arrived = pair.deliver()
    fields: Any = [b"txn-1", None]
    arrived.local.data = fields
    arrived.update(0x34)
    arrived.settle()
    assert net.settled(sent) == [0x34]
    assert sent.remote.data == fields


STATE = 0x29A  # of nobody's
FIELDS: Any = [b"x", 7, None, "end"]


def say(net: Net, sender: Sender, size: int = 10, fields: Any = FIELDS) -> Delivery:
    """A message whose transfer says a state."""
    data = Message(body=b"x" * size).encode()
    delivery = sender.delivery(f"said-{net.tags}")
    net.tags += 1
    delivery.local.data = fields
    delivery.update(STATE)
    sender.stream(data)
    sender.advance()
    return delivery


@pytest.mark.parametrize("size", [10, 300_000])
@pytest.mark.parametrize("credit", [10, 0])
def test_a_transfer_may_say_a_state(net: Net, request: pytest.FixtureRequest, size: int, credit: int) -> None:
    """It is there with the message, though its receiver had no credit when it came; then others follow."""
    to, at = net.peer(), net.peer()
    receiver = at.receiver(request.node.name, credit)
    sender = to.ready_sender(request.node.name)
    sent = [say(net, sender, size, [number]) for number in range(3)]
    to.round_trip()
    receiver.flow(10)
    arrived = [one.delivery for one in at.take(receiver, 3)]
    assert [(one.remote_state, one.remote.data) for one in arrived] == [(STATE, [n]) for n in range(3)]
    for one in sent:
        one.update(STATE + 1)
    net.until(lambda: all(one.remote_state == STATE + 1 for one in arrived), "the next state")
    for one in arrived:
        one.update(ACCEPTED)
        one.settle()
    assert net.settled(*sent) == [ACCEPTED] * 3


def test_a_state_outlives_nothing(net: Net, request: pytest.FixtureRequest) -> None:
    """Not the receiver that never took it, not the sender, not what the router answers itself."""
    to, at = net.peer(), net.peer()
    receiver = at.receiver(request.node.name)
    sender = to.ready_sender(request.node.name)
    sent = say(net, sender)
    to.round_trip()
    sent.update(STATE + 1)
    to.round_trip()
    at.close_link(receiver)
    assert net.settled(sent) == [RELEASED]
    assert net.settled(say(net, to.ready_sender("$management"))) == [ACCEPTED]
    assert net.settled(say(net, to.ready_sender(None))) == [REJECTED]


def test_many_are_settled_in_any_order(net: Net, pair: Pair) -> None:
    """Each sender's delivery gets the outcome of its own message."""
    pair.receiver.flow(100)
    sent = [net.send(pair.sender, Message(body=i)) for i in range(60)]
    arrived = pair.at.take(pair.receiver, 60)
    wanted = {}
    for got in reversed(arrived):
        wanted[got.body] = (ACCEPTED, REJECTED, RELEASED, MODIFIED)[got.body * 7 % 4]
        got.settle(wanted[got.body])
    assert net.settled(*sent) == [wanted[i] for i in range(60)]


def test_receiver_settles_second(net: Net, request: pytest.FixtureRequest) -> None:
    """The outcome goes up unsettled, the sender's settlement comes down, and only then all is settled."""
    pair = Pair(net, request.node.name, rcv_settle_mode=Link.RCV_SECOND)
    assert pair.receiver.remote_rcv_settle_mode == Link.RCV_SECOND
    sent, arrived = pair.deliver()
    arrived.local.condition = Condition("app:second", "thoughts")
    arrived.update(REJECTED)
    net.until(lambda: sent.remote_state == REJECTED, "outcome at the sender")
    assert not sent.settled
    assert error_of(sent) == ("app:second", "thoughts")
    net.round_trips(pair.to, pair.at)
    assert not arrived.settled
    sent.settle()
    net.until(lambda: arrived.settled, "settlement at the receiver")
    arrived.settle()


def test_sender_settles_second_with_a_state_of_its_own(net: Net, request: pytest.FixtureRequest) -> None:
    """What the sender says when it settles reaches the receiver."""
    pair = Pair(net, request.node.name, rcv_settle_mode=Link.RCV_SECOND)
    sent, arrived = pair.deliver()
    arrived.update(ACCEPTED)
    net.until(lambda: sent.remote_state == ACCEPTED, "outcome at the sender")
    sent.update(ACCEPTED)
    sent.settle()
    net.until(lambda: arrived.settled, "settlement at the receiver")
    assert arrived.remote_state == ACCEPTED
    arrived.settle()


def test_a_sender_may_settle_first(net: Net, pair: Pair) -> None:
    """The receiver learns it, its own outcome is of no interest any more, and credit comes back."""
    sent, arrived = pair.deliver()
    sent.settle()
    net.until(lambda: arrived.settled, "settlement at the receiver")
    arrived.update(ACCEPTED)
    arrived.settle()
    net.round_trips(pair.at, pair.to)
    sent, arrived = pair.deliver("next")
    arrived.update(ACCEPTED)
    arrived.settle()
    assert net.settled(sent) == [ACCEPTED]


def test_a_sender_may_settle_what_has_not_been_forwarded(net: Net, request: pytest.FixtureRequest) -> None:
    """It goes out settled once there is credit."""
    to, at = net.peer(), net.peer()
    receiver = at.receiver(request.node.name)
    sender = to.ready_sender(request.node.name)
    net.send(sender, Message(body="early")).settle()
    to.round_trip()
    receiver.flow(1)
    arrived = at.take(receiver)[0]
    assert arrived.body == "early"
    net.until(lambda: arrived.delivery.settled, "settlement")


def test_a_receiver_that_wants_settled_messages_gets_them(net: Net, request: pytest.FixtureRequest) -> None:
    """snd-settle-mode settled: the router accepts for it."""
    pair = Pair(net, request.node.name, snd_settle_mode=Link.SND_SETTLED)
    sent, arrived = pair.deliver()
    assert arrived.settled
    assert net.settled(sent) == [ACCEPTED]


# ---- multicast ----


class Fan:
    """A sender and three receivers of a multicast address."""

    def __init__(self, net: Net, address: str, **modes: Any) -> None:
        self.net = net
        self.peers = [net.peer() for _ in range(3)]
        self.receivers: list[Receiver] = [peer.receiver(address, 10, **modes) for peer in self.peers]
        self.to: Peer = net.peer()
        self.sender: Sender = self.to.ready_sender(address)

    def deliver(self, body: Any = "x") -> tuple[Delivery, list[Delivery]]:
        sent = self.net.send(self.sender, Message(body=body))
        arrived = [p.take(r)[0] for p, r in zip(self.peers, self.receivers, strict=True)]
        assert [a.body for a in arrived] == [body] * 3
        return sent, [a.delivery for a in arrived]


@pytest.mark.parametrize(
    ("states", "merged"),
    [
        ((RELEASED, RELEASED, RELEASED), RELEASED),
        ((RELEASED, MODIFIED, RELEASED), MODIFIED),
        ((MODIFIED, ACCEPTED, RELEASED), ACCEPTED),
        ((ACCEPTED, ACCEPTED, ACCEPTED), ACCEPTED),
        ((RELEASED, MODIFIED, REJECTED), REJECTED),
        ((REJECTED, ACCEPTED, ACCEPTED), REJECTED),
    ],
)
def test_outcomes_of_a_multicast_are_merged(net: Net, states: tuple[int, ...], merged: int) -> None:
    """rejected > accepted > modified > released, told when the last one is known and not before."""
    fan = Fan(net, f"multicast.merge.{'.'.join(str(int(s)) for s in states)}")
    sent, arrived = fan.deliver()
    for number, (delivery, state) in enumerate(zip(arrived, states, strict=True)):
        net.round_trips(*fan.peers[:number], fan.to)
        assert not sent.settled
        delivery.update(state)
        delivery.settle()
    assert net.settled(sent) == [merged]


def test_the_error_of_a_multicast_is_that_of_its_rejecter(net: Net) -> None:
    """Though others accepted before and after."""
    fan = Fan(net, "multicast.error")
    sent, arrived = fan.deliver()
    for number, delivery in enumerate(arrived):
        if number == 1:
            delivery.local.condition = Condition("app:not-me", "number 1")
        delivery.update(REJECTED if number == 1 else ACCEPTED)
        delivery.settle()
        net.round_trips(fan.peers[number])
    assert net.settled(sent) == [REJECTED]
    assert error_of(sent) == ("app:not-me", "number 1")


def test_a_multicast_to_receivers_that_settle_second(net: Net) -> None:
    """The merged outcome goes up unsettled when all are known; the sender's settlement goes down to all."""
    fan = Fan(net, "multicast.second", rcv_settle_mode=Link.RCV_SECOND)
    sent, arrived = fan.deliver()
    for delivery in arrived:
        assert sent.remote_state == 0
        delivery.update(ACCEPTED)
        net.round_trips(*fan.peers)
    net.until(lambda: sent.remote_state == ACCEPTED, "merged outcome")
    assert not sent.settled
    sent.settle()
    net.until(lambda: all(d.settled for d in arrived), "settlement at all receivers")


def test_a_state_of_a_multicast_is_told_to_all(net: Net) -> None:
    """Its fields to one of them."""
    fan = Fan(net, "multicast.state")
    sent = say(net, fan.sender)
    arrived = [p.take(r)[0].delivery for p, r in zip(fan.peers, fan.receivers, strict=True)]
    assert [one.remote_state for one in arrived] == [STATE] * 3
    assert sorted((one.remote.data for one in arrived), key=str) == [None, None, FIELDS]
    for one in arrived:
        one.update(ACCEPTED)
        one.settle()
    assert net.settled(sent) == [ACCEPTED]


def test_a_presettled_multicast_reaches_all(net: Net) -> None:
    """Settled everywhere."""
    fan = Fan(net, "multicast.presettled")
    net.send(fan.sender, Message(body="news"), settled=True)
    for peer, receiver in zip(fan.peers, fan.receivers, strict=True):
        arrived = peer.take(receiver)[0]
        assert (arrived.body, arrived.delivery.settled) == ("news", True)


def test_a_multicast_survives_the_loss_of_a_receiver(net: Net) -> None:
    """Its copy counts as modified, the others decide."""
    fan = Fan(net, "multicast.loss")
    sent, arrived = fan.deliver()
    fan.peers[0].drop()
    for delivery in arrived[1:]:
        delivery.update(ACCEPTED)
        delivery.settle()
    assert net.settled(sent) == [ACCEPTED]

"""Addresses: how they are spelled, who gets a message, and what becomes of it if nobody does."""

import pytest
from proton import Endpoint, Link, Message, Receiver

from tests.support.peer import ACCEPTED, CREDIT, REJECTED, RELEASED, Net, Peer, error_of, is_closed, is_open
from tests.support.running import Configuration, RunningRouter, until

SECTIONS = """
address {
 prefix: closest
 distribution: closest
}
address {
 prefix: multicast
 distribution: multicast
}
address {
 prefix: balanced
 distribution: balanced
}
address {
 prefix: closed
 distribution: unavailable
}
address {
 pattern: orders.*.news
 distribution: multicast
}
address {
 pattern: orders.#.closed
 distribution: unavailable
}
address {
 pattern: orders.open.closed
 distribution: closest
}
"""


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(sections=SECTIONS)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An address of the test's own."""
    return f"addresses.{request.node.name}"


def serve(peer: Peer, receiver: Receiver, number: int = 1) -> list[object]:
    """Accept messages; their bodies."""
    arrived = peer.take(receiver, number)
    for got in arrived:
        got.settle()
    return [got.body for got in arrived]


def refusal(net: Net, link: Link) -> str:
    """Wait until the router has refused a link; its condition. The terminus asked for is not there."""
    net.until(lambda: is_closed(link), "refusal")
    terminus = link.remote_target if link.is_sender else link.remote_source
    assert terminus.address is None
    return error_of(link)[0]


# ---- spelling ----


SPELLINGS = ["{}", "/{}", "amqp:/{}", "amqp://somewhere:5672/{}", "{}/", "{}."]


@pytest.mark.parametrize("source", SPELLINGS)
def test_one_address_in_many_spellings(net: Net, source: str) -> None:
    """A receiver and a sender need not spell it alike; nor need messages on an anonymous link."""
    name = f"spelling.{SPELLINGS.index(source)}"
    at, to = net.peer(), net.peer()
    receiver = at.receiver(source.format(name), 20)
    anonymous = to.ready_sender(None)
    for target in SPELLINGS:
        text = target.format(name)
        sent = net.send(to.ready_sender(text), Message(body=text))
        assert serve(at, receiver) == [text]
        also = net.send(anonymous, Message(address=text, body=text))
        assert serve(at, receiver) == [text]
        assert net.settled(sent, also) == [ACCEPTED] * 2


def test_different_addresses_are_different(net: Net, name: str) -> None:
    """No prefix, no other case, no space is the same."""
    receiver = net.peer().receiver(name, 10)
    to = net.peer()
    sender = to.ready_sender(None)
    others = [f"{name}.more", name[:-1], name.upper(), f"{name} ", f" {name}", f"{name}//", f"//{name}"]
    sent = [net.send(sender, Message(address=other)) for other in others]
    assert net.settled(*sent) == [RELEASED] * len(others)
    assert receiver.credit == 10


def test_local_addresses(net: Net, router: RunningRouter, name: str) -> None:
    """_local/x is _topo/0/<this router>/x and _edge/<this router>/x, and not the mobile address x."""
    at, to = net.peer(), net.peer()
    receiver = at.receiver(f"_local/{name}", 20)
    sender = to.ready_sender(None)
    same = [f"_local/{name}", f"amqp:/_local/{name}", f"_topo/0/{router.id}/{name}"]
    same += [f"{head}/{router.id}/{name}" for head in ("amqp:/_topo/0", "_topo/all", "_edge")]
    sent = [net.send(sender, Message(address=text, body=text)) for text in same]
    assert serve(at, receiver, len(same)) == same
    assert net.settled(*sent) == [ACCEPTED] * len(same)
    others = [name, f"_topo/0/another/{name}", f"_topo/1/{router.id}/{name}", f"_topo/0/all/{name}"]
    sent = [net.send(sender, Message(address=text)) for text in others]
    assert net.settled(*sent) == [RELEASED] * len(others)


def test_topological_addresses_of_all_routers_are_multicast(net: Net, name: str) -> None:
    """_topo/0/all/x."""
    at, to = net.peer(), net.peer()
    receivers = [at.receiver(f"_topo/0/all/{name}", 1) for _ in range(2)]
    sent = net.send(to.ready_sender(f"_topo/0/all/{name}"), Message(body="all"))
    assert [serve(at, r) for r in receivers] == [["all"], ["all"]]
    assert net.settled(sent) == [ACCEPTED]


def test_an_address_is_bytes_to_the_router(net: Net) -> None:
    """Any Unicode, and long ones."""
    at, to = net.peer(), net.peer()
    sender = to.ready_sender(None)
    for address in ("größe.日本語.🎈", "a b\tc", "x" * 4000, "%2e", "."):
        receiver = at.receiver(address, 1)
        sent = net.send(sender, Message(address=address, body=1))
        assert serve(at, receiver) == [1]
        assert net.settled(sent) == [ACCEPTED]


# ---- anonymous senders ----


def test_an_anonymous_sender_reaches_every_address(net: Net, name: str) -> None:
    """Message by message, by properties.to."""
    at, to = net.peer(), net.peer()
    receivers = [at.receiver(f"{name}.{i}", 10) for i in range(5)]
    sender = to.ready_sender(None)
    sent = [net.send(sender, Message(address=f"{name}.{i % 5}", body=i)) for i in range(20)]
    for i, receiver in enumerate(receivers):
        assert serve(at, receiver, 4) == [i, i + 5, i + 10, i + 15]
    assert net.settled(*sent) == [ACCEPTED] * 20


def test_an_anonymous_message_to_nobody_is_released(net: Net, name: str) -> None:
    """Whether the address was never heard of, or its receiver has left; the credit stays."""
    at, to = net.peer(), net.peer()
    sender = to.ready_sender(None)
    assert net.settled(net.send(sender, Message(address=name))) == [RELEASED]
    receiver = at.receiver(name, 1)
    at.close_link(receiver)
    assert net.settled(net.send(sender, Message(address=name))) == [RELEASED]
    for _ in range(2 * CREDIT // 50):
        net.until(lambda: sender.credit >= 50, "credit")
        sent = [net.send(sender, Message(address=name)) for _ in range(50)]
        assert net.settled(*sent) == [RELEASED] * 50
    assert not sender.drain_mode


@pytest.mark.parametrize(
    "message",
    [Message(body="x"), Message(subject="x", body="x"), Message(id=1, body="x"), Message(priority=9, body="x")],
    ids=["no properties", "a later property", "an earlier property", "only a header"],
)
def test_an_anonymous_message_without_address_is_rejected(net: Net, message: Message) -> None:
    """amqp:precondition-failed; the link goes on."""
    sender = net.peer().ready_sender(None)
    sent = net.send(sender, message)
    assert net.settled(sent) == [REJECTED]
    assert error_of(sent) == ("amqp:precondition-failed", "Routing failure: no address present")
    assert net.settled(net.send(sender, message)) == [REJECTED]


def test_an_anonymous_message_to_an_unavailable_address_is_rejected(net: Net) -> None:
    """amqp:not-found."""
    sent = net.send(net.peer().ready_sender(None), Message(address="closed.shop"))
    assert net.settled(sent) == [REJECTED]
    assert error_of(sent) == ("amqp:not-found", "Deliveries cannot be sent to an unavailable address")


def test_presettled_messages_to_nobody_are_dropped_and_counted(net: Net, router: RunningRouter, name: str) -> None:
    """Unknown address, none at all, an unavailable one, and a target whose receiver has left."""
    at, to = net.peer(), net.peer()
    dropped = router.core["dropped_presettled"]
    sender = to.ready_sender(None)
    for message in (Message(address=name), Message(), Message(address="closed.shop")):
        net.send(sender, message, settled=True)
    to.round_trip()
    receiver = at.receiver(name)
    named = to.ready_sender(name)
    at.close_link(receiver)
    net.send(named, Message(), settled=True)
    to.round_trip()
    until(lambda: router.core["dropped_presettled"] == dropped + 4, "count of dropped messages")
    net.until(lambda: sender.credit + 31 >= CREDIT, "credit")  # it comes back in packets


# ---- refused links ----


def test_links_to_unavailable_addresses_are_refused(net: Net) -> None:
    """Senders and receivers: attach without terminus, detach with amqp:not-found; the session goes on."""
    peer = net.peer()
    for link in (peer.begin_sender("closed.a"), peer.begin_receiver("closed.a"), peer.begin_sender("closed")):
        assert refusal(net, link) == "amqp:not-found"
        assert error_of(link)[1] == "Node not found"
    assert is_open(peer.sender("open"))


def test_transactions_are_refused(net: Net) -> None:
    """The router coordinates none."""
    link = net.peer().coordinator()
    net.until(lambda: is_closed(link), "refusal")
    assert error_of(link)[0] == "amqp:precondition-failed"


def test_a_receiver_without_a_source_is_refused(net: Net) -> None:
    """There is nothing that it could receive."""
    assert refusal(net, net.peer().begin_receiver("")) == "amqp:precondition-failed"


def test_an_attached_link_has_the_termini_it_asked_for(net: Net, name: str) -> None:
    """As clients expect, both sides are echoed."""
    peer = net.peer()
    for link in (peer.sender(name), peer.receiver(name)):
        assert link.remote_source.address == link.source.address
        assert link.remote_target.address == link.target.address


# ---- dynamic nodes ----


def test_a_dynamic_source_gets_an_address_that_others_can_send_to(net: Net, router: RunningRouter) -> None:
    """By name and by properties.to, like a reply; two of them are different; it ends with its link."""
    at, to = net.peer(), net.peer()
    receiver, other = at.receiver(None, 10), at.receiver(None, 10)
    address = receiver.remote_source.address or ""
    assert address.startswith(f"amqp:/_topo/0/{router.id}/temp.")
    assert address != other.remote_source.address
    assert receiver.remote_source.dynamic
    anonymous = to.ready_sender(None)
    sent = [net.send(to.ready_sender(address), Message(body=1)), net.send(anonymous, Message(address=address, body=2))]
    assert sorted(map(str, serve(at, receiver, 2))) == ["1", "2"]
    assert net.settled(*sent) == [ACCEPTED] * 2
    assert at.inbox(other) == []
    at.close_link(receiver)
    assert net.settled(net.send(anonymous, Message(address=address))) == [RELEASED]


def test_a_dynamic_target_gets_an_address_that_others_can_receive_from(net: Net) -> None:
    """With credit when somebody does."""
    to, at = net.peer(), net.peer()
    sender = to.dynamic_sender()
    address = sender.remote_target.address or ""
    assert address.startswith("amqp:/_$temp.")
    assert address != to.dynamic_sender().remote_target.address
    receiver = at.receiver(address, 1)
    net.until(lambda: sender.credit == CREDIT, "credit")
    sent = net.send(sender, Message(body="dynamic"))
    assert serve(at, receiver) == ["dynamic"]
    assert net.settled(sent) == [ACCEPTED]


# ---- treatments ----


def test_multicast_reaches_every_receiver_once(net: Net) -> None:
    """Also several of one connection, and the sender's own."""
    to, at = net.peer(), net.peer()
    pairs = [(peer, peer.receiver("multicast.all", 10)) for peer in (at, at, net.peer(), to)]
    sender = to.ready_sender("multicast.all")
    sent = [net.send(sender, Message(body=i)) for i in range(5)]
    for peer, receiver in pairs:
        assert serve(peer, receiver, 5) == [0, 1, 2, 3, 4]
    assert net.settled(*sent) == [ACCEPTED] * 5
    net.round_trips(*net.peers)
    assert all(peer.inbox(receiver) == [] for peer, receiver in pairs)


def test_closest_takes_receivers_in_turn(net: Net) -> None:
    """Whatever they have to do: a receiver that settles nothing gets its share, too."""
    at, to = net.peer(), net.peer()
    receivers = [at.receiver("closest.turn", 100) for _ in range(3)]
    sender = to.ready_sender("closest.turn")
    for i in range(30):
        net.send(sender, Message(body=i))
    net.until(lambda: sum(len(at.inbox(r)) for r in receivers) == 30, "messages")
    assert [len(at.inbox(r)) for r in receivers] == [10, 10, 10]


def test_balanced_takes_the_least_busy_receiver(net: Net) -> None:
    """A receiver that settles gets the messages that one that does not would have got."""
    at, to = net.peer(), net.peer()
    lazy, keen = at.receiver("balanced.busy", 100), at.receiver("balanced.busy", 100)
    sender = to.ready_sender("balanced.busy")
    for i in range(20):
        net.send(sender, Message(body=i))
        net.round_trips(to, at)
        for got in at.inbox(keen):
            got.settle()
        at.round_trip()
    assert len(at.inbox(lazy)) == 1
    assert len(at.inbox(keen)) == 19


def test_balanced_shares_evenly_among_the_idle(net: Net) -> None:
    """The default treatment."""
    at, to = net.peer(), net.peer()
    receivers = [at.receiver("default.even", 100) for _ in range(4)]
    sender = to.ready_sender("default.even")
    sent = [net.send(sender, Message(body=i)) for i in range(100)]
    net.until(lambda: sum(len(at.inbox(r)) for r in receivers) == 100, "messages")
    assert [len(at.inbox(r)) for r in receivers] == [25] * 4
    for receiver in receivers:
        serve(at, receiver, 25)
    assert net.settled(*sent) == [ACCEPTED] * 100


def test_balanced_leaves_a_receiver_without_credit_its_backlog_only(net: Net) -> None:
    """What waits for credit counts as busy."""
    at, to = net.peer(), net.peer()
    stuck, free = at.receiver("balanced.stuck"), at.receiver("balanced.stuck", 100)
    sender = to.ready_sender("balanced.stuck")
    for i in range(20):
        net.send(sender, Message(body=i))
        net.round_trips(to, at)
        for got in at.inbox(free):
            got.settle()
        at.round_trip()
    stuck.flow(10)
    net.round_trips(at)
    assert len(at.inbox(free)) == 19
    assert len(at.inbox(stuck)) == 1


@pytest.mark.parametrize(
    ("address", "copies"),
    [
        ("multicast", 2),
        ("multicast.a.b", 2),
        ("multicast/a", 2),
        ("multicasts", 1),
        ("orders.eu.news", 2),
        ("orders/eu/news", 2),
        ("orders.eu.de.news", 1),
        ("orders.news", 1),
        ("orders.open.closed", 1),
    ],
)
def test_prefixes_and_patterns_choose_the_treatment(net: Net, address: str, copies: int) -> None:
    """Token by token; `*` is one, a prefix ends at a token's end, the most specific one wins."""
    at, to = net.peer(), net.peer()
    receivers = [at.receiver(address, 1) for _ in range(2)]
    net.send(to.ready_sender(address), Message(body="x"))
    net.until(lambda: sum(len(at.inbox(r)) for r in receivers) >= copies, "messages")
    net.round_trips(to, at)
    assert sum(len(at.inbox(r)) for r in receivers) == copies


@pytest.mark.parametrize("address", ["orders.closed", "orders.a.closed", "/orders/a/b/closed", "closed/"])
def test_patterns_close_addresses(net: Net, address: str) -> None:
    """`#` is any number of tokens, also none."""
    link = net.peer().begin_receiver(address)
    net.until(lambda: link.state & Endpoint.REMOTE_CLOSED, "refusal")
    assert error_of(link)[0] == "amqp:not-found"


# ---- order ----


def test_messages_of_a_link_arrive_in_order(net: Net, name: str) -> None:
    """Short and long ones mixed."""
    at, to = net.peer(), net.peer()
    receiver = at.receiver(name, 500)
    sender = to.ready_sender(name)
    sizes = [(i * 7919) % 40_000 for i in range(200)]
    sent = [net.send(sender, Message(id=i, body=b"x" * size)) for i, size in enumerate(sizes)]
    arrived = at.take(receiver, 200)
    assert [(got.message.id, len(got.body)) for got in arrived] == list(enumerate(sizes))
    for got in arrived:
        got.settle()
    assert net.settled(*sent) == [ACCEPTED] * 200

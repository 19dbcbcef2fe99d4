"""Links routed through to a broker: what one end says, the other one says (AMQP 1.0, 2.6, 3.5, part 4)."""

import pytest
from proton import Condition, Link, Message, Terminus, symbol

from tests.support.peer import ACCEPTED, MODIFIED, REJECTED, RELEASED, Net, error_of, is_closed, is_open
from tests.support.running import Configuration, RunningRouter, address_of
from tests.support.servers.broker import Broker, is_coordinator

ROUTES = (
    """
listener { host: 127.0.0.1; port: 0; role: route-container; name: door }
linkRoute { prefix: queue; direction: in; containerId: broker }
linkRoute { prefix: queue; direction: out; containerId: broker }
linkRoute { pattern: *.by.name; direction: in; connection: door }
linkRoute { prefix: ext; direction: in; containerId: broker; addExternalPrefix: deep/ }
linkRoute { prefix: ext; direction: out; containerId: broker; delExternalPrefix: ext. }
linkRoute { prefix: $coordinator; direction: in; containerId: broker }
linkRoute { prefix: nobody; direction: in; containerId: away }
""".replace("; ", "\n ")
    .replace("{ ", "{\n ")
    .replace(" }", "\n}")
)


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(sections=ROUTES)


def refused(net: Net, link: Link) -> tuple[str, str | None]:
    net.until(lambda: is_closed(link), "refusal")
    return error_of(link)


# ---- in ----


def test_a_sender_reaches_the_broker(net: Net, broker: Broker) -> None:
    """With the broker's credit, a link name that says who, and the delivery tag as it was."""
    client = net.peer()
    sender = client.ready_sender("queue.a")
    assert sender.credit == broker.credit
    taken = broker.taken()
    assert taken.name == f"{sender.name}@{client.connection.container}"
    assert taken.remote_target.address == "queue.a"
    sent = net.send(sender, Message(body="x"))
    arrived = broker.take(taken)[0]
    assert arrived.body == "x"
    assert arrived.delivery.tag == sent.tag
    assert not arrived.delivery.settled
    arrived.delivery.update(ACCEPTED)
    arrived.delivery.settle()
    assert net.settled(sent) == [ACCEPTED]
    client.close_link(sender)
    net.until(lambda: broker.detached, "detach")
    assert broker.detached == [(taken, True)]


def test_every_outcome_is_the_brokers(net: Net, broker: Broker) -> None:
    """With what it says beside."""
    client = net.peer()
    sender = client.ready_sender("queue.a")
    for state in (REJECTED, RELEASED, MODIFIED):
        sent = net.send(sender, Message(body="x"))
        delivery = broker.take(broker.taken())[0].delivery
        if state == REJECTED:
            delivery.local.condition = Condition("test:no", "not this one")
        delivery.update(state)
        delivery.settle()
        assert net.settled(sent) == [state]
        if state == REJECTED:
            assert error_of(sent) == ("test:no", "not this one")


def test_message_bytes_stay_as_they_are(net: Net, broker: Broker) -> None:
    """Also those that the router would not understand; presettled ones, too, and empty ones are refused."""
    client = net.peer()
    sender = client.ready_sender("queue.a")
    for odd in (b"\x00\x53\x72\xa1\x04nope" + b"\x00\x53\x75\xa0\x01x", b"\xff"):
        net.send(sender, odd, settled=True)
        arrived = broker.take(broker.taken())[0]
        assert bytes(arrived.data) == odd
        assert arrived.delivery.settled
    sent = net.send(sender, b"")
    assert net.settled(sent) == [REJECTED]
    assert error_of(sent)[0] == "amqp:decode-error"


def test_a_long_message_streams(net: Net, broker: Broker) -> None:
    """And one that its sender gives up is given up at the broker."""
    client = net.peer()
    sender = client.ready_sender("queue.a")
    data = Message(body=b"z" * 3_000_000).encode()
    sent = net.stream(sender, data)
    arrived = broker.take(broker.taken())[0]
    assert bytes(arrived.data) == data
    assert arrived.delivery.tag == sent.tag
    arrived.delivery.update(ACCEPTED)
    arrived.delivery.settle()
    assert net.settled(sent) == [ACCEPTED]
    half = net.begin(sender, data[:300_000])
    net.until(lambda: len(broker.inbox(broker.taken())) == 1, "the first part")
    half.abort()
    net.until(lambda: broker.inbox(broker.taken())[0].aborted, "abort")
    broker.inbox(broker.taken()).clear()
    net.begin(sender, data[:300_000])
    net.until(lambda: len(broker.inbox(broker.taken())) == 1, "the first part")
    sender.close()
    net.until(lambda: broker.inbox(broker.taken())[0].aborted, "abort by detach")


def test_credit_is_the_brokers(net: Net, broker: Broker) -> None:
    """Neither more nor less, however much there is."""
    broker.credit = 2
    client = net.peer()
    sender = client.ready_sender("queue.a")
    assert sender.credit == 2
    for _ in range(3):
        net.send(sender, Message(body="x"), settled=True)
    taken = broker.taken()
    broker.take(taken, 2)
    net.round_trips(client, broker)
    assert broker.inbox(taken) == []
    taken.flow(1000)
    broker.take(taken)
    net.until(lambda: sender.credit == 999, "credit")


def test_the_brokers_drain_reaches_the_sender(net: Net, broker: Broker) -> None:
    """It is answered by the sender alone."""
    client = net.peer()
    sender = client.ready_sender("queue.a")
    taken = broker.taken()
    taken.drain(0)
    net.until(lambda: sender.drain_mode, "drain")
    net.round_trips(client, broker)
    assert taken.credit == broker.credit
    net.send(sender, Message(body="x"), settled=True)
    sender.drained()
    net.until(lambda: taken.credit == 0, "drained")
    broker.take(taken)
    taken.drain_mode = False
    taken.flow(3)
    net.until(lambda: sender.credit == 3, "credit after the drain")
    assert not sender.drain_mode


# ---- out ----


def test_a_receiver_reaches_the_broker(net: Net, broker: Broker) -> None:
    """Its credit is the credit of the broker, and its drain the broker's to answer."""
    client = net.peer()
    receiver = client.receiver("queue.b", 5)
    given = broker.given()
    assert given.remote_source.address == "queue.b"
    net.until(lambda: given.credit == 5, "credit")
    sent = net.send(given, Message(body="y"))
    arrived = client.take(receiver)[0]
    assert arrived.delivery.tag == sent.tag
    receiver.drain(2)
    net.until(lambda: given.drain_mode and given.credit == 6, "drain")
    net.send(given, Message(body="z"), settled=True)
    given.drained()
    client.take(receiver)
    net.until(lambda: receiver.credit == 0, "drained")
    receiver.drain_mode = False
    receiver.flow(1)
    net.until(lambda: given.credit == 1, "credit")
    arrived.delivery.update(RELEASED)
    arrived.delivery.settle()
    assert net.settled(sent) == [RELEASED]


def test_receiver_settles_second(net: Net, broker: Broker) -> None:
    """The modes are told as they are, and each step is the other end's."""
    client = net.peer()
    receiver = client.receiver("queue.b", 5, rcv_settle_mode=1)
    given = broker.given()
    assert given.remote_rcv_settle_mode == 1
    net.until(lambda: given.credit == 5, "credit")
    sent = net.send(given, Message(body="y"))
    arrived = client.take(receiver)[0].delivery
    arrived.update(ACCEPTED)
    net.until(lambda: sent.remote_state == ACCEPTED, "outcome")
    assert not arrived.settled
    assert not sent.settled
    sent.settle()
    net.until(lambda: arrived.settled, "settlement")
    arrived.settle()


def test_termini_arrive_whole(net: Net, broker: Broker) -> None:
    """What a broker makes of a filter or of an expiry is between it and its client."""
    client = net.peer()
    link = client.default_session.receiver("whole")
    link.source.address = "queue.c"
    link.source.filter.put_dict({symbol("selector"): "a = 1"})
    link.source.durability = Terminus.DELIVERIES
    link.source.expiry_policy = Terminus.EXPIRE_NEVER
    link.source.timeout = 77
    link.source.distribution_mode = Terminus.DIST_MODE_COPY
    link.source.capabilities.put_object(symbol("shared"))
    link.source.outcomes.put_object(symbol("amqp:accepted:list"))
    link.source.properties.put_dict({symbol("lifetime"): 1})
    link.target.address = "mine"
    link.properties = {symbol("who"): "me"}
    link.max_message_size = 12345
    link.open()
    net.until(lambda: is_open(link), "attach")
    there = broker.given()
    source = there.remote_source
    assert source.durability == Terminus.DELIVERIES
    assert source.expiry_policy == Terminus.EXPIRE_NEVER
    assert source.timeout == 77
    assert source.distribution_mode == Terminus.DIST_MODE_COPY
    for name in ("filter", "capabilities", "outcomes", "properties"):
        assert getattr(source, name).encode() == getattr(link.source, name).encode(), name
    assert there.remote_target.address == "mine"
    assert there.remote_properties == {"who": "me"}
    assert there.remote_max_message_size == 12345
    assert link.remote_source.durability == Terminus.DELIVERIES


# ---- addresses ----


def test_the_brokers_address_may_be_another(net: Net, broker: Broker) -> None:
    """What is put in front there is taken away in the answer, and the other way round."""
    client = net.peer()
    sender = client.ready_sender("ext.x")
    assert broker.taken().remote_target.address == "deep/ext.x"
    assert sender.remote_target.address == "ext.x"
    receiver = client.receiver("ext.x")
    assert broker.given().remote_source.address == "x"
    assert receiver.remote_source.address == "ext.x"


def test_a_pattern_leads_to_a_connection_by_name(net: Net, broker: Broker) -> None:
    """The listener's name, in the direction of the route only."""
    client = net.peer()
    client.ready_sender("one.by.name")
    assert broker.taken().remote_target.address == "one.by.name"
    receiver = client.receiver("one.by.name")
    assert len(broker.attached) == 1
    client.close_link(receiver)


# ---- no way ----


def test_without_a_broker_there_is_no_route(net: Net, broker: Broker) -> None:
    """The attach is refused, and says why."""
    assert refused(net, net.peer().begin_sender("nobody.x"))[0] == "qd:no-route-to-dest"


def test_the_brokers_refusal_is_passed_on(net: Net, broker: Broker) -> None:
    """With its words."""
    broker.refuse = Condition("test:full", "no more links")
    client = net.peer()
    assert refused(net, client.begin_sender("queue.a")) == ("test:full", "no more links")
    assert refused(net, client.begin_receiver("queue.a")) == ("test:full", "no more links")


def test_detach_and_close_are_told_apart(net: Net, broker: Broker) -> None:
    """With the error, in both directions."""
    client = net.peer()
    sender = client.ready_sender("queue.a")
    sender.detach()
    net.until(lambda: broker.detached, "detach")
    assert broker.detached == [(broker.attached[0], False)]
    other = client.ready_sender("queue.a")
    broker.taken().condition = Condition("test:over", "that is all")
    broker.taken().close()
    assert refused(net, other) == ("test:over", "that is all")


def test_a_lost_broker_is_told(net: Net, broker: Broker) -> None:
    """What it had is modified, and the link closed; what its client had unsettled is gone with it."""
    client = net.peer()
    sender = client.ready_sender("queue.a")
    sent = net.send(sender, Message(body="x"))
    broker.take(broker.taken())
    broker.drop()
    assert refused(net, sender)[0] == "qd:routed-link-lost"
    assert sent.remote_state in (MODIFIED, RELEASED)
    assert refused(net, client.begin_sender("queue.a"))[0] == "qd:no-route-to-dest"


def test_a_lost_client_is_told(net: Net, broker: Broker) -> None:
    """Its link is closed at the broker."""
    client = net.peer()
    client.receiver("queue.b", 5)
    client.drop()
    net.until(lambda: broker.detached, "detach")


def test_links_are_spread_over_brokers(net: Net, broker: Broker, router: RunningRouter) -> None:
    """One after the other."""
    second = Broker(net, address_of(router.urls[1])).open()
    second.round_trip()
    client = net.peer()
    for _ in range(4):
        client.ready_sender("queue.a")
    assert len(broker.attached) == len(second.attached) == 2


# ---- transactions ----


def state(*txn: object) -> list[object]:
    return list(txn)


def test_a_transaction_is_the_brokers(net: Net, broker: Broker) -> None:
    """Declared, used by transfers and by dispositions, discharged."""
    client = net.peer()
    control = client.coordinator()
    net.until(lambda: is_open(control) and control.credit > 0, "coordinator")
    assert is_coordinator(broker.taken())
    declare = net.send(control, Message(body="declare"))
    there = broker.take(broker.taken())[0].delivery
    there.local.data = [b"txn-1"]
    there.update(0x33)
    there.settle()
    assert net.settled(declare) == [0x33]
    assert declare.remote.data == [b"txn-1"]

    sender = client.ready_sender("queue.a")
    net.tags += 1
    sent = sender.delivery(f"tag-{net.tags}")
    sent.local.data = [b"txn-1"]
    sent.update(0x34)
    sender.stream(Message(body="in it").encode())
    sender.advance()
    there = broker.take(broker.taken())[0].delivery
    assert there.remote_state == 0x34
    assert there.remote.data == [b"txn-1"]
    there.local.data = [b"txn-1", None]
    there.update(0x34)
    net.until(lambda: sent.remote_state == 0x34, "provisional outcome")
    there.settle()
    net.until(lambda: sent.settled, "settlement")

    receiver = client.receiver("queue.b", 5)
    given = broker.given()
    net.until(lambda: given.credit == 5, "credit")
    sent = net.send(given, Message(body="take it"))
    arrived = client.take(receiver)[0].delivery
    arrived.local.data = [b"txn-1"]
    arrived.update(0x34)
    net.until(lambda: sent.remote_state == 0x34, "state")
    assert sent.remote.data == [b"txn-1"]
    sent.settle()
    net.until(lambda: arrived.settled, "settlement by the broker")


def test_a_broker_that_says_no_address_is_taken_all_the_same(net: Net, broker: Broker) -> None:
    """So it is told, by both directions: the clients know where they are."""
    broker.blank = True
    client = net.peer()
    sender = client.ready_sender("queue.a")
    receiver = client.receiver("queue.a", 3)
    net.until(lambda: is_open(receiver) and broker.given().credit == 3, "the receiver's credit")
    assert not receiver.remote_source.address
    assert not sender.remote_target.address


def test_a_dynamic_source_is_routed_by_the_address_of_its_node(net: Net, broker: Broker) -> None:
    """The broker makes the node, and says what it is called."""
    broker.node = "made"
    client = net.peer()
    link = client.session().receiver("wish")
    link.source.dynamic = True
    link.source.properties.put_object({symbol("x-opt-qd.address"): "queue.b"})
    link.open()
    net.until(lambda: is_open(link), "the answer")
    assert link.remote_source.address == "made"
    assert broker.given().remote_source.dynamic


def test_a_session_that_a_broker_ends_is_one_clients_alone(net: Net, broker: Broker) -> None:
    """Some refuse a link so. Other sessions, of this client and of others, have their own."""
    client, other = net.peer(), net.peer()
    links = [other.ready_sender("queue.a"), client.ready_sender("queue.a", client.session())]
    lost = client.ready_sender("queue.a")
    broker.ending = True
    refusal = client.begin_sender("queue.bad")
    assert refused(net, refusal)[0] == refused(net, lost)[0] == "qd:routed-link-lost"
    for link in links:
        net.send(link, Message(body="still there"))
    net.until(lambda: len(broker.arrivals) == len(links), "messages on the other links")

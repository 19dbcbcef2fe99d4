"""Credit, delivery-count and drain of links, in both directions (AMQP 1.0 parts 2.6.7 to 2.6.10)."""

import pytest

from tests.support.beds.conformance import CAPACITY, Connect
from tests.support.clients.frame_client import FrameClient, disposition, flow, message, transfer
from tests.support.clients.octets import ACCEPTED, AMQP_HEADER, DETACH, FLOW, TRANSFER, WRAP, Frame, said, state
from tests.support.running import RunningRouter

PLENTY = 100


def transfers(client: FrameClient) -> list[Frame]:
    """Those that have come by now."""
    return [got for got in client.round_trip() if got.code == TRANSFER]


def feed(connect: Connect, name: str, number: int) -> FrameClient:
    """A client that has sent so many messages; the core has them."""
    client = connect()
    client.sender(name)
    client.write(*(transfer(one, message(str(one))) for one in range(number)))
    client.round_trip()
    return client


# ---- the router sends ----


def test_attach_of_a_sender_says_its_delivery_count(connect: Connect, name: str) -> None:
    """2.7.3: initial-delivery-count must not be null there."""
    client = connect()
    assert client.receiver(name)["count"] == 0


def test_no_transfer_before_there_is_credit(connect: Connect, name: str) -> None:
    """2.6.7: link-credit begins at zero."""
    at = connect()
    at.receiver(name)
    feed(connect, name, 3)
    assert transfers(at) == []
    at.write(flow(handle=0, count=0, credit=2))
    assert len(transfers(at)) == 2


def test_credit_follows_the_formula(connect: Connect, name: str) -> None:
    """2.6.7: delivery-count and link-credit of the receiver less the sender's delivery-count."""
    at = connect()
    at.receiver(name, credit=5)
    feed(connect, name, 20)
    assert len(transfers(at)) == 5
    for count, credit, expected in ((0, 5, 0), (2, 3, 0), (3, 4, 2), (0, 8, 1), (8, 0, 0), (8, 2, 2)):
        at.write(flow(next_in=5, handle=0, count=count, credit=credit))
        assert len(transfers(at)) == expected, (count, credit)


def test_credit_is_no_sum_of_flows(connect: Connect, name: str) -> None:
    """2.6.7: each FLOW says all that there is; zero stops the link."""
    at = connect()
    at.receiver(name)
    at.write(flow(handle=0, count=0, credit=9), flow(handle=0, count=0, credit=0), flow(handle=0, count=0, credit=2))
    feed(connect, name, 5)
    assert len(transfers(at)) == 2
    at.write(flow(next_in=2, handle=0, count=2, credit=9), flow(next_in=2, handle=0, count=2, credit=0, echo=True))
    at.round_trip()


def test_stopping_a_link_with_echo_tells_when_it_has_stopped(connect: Connect, name: str) -> None:
    """2.6.10: behind the answer no TRANSFER comes."""
    at = connect()
    at.receiver(name, credit=PLENTY)
    to = feed(connect, name, 3)
    at.take(3)
    at.write(flow(handle=0, count=3, credit=0, echo=True))
    got = at.expect(FLOW, 0, handle=at.handles[0, 0])
    assert (got["count"], got["credit"]) == (3, 0)
    to.write(transfer(3))
    to.round_trip()
    assert transfers(at) == []


@pytest.mark.parametrize("credit", [2**31 - 1, 2**31, WRAP - 1])
def test_the_most_credit_that_there_is(connect: Connect, name: str, credit: int) -> None:
    """2.7.4: a uint; it falls with each delivery, and may be said again."""
    at = connect()
    at.receiver(name, credit=credit)
    to = feed(connect, name, 3)
    assert len(transfers(at)) == 3
    at.write(flow(next_in=3, handle=0, count=1, credit=credit, echo=True))
    got = at.expect(FLOW, 0, handle=at.handles[0, 0])
    assert (got["count"], got["credit"]) == (3, credit - 2)
    to.write(transfer(3))
    to.round_trip()
    assert len(transfers(at)) == 1


def test_a_flow_without_delivery_count_counts_from_the_first(connect: Connect, name: str) -> None:
    """2.6.7: its receiver had not yet seen the ATTACH of the sender."""
    at = connect()
    at.receiver(name)
    at.write(flow(handle=0, credit=2))
    feed(connect, name, 6)
    assert len(transfers(at)) == 2
    at.write(flow(handle=0, credit=5))
    assert len(transfers(at)) == 3


def test_flow_in_the_same_write_as_attach(connect: Connect, name: str) -> None:
    """2.6.7: also with BEGIN: credit, and the wish to drain it, are there when the link is."""
    at = connect(0)
    attach = at.attaching(name, 0, True)
    at.write(at.beginning(), attach, flow(next_in=None, handle=0, credit=2))
    at.begun()
    at.attached(0)
    to = connect()
    to.sender(name)
    to.write(transfer(0), transfer(1), transfer(2))
    to.round_trip()
    assert len(transfers(at)) == 2


def test_drain_in_the_same_write_as_attach(connect: Connect, name: str) -> None:
    """2.6.8: answered behind the router's ATTACH."""
    at = connect(0)
    at.write(at.beginning(), at.attaching(name, 0, True), flow(next_in=None, handle=0, credit=2, drain=True))
    at.begun()
    at.attached(0)
    got = at.expect(FLOW, 0, handle=at.handles[0, 0])
    assert (got["count"], got["credit"], got["drain"]) == (2, 0, True)


def test_everything_in_one_write_delivers(router: RunningRouter, connect: Connect, name: str) -> None:
    """2.4.1: header, OPEN, BEGIN, two ATTACHes and FLOW; then a message to itself."""
    client = FrameClient(router.address)
    with client.socket:
        links = client.attaching(name, 0, True) + flow(next_in=None, handle=0, credit=2)
        client.write(AMQP_HEADER + client.opening + client.beginning() + links + client.attaching(name, 1, False))
        client.answer_to_open()
        client.begun()
        client.attached(0)
        client.attached(1)
        client.expect(FLOW, handle=client.handles[0, 1])
        client.write(transfer(0, handle=1))
        client.take(1)


# ---- drain ----


def test_drain_without_messages_uses_up_the_credit(connect: Connect, name: str) -> None:
    """2.6.7: delivery-count goes ahead by it, and a FLOW says so."""
    at = connect()
    at.receiver(name)
    at.write(flow(handle=0, count=0, credit=10, drain=True))
    got = at.expect(FLOW, 0, handle=at.handles[0, 0])
    assert (got["count"], got["credit"], got["drain"]) == (10, 0, True)
    feed(connect, name, 2)
    assert transfers(at) == []
    at.write(flow(handle=0, count=10, credit=1, drain=False))
    assert len(transfers(at)) == 1


def test_drain_sends_what_there_is_first(connect: Connect, name: str) -> None:
    """2.6.7: then the rest of the credit is gone."""
    at = connect()
    at.receiver(name)
    feed(connect, name, 3)
    at.write(flow(handle=0, count=0, credit=10, drain=True))
    frames = [at.expect(TRANSFER, 0) for _ in range(3)]
    assert [got["id"] for got in frames] == [0, 1, 2]
    got = at.expect(FLOW, 0, handle=at.handles[0, 0])
    assert (got["count"], got["credit"], got["drain"]) == (10, 0, True)
    assert [one for one in at.passed if one.code == TRANSFER] == []


def test_drain_of_less_than_there_is(connect: Connect, name: str) -> None:
    """2.6.7: all credit is used by messages; nothing is lost."""
    at = connect()
    at.receiver(name)
    feed(connect, name, 5)
    at.write(flow(handle=0, count=0, credit=2, drain=True))
    assert len(transfers(at)) == 2
    at.write(flow(next_in=2, handle=0, count=2, credit=PLENTY))
    assert len(transfers(at)) == 3


def test_credit_counts_what_waits_for_the_window(connect: Connect, name: str) -> None:
    """2.5.6, 2.6.7: one credit is one message, however long the window was shut."""
    at = connect(0)
    at.begin(in_window=0)
    at.receiver(name)
    at.write(flow(handle=0, count=0, credit=1, in_window=0))
    feed(connect, name, 5)
    assert transfers(at) == []
    at.write(flow(in_window=PLENTY))
    assert len(transfers(at)) == 1
    at.write(flow(next_in=1, handle=0, count=1, credit=2))
    assert len(transfers(at)) == 2


def test_credit_that_is_taken_back_while_the_window_is_shut_is_gone(connect: Connect, name: str) -> None:
    """2.6.7: what has not left needs credit when it leaves; another link of the session goes on."""
    at = connect(0)
    at.begin(in_window=0)
    for handle in range(2):
        at.receiver(f"{name}.{handle}", handle)
        at.write(flow(handle=handle, count=0, credit=3, in_window=0))
        feed(connect, f"{name}.{handle}", 3)
    assert transfers(at) == []
    at.write(flow(handle=0, count=0, credit=0, in_window=0), flow(in_window=PLENTY))
    assert [got["handle"] for got in transfers(at)] == [at.handles[0, 1]] * 3
    at.write(flow(next_in=3, handle=0, count=0, credit=2))
    assert [got["handle"] for got in transfers(at)] == [at.handles[0, 0]] * 2


def test_drain_waits_for_the_window(connect: Connect, name: str) -> None:
    """2.5.6, 2.6.7: messages that the window holds up are sent before the rest of the credit is gone."""
    at = connect(0)
    at.begin(in_window=1)
    at.receiver(name)
    feed(connect, name, 3)
    at.write(flow(handle=0, count=0, credit=10, drain=True, in_window=1))
    passed = at.round_trip()
    assert len([got for got in passed if got.code == TRANSFER]) == 1
    assert all(got["count"] in (None, 1) for got in passed if got.code == FLOW)
    at.write(flow(next_in=1, in_window=PLENTY))
    assert [at.expect(TRANSFER, 0)["id"] for _ in range(2)] == [1, 2]
    got = at.expect(FLOW, 0, handle=at.handles[0, 0])
    assert (got["count"], got["credit"], got["drain"]) == (10, 0, True)


def test_drain_waits_for_the_rest_of_a_message(connect: Connect, name: str) -> None:
    """2.6.7: its credit is used; only what is left is given back, and the message arrives whole."""
    at, to = connect(), connect()
    at.receiver(name, credit=5)
    to.sender(name)
    text = message("p" * 15_000)
    to.write(transfer(0, text, more=True), *(transfer(None, text, more=True) for _ in range(10)))
    parts = at.frames(1)
    at.write(flow(next_in=1, handle=0, count=1, credit=4, drain=True))
    parts += [got for got in at.round_trip() if got.code == TRANSFER]
    to.write(transfer(None, text))
    while parts[-1]["more"]:
        parts += at.frames(1)
    assert b"".join(got.payload for got in parts) == 12 * text
    at.write(flow(next_in=len(parts), handle=0, count=5, credit=1, drain=False))
    to.write(transfer(1))
    at.take(1)


def test_drain_without_credit(connect: Connect, name: str) -> None:
    """2.6.7: there is nothing to use up; the link goes on."""
    at = connect()
    at.receiver(name)
    at.write(flow(handle=0, count=0, credit=0, drain=True))
    at.round_trip()
    feed(connect, name, 1)
    at.write(flow(handle=0, count=0, credit=1, drain=False))
    assert len(transfers(at)) == 1


def test_a_timed_get_is_answered_either_way(connect: Connect, name: str) -> None:
    """2.6.8: one credit, and then drain: a message or the end of the credit, whichever comes first."""
    at, to = connect(), connect()
    at.receiver(name)
    to.sender(name)
    written = sent = 0
    for count in range(20):
        if written < count // 2:
            to.write(transfer(written, message(str(written))))
            written += 1
        at.write(flow(next_in=sent, handle=0, count=count, credit=1))
        at.write(flow(next_in=sent, handle=0, count=count, credit=1, drain=True))
        got = at.read()
        while got.code not in (TRANSFER, FLOW) or (got.code == FLOW and got["count"] != count + 1):
            got = at.read()
        if got.code == TRANSFER:
            at.write(disposition(got["id"], state=state(ACCEPTED)))
            assert to.settled(sent, sent) == [state(ACCEPTED)]
            sent += 1


# ---- the router receives ----


@pytest.mark.parametrize("count", [1000, 2**31 - 3, WRAP - 3])
def test_the_senders_delivery_count_is_where_credit_begins(connect: Connect, name: str, count: int) -> None:
    """2.6.7: the router's FLOWs start from initial-delivery-count and go on behind the wrap."""
    at, to = connect(), connect(narrow=True)
    at.receiver(name, credit=PLENTY)
    first = to.sender(name, count=count)
    assert (first["count"], first["credit"]) == (count, CAPACITY)
    for number in range(3 * CAPACITY):
        to.write(transfer(number))
        (arrived,) = at.take(1)
        at.write(disposition(arrived["id"], state=state(ACCEPTED)))
        to.settled(number, number)
    to.write(flow(handle=0, count=(count + 3 * CAPACITY) % WRAP, credit=0, echo=True))
    while True:
        got = to.expect(FLOW, 0, handle=to.handles[0, 0])
        if got["count"] == (count + 3 * CAPACITY) % WRAP and got["credit"] == CAPACITY:
            break


def test_the_limit_of_deliveries_never_falls(connect: Connect, name: str) -> None:
    """2.6.7: what the router has granted stays granted, though the message is settled only later."""
    at, to = connect(), connect(narrow=True)
    at.receiver(name, credit=PLENTY)
    got = to.sender(name)
    limit = got["count"] + got["credit"]
    for number in range(4 * CAPACITY):
        while number == limit:
            got = to.expect(FLOW, 0, handle=to.handles[0, 0])
            assert got["count"] + got["credit"] >= limit
            limit = got["count"] + got["credit"]
        to.write(transfer(number))
        (arrived,) = at.take(1)
        at.write(disposition(arrived["id"], state=state(ACCEPTED)))


def test_a_sender_may_use_up_its_credit_without_messages(connect: Connect, name: str) -> None:
    """2.6.7: only the sender moves delivery-count; the router follows, and grants again."""
    at, to = connect(), connect(narrow=True)
    at.receiver(name, credit=PLENTY)
    to.sender(name)
    to.write(flow(handle=0, count=CAPACITY, credit=0, echo=True))
    got = to.expect(FLOW, 0, handle=to.handles[0, 0])
    assert got["count"] == CAPACITY
    assert got["credit"] <= CAPACITY
    to.round_trip()


def test_available_of_a_sender_is_heard_out(connect: Connect, name: str) -> None:
    """2.6.7: any number, also when nothing comes of it."""
    at, to = connect(), connect()
    at.receiver(name, credit=1)
    to.sender(name)
    to.write(flow(handle=0, count=0, credit=250, available=WRAP - 1))
    to.write(transfer(0))
    at.take(1)


def test_credit_comes_back_for_an_aborted_delivery(connect: Connect, name: str) -> None:
    """2.6.14: it has used one; otherwise a link that aborts would run dry."""
    at, to = connect(), connect(narrow=True)
    at.receiver(name, credit=PLENTY)
    got = to.sender(name)
    limit = got["credit"]
    for number in range(3 * CAPACITY):
        while number == limit:
            got = to.expect(FLOW, 0, handle=to.handles[0, 0])
            limit = got["count"] + got["credit"]
        to.write(transfer(number, aborted=True))


def test_credit_of_two_links_is_their_own(connect: Connect, name: str) -> None:
    """2.6.7: in one session; the one without does not hold up the other."""
    at = connect()
    at.receiver(f"{name}.0", 0)
    at.receiver(f"{name}.1", 1, credit=1)
    feed(connect, f"{name}.0", 1)
    feed(connect, f"{name}.1", 1)
    (got,) = transfers(at)
    assert got["handle"] == at.handles[0, 1]


def test_a_link_that_comes_again_begins_anew(connect: Connect, name: str) -> None:
    """2.6.7: credit and delivery-count are those of the new ATTACH."""
    at = connect()
    at.receiver(name, credit=3)
    feed(connect, name, 2)
    assert len(transfers(at)) == 2
    at.write(disposition(0, 1, state=state(ACCEPTED)), said(DETACH, handle=0, closed=True))
    at.expect(DETACH, 0)
    assert at.receiver(name)["count"] == 0
    feed(connect, name, 2)
    assert transfers(at) == []
    at.write(flow(next_in=2, handle=0, count=0, credit=1))
    (got,) = transfers(at)
    assert got["id"] == 2

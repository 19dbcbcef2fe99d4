"""Links that lead through to a broker: what either end says, the other one reads (AMQP 1.0 parts 2.6, 2.7 and 4)."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.beds.conformance import Connect
from tests.support.beds.queue_routes import queue_routes
from tests.support.clients.frame_broker import FrameBroker
from tests.support.clients.frame_client import MESSAGE, FrameClient, disposition, flow, ids_of, transfer
from tests.support.clients.octets import (
    ACCEPTED,
    DETACH,
    DISPOSITION,
    FLOW,
    MODIFIED,
    RECEIVED,
    REJECTED,
    SOURCE,
    TRANSFER,
    WRAP,
    Described,
    Encoded,
    Symbol,
    Uint,
    Ulong,
    encode,
    said,
    state,
)
from tests.support.running import Configuration, RunningRouter, address_of, until

ERROR = 0x1D
SECOND = 1


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """Addresses below `queue` are the broker's."""
    return queue_routes("broker", "workers: 2")


@pytest.fixture
def broker(router: RunningRouter) -> Iterator[FrameBroker]:
    """Connected, when nobody's route leads to another test's any more."""
    until(lambda: router.core["connections_admitted"] <= 2, "end of all but the bystander's connections")
    with FrameBroker(address_of(router.urls[1]), "broker") as broker:
        broker.round_trip(channel=100)
        yield broker


class Routed:
    """A client's link to the broker, with credit; ``channel`` is the broker's session."""

    def __init__(self, connect: Connect, broker: FrameBroker, sends: bool, **fields: Any) -> None:
        self.client: FrameClient = connect()
        self.broker = broker
        self.client.write(self.client.attaching("queue.a", 0, not sends, **fields))
        self.attach = broker.answer(5)
        self.channel = self.attach.channel
        self.client.attached(0)


@pytest.fixture
def sends(connect: Connect, broker: FrameBroker) -> Routed:
    """The client sends to the broker, which has given ten credits."""
    routed = Routed(connect, broker, True)
    broker.write(flow(routed.channel, handle=5, count=0, credit=10))
    routed.client.expect(FLOW, 0, credit=10)
    return routed


@pytest.fixture
def receives(connect: Connect, broker: FrameBroker) -> Routed:
    """The broker sends to the client, which has given ten credits."""
    routed = Routed(connect, broker, False)
    routed.client.write(flow(handle=0, count=0, credit=10))
    broker.expect(FLOW, routed.channel, credit=10)
    return routed


def test_a_broker_whose_answer_is_no_text_is_refused(connect: Connect, broker: FrameBroker) -> None:
    """1.6.20: the broker's link ends, and its client learns why; their connections and sessions go on."""
    client = connect()
    client.write(client.attaching("queue.a", 0, True))
    source = Described(Ulong(SOURCE), [Encoded(b"\xa1\x02q\xff")])
    channel = broker.answer(5, source=source).channel
    for end, session in ((broker, channel), (client, 0)):
        condition, description = end.expect(DETACH, session)["error"].value[:2]
        assert condition == "amqp:decode-error"
        assert r'the address of the source is not UTF-8: "q\xff"' in description
        end.write(said(DETACH, session, handle=5 if end is broker else 0, closed=True))
    client.write(client.attaching("queue.b", 1, False))
    broker.answer(6)
    client.attached(1)


def test_an_error_that_is_no_text_is_passed_on_with_escapes(receives: Routed) -> None:
    error = Described(Ulong(ERROR), [Encoded(b"\xa3\x02a\xff"), Encoded(b"\xa1\x05K\xf6ln ")])
    receives.broker.write(said(DETACH, receives.channel, handle=5, closed=True, error=error))
    told = receives.client.expect(DETACH, 0)["error"].value
    assert [str(one) for one in told[:2]] == [r"a\xff", r"K\xf6ln "]


STATES = {
    "rejected": state(REJECTED, Described(Ulong(ERROR), [Symbol("app:no"), "d" * 3000, {Symbol("i"): [None]}])),
    "modified": state(MODIFIED, None, True, {Symbol("x-opt-a"): "a" * 3000}),
    "declared": state(0x33, b"txn"),
    "transactional": state(0x34, b"txn", Described(Ulong(ACCEPTED), [])),
    "of nobody's": state(0x29A, "text", [None, True], {Symbol("a"): b"b"}),
    "of nobody's, at length": state(0x29A, "l" * 3000),
    "of nobody's, with a long number": state(0x1234_5678_9ABC_DEF0, "text"),
    "by symbol": Described(Symbol("com.example:done:list"), ["text"]),
    "of no list": Described(Ulong(0x29A), {Symbol("a"): "map"}),
}
every_state = pytest.mark.parametrize("outcome", STATES.values(), ids=STATES)
WIDE = pytest.mark.parametrize("wide", [False, True], ids=["short", "long"])


@WIDE
@every_state
def test_an_outcome_is_its_own_octets(sends: Routed, outcome: Described, wide: bool) -> None:
    """3.4, 4.5: the router neither knows nor changes what the broker says of a delivery."""
    octets = encode(outcome, wide)
    sends.client.write(transfer(0))
    (arrived,) = sends.broker.take(1, 5, sends.channel)
    sends.broker.write(disposition(arrived["id"], channel=sends.channel, state=Encoded(octets)))
    got = sends.client.expect(DISPOSITION, 0)
    assert got["settled"]
    assert got.octets("state") == octets


@WIDE
@every_state
def test_a_state_of_a_transfer_is_its_own_octets(sends: Routed, outcome: Described, wide: bool) -> None:
    """2.7.5, 4.4: a transaction's number on each message, for one."""
    octets = encode(outcome, wide)
    sends.client.write(transfer(0, state=Encoded(octets)))
    (arrived,) = sends.broker.take(1, 5, sends.channel)
    assert arrived.octets("state") == octets
    sends.broker.write(disposition(arrived["id"], channel=sends.channel, state=state(ACCEPTED)))
    assert sends.client.settled(0, 0) == [state(ACCEPTED)]


@every_state
def test_a_state_of_what_the_broker_sends_is_its_own_octets(receives: Routed, outcome: Described) -> None:
    """2.7.6: in the other direction, first on a TRANSFER, then by DISPOSITION of either end."""
    octets = encode(outcome)
    receives.broker.write(transfer(0, channel=receives.channel, handle=5, state=Encoded(octets)))
    (arrived,) = receives.client.take(1)
    assert arrived.octets("state") == octets
    receives.client.write(disposition(arrived["id"], settled=False, state=Encoded(octets)))
    got = receives.broker.expect(DISPOSITION, receives.channel, receiver=True)
    assert (got["settled"] or False, got.octets("state")) == (False, octets)
    receives.broker.write(disposition(0, channel=receives.channel, receiver=False, state=Encoded(octets)))
    got = receives.client.expect(DISPOSITION, 0, receiver=False)
    assert (got["settled"], got.octets("state")) == (True, octets)


@pytest.mark.parametrize("number", [0, 255, 0x12345601, WRAP - 1])
def test_tag_and_format_pass(sends: Routed, number: int) -> None:
    """2.7.5: as they were, of any payload."""
    for size in (1, 4, 32):
        tag = bytes(range(size))
        sends.client.write(transfer((1, 4, 32).index(size), b"\xff any \0", tag=tag, format=number))
        (arrived,) = sends.broker.take(1, 5, sends.channel)
        assert (arrived["tag"], arrived["format"], arrived.payload) == (tag, number, b"\xff any \0")


@pytest.fixture
def both(connect: Connect, broker: FrameBroker) -> Routed:
    """A routed link whose receiver settles second."""
    routed = Routed(connect, broker, True, rcv_mode=SECOND)
    broker.write(flow(routed.channel, handle=5, count=0, credit=10))
    routed.client.expect(FLOW, 0, credit=10)
    return routed


def test_settle_modes_pass(both: Routed) -> None:
    """2.7.3: they are agreed upon by the ends; exactly once through the router."""
    assert both.attach["rcv_mode"] == SECOND
    both.client.write(transfer(0), transfer(1))
    both.broker.take(2, 5, both.channel)
    both.broker.write(disposition(0, 1, channel=both.channel, settled=False, state=state(ACCEPTED)))
    heard: set[int] = set()
    while heard != {0, 1}:
        got = both.client.expect(DISPOSITION, 0, receiver=True)
        assert not got["settled"]
        heard |= set(ids_of(got))
    both.client.write(disposition(0, 1, receiver=False, state=state(ACCEPTED)))
    heard.clear()
    while heard != {0, 1}:
        got = both.broker.expect(DISPOSITION, both.channel, receiver=False)
        assert (got["settled"], got["state"]) == (True, state(ACCEPTED))
        heard |= set(ids_of(got))


@pytest.mark.parametrize("credit", [1, 250, 2**31 - 1, 2**31, WRAP - 1])
def test_credit_is_the_brokers(connect: Connect, broker: FrameBroker, credit: int) -> None:
    """2.6.7: all that it gives, up to what no client uses up, and no more."""
    routed = Routed(connect, broker, True)
    broker.write(flow(routed.channel, handle=5, count=0, credit=credit))
    assert min(credit, 2**31 - 1) <= routed.client.expect(FLOW, 0)["credit"] <= credit
    routed.client.write(transfer(0))
    broker.take(1, 5, routed.channel)


def test_credit_that_the_receiver_takes_back_is_taken_from_the_sender(sends: Routed) -> None:
    """2.6.7: also what its sender has used meanwhile counts; it waits for the next credit."""
    sends.broker.write(flow(sends.channel, handle=5, count=0, credit=3))
    sends.client.expect(FLOW, 0, credit=3)
    sends.client.write(*(transfer(number) for number in range(5)))
    assert len(sends.broker.take(3, 5, sends.channel)) == 3
    sends.broker.write(flow(sends.channel, handle=5, count=3, credit=1))
    assert [one["id"] for one in sends.broker.take(1, 5, sends.channel)] == [3]
    sends.broker.write(flow(sends.channel, handle=5, count=4, credit=4))
    sends.broker.take(1, 5, sends.channel)
    got = sends.client.expect(FLOW, 0, credit=3)
    assert got["count"] == 5
    sends.broker.write(flow(sends.channel, handle=5, count=5, credit=0))
    sends.client.expect(FLOW, 0, credit=0)
    sends.broker.write(flow(sends.channel, handle=5, count=5, credit=2, drain=True))
    got = sends.client.expect(FLOW, 0, drain=True)
    assert (got["count"], got["credit"]) == (5, 2)


def test_no_credit_is_left_of_what_the_receiver_takes_back(sends: Routed) -> None:
    """2.6.7: a sender that uses more than it was ever given hears that it has broken its limit."""
    sends.broker.write(flow(sends.channel, handle=5, count=0, credit=0))
    sends.client.expect(FLOW, 0, credit=0)
    sends.client.write(*(transfer(number) for number in range(11)))
    got = sends.client.expect(DETACH, 0)
    assert got["error"].value[0] == "amqp:link:transfer-limit-exceeded"


@pytest.mark.parametrize("count", [0, 2**31 - 2, WRAP - 2])
def test_the_brokers_delivery_count_wraps(connect: Connect, broker: FrameBroker, count: int) -> None:
    """2.6.7: as do its delivery-ids; the client's numbers are the router's own."""
    client = connect()
    client.write(client.attaching("queue.a", 0, True))
    channel = broker.answer(5, count=count).channel
    client.attached(0)
    client.write(flow(handle=0, count=0, credit=5))
    assert broker.expect(FLOW, channel)["count"] == count
    ids = [(WRAP - 3 + number) % WRAP for number in range(5)]
    broker.write(*(transfer(number, channel=channel, handle=5, tag=b"%d" % number) for number in ids))
    assert [got["id"] for got in client.take(5)] == list(range(5))
    client.write(disposition(0, 4, state=state(ACCEPTED)))
    heard: set[int] = set()
    while heard != set(ids):
        got = broker.expect(DISPOSITION, channel, receiver=True, settled=True)
        last = got["first"] if got["last"] is None else got["last"]
        heard |= {(got["first"] + number) % WRAP for number in range((last - got["first"]) % WRAP + 1)}


@pytest.mark.parametrize("settled", [False, True])
def test_credit_given_while_a_long_delivery_is_written_passes(receives: Routed, settled: bool) -> None:
    """2.6.7: the broker may begin its next delivery as soon as this one is over."""
    begun = transfer(0, MESSAGE, receives.channel, handle=5, more=True, settled=settled)
    receives.broker.write(begun)
    assert receives.client.expect(TRANSFER, 0)["more"]
    receives.client.write(flow(handle=0, count=1, credit=10))
    got = receives.broker.expect(FLOW, receives.channel)
    assert (got["count"], got["credit"]) == (1, 10)


def test_drain_passes_both_ways(receives: Routed) -> None:
    """2.6.7: the client drains, the broker answers."""
    receives.client.write(flow(handle=0, count=0, credit=10, drain=True))
    got = receives.broker.expect(FLOW, receives.channel, drain=True)
    assert got["credit"] == 10
    receives.broker.write(flow(receives.channel, handle=5, count=10, credit=0, drain=True))
    got = receives.client.expect(FLOW, 0, credit=0)
    assert (got["count"], got["drain"]) == (10, True)


def test_a_broker_with_small_frames_reads_long_states(connect: Connect, router: RunningRouter) -> None:
    """2.7.1: what does not fit loses what matters least, and no frame is too large."""
    until(lambda: router.core["connections_admitted"] <= 2, "end of all but the bystander's connections")
    with FrameBroker(address_of(router.urls[1]), "broker", max_frame=512) as broker:
        broker.round_trip(channel=100)
        routed = Routed(connect, broker, False)
        routed.client.write(flow(handle=0, count=0, credit=10))
        broker.expect(FLOW, routed.channel, credit=10)
        for number, outcome in enumerate((STATES["rejected"], STATES["modified"], STATES["of nobody's, at length"])):
            broker.write(transfer(number, MESSAGE, routed.channel, handle=5))
            routed.client.take(1)
            routed.client.write(disposition(number, state=outcome))
            got = broker.expect(DISPOSITION, routed.channel, settled=True)
            assert got.size <= 512
            if outcome.descriptor in (REJECTED, MODIFIED):
                assert got["state"].descriptor == outcome.descriptor


def test_received_passes_before_the_outcome(sends: Routed) -> None:
    """3.4.1."""
    interim = state(RECEIVED, Uint(0), Ulong(7))
    sends.client.write(transfer(0))
    sends.broker.take(1, 5, sends.channel)
    sends.broker.write(disposition(0, channel=sends.channel, settled=False, state=interim))
    assert sends.client.expect(DISPOSITION, 0)["state"] == interim
    sends.broker.write(disposition(0, channel=sends.channel, state=state(ACCEPTED)))
    assert sends.client.settled(0, 0) == [state(ACCEPTED)]

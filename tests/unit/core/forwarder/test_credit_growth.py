"""Credit of sending links without a configured linkCapacity: more for fast senders, and less again (credit.c)."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import contract as n
from core.forwarder.forward import DATA_LINK, NOTHING, Nodes
from core.forwarder.link_terms import LinkTerms
from shm.native import LINK_CREDIT, LINK_CREDIT_MOST
from tests.support.beds.forwarding import INCOMING, RECEIVER, SENDER, Bed

LINK = 7  # a link of the sender's worker
CYCLE = 1024  # deliveries whose time tells how fast a sender is
FAST, MIDDLE, SLOW = 7_000, 15_000, 50_000  # nanoseconds between two deliveries
SECOND = 1_100_000_000


class Sender(Bed):
    """A sender whose credit is counted as its worker would, and what is on its way to the receiver."""

    def __init__(
        self, capacity: int = LINK_CREDIT, *, grows: bool = True, granted: int = 0, named: bool = True
    ) -> None:
        self.now = 1000 * SECOND
        super().__init__()
        self.way: deque[tuple[int, bool]] = deque()  # to the receiver, and whether they came settled
        self.credit = granted
        self.draining = False
        self.receivers = 1
        block = self.arena.write(b"queue.1")
        assert block is not None
        self.block = block  # of all messages
        self.say_where_to(block, 0, 7)
        self.forwarder.add_alias(b"queue.1", self.address)
        self.attach(LinkTerms(False, self.address if named else 0, capacity, grows=grows, granted=granted))

    def attach(self, terms: LinkTerms) -> None:
        assert self.forwarder.add_link(SENDER, LINK, 1, terms)
        self.listen()

    def step(self) -> int:
        return self.forwarder.step(self.now)

    def listen(self) -> None:
        """Handle all work, as the workers would."""
        assert self.step() == NOTHING
        for r in self.heard(SENDER, 0):
            if r["link"] != LINK:
                continue
            self.credit += r["credit"]
            if r["type"] == n.W_DRAIN:
                self.draining = True
            elif r["type"] == n.W_FLOW:
                self.draining = False
        self.way.extend((r["peer"], bool(r["flags"] & n.F_SETTLED)) for r in self.heard(RECEIVER, n.W_SEND))

    def send(self, every: int, settled: bool = False) -> bool:
        """Send a message if there is credit."""
        if self.credit <= 0:
            return False
        self.now += every
        self.credit -= 1
        flags = n.F_COMPLETE | (n.F_SETTLED if settled else 0)
        record = n.pack(
            type=n.A_DELIVER, flags=flags, link=LINK, link_gen=1, block=self.block, peer=0 if settled else INCOMING,
            length=7, time=self.now,
        )  # fmt: skip
        assert self.actions[SENDER].push(record)
        self.actions[SENDER].publish()
        self.listen()
        return True

    def take(self, most: int = 1) -> None:
        """Let the receiver settle."""
        for _ in range(min(most, len(self.way))):
            out, settled = self.way.popleft()
            what = {"type": n.A_DONE} if settled else {"type": n.A_UPDATE, "flags": n.F_SETTLED, "state": n.S_ACCEPTED}
            assert self.actions[RECEIVER].push(n.pack(delivery=out, **what))
        self.actions[RECEIVER].publish()
        self.listen()

    def run(self, count: int, every: int, settled: bool = False) -> None:
        """Send and settle."""
        for _ in range(count):
            assert self.send(every, settled)
            self.take()

    @property
    def info(self) -> dict[str, int]:
        found = self.forwarder.link_info(SENDER, LINK, 1)
        assert found is not None
        return found

    def check(self) -> None:
        """Nothing of a link's credit is lost or made."""
        info = self.info
        assert info["granted"] + info["count"] + info["withheld"] == info["capacity"]
        assert info["granted"] == self.credit
        assert LINK_CREDIT <= info["capacity"] <= LINK_CREDIT_MOST

    def receiver_comes(self) -> None:
        self.receivers += 1
        assert self.forwarder.add_link(RECEIVER, 0, self.receivers, LinkTerms(True, self.address, 250))
        self.forwarder.publish()
        self.listen()

    def receiver_goes(self) -> None:
        """What is on its way to it is released."""
        assert self.forwarder.remove_link(RECEIVER, 0, self.receivers)
        self.forwarder.publish()
        self.way.clear()
        self.listen()

    def drained(self) -> None:
        """Answer a drain."""
        assert self.actions[SENDER].push(n.pack(type=n.A_DRAINED, link=LINK, link_gen=1, credit=self.credit))
        self.actions[SENDER].publish()
        self.credit, self.draining = 0, False
        self.listen()


def a_fast_one() -> Sender:
    sender = Sender()
    sender.run(2 * CYCLE, FAST)
    return sender


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("named", [True, False])
def test_a_fast_sender_gets_more(settled: bool, named: bool) -> None:
    """As soon as a cycle was fast; and no more than that."""
    sender = Sender(named=named)
    assert sender.credit == LINK_CREDIT
    sender.run(2 * CYCLE - 1, FAST, settled)
    assert sender.credit == LINK_CREDIT
    sender.run(1, FAST, settled)
    assert sender.credit == LINK_CREDIT_MOST
    sender.run(3 * CYCLE, FAST, settled)
    sender.check()
    assert sender.credit == LINK_CREDIT_MOST


@pytest.mark.parametrize(
    ("capacity", "grows", "every"),
    [
        pytest.param(LINK_CREDIT, True, MIDDLE, id="not fast enough"),
        pytest.param(LINK_CREDIT, False, FAST, id="configured"),
        pytest.param(2000, False, FAST, id="more is configured"),
    ],
)
def test_others_keep_what_they_have(capacity: int, grows: bool, every: int) -> None:
    sender = Sender(capacity, grows=grows)
    sender.run(4 * CYCLE, every)
    assert (sender.credit, sender.info["capacity"]) == (capacity, capacity)


def test_it_is_taken_back_from_a_sender_that_is_slow() -> None:
    """By what comes back: each message that is settled takes one, until there is as much as at first."""
    sender = a_fast_one()
    sender.run(CYCLE, MIDDLE)
    assert sender.info["capacity"] == LINK_CREDIT_MOST, "between fast and slow nothing changes"
    sender.run(CYCLE - 1, SLOW)
    for capacity in range(LINK_CREDIT_MOST, LINK_CREDIT, -1):
        assert sender.info["capacity"] == capacity
        sender.run(1, SLOW)
        sender.check()
    sender.run(10, SLOW)
    assert sender.info["capacity"] == LINK_CREDIT
    sender.run(2 * CYCLE, FAST)
    assert sender.info["capacity"] == LINK_CREDIT_MOST, "and it may be fast again"


def test_it_is_taken_back_when_its_receiver_is_slow() -> None:
    """Within a second of settlements, not after a whole cycle of them."""
    sender = a_fast_one()
    while sender.send(FAST):
        continue
    assert len(sender.way) == LINK_CREDIT_MOST
    sender.now += SECOND
    sender.take(2)
    sender.check()
    assert (sender.credit, sender.info["capacity"]) == (0, LINK_CREDIT_MOST - 2)
    sender.take(LINK_CREDIT_MOST)
    assert (sender.credit, sender.info["capacity"]) == (LINK_CREDIT, LINK_CREDIT)


def test_it_is_taken_back_from_settled_messages() -> None:
    """Their credit comes back with no word of a settlement."""
    sender = a_fast_one()
    sender.now += SECOND
    sender.run(LINK_CREDIT_MOST, SLOW, settled=True)
    sender.check()
    assert sender.credit == LINK_CREDIT


def test_a_sender_that_is_fast_again_keeps_it() -> None:
    """Although some was gone already."""
    sender = a_fast_one()
    sender.now += SECOND
    sender.run(100, SLOW)
    assert sender.info["capacity"] == LINK_CREDIT_MOST - 100
    sender.run(2 * CYCLE - 100, FAST)
    sender.check()
    assert sender.credit == LINK_CREDIT_MOST


def test_what_has_grown_goes_with_the_receivers() -> None:
    """The next receiver may be a slow one."""
    sender = a_fast_one()
    sender.receiver_goes()
    assert sender.send(FAST)
    assert sender.draining
    sender.drained()
    sender.check()
    assert sender.credit == 0
    sender.receiver_comes()
    sender.check()
    assert (sender.credit, sender.info["capacity"]) == (LINK_CREDIT, LINK_CREDIT)


@pytest.mark.parametrize(
    ("granted", "capacity"), [(-5, 250), (0, 250), (100, 250), (250, 250), (251, 251), (900, 900), (5000, 1000)]
)
def test_a_new_core_takes_back_what_the_earlier_one_let_grow(granted: int, capacity: int) -> None:
    """The worker says what credit the sender has."""
    sender = Sender(granted=granted)
    assert (sender.info["granted"], sender.info["capacity"]) == (max(min(granted, 1000), 250), capacity)
    if granted <= LINK_CREDIT_MOST:
        sender.check()
    sender.run(capacity - LINK_CREDIT, SLOW)
    assert sender.info["capacity"] == LINK_CREDIT


def test_a_new_core_knows_configured_credit() -> None:
    """It is a bound for what the worker says."""
    assert Sender(10, grows=False, granted=50).info["capacity"] == 10


# ---- between routers ----


@pytest.mark.parametrize("kind", ["inter-router", "edge"])
def test_links_between_routers_grow_and_shrink(kind: str) -> None:
    """Their credit is not bound by what is outstanding, and told in portions: a sender never waits for ever."""
    sender = Sender()
    sender.forwarder.remove_link(SENDER, LINK, 1)
    sender.credit = 0
    terms = LinkTerms(False, capacity=LINK_CREDIT, grows=True, annotated=True, edge=3 if kind == "edge" else 0)
    if kind == "edge":
        sender.attach(terms)
    else:
        nodes = Nodes(sender.forwarder)
        assert nodes.add_link(SENDER, LINK, 1, nodes.take_neighbour(0), DATA_LINK, 4, terms)
        sender.listen()
    assert sender.credit == LINK_CREDIT
    sender.run(2 * CYCLE, FAST)
    assert sender.info["capacity"] == LINK_CREDIT_MOST
    assert 3 * LINK_CREDIT_MOST // 4 < sender.credit <= LINK_CREDIT_MOST
    for _ in range(3):
        sender.now += SECOND
        sender.run(2 * LINK_CREDIT_MOST, SLOW)
        assert sender.info["capacity"] == sender.info["granted"] == LINK_CREDIT
        assert 3 * LINK_CREDIT // 4 < sender.credit <= LINK_CREDIT
        sender.run(2 * CYCLE, FAST)
        assert sender.info["capacity"] == sender.info["granted"] == LINK_CREDIT_MOST


# ---- all of it, in any order ----

STEPS = st.one_of(
    st.tuples(st.just("run"), st.sampled_from([1, 100, 600, CYCLE, 2 * CYCLE]), st.sampled_from([FAST, MIDDLE, SLOW])),
    st.tuples(st.just("send"), st.sampled_from([1, 100, 300, 2000]), st.sampled_from([FAST, SLOW])),
    st.tuples(st.just("take"), st.sampled_from([1, 100, 300, 2000])),
    st.tuples(st.sampled_from(["pause", "receiver"])),
)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEPS, max_size=25), settled=st.booleans(), named=st.booleans())
def test_no_credit_is_lost_or_made(steps: list[tuple[str, int, int]], settled: bool, named: bool) -> None:
    """Whatever a sender and its receiver do: at the end it has all that it may have."""
    sender, there = Sender(named=named), True
    for what, *more in steps:
        if what == "pause":
            sender.now += SECOND
        elif what == "receiver":
            (sender.receiver_goes if there else sender.receiver_comes)()
            there = not there
        elif what == "take":
            sender.take(more[0])
        else:
            for _ in range(more[0]):
                if not sender.send(more[1], settled):
                    break
                if what == "run":
                    sender.take()
        if sender.draining:
            sender.drained()
        sender.check()
    if not there:
        sender.receiver_comes()
    sender.take(len(sender.way))
    sender.check()
    assert sender.credit == sender.info["capacity"]

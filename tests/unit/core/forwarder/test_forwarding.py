"""What one message makes of the core, case by case; random schedules are in tests/simulation."""

import pytest

from bench import contract as n
from core.forwarder.forward import NOTHING, UNKNOWN, LinkRoutePairs
from core.forwarder.link_terms import LinkTerms
from tests.support.beds.forwarding import INCOMING, RECEIVER, SENDER, WORKERS, Bed
from tests.support.values.states import condition_of

DELIVER_OF_WORKER, DELIVER_COPY = 32, 64  # record.h


def test_settlement_is_one_record() -> None:
    """Outcome, content and credit go back together."""
    bed = Bed()
    block = bed.deliver()
    sent = bed.sent()
    assert (sent["arena"], sent["block"], sent["length"], sent["priority"]) == (SENDER, block, 5, 4)
    bed.heard(SENDER, 0)
    bed.act(RECEIVER, type=n.A_UPDATE, flags=n.F_SETTLED, delivery=sent["peer"], state=n.S_ACCEPTED)
    (told,) = bed.heard(SENDER, n.W_UPDATE)
    assert told["flags"] == n.F_IN | n.F_SETTLED | n.F_RELEASE
    assert (told["delivery"], told["block"], told["credit"], told["state"]) == (INCOMING, block, 1, n.S_ACCEPTED)
    assert bed.stats.histogram(0)[0] == 999


def test_detail_goes_through_and_back() -> None:
    """A rejected error is passed on; its block returns to the receiver's worker when it has been read."""
    bed = Bed()
    block = bed.deliver()
    detail = bed.details.write(b"why")
    assert detail is not None
    update = {"flags": n.F_SETTLED, "state": n.S_REJECTED, "extra": n.D_PAYLOAD, "arena": RECEIVER, "block": detail}
    bed.act(RECEIVER, type=n.A_UPDATE, delivery=bed.sent()["peer"], **update)
    told, released = [n.unpack(r) for r in iter(bed.work[SENDER].pop, None)][-2:]
    assert (told["arena"], told["block"], told["extra"] & n.D_PAYLOAD) == (RECEIVER, detail, n.D_PAYLOAD)
    assert (released["type"], released["block"], released["credit"]) == (n.W_RELEASE, block, 0)
    bed.act(SENDER, type=n.A_FREE, arena=RECEIVER, block=detail)
    bed.act(SENDER, type=n.A_FREE, arena=RECEIVER, block=detail)
    assert [r["block"] for r in bed.heard(RECEIVER, n.W_RELEASE)] == [detail]
    assert bed.stats.get(24) == 1


@pytest.mark.parametrize(("own", "message", "result"), [(-1, 7, 7), (3, 7, 3), (0, 7, 0), (-1, 255, 9)])
def test_priority(own: int, message: int, result: int) -> None:
    """The address's priority goes before the message's; more than 9 is 9."""
    bed = Bed(priority=own)
    bed.deliver(priority=message)
    assert bed.sent()["priority"] == result


@pytest.mark.parametrize(("dropped", "state"), [(0, n.S_ACCEPTED), (n.F_DROPPED, n.S_RELEASED)])
def test_receiver_that_wants_settled(dropped: int, state: int) -> None:
    """It gets settled messages; the sender is told accepted if they were sent, released if they were not."""
    bed = Bed(settles=True)
    bed.deliver()
    sent = bed.sent()
    assert sent["flags"] & n.F_SETTLED
    bed.act(RECEIVER, type=n.A_DONE, delivery=sent["peer"], flags=dropped)
    (told,) = bed.heard(SENDER, n.W_UPDATE)
    assert told["state"] == state


def test_done_without_settlement_is_not_accepted() -> None:
    """A worker that is done with an unsettled delivery nobody settled: failed, never accepted."""
    bed = Bed()
    bed.deliver()
    bed.act(RECEIVER, type=n.A_DONE, delivery=bed.sent()["peer"])
    (told,) = bed.heard(SENDER, n.W_UPDATE)
    assert (told["state"], told["extra"]) == (n.S_MODIFIED, n.D_FAILED)


def test_settled_without_state_stays_so() -> None:
    """No outcome is invented."""
    bed = Bed()
    bed.deliver()
    bed.act(RECEIVER, type=n.A_UPDATE, flags=n.F_SETTLED, delivery=bed.sent()["peer"])
    (told,) = bed.heard(SENDER, n.W_UPDATE)
    assert told["state"] == 0


def test_sender_without_destination_is_drained_once() -> None:
    """Released, its credit called back; granted again when a receiver comes."""
    bed = Bed()
    bed.forwarder.remove_link(RECEIVER, 0, 1)
    bed.deliver(peer=INCOMING)
    bed.deliver(peer=INCOMING + 1)
    work = [n.unpack(r) for r in iter(bed.work[SENDER].pop, None)]
    assert [r["state"] for r in work if r["type"] == n.W_UPDATE] == [n.S_RELEASED] * 2
    assert [r["credit"] for r in work if r["type"] == n.W_UPDATE] == [0, 0]
    assert len([r for r in work if r["type"] == n.W_DRAIN]) == 1
    bed.act(SENDER, type=n.A_DRAINED, link=0, link_gen=1, credit=8)
    bed.forwarder.add_link(RECEIVER, 3, 1, LinkTerms(True, bed.address, 10))
    bed.forwarder.publish()
    assert [r["credit"] for r in bed.heard(SENDER, n.W_FLOW)] == [10]


@pytest.mark.parametrize(
    ("treatment", "named", "condition"),
    [("balanced", False, "amqp:precondition-failed"), ("unavailable", True, "amqp:not-found")],
)
def test_rejections_of_the_router_itself(treatment: str, named: bool, condition: str) -> None:
    """An anonymous message without an address, or to an unavailable one: rejected with the reason."""
    bed = Bed(treatment)
    block = bed.arena.write(b"queue.1")
    assert block is not None
    if named:
        bed.say_where_to(block, 0, 7)
        bed.forwarder.add_alias(b"queue.1", bed.address)
    bed.act(SENDER, type=n.A_DELIVER, flags=n.F_COMPLETE, link=1, link_gen=1, block=block, peer=INCOMING)
    (told,) = bed.heard(SENDER, n.W_UPDATE)
    assert (told["state"], told["arena"], told["credit"]) == (n.S_REJECTED, WORKERS, 1)
    state = n.Arena(bed.memory[WORKERS]).read(told["block"])
    assert condition_of(state) == condition


@pytest.mark.parametrize("text", [b"queue.\xff", b"\xed\xa0\x80", b"\xc0\xaf"])
def test_octets_that_are_no_text_are_nobodys_address(text: bytes) -> None:
    """An anonymous message to octets that are not UTF-8 is released, and Python never sees them."""
    bed = Bed()
    block = bed.arena.write(text)
    assert block is not None
    bed.say_where_to(block, 0, len(text))
    bed.act(SENDER, type=n.A_DELIVER, flags=n.F_COMPLETE, link=1, link_gen=1, block=block, peer=INCOMING)
    (told,) = bed.heard(SENDER, n.W_UPDATE)
    assert told["state"] == n.S_RELEASED


def test_unknown_spelling_asks_once() -> None:
    """Python resolves a text once; the waiting message, and all later ones, find it natively."""
    bed = Bed()
    for _ in range(2):
        block = bed.arena.write(b"....queue.1")
        assert block is not None
        bed.say_where_to(block, 4, 7)
        bed.actions[SENDER].push(
            n.pack(type=n.A_DELIVER, flags=n.F_COMPLETE, link=1, link_gen=1, block=block, peer=INCOMING)
        )
    bed.actions[SENDER].publish()
    assert bed.step() == UNKNOWN
    assert bed.forwarder.unknown() == (b"queue.1", 0)
    assert bed.heard(RECEIVER, n.W_SEND) == []
    bed.forwarder.add_alias(b"queue.1", bed.address)
    assert bed.step() == NOTHING
    assert len(bed.heard(RECEIVER, n.W_SEND)) == 2


@pytest.mark.parametrize(("offset", "found"), [(0, True), (500, True), (1200, True), (1994, False), (2**32 - 2, False)])
def test_address_anywhere_in_a_chain(offset: int, found: bool) -> None:
    """`to` may stand in any block; a place beyond the message is no address that exists."""
    bed = Bed()
    content = bytearray(b"." * 2000)
    content[offset : offset + 7] = b"queue.1"
    writer = bed.arena.begin()
    assert writer is not None
    assert writer.write(bytes(content[:2000]))
    writer.publish(n.CONTENT_COMPLETE)
    bed.say_where_to(writer.head, offset, 7)
    bed.forwarder.add_alias(b"queue.1", bed.address)
    bed.act(SENDER, type=n.A_DELIVER, flags=n.F_COMPLETE, link=1, link_gen=1, block=writer.head, peer=INCOMING)
    assert bool(bed.heard(RECEIVER, n.W_SEND)) == found


def test_a_receiver_that_moves_leaves_its_place_to_another() -> None:
    """Both addresses keep all their receivers, whichever place the one that moved had."""
    bed = Bed("multicast")
    other = bed.forwarder.add_address(2)
    bed.forwarder.add_link(SENDER, 2, 1, LinkTerms(False, other, 10))
    for link in (1, 2, 3):
        bed.forwarder.add_link(RECEIVER, link, 1, LinkTerms(True, bed.address, 10))
    bed.forwarder.add_link(RECEIVER, 4, 1, LinkTerms(True, other, 10))
    assert bed.forwarder.move_link(RECEIVER, 1, 1, other)
    assert bed.forwarder.move_link(RECEIVER, 0, 1, other)
    assert bed.forwarder.move_link(RECEIVER, 1, 1, bed.address)
    bed.deliver()
    assert sorted(r["link"] for r in bed.heard(RECEIVER, n.W_SEND)) == [1, 2, 3]
    bed.deliver(link=2)
    assert sorted(r["link"] for r in bed.heard(RECEIVER, n.W_SEND)) == [0, 4]


def test_streaming_is_paced_by_the_slowest() -> None:
    """The sender's worker hears how far every reader is, even ahead of us; aborts go to those who read."""
    bed = Bed("multicast")
    bed.forwarder.add_link(RECEIVER, 1, 1, LinkTerms(True, bed.address, 10))
    bed.deliver(flags=0, length=5)
    (accepted,) = bed.heard(SENDER, n.W_ACCEPTED)
    assert accepted["delivery"] == INCOMING
    first, second = (r["peer"] for r in bed.heard(RECEIVER, n.W_SEND))
    bed.act(SENDER, type=n.A_CONTINUE, delivery=accepted["peer"], length=100_000)
    assert [r["length"] for r in bed.heard(RECEIVER, n.W_CONTINUE)] == [100_000] * 2
    bed.act(RECEIVER, type=n.A_PROGRESS, delivery=first, length=70_000)
    assert bed.heard(SENDER, n.W_CONSUMED) == []
    bed.act(RECEIVER, type=n.A_PROGRESS, delivery=second, length=66_000)
    bed.act(RECEIVER, type=n.A_PROGRESS, delivery=second, length=120_000)
    assert [r["length"] for r in bed.heard(SENDER, n.W_CONSUMED)] == [66_000, 70_000]
    bed.act(RECEIVER, type=n.A_UPDATE, flags=n.F_SETTLED, delivery=first, state=n.S_RELEASED)
    assert [r["length"] for r in bed.heard(SENDER, n.W_CONSUMED)] == [120_000]
    bed.act(SENDER, type=n.A_CONTINUE, flags=n.F_ABORTED, delivery=accepted["peer"], length=100_000)
    assert [(r["peer"], r["flags"]) for r in bed.heard(RECEIVER, n.W_CONTINUE)] == [(second, n.F_ABORTED)]
    assert bed.heard(SENDER, n.W_RELEASE) == []
    bed.act(RECEIVER, type=n.A_DONE, delivery=second)
    assert [r["credit"] for r in bed.heard(SENDER, n.W_RELEASE)] == [1]
    assert bed.forwarder.counts()["incoming"] == 0


def test_receiver_settles_second() -> None:
    """The outcome goes up unsettled; the sender's settlement comes down, and nothing more is said."""
    bed = Bed()
    bed.deliver()
    sent = bed.sent()
    bed.act(RECEIVER, type=n.A_UPDATE, delivery=sent["peer"], peer=9 << 32, state=n.S_ACCEPTED)
    (told,) = bed.heard(SENDER, n.W_UPDATE)
    assert (told["flags"], told["state"], told["delivery"]) == (n.F_IN, n.S_ACCEPTED, INCOMING)
    bed.act(SENDER, type=n.A_UPDATE, flags=n.F_IN | n.F_SETTLED, delivery=told["peer"])
    (down,) = bed.heard(RECEIVER, n.W_UPDATE)
    assert (down["flags"], down["delivery"], down["peer"]) == (n.F_SETTLED, 9 << 32, sent["peer"])
    assert [r["credit"] for r in bed.heard(SENDER, n.W_RELEASE)] == [1]
    assert bed.forwarder.counts()["outgoing"] == 0


@pytest.mark.parametrize("origin", [False, True])
@pytest.mark.parametrize("far", [False, True])
def test_routed_messages_to_another_router_are_transit(far: bool, origin: bool) -> None:
    """And those to a broker of this one are not; all are ingress, as qpid-dispatch's own tests want it."""
    bed = Bed()
    pairs = LinkRoutePairs(bed.forwarder)
    assert pairs.add(SENDER, 5, 1, False, origin)
    assert pairs.add(RECEIVER, 5, 1, True, far)
    assert pairs.pair(SENDER, 5, 1, RECEIVER, 5, 1)
    bed.deliver(link=5)
    sent = bed.sent()
    assert sent["link"] == 5
    bed.act(RECEIVER, type=n.A_UPDATE, flags=n.F_SETTLED, delivery=sent["peer"], state=n.S_ACCEPTED)
    assert (bed.counted("transit"), bed.counted("egress")) == (far, not far)
    assert (bed.counted("ingress"), bed.counted("from_routers")) == (1, 0)


def credits(bed: Bed) -> list[tuple[bool, int]]:
    """What the sender's worker got back: whether blocks, and how much credit."""
    return [(r["block"] != n.NIL, r["credit"]) for r in bed.heard(SENDER, n.W_RELEASE)]


@pytest.mark.parametrize(
    ("treatment", "link", "at_once"), [("balanced", 0, False), ("balanced", 1, True), ("multicast", 0, True)]
)
@pytest.mark.parametrize("streaming", [False, True])
def test_credit_of_settled_messages(treatment: str, link: int, at_once: bool, streaming: bool) -> None:
    """A receiver holds up only the sender whose messages all come to it; elsewhere credit comes at once."""
    bed = Bed(treatment)
    bed.forwarder.add_alias(b"hello", bed.address)
    block = bed.arena.write(b"hello")
    assert block is not None
    bed.say_where_to(block, 0, 5)
    flags = n.F_SETTLED if streaming else n.F_SETTLED | n.F_COMPLETE
    handle = INCOMING if streaming else 0
    bed.act(SENDER, type=n.A_DELIVER, flags=flags, link=link, link_gen=1, block=block, peer=handle, length=5, time=1)
    if streaming:
        (accepted,) = bed.heard(SENDER, n.W_ACCEPTED)
        bed.act(SENDER, type=n.A_CONTINUE, flags=n.F_COMPLETE, delivery=accepted["peer"], length=5)
    assert credits(bed) == ([(False, 1)] if at_once else [])
    bed.act(RECEIVER, type=n.A_DONE, delivery=bed.sent()["peer"])
    assert credits(bed) == [(True, 0 if at_once else 1)]
    info = bed.forwarder.link_info(SENDER, link, 1)
    assert info is not None
    assert (info["granted"], info["count"], info["withheld"]) == (10, 0, 0)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_receiver_that_takes_nothing_holds_up_nobody(streaming: bool) -> None:
    """Its worker says so: the credit of settled messages comes back, once they are there whole."""
    bed = Bed()
    unsettled = bed.deliver()
    first = bed.sent()["peer"]
    bed.act(RECEIVER, type=n.A_WAITS, delivery=first)
    assert bed.heard(SENDER, n.W_RELEASE) == [], "an unsettled one is waited for"
    flags = n.F_SETTLED if streaming else n.F_SETTLED | n.F_COMPLETE
    handle = INCOMING + 1 if streaming else 0
    block = bed.deliver(flags=flags, peer=handle)
    sent = bed.sent()["peer"]
    if streaming:
        (accepted,) = bed.heard(SENDER, n.W_ACCEPTED)
    bed.act(RECEIVER, type=n.A_WAITS, delivery=sent)
    if streaming:
        assert credits(bed) == []
        bed.act(SENDER, type=n.A_CONTINUE, flags=n.F_COMPLETE, delivery=accepted["peer"], length=5)
    assert credits(bed) == [(False, 1)]
    bed.act(RECEIVER, type=n.A_WAITS, delivery=sent)
    assert credits(bed) == [], "it has come back already"
    bed.act(RECEIVER, type=n.A_DONE, flags=n.F_DROPPED, delivery=sent)
    assert [(r["block"], r["credit"]) for r in bed.heard(SENDER, n.W_RELEASE)] == [(block, 0)]
    info = bed.forwarder.link_info(RECEIVER, 0, 1)
    assert info is not None
    assert (info["deliveries"], info["presettled"], info["dropped"], info["count"]) == (1, 1, 1, 1)
    assert unsettled != block


@pytest.mark.parametrize("streaming", [False, True])
def test_a_receiver_far_behind_gets_no_more_settled_messages(streaming: bool) -> None:
    """Beyond twice its capacity copies are dropped and counted; others get theirs; nothing piles up."""
    bed = Bed("multicast")
    bed.forwarder.add_link(RECEIVER, 1, 1, LinkTerms(True, bed.address, 10))
    for _ in range(20):
        bed.deliver(flags=n.F_SETTLED | n.F_COMPLETE, peer=0)
    for r in bed.heard(RECEIVER, n.W_SEND):
        if r["link"] == 1:
            bed.act(RECEIVER, type=n.A_DONE, delivery=r["peer"])
    bed.heard(SENDER, 0)
    bed.deliver(flags=n.F_SETTLED | n.F_COMPLETE, peer=0)
    assert [r["link"] for r in bed.heard(RECEIVER, n.W_SEND)] == [1]
    assert bed.counted("dropped_behind") == 1
    bed.forwarder.remove_link(RECEIVER, 1, 1)
    bed.step()
    bed.heard(SENDER, 0)
    bed.deliver(flags=n.F_SETTLED if streaming else n.F_SETTLED | n.F_COMPLETE, peer=INCOMING if streaming else 0)
    assert bed.heard(RECEIVER, n.W_SEND) == []
    if streaming:
        assert [(r["delivery"], r["credit"]) for r in bed.heard(SENDER, n.W_UPDATE)] == [(INCOMING, 1)]
    else:
        assert credits(bed) == [(True, 1)]
    assert bed.counted("dropped_behind") == 2
    assert bed.counted("dropped_presettled") == 0, "it had a destination"
    bed.deliver(peer=INCOMING)
    assert len(bed.heard(RECEIVER, n.W_SEND)) == 1, "unsettled messages are never dropped"


def test_a_receiver_s_outcome_is_settled_although_the_rest_was_said_not_to_come() -> None:
    """The sender's worker died with the whole message in its blocks, which nobody had told the core: the receiver's
    worker has sent it, and a receiver that settles second waits for its sender."""
    bed = Bed()
    bed.deliver(flags=0)
    sent = bed.sent()
    bed.forwarder.reclaim(SENDER)
    bed.step()
    assert [r["flags"] for r in bed.heard(RECEIVER, n.W_CONTINUE)] == [n.F_ABORTED]
    bed.act(RECEIVER, type=n.A_UPDATE, delivery=sent["peer"], peer=3 << 32 | 1, state=n.S_ACCEPTED)
    (settled,) = bed.heard(RECEIVER, n.W_UPDATE)
    assert (settled["delivery"], settled["flags"]) == (3 << 32 | 1, n.F_SETTLED)
    assert bed.forwarder.counts()["outgoing"] == 0


@pytest.mark.parametrize("flags", [0, n.F_COMPLETE])
def test_a_copy_of_a_route_worker_is_whole(flags: int) -> None:
    """Nobody could end one that is not: it belongs to no link. Its block goes back, and the record counts as bad."""
    bed = Bed()
    bed.forwarder.add_alias(b"copy", bed.address)
    block = bed.arena.write(b"copy")
    assert block is not None
    bed.say_where_to(block, 0, 4)
    copy = {"link": 0, "link_gen": 1, "block": block, "length": 4, "time": 1, "state": DELIVER_OF_WORKER | DELIVER_COPY}
    bed.act(SENDER, type=n.A_DELIVER, flags=flags | n.F_SETTLED, **copy)
    bad = not flags
    assert len(bed.heard(RECEIVER, n.W_SEND)) == (not bad)
    assert [r["block"] for r in bed.heard(SENDER, n.W_RELEASE)] == [block] * bad
    assert (bed.counted("bad_records"), bed.forwarder.counts()["incoming"]) == (bad, not bad)


@pytest.mark.parametrize("settled", [False, True])
def test_copies_of_a_dead_worker_are_in_doubt(settled: bool) -> None:
    """The worker may have sent them before it died: they count neither as sent nor as dropped."""
    bed = Bed()
    bed.deliver(flags=n.F_COMPLETE | (n.F_SETTLED if settled else 0))
    bed.forwarder.reclaim(RECEIVER)
    bed.step()
    assert bed.counted("in_doubt") == bed.counted("forwarded") == 1
    assert not any(bed.counted(name) for name in ("egress", "unsent", "dropped_gone", "dropped_slow"))

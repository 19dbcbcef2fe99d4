"""A message for many receivers: its copies are made in portions, and nobody waits for all of them."""

from collections import Counter

import pytest

from bench import contract as n
from core.forwarder.forward import CONTROL, NOTHING, Exchanges
from core.forwarder.link_terms import LinkTerms
from shm.statistics.stats import COUNTERS
from tests.support.beds.forwarding import INCOMING, RECEIVER, SENDER, Bed

BAD = COUNTERS["bad_records"][0]
MANY_COPIES = 64  # access.h: more are made in portions
BATCH = 128  # loop.c: actions of a worker in a turn
BEHIND = 4096  # fan.c: records beside a full ring, beyond which a worker gets no more copies
TURN = 2048  # access.h: copies of a turn
PORTION = TURN + 64  # with so few receivers they are made at once
MANY = 2600
OTHER = 9999  # a receiver of another address


def crowd(receivers: int, treatment: str = "multicast") -> Bed:
    """A sender, so many receivers of its address, and one receiver of another address with a sender of its own."""
    bed = Bed(treatment)
    for i in range(1, receivers):
        assert bed.forwarder.add_link(RECEIVER, i, 1, LinkTerms(True, bed.address, 250))
    other = bed.forwarder.add_address(1)
    assert bed.forwarder.add_link(RECEIVER, OTHER, 1, LinkTerms(True, other, 250))
    assert bed.forwarder.add_link(SENDER, 2, 1, LinkTerms(False, other, 250))
    return bed


def push(bed: Bed, link: int, peer: int, flags: int = n.F_COMPLETE) -> int:
    """A message that the core has not heard of yet; returns its block."""
    block = bed.arena.write(b"hello")
    assert block is not None
    fields = {"flags": flags, "priority": 4, "link": link, "link_gen": 1, "block": block, "peer": peer}
    assert bed.actions[SENDER].push(n.pack(type=n.A_DELIVER, length=5, time=1, **fields))
    bed.actions[SENDER].publish()
    return block


def copies(bed: Bed) -> list[dict[str, int]]:
    """The copies in the receivers' worker's ring, in order; what waited for room comes next."""
    return bed.heard(RECEIVER, n.W_SEND)


def all_copies(bed: Bed) -> list[dict[str, int]]:
    found = copies(bed)
    while bed.step() == NOTHING and (some := copies(bed)):
        found += some
    return found


@pytest.mark.parametrize("receivers", [MANY_COPIES, MANY])
def test_what_a_sender_says_at_once_reaches_all(receivers: int) -> None:
    """Its state comes before the copies are made: each receiver hears it after its copy, as with few of them."""
    bed = crowd(receivers)
    push(bed, 0, INCOMING)
    for state in (n.S_RECEIVED, n.S_RELEASED):
        update = {"flags": n.F_IN, "link": 0, "link_gen": 1, "peer": INCOMING, "state": state}
        assert bed.actions[SENDER].push(n.pack(type=n.A_UPDATE, **update))
    bed.actions[SENDER].publish()
    heard: list[dict[str, int]] = []
    for _ in range(receivers // 512 + 2):
        bed.step()
        heard += bed.heard(RECEIVER, 0)
    sent = [r["peer"] for r in heard if r["type"] == n.W_SEND]
    assert len(sent) == receivers
    last = {r["peer"]: (r["state"], r["flags"]) for r in heard if r["type"] == n.W_UPDATE}
    assert last == dict.fromkeys(sent, (n.S_RELEASED, 0))
    assert all(r["peer"] in sent[: sent.index(r["peer"]) + 1] for r in heard[: len(sent)] if r["type"] == n.W_UPDATE)


def settle(bed: Bed, sent: list[dict[str, int]]) -> None:
    for record in sent:
        assert bed.actions[RECEIVER].push(
            n.pack(type=n.A_UPDATE, flags=n.F_SETTLED, state=n.S_ACCEPTED, delivery=record["peer"])
        )
    bed.actions[RECEIVER].publish()
    bed.step()


def test_another_sender_of_the_worker_waits_for_a_portion() -> None:
    """Its message stands behind three that go to thousands, and does not wait for their copies."""
    bed = crowd(MANY)
    for i in range(3):
        push(bed, 0, INCOMING + i)
    push(bed, 2, INCOMING + 3)
    bed.step()
    place = [record["link"] for record in all_copies(bed)].index(OTHER)
    assert place <= PORTION


def test_messages_keep_their_order() -> None:
    """Every receiver gets all messages of a sender in their order, and one outcome comes back for each."""
    bed = crowd(300)
    blocks = [push(bed, 0, INCOMING + i) for i in range(5)]
    bed.step()
    sent = all_copies(bed)
    for link in range(300):
        assert [record["block"] for record in sent if record["link"] == link] == blocks
    settle(bed, sent)
    told = [r for r in bed.heard(SENDER, n.W_UPDATE) if r["flags"] & n.F_SETTLED]
    assert [(r["delivery"], r["state"]) for r in told] == [(INCOMING + i, n.S_ACCEPTED) for i in range(5)]
    assert bed.forwarder.counts()["incoming"] == bed.forwarder.counts()["outgoing"] == 0
    assert bed.forwarder.address_info(bed.address)["deliveries"] == 1500


def test_a_worker_that_is_behind_bounds_what_waits_for_it() -> None:
    """Ten messages for thousands are not 26,000 records in its queue."""
    bed = crowd(MANY)
    for i in range(10):
        push(bed, 0, INCOMING + i)
    bed.step()
    assert bed.forwarder.counts()["overflow"] <= BEHIND + 512
    assert len([r for r in all_copies(bed) if r["link"] != OTHER]) == 10 * MANY


@pytest.mark.parametrize("served", [True, False])
def test_receivers_come_and_go_meanwhile(served: bool) -> None:
    """Who stays gets each message once; who comes gets the last ones; who has gone gets none any more."""
    bed = crowd(MANY)
    for i in range(6):
        push(bed, 0, INCOMING + i)
    bed.step()
    first = copies(bed)
    leaving = range(10, 20) if served else range(MANY - 20, MANY - 10)
    for link in leaving:
        assert bed.forwarder.remove_link(RECEIVER, link, 1)
    assert bed.forwarder.add_link(RECEIVER, MANY, 1, LinkTerms(True, bed.address, 250))
    bed.step()
    got = Counter((r["link"], r["block"]) for r in first + all_copies(bed))
    assert set(got.values()) == {1}
    each = Counter(link for link, _ in got)
    assert {link for link in range(MANY) if each[link] != 6} <= set(leaving)
    assert 1 <= each[MANY] <= 6
    assert all(each[link] < 6 for link in leaving)


def test_the_sender_goes_before_all_copies_are_made() -> None:
    """Its complete messages reach everybody, and their blocks come back."""
    bed = crowd(MANY)
    blocks = {push(bed, 0, INCOMING + i) for i in range(6)}
    bed.step()
    sent = copies(bed)
    assert bed.forwarder.remove_link(SENDER, 0, 1)
    sent += all_copies(bed)
    assert len(sent) == 6 * MANY
    for record in sent:
        bed.act(RECEIVER, type=n.A_DONE, delivery=record["peer"])
    assert {r["block"] for r in bed.heard(SENDER, n.W_RELEASE)} == blocks
    assert bed.forwarder.counts()["incoming"] == bed.forwarder.counts()["outgoing"] == 0


def test_copies_are_alike_although_the_sender_goes_before_all_are_made() -> None:
    """Nobody has settled an unsettled message, so no worker may drop the copies that are made later."""
    bed = crowd(MANY)
    for i in range(6):
        push(bed, 0, INCOMING + i)
    bed.step()
    sent = copies(bed)
    assert bed.forwarder.remove_link(SENDER, 0, 1)
    later = all_copies(bed)
    assert later
    assert {r["flags"] for r in sent + later} == {n.F_COMPLETE}
    settle(bed, sent)
    settle(bed, later)
    assert bed.stats.get(BAD) == 0
    assert bed.forwarder.counts()["incoming"] == bed.forwarder.counts()["outgoing"] == 0


def test_what_the_sender_has_settled_stays_settled_when_it_goes() -> None:
    bed = crowd(MANY)
    blocks = [push(bed, 0, INCOMING + i) for i in range(10)]
    bed.step()
    for i in range(10):
        settled = n.pack(type=n.A_UPDATE, flags=n.F_IN | n.F_SETTLED, link=0, link_gen=1, peer=INCOMING + i)
        assert bed.actions[SENDER].push(settled)
    bed.actions[SENDER].publish()
    assert blocks[-1] not in {r["block"] for r in copies(bed)}
    bed.step()
    assert bed.forwarder.remove_link(SENDER, 0, 1)
    last = []
    while work := bed.heard(RECEIVER, 0):  # copies behind what is told of the first ones
        last += [r["flags"] for r in work if (r["type"], r["block"]) == (n.W_SEND, blocks[-1])]
        bed.step()
    assert last == [n.F_COMPLETE | n.F_SETTLED] * MANY


@pytest.mark.parametrize("already", [False, True])
def test_an_edge_connection_that_comes_meanwhile_is_told_where_messages_go(already: bool) -> None:
    """Where there was none before, it gets the messages that come later; no message comes without its address."""
    bed = crowd(MANY)
    bed.forwarder.set_text(bed.address, b"queue")
    first = 5000
    if already:
        terms = LinkTerms(True, bed.address, 250, edge=8, wants_override=True)
        assert bed.forwarder.add_link(RECEIVER, first, 1, terms)
    blocks = [push(bed, 0, INCOMING + i) for i in range(6)]
    bed.step()
    copies(bed)
    terms = LinkTerms(True, bed.address, 250, edge=7, wants_override=True)
    assert bed.forwarder.add_link(RECEIVER, first + 1, 1, terms)
    blocks.append(push(bed, 0, INCOMING + 6))
    bed.step()
    sent = [r for r in all_copies(bed) if r["link"] >= first]
    assert all(r["extra"] for r in sent)
    got = [r["block"] for r in sent if r["link"] == first + 1]
    assert got == blocks[-len(got) :]
    assert (len(got) > 1) == already


def test_an_aborted_message_gets_no_more_copies() -> None:
    """Those who have begun are told; the others never hear of it."""
    bed = crowd(MANY)
    for i in range(6):
        push(bed, 0, INCOMING + i, flags=0)
    bed.step()
    accepted = bed.heard(SENDER, n.W_ACCEPTED)
    assert len(accepted) == 6
    for record in accepted:
        aborted = n.pack(type=n.A_CONTINUE, flags=n.F_ABORTED, delivery=record["peer"], length=5)
        assert bed.actions[SENDER].push(aborted)
    bed.actions[SENDER].publish()
    bed.step()
    sent = all_copies(bed)
    assert len(sent) < 6 * MANY
    for record in sent:
        bed.act(RECEIVER, type=n.A_DONE, delivery=record["peer"])
    assert bed.forwarder.counts()["incoming"] == bed.forwarder.counts()["outgoing"] == 0


def test_credit_of_settled_messages_comes_back_behind_the_last_copy() -> None:
    """A sender of settled messages is as far ahead of its receivers as its credit says."""
    bed = crowd(MANY)
    for _ in range(6):
        push(bed, 0, 0, n.F_COMPLETE | n.F_SETTLED)
    bed.step()
    assert sum(r["credit"] for r in bed.heard(SENDER, n.W_RELEASE)) < 6
    all_copies(bed)
    info = bed.forwarder.link_info(SENDER, 0, 1)
    assert info is not None
    assert (info["count"], info["granted"]) == (0, 10)


def test_a_stream_waits_for_all_its_readers() -> None:
    """Nothing is consumed before the last copy is made, and then what the slowest has read, within 32 KiB."""
    bed = crowd(MANY)
    push(bed, 0, INCOMING, flags=0)
    bed.step()
    (accepted,) = bed.heard(SENDER, n.W_ACCEPTED)
    bed.act(SENDER, type=n.A_CONTINUE, delivery=accepted["peer"], length=300_000)
    sent = all_copies(bed)
    for i, record in enumerate(sent):
        assert bed.actions[RECEIVER].push(n.pack(type=n.A_PROGRESS, delivery=record["peer"], length=200_000 + i))
        bed.actions[RECEIVER].publish()
    bed.step()
    assert [r["length"] for r in bed.heard(SENDER, n.W_CONSUMED)] == [200_000]


@pytest.mark.parametrize("end", [n.F_COMPLETE, n.F_ABORTED])
def test_small_pieces_are_told_together(end: int) -> None:
    """Who sends a stream in small pieces makes no more records than its receivers' worker reads; all hear its end."""
    bed = crowd(MANY)
    push(bed, 0, INCOMING, flags=0)
    bed.step()
    (accepted,) = bed.heard(SENDER, n.W_ACCEPTED)
    sent = all_copies(bed)
    for i in range(300):
        bed.act(SENDER, type=n.A_CONTINUE, delivery=accepted["peer"], length=6 + i, flags=end if i == 299 else 0)
        if i % 100 == 50:
            for record in sent[i : i + 40]:
                bed.act(RECEIVER, type=n.A_UPDATE, flags=n.F_SETTLED, state=n.S_RELEASED, delivery=record["peer"])
    behind = 0 if end == n.F_COMPLETE else MANY  # who sends no more is heard at once
    assert bed.forwarder.counts()["overflow"] <= BEHIND + 512 + behind
    last: dict[int, tuple[int, int]] = {}
    while told := bed.heard(RECEIVER, n.W_CONTINUE):
        last |= {r["peer"]: (r["length"], r["flags"]) for r in told}
        assert bed.step() == NOTHING
    staying = {r["peer"] for i, r in enumerate(sent) if not any(i in range(k, k + 40) for k in (50, 150, 250))}
    assert {last[peer] for peer in staying} == {(305, end)}


def test_a_message_that_nobody_takes_is_told_to_nobody() -> None:
    """Its receivers go before any copy is made, and more of it comes; the next message's receivers hear its end."""
    bed = crowd(MANY)
    going, exchange = bed.forwarder.add_address(2), bed.forwarder.add_address(2)
    links = range(MANY, MANY + MANY_COPIES + 1)
    for link in links:
        assert bed.forwarder.add_link(RECEIVER, link, 1, LinkTerms(True, going, 10))
    hops = [(going, b"")] * len(links)
    Exchanges(bed.forwarder).put(exchange, b".", [(0, 0, b"")], [(0, i, 0) for i in range(len(hops))], hops)
    assert bed.forwarder.add_link(SENDER, 3, 1, LinkTerms(False, exchange, 10))
    for i in range(6):
        push(bed, 0, INCOMING + i)
    bed.step()  # their worker is behind
    push(bed, 3, INCOMING + 6, flags=0)
    bed.step()
    for link in links:
        assert bed.forwarder.remove_link(RECEIVER, link, 1)
    for i in range(BATCH):
        piece = n.pack(type=n.A_CONTINUE, peer=INCOMING + 6, link=3, link_gen=1, length=6 + i)
        assert bed.actions[SENDER].push(piece)
    push(bed, 0, INCOMING + 7, flags=0)  # it takes the other one's place
    bed.step()
    assert bed.forwarder.counts()["incoming"] == 7
    all_copies(bed)
    bed.act(SENDER, type=n.A_CONTINUE, peer=INCOMING + 7, link=0, link_gen=1, length=600, flags=n.F_COMPLETE)
    told = bed.heard(RECEIVER, n.W_CONTINUE)
    assert [(r["length"], r["flags"]) for r in told] == [(600, n.F_COMPLETE)] * MANY


def test_a_receiver_goes_when_a_fan_has_just_served_all() -> None:
    """The turn ends with the last copy, so the fan is not over. Those that go then leave the others their places."""
    bed = crowd(TURN)
    block = push(bed, 0, INCOMING)
    bed.actions[SENDER].push(n.pack(type=n.A_CONTROL, arena=SENDER, block=block, state=1))  # the turn ends with it
    bed.actions[SENDER].publish()
    assert bed.step() == CONTROL
    bed.forwarder.remove_link(RECEIVER, 0, 1)
    assert len(all_copies(bed)) == TURN
    for link in range(TURN - 1, 1, -1):
        bed.forwarder.remove_link(RECEIVER, link, 1)
    push(bed, 0, INCOMING + 1)
    bed.step()
    assert [record["link"] for record in all_copies(bed)] == [1]


def test_nothing_is_freed_that_later_copies_have_to_read() -> None:
    """The sender's worker has no blocks for more of a message, and whoever has a copy so far has read all there is."""
    bed = Bed("multicast")
    near, far = 50, range(100, 100 + MANY_COPIES)
    bed.forwarder.remove_link(RECEIVER, 0, 1)
    for worker, link in [(SENDER, near), *((RECEIVER, link) for link in far)]:
        assert bed.forwarder.add_link(worker, link, 1, LinkTerms(True, bed.address, 250))
    other = bed.forwarder.add_address(2)
    for link in range(1000, 1000 + MANY):
        assert bed.forwarder.add_link(RECEIVER, link, 1, LinkTerms(True, other, 250))
    assert bed.forwarder.add_link(SENDER, 2, 1, LinkTerms(False, other, 250))
    for i in range(6):
        push(bed, 2, INCOMING + 1 + i)
    bed.step()  # the far receivers' worker is behind
    push(bed, 0, INCOMING, flags=0)
    bed.step()
    (sent,) = bed.heard(SENDER, n.W_SEND)
    bed.act(SENDER, type=n.A_PROGRESS, delivery=sent["peer"], length=5)
    bed.act(SENDER, type=n.A_CONTINUE, peer=INCOMING, link=0, link_gen=1, length=5, flags=n.F_STALLED)
    assert bed.heard(SENDER, n.W_CONSUMED) == []
    later = [record for record in all_copies(bed) if record["link"] in far]
    assert len(later) == MANY_COPIES
    for record in later:
        bed.act(RECEIVER, type=n.A_PROGRESS, delivery=record["peer"], length=5)
    assert [record["length"] for record in bed.heard(SENDER, n.W_CONSUMED)] == [5]

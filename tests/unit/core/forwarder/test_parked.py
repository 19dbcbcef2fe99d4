"""Messages to texts that nobody has looked up yet: their link waits for the control plane, and the others go on."""

from bench import contract as n
from core.forwarder.forward import NOTHING, UNKNOWN
from core.forwarder.link_terms import LinkTerms
from shm.statistics.stats import COUNTERS
from tests.support.beds.forwarding import INCOMING, RECEIVER, SENDER, Bed

AFTER = 512  # loop.c: records of others between two addresses that are asked for
KNOWN, ANONYMOUS, SECOND = 0, 1, 3  # links of the sender's worker


def record(bed: Bed, **fields: int) -> None:
    assert bed.actions[SENDER].push(n.pack(**fields))
    bed.actions[SENDER].publish()


def push(bed: Bed, link: int, text: bytes, peer: int, flags: int = n.F_COMPLETE) -> int:
    """A message to a text, of which the core has not heard yet; returns its block."""
    block = bed.arena.write(text)
    assert block is not None
    bed.say_where_to(block, 0, len(text))
    fields = {"flags": flags, "link": link, "link_gen": 1, "block": block, "peer": peer, "length": len(text)}
    record(bed, type=n.A_DELIVER, time=1, **fields)
    return block


def learn(bed: Bed) -> bytes:
    """Resolve the text that the core asks for: all but those of strangers are the bed's address."""
    text, scope = bed.forwarder.unknown()
    known = not text.startswith(b"stranger")
    bed.forwarder.add_alias(text, bed.address if known else bed.forwarder.add_address(1), scope)
    return text


def sent(bed: Bed) -> list[int]:
    return [r["block"] for r in bed.heard(RECEIVER, n.W_SEND)]


def test_others_of_the_worker_do_not_wait() -> None:
    """A hundred texts never seen before stand in front of a thousand messages; few are looked up meanwhile."""
    bed = Bed()
    for i in range(100):
        push(bed, ANONYMOUS, b"stranger.%d" % i, INCOMING + i)
    block = bed.arena.write(b"hello")
    assert block is not None
    for i in range(2000):
        record(bed, type=n.A_DELIVER, flags=n.F_COMPLETE, link_gen=1, block=block, peer=INCOMING + 1000 + i, length=5)
    asked, through = 0, 0
    while through < 2000:
        if bed.step() == UNKNOWN:
            learn(bed)
            asked += 1
        through += len(sent(bed))
    assert asked <= 2000 / AFTER + 2
    while bed.step() == UNKNOWN:
        learn(bed)
        asked += 1
    assert asked == 100
    assert len(bed.heard(SENDER, n.W_UPDATE)) == 100, "each is released in the end"


def test_a_link_keeps_its_order() -> None:
    """What comes behind an unknown text waits, whatever it is about; nothing is lost."""
    bed = Bed()
    bed.forwarder.add_alias(b"known", bed.address)
    first = push(bed, ANONYMOUS, b"new.1", INCOMING)
    second = push(bed, ANONYMOUS, b"known", INCOMING + 1, flags=0)
    record(bed, type=n.A_CONTINUE, link=ANONYMOUS, link_gen=1, peer=INCOMING + 1, length=9, flags=n.F_COMPLETE)
    record(
        bed, type=n.A_UPDATE, link=ANONYMOUS, link_gen=1, peer=INCOMING, state=n.S_RECEIVED, flags=n.F_IN | n.F_SETTLED
    )
    third = push(bed, ANONYMOUS, b"new.2", INCOMING + 2)
    other = push(bed, KNOWN, b"hello", INCOMING + 3)
    assert bed.step() == UNKNOWN
    assert sent(bed) == [other]
    assert learn(bed) == b"new.1"
    assert bed.step() == UNKNOWN
    work = [n.unpack(r) for r in iter(bed.work[RECEIVER].pop, None)]
    assert [(r["type"], r["block"]) for r in work if r["type"] == n.W_SEND] == [(n.W_SEND, first), (n.W_SEND, second)]
    assert [r["length"] for r in work if r["type"] == n.W_CONTINUE] == [9]
    assert [r["flags"] & n.F_SETTLED for r in work if r["type"] == n.W_UPDATE] == [n.F_SETTLED]
    assert learn(bed) == b"new.2"
    assert bed.step() == NOTHING
    bed.work[RECEIVER].give_back()
    assert sent(bed) == [third]
    assert bed.stats.get(COUNTERS["stale_records"].place) == bed.stats.get(COUNTERS["bad_records"].place) == 0


def settle(bed: Bed, link: int, peer: int) -> None:
    """The sender settles its delivery."""
    record(bed, type=n.A_UPDATE, link=link, link_gen=1, peer=peer, flags=n.F_IN | n.F_SETTLED)


def named_by_handles(bed: Bed) -> None:
    """From a link's first settlement on the core finds its deliveries by their handles."""
    for link in (ANONYMOUS, KNOWN):
        push(bed, link, b"known", INCOMING + link)
        settle(bed, link, INCOMING + link)


def test_a_settlement_of_an_earlier_delivery_does_not_wait() -> None:
    """The worker, which never heard the core's handle of it, gives its own to another link's delivery meanwhile."""
    bed = Bed()
    bed.forwarder.add_alias(b"known", bed.address)

    named_by_handles(bed)
    early, again = INCOMING + 20, INCOMING + 20 + (1 << 32)  # one place in two generations
    push(bed, ANONYMOUS, b"known", early)
    push(bed, ANONYMOUS, b"new", INCOMING + 21)
    settle(bed, ANONYMOUS, early)
    push(bed, KNOWN, b"hello", again)
    settle(bed, KNOWN, again)
    while bed.step() == UNKNOWN:
        learn(bed)
    assert len(bed.heard(RECEIVER, n.W_UPDATE)) == 4
    assert bed.stats.get(COUNTERS["stale_records"].place) == 0


def test_a_delivery_that_waited_hides_no_later_one() -> None:
    """Its handle is another link's delivery's by then, of which more comes."""
    bed = Bed()
    old, again = INCOMING + 20, INCOMING + 20 + (1 << 32)  # one place in two generations

    def more(link: int, peer: int) -> None:
        fields = {"link": link, "link_gen": 1, "peer": peer, "length": 9, "flags": n.F_COMPLETE}
        record(bed, type=n.A_CONTINUE, **fields)

    push(bed, ANONYMOUS, b"new", old, n.F_SETTLED)
    more(ANONYMOUS, old)
    push(bed, KNOWN, b"hello", again, 0)
    record(bed, type=n.A_CONTINUE, link=KNOWN, link_gen=1, peer=again, length=7)
    while bed.step() == UNKNOWN:
        learn(bed)
    more(KNOWN, again)
    assert bed.step() == NOTHING
    assert [r["flags"] & n.F_COMPLETE for r in bed.heard(RECEIVER, n.W_CONTINUE)] == [0, n.F_COMPLETE, n.F_COMPLETE]
    assert bed.stats.get(COUNTERS["stale_records"].place) == 0


def test_a_settlement_that_waited_with_its_delivery_finds_it() -> None:
    """Though the next delivery of the same place came and went meanwhile."""
    bed = Bed()
    bed.forwarder.add_alias(b"known", bed.address)
    old, again = INCOMING + 20, INCOMING + 20 + (1 << 32)

    named_by_handles(bed)
    push(bed, ANONYMOUS, b"new.1", old)
    push(bed, ANONYMOUS, b"new.2", INCOMING + 21)
    settle(bed, ANONYMOUS, old)
    push(bed, KNOWN, b"hello", again)
    assert bed.step() == UNKNOWN
    learn(bed)
    assert bed.step() == UNKNOWN
    settle(bed, KNOWN, again)
    assert bed.step() == UNKNOWN
    learn(bed)
    while bed.step() == UNKNOWN:
        learn(bed)
    assert len(bed.heard(RECEIVER, n.W_UPDATE)) == 4
    assert bed.stats.get(COUNTERS["stale_records"].place) == 0


def test_links_take_turns() -> None:
    """One that names a single new text waits for one text of another, not for all of them."""
    bed = Bed()
    bed.forwarder.add_link(SENDER, SECOND, 1, LinkTerms(False, 0, 10))
    for i in range(10):
        push(bed, ANONYMOUS, b"stranger.%d" % i, INCOMING + i)
    push(bed, SECOND, b"mine", INCOMING + 20)
    texts = []
    while bed.step() == UNKNOWN:
        texts.append(learn(bed))
    assert texts.index(b"mine") <= 2
    assert len(texts) == 11


def test_a_link_that_goes_is_finished_first() -> None:
    """The control plane finds the addresses of what it has sent before the link is removed."""
    bed = Bed()
    blocks = [push(bed, ANONYMOUS, b"new.%d" % i, 0, n.F_COMPLETE | n.F_SETTLED) for i in range(3)]
    assert bed.step() == UNKNOWN
    while bed.forwarder.unpark(SENDER, ANONYMOUS, 1):
        learn(bed)
    assert bed.forwarder.remove_link(SENDER, ANONYMOUS, 1)
    assert bed.step() == NOTHING
    assert sent(bed) == blocks


def test_the_links_of_a_dead_worker_are_forgotten() -> None:
    """With all that waited on them."""
    bed = Bed()
    for i in range(3):
        push(bed, ANONYMOUS, b"new.%d" % i, INCOMING + i)
    assert bed.step() == UNKNOWN
    bed.forwarder.reclaim(SENDER)
    assert bed.step() == NOTHING
    assert sent(bed) == []
    assert bed.forwarder.counts()["incoming"] == 0


def test_a_message_in_many_pieces_is_one_record() -> None:
    """Pieces cost no credit: however many come while their link stands aside, nothing of it is refused."""
    bed = Bed()
    bed.forwarder.add_alias(b"known", bed.address)
    push(bed, ANONYMOUS, b"new", INCOMING)
    block = push(bed, ANONYMOUS, b"known", INCOMING + 1, flags=0)
    for first in range(6, 12_006, 1000):
        for length in range(first, first + 1000):
            record(bed, type=n.A_CONTINUE, link=ANONYMOUS, link_gen=1, peer=INCOMING + 1, length=length)
        assert bed.step() == UNKNOWN
    assert bed.stats.get(COUNTERS["bad_records"].place) == 0
    assert bed.heard(SENDER, n.W_RELEASE) == []
    fields = {"length": 20_000, "flags": n.F_COMPLETE}
    record(bed, type=n.A_CONTINUE, link=ANONYMOUS, link_gen=1, peer=INCOMING + 1, **fields)
    while bed.step() == UNKNOWN:
        learn(bed)
    work = [n.unpack(r) for r in iter(bed.work[RECEIVER].pop, None)]
    assert block in [r["block"] for r in work if r["type"] == n.W_SEND]
    *_, last = (r for r in work if r["type"] == n.W_CONTINUE)
    assert (last["length"], last["flags"]) == (20_000, n.F_COMPLETE)


def test_a_worker_that_lost_its_mind_fills_no_memory() -> None:
    """Far beyond its credit, what comes to a link that waits is refused and its blocks go back."""
    bed = Bed()
    block = push(bed, ANONYMOUS, b"new", INCOMING)
    assert bed.step() == UNKNOWN
    for _ in range(3):
        for _ in range(2000):
            fields = {"flags": n.F_COMPLETE, "block": block, "peer": INCOMING, "length": 3}
            record(bed, type=n.A_DELIVER, link=ANONYMOUS, link_gen=1, **fields)
        assert {bed.step() for _ in range(2000 // AFTER + 2)} == {UNKNOWN}
    refused = 3 * 2000 + 1 - 4096 - 4 * 10
    assert bed.stats.get(COUNTERS["bad_records"].place) == refused
    assert len(bed.heard(SENDER, n.W_RELEASE)) == refused


def test_connections_take_turns() -> None:
    """One with many links has no more texts looked up than one with a single link; nor has one that is not known."""
    bed = Bed()
    links, texts = 12, 4
    for link in range(10, 10 + links):
        assert bed.forwarder.add_link(SENDER, link, 1, LinkTerms(False, 0, 10, connection=7))
    assert bed.forwarder.add_link(SENDER, 40, 1, LinkTerms(False, 0, 10, connection=8))
    assert bed.forwarder.add_link(SENDER, 41, 1, LinkTerms(False, 0, 10))
    for number in range(texts):
        for link in [*range(10, 10 + links), 40, 41]:
            push(bed, link, b"stranger.%d.%d" % (link, number), INCOMING + link * texts + number)
    asked = []
    while bed.step() == UNKNOWN:
        asked.append(int(learn(bed).split(b".")[1]))
    assert len(asked) == (links + 2) * texts
    for link in (40, 41):
        assert asked[: 3 * texts].count(link) == texts
    assert sorted(set(asked[: 3 * texts])) == [10, 11, 12, 13, 40, 41], "links of a connection take turns, too"
    assert len(bed.heard(SENDER, n.W_UPDATE)) == len(asked)


def test_a_connection_parks_again_after_its_links_have_gone() -> None:
    """The links of a connection go while they are parked; later ones of its number take turns as the first did."""
    bed = Bed()
    for _ in range(2):
        for link in (10, 11):
            assert bed.forwarder.add_link(SENDER, link, 1, LinkTerms(False, 0, 10, connection=7))
            push(bed, link, b"stranger.%d" % link, INCOMING + link)
        assert bed.step() == UNKNOWN
        assert bed.forwarder.remove_link(SENDER, 10, 1)
        assert bed.forwarder.remove_link(SENDER, 11, 1)
        assert bed.step() == NOTHING

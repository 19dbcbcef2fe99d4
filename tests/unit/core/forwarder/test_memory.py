"""Memory that the forwarder no longer needs goes back to the system, and what named it then names nothing."""

from collections.abc import Iterable

import psutil

from bench import contract as n
from core.addresses.addresses import TREATMENTS
from core.forwarder.forward import Pools
from core.forwarder.link_terms import LinkTerms
from tests.support.beds.forwarding import INCOMING, RECEIVER, SENDER, Bed

SECOND = 1_000_000_000
LINKS = 40_000  # 10 MB
MESSAGES, RECEIVERS = 5, 10_000  # of multicast
LOOKS = 10  # pool.c: seconds in which few entries are live before a table shrinks
KEPT = 16 * 512  # pool.c: entries for which a table keeps memory


def room(bed: Bed, name: str) -> int:
    return {row[0]: row[2] for row in Pools(bed.forwarder).rows()}[name]


def attach(bed: Bed, links: range, generation: int = 1) -> None:
    for link in links:
        assert bed.forwarder.add_link(RECEIVER, link, generation, LinkTerms(True, bed.address, 10))


def detach(bed: Bed, links: Iterable[int], generation: int = 1) -> None:
    for link in links:
        assert bed.forwarder.remove_link(RECEIVER, link, generation)


def rest(bed: Bed, seconds: int, now: int = SECOND) -> int:
    """So much time passes; return the clock."""
    until = now + seconds * SECOND
    while now < until:
        now += Pools(bed.forwarder).thin(now)
    return now


def test_a_table_shrinks() -> None:
    """Links that have gone give their memory back some seconds later, and others have it again."""
    process = psutil.Process()
    bed = Bed()
    attach(bed, range(10, 10 + LINKS))
    full = process.memory_info().rss
    detach(bed, range(11, 10 + LINKS))
    now = rest(bed, LOOKS - 2)
    assert room(bed, "link") > LINKS
    now = rest(bed, LOOKS, now)
    assert room(bed, "link") == KEPT
    assert full - process.memory_info().rss > 8 << 20
    assert bed.forwarder.link_info(RECEIVER, 10, 1), "a link that is there stays"
    for _ in range(3):
        attach(bed, range(11, 11 + LINKS), 2)
        assert all(bed.forwarder.link_info(RECEIVER, link, 2) for link in range(10, 10 + LINKS, 97) if link > 10)
        detach(bed, range(11, 11 + LINKS), 2)
        now = rest(bed, 2 * LOOKS, now)
        assert room(bed, "link") == KEPT


def test_a_table_shrinks_after_links_that_came_while_it_shrank() -> None:
    """The sweep gave nothing back; the next one is due as soon as those are gone, and not minutes later."""
    bed = Bed()
    attach(bed, range(10, 10 + LINKS))
    detach(bed, range(10, 10 + LINKS))
    now = SECOND
    while (pause := Pools(bed.forwarder).thin(now)) > SECOND // 50:
        now += pause
    attach(bed, range(10, 10 + LINKS), 2)
    now = rest(bed, 2, now)
    assert room(bed, "link") > LINKS
    detach(bed, range(10, 10 + LINKS), 2)
    rest(bed, 2 * LOOKS, now)
    assert room(bed, "link") == KEPT


def test_links_come_while_a_table_shrinks() -> None:
    """Entries are taken and given back in the middle of a sweep; each stays what it is."""
    bed = Bed()
    attach(bed, range(10, 10 + LINKS))
    detach(bed, range(11, 10 + LINKS))
    now, there = SECOND, set[int]()
    for first in range(11, 10 + LINKS, 20):
        now += Pools(bed.forwarder).thin(now)
        attach(bed, range(first, first + 20), 2)
        there.add(first)
        detach(bed, range(first + 1, first + 20), 2)
        if len(there) > 100:
            oldest = min(there)
            there.remove(oldest)
            detach(bed, range(oldest, oldest + 1), 2)
    found = {link for link in range(11, 10 + LINKS) if bed.forwarder.link_info(RECEIVER, link, 2)}
    assert found == there
    assert bed.forwarder.counts()["links"] == 3 + 1 + len(there)
    rest(bed, 3 * LOOKS, now)
    assert room(bed, "link") < 2 * KEPT


def test_a_table_shrinks_that_empties_slowly() -> None:
    """A sweep that finds some entries in every chunk gives nothing back; it is repeated when half of them go."""
    bed = Bed()
    attach(bed, range(10, 10 + LINKS))
    detach(bed, (link for link in range(10, 10 + LINKS) if link % 5))
    now = rest(bed, 2 * LOOKS)
    assert room(bed, "link") > LINKS
    detach(bed, range(10, 10 + LINKS, 5))
    rest(bed, 2 * LOOKS, now)
    assert room(bed, "link") == KEPT


def test_a_handle_names_nothing_that_came_later() -> None:
    """An address of which the memory went and came again has a handle of its own."""
    bed = Bed()
    add = bed.forwarder.add_address
    former = [add(TREATMENTS.index("balanced")) for _ in range(LINKS)]
    for handle in former:
        assert bed.forwarder.remove_address(handle)
    rest(bed, 2 * LOOKS)
    assert room(bed, "address") == KEPT
    assert not {add(TREATMENTS.index("balanced")) for _ in range(LINKS)} & set(former)


def test_the_table_of_spellings_shrinks() -> None:
    """Texts of messages are found while the table of them grows and shrinks."""
    bed = Bed()
    few, many = 100, 20_000
    other = bed.forwarder.add_address(0)
    bed.forwarder.add_link(SENDER, 5, 1, LinkTerms(False, other, 10))
    for _ in range(2):
        for i in range(many):
            bed.forwarder.add_alias(b"other.%d" % i, other)
            if i % (many // few) == 0:
                bed.forwarder.add_alias(b"kept.%d" % i, bed.address)
        assert bed.forwarder.counts()["aliases"] == few + many
        bed.forwarder.remove_link(SENDER, 5, 1)
        assert bed.forwarder.counts()["aliases"] == few
        bed.forwarder.add_link(SENDER, 5, 1, LinkTerms(False, other, 10))
    for i in range(0, many, many // few):
        block = bed.arena.write(text := b"kept.%d" % i)
        assert block is not None
        bed.say_where_to(block, 0, len(text))
        bed.act(SENDER, type=n.A_DELIVER, flags=n.F_COMPLETE, link=1, link_gen=1, block=block, length=len(text), peer=i)
        assert bed.sent()["block"] == block
        bed.arena.free_chain(block)


def test_the_copies_of_multicast_messages_go() -> None:
    """Those of some messages to thousands of receivers, which settle when all have come."""
    process = psutil.Process()
    bed = Bed("multicast")
    attach(bed, range(10, 10 + RECEIVERS))
    copies = MESSAGES * (RECEIVERS + 1)
    for number in range(MESSAGES):
        bed.deliver(peer=INCOMING + number)
    sent: list[int] = []
    while len(sent) < copies:
        sent += [record["peer"] for record in bed.heard(RECEIVER, n.W_SEND)]
        bed.step()
    full = process.memory_info().rss
    assert room(bed, "outgoing") >= copies
    for delivery in sent:
        bed.act(RECEIVER, type=n.A_UPDATE, flags=n.F_SETTLED, state=n.S_ACCEPTED, delivery=delivery)
    assert bed.counted("accepted") == MESSAGES
    rest(bed, 2 * LOOKS)
    after = process.memory_info().rss
    assert room(bed, "outgoing") == KEPT
    assert full - after > copies * 128 * 3 // 4

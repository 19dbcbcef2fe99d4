"""The core as destination and source of messages: what is said to it and by it; nothing stays behind."""

import random

import pytest
from msgspec.structs import replace

from bench import contract as n
from bench.contract import C_ATTACH
from core.links.local import LENT_TO_ONE, MESSAGE_LIMIT
from core.links.terminus import OURS, denied
from core.links.waiting import WAITING_BYTES
from shm.contract.payloads import Attach
from tests.support.beds.local import HANDLE, Bed


@pytest.fixture
def bed() -> Bed:
    return Bed()


def test_a_message_to_the_core_is_read_and_accepted(bed: Bed) -> None:
    """The subscriber gets its bytes, the sender its outcome, block and credit in one record."""
    block = bed.arena.write(b"x" * 5000)
    assert block is not None
    bed.deliver(block)
    (told,) = bed.step()
    assert (told["type"], told["state"], told["credit"]) == (n.W_UPDATE, n.S_ACCEPTED, 1)
    assert bed.received == [b"x" * 5000]
    bed.at_rest()


def test_a_settled_message_to_the_core(bed: Bed) -> None:
    """Its block and credit come back, and there is no outcome."""
    block = bed.arena.write(b"hello")
    assert block is not None
    bed.deliver(block, n.F_COMPLETE | n.F_SETTLED, peer=0)
    (released,) = bed.step()
    assert (released["type"], released["credit"]) == (n.W_RELEASE, 1)
    assert bed.received == [b"hello"]
    bed.at_rest()


def test_a_message_that_arrives_in_parts(bed: Bed) -> None:
    """What has been read may be freed before the rest comes; the subscriber gets all of it once."""
    writer = bed.arena.begin(True)
    assert writer is not None
    sent = b""
    for i in range(30):
        part = bytes([i]) * 20_000
        assert writer.write(part)
        sent += part
        last = i == 29
        writer.publish(n.CONTENT_COMPLETE if last else n.CONTENT_RECEIVING)
        if i == 0:
            bed.deliver(writer.head, 0, length=writer.written)
        else:
            flags = n.F_COMPLETE if last else 0
            bed.act(type=n.A_CONTINUE, flags=flags, link_gen=1, peer=HANDLE, length=writer.written)
        consumed = [r["length"] for r in bed.step() if r["type"] == n.W_CONSUMED]
        for length in consumed:
            assert writer.trim(length) >= 0
        assert last or consumed == [len(sent)]
        assert bed.received == ([sent] if last else [])
    bed.at_rest()


@pytest.mark.parametrize("settles", [False, True])
def test_an_aborted_message_is_forgotten(bed: Bed, settles: bool) -> None:
    """Half a message is nothing, whether its sender had settled it or not."""
    writer = bed.arena.begin()
    assert writer is not None
    assert writer.write(b"half")
    writer.publish()
    bed.deliver(writer.head, 0)
    bed.step()
    if settles:
        bed.act(type=n.A_UPDATE, flags=n.F_IN | n.F_SETTLED, link_gen=1, peer=HANDLE)
    writer.publish(n.CONTENT_ABORTED)
    bed.act(type=n.A_CONTINUE, flags=n.F_ABORTED, link_gen=1, peer=HANDLE)
    bed.step()
    assert bed.received == []
    bed.at_rest()


def test_an_endless_message_is_rejected(bed: Bed) -> None:
    """It is cut off at the limit; the rest of it is not waited for."""
    writer = bed.arena.begin(True)
    assert writer is not None
    assert writer.write(b"." * (MESSAGE_LIMIT + 1))
    writer.publish()
    bed.deliver(writer.head, 0, length=writer.written)
    told = [r for r in bed.step() if r["type"] == n.W_UPDATE]
    assert [r["state"] for r in told] == [n.S_REJECTED]
    assert bed.received == []
    bed.at_rest()


def test_a_message_from_the_core(bed: Bed) -> None:
    """It goes out settled, and its block comes back when it has been sent."""
    assert bed.core.local.send("there", b"reply" * 4000)
    (sent,) = bed.step()
    assert sent["type"] == n.W_SEND
    assert sent["flags"] & n.F_SETTLED
    assert bed.core_arena.read(sent["block"]) == b"reply" * 4000
    bed.act(type=n.A_DONE, delivery=sent["peer"])
    bed.at_rest()


def test_nobody_is_there(bed: Bed) -> None:
    """A message to an address without receivers leaves nothing behind, neither a block nor an address."""
    addresses = len(bed.core.addresses)
    assert not bed.core.local.send("nowhere", b"reply")
    assert len(bed.core.addresses) == addresses
    bed.at_rest()


def test_its_receiver_goes(bed: Bed) -> None:
    """What was on its way to a receiver that detached, or died, comes back."""
    assert bed.core.local.send("there", b"reply")
    bed.core.forwarder.remove_link(0, 1, 1)
    bed.at_rest()


def test_a_receiver_that_takes_nothing(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """It is lent a few messages and no more; what waits for it is bounded, goes with it, and is said once."""
    size = 100_000
    fit = LENT_TO_ONE + WAITING_BYTES // size
    results = [bed.core.local.send("there", b"x" * size) for _ in range(fit + 3)]
    assert results == [True] * fit + [False] * 3
    assert caplog.text.count("a message of the core's own to 'there' was dropped") == 1
    assert sum(record["type"] == n.W_SEND for record in bed.step()) == LENT_TO_ONE
    bed.core.forwarder.remove_link(0, 1, 1)
    bed.at_rest()


def test_messages_of_the_core_leave_room_for_control(bed: Bed) -> None:
    """Half of the arena's large blocks are out of their reach; what finds no room goes out later."""
    half = bed.core.forwarder.counts()["free_large"] // 2
    links = range(2, 6)
    for link in links:
        bed.say(C_ATTACH, Attach(link, 1, 0, f"r{link}", True, f"to.{link}"))
    bed.step()
    assert all(bed.core.local.send(f"to.{link}", b"x" * 900_000) for link in links)
    assert bed.core.forwarder.counts()["free_large"] >= half
    served: list[int] = []
    while sent := [record for record in bed.step() if record["type"] == n.W_SEND]:
        for record in sent:
            served.append(record["link"])
            bed.act(type=n.A_DONE, delivery=record["peer"])
    assert served == list(links)
    bed.at_rest()


def test_request_and_reply_in_order(bed: Bed) -> None:
    """Replies leave in the order of the requests, interleaved at random with what the worker does."""
    rng = random.Random(7)  # noqa: S311  reproducible, not secret
    replies: list[bytes] = []
    sent = answered = 0
    waiting: list[dict[str, int]] = []
    while answered < 500:
        for _ in range(rng.randrange(5)):
            if sent < 500:
                block = bed.arena.write(b"%d" % sent)
                assert block is not None
                bed.deliver(block, peer=HANDLE + sent)
                sent += 1
        heard = bed.step()
        waiting += [r for r in heard if r["type"] == n.W_SEND]
        while bed.received and len(waiting) < LENT_TO_ONE:
            assert bed.core.local.send("there", bed.received.pop(0))
            waiting += [r for r in bed.step() if r["type"] == n.W_SEND]
        for _ in range(rng.randrange(len(waiting) + 1)):
            record = waiting.pop(0)
            replies.append(bed.core_arena.read(record["block"]))
            bed.act(type=n.A_DONE, delivery=record["peer"])
            answered += 1
        bed.step()
    assert replies == [b"%d" % i for i in range(500)]
    bed.at_rest()


def test_the_counts_of_links_and_addresses(bed: Bed) -> None:
    """What went to the core and came from it is told apart from what clients sent each other."""
    block = bed.arena.write(b"hello")
    assert block is not None
    bed.deliver(block)
    bed.step()
    assert bed.core.local.send("there", b"reply")
    (sent,) = bed.step()
    bed.act(type=n.A_DONE, delivery=sent["peer"])
    bed.step()
    here, there = bed.core.addresses.find("here"), bed.core.addresses.find("there")
    assert here is not None
    assert there is not None
    to, back = (bed.core.forwarder.address_info(one.handle) for one in (here, there))
    assert (to["own"], to["to_core"], to["ingress"]) == (1, 1, 1)
    assert (back["own"], back["from_core"], back["deliveries"]) == (0, 1, 1)
    incoming, outgoing = (bed.core.forwarder.link_info(0, link, 1) for link in (0, 1))
    assert incoming is not None
    assert outgoing is not None
    assert (incoming["deliveries"], incoming["accepted"], incoming["presettled"]) == (1, 1, 0)
    assert (outgoing["deliveries"], outgoing["accepted"], outgoing["presettled"]) == (1, 0, 1)
    bed.at_rest()


def test_where_the_core_receives_nobody_else_does(bed: Bed) -> None:
    """As long as it does: a receiver beside it would get a share of what is asked of the router."""
    local, addresses = bed.core.local, bed.core.addresses
    link = local.listen("mine", lambda *_: None)
    mine = addresses.resolve("mine")
    receiver = Attach(9, 1, 0, "l", True, "mine")
    refused = [denied(mine, receiver, set(), role, lambda _: {}) for role in ("normal", "edge")]
    assert refused == [OURS, None], "an edge router's core has an address of that name, too"
    assert denied(mine, replace(receiver, outgoing=False), set(), "edge", lambda _: {}) is None
    local.leave(link)
    assert denied(mine, replace(receiver, restored=True), set(), "normal", lambda _: {}) is None

"""The core as destination and source of messages: what is said to it and by it; nothing stays behind."""

import mmap
import random
from types import SimpleNamespace

import msgspec
import pytest
from msgspec.structs import replace

from bench import contract as n
from bench.contract import C_ATTACH, C_CONNECTION_OPENED
from core.links.local import LENT_TO_ONE, MESSAGE_LIMIT, WAITING_BYTES
from core.links.terminus import OURS, denied
from core.process.router import Core
from shm.contract.control import Setup
from shm.contract.payloads import Attach, ConnectionOpened

ARENA = 8 * 1024 * 1024
HANDLE = 1 << 32
BAD, STALE = 24, 50  # shm/statistics/stats.py
OUTCOMES = {n.S_ACCEPTED, n.S_REJECTED}


class Bed:
    """A core that subscribes to `here`; a worker with a sender to it, link 0, a receiver from `there`, 1."""

    def __init__(self) -> None:
        rings = mmap.mmap(-1, n.rings_bytes(1))
        n.format_rings(rings, 1)
        control = mmap.mmap(-1, n.control_bytes(1))
        n.format_control(control, 1, ARENA, 1)
        arenas = [mmap.mmap(-1, ARENA), mmap.mmap(-1, n.CORE_ARENA_BYTES)]
        for arena in arenas:
            n.format_arena_segment(arena)
        flow = mmap.mmap(-1, n.TELEMETRY_BYTES)
        n.format_telemetry(flow, 1)
        memory = SimpleNamespace(control=control, rings=rings, arenas=arenas, flow=flow)
        self.core = Core(Setup("core", 1, 1, "/none", "me", "0", 1, [-1]), memory, b"seed")
        self.arena = n.ArenaOwner(arenas[0])
        self.core_arena = n.Arena(arenas[1])
        self.actions = n.Producer(rings, n.action_ring_offset(0))
        self.work = n.Consumer(rings, n.work_ring_offset(0))
        self.stats = n.StatsPage(control, n.stats_offset(1))
        self.received: list[bytes] = []
        self.empty = self.core.forwarder.counts()
        self.core.local.subscribe("here", self.received.append)
        self.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "c", "h:1"))
        self.say(C_ATTACH, Attach(0, 1, 0, "s", False, "here"))
        self.say(C_ATTACH, Attach(1, 1, 0, "r", True, "there"))
        self.step()

    def say(self, kind: int, payload: msgspec.Struct) -> None:
        block = self.arena.write(msgspec.msgpack.encode(payload))
        assert block is not None
        self.act(type=n.A_CONTROL, state=kind, arena=0, block=block)

    def act(self, **fields: int) -> None:
        assert self.actions.push(n.pack(**fields))
        self.actions.publish()

    def deliver(self, block: int, flags: int = n.F_COMPLETE, peer: int = HANDLE, length: int = 1) -> None:
        self.act(type=n.A_DELIVER, flags=flags, link_gen=1, block=block, peer=peer, length=length, time=1)

    def step(self) -> list[dict[str, int]]:
        """Let the core run; what the worker hears of it. Blocks are taken back, payloads read."""
        self.core.step(2)
        found = []
        while (record := self.work.pop()) is not None:
            found.append(n.unpack(record))
            if found[-1]["type"] == n.W_RELEASE or found[-1]["flags"] & n.F_RELEASE:
                assert found[-1]["block"] == n.NIL or self.arena.free_chain(found[-1]["block"])
            if found[-1]["type"] == n.W_CONTROL:
                self.act(type=n.A_FREE, arena=1, block=found[-1]["block"])
        self.work.give_back()
        return found

    def at_rest(self) -> None:
        """Nothing is held, and nothing made no sense."""
        self.step()
        self.step()
        counts = self.core.forwarder.counts()
        assert len(self.core.local) == counts["incoming"] == counts["outgoing"] == counts["payloads"] == 0
        assert self.arena.free == self.arena.blocks
        assert (counts["free_small"], counts["free_large"]) == (self.empty["free_small"], self.empty["free_large"])
        assert self.stats.get(BAD) == 0


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

"""The core alone: synthetic actions in one process, without engine, sockets or other processes.

The result is how many messages a second one core can forward and settle, and thus how many workers it can feed.
Actions are prepared and work is read outside the timed part, which is ``Forwarder.step`` alone: it pops actions,
forwards, settles, writes and publishes work.

    python -m bench.core_alone
"""

import mmap
import random
import struct
import sys
import time
from array import array
from collections import deque
from collections.abc import Callable
from typing import Final

import click
import msgspec

from bench import contract
from core.addresses.addresses import TREATMENTS
from core.forwarder.forward import Forwarder, Routes, Telemetry
from core.forwarder.link_terms import LinkTerms
from core.rmr.active.compiled import compile_table
from core.rmr.tables.table import Destinations, Table

BATCH: Final = 4096  # half a ring: a batch never wraps
DIFFERENT: Final = 25  # batches that differ in their links where there are many links
WORDS: Final = contract.RECORD_SIZE // 8
SLOTS: Final = contract.ring_bytes(0)
TAIL: Final = 64
ARENA: Final = 8 << 20  # for each batch in flight
KEY_FOUND: Final = 1  # record.h, deliver_key
GOAL: Final = 3_000_000
ACCEPTED: Final = contract.pack(type=contract.A_UPDATE, flags=contract.F_SETTLED, state=contract.S_ACCEPTED)
TO: Final = b"queue.0"


def _say_where_to(segment: mmap.mmap, small_blocks: int, block: int) -> None:
    """Write the position of `to` into a small block's content header (arena.h); its message begins with `to`."""
    if block >= small_blocks:
        raise MemoryError("the arena has too few small blocks for a batch")
    (large_blocks,) = struct.unpack_from("=I", segment, 12)
    first = 4096 + (small_blocks + large_blocks + 4095) // 4096 * 4096 + 128
    struct.pack_into("=II", segment, first + block * 512 + 32, 0, len(TO))


class Scenario(msgspec.Struct, frozen=True):
    """``pairs`` senders and receivers on as many addresses; with multicast all receivers share one address.

    The first half of the rings' workers have the senders, the second half the receivers.
    """

    name: str
    pairs: int = 1
    treatment: str = "balanced"
    settled: bool = False
    anonymous: bool = False
    copies: int = 1
    routes: int = 0  # entries of the route table for the messages
    recorded: bool = False
    shuffled: bool = False  # the senders' messages come in no order
    rings: int = 2  # pairs of rings, one for each worker
    depth: int = 1  # batches in flight
    receivers: int = 0  # of each address, of which a message goes to one; 0: one, or `copies`


SCENARIOS: Final = (
    Scenario("1 -> 1 unsettled"),
    Scenario("1 -> 1 unsettled, in the flow log", recorded=True),
    Scenario("1 -> 1 presettled", settled=True),
    Scenario("1 -> 1 presettled, in the flow log", settled=True, recorded=True),
    Scenario("4 -> 4 unsettled", pairs=4),
    Scenario("64 -> 64 unsettled", pairs=64),
    *(Scenario(f"{n:,} -> {n:,} unsettled, shuffled", pairs=n, shuffled=True) for n in (1000, 4000, 10_000, 100_000)),
    *(Scenario(f"64 -> 64 unsettled, {n} rings", pairs=64, rings=n) for n in (8, 16, 32, 64)),
    *(Scenario(f"128 -> 128 unsettled, {n * BATCH:,} in flight", pairs=128, rings=16, depth=n) for n in (2, 4)),
    Scenario("10,000 -> 10,000 shuffled, 64 rings", pairs=10_000, shuffled=True, rings=64),
    Scenario("1 -> 1 unsettled, anonymous sender", anonymous=True),
    Scenario("1 -> 1 unsettled, by 10,000 routes", routes=10_000),
    Scenario("1 -> 1 unsettled, by 1,000,000 routes", routes=1_000_000),
    *(Scenario(f"1 -> one of {n:,} unsettled", receivers=n) for n in (10, 1000, 8000)),
    *(Scenario(f"1 -> {n:,} multicast", treatment="multicast", copies=n) for n in (4, 100, 1000, 10_000)),
)


class Ring:
    """One ring of the segment as an array of 64-bit words."""

    def __init__(self, rings: mmap.mmap, offset: int) -> None:
        self._rings = rings
        self._offset = offset
        self._words = memoryview(rings)[
            offset + SLOTS : offset + SLOTS + contract.RING_CAPACITY * contract.RECORD_SIZE
        ].cast("Q")
        self._next = 0

    def put(self, records: "array[int]") -> None:
        """Write and publish records."""
        at = self._next % contract.RING_CAPACITY * WORDS
        first = contract.RING_CAPACITY * WORDS - at
        self._words[at : at + len(records)] = memoryview(records)[:first]
        self._words[: len(records[first:])] = memoryview(records)[first:]
        self._next += len(records) // WORDS
        struct.pack_into("=Q", self._rings, self._offset, self._next)

    def take(self) -> "array[int]":
        """Return all published records."""
        (head,) = struct.unpack_from("=Q", self._rings, self._offset)
        first, last = self._next % contract.RING_CAPACITY, head - self._next
        found = array("Q", self._words[first * WORDS : min(first + last, contract.RING_CAPACITY) * WORDS])
        if first + last > contract.RING_CAPACITY:
            found.extend(self._words[: (first + last - contract.RING_CAPACITY) * WORDS])
        self._next = head
        struct.pack_into("=Q", self._rings, self._offset + TAIL, head)
        return found


class Bed:
    """A forwarder on anonymous memory with attached links."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        workers = scenario.rings
        rings = mmap.mmap(-1, contract.rings_bytes(workers))
        contract.format_rings(rings, workers)
        control = mmap.mmap(-1, contract.control_bytes(workers))
        contract.format_control(control, workers, ARENA * scenario.depth)
        arenas = [mmap.mmap(-1, ARENA * scenario.depth) for _ in range(workers + 1)]
        for arena in arenas:
            contract.format_arena_segment(arena)
        self.forwarder = Forwarder(workers, control, rings, arenas, [-1] * workers)
        self.actions = [Ring(rings, contract.action_ring_offset(w)) for w in range(workers)]
        self.work = [Ring(rings, contract.work_ring_offset(w)) for w in range(workers)]
        self.senders, self.receivers = range(workers // 2), range(workers // 2, workers)
        self._random = random.Random(1)  # noqa: S311 - keys, no secrets
        flow = mmap.mmap(-1, contract.TELEMETRY_BYTES)
        contract.format_telemetry(flow, 1)
        self._telemetry = Telemetry(self.forwarder, flow, b"bench", 1)
        self._telemetry.record(int(scenario.recorded))
        self._reader, self._columns = contract.FlowReader(flow), contract.FlowColumns(BATCH)
        self._attach()
        self._written = [self._write(arena) for arena in arenas[: len(self.senders)]]
        different = DIFFERENT if scenario.pairs > BATCH else scenario.depth
        self._batches = [self._deliveries(turn % scenario.depth) for turn in range(different)]
        self._owed: deque[list[array[int]]] = deque()

    @property
    def batch(self) -> int:
        """The messages of a batch, the same number from each sending worker."""
        one = max(1, BATCH // self.scenario.copies)
        return one - one % len(self.senders)

    def _attach(self) -> None:
        s = self.scenario
        if s.routes:
            self._route(s.routes)
        for pair in range(0 if s.routes else s.pairs):
            address = self.forwarder.add_address(TREATMENTS.index(s.treatment))
            receivers, worker = s.receivers or s.copies, pair % len(self.senders)
            for copy in range(receivers):
                terms = LinkTerms(True, address, 250)
                self.forwarder.add_link(self.receivers[worker], pair * receivers + copy, 1, terms)
            self.forwarder.add_link(worker, pair, 1, LinkTerms(False, 0 if s.anonymous else address, 250))
            self.forwarder.add_alias(f"queue.{pair}".encode(), address)
            if pair % BATCH == BATCH - 1:
                self._attached()
        self._attached()

    def _attached(self) -> None:
        self.forwarder.step(0)
        for work in self.work:
            work.take()

    def _route(self, entries: int) -> None:
        """Attach a sender to a table with one endpoint for all entries, and that endpoint."""
        table, endpoint = self.forwarder.add_address(1), self.forwarder.add_address(1)
        self.routes = Routes(self.forwarder, table)
        self.routes.open()
        rows = array("i", range(entries))
        subscriptions, targets = array("i", [-1]) * entries, array("I", [0]) * entries
        groups = Destinations(array("I", [0]), array("I", [1, 1, 0]), ("app:1",))
        native = compile_table(Table("", rows, subscriptions, targets, targets, groups, {}), self.routes.seed).native
        self.routes.use_table(native, array("I"))
        self.routes.bind(0, -1, endpoint)
        self.forwarder.add_link(self.receivers[0], 0, 1, LinkTerms(True, endpoint, 250))
        self.forwarder.add_link(self.senders[0], 0, 1, LinkTerms(False, table, 250, to_table=True))

    def _write(self, segment: mmap.mmap) -> list[int]:
        """Write the messages of a sending worker's batches in flight; return their blocks."""
        owner = contract.ArenaOwner(segment)
        blocks: list[int] = []
        for _ in range(BATCH // len(self.senders) * self.scenario.depth):
            block = owner.write(TO + bytes(100))
            if block is None:
                raise MemoryError("the arena is too small for a batch")
            _say_where_to(segment, owner.blocks[0], block)
            blocks.append(block)
        return blocks

    def _deliveries(self, slot: int) -> "list[array[int]]":
        """Return the records of a batch for each sending worker, in the blocks of one of those in flight."""
        s = self.scenario
        share = BATCH // len(self.senders)
        flags = contract.F_COMPLETE | (contract.F_SETTLED if s.settled else 0)
        records = [bytearray() for _ in self.senders]
        first = self._random.randrange(s.pairs) if s.pairs > BATCH else 0
        order = list(range(first, first + BATCH))
        if s.shuffled:
            order = self._random.choices(range(s.pairs), k=BATCH)
        taken = [0] * len(self.senders)
        for at in order:
            link = at % s.pairs
            worker = link % len(self.senders)
            if taken[worker] == share:
                continue
            taken[worker] += 1
            records[worker] += contract.pack(
                type=contract.A_DELIVER,
                flags=flags,
                priority=4,
                arena=worker,
                link=link,
                link_gen=1,
                block=self._written[worker][slot * share + taken[worker] - 1],
                peer=0 if s.settled else 1 << 32 | taken[worker],
                length=len(TO) + 100,
                time=1,
                **self._key(),
            )
        return [array("Q", bytes(one)) for one in records]

    def _key(self) -> dict[str, int]:
        if not self.scenario.routes:
            return {}
        mt = self._random.randrange(100, self.scenario.routes)
        return {"state": KEY_FOUND, "delivery": mt | 0xFFFFFFFF << 32}

    def read_log(self) -> None:
        """Read the flow log's records as the recorder does, so that there is always room."""
        self._columns.clear()
        self._reader.read(self._columns, 0)

    def put(self, turn: int) -> int:
        """Publish a batch; return the number of its messages."""
        sent = 0
        for worker, records in zip(self.senders, self._batches[turn % len(self._batches)], strict=True):
            mine = records[: self.batch // len(self.senders) * WORDS]
            self.actions[worker].put(mine)
            sent += len(mine) // WORDS
        return sent

    def take(self) -> int:
        """Take the receivers' work and keep the answers to it. Return how many copies there were."""
        one = contract.pack(type=contract.A_DONE) if self.scenario.settled else ACCEPTED
        every: list[array[int]] = []
        for worker in self.receivers:
            sent = self.work[worker].take()
            answers = array("Q", one * (len(sent) // WORDS))
            answers[2::WORDS] = sent[3::WORDS]  # delivery = the handle that the core sent as its own
            every.append(answers)
        self._owed.append(every)
        return sum(len(answers) // WORDS for answers in every)

    def answer(self) -> None:
        """Give the oldest answers: accepted and settled, or done."""
        for worker, answers in zip(self.receivers, self._owed.popleft(), strict=True):
            self.actions[worker].put(answers)

    def settled(self) -> int:
        """Return how many records the senders' workers have got."""
        return sum(len(self.work[worker].take()) // WORDS for worker in self.senders)


def measure(scenario: Scenario, messages: int, clock: Callable[[], int] = time.perf_counter_ns) -> float:
    """Return the median batch's core time per message, forwarded and settled, in ns."""
    bed = Bed(scenario)
    batches: list[float] = []

    def step(now: int) -> int:
        began = clock()
        bed.forwarder.step(now)
        return clock() - began

    for turn in range(max(3, messages // (bed.batch * scenario.copies)) + scenario.depth - 1):
        batch = bed.put(turn)
        spent, copies = 0, 0
        while copies < batch * scenario.copies:
            spent += step(2)
            if not (new := bed.take()):
                raise RuntimeError(f"{scenario.name}: {copies} messages came out of {batch}")
            copies += new
            if scenario.depth == 1:
                bed.answer()
        if turn >= scenario.depth - 1 > 0:
            bed.answer()
        spent += step(3)
        bed.read_log()
        over = bed.settled()
        if turn < scenario.depth - 1:
            continue
        batches.append(spent / batch)
        if over != batch:
            raise RuntimeError(f"{scenario.name}: not every message was settled")
    return sorted(batches)[len(batches) // 2]


@click.command(help=__doc__)
@click.option("--messages", default=2_000_000, show_default=True, help="Messages in each scenario.")
def main(*, messages: int) -> None:
    """Print the table; the exit status is 1 if a scenario with single copies misses the goal."""
    worst = 0.0
    print(f"{'scenario':38}{'ns/message':>12}{'messages/s':>14}")
    for scenario in SCENARIOS:
        spent = measure(scenario, messages)
        worst = max(worst, spent) if scenario.copies == 1 else worst
        print(f"{scenario.name:38}{spent:12.1f}{1e9 / spent:14,.0f}")
    sys.exit(0 if worst < 1e9 / GOAL else 1)


if __name__ == "__main__":
    main()

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

WORKERS: Final = 2
BATCH: Final = 4096  # half a ring: a batch never wraps
WORDS: Final = contract.RECORD_SIZE // 8
SLOTS: Final = contract.ring_bytes(0)
TAIL: Final = 64
ARENA: Final = 8 << 20
SENDER, RECEIVER = 0, 1
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
    """``pairs`` senders and receivers on as many addresses; with multicast all receivers share one address."""

    name: str
    pairs: int = 1
    treatment: str = "balanced"
    settled: bool = False
    anonymous: bool = False
    copies: int = 1
    routes: int = 0  # entries of the route table for the messages
    recorded: bool = False
    shuffled: bool = False  # the senders' messages come in no order
    receivers: int = 0  # of each address, of which a message goes to one; 0: one, or `copies`


SCENARIOS: Final = (
    Scenario("1 -> 1 unsettled"),
    Scenario("1 -> 1 unsettled, in the flow log", recorded=True),
    Scenario("1 -> 1 presettled", settled=True),
    Scenario("1 -> 1 presettled, in the flow log", settled=True, recorded=True),
    Scenario("4 -> 4 unsettled", pairs=4),
    Scenario("64 -> 64 unsettled", pairs=64),
    Scenario("4,000 -> 4,000 unsettled, shuffled", pairs=4000, shuffled=True),
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
        rings = mmap.mmap(-1, contract.rings_bytes(WORKERS))
        contract.format_rings(rings, WORKERS)
        control = mmap.mmap(-1, contract.control_bytes(WORKERS))
        contract.format_control(control, WORKERS, ARENA, 0)
        arenas = [mmap.mmap(-1, ARENA) for _ in range(WORKERS + 1)]
        for arena in arenas:
            contract.format_arena_segment(arena)
        self.forwarder = Forwarder(WORKERS, control, rings, arenas, [-1] * WORKERS)
        self.actions = [Ring(rings, contract.action_ring_offset(w)) for w in range(WORKERS)]
        self.work = [Ring(rings, contract.work_ring_offset(w)) for w in range(WORKERS)]
        self._random = random.Random(1)  # noqa: S311 - keys, no secrets
        flow = mmap.mmap(-1, contract.TELEMETRY_BYTES)
        contract.format_telemetry(flow, 1)
        self._telemetry = Telemetry(self.forwarder, flow, b"bench", 1)
        self._telemetry.record(int(scenario.recorded))
        self._reader, self._columns = contract.FlowReader(flow), contract.FlowColumns(BATCH)
        self._attach()
        self.deliver = self._deliveries(arenas[SENDER])

    def _attach(self) -> None:
        s = self.scenario
        if s.routes:
            self._route(s.routes)
        for pair in range(0 if s.routes else s.pairs):
            address = self.forwarder.add_address(TREATMENTS.index(s.treatment))
            receivers = s.receivers or s.copies
            for copy in range(receivers):
                self.forwarder.add_link(RECEIVER, pair * receivers + copy, 1, LinkTerms(True, address, 250))
            self.forwarder.add_link(SENDER, pair, 1, LinkTerms(False, 0 if s.anonymous else address, 250))
            self.forwarder.add_alias(f"queue.{pair}".encode(), address)
        self.forwarder.step(0)
        self.work[SENDER].take()

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
        self.forwarder.add_link(RECEIVER, 0, 1, LinkTerms(True, endpoint, 250))
        self.forwarder.add_link(SENDER, 0, 1, LinkTerms(False, table, 250, to_table=True))

    def _deliveries(self, segment: mmap.mmap) -> "array[int]":
        s = self.scenario
        owner = contract.ArenaOwner(segment)
        flags = contract.F_COMPLETE | (contract.F_SETTLED if s.settled else 0)
        records = bytearray()
        order = list(range(BATCH))
        if s.shuffled:
            self._random.shuffle(order)
        for i in order:
            block = owner.write(TO + bytes(100))
            if block is None:
                raise MemoryError("the arena is too small for a batch")
            _say_where_to(segment, owner.blocks[0], block)
            records += contract.pack(
                type=contract.A_DELIVER,
                flags=flags,
                priority=4,
                link=i % s.pairs,
                link_gen=1,
                block=block,
                peer=0 if s.settled else 1 << 32 | i,
                length=len(TO) + 100,
                time=1,
                **self._key(),
            )
        return array("Q", bytes(records))

    def _key(self) -> dict[str, int]:
        if not self.scenario.routes:
            return {}
        mt = self._random.randrange(100, self.scenario.routes)
        return {"state": KEY_FOUND, "delivery": mt | 0xFFFFFFFF << 32}

    def read_log(self) -> None:
        """Read the flow log's records as the recorder does, so that there is always room."""
        self._columns.clear()
        self._reader.read(self._columns, 0)

    def answers(self) -> "array[int]":
        """Return the answers of the receivers' worker to its work: accepted and settled, or done."""
        sent = self.work[RECEIVER].take()
        one = contract.pack(type=contract.A_DONE) if self.scenario.settled else ACCEPTED
        answers = array("Q", one * (len(sent) // WORDS))
        answers[2::WORDS] = sent[3::WORDS]  # delivery = the handle that the core sent as its own
        return answers


def measure(scenario: Scenario, messages: int, clock: Callable[[], int] = time.perf_counter_ns) -> float:
    """Return the median batch's core time per message, forwarded and settled, in ns."""
    bed = Bed(scenario)
    batch = max(1, BATCH // scenario.copies)
    batches: list[int] = []
    for _ in range(max(3, messages // (batch * scenario.copies))):
        bed.actions[SENDER].put(bed.deliver[: batch * WORDS])
        spent, copies = 0, 0
        while copies < batch * scenario.copies:
            began = clock()
            bed.forwarder.step(2)
            spent += clock() - began
            answers = bed.answers()
            if not answers:
                raise RuntimeError(f"{scenario.name}: {copies} messages came out of {batch}")
            copies += len(answers) // WORDS
            bed.actions[RECEIVER].put(answers)
        began = clock()
        bed.forwarder.step(3)
        batches.append(spent + clock() - began)
        bed.read_log()
        if len(bed.work[SENDER].take()) != batch * WORDS:
            raise RuntimeError(f"{scenario.name}: not every message was settled")
    return sorted(batches)[len(batches) // 2] / batch


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

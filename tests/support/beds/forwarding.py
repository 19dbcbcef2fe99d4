"""A forwarder between a sender's worker and a receiver's."""

import struct

from bench import contract as n
from core.addresses.addresses import TREATMENTS
from core.forwarder.forward import NOTHING, Forwarder
from core.forwarder.link_terms import LinkTerms
from shm.statistics.stats import COUNTERS
from tests.model.memory import Memory

ARENA = 256 * 1024
SENDER, RECEIVER = 0, 1  # workers, and arenas; the core's arena is number 2
WORKERS = 2
INCOMING = 5 << 32 | 7  # the sender worker's handle
HEADER = 128 + 16  # bytes between the map and the first content header of a message without annotations


class Bed:
    """A sender (worker 0, link 0), a receiver (worker 1, link 0), an anonymous sender (worker 0, link 1)."""

    def __init__(self, treatment: str = "balanced", priority: int = -1, settles: bool = False) -> None:
        memory = Memory(WORKERS, n.RING_CAPACITY, ARENA)
        self.memory, rings, control = memory.arenas, memory.rings, memory.control
        self.forwarder = Forwarder(WORKERS, control, rings, self.memory, [-1] * WORKERS)
        self.actions = [n.Producer(rings, n.action_ring_offset(w)) for w in range(WORKERS)]
        self.work = [n.Consumer(rings, n.work_ring_offset(w)) for w in range(WORKERS)]
        self.arena = n.ArenaOwner(self.memory[SENDER])
        self.details = n.ArenaOwner(self.memory[RECEIVER])
        self.stats = n.StatsPage(control, n.stats_offset(WORKERS))
        self.address = self.forwarder.add_address(TREATMENTS.index(treatment), priority)
        self.forwarder.add_link(SENDER, 0, 1, LinkTerms(False, self.address, 10))
        self.forwarder.add_link(SENDER, 1, 1, LinkTerms(False, 0, 10))
        self.forwarder.add_link(RECEIVER, 0, 1, LinkTerms(True, self.address, 10, settles=settles))
        self.step()

    def step(self) -> int:
        return self.forwarder.step(1000)

    def act(self, worker: int, **fields: int) -> None:
        assert self.actions[worker].push(n.pack(**fields))
        self.actions[worker].publish()
        assert self.step() == NOTHING

    def deliver(self, content: bytes = b"hello", flags: int = n.F_COMPLETE, peer: int = INCOMING, **fields: int) -> int:
        block = self.arena.write(content)
        assert block is not None
        fields = {"link": 0, "priority": 4, "length": len(content), "time": 1} | fields
        self.act(SENDER, type=n.A_DELIVER, flags=flags, link_gen=1, block=block, peer=peer, **fields)
        return block

    def counted(self, name: str) -> int:
        """A counter of the core's."""
        return self.stats.get(COUNTERS[name].place)

    def heard(self, worker: int, kind: int) -> list[dict[str, int]]:
        """The work of one kind, or (0) all; the rest is forgotten."""
        found = []
        while (record := self.work[worker].pop()) is not None:
            found.append(n.unpack(record))
        self.work[worker].give_back()
        return [r for r in found if kind in (0, r["type"])]

    def sent(self) -> dict[str, int]:
        (record,) = self.heard(RECEIVER, n.W_SEND)
        return record

    def say_where_to(self, block: int, offset: int, length: int) -> None:
        (small, large) = self.arena.blocks
        at = 4096 + (small + large + 4095) // 4096 * 4096 + block * 512 + HEADER
        struct.pack_into("=II", self.memory[SENDER], at + 16, offset, length)

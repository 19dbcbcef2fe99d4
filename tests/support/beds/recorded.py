"""A core whose flight recorder is on."""

import mmap

from bench import contract as n
from core.forwarder.forward import NOTHING
from core.forwarder.link_terms import LinkTerms
from core.forwarder.recorded import Forwarder
from routerd.replay.recording import Recording
from shm.memory import flight
from shm.memory.flight import Taken
from tests.model.memory import Memory


class Bed:
    """A core with a sender (worker 0) and a receiver (worker 1), recorded from its first call on."""

    stops = (NOTHING,)  # how a turn may end

    def __init__(self, lines: int = 4096, texts: bool = False) -> None:
        self.memory = Memory(2, n.RING_CAPACITY)
        self.ring = mmap.mmap(-1, flight.ring_bytes(lines))
        rings = self.memory.rings
        self.forwarder = Forwarder(2, self.memory.control, rings, self.memory.arenas, [-1, -1])
        self.forwarder.record(self.ring, texts=texts)
        self.actions = [n.Producer(rings, n.action_ring_offset(w)) for w in range(2)]
        self.work = [n.Consumer(rings, n.work_ring_offset(w)) for w in range(2)]
        self.address = self.forwarder.add_address(1)
        self.forwarder.set_text(self.address, b"a-secret-address")
        self.forwarder.add_alias(b"a-secret-address", self.address)
        self.forwarder.add_link(0, 0, 1, LinkTerms(False, self.address, 250))
        self.forwarder.add_link(1, 0, 1, LinkTerms(True, self.address, 250))
        self.now = 1

    def act(self, worker: int, **fields: int) -> None:
        assert self.actions[worker].push(n.pack(**fields))
        self.actions[worker].publish()
        self.now += 1
        assert self.forwarder.step(self.now) in self.stops

    def corrupt(self, worker: int) -> None:
        """Change, as a broken worker could, how much work was published for it."""
        at = n.work_ring_offset(worker)
        self.memory.rings[at : at + 8] = (1 << 40).to_bytes(8, "little")

    def long_call(self, octets: int) -> None:
        """Make a call with so many octets of arguments."""
        assert self.forwarder.recorder is not None
        self.forwarder.recorder._flight.call(0, bytes(octets))

    def heard(self, worker: int) -> list[dict[str, int]]:
        found = []
        while (record := self.work[worker].pop()) is not None:
            found.append(n.unpack(record))
        self.work[worker].give_back()
        return found

    def exchange(self, number: int = 1) -> None:
        """Messages and their outcomes."""
        for peer in range(number):
            whole = {"flags": n.F_COMPLETE, "length": 5}
            self.act(0, type=n.A_DELIVER, link=0, link_gen=1, block=1, peer=1 << 32 | peer, **whole)
            (send,) = [one for one in self.heard(1) if one["type"] == n.W_SEND]
            settled = {"flags": n.F_SETTLED, "state": n.S_ACCEPTED, "block": 0xFFFFFFFF}
            self.act(1, type=n.A_UPDATE, delivery=send["peer"], **settled)
            self.heard(0)

    def take(self, last: float | None = None) -> Taken:
        return flight.take(self.ring, "me", "0", "a test", last, running=False)

    def recording(self) -> Recording:
        taken = self.take()
        return Recording(taken.about, taken.lines)

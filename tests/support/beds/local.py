"""A core that sends and receives messages itself, and its worker."""

from bench import contract as n
from bench.contract import C_ATTACH, C_CONNECTION_OPENED
from shm.contract.payloads import Attach, ConnectionOpened
from tests.support.beds.one_worker import OneWorker

ARENA = 8 * 1024 * 1024
HANDLE = 1 << 32
BAD, STALE = 24, 50  # shm/statistics/stats.py
OUTCOMES = {n.S_ACCEPTED, n.S_REJECTED}


class Bed(OneWorker):
    """A core that subscribes to `here`; a worker with a sender to it, link 0, a receiver from `there`, 1."""

    def __init__(self) -> None:
        super().__init__(ARENA)
        self.received: list[bytes] = []
        self.empty = self.core.forwarder.counts()
        self.core.local.subscribe("here", self.received.append)
        self.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "c", "h:1"))
        self.say(C_ATTACH, Attach(0, 1, 0, "s", False, "here"))
        self.say(C_ATTACH, Attach(1, 1, 0, "r", True, "there"))
        self.step()

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

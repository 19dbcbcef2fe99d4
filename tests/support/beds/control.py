"""A core's control plane and its one worker."""

import msgspec

from bench import contract as n
from bench.contract import C_ATTACHED
from core.addresses.addresses import Identity
from shm.contract.control import AddressSetup, Setup
from shm.contract.payloads import Attached
from tests.support.beds.one_worker import OneWorker

ME = Identity("me")
ARENAS = (4 * 1024 * 1024, 1024 * 1024)  # the worker's, the core's
BAD, STALE = 24, 50  # shm/statistics/stats.py


class Bed(OneWorker):
    """A core with one worker whose part the test plays."""

    def __init__(self, semaphore: str | None = None, mode: str = "standalone") -> None:
        few = AddressSetup(prefix="few", max_senders=1, max_receivers=2, link_capacity=10)
        rules = [AddressSetup(prefix="closed", distribution="unavailable"), few]
        setup = Setup("core", 1, 1, "/none", "me", "0", 1, [-1], mode=mode, addresses=rules)
        super().__init__(*ARENAS, setup=setup, semaphore=semaphore)
        self.doorbell = n.Doorbell(self.memory.control, n.core_doorbell_offset())
        self.now = 0

    def step(self) -> list[dict[str, int]]:
        self.now += 1
        self.core.step(self.now)
        return self.heard()

    def heard(self) -> list[dict[str, int]]:
        """All work; blocks of ours are taken back."""
        found = []
        while (record := self.work.pop()) is not None:
            found.append(n.unpack(record))
            if found[-1]["type"] == n.W_RELEASE:
                assert self.arena.free_chain(found[-1]["block"])
        self.work.give_back()
        return found

    def answers(self) -> list[Attached]:
        return [
            msgspec.msgpack.decode(self.core_arena.read(r["block"]), type=Attached)
            for r in self.step()
            if r["type"] == n.W_CONTROL and r["state"] == C_ATTACHED
        ]

"""A core with one worker, whose part the test plays."""

from typing import Any

import msgspec

from bench import contract as n
from core.process.router import Core
from shm.contract.control import Setup
from tests.model.memory import Memory


class OneWorker:
    """The core; the worker's rings, arena and statistics page; payloads of the core."""

    def __init__(
        self, arena_bytes: int, core_arena_bytes: int = n.CORE_ARENA_BYTES, seed: bytes = b"seed",
        setup: Setup | None = None, **core: Any,
    ) -> None:  # fmt: skip
        memory = Memory(1, n.RING_CAPACITY, arena_bytes, core_arena_bytes)
        self.core = Core(setup or Setup("core", 1, 1, "/none", "me", "0", 1, [-1]), memory, seed, **core)
        self.arena = n.ArenaOwner(memory.arenas[0])
        self.core_arena = n.Arena(memory.arenas[1])
        self.actions = n.Producer(memory.rings, n.action_ring_offset(0))
        self.work = n.Consumer(memory.rings, n.work_ring_offset(0))
        self.stats = n.StatsPage(memory.control, n.stats_offset(1))
        self.memory = memory

    def say(self, kind: int, payload: bytes | msgspec.Struct) -> None:
        block = self.arena.write(payload if isinstance(payload, bytes) else msgspec.msgpack.encode(payload))
        assert block is not None
        self.act(type=n.A_CONTROL, state=kind, arena=0, block=block)

    def act(self, **fields: int) -> None:
        assert self.actions.push(n.pack(**fields))
        self.actions.publish()

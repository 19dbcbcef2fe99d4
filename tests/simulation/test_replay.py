"""A recorded log of actions replays to the same work, byte for byte: how a field report becomes a test."""

from typing import Any

import pytest

from bench import contract as n
from core.process.router import Core
from shm.contract.control import WorkerGone
from tests.model.memory import Memory
from tests.model.world import core_seed, setup
from tests.support.beds.schedule import MOVES, schedule


def replay(log: list[tuple[Any, ...]], memory: Memory, seed: int) -> list[tuple[int, bytes]]:
    """The work that a new core makes of a log's actions."""

    def ends() -> tuple[list[n.Producer], list[n.Consumer]]:
        return (
            [n.Producer(memory.rings, n.action_ring_offset(w)) for w in range(memory.workers)],
            [n.Consumer(memory.rings, n.work_ring_offset(w)) for w in range(memory.workers)],
        )

    core = Core(setup(memory.workers), memory, core_seed(seed, 1))
    actions, work = ends()
    made: list[tuple[int, bytes]] = []
    for kind, *what in log:
        if kind == "write":
            arena, at, content = what
            memory.arenas[arena][at : at + len(content)] = content
        elif kind == "push":
            assert actions[what[0]].push(what[1])
        elif kind == "publish":
            actions[what[0]].publish()
        elif kind == "step":
            core.step(what[0])
        elif kind == "work":
            record = work[what[0]].pop()
            assert record is not None
            made.append((what[0], record))
        elif kind == "read":
            work[what[0]].give_back()
        elif kind == "core":
            memory.reset()
            core = Core(setup(memory.workers, what[1]), memory, core_seed(seed, what[0]))
            actions, work = ends()
        else:
            index, generation, now = what
            core.worker_gone(WorkerGone(index, generation), now)
            actions[index] = n.Producer(memory.rings, n.action_ring_offset(index))
            work[index] = n.Consumer(memory.rings, n.work_ring_offset(index))
    return made


@pytest.mark.parametrize("seed", range(40))
def test_same_actions_same_work(seed: int) -> None:
    """Work depends on the actions, the times and the seed alone."""
    world = schedule(seed)
    capacity = world.capacity
    world.run(MOVES * 4)
    recorded = [(what[0], what[1]) for kind, *what in world.log if kind == "work"]
    assert recorded
    assert replay(world.log, Memory(len(world.workers), capacity), seed) == recorded

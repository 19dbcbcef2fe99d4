"""The supervisor's hold on shared memory."""

import os
from collections.abc import Iterator

import pytest

from routerd.memory import SharedMemory
from shm.segment import DIRECTORY, attach
from shm.stats import COUNTERS


def names(memory: SharedMemory) -> set[str]:
    return {name for name in os.listdir(DIRECTORY) if memory.prefix[1:] in name}


@pytest.fixture
def memory() -> Iterator[SharedMemory]:
    memory = SharedMemory("memory-test", 2, 4)
    yield memory
    memory.close()
    assert names(memory) == set()


def test_a_dead_worker_has_no_connections_and_accepts_none(memory: SharedMemory) -> None:
    """The other workers balance by these figures; what was counted stays counted."""
    accepting, connections = COUNTERS["accepting"][0], COUNTERS["connections"][0]
    with attach(memory.prefix) as segments:
        pages = [segments.worker_stats(index) for index in range(2)]
        for page in pages:
            page.own(4711, 3)
            page.set(accepting, 1)
            page.set(connections, 17)
            page.set(COUNTERS["deliveries_in"][0], 99)
        memory.worker_gone(0)
        assert [(page.pid, page.get(accepting), page.get(connections)) for page in pages] == [
            (0, 0, 0),
            (4711, 1, 17),
        ]
        assert pages[0].generation == 3
        assert pages[0].get(COUNTERS["deliveries_in"][0]) == 99
        del page, pages


def test_renewed_memory_is_new_under_the_same_names(memory: SharedMemory) -> None:
    """Nothing of the old state is left, and children find it as before."""
    before = names(memory)
    with attach(memory.prefix) as segments:
        segments.worker_stats(0).set(8, 5)
        memory.renew()
        assert names(memory) == before
        with attach(memory.prefix) as renewed:
            assert renewed.worker_stats(0).get(8) == 0
            assert renewed.supervisor_stats().pid == os.getpid()


def test_the_core_is_woken_through_its_semaphore(memory: SharedMemory) -> None:
    """It may sleep where no poll can watch its control socket."""
    with attach(memory.prefix) as segments:
        memory.wake_core()
        segments.semaphore.acquire(5)

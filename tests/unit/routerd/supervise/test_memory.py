"""The supervisor's hold on shared memory."""

import errno
import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from bench import contract
from routerd.supervise import memory as memory_module
from routerd.supervise.memory import SharedMemory
from shm.contract.roles import Role
from shm.memory.observer import SharedView
from shm.memory.segment import DIRECTORY, attach
from shm.native import FlowReader, ring_records, stats_offset
from shm.statistics.stats import COUNTERS


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
    accepting, connections = COUNTERS["accepting"].place, COUNTERS["connections"].place
    with attach(memory.prefix) as segments:
        pages = [segments.worker_stats(index) for index in range(2)]
        for page in pages:
            page.own(4711, 3)
            page.set(accepting, 1)
            page.set(connections, 17)
            page.set(COUNTERS["deliveries_in"].place, 99)
        memory.worker_gone(0)
        assert [(page.pid, page.get(accepting), page.get(connections)) for page in pages] == [(0, 0, 0), (4711, 1, 17)]
        assert pages[0].generation == 3
        assert pages[0].get(COUNTERS["deliveries_in"].place) == 99
        del page, pages


def test_a_control_group_that_is_too_small_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At the start, not when the kernel kills."""
    monkeypatch.setattr(memory_module, "memory_limit", lambda: 100 * 1024 * 1024)
    SharedMemory("memory-test", 2, 4).close()
    assert "the control group allows 100 MiB" in caplog.text


def test_reset_memory_is_as_new_under_everybodys_feet(memory: SharedMemory) -> None:
    """Mappings stay valid; rings are empty, blocks free, nobody sleeps; what was counted stays counted."""
    with attach(memory.prefix) as segments:
        page = segments.core_stats()
        page.own(4711, 3)
        for name in ("forwarded", "live_deliveries"):
            page.set(COUNTERS[name].place, 5)
        actions = contract.Producer(segments.rings, contract.action_ring_offset(1))
        for _ in range(3):
            assert actions.push(bytes(contract.RECORD_SIZE))
        actions.publish()
        arenas = [contract.Arena(arena) for arena in segments.arenas]
        assert contract.mark_chain(arenas[0], 7) > 0
        contract.Doorbell(segments.control, contract.core_doorbell_offset()).sleep()
        segments.semaphore.release()
        segments.semaphore.release()
        memory.reset()
        assert not contract.Consumer(segments.rings, contract.action_ring_offset(1)).pending()
        assert [arena.marked() for arena in arenas] == [[], [], []]
        assert not contract.Doorbell(segments.control, contract.core_doorbell_offset()).should_ring()
        assert segments.semaphore.value == 0
        assert (page.pid, page.generation, page.get(COUNTERS["forwarded"].place)) == (0, 3, 5)
        assert page.get(COUNTERS["live_deliveries"].place) == 0
        assert segments.supervisor_stats().pid == os.getpid()
        del actions, arenas, page


def test_reset_mends_what_a_mad_core_has_damaged(memory: SharedMemory) -> None:
    """Otherwise no later core could start."""
    with attach(memory.prefix) as segments:
        segments.rings[:4096] = b"\xff" * 4096
        for arena in segments.arenas:
            arena[:64] = b"\xff" * 64
        memory.reset()
    with attach(memory.prefix):
        pass


@pytest.mark.parametrize("octet", [0x00, 0x01, 0xFF])
def test_a_worker_that_went_mad_keeps_no_other_from_starting(memory: SharedMemory, octet: int) -> None:
    """Every process that starts attaches to all segments. What the others count and hold stays as it is."""
    with attach(memory.prefix) as segments:
        arenas = [contract.Arena(arena) for arena in segments.arenas]
        assert contract.mark_chain(arenas[0], 7) > 0
        marked, started = arenas[0].marked(), FlowReader(segments.flow).started
        for damaged in (segments.arenas[0], segments.arenas[1], segments.flow):
            damaged[:32] = bytes((octet,)) * 32
        memory.empty(1)
        memory.mend()
        with attach(memory.prefix) as later:
            assert contract.Arena(later.arenas[0]).marked() == marked
            assert FlowReader(later.flow).started == started
        del arenas


@pytest.mark.parametrize("octet", [0x00, 0x01, 0xFF])
def test_a_ring_whose_capacity_a_worker_has_damaged_keeps_no_other_from_starting(
    memory: SharedMemory, octet: int
) -> None:
    """Its records stay where they are, and observers go on counting them."""
    with attach(memory.prefix) as segments:
        at = contract.action_ring_offset(0)
        actions = contract.Producer(segments.rings, at)
        for _ in range(3):
            assert actions.push(bytes(contract.RECORD_SIZE))
        actions.publish()
        segments.rings[at + 128 : at + 136] = bytes((octet,)) * 8
        assert ring_records(segments.rings, at) == 3
        memory.mend()
        with attach(memory.prefix) as later:
            assert contract.Consumer(later.rings, at).pending()
        del actions


def test_the_log_says_when_a_worker_more_leaves_no_room_for_its_marks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else took the room since it was checked; the worker is added all the same."""

    def fallocate(fd: int, start: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with closing(SharedMemory("memory-test", 1, 4, places=2)) as memory:
        monkeypatch.setattr(os, "posix_fallocate", fallocate)
        memory.set_workers(2)
        with attach(memory.prefix) as segments:
            assert segments.workers == 2
    (line,) = [one.getMessage() for one in caplog.records]
    assert f"{memory.prefix}-arena-1 cannot have" in line
    assert "make room in /dev/shm" in line


@pytest.mark.parametrize("octet", [0x00, 0x01, 0xFF])
def test_the_supervisor_believes_no_number_that_a_mad_core_may_have_written(octet: int) -> None:
    """How many workers there are, and how large their arenas: the router would end with it, or no later core start."""
    memory = SharedMemory("memory-test", 2, 4, places=3)
    memory.set_workers(3)
    memory.set_workers(2)
    with closing(memory), attach(memory.prefix) as segments:
        segments.control[:8192] = bytes((octet,)) * 8192
        for slot in range(3 + 3):
            at = stats_offset(slot)
            segments.control[at : at + 8] = bytes((octet,)) * 8
        assert memory.connections() == 0
        memory.beat()
        memory.reset()
        with attach(memory.prefix) as later:
            assert later.counts() == (2, 3)
            assert [later.size(f"arena-{index}") for index in range(3)] == [4 << 20] * 3


def test_the_core_is_woken_through_its_semaphore(memory: SharedMemory) -> None:
    """It may sleep where no poll can watch its control socket."""
    with attach(memory.prefix) as segments:
        memory.wake_core()
        segments.semaphore.acquire(5)


def test_a_recorder_that_nobody_wants_any_more_is_not_missing(memory: SharedMemory) -> None:
    """Its page has no process; what it counted stays counted."""
    with attach(memory.prefix) as segments:
        page = segments.recorder_stats()
        page.own(4711, 3)
        page.add(COUNTERS["flow_rows"].place, 5)
        view = SharedView(memory.prefix)
        assert Role.RECORDER in view.processes
        memory.recorder_gone()
        assert Role.RECORDER not in view.processes
        assert [(one.process, one.generation, one.counters["flow_rows"]) for one in view.former()] == [
            ("recorder", 3, 5)
        ]
        del page, view

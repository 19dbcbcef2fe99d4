"""Segments: made whole or not at all, attached only when intact, swept only when nobody owns them."""

import errno
import os
import signal
import stat
import subprocess
import sys
from collections import namedtuple
from itertools import pairwise
from pathlib import Path

import posix_ipc
import pytest

from bench import contract
from shm import native
from shm.memory import segment, space
from shm.memory.sweep import owners, sweep

SHM = Path("/dev/shm")
ROOT = Path(segment.__file__).parents[1]


@pytest.fixture
def prefix():
    """A family's prefix of this process; what is left of the family fails the test."""
    name = segment.segment_prefix("unit-test", os.getpid())
    yield name
    left = children(name)
    for file in left:
        (SHM / file).unlink()
    assert not left


def children(prefix):
    return sorted(name for name in os.listdir(SHM) if prefix[1:] in name)


def maker(prefix, then):
    """A process that makes a family and says so, then runs `then`."""
    code = f"from shm.memory import segment\ns = segment.create({prefix!r}, 1, 1)\nprint('made', flush=True)\n{then}"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"made\n"
    return process


def test_names_begin_with_routerd_and_hold_no_strange_characters():
    """An id may hold anything; a name may not."""
    assert segment.segment_prefix("Router.A-1", 7) == "/routerd-Router.A-1-7"
    assert segment.segment_prefix("a/b c\nö", 7) == "/routerd-a_b_c__-7"
    assert len(segment.segment_prefix("x" * 1000, 7)) < 100


def test_everything_exists_with_mode_0600_and_goes_with_the_maker(prefix):
    """Two workers: control, rings, flow, three arenas, one semaphore."""
    with segment.create(prefix, 2, 1) as made:
        names = children(prefix)
        stem = prefix[1:]
        assert names == sorted(
            [
                *(f"{stem}-{name}" for name in ("control", "rings", "flow", "arena-0", "arena-1", "arena-2")),
                f"sem.{stem}-core",
            ]
        )
        assert {stat.S_IMODE((SHM / name).stat().st_mode) for name in names} == {0o600}
        assert made.workers == 2
    assert children(prefix) == []


def test_children_see_what_the_maker_writes(prefix):
    """Statistics, doorbells, rings and arenas stand in the same place for everybody."""
    with segment.create(prefix, 2, 1) as made, segment.attach(prefix) as child:
        made.worker_stats(1).add(5, 3)
        assert child.worker_stats(1).get(5) == 3
        assert child.worker_stats(0).get(5) == child.core_stats().get(5) == child.supervisor_stats().get(5) == 0
        doorbells = [contract.Doorbell(made.control, contract.worker_doorbell_offset(n)) for n in range(2)]
        contract.Doorbell(child.control, contract.worker_doorbell_offset(1)).sleep()
        assert not doorbells[0].should_ring()
        assert not contract.Doorbell(made.control, contract.core_doorbell_offset()).should_ring()
        assert doorbells[1].should_ring()
        assert not doorbells[1].should_ring()
        producer = contract.Producer(child.rings, contract.action_ring_offset(1))
        producer.push(contract.pack(type=contract.A_DELIVER, link=9))
        producer.publish()
        record = contract.Consumer(made.rings, contract.action_ring_offset(1)).pop()
        assert record is not None
        assert contract.unpack(record)["link"] == 9
        head = contract.ArenaOwner(child.arenas[1]).write(b"content" * 1000)
        assert contract.Arena(made.arenas[1]).read(head) == b"content" * 1000
        made.semaphore.release()
        child.semaphore.acquire(0)
        del producer, doorbells


def test_nothing_overlaps(prefix):
    """Doorbells, pages and rings of the largest router stand beside each other."""
    most = contract.MAX_WORKERS
    doorbells = [contract.core_doorbell_offset()] + [contract.worker_doorbell_offset(i) for i in range(most)]
    pages = [contract.stats_offset(slot) for slot in range(most + 3)]
    assert sorted(doorbells) == [1024 + 64 * i for i in range(most + 1)]
    assert doorbells[-1] + 64 <= pages[0]
    assert pages == [8192 * (1 + i) for i in range(most + 3)]
    rings = [offset(i) for i in range(most) for offset in (contract.action_ring_offset, contract.work_ring_offset)]
    size = contract.ring_bytes(contract.RING_CAPACITY)
    assert all(b - a >= size and b % 4096 == 0 for a, b in pairwise(rings))
    assert contract.rings_bytes(most) >= rings[-1] + size


@pytest.mark.parametrize("mib", [1, 7, 64])
def test_an_arena_is_a_third_small_and_two_thirds_large_blocks(mib, prefix):
    """Of the segment's size, which is the configured one."""
    with segment.create(prefix, 1, mib) as made:
        assert made.size("arena-0") == mib << 20
        small, large = contract.Arena(made.arenas[0]).blocks
        assert 0.30 < small * 512 / (mib << 20) < 0.36
        assert 0.62 < large * 16384 / (mib << 20) < 0.67


def test_a_mapping_in_use_cannot_be_closed(prefix):
    """Whoever still has a ring is told, instead of reading unmapped memory."""
    made = segment.create(prefix, 1, 1)
    producer = contract.Producer(made.rings, 0)
    with pytest.raises(BufferError):
        made.close()
    del producer
    made.close()


def test_what_is_missing_is_named(prefix):
    """Attaching without a router says so."""
    with pytest.raises(segment.SegmentError, match=f"{prefix}-control does not exist.*start the router"):
        segment.attach(prefix)
    with segment.create(prefix, 1, 1) as made:
        posix_ipc.unlink_semaphore(made.names.semaphore)
        with pytest.raises(segment.SegmentError, match=f"{prefix}-core does not exist"):
            segment.attach(prefix)


@pytest.mark.parametrize(
    ("name", "offset", "damage", "reason"),
    [
        ("control", 0, b"x", "it is no control segment"),
        ("control", 8, b"\2", "its size does not fit"),
        ("control", 8, b"\0", "its number of places makes no sense"),
        ("control", 32, b"\2", "its number of workers makes no sense"),
        ("control", 12, b"\x63", "it was made by another version"),
        ("control", 8192, b"x", "a statistics page"),
        ("rings", 128, b"\1", "a ring in it is not formatted"),
        ("flow", 0, b"x", "it is no telemetry"),
        ("flow", 4, b"x", "its parts have other sizes"),
        ("arena-0", 0, b"x", "it is no arena"),
        ("arena-1", 11, b"\1", "it is no arena of its size"),
    ],
)
def test_damaged_segments_are_refused_by_name(prefix, name, offset, damage, reason):
    """The error names the segment and what is wrong with it."""
    with segment.create(prefix, 1, 1) as made:
        made._maps[name][offset : offset + len(damage)] = damage
        with pytest.raises(segment.SegmentError, match=f"{prefix}-{name} cannot be used: {reason}"):
            segment.attach(prefix)


@pytest.mark.parametrize("name", ["control", "rings", "flow", "arena-0", "arena-1"])
@pytest.mark.parametrize("size", [0, 4096])
def test_truncated_segments_are_refused_by_name(prefix, name, size):
    """Nobody maps less than there should be and finds out by SIGBUS."""
    with segment.create(prefix, 1, 1):
        os.truncate(SHM / f"{prefix[1:]}-{name}", size)
        with pytest.raises(segment.SegmentError, match=f"{prefix}-{name} cannot be"):
            segment.attach(prefix)


@pytest.mark.parametrize(("workers", "mib", "culprit"), [(0, 1, "workers"), (65, 1, "workers"), (1, 0, "arenaSize")])
def test_impossible_sizes_name_the_attribute(prefix, workers, mib, culprit):
    """The configuration's attribute is in the message."""
    with pytest.raises(segment.SegmentError, match=f"change `{culprit}`"):
        segment.create(prefix, workers, mib)


def test_too_little_space_is_an_error_before_anything_is_made(prefix, monkeypatch):
    """A container's 64 MB would otherwise kill a worker by SIGBUS, later."""
    status = namedtuple("status", "f_bavail f_frsize f_blocks")
    monkeypatch.setattr(os, "statvfs", lambda _: status(16384, 4096, 16384))
    with pytest.raises(
        segment.SegmentError, match=r"2 workers with arenas of 64 MiB need 136 MiB.*only 64 MiB.*--shm-size"
    ):
        segment.create(prefix, 2, 64)
    with pytest.raises(segment.SegmentError, match=r"and a flight recorder of 64 MiB need .*`flightRecords`"):
        segment.create(prefix, 1, 4, records=1 << 20)
    assert children(prefix) == []


def backed(name):
    """Octets of a segment for which the kernel has given memory."""
    return os.stat(SHM / name[1:]).st_blocks * 512


def test_the_supervisor_has_its_pages_from_the_start(prefix):
    """It writes log lines and clears marks when others have filled /dev/shm; a page that is missing then is SIGBUS."""
    with segment.create(prefix, 2, 64, places=4, records=1 << 16) as made:
        assert made.flight is not None
        assert backed(made.names.flight) >= len(made.flight)
        own = native.journal_offset(4, 0) + native.JOURNAL_BYTES
        assert backed(made.names.control) >= own
        marks = [native.Arena(arena).first_block for arena in made.arenas]
        has = [backed(made.names.arena(place)) >= octets for place, octets in enumerate(marks)]
        assert has == [True, True, False, False, True]
        made.set_workers(3)
        assert backed(made.names.arena(2)) >= marks[2]


def test_no_memory_for_the_supervisor_is_an_error_that_leaves_nothing(prefix, monkeypatch):
    """Somebody took the room between the check and the making."""

    def fallocate(fd, start, size):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    with pytest.raises(segment.SegmentError, match=f"{prefix}-control cannot have .* No space left.*; make room"):
        segment.create(prefix, 1, 1)
    assert children(prefix) == []


def test_a_failure_half_way_leaves_nothing(prefix, monkeypatch):
    """The fourth segment cannot grow; the first three go as well."""
    real, calls = os.ftruncate, []

    def ftruncate(fd, size):
        calls.append(size)
        if len(calls) == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(fd, size)

    monkeypatch.setattr(os, "ftruncate", ftruncate)
    with pytest.raises(segment.SegmentError, match=f"{prefix}-arena-0 cannot have 1048576 bytes: No space left.*lower"):
        segment.create(prefix, 1, 1)
    assert children(prefix) == []


def test_a_family_is_made_once(prefix):
    """The second maker is refused and removes nothing of the first."""
    with segment.create(prefix, 1, 1):
        before = children(prefix)
        with pytest.raises(segment.SegmentError, match=r"exists in /dev/shm already.*another `id`"):
            segment.create(prefix, 1, 1)
        assert children(prefix) == before


def test_sweep_spares_the_living(prefix):
    """Its own and another process's family stay."""
    other = segment.segment_prefix("unit-test-other", os.getpid())
    with segment.create(prefix, 1, 1), maker(other, "input()") as process:
        before = children("unit-test")
        assert not [name for name in sweep() if "unit-test" in name]
        assert children("unit-test") == before
        process.send_signal(signal.SIGKILL)
    assert len([name for name in sweep() if other[1:] in name]) == 6
    assert children(other) == []


def test_sweep_removes_what_lost_its_control_segment(prefix):
    """Segments and semaphore without a control segment have no owner; similar names are not touched."""
    stem = prefix[1:]
    orphans = [f"{stem}-rings", f"{stem}-arena-12", f"sem.{stem}-core"]
    strangers = [f"{stem}-other", f"x{stem}-rings", f"{stem}-arena-x", "routerd-unit-test-rings"]
    for name in orphans + strangers:
        (SHM / name).write_bytes(b"")
    try:
        assert set(sweep()) >= set(orphans)
        assert not any((SHM / name).exists() for name in orphans)
        assert all((SHM / name).exists() for name in strangers)
    finally:
        for name in strangers:
            (SHM / name).unlink()


def test_sweep_removes_a_family_that_was_never_finished(prefix):
    """A maker killed between its first two calls leaves an empty control segment."""
    (SHM / f"{prefix[1:]}-control").write_bytes(b"")
    assert f"{prefix[1:]}-control" in sweep()


def test_sweep_waits_for_nobody(tmp_path, monkeypatch):
    """Everybody may make names in shared memory, also of pipes, whose opening would wait for a writer."""
    for module in (space, segment):
        monkeypatch.setattr(module, "DIRECTORY", tmp_path)
    os.mkfifo(tmp_path / "routerd-a-1-control")
    (tmp_path / "routerd-a-1-rings").touch()
    (tmp_path / "routerd-b-1-rings").touch()
    assert sweep() == ["routerd-b-1-rings"]


def test_constants_stand_once():
    """The layout's sizes are what the documentation says."""
    assert (contract.RING_CAPACITY, contract.RECORD_SIZE, contract.CORE_ARENA_BYTES) == (8192, 64, 4 << 20)


def test_a_sweep_is_told_by_routers() -> None:
    """Each segment with a name of its own would fill the line."""
    files = ["routerd-a-1-control", "routerd-a-1-arena-0", "sem.routerd-a-1-core", "routerd-b-c-2-rings"]
    assert owners(files) == ["routerd-a-1", "routerd-b-c-2"]

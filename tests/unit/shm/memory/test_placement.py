"""Where an arena's memory is to come from, as far as this machine shows it."""

import mmap
import os
from pathlib import Path

import pytest

from shm import native
from shm.memory import placement


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """Two nodes with CPUs, one with memory alone."""
    for node, cpus in ((0, "0-3,8"), (1, "4-7"), (2, "")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(f"{cpus}\n")
    (tmp_path / "has_cpu").write_text("0-1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("cpus", "node"), [([2], 0), ([8, 0], 0), ([4, 5], 1), ([3, 4], None), ([99], None), ([], None)]
)
def test_a_worker_s_node_is_that_of_all_its_cpus(nodes: Path, cpus: list[int], node: int | None) -> None:
    assert placement.node_of(cpus, nodes) == node


def test_a_kernel_without_nodes_has_none(tmp_path: Path) -> None:
    assert placement.node_of([0], tmp_path / "none") is None


def test_the_preferred_node_stands_in_the_process_s_map() -> None:
    """As the kernel tells it."""
    node = placement.node_of(os.sched_getaffinity(0))
    maps = Path("/proc/self/numa_maps")
    if node is None or not maps.exists():
        pytest.skip("the CPUs of this test are on several NUMA nodes, or the kernel tells of none; run it on one")
    with mmap.mmap(-1, 1 << 20) as memory:
        address = native.address(memory)
        assert placement.prefer_node(memory, address, node) == ""
        (line,) = (one for one in maps.read_text().splitlines() if one.startswith(f"{address:08x} "))
        assert f"prefer:{node}" in line or f"prefer=relative:{node}" in line


def test_a_node_that_is_not_there_is_told() -> None:
    with mmap.mmap(-1, 4096) as memory:
        assert placement.prefer_node(memory, native.address(memory), 1000).startswith("mbind")
        assert "not known" in placement.prefer_node(memory, native.address(memory), 5000)


@pytest.mark.parametrize(
    ("shmem", "options", "why"),
    [
        ("always within_size advise [never] deny force", "rw,size=1k,huge=advise", ""),
        ("always within_size advise [never] deny force", "rw,huge=always", ""),
        ("always within_size advise [never] deny force", "rw", "remount,huge=advise /dev/shm"),
        ("always within_size advise [never] deny force", "rw,huge=never", "remount,huge=advise /dev/shm"),
        ("always within_size advise never [deny] force", "rw,huge=advise", "says deny"),
        ("always within_size advise never deny [force]", "rw", ""),
    ],
)
def test_what_the_system_must_grant(tmp_path: Path, shmem: str, options: str, why: str) -> None:
    """The mount is what counts; the last one there, if there are several."""
    setting, mounts = tmp_path / "shmem_enabled", tmp_path / "mounts"
    setting.write_text(f"{shmem}\n")
    mounts.write_text(f"tmpfs /dev/shm tmpfs rw,huge=advise 0 0\ntmpfs /dev/shm tmpfs {options} 0 0\n")
    found = placement.huge_pages_refused(Path("/dev/shm"), setting, mounts)
    assert (why in found) if why else not found


def test_a_mount_whose_name_is_no_text_is_passed_over(tmp_path: Path) -> None:
    """Anybody's: with hugePages the router did not start."""
    setting, mounts = tmp_path / "shmem_enabled", tmp_path / "mounts"
    setting.write_text("always within_size [advise] never deny force\n")
    mounts.write_bytes(b"tmpfs /dev/shm tmpfs rw,huge=advise 0 0\n/dev/sdb1 /a\xe9/b\xc2\x85c vfat rw 0 0\n")
    assert placement.huge_pages_refused(Path("/dev/shm"), setting, mounts) == ""


def test_a_kernel_without_huge_pages_and_a_directory_without_a_mount(tmp_path: Path) -> None:
    none, mounts = tmp_path / "none", tmp_path / "mounts"
    assert "built without" in placement.huge_pages_refused(Path("/dev/shm"), none, mounts)
    none.write_text("[never]")
    mounts.write_text("/dev/vda / ext4 rw 0 0\n")
    assert "no mount point" in placement.huge_pages_refused(Path("/dev/shm"), none, mounts)

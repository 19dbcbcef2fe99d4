"""Where the memory of a running router's arenas is."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection

from shm.memory import placement
from tests.support.running import LONG, Configuration, RunningRouter, until

UNSHARE = shutil.which("unshare") or ""
MOUNT = "mount -t tmpfs -o huge=advise,size=1g tmpfs /dev/shm"


@pytest.fixture
def router(tmp_path: Path) -> Iterator[RunningRouter]:
    cpu = min(os.sched_getaffinity(0))
    router = RunningRouter(tmp_path, Configuration(router=f"workers: 1\n workerCpus: {cpu}\n arenaSize: 16"))
    yield router
    router.kill()


def test_an_arena_is_on_the_node_of_its_worker(router: RunningRouter) -> None:
    """As the kernel tells it, of the worker's own mapping and of no other."""
    node = placement.node_of([min(os.sched_getaffinity(0))])
    pid = int(re.findall(r"worker 0 serves pid=(\d+)", router.log)[0])
    maps = Path(f"/proc/{pid}/numa_maps")
    if node is None or not maps.exists():
        pytest.skip("the kernel tells of no NUMA nodes; boot one with CONFIG_NUMA")
    lines = [line for line in maps.read_text().splitlines() if "-arena-" in line]
    mine = [line for line in lines if line.split("file=")[1].split()[0].endswith("-arena-0")]
    assert mine
    assert all(f"prefer:{node}" in line for line in mine)
    others = [line for line in lines if line not in mine]
    assert others
    assert not any("prefer" in line for line in others)
    assert f"N{node}=" in mine[0]
    router.stop()


def test_huge_pages_that_the_system_does_not_grant_are_warned_of(tmp_path: Path) -> None:
    """With what to do; the router runs without."""
    if not placement.huge_pages_refused(Path("/dev/shm")):
        pytest.skip("this system grants huge pages to /dev/shm; mount it with huge=never")
    router = RunningRouter(tmp_path, Configuration(router="workers: 1\n arenaSize: 4\n hugePages: true"))
    try:
        assert "(warning) hugePages: shared memory cannot use them: " in router.log
    finally:
        router.kill()


def test_huge_pages_that_the_system_grants_are_used(tmp_path: Path) -> None:
    """In a mount namespace of its own, where /dev/shm has them."""
    if os.geteuid() or not UNSHARE:
        pytest.skip("another /dev/shm is mounted for this: run it as root, with unshare of util-linux")
    if subprocess.run([UNSHARE, "-m", "sh", "-c", MOUNT], check=False, capture_output=True).returncode:
        pytest.skip("this kernel has no huge pages for tmpfs; build it with CONFIG_TRANSPARENT_HUGEPAGE")
    config, log = tmp_path / "router.conf", tmp_path / "log"
    router = "workers: 1\n arenaSize: 16\n hugePages: true"
    config.write_text(Configuration(router=router).text("huge"))
    routerd = Path(sys.executable).with_name("routerd")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [UNSHARE, "-m", "sh", "-c", f"{MOUNT} && exec {routerd} run --config {config}"], stdout=out, stderr=out
        )
    try:
        until(lambda: "Ctrl-C stops it." in log.read_text(), "start")
        assert "(warning)" not in log.read_text()
        (url,) = re.findall(r"amqp://[\d.:]+", log.read_text().split("Operational")[1])[:1]
        connection = BlockingConnection(url, timeout=LONG)
        receiver = connection.create_receiver("a")
        connection.create_sender("a", name="s").link.send(Message("m" * 20_000))
        receiver.receive(timeout=LONG)
        connection.close()
        pid = re.findall(r"worker 0 serves pid=(\d+)", log.read_text())[0]
        parts = re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path(f"/proc/{pid}/smaps").read_text())
        (arena,) = (part for part in parts if part and part.splitlines()[0].endswith("-arena-0"))
        assert re.search(r"ShmemPmdMapped: +[1-9]", arena), arena
    finally:
        process.kill()
        process.wait()

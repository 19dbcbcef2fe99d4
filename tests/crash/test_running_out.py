"""Disks, descriptors and memory run out, outputs vanish, readers hang: what happens, and what does not."""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
from proton import Message

from tests.support.peer import ACCEPTED, Net
from tests.support.routers.hurt import HurtRouter
from tests.support.running import STOP, Configuration, address_of, free_port, roles, until

OUT_OF_MEMORY = "cannot accept connections: out of file descriptors or memory"
HTTP = "listener {\n host: 127.0.0.1\n port: 0\n http: yes\n}\n"


class Limited(HurtRouter):
    """A router whose processes get less than they want; its log is a file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "routerd.log.log"
        log = f"log {{\n module: DEFAULT\n outputFile: {self.file}\n}}\n"
        super().__init__(folder, Configuration(router="workers: 1\n arenaSize: 32", sections=HTTP + log))
        until(lambda: "exporter serves" in self.log, "exporter")

    @property
    def log(self) -> str:
        return self.file.read_text() if self.file.exists() else ""

    def limit(self, role: str, which: int, most: int | None) -> None:
        """A process's limit of a resource; None: none."""
        pid = self.process.pid if role == "supervisor" else self.children[role]
        process = psutil.Process(pid)
        hard = process.rlimit(which)[1]
        process.rlimit(which, (hard if most is None else most, hard))

    def serves(self) -> None:
        """A message passes."""
        passes(self.address)


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Limited]:
    router = Limited(tmp_path)
    try:
        yield router
    finally:
        router.kill()


def passes(address: tuple[str, int]) -> None:
    """A message passes, on connections of its own."""
    with Net(address) as net:
        one_message(net)


def one_message(net: Net, address: str = "a") -> None:
    at, to = net.peer(), net.peer()
    receiver = at.receiver(address, 1)
    sent = net.send(to.ready_sender(address), Message(body="x"))
    at.take(receiver)[0].settle()
    assert net.settled(sent) == [ACCEPTED]


def test_a_full_disk_costs_log_lines_only(router: Limited) -> None:
    """All is served, a dead worker is replaced; when there is room again the log tells how much it lacks."""
    roles = ("supervisor", "core", "worker 0")
    for role in roles:
        router.limit(role, resource.RLIMIT_FSIZE, len(router.log))
    before = len(router.log)
    for _ in range(3):
        router.serves()
    assert len(router.log) == before
    said = "cannot be written: File too large; lines are lost until it can"
    until(lambda: said in router.log_file.read_text(), "the complaint")
    for role in roles:
        router.limit(role, resource.RLIMIT_FSIZE, None)
    router.serves()
    told = r"SERVER \(warning\) \d+ log lines could not be written: File too large process=worker-0"
    until(lambda: re.search(told, router.log[before:]), "what is missing")
    router.stop()


def test_a_moved_log_is_made_anew_by_all_processes(router: Limited) -> None:
    """No signal is needed: whoever has something to say looks whether the file is still there."""
    former = router.file.with_suffix(".1")
    router.file.rename(former)
    time.sleep(1.1)  # a file is looked for once a second
    router.serves()
    router.hit("worker 0")
    until(lambda: "worker 0 serves" in router.log, "next worker")
    for who in ("supervisor", "core", "worker-0"):
        until(lambda who=who: f"process={who}" in router.log, who)
    assert "Operational" in former.read_text()
    router.stop()


def test_a_log_that_cannot_be_written_at_the_start(tmp_path: Path) -> None:
    """The router serves, a dead worker is replaced; when there is a place for the log it is there."""
    file = tmp_path / "none" / "routerd.log.log"
    log = f"log {{\n module: DEFAULT\n outputFile: {file}\n}}\n"
    router = HurtRouter(tmp_path, Configuration(router="workers: 1\n arenaSize: 8", sections=log))
    try:
        said = rf"log outputFile '{file}' cannot be written \(No such file or directory\); give .*; until then"
        assert len(re.findall(said + " its lines go to standard error process=supervisor", router.log)) == 1
        passes(router.address)
        router.hit("worker 0")
        until(lambda: router.log.count("worker 0 serves") == 2, "next worker")
        passes(router.address)
        file.parent.mkdir()
        missing = r"\d+ log lines could not be written: No such file or directory; they went to standard error"

        def written() -> bool:
            passes(router.address)  # each makes some lines
            return file.exists() and bool(re.search(missing + " process=worker-0", file.read_text()))

        until(written, "the log")
        router.stop()
    finally:
        router.kill()


def test_without_standard_streams(tmp_path: Path) -> None:
    """Whoever closes them gets no lines, and no socket or segment takes their place."""
    port, file = free_port(), tmp_path / "log"
    configuration = Configuration(
        router="workers: 1\n arenaSize: 8",
        listener=f"host: 127.0.0.1\n port: {port}",
        sections=f"log {{\n module: SERVER\n outputFile: {file}\n}}\n",
    )
    config = tmp_path / "router.conf"
    config.write_text(configuration.text(f"closed-{os.getpid()}"))
    command = [Path(sys.executable).with_name("routerd"), "run", "--config", config]
    closed = ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    process = subprocess.Popen([*closed, *command], start_new_session=True)
    try:
        until(lambda: file.exists() and "Operational" in file.read_text(), "start")
        passes(("127.0.0.1", port))
        for pid in (process.pid, *(child.pid for child in roles(process.pid).values())):
            streams = {os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)}
            assert streams == {"/dev/null"}
        process.terminate()
        assert process.wait(timeout=STOP) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_without_descriptors_new_clients_wait(router: Limited) -> None:
    """Those that are connected are served; when somebody leaves, who waits is let in."""
    with Net(router.address) as net:
        worker = router.children["worker 0"]
        router.limit("worker 0", resource.RLIMIT_NOFILE, psutil.Process(worker).num_fds() + 2)
        here = [net.peer(), net.peer()]
        waiting = net.begin_peer()
        waiting.open()
        until(lambda: "cannot accept connections: out of file descriptors" in router.log, "complaint")
        receiver = here[0].receiver("a", 1)
        sent = net.send(here[1].ready_sender("a"), Message(body="x"))
        here[0].take(receiver)[0].settle()
        assert net.settled(sent) == [ACCEPTED]
        here[0].drop()
        waiting.receiver("a")
    assert router.children["worker 0"] == worker
    router.stop()


def test_without_memory_new_clients_wait(router: Limited) -> None:
    """A worker that gets no more address space lives on for those it has; with memory it takes the others."""
    router.serves()
    worker = router.children["worker 0"]
    router.limit("worker 0", resource.RLIMIT_AS, psutil.Process(worker).memory_info().vms + (16 << 20))
    clients: list[socket.socket] = []
    with ExitStack() as connected, Net(router.address) as net:
        at, to = net.peer(), net.peer()
        receiver, sender = at.receiver("a", 1), to.ready_sender("a")
        while OUT_OF_MEMORY not in router.log:
            assert len(clients) < 2000, "that many fit into 16 MiB"
            clients.append(connected.enter_context(socket.create_connection(router.address)))
            clients[-1].sendall(b"AMQP\0\1\0\0")
            until(lambda: router.counted("connections") > len(clients) or OUT_OF_MEMORY in router.log, "its turn")
        sent = net.send(sender, Message(body="x"))
        at.take(receiver)[0].settle()
        assert net.settled(sent) == [ACCEPTED]
        router.limit("worker 0", resource.RLIMIT_AS, None)
        one_message(net, "b")
    assert router.children["worker 0"] == worker
    router.stop()


class Group:
    """A control group with a limit of memory; pytest skips where it cannot be made."""

    def __init__(self) -> None:
        root = Path("/sys/fs/cgroup")
        unified = (root / "cgroup.controllers").exists()
        self.folder = (root if unified else root / "memory") / f"routerd-test-{os.getpid()}"
        self._limit = "memory.max" if unified else "memory.limit_in_bytes"
        try:
            self.folder.mkdir()
            (self.folder / self._limit).read_text()
        except OSError as error:
            with suppress(OSError):
                self.folder.rmdir()
            # only the kernel can kill for memory, and only in a group that it lets this user make
            pytest.skip(f"no control group for memory can be made here ({error}): run as root")

    def take(self, pid: int, most: int) -> None:
        """From now on the process gets no more than ``most`` bytes, or is killed by the kernel."""
        (self.folder / self._limit).write_text(str(most))
        (self.folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        until(lambda: not (self.folder / "cgroup.procs").read_text(), "end of its processes")
        self.folder.rmdir()


@pytest.fixture
def group(router: Limited) -> Iterator[Group]:
    group = Group()
    yield group
    router.kill()
    group.remove()


def test_a_worker_that_the_kernel_kills_for_memory_is_replaced(router: Limited, group: Group) -> None:
    """Messages that nobody settles fill its blocks beyond the limit: SIGKILL, one line, and on it goes."""
    worker = router.children["worker 0"]
    died = f"worker 0 died pid={worker} generation=1 how=SIGKILL"
    group.take(worker, 4 << 20)
    with suppress(AssertionError, OSError), Net(router.address) as net:
        at, to = net.peer(), net.peer()
        receiver, sender = at.receiver("a", 1000), to.ready_sender("a")
        for _ in range(200):
            net.send(sender, Message(body=bytes(100_000)))
            net.turn(0.005)
        assert receiver
        net.until(lambda: died in router.log, "death")  # or the connections end first
    until(lambda: died in router.log, "death")
    until(lambda: router.log.count("worker 0 serves") == 2, "next worker")
    router.serves()
    router.stop()


def test_a_hung_exporter_is_replaced(router: Limited) -> None:
    """Traffic does not notice; who asks for the metrics is answered by the next one."""
    hung = router.children["exporter"]
    os.kill(hung, signal.SIGSTOP)
    router.serves()
    until(lambda: re.search(rf"exporter died pid={hung} .*hung: .*process is stopped", router.log), "end")
    until(lambda: router.log.count("exporter serves") == 2, "next exporter")
    (url,) = re.findall(r"http://\S+", router.output)
    with Net(address_of(url.replace("http", "amqp").rstrip("/"))):
        pass
    router.stop()

"""The supervisor with real processes: stub children that do nothing but live, answer, and die."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from proton import ProtonException
from proton.utils import BlockingConnection, ConnectionClosed

from routerd.supervise.spares import SPARES
from shm.memory.segment import DIRECTORY
from tests.support.running import LONG, own_lines, until

STUB = Path(__file__).parents[2] / "support" / "programs" / "stub_router.py"


class Router:
    """A router under test, its output, and what it leaves behind."""

    def __init__(
        self, folder: Path, listener: str = "host: 127.0.0.1\n port: 0", router: str = "", *, real: bool = False
    ) -> None:
        self.real = real
        self.id = f"test-{os.getpid()}-{folder.name}"
        self.folder = folder
        self.behaviours = folder / "behaviours"
        self.behaviours.mkdir(exist_ok=True)
        self.config = folder / "router.conf"
        self.config.write_text(f"router {{\n id: {self.id}\n workers: 2\n {router}\n}}\nlistener {{\n {listener}\n}}\n")
        self.process: subprocess.Popen[bytes] | None = None

    def behave(self, name: str, behaviour: str) -> None:
        (self.behaviours / name).write_text(behaviour)

    def start(self) -> None:
        self.launch()
        until(lambda: "Ctrl-C stops it." in self.output, f"start, so far:\n{self.log}")

    def launch(self) -> None:
        arguments = [str(STUB), str(self.config), str(self.behaviours)]
        if self.real:
            arguments = ["-m", "routerd", "run", "--config", str(self.config)]
        with (self.folder / "out").open("wb") as out, (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", *arguments], stdout=out, stderr=log, start_new_session=True
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def output(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def segments(self) -> list[str]:
        return [name for name in os.listdir(DIRECTORY) if f"-{self.id}-" in name]

    @property
    def address(self) -> tuple[str, int]:
        match = re.search(r"amqp://([0-9.]+):(\d+)", self.output)
        assert match is not None, self.output
        return match[1], int(match[2])

    def child(self, name: str) -> psutil.Process | None:
        """The living child of that role, such as `core` or `worker 1`."""
        for child in psutil.Process(self.pid).children():
            with suppress(psutil.NoSuchProcess):  # it died since
                if f" {name} --control-fd" in " ".join(child.cmdline()):
                    return child
        return None

    def pid_of(self, name: str) -> int:
        child = self.child(name)
        return child.pid if child else 0

    def served_by(self) -> int:
        """Connect like a client; the worker that accepts says its process id."""
        with socket.create_connection(self.address, timeout=LONG) as connection:
            return int(connection.recv(100))

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(timeout=LONG)


def is_served(url: str) -> bool:
    """Whether a link can be attached; the process that accepts the connection may be about to be replaced."""
    try:
        connection = BlockingConnection(url, timeout=LONG)
        connection.create_sender("a.place")
        connection.close()
    except ProtonException:
        return False
    return True


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Router]:
    """A router of stub children."""
    yield from ended(Router(tmp_path))


@pytest.fixture
def real_router(tmp_path: Path) -> Iterator[Router]:
    """A router as users run it."""
    yield from ended(Router(tmp_path, real=True))


def ended(router: Router) -> Iterator[Router]:
    yield router
    if router.process is not None and router.process.poll() is None:
        os.killpg(router.pid, signal.SIGKILL)
        router.process.wait()


def test_start_tells_version_id_processes_and_where_to_connect(router: Router) -> None:
    """The terminal shows all a user needs; the log has the line that qdrouterd's users wait for."""
    router.start()
    assert f"router {router.id}" in router.output
    for name in ("core", "worker 0", "worker 1"):
        assert re.search(rf"{name} +pid {router.pid_of(name)} ", router.output), router.output
    assert router.served_by() in (router.pid_of("worker 0"), router.pid_of("worker 1"))
    assert re.search(rf"Operational, 2 Threads Running \(process ID {router.pid}\)", router.log)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_in_order_and_leaves_nothing(router: Router, number: signal.Signals) -> None:
    """Status 0, children ended because they were told to, no segment left."""
    router.start()
    children = psutil.Process(router.pid).children()
    assert router.segments
    router.signal(number)
    assert router.wait() == 0, router.log
    assert router.segments == []
    assert not any(child.is_running() for child in children)
    ended = re.findall(r'(?:core|worker \d) ended .*how="exit status 0"', router.log)
    assert len(ended) == 3, router.log


def test_ctrl_c_reaches_the_whole_group_and_still_stops_in_order(router: Router) -> None:
    """The terminal sends SIGINT to the children, too; they leave it to the supervisor."""
    router.start()
    os.killpg(router.pid, signal.SIGINT)
    assert router.wait() == 0
    assert router.log.count('how="exit status 0"') == 3, router.log
    assert "KeyboardInterrupt" not in router.log


def test_deaf_children_do_not_hold_up_the_stop(router: Router) -> None:
    """They are not waited for one after the other, which would take 3 s for each; scripts rely on 5 s in all."""
    router.config.write_text(router.config.read_text().replace("workers: 2", "workers: 2\n stopGraceSeconds: 0"))
    for name in ("core", "worker-0", "worker-1"):
        router.behave(name, "deaf")
    router.start()
    before = time.monotonic()
    router.signal(signal.SIGTERM)
    assert router.wait() == 0
    assert time.monotonic() - before < 9  # 3.5, and a busy machine
    assert router.segments == []
    assert router.log.count("how=SIGKILL") == 3


def test_a_second_ctrl_c_waits_for_nobody(router: Router) -> None:
    """Draining is cut short."""
    router.behave("worker-0", "deaf")
    router.start()
    router.signal(signal.SIGINT)
    until(lambda: "Stopping: draining" in router.log, "draining")
    router.signal(signal.SIGINT)
    assert router.wait() == 0
    assert "Stopping: closing" not in router.log


def test_a_dead_worker_is_replaced_after_the_core_took_back_what_it_held(router: Router) -> None:
    """Another process takes the place, the log says what happened, clients are served all the time."""
    router.start()
    dead = router.pid_of("worker 0")
    os.kill(dead, signal.SIGKILL)
    assert router.served_by() != dead
    until(lambda: router.pid_of("worker 0") not in (0, dead), "replacement")
    until(lambda: router.log.count("worker 0 serves") == 2, "service")
    line = next(line for line in router.log.splitlines() if "worker 0 died" in line)
    assert f"pid={dead}" in line
    assert "generation=1" in line
    assert "how=SIGKILL" in line
    assert 'next="restart at once"' in line
    router.signal(signal.SIGTERM)
    assert router.wait() == 0


def test_a_hung_worker_is_killed_and_replaced(router: Router) -> None:
    """Stopped from outside it can neither serve nor die; the log says why it had to."""
    router.start()
    hung = router.pid_of("worker 0")
    os.kill(hung, signal.SIGSTOP)
    until(lambda: router.pid_of("worker 0") not in (0, hung), "replacement")
    until(lambda: router.log.count("worker 0 serves") == 2, "service")
    line = next(line for line in router.log.splitlines() if "worker 0 died" in line)
    assert "hung: its loop has not turned for 5 s (the process is stopped)" in line
    router.signal(signal.SIGTERM)
    assert router.wait() == 0


@pytest.mark.parametrize("deaf", [False, True])
def test_a_dead_core_is_replaced_and_the_workers_live_on(router: Router, deaf: bool) -> None:
    """Only the core is new, and a worker that does not let go of the dead one; clients are served."""
    if deaf:
        router.behave("worker-0", "deaf")
    router.start()
    before = {name: router.pid_of(name) for name in ("core", "worker 0", "worker 1")}
    os.kill(before["core"], signal.SIGKILL)
    assert router.served_by() in before.values()
    until(lambda: router.log.count("worker 0 serves" if deaf else "core serves") == 2, "service")
    same = {name for name, pid in before.items() if router.pid_of(name) == pid}
    assert same == ({"worker 1"} if deaf else {"worker 0", "worker 1"})
    assert deaf == ("did not quiesce" in router.log)
    router.signal(signal.SIGTERM)
    assert router.wait() == 0
    assert router.segments == []


def test_a_killed_supervisor_takes_its_children_along_and_the_next_start_sweeps(router: Router) -> None:
    """Nothing lives on without a supervisor, and shared memory does not pile up."""
    router.start()
    children = psutil.Process(router.pid).children()
    left = set(router.segments)
    router.signal(signal.SIGKILL)
    router.wait()
    psutil.wait_procs(children, timeout=LONG)
    assert not any(child.is_running() for child in children)
    assert set(router.segments) <= left  # another router's start may have swept already
    router.start()
    assert left.isdisjoint(router.segments)
    router.signal(signal.SIGTERM)
    assert router.wait() == 0
    assert router.segments == []


def test_a_port_in_use_is_one_clear_error(tmp_path: Path) -> None:
    """Status 1; the message says where, why, and what to do; nothing runs or stays."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        router = Router(tmp_path, listener=f"host: 127.0.0.1\n port: {port}\n name: clients")
        router.launch()
        assert router.wait() == 1
    assert f"listener clients: cannot listen on 127.0.0.1:{port}: the port is in use" in router.log
    assert len(own_lines(router.log)) == 1, router.log
    assert router.segments == []


def test_a_host_that_is_not_ours_is_one_clear_error(tmp_path: Path) -> None:
    """An address of another machine cannot be listened on."""
    router = Router(tmp_path, listener="host: 192.0.2.1\n port: 0")
    router.launch()
    assert router.wait() == 1
    assert "cannot listen on 192.0.2.1:0: no such address on this machine" in router.log


def test_an_unknown_cpu_is_one_clear_error(tmp_path: Path) -> None:
    """A CPU that the machine lacks stops the start, with the usable ones named."""
    router = Router(tmp_path, router="workerCpus: 4000")
    router.launch()
    assert router.wait() == 1
    assert re.search(r"4000", router.log)
    assert router.segments == []


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("raise", "RuntimeError: no such engine (exit status 1)"),
        ("fatal", "the engine is missing; run make build (exit status 1)"),
        ("exit", "exit status 3"),
    ],
)
@pytest.mark.parametrize("name", ["core", "worker-1"])
def test_a_child_that_cannot_start_fails_the_start(router: Router, name: str, behaviour: str, reason: str) -> None:
    """A router whose processes do not come up at first start says why and exits with 1; it does not retry."""
    router.behave(name, behaviour)
    router.launch()
    assert router.wait() == 1
    assert "generation=2" not in router.log
    last = router.log.splitlines()[-1]
    assert f"the router did not start: {name.replace('-', ' ')} did not start: {reason}" in last
    assert router.segments == []


def test_random_deaths_end_in_a_whole_router(router: Router) -> None:
    """Core and workers die in any order, also while they start: in the end every place serves again."""
    router.start()
    chance = random.Random(20)  # noqa: S311  a schedule, not a secret
    for _ in range(30):
        dead = router.pid_of(chance.choice(("core", "worker 0", "worker 1")))
        if dead:
            os.kill(dead, signal.SIGKILL)
        time.sleep(chance.random() / 10)
    until(lambda: all(router.pid_of(name) for name in ("core", "worker 0", "worker 1")), "recovery")
    assert router.served_by() in (router.pid_of("worker 0"), router.pid_of("worker 1"))
    router.signal(signal.SIGTERM)
    assert router.wait() == 0
    assert router.segments == []


def test_sighup_reads_the_file_again(router: Router) -> None:
    """Nothing has changed in it, and everybody goes on."""
    router.start()
    before = router.served_by()
    router.signal(signal.SIGHUP)
    until(lambda: "Reload: nothing has changed" in router.log, "answer")
    assert before in (router.pid_of("worker 0"), router.pid_of("worker 1"))
    assert router.served_by()
    router.signal(signal.SIGTERM)
    assert router.wait() == 0


def test_a_stop_while_starting_is_a_stop(router: Router) -> None:
    """A signal during start-up ends with status 0 and leaves nothing."""
    router.launch()
    until(lambda: "Starting" in router.log, "begin of the start")
    router.signal(signal.SIGTERM)
    assert router.wait() == 0
    assert router.segments == []


def test_an_idle_router_is_small(real_router: Router) -> None:
    """Two workers, core, supervisor and the spares together: at most 120 MB."""
    real_router.start()
    supervisor = psutil.Process(real_router.pid)
    until(lambda: real_router.child("spare --until-needed"), "the first spare")
    spare = real_router.child("spare --until-needed")
    assert spare is not None
    processes = [supervisor, *supervisor.children()]
    assert len(processes) == 5
    processes += [spare] * (SPARES - 1)  # the others are like it
    assert sum(process.memory_full_info().pss for process in processes) <= 120_000_000


def test_a_stop_closes_connections_with_their_reason(real_router: Router) -> None:
    """Clients are told amqp:connection:forced instead of being cut off."""
    real_router.start()
    host, port = real_router.address
    connection = BlockingConnection(f"amqp://{host}:{port}", timeout=LONG)
    real_router.signal(signal.SIGTERM)
    with pytest.raises(ConnectionClosed, match="amqp:connection:forced"):
        connection.wait(lambda: False, timeout=LONG)
    assert real_router.wait() == 0
    assert real_router.segments == []


def test_clients_go_on_after_every_process_was_killed_or_hung_once(real_router: Router) -> None:
    """Whoever dies or hangs, a client that connects again is served."""
    real_router.start()
    host, port = real_router.address
    for name, number in (
        ("worker 0", signal.SIGKILL),
        ("worker 1", signal.SIGSTOP),
        ("core", signal.SIGKILL),
        ("core", signal.SIGSTOP),
    ):
        dead = real_router.pid_of(name)
        os.kill(dead, number)
        until(lambda name=name, dead=dead: real_router.pid_of(name) not in (0, dead), f"new {name}")
        until(lambda: is_served(f"amqp://{host}:{port}"), "service")
    real_router.signal(signal.SIGTERM)
    assert real_router.wait() == 0

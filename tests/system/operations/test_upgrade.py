"""`routerd restart --rolling` after the code has changed on disk: new code, and nobody is refused."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton.utils import BlockingConnection

import routerd
from tests.support.clients.knocker import Knocker
from tests.support.running import LONG, Configuration, RunningRouter, until

PACKAGES = ("core", "routerd", "shm", "workers")
ROUTERD = Path(sys.executable).with_name("routerd")


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the program, which every process started from here runs."""
    copy = tmp_path / "code"
    for package in PACKAGES:
        source = Path(routerd.__file__).parents[1] / package
        shutil.copytree(source, copy / package, ignore=shutil.ignore_patterns("__pycache__", "*.c"))
    monkeypatch.setenv("PYTHONPATH", str(copy))
    return copy


@pytest.fixture
def router(code: Path, tmp_path: Path) -> Iterator[RunningRouter]:
    log = f"flowLog {{\n directory: {tmp_path / 'flows'}\n rollAge: 1\n}}\n"
    http = "listener {\n host: 127.0.0.1\n port: 0\n http: yes\n}\n"
    router = RunningRouter(tmp_path, Configuration(router="workers: 2\n arenaSize: 4", sections=f"{http}{log}"))
    until(lambda: "recorder serves" in router.log and "exporter serves" in router.log, "recorder, exporter")
    yield router
    router.kill()


def restart(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [ROUTERD, "restart", "--rolling", *arguments], capture_output=True, text=True, timeout=2 * LONG, check=False
    )


def product(router: RunningRouter) -> str:
    """What the router calls itself to a client."""
    connection = BlockingConnection(router.url, timeout=LONG)
    try:
        return str(connection.conn.remote_properties["product"])
    finally:
        connection.close()


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_new_code_takes_over_and_nobody_is_refused(router: RunningRouter, code: Path) -> None:
    """The command follows it to the end; the router is found by process id, in a file, or by asking."""
    assert product(router) == "routerd"
    ours = 'PRODUCT: Final = "routerd"'
    change(code / "workers/control/opening.py", ours, ours.replace("routerd", "the next one"))
    change(code / "core" / "main.py", "core started", "next core started")
    client = Knocker(router.address)
    client.start()
    done = restart("--pid", str(router.process.pid))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(" is new")[0] for line in lines[1:-1]] == ["worker-0", "worker-1", "core", "recorder"], lines
    assert lines[-1].startswith("All processes are new except the supervisor")
    assert product(router) == "the next one"
    assert "next core started" in router.log
    file = code / "pid"
    file.write_text(f"{router.process.pid}\n")
    assert restart("--pid-file", str(file)).returncode == 0
    done = restart("--bus", router.url, "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["pid"] == router.process.pid
    assert {one["process"] for one in found["replaced"]} == {"core", "recorder", "worker-0", "worker-1"}
    assert all(one["pid"] != one["before"] for one in found["replaced"])
    assert found["waiting"] == []
    assert "All processes are new" in done.stderr
    client.end.set()
    client.join()
    assert client.outcomes.keys() <= {"served", "cut off", "ConnectionResetError"}, client.outcomes
    assert client.outcomes.total() - client.outcomes["served"] <= 6, client.outcomes
    assert len(re.findall("Rolling restart: all processes are new", router.log)) == 3


def test_new_code_that_does_not_start_costs_one_worker_and_is_told(router: RunningRouter, code: Path) -> None:
    """The others serve on; when it is put right, it goes on by itself."""
    change(code / "workers" / "main.py", '"""A worker', 'raise SystemExit("broken")\n"""A worker')
    done = restart("--pid", str(router.process.pid), "--timeout", "3")
    assert done.returncode == 1
    assert "worker-0 has not been replaced within 3 s" in done.stderr
    assert product(router) == "routerd"
    change(code / "workers" / "main.py", 'raise SystemExit("broken")\n', "")
    until(lambda: "Rolling restart: all processes are new" in router.log, "the end")


def test_who_is_no_router_is_left_alone(code: Path) -> None:
    """No signal is sent to what is not a router's supervisor."""
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        for arguments, why in (
            (["--pid", str(other.pid)], "is not the supervisor of a router"),
            (["--pid-file", str(code / "none")], "cannot be read"),
            (["--bus", "amqp://127.0.0.1:1"], "cannot reach the router"),
        ):
            done = restart(*arguments)
            assert done.returncode == 1
            assert why in done.stderr
        assert other.poll() is None
    finally:
        other.kill()
        other.communicate()
    assert restart("--timeout", "x").returncode == 2

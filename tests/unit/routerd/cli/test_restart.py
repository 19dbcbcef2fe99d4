"""Following a rolling restart, with pages as a router would show them and the clock in the test's hand."""

import fcntl
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from routerd.cli import restart
from routerd.cli.restart import PATIENCE_SECONDS, Follower, Found, Replaced, RestartError, find
from shm.memory import space
from shm.memory.observer import Page


class Router:
    """Two workers and a core, each of a generation."""

    def __init__(self, *more: str) -> None:
        self.now = 0.0
        self.generations = dict.fromkeys(("worker-0", "worker-1", "core", "supervisor", *more), 1)
        self.missing = ""
        self.follower = Follower(self.pages, lambda: self.now)

    def pages(self) -> list[Page]:
        return [
            Page(
                name,
                0 if name == self.missing else 100 * generation,
                generation,
                1,
                {"accepting": int(name.startswith("worker-"))},
            )
            for name, generation in self.generations.items()
        ]

    def said(self) -> list[str]:
        return [line.split(":")[0] for line in self.follower.step()]


def test_each_process_is_told_once_and_the_supervisor_is_none_of_them() -> None:
    router = Router()
    assert router.said() == []
    router.generations["worker-0"] = 2
    assert router.said() == ["worker-0 is new"]
    assert router.said() == []
    router.generations["worker-1"] = router.generations["core"] = 2
    assert router.said() == ["worker-1 is new", "core is new"]
    assert router.follower.waiting == []
    assert router.follower.replaced[0] == Replaced("worker-0", before=100, pid=200)
    assert [one.process for one in router.follower.replaced] == ["worker-0", "worker-1", "core"]


def test_one_that_has_not_come_back_is_waited_for_and_told() -> None:
    router = Router()
    router.generations["worker-0"], router.missing = 2, "worker-0"
    assert router.said() == []
    router.now = PATIENCE_SECONDS
    assert router.said() == ["still waiting for worker-0; the router's log says why"]
    assert router.said() == []


def test_a_worker_that_is_removed_meanwhile_is_not_waited_for() -> None:
    router = Router()
    del router.generations["worker-1"]
    assert router.follower.waiting == ["worker-0", "core"]


def test_a_recorder_is_replaced_too_and_waited_for_while_there_is_none() -> None:
    """It accepts nobody, and shared memory shows none between the end of one and the start of the next."""
    router = Router("recorder")
    assert router.follower.total == 4
    router.generations["worker-0"] = router.generations["worker-1"] = router.generations["core"] = 2
    assert router.said() == ["worker-0 is new", "worker-1 is new", "core is new"]
    del router.generations["recorder"]
    assert router.said() == []
    assert router.follower.waiting == ["recorder"]
    router.generations["recorder"] = 2
    assert router.said() == ["recorder is new"]
    assert router.follower.waiting == []


def test_a_refusal_ends_the_wait_with_the_routers_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor tries nothing again, so there is nothing to wait for; an earlier refusal is none of this one."""
    old, new = (
        ["SERVER", "error", f"Rolling restart refused: {why} process=supervisor", "supervisor.py", 1, at]
        for at, why in enumerate(("long ago", "sslProfile x: certFile: there is none"))
    )
    lines, router = [old], Router()
    view = SimpleNamespace(journal=lambda _: SimpleNamespace(lines=lambda _: lines[:]), pages=router.pages)
    monkeypatch.setattr(restart, "SharedView", lambda _: view)
    monkeypatch.setattr(restart, "lives", lambda _: True)
    monkeypatch.setattr(os, "kill", lambda *_: lines.append(new))
    with pytest.raises(RestartError) as refused:
        restart.run(Found("A", 1), timeout=0)
    assert refused.value.message == ("router A refuses, and goes on as it is: sslProfile x: certFile: there is none")


def test_the_only_router_is_meant_and_of_several_one_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    routers = [Found("A", 7), Found("B", 8)]
    monkeypatch.setattr(restart, "running", lambda: routers)
    with pytest.raises(RestartError, match=r"A \(7\), B \(8\); give --pid"):
        find()
    assert find(pid=8).id == "B"
    routers.pop()
    assert find().id == "A"
    routers.pop()
    with pytest.raises(RestartError, match="no router"):
        find()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 0", "u is not running; start it with: systemctl start u"),
        ("echo no such unit >&2; exit 1", "no such unit"),
        ("echo", "gave no process id"),
    ],
)
def test_a_unit_that_has_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str) -> None:
    """In the words of systemctl, where it has any."""
    fake = tmp_path / "systemctl"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(RestartError, match=why):
        find(unit="u")


def locked(folder: Path, pid: int) -> Path:
    """A control segment as that of a living supervisor: its file is locked, as long as this process lives."""
    file = folder / f"routerd-A-{pid}-control"
    fcntl.flock(os.open(file, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
    return file


def test_nobody_names_a_process_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody may make files in /dev/shm: a signal to the process that one names could end that."""
    monkeypatch.setattr(space, "DIRECTORY", tmp_path)
    mine = locked(tmp_path, os.getpid())
    assert restart.running() == [Found("A", os.getpid())]
    if os.geteuid():
        mine.unlink()
        locked(tmp_path, 1)
    else:
        os.chown(mine, 65534, -1)
    assert restart.running() == []


def test_what_is_no_file_is_no_router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens a pipe waits for its writer."""
    monkeypatch.setattr(space, "DIRECTORY", tmp_path)
    os.mkfifo(tmp_path / f"routerd-A-{os.getpid()}-control")
    (tmp_path / "routerd-B-1-control").symlink_to("/etc/passwd")
    assert restart.running() == []

"""The qdrouterd command as scripts and service units use it."""

import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running import free_port, until

QDROUTERD = Path(sys.executable).with_name("qdrouterd")


def qdrouterd(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [QDROUTERD, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def can_run(user: str) -> bool:
    """Whether the router's interpreter works for this user."""
    command = [sys.executable, "-c", "import proton, routerd.supervise.supervisor"]
    try:
        return subprocess.run(command, user=user, cwd="/", capture_output=True, check=False).returncode == 0
    except PermissionError:
        return False


def configuration(folder: Path, router: str = "id: A", more: str = "") -> Path:
    """A file with the log beside it, as the peer's users write them."""
    file = folder / "router.conf"
    file.write_text(
        f"router {{\n    mode: standalone\n    workers: 1\n    {router}\n}}\n"
        "listener {\n    host: 127.0.0.1\n    port: 0\n    authenticate-peer: no\n}\n"
        f"log {{\n    module: DEFAULT\n    enable: info+\n    output-file: {folder}/router.log\n}}\n{more}"
    )
    return file


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_in_the_foreground_it_says_nothing_and_ends_with_status_0(tmp_path: Path) -> None:
    file = configuration(tmp_path)
    log = tmp_path / "router.log"
    with subprocess.Popen(
        [QDROUTERD, "-c", file, "-I", "/nowhere"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        until(lambda: log.exists() and "Operational" in log.read_text(), "start")
        assert f"Operational, 1 Threads Running (process ID {process.pid})" in log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.communicate()[0] == b""
    assert process.returncode == 0


def test_as_a_daemon_its_starter_ends_when_it_serves(tmp_path: Path) -> None:
    configuration(tmp_path)
    done = qdrouterd("-d", "-c", "router.conf", "-P", "router.pid", cwd=tmp_path)
    pid = int((tmp_path / "router.pid").read_text())
    try:
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert f"(process ID {pid})" in (tmp_path / "router.log").read_text()
        assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    finally:
        os.kill(pid, signal.SIGTERM)
    until(lambda: is_gone(pid), "end of the daemon")
    assert "Stopped" in (tmp_path / "router.log").read_text()


@pytest.mark.parametrize("before", [None, "4711\n"])
def test_a_daemon_that_does_not_serve_leaves_the_pid_file_as_it_was(tmp_path: Path, before: str | None) -> None:
    """It may be that of the router which keeps this one from serving."""
    file = configuration(tmp_path)
    file.write_text(file.read_text().replace("port: 0", f"port: {free_port()}"))
    pid_file = tmp_path / "second.pid"
    if before:
        pid_file.write_text(before)
    assert qdrouterd("-d", "-c", "router.conf", "-P", "router.pid", cwd=tmp_path).returncode == 0
    try:
        second = qdrouterd("-d", "-c", "router.conf", "-P", "second.pid", cwd=tmp_path)
        assert second.returncode == 1
        assert (pid_file.read_text() if pid_file.exists() else None) == before
    finally:
        pid = int((tmp_path / "router.pid").read_text())
        os.kill(pid, signal.SIGTERM)
    until(lambda: is_gone(pid), "end of the daemon")


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root: run the tests as root")
@pytest.mark.skipif(
    not can_run("nobody"), reason="user nobody cannot read this Python: install it outside a home directory"
)
def test_a_daemon_becomes_the_user_that_is_asked_for(tmp_path: Path) -> None:
    somebody = pwd.getpwnam("nobody")
    file = configuration(tmp_path, "id: A", "")
    log = Path("/tmp") / f"routerd-test-{os.getpid()}"
    log.mkdir(mode=0o777)
    log.chmod(0o777)
    try:
        text = file.read_text().replace(f"{tmp_path}/router.log", f"{log}/router.log")
        (log / "router.conf").write_text(text)
        done = qdrouterd("-d", "-c", log / "router.conf", "-P", log / "pid", "-U", "nobody", cwd=log)
        assert (done.returncode, done.stderr) == (0, "")
        pid = int((log / "pid").read_text())
        assert Path(f"/proc/{pid}").stat().st_uid == somebody.pw_uid
        os.kill(pid, signal.SIGTERM)
        until(lambda: is_gone(pid), "end of the daemon")
    finally:
        for left in log.iterdir():
            left.unlink()
        log.rmdir()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-c", "none.conf"], "none.conf: cannot be read"),
        (["-d", "-c", "none.conf"], "none.conf: cannot be read"),
        (["-d", "-c", "router.conf", "-P", "no/such/folder"], "no/such/folder: No such file or directory"),
        (["-d", "-c", "router.conf", "-U", "no such user"], "there is no such user"),
        (["--unknown"], "No such option"),
        (["-c", "router.conf", "surplus"], "unexpected extra argument"),
    ],
)
def test_what_keeps_it_from_running_is_told_with_status_1(arguments: list[str], said: str, tmp_path: Path) -> None:
    configuration(tmp_path)
    done = qdrouterd(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


STANDALONE = "id: A\n}\nconnector {\n port: 5672\n role: inter-router"


@pytest.mark.parametrize(
    ("router", "said"),
    [
        ("id: a b", "AttributeError"),
        (f"id: {'X' * 128}", "exceeds the maximum allowed length"),
        (STANDALONE, "router.conf: role='standalone' not allowed to connect to"),
    ],
)
def test_a_bad_configuration_is_told_in_the_words_that_scripts_look_for(router: str, said: str, tmp_path: Path) -> None:
    done = qdrouterd("-c", configuration(tmp_path, router), cwd=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr


def test_a_file_that_is_missing_is_told_once_and_in_order(tmp_path: Path) -> None:
    """Without the words about an entity and its attribute: there is none."""
    done = qdrouterd("-c", "none.conf", cwd=tmp_path)
    assert done.returncode == 1
    assert "AttributeError" not in done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert "Cannot load configuration file none.conf: cannot be read (No such file or directory)" in lines[1]


def test_version_and_help_need_no_file(tmp_path: Path) -> None:
    assert qdrouterd("-v", cwd=tmp_path).stdout.strip()
    assert "--pidfile" in qdrouterd("-h", cwd=tmp_path).stdout


def test_test_hooks_are_accepted_and_said_to_be_missing(tmp_path: Path) -> None:
    done = qdrouterd("-T", "-c", "none.conf", cwd=tmp_path)
    assert "this router has no test hooks" in done.stderr

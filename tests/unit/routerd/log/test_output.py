"""Outputs of the log: whatever happens to a file, nobody waits and nobody ends; what was lost is said."""

import contextlib
import logging
import os
import re
import resource
import socket
from pathlib import Path

import pytest

from routerd.log import log, output
from routerd.log.output import Output

LINE = "SERVER (info) {} process=core"


class Setup:
    module, enable, include_timestamp, include_source = "DEFAULT", None, False, None
    format = None

    def __init__(self, path: Path | str) -> None:
        self.output_file = str(path)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked for with every line."""
    monkeypatch.setattr(output, "LOOK_SECONDS", 0.0)


def say(text: str) -> None:
    logging.getLogger("SERVER").info(text)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.parametrize("what", ["moved", "removed"])
def test_a_rotated_file_is_made_anew(what: str, tmp_path: Path, at_once: None) -> None:
    path = tmp_path / "log"
    log.configure([Setup(path)], "core")
    say("one")
    if what == "moved":
        path.rename(tmp_path / "log.1")
    else:
        path.unlink()
    say("two")
    assert lines(path) == [LINE.format("two")]
    if what == "moved":
        assert lines(tmp_path / "log.1") == [LINE.format("one")]


def test_a_directory_that_is_gone_takes_nobody_along(tmp_path: Path, at_once: None) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log.configure([Setup(folder / "log")], "core")
    (folder / "log").unlink()
    folder.rmdir()
    say("lost")
    folder.mkdir()
    say("found")
    assert lines(folder / "log") == [LINE.format("found")]


def test_lost_lines_are_counted_and_said(tmp_path: Path) -> None:
    """A limit of the file's size stands for a full disk: a torn line is ended, and the gap is told of."""
    path = tmp_path / "log"
    log.configure([Setup(path)], "core")
    say("before")
    before, saved = resource.getrlimit(resource.RLIMIT_FSIZE), os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, before[1]))
    try:
        for _ in range(3):
            say("lost")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        os.dup2(saved, 2)
        error = os.read(reading, 1000).decode()
        for descriptor in (saved, reading, writing):
            os.close(descriptor)
    say("after")
    assert lines(path) == [
        LINE.format("before"),
        LINE.format("lost")[:10],
        "SERVER (warning) 3 log lines could not be written: File too large process=core",
        LINE.format("after"),
    ]
    assert error == f"log {path} cannot be written: File too large; lines are lost until it can\n"


def test_a_file_that_cannot_be_opened_at_the_start(
    tmp_path: Path, at_once: None, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its lines go to standard error until it can; then it is told how many are there."""
    path = tmp_path / "none" / "log"
    (shut,) = log.configure([Setup(path)], "core", starting=True)
    assert str(shut).startswith(f"log outputFile '{path}' cannot be written (No such file or directory); ")
    say("one")
    say("two")
    assert capfd.readouterr().err.splitlines() == [LINE.format("one"), LINE.format("two")]
    assert [error.name for error in log.configure([Setup(path)], "core")] == [str(path)]  # as it was
    say("three")
    path.parent.mkdir()
    say("four")
    assert lines(path) == [
        "SERVER (warning) 1 log lines could not be written: No such file or directory; they went to standard"
        " error process=core",
        LINE.format("four"),
    ]
    assert capfd.readouterr().err.splitlines() == [LINE.format("three")]


def test_a_system_log_that_is_away_or_hangs_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not take at once is lost; when it takes lines again it is told how many."""
    place = tmp_path / "socket"
    monkeypatch.setattr(output, "SYSTEM_LOG", str(place))
    log.configure([Setup("syslog")], "core")
    say("away")
    said = rf"<30>\w{{3}} [ \d]\d [\d:]{{8}} routerd\[{os.getpid()}\]: SERVER \(info\) "
    for _ in range(2):  # the second time it was started anew
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as system:
            system.bind(str(place))
            say("here")
            assert re.fullmatch(said + "here process=core", system.recv(1000).decode())
            system.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                assert b"1 log lines could not be written: No such file" in system.recv(1000)
            for _ in range(1000):
                say("filling")
            taken = 0
            with contextlib.suppress(BlockingIOError):
                while system.recv(1000):
                    taken += 1
            assert 0 < taken < 1000
            say("again")
            assert re.fullmatch(said + "again process=core", system.recv(1000).decode())
            missing = f"{1000 - taken} log lines could not be written: nobody reads it process=core"
            assert missing in system.recv(1000).decode()
        place.unlink()


def test_a_pipe_that_nobody_reads_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than it holds is lost; what is there are whole lines, and the loss is told of when it is read."""
    reading, writing = os.pipe()
    monkeypatch.setattr(output, "PATIENCE_MS", 1)
    saved = os.dup(1)
    os.dup2(writing, 1)
    try:
        log.configure([Setup("stdout")], "core")
        for n in range(2000):
            say(f"{n} {'x' * 500}")
        first = os.read(reading, 1 << 20)
        say("again")
        rest = os.read(reading, 1 << 20)
    finally:
        os.dup2(saved, 1)
        for descriptor in (saved, reading, writing):
            os.close(descriptor)
    written = first.decode().splitlines()
    numbers = [int(line.split()[2]) for line in written]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) < 2000
    missing = 2000 - len(numbers)
    assert rest.decode().splitlines() == [
        f"SERVER (warning) {missing} log lines could not be written: nobody reads it process=core",
        LINE.format("again"),
    ]


def test_an_output_is_not_opened_twice_over(tmp_path: Path, at_once: None) -> None:
    """Looking for the file costs no descriptor."""
    before = len(os.listdir("/proc/self/fd"))
    one = Output(str(tmp_path / "log"))
    for _ in range(20):
        (tmp_path / "log").unlink()
        assert one.write("x")
    one.close()
    assert len(os.listdir("/proc/self/fd")) == before

"""What `routerd replay` says, and its exit status."""

import errno
import os
import resource
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import click
import msgspec
import pytest

from routerd.replay import commands
from routerd.replay.commands import REFUSED, Attempt, RefusedError
from routerd.replay.recording import Recording, Step
from routerd.replay.run import Difference, Replay
from shm.memory import flight
from tests.support.beds.recorded import Bed


def replay(file: Path) -> int:
    return commands.replay(file, shown=False, before=None, until_crash=False, minimise=False, no_run=False)


def raising(error: BaseException) -> Callable[..., None]:
    def run(*_: object) -> None:
        raise error

    return run


def test_a_replay_that_fails_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it fails of: text and status say so."""
    Bed().take().write(tmp_path / "it")
    monkeypatch.setattr(Replay, "run", raising(AttributeError("planted \udc80")))
    with pytest.raises(RefusedError, match="the replay failed: AttributeError: planted"):
        replay(tmp_path / "it")


def test_a_process_that_ends_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sanitizer ends it so, without a signal and without a word of ours."""
    recording = Bed().recording()

    def run(_: Replay, __: int | None, told: Callable[[Step], None]) -> Difference | None:
        told(Step(17, "action", 0, 0))
        os._exit(23)

    monkeypatch.setattr(Replay, "run", run)
    died = Attempt(recording).run(None)
    assert died.how == 23
    assert died.told(recording) == "the replay's process ended with status 23 in record 17"


def test_a_refused_file_has_a_status_of_its_own(tmp_path: Path) -> None:
    """Other than that of a difference."""
    (tmp_path / "it").write_bytes(b"something else")
    with pytest.raises(RefusedError, match="is no recording") as error:
        replay(tmp_path / "it")
    assert error.value.exit_code == REFUSED == 2
    with pytest.raises(RefusedError, match="cannot be read: No such file"):
        replay(tmp_path / "none")
    bed = Bed()
    assert bed.forwarder.recorder is not None
    bed.forwarder.recorder.blind()
    bed.take().write(tmp_path / "blind")
    with pytest.raises(RefusedError, match="replay does not know"):
        replay(tmp_path / "blind")


def test_what_a_file_says_does_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences in a head, in a call, and in what cannot be decoded."""
    escape = "\x1b]0;title\x07\n"
    taken = Bed().take()
    about = msgspec.structs.replace(taken.about, router=escape, version=escape, why=escape)
    octets = msgspec.msgpack.encode([{escape: escape}])
    line = bytes([flight.CALL]) + bytes(15) + len(octets).to_bytes(4, "little") + bytes(4) + octets.ljust(40, b"\0")
    flight.Taken(msgspec.structs.replace(about, lines=1), line).write(tmp_path / "it")
    commands.replay(tmp_path / "it", shown=False, before=None, until_crash=False, minimise=False, no_run=True)
    said = capsys.readouterr().out
    assert "\\x1b" in said
    assert "\x1b" not in said
    assert said.count("\n") == 2
    other = Recording(msgspec.structs.replace(about, layout=7), taken.lines)
    assert other.unfit is not None
    assert "\x1b" not in other.unfit
    raw = msgspec.msgpack.encode(msgspec.structs.asdict(about) | {escape: 1})
    with pytest.raises(flight.RecordingError) as error:
        Recording.parse(flight.MAGIC + len(raw).to_bytes(4, "little") + raw)
    assert "\x1b" not in str(error.value)


def test_no_process_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not the file that is wrong."""
    monkeypatch.setattr(os, "fork", raising(BlockingIOError(11, "Resource temporarily unavailable")))
    with pytest.raises(click.ClickException, match="there is no process for the replay"):
        Attempt(Bed().recording()).run(None)


def test_a_replay_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a recording is cut down nobody watches; and of thousands of deaths none leaves a core file."""
    recording, limits = Bed().recording(), os.pipe()

    def run(*_: object) -> None:
        os.write(limits[1], bytes([resource.getrlimit(resource.RLIMIT_CORE)[0] == 0]))
        signal.pause()

    monkeypatch.setattr(Replay, "run", run)
    assert Attempt(recording, 1).run(None).how == -signal.SIGALRM
    assert os.read(limits[0], 1) == b"\1"


def test_nothing_to_minimise_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The core lives."""
    Bed().take().write(tmp_path / "it")
    assert (
        commands.replay(tmp_path / "it", False, None, until_crash=True, minimise=True, no_run=False) == commands.OTHER
    )
    assert "it does not die: there is nothing to minimise" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "part"), [(None, "{lines} records"), (3, "the first 3 of {lines} records"), (10**6, "{lines} records")]
)
def test_how_much_was_run_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: int | None, part: str
) -> None:
    taken = Bed().take()
    taken.write(tmp_path / "it")
    assert commands.replay(tmp_path / "it", False, before, until_crash=False, minimise=False, no_run=False) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == f"the same work as recorded, in {part.format(lines=taken.about.lines)}"


def test_a_core_that_lives_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where its death is expected: the status alone looks like any other failure."""
    Bed().take().write(tmp_path / "it")
    assert (
        commands.replay(tmp_path / "it", False, None, until_crash=True, minimise=False, no_run=False) == commands.OTHER
    )
    assert capsys.readouterr().out.splitlines()[-1] == "the core does not die"


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
def test_records_that_cannot_be_printed_say_nothing_of_the_file(number: int) -> None:
    """The command ends as any other: with a sentence where a disk is full, quietly where the reader is gone."""
    with pytest.raises(OSError, match=os.strerror(number)) as error:
        Attempt(Bed().recording()).run(None, raising(OSError(number, "")))
    assert error.value.errno == number


def test_a_recording_takes_the_place_of_a_file_alone(tmp_path: Path) -> None:
    """Root may rename a file over a device, such as /dev/null."""
    taken = Bed().take()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("it")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match="no regular file"):
            taken.write(tmp_path / name)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    for _ in range(2):
        taken.write(tmp_path / "it")
    assert Recording.load(tmp_path / "link").about == taken.about
    assert len(list(tmp_path.iterdir())) == 3

"""What the supervisor keeps of a dead core's records, and what it says of those that it cannot keep."""

import errno
import logging
import mmap
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from routerd.replay.recording import Recording
from routerd.supervise import flight as flight_module
from routerd.supervise.child import Death
from routerd.supervise.flight import KEPT, Keeper
from shm.memory import flight
from tests.support.beds.recorded import Bed

DEATH = Death(os.getpid(), 1, "SIGKILL", "")


def kept(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.exists() else []


def keep(folder: Path | None, death: Death = DEATH, ring: mmap.mmap | None = None) -> Keeper:
    """Keep the records of a core, and wait for the file."""
    keeper = Keeper(folder, "me", "0")
    keeper.keep(Bed().ring if ring is None else ring, death, "a test")
    keeper.end()
    return keeper


def test_a_death_becomes_a_file(tmp_path: Path) -> None:
    """Its name has the time in UTC, and the core's generation."""
    keep(tmp_path / "new")
    (name,) = kept(tmp_path / "new")
    assert name.startswith(time.strftime("me-%Y%m%dT", time.gmtime()))
    assert name.endswith("Z-000001.flight")
    assert Recording.load(tmp_path / "new" / name).about.why == "a test"


@pytest.mark.parametrize("death", [Death(os.getpid(), 2, "SIGKILL", ""), Death(1, 1, "SIGKILL", "")])
def test_records_of_another_core_are_not_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, death: Death
) -> None:
    """It died before it began to record."""
    keep(tmp_path, death)
    assert kept(tmp_path) == []
    assert "The core's last records are lost: it died before it recorded anything" in caplog.text


def test_no_memory_for_a_copy_does_not_end_the_supervisor(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The router goes on."""

    def take(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(flight, "take", take)
    keep(tmp_path)
    assert "there is no memory for a copy of them; lower flightRecords" in caplog.text


def test_one_file_is_written_at_a_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies would otherwise pile up while a disk is slow."""
    write, go = flight.Taken.write, threading.Event()

    def slow(taken: flight.Taken, path: Path) -> None:
        assert go.wait(60)
        write(taken, path)

    monkeypatch.setattr(flight.Taken, "write", slow)
    monkeypatch.setattr(flight_module, "END_SECONDS", 0.01)
    keeper, bed = Keeper(tmp_path, "me", "0"), Bed()
    keeper.keep(bed.ring, DEATH, "the first")
    keeper.keep(bed.ring, DEATH, "the second")
    assert "are still being written" in caplog.text
    keeper.end()
    assert "their file was not written in 0.01 s" in caplog.text
    go.set()
    monkeypatch.setattr(flight_module, "END_SECONDS", 60)
    keeper.end()
    (name,) = kept(tmp_path)
    assert Recording.load(tmp_path / name).about.why == "the first"


def test_what_is_removed(tmp_path: Path) -> None:
    """The oldest of this router's files, and half ones. Others stay: another router's, notes, small files."""
    old = [f"me-2020010{day}T000000Z-000001.flight" for day in range(1, 1 + KEPT)]
    half = ".me-20200101T000000Z-000001.flight.abcd_123"
    others = [
        "me-2-20200101T000000Z-000001.flight", ".me-20200101T000000Z-000001.flight.swp", f"{old[0]}.small",
        "me-notes-of-mine.flight",
    ]  # fmt: skip
    for name in [*old, half, *others]:
        (tmp_path / name).touch()
    keep(tmp_path)
    left = set(kept(tmp_path))
    assert set(others) < left
    assert half not in left
    assert len(left) == KEPT + len(others)
    assert left > set(old[1:])


def test_the_first_of_a_row_stays(tmp_path: Path) -> None:
    """It has the cause of the others, perhaps."""
    now = int(time.time())
    row = [
        time.strftime(f"me-%Y%m%dT%H%M%SZ-{number:06}.flight", time.gmtime(now - 100 + number))
        for number in range(1, 1 + KEPT)
    ]
    for name in row:
        (tmp_path / name).touch()
    keep(tmp_path)
    assert set(kept(tmp_path)) > {row[0], *row[2:]}
    assert len(kept(tmp_path)) == KEPT


def test_no_folder_is_told_of_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only when the first core has died."""
    Keeper(tmp_path / "new", "me", "0").check()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert caplog.text == ""
    Keeper(None, "me", "0").check()
    assert "no directory is configured for them; set flightDirectory" in caplog.text
    caplog.clear()
    (tmp_path / "file").touch()
    Keeper(tmp_path / "file", "me", "0").check()
    assert f"{tmp_path}/file cannot be written: File exists; set flightDirectory" in caplog.text
    caplog.clear()
    monkeypatch.setattr(os, "access", lambda *_: False)
    Keeper(tmp_path, "me", "0").check()
    assert f"{tmp_path} cannot be written: Permission denied; set flightDirectory" in caplog.text


@pytest.mark.parametrize(("number", "said"), [(errno.ENOSPC, "make room there"), (errno.EROFS, "ReadWritePaths=")])
def test_what_to_do_if_a_file_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    """A full disk needs something else than one that may not be written."""

    def write(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(flight.Taken, "write", write)
    caplog.set_level(logging.WARNING)
    keep(tmp_path)
    assert f"{os.strerror(number)}; " in caplog.text
    assert said in caplog.text

"""What a killed recorder has read is not lost: its spool, and the ring behind it, hold every record once."""

import errno
import os
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pytest

from routerd.recorder import record, recovery
from routerd.recorder import spool as spooling
from routerd.recorder.files import File
from routerd.recorder.recovery import recover
from routerd.recorder.spool import Head, Spool, entries, head
from shm import native as n
from tests.support.beds.recorder_desk import NOON, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def spools(desk: Desk) -> list[Path]:
    return list((desk.root / "raw").rglob(".*.spool"))


def recovered(desk: Desk) -> int:
    """How many records the next recorder finds in spools; nothing unfinished stays."""
    rows = recover(desk.root / "raw", "me")
    assert not spools(desk)
    return rows


def turns(desk: Desk, *records: int) -> None:
    """The recorder reads so many in each turn."""
    for number in records:
        desk.bed.pass_on(number)
        desk.after(0.05)


def numbers(desk: Desk) -> list[int]:
    return [row["seq"] for row in desk.rows()]


def give_nothing_back(desk: Desk) -> None:
    """As if the recorder had been killed before it gave back the room of anything that it has read."""
    desk.bed.flow[128:136] = bytes(8)


def test_a_killed_recorder_loses_nothing(desk: Desk) -> None:
    """Row groups that were written, rows that were read, and what came while there was none: each once, and
    the same as if it had lived."""
    turns(desk, 20, 5, 9)
    desk.make()
    assert not list((desk.root / "raw").rglob(".*.tmp"))
    turns(desk, 3)
    assert recover(desk.root / "raw", "me") == 34
    desk.recorder.finish(1)
    assert not spools(desk)
    assert numbers(desk) == list(range(1, 38))
    for name in ("address", "peer_container", "ingress_kind", "egress_link_id", "boot_id", "outcome"):
        assert len({row[name] for row in desk.rows()} - {None}) == 1, name
    assert len({row["ts"] for row in desk.rows()}) > 30
    assert len(desk.files()) == 2


def test_a_spool_of_the_version_before_is_read(desk: Desk) -> None:
    """Its links have neither user nor host, and its records no flag of further copies: null is not no."""
    turns(desk, 20, 5)
    (spool,) = spools(desk)
    desk.recorder = None  # type: ignore[assignment]  # it is dead
    with spool.open("rb") as file:
        found, whole = head(file), list(entries(file))
    assert found is not None
    content = spooling._entry(msgspec.msgpack.encode(msgspec.structs.replace(found, form=1)), 0, 0, 0, 0)
    for one in whole:
        notes = spooling.Notes(one.notes.names, {number: link[:4] for number, link in one.notes.links.items()})
        said = msgspec.msgpack.encode(notes)
        content += spooling._entry(said, len(one.records), one.offset, one.behind, one.dropped) + one.records
    spool.write_bytes(content)
    assert recovered(desk) == 25
    rows = desk.rows()
    assert [row["seq"] for row in rows] == list(range(1, 26))
    assert {row["further_copy"] for row in rows} == {None}
    assert {(row["ingress_container"], row["ingress_user"], row["ingress_host"]) for row in rows} == {
        ("sender", None, None)
    }


@pytest.mark.parametrize("seed", range(12))
def test_a_spool_that_ends_anywhere_is_followed_by_the_ring(desk: Desk, seed: int) -> None:
    """The header, an entry's beginning, its records: what is not whole is in the ring, and counts once."""
    turns(desk, 4, 30, 2, 8)
    (spool,) = spools(desk)
    desk.recorder = None  # type: ignore[assignment]  # it is dead
    size = spool.stat().st_size
    os.truncate(spool, size - seed if seed < 3 else size * seed // 12)
    give_nothing_back(desk)
    desk.make()
    turns(desk, 3)
    recover(desk.root / "raw", "me")
    desk.recorder.finish(1)
    assert sorted(numbers(desk)) == list(range(1, 48))


def test_a_spool_with_holes_gives_what_is_before_them(desk: Desk) -> None:
    """As a machine without power leaves one: no record of zeros, no wrong number."""
    turns(desk, 4, 6)
    (spool,) = spools(desk)
    desk.recorder = None  # type: ignore[assignment]  # it is dead
    whole = spool.read_bytes()
    hole = 2 * n.TELEMETRY_RECORD
    spool.write_bytes(whole[:-hole] + bytes(hole))
    assert recovered(desk) == 8
    assert numbers(desk) == list(range(1, 9))


def test_names_that_are_used_again_are_right_after_recovery(desk: Desk) -> None:
    """Their ids stand for what they stood for when the record was read."""
    for name in (b"one", b"two", b"three"):
        desk.bed.rename(name)
        turns(desk, 2)
    desk.recorder = None  # type: ignore[assignment]  # it is dead
    assert recovered(desk) == 6
    assert [row["address"] for row in desk.rows()] == ["one"] * 2 + ["two"] * 2 + ["three"] * 2


def test_a_living_recorder_s_spool_is_left_alone(desk: Desk) -> None:
    """Though it is of the same router: a process that lives holds it."""
    turns(desk, 5)
    before = spools(desk)
    assert recover(desk.root / "raw", "me") == 0
    assert spools(desk) == before
    desk.recorder.finish(1)
    assert numbers(desk) == [1, 2, 3, 4, 5]
    assert not spools(desk)


def test_another_router_s_spool_is_left_alone(desk: Desk) -> None:
    """Though the names of its files are the same: dead or alive, it is not ours."""
    path = desk.root / "raw" / "date=2026-01-02" / "hour=12" / "m_e-all-b.1-000001.parquet"
    theirs = Spool(path, Head("m/e", "b.1", 1, 1, 1, NOON, 1))
    del theirs
    assert recover(desk.root / "raw", "m_e") == 0
    assert len(spools(desk)) == 1


def test_a_file_that_is_complete_is_not_made_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorder was killed before it could remove the spool."""
    monkeypatch.setattr(Spool, "remove", lambda spool: spool._file.close())
    turns(desk, 5)
    desk.recorder.roll(1)
    (file,) = desk.files()
    before = file.read_bytes()
    desk.make()
    assert recovered(desk) == 0
    assert file.read_bytes() == before
    monkeypatch.undo()
    turns(desk, 2)
    desk.recorder.finish(2)
    assert numbers(desk) == list(range(1, 8))


def test_a_full_disk_leaves_the_spool_for_later(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, and nothing unfinished is left."""
    turns(desk, 5)
    desk.recorder = None  # type: ignore[assignment]  # it is dead

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(File, "write", full)
    with pytest.raises(OSError, match="No space"):
        recover(desk.root / "raw", "me")
    assert len(spools(desk)) == 1
    desk.make()
    assert not list((desk.root / "raw").rglob(".*.tmp"))
    monkeypatch.undo()
    turns(desk, 2)
    assert recover(desk.root / "raw", "me") == 5
    desk.recorder.finish(1)
    assert numbers(desk) == list(range(1, 8))


def test_a_spool_that_cannot_be_written_costs_no_row(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is given up for the file, which takes its room then, and said once; the next file has one again."""
    writev, room = os.writev, [2]

    def full(fd: int, pieces: Any) -> int:
        room[0] -= 1
        return writev(fd, pieces if room[0] > 0 else [pieces[0][:20]])

    monkeypatch.setattr("routerd.recorder.spool.os.writev", full)
    turns(desk, 5, 5, 5)
    assert not spools(desk)
    assert caplog.text.count("The flow log has no spool") == 1
    assert "No space left on device; a recorder that is killed now loses up to 10 s" in caplog.text
    desk.after(11)
    monkeypatch.undo()
    turns(desk, 5)
    assert len(spools(desk)) == 1
    desk.recorder.finish(desk.now)
    assert numbers(desk) == list(range(1, 21))


@pytest.mark.parametrize("content", [b"", b"garbage" * 20, None])
def test_a_spool_that_cannot_be_read_is_named_and_removed(
    desk: Desk, caplog: pytest.LogCaptureFixture, content: bytes | None
) -> None:
    """A damaged one, and one of another version, as a router that was killed and updated finds."""
    turns(desk, 5)
    (spool,) = spools(desk)
    desk.recorder = None  # type: ignore[assignment]  # it is dead
    if content is None:
        with spool.open("rb") as file:
            found = head(file)
        assert found is not None
        content = spool.read_bytes().replace(b"form\x02", b"form\x03")
    spool.write_bytes(content)
    assert recovered(desk) == 0
    assert not desk.files()
    assert spool.name in caplog.text


def test_a_file_ends_when_its_spool_is_large(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the disk has no more of it than that, however long a file may be."""
    monkeypatch.setattr(record, "ENOUGH", 14 * n.TELEMETRY_RECORD)
    turns(desk, *[5] * 6)
    assert len(desk.files()) == 2
    desk.recorder.finish(1)
    assert numbers(desk) == list(range(1, 31))


def test_records_that_go_round_the_ring_s_end_are_whole(desk: Desk, tmp_path: Path) -> None:
    """They are in two pieces there."""
    for at in (64, 128):
        desk.bed.flow[at : at + 8] = (n.TELEMETRY_ROOM - 3).to_bytes(8, "little")
    desk.bed.core(1)
    desk.make()
    turns(desk, 8)
    (spool,) = spools(desk)
    with spool.open("rb") as file:
        assert head(file) is not None
        assert [len(entry.records) for entry in entries(file)] == [8 * n.TELEMETRY_RECORD]
    desk.recorder = None  # type: ignore[assignment]  # it is dead
    assert recovered(desk) == 8
    assert numbers(desk) == list(range(1, 9))


def test_a_spool_that_cannot_be_recovered_keeps_no_other_from_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with one, it is told once the others are files."""
    turns(desk, 4)
    (bad,) = spools(desk)
    desk.make()
    turns(desk, 3)
    desk.make()
    make = recovery._recover

    def plant(root: Path, router: str, path: Path, file: BinaryIO) -> int:
        if path == bad:
            raise ValueError("planted")
        return make(root, router, path, file)

    monkeypatch.setattr(recovery, "_recover", plant)
    with pytest.raises(ValueError, match="planted"):
        recover(desk.root / "raw", "me")
    assert bad in spools(desk)
    assert numbers(desk) == [5, 6, 7]

"""The recorder: records become rows, files appear whole or not at all, a disk that fails costs rows only."""

import errno
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from routerd.recorder.files import File
from routerd.recorder.keeping import Keeper
from routerd.recorder.main import Keeping, serve
from routerd.recorder.record import Recorder
from shm import native as n
from shm.contract.control import Exit
from shm.contract.flow_log import schema as flow
from shm.contract.flow_log.setup import FlowLogSetup, SetFlowLog
from shm.statistics.stats import COUNTERS
from tests.support.beds.flow import Bed
from tests.support.beds.recorder_desk import NOON, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_file_appears_complete_and_is_never_written_again(desk: Desk) -> None:
    """Until then there is only a hidden one; the next rows are in the next file; names say the number."""
    desk.bed.pass_on(20)
    desk.after(0)
    hidden = list((desk.root / "raw").rglob(".*.tmp"))
    assert len(hidden) == 1
    assert not desk.files()
    desk.after(11)
    (file,) = desk.files()
    before = file.read_bytes()
    assert pq.ParquetFile(file).metadata.num_rows == 20
    desk.bed.pass_on(3)
    desk.after(0)
    desk.after(11)
    assert len(desk.files()) == 2
    assert file.read_bytes() == before
    assert file.parent == desk.root / "raw" / "date=2026-01-02" / "hour=12"
    assert [path.name[-14:] for path in desk.files()] == ["000001.parquet", "000002.parquet"]
    assert desk.count("flow_rows") == 23


def test_an_hour_ends_a_file(desk: Desk) -> None:
    desk.bed.pass_on()
    desk.after(1)
    desk.wall = NOON.replace(hour=13, minute=0)
    desk.after(1)
    assert len(desk.files()) == 1


def test_another_core_begins_another_file(desk: Desk) -> None:
    """Each file is of one life of the core, and the rows of both are told apart by boot_id."""
    desk.bed.pass_on(2)
    desk.bed.core(2)
    desk.bed.pass_on(3)
    desk.after(0)
    desk.recorder.finish(1)
    boots = [row["boot_id"] for row in desk.rows()]
    assert [boots.count(boot) for boot in sorted(set(boots))] == [2, 3]
    assert [len({row["boot_id"] for row in pq.ParquetFile(f).read().to_pylist()}) for f in desk.files()] == [1, 1]


def test_a_killed_recorder_leaves_a_gap_and_nothing_to_stumble_over(desk: Desk) -> None:
    """Its successor removes what is unfinished of its own, and goes on behind what was read."""
    desk.bed.pass_on(20)
    desk.after(0)
    (left,) = (desk.root / "raw").rglob(".*.tmp")
    theirs = left.with_name(left.name.replace(".me-", ".me_too-"))
    theirs.touch()
    desk.make()
    desk.bed.pass_on(3)
    desk.after(0)
    desk.recorder.finish(1)
    assert list((desk.root / "raw").rglob(".*.tmp")) == [theirs]
    assert [row["seq"] for row in desk.rows()] == [21, 22, 23]


def test_a_full_ring_drops_and_counts(desk: Desk) -> None:
    """The core goes on; the numbers of what was dropped are missing."""
    desk.bed.pass_on()
    desk.bed.fill(3)
    desk.bed.pass_on(640)  # a few of which are to be recorded
    made, thinned, dropped = counted(desk.bed)
    assert made == 1 + 3
    assert dropped == 640 - thinned - 3 > 0


def counted(bed: Bed) -> list[int]:
    """Records, deliveries that others stand for, records without room."""
    return [bed.stats.get(COUNTERS[f"flow_{name}"].place) for name in ("records", "thinned", "dropped")]


@pytest.mark.parametrize(("eighths", "weight"), [(2, 1), (5, 4), (6, 16), (7, 64)])
def test_fewer_are_recorded_while_the_recorder_is_behind(desk: Desk, eighths: int, weight: int) -> None:
    """Each stands for as many as there would have been, and none is lost; all when it has caught up."""
    bed, count = desk.bed, 1600
    bed.fill(n.TELEMETRY_ROOM * (15 - 2 * eighths) // 16)
    bed.turn()
    bed.pass_on(count)
    made, thinned, dropped = counted(bed)
    assert (made + thinned, dropped) == (count, 0)
    assert count / weight / 2 < made < count / weight * 2 or weight == 1
    assert weights(bed, made) == [weight] * made
    bed.turn()
    bed.pass_on(10)
    assert weights(bed, 10) == [1] * 10


def weights(bed: Bed, records: int) -> list[int]:
    """What the last records say that they stand for."""
    bed.waits(records)
    columns = n.FlowColumns(2048)
    assert bed.reader().read(columns, 0) == records
    return memoryview(columns.buffers["weight"]).cast("i")[:records].tolist()


@pytest.mark.parametrize(("number", "name"), [(errno.ENOSPC, "flow_lost_no_space"), (errno.EIO, "flow_lost_io")])
def test_a_disk_that_fails_costs_rows_only(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int, name: str
) -> None:
    """One line in the log, the rows counted; with longer pauses it is tried again, and goes on."""
    written = File.write

    def fails(*_: Any) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(File, "write", fails)
    desk.bed.pass_on(16)
    desk.after(0)
    desk.bed.pass_on(40)
    desk.after(0.5)
    for _ in range(4):
        desk.bed.pass_on(16)
        desk.after(3)
    lost = desk.count(name)
    assert lost >= 100
    assert len([record for record in caplog.records if "cannot be written" in record.message]) == 1
    monkeypatch.setattr(File, "write", written)
    desk.bed.pass_on(3)
    desk.after(20)
    desk.after(20)
    desk.recorder.finish(desk.now)
    total = 16 + 40 + 64 + 3
    assert desk.count(name) + len(desk.rows()) == total
    assert [row["seq"] for row in desk.rows()][-3:] == [total - 2, total - 1, total]
    assert not list((desk.root / "raw").rglob(".*.tmp"))


def test_an_unwritable_directory_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    desk = Desk(tmp_path / "file")
    desk.bed.pass_on(16)
    desk.after(0)
    assert "file/raw" in caplog.text
    assert desk.count("flow_lost_io") == 16


def test_the_last_records_of_a_flow_log_that_ends_go_where_the_others_are(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reload removes it while the core has some left: they, and a clock's file, went to the folder of the process."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    said: list[Any] = [Exit(), SetFlowLog(FlowLogSetup())]
    keeping = Keeping(desk.router, desk.bed.recorder, lambda: desk.wall)
    keeping.configure(desk.setup)
    with open(os.devnull) as ready:
        channel: Any = SimpleNamespace(fileno=ready.fileno, receive=lambda: said.pop() if said else None)
        monkeypatch.setattr("routerd.recorder.main.select", lambda *_: None)
        serve(desk.recorder, keeping, desk.bed.recorder, channel)
    desk.bed.pass_on(4)
    desk.recorder.finish(desk.now)
    assert len(desk.rows()) == 4
    assert os.listdir(elsewhere) == []


def test_one_of_n_is_recorded_and_says_so(desk: Desk) -> None:
    """About one of four, each standing for four."""
    desk.bed.telemetry.record(4)
    desk.bed.pass_on(400)
    desk.after(0)
    desk.recorder.finish(1)
    rows = desk.rows()
    assert 50 < len(rows) < 160
    assert {row["sample_weight"] for row in rows} == {4}
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))


def _past_hour(desk: Desk, files: int) -> Keeper:
    for _ in range(files):
        desk.bed.pass_on(5)
        desk.after(0)
        desk.after(11)

    def ticks() -> float:
        return desk.wall.timestamp()

    Keeper(FlowLogSetup(str(desk.root)), "me", ticks, lambda: "machine").delete(desk.wall)
    desk.wall = NOON + timedelta(hours=2)
    return Keeper(desk.setup, "me", ticks, lambda: "machine")


def test_past_hours_are_put_together(desk: Desk) -> None:
    """The same rows, in one file; the manifest names it and what it holds; nothing is done twice."""
    keeper = _past_hour(desk, 3)
    foreign = desk.files()[0].with_name("me-all-zz.9-000001.parquet")
    pq.write_table(pa.table({"x": [1]}), foreign)
    torn = desk.files()[0].with_name("me-all-zz.9-000002.parquet")
    torn.write_bytes(b"PAR1 and no more")
    assert keeper.compact(desk.wall) == 3
    assert keeper.compact(desk.wall) == 0
    manifest = desk.root / "compact" / flow.manifest_name("me")
    assert '"sources"' in manifest.read_text()
    (compact,) = (desk.root / "compact").rglob("*.parquet")
    assert compact.name in manifest.read_text()
    table = pq.ParquetFile(compact).read()
    assert [row["seq"] for row in table.to_pylist()] == list(range(1, 16))
    assert foreign.exists()
    assert torn.exists()


@pytest.mark.parametrize("names", ['{"files": [[]], "sources": []}', '{"files": [], "sources": [{}, 1]}', "null", "[]"])
def test_a_manifest_of_which_a_part_makes_no_sense_is_made_anew_there(desk: Desk, names: str) -> None:
    """Nothing was put together or deleted any more."""
    keeper = _past_hour(desk, 3)
    manifest = desk.root / "compact" / flow.manifest_name("me")
    manifest.parent.mkdir()
    manifest.write_text(f'{{"hours": {{"{flow.folder(NOON)}": {names}}}}}')
    assert keeper.compact(desk.wall) == 3
    assert keeper.delete(desk.wall) == 0


@pytest.mark.parametrize("columns", [41, 45, len(flow.COLUMNS) - 1])
def test_files_of_earlier_versions_are_put_together_with_those_of_today(desk: Desk, columns: int) -> None:
    """An upgrade adds columns: they are null in the rows of before, and the others as they were."""
    keeper = _past_hour(desk, 3)
    old, *_ = desk.files()
    with pq.ParquetFile(old) as file:
        table, footer = file.read(), file.metadata.metadata
    names = [column.name for column in flow.COLUMNS]
    pq.write_table(table.select(names[:columns]).replace_schema_metadata(footer), old)
    assert keeper.compact(desk.wall) == 3
    (compact,) = (desk.root / "compact").rglob("*.parquet")
    rows = pq.ParquetFile(compact).read().to_pylist()
    assert [row["seq"] for row in rows] == list(range(1, 16))
    assert all(row[name] is None for row in rows[:5] for name in names[columns:])
    assert [row["ingress_container"] for row in rows[5:]] == ["sender"] * 10
    assert {row["address"] for row in rows} == {"news"}


@pytest.mark.parametrize("other", ["edge_1", "edge.1", "edge/1", "edge 1", "édge-1"])
def test_routers_whose_ids_a_name_cannot_tell_apart_share_no_file(tmp_path: Path, other: str) -> None:
    """Each compacts and deletes its own files, and has its own manifest, clock and numbers, in one directory."""
    desks = {name: Desk(tmp_path, name, raw_seconds=3600, keep_seconds=4 * 3600) for name in ("edge-1", other)}
    for desk in desks.values():
        desk.bed.pass_on(5)
        desk.after(0)
        desk.after(11)
    assert len(desks[other].files()) == 2
    now = NOON

    def keeper(name: str) -> Keeper:
        return Keeper(desks[name].setup, name, now.timestamp, lambda: "machine")

    for name in desks:
        keeper(name).delete(now)  # knows the time from now on
    now = NOON + timedelta(hours=2)
    for name in desks:
        assert (keeper(name).compact(now), keeper(name).compact(now)) == (1, 0)
        manifest = json.loads((tmp_path / "compact" / flow.manifest_name(name)).read_bytes())
        assert manifest["router"] == name
        (entry,) = manifest["hours"].values()
        (compact,) = (path for path in (tmp_path / "compact").rglob("*.parquet") if path.name in entry["files"])
        assert {row["router_id"] for row in pq.ParquetFile(compact).read().to_pylist()} == {name}
    now = NOON + timedelta(hours=6)
    assert keeper("edge-1").delete(now) == 2
    rows = [row for path in tmp_path.rglob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]
    assert {row["router_id"] for row in rows} == {other}


def test_what_is_compacted_goes_first_and_the_oldest_then(tmp_path: Path) -> None:
    """rawAge for files whose rows stand in a compacted one, retentionAge for all."""
    desk = Desk(tmp_path, raw_seconds=3600, keep_seconds=4 * 3600)
    keeper = _past_hour(desk, 2)
    assert (keeper.compact(desk.wall), keeper.delete(desk.wall)) == (2, 2)
    assert not desk.files()
    assert len(list((tmp_path / "compact").rglob("*.parquet"))) == 1
    desk.wall = NOON + timedelta(hours=6)
    assert (keeper.compact(desk.wall), keeper.delete(desk.wall)) == (0, 1)
    assert not list((tmp_path / "compact").rglob("*.parquet"))
    assert '"hours": {}' in (tmp_path / "compact" / flow.manifest_name("me")).read_text()


def test_too_many_bytes_delete_the_oldest(tmp_path: Path) -> None:
    desk = Desk(tmp_path, keep_bytes=20_000, compaction=False)
    keeper = _past_hour(desk, 3)
    sizes = [file.stat().st_size for file in desk.files()]
    names = [file.name for file in desk.files()]
    assert sum(sizes) > 20_000
    assert keeper.delete(desk.wall) > 0
    assert [file.name for file in desk.files()] == names[-len(desk.files()) :]
    assert sum(file.stat().st_size for file in desk.files()) <= 20_000


def test_old_files_are_deleted_though_there_is_no_room_to_put_any_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is they who take the room: said once, and no reason to keep them."""
    desk = Desk(tmp_path, keep_bytes=1)
    _past_hour(desk, 2)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("routerd.recorder.keeping.os.fsync", full)
    keeping = Keeping("me", desk.bed.recorder, lambda: desk.wall)
    keeping.configure(desk.setup)
    for now in (0.0, 1000.0):
        keeping.step(now)
        assert keeping._thread is not None
        keeping._thread.join()
    assert (desk.count("flow_deleted"), desk.count("flow_errors"), desk.files()) == (2, 1, [])
    assert caplog.text.count("No space left") == 1


def test_a_work_that_fails_in_a_new_way_keeps_no_other_from_being_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once, and tried again."""
    desk = Desk(tmp_path, keep_bytes=1)
    _past_hour(desk, 2)
    monkeypatch.setattr("routerd.recorder.keeping.recover", lambda *_: 1 // 0)
    keeping = Keeping("me", desk.bed.recorder, lambda: desk.wall)
    keeping.configure(desk.setup)
    for now in (0.0, 1000.0):
        keeping.step(now)
        assert keeping._thread is not None
        keeping._thread.join()
    assert desk.count("flow_compacted") == 2
    assert not desk.files()
    assert caplog.text.count("cannot be maintained: integer division") == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB; only root can make one."""
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(tmp_path)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)  # noqa: S607  whichever umount there is


def test_a_full_disk_costs_rows_until_there_is_room(small_disk: Path) -> None:
    """A real one: what does not fit is counted, no half file is left, and it goes on when there is room."""
    desk = Desk(small_disk)
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 244 * 1024)
    for _ in range(20):
        desk.bed.pass_on(16)
        desk.after(3)
    assert desk.count("flow_lost_no_space") > 0
    assert desk.count("flow_lost_io") == 0
    ballast.unlink()
    for _ in range(4):
        desk.bed.pass_on(16)
        desk.after(30)
    desk.recorder.finish(desk.now)
    rows = desk.rows()
    assert len(rows) + desk.count("flow_lost_no_space") == 24 * 16
    assert rows[-1]["seq"] == 24 * 16
    assert not list((small_disk / "raw").rglob(".*.tmp"))


def test_a_turn_ends_however_fast_records_come(desk: Desk) -> None:
    """It is heard from, files become complete, the next turn follows at once; the end reads everything."""
    fed = 0

    def feeding() -> int:
        nonlocal fed
        if fed < 20:
            fed += 1
            desk.bed.pass_on()
        return 10**18

    desk.recorder = Recorder(desk.bed.flow, desk.bed.recorder, "me", lambda: desk.wall, feeding, 16)
    desk.recorder.configure(desk.setup, 0)
    assert desk.recorder.turn(0) == 0
    assert fed < 20
    desk.recorder.finish(1)
    assert len(desk.rows()) == 20

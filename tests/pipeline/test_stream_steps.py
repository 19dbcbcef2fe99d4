"""The stream without Spark: killed before any of its steps, late files, retention, routers that have gone."""

import os
import shutil
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pipeline import stream
from pipeline.errors import PipelineError, UnusableError
from pipeline.files import file_system
from pipeline.flow_log import survey as surveying
from pipeline.output import days, generations
from pipeline.output.directory import STREAM, claimed
from pipeline.output.generations import current, read
from pipeline.record_sets import joined
from pipeline.stream import Pace
from pipeline.watermark import Watermarks
from tests.support.pipeline.mortal import Killed, Mortal, disk
from tests.support.pipeline.streams import (
    ROLLUP,
    START,
    TABLE,
    batch,
    computed,
    make,
    minutes,
    put,
    results,
    streaming,
    text_of,
)


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.stream.batch.make", make)
    monkeypatch.setattr("pipeline.stream.places_for", lambda *_: {})
    monkeypatch.setattr("pipeline.hourly.ROLLUPS", {ROLLUP: None})


def test_closed_hours_are_computed_once_and_the_open_one_again(tmp_path: Path) -> None:
    """A file of two days is in both; nothing new is no batch; copies and compacted files are nothing new."""
    log, out = tmp_path / "log", tmp_path / "out"
    put(log, "R1", 0, minutes(START, 1, 61))
    assert batch(log, out)[0].startswith("batch 1: 2 records, 0 late; 2026-01-05 (2 of 2 hours); ")
    second = put(log, "R1", 2, minutes(START, 119, 121))
    with streaming(log, out) as one:
        assert one.batch()
        assert computed(out, "2026-01-05") == ["2026-01-05T23"]
        assert computed(out, "2026-01-06") == ["2026-01-06T00"]
        before = sorted(out.rglob("*"))
        assert not one.batch()
        shutil.copy(second, log / "raw" / "copy.parquet")
        assert not one.batch()
        second.unlink()
        assert not one.batch()
        assert sorted(out.rglob("*")) == before
    assert not [line for line in batch(log, out) if line.startswith("batch")]
    assert results(out) == {"2026-01-05": ["R1 0", "R1 1", "R1 2"], "2026-01-06": ["R1 3"]}


@pytest.mark.parametrize("age", [0, 8, 400])
def test_a_late_file_of_any_age_counts(tmp_path: Path, age: int) -> None:
    """By the time of its records and by its own; also of an hour of which the log has lost the rest."""
    log, out = tmp_path / "log", tmp_path / "out"
    early = put(log, "R1", 10, minutes(START, 1, 2))
    put(log, "R1", 12, minutes(START + timedelta(days=9), 3))
    batch(log, out)
    late = put(log, "R1", 7, minutes(START, 0, 0), age)
    told = batch(log, out)
    assert told[0].startswith("batch 1: 2 records, 0 late; 2026-01-05 (1 of 1 hours); ")  # a new process knows no marks
    for path in (early, late):
        path.unlink()
    put(log, "R2", 0, minutes(START, 4), age)
    with streaming(log, out) as one:
        assert one.batch()
        put(log, "R1", 8, minutes(START, 0, 1, 1), age)  # 8 and 10 were there
        assert one.batch()
        assert not one.batch()
    assert results(out)["2026-01-05"] == ["R1 10", "R1 11", "R1 7", "R1 8", "R1 9", "R2 0"]
    assert current(str(out / "date=2026-01-05")).summary()["lost"] == 0


def test_a_message_over_midnight_is_not_lost(tmp_path: Path) -> None:
    """Numbers are in the order in which messages end, and days by when they came; also when the log has lost a day."""
    log, out = tmp_path / "log", tmp_path / "out"
    midnight, second = datetime(2026, 1, 6, tzinfo=UTC), timedelta(seconds=1)
    first = put(log, "R1", 1, [midnight + at * second for at in (-2, 1, -1, 2)])
    batch(log, out)
    lost = {day: current(str(out / f"date={day}")).summary()["lost"] for day in results(out)}
    assert lost == {"2026-01-05": 0, "2026-01-06": 0}
    first.unlink()
    put(log, "R1", 6, [midnight + 3 * second])
    batch(log, out)
    assert current(str(out / "date=2026-01-06")).summary()["lost"] == 1
    put(log, "R1", 9, [midnight + timedelta(days=1)])
    batch(log, out)
    assert current(str(out / "date=2026-01-07")).summary()["lost"] == 2  # between two days


def test_records_that_come_late_are_lost_to_no_later_day(tmp_path: Path) -> None:
    """A day's numbers begin behind those of the days before; a kill between the two days changes nothing."""
    log, out = tmp_path / "log", tmp_path / "out"
    put(log, "R1", 1, minutes(START, 1))
    put(log, "R1", 4, minutes(START + timedelta(days=1), 1))
    batch(log, out)
    assert current(str(out / "date=2026-01-06")).summary()["lost"] == 2
    put(log, "R1", 2, minutes(START, 2, 3))
    with mock.patch.object(stream.Stream, "_again", side_effect=Killed), pytest.raises(Killed):
        batch(log, out)
    with streaming(log, out) as one:
        assert (one.batch(), one.batch()) == (True, False)
    assert [current(str(out / f"date={day}")).summary()["lost"] for day in results(out)] == [0, 0]


def test_a_batch_looks_through_no_numbers_of_days_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It puts as many ranges together after a month as after two days, and knows what is missing since the last one."""
    given: list[int] = []

    def counted(ranges: Any, most: int) -> Any:
        given.append(len(together := list(ranges)))
        return joined(together, most)

    put_together = {}
    for kept in (2, 30):
        log, out = tmp_path / f"log{kept}", tmp_path / f"out{kept}"
        with streaming(log, out) as one:
            put(log, "R1", 0, [START + timedelta(hours=passed) for passed in range(24 * kept)])
            one.batch()
            shutil.rmtree(log)
            put(log, "R1", 24 * kept + 1, [START + timedelta(days=kept)])
            given.clear()
            with monkeypatch.context() as watched:
                watched.setattr("pipeline.record_sets.joined", counted)
                one.batch()
            put_together[kept] = sum(given)
        newest = f"{START + timedelta(days=kept):%F}"
        assert current(str(out / f"date={newest}")).summary()["lost"] == 1
    assert put_together[2] == put_together[30]


def test_files_that_were_deleted_before_they_were_read_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their numbers were seen, and no result has their records."""
    log, out, day = tmp_path / "log", tmp_path / "out", timedelta(days=1)
    with streaming(log, out) as one:
        put(log, "R1", 0, [START])
        one.batch()
        unread = put(log, "R1", 1, [START + day])
        with monkeypatch.context() as dying:
            dying.setattr("pipeline.stream.Held.take", lambda _, files: files)
            with pytest.raises(PipelineError, match="was deleted before it was read"):
                one.batch()
        unread.unlink()
        put(log, "R1", 2, [START + 2 * day])
        one.batch()
    assert current(str(out / f"date={START + 2 * day:%F}")).summary()["lost"] == 1


def test_days_of_another_version_are_not_compared_with(tmp_path: Path) -> None:
    """Their columns may have other types; nor are days whose summary cannot be read."""
    log, out = tmp_path / "log", tmp_path / "out"
    for day in range(3):
        put(log, "R1", 1 + day, [START + timedelta(days=day)])
    batch(log, out)
    days_made = [current(str(out / f"date=2026-01-0{5 + day}")) for day in range(3)]
    for made, said in zip(days_made, ('{"schema": "routerd.results.v3"}', "{"), strict=False):
        Path(made.root, generations.SUMMARY).write_text(said)
    spark: Any = mock.Mock()
    with streaming(log, out) as one:
        one._spark = spark
        one._earlier(TABLE, "2026-01-08")
    spark.read.schema.return_value.parquet.assert_called_once_with(days_made[2].table(TABLE))


def test_a_day_in_the_future_is_not_the_last_one(tmp_path: Path) -> None:
    """A router whose clock is wrong would have `report`, `plan` and `check` look at its day for as long."""
    log, out, now = tmp_path / "log", tmp_path / "out", datetime.now(UTC)
    for number, days_on in enumerate((3, 2)):
        put(log, "R1", number, [now + timedelta(days=days_on)])
    batch(log, out)
    assert days.results_in(str(out)) == str(out / f"date={now + timedelta(days=2):%F}")
    put(log, "R2", 0, [now - timedelta(days=1), now - timedelta(days=2)])
    batch(log, out)
    assert days.results_in(str(out)) == str(out / f"date={now - timedelta(days=1):%F}")


def test_late_records_are_told(tmp_path: Path) -> None:
    """Those of hours that were complete."""
    log, out, told = tmp_path / "log", tmp_path / "out", list[str]()
    with streaming(log, out, told) as one:
        put(log, "R1", 1, minutes(START, 1, 70))
        one.batch()
        put(log, "R1", 0, minutes(START, 0))
        put(log, "R1", 3, minutes(START, 71))
        one.batch()
    assert told[0].endswith("complete until 2026-01-05T23:09:00Z")
    assert told[1].startswith("batch 2: 2 records, 1 late; 2026-01-05 (2 of 2 hours); ")


def test_a_router_that_has_gone_holds_nothing_up(tmp_path: Path) -> None:
    """By when its files came, whatever its clock says; one that comes back counts again."""
    log, out, told = tmp_path / "log", tmp_path / "out", list[str]()
    with streaming(log, out, told, delay_s=0) as one:
        put(log, "R1", 0, minutes(START, 1), age_days=1)
        put(log, "R2", 0, minutes(START, 30), age_days=1)
        one.batch()
        put(log, "R2", 1, minutes(START, 40))
        one.batch()
        put(log, "R1", 1, minutes(START, 35))
        one.batch()
    assert told[0].endswith("complete until 2026-01-05T22:01:00Z")
    assert told[1].endswith("complete until 2026-01-05T22:40:00Z; gone: R1 at 2026-01-05T22:01:00Z")
    assert told[2].endswith("complete until 2026-01-05T22:35:00Z")
    said = current(str(out / "date=2026-01-05")).summary()
    assert said["complete_until"] == "2026-01-05T22:35:00Z"
    assert said["routers"]["R1"] == {"newest": "2026-01-05T22:35:00Z", "gone": False}
    assert Watermarks(0, 0).complete_until() is None


def test_only_what_the_stream_made_goes_with_age(tmp_path: Path) -> None:
    """The oldest days; what others put there stays, and a record from the future removes nothing of today."""
    log, out = tmp_path / "log", tmp_path / "out"
    for day in range(5):
        put(log, "R1", day, minutes(START + timedelta(days=day), 0))
    batch(log, out)
    (out / "date=2026-01-06" / "notes.txt").write_text("precious")
    (out / "date=2020-01-01").mkdir()
    (out / "date=2020-01-01" / "x").write_text("precious")
    read_while = current(str(out / "date=2026-01-05"))
    read_while.write_text("report.html", generations.SIGNS["report.html"])
    current(str(out / "date=2026-01-06")).write_text("plan.rt", generations.SIGNS["plan.rt"])
    told = batch(log, out, keep=2)
    assert sorted(path.name for path in out.iterdir()) == [
        "_routerd_stream", "date=2020-01-01", "date=2026-01-06", "date=2026-01-08", "date=2026-01-09",
    ]  # fmt: skip
    assert sorted(path.name for path in (out / "date=2026-01-06").iterdir()) == ["_routerd_day", "notes.txt"]
    assert [line for line in told if "date=2026-01-06: what routerd did not make stays" in line]
    assert "records of days before 2026-01-08 are left out: --keep is 2" in batch(log, out, keep=2)
    with read(days.results_in(str(out))) as found:
        assert found.root.startswith(str(out / "date=2026-01-09"))
    today = date(2026, 1, 9)
    assert days.first_kept("2026-01-09", today, 2) == days.first_kept("2099-01-01", today, 2) == "2026-01-08"


def test_an_output_has_as_many_files_after_many_batches(tmp_path: Path) -> None:
    """As after few: what was computed again takes the place of what was there."""
    log, out = tmp_path / "log", tmp_path / "out"
    counts = []
    put(log, "R2", 0, minutes(START, 0))
    with streaming(log, out) as one:
        for number in range(40):
            put(log, "R1", number, minutes(START, 60 + number))
            assert one.batch()
            counts.append(Counter(path.suffix for path in out.rglob("*") if path.is_file())[".parquet"])
    # The rollup of the closed hour; that of the open one and the table, of this batch and of the one before.
    assert counts == [3, *[5] * 39]
    assert len(results(out)["2026-01-05"]) == 41


def test_what_the_first_batch_of_a_day_left_goes(tmp_path: Path) -> None:
    """Also if the log has nothing of the day any more."""
    log, out = tmp_path / "log", tmp_path / "out"
    path = put(log, "R1", 0, minutes(START, 0))
    batch(log, out)
    (out / "date=2026-01-05" / "current").unlink()
    path.unlink()
    put(log, "R1", 1, minutes(START + timedelta(days=1), 0))
    batch(log, out)
    assert sorted(one.name for one in out.iterdir()) == ["_routerd_stream", "date=2026-01-06"]


def test_one_stream_at_a_time(tmp_path: Path) -> None:
    """A second one is refused, as are a run, and a stream into a day; a log that is gone ends it."""
    log, out = tmp_path / "log", tmp_path / "out"
    put(log, "R1", 0, minutes(START, 0))
    with streaming(log, out) as one:
        one.batch()
        with pytest.raises(PipelineError, match=r"another `routerd pipeline stream` is writing to .*out: wait"):
            batch(log, out)
        with pytest.raises(PipelineError, match="is the output of `routerd pipeline stream`: give another --output"):
            batch(log, out / "date=2026-01-05")
        shutil.rmtree(log)
        with pytest.raises(PipelineError, match="log is not a directory; give the directory of a flowLog"):
            one.batch()


def test_rollups_that_are_gone_are_made_from_the_log_or_missed_by_name(tmp_path: Path) -> None:
    """If the log still has all of their records; otherwise nothing is published."""
    log, out = tmp_path / "log", tmp_path / "out"
    first = put(log, "R1", 0, minutes(START, 0))
    batch(log, out)
    shutil.rmtree(next(out.glob("date=*/rollup-*")))
    put(log, "R1", 1, minutes(START, 1))
    batch(log, out)
    assert results(out) == {"2026-01-05": ["R1 0", "R1 1"]}
    shutil.rmtree(next(path.parent for path in out.glob("date=*/rollup-*/*")))
    for path in out.glob("date=*/rollup-*"):
        shutil.rmtree(path)
    first.unlink()
    put(log, "R1", 2, minutes(START, 2))
    says = "rollups of the hour 2026-01-05T22 are gone, were not among --tables, or are of another version"
    with pytest.raises(PipelineError, match=says):
        batch(log, out)
    assert results(out) == {"2026-01-05": ["R1 0", "R1 1"]}


def test_a_day_whose_manifest_is_gone_does_not_shrink(tmp_path: Path) -> None:
    """It is computed again from a log that still has all of its records; otherwise it stays, and a person is asked."""
    log, out = tmp_path / "log", tmp_path / "out"
    first = put(log, "R1", 0, minutes(START, 0))
    batch(log, out)
    put(log, "R1", 1, minutes(START, 1))
    for manifest in out.glob("date=*/run-*/hours.json"):
        manifest.unlink()
    batch(log, out)
    for manifest in out.glob("date=*/run-*/hours.json"):
        manifest.unlink()
    first.unlink()
    with pytest.raises(UnusableError, match=r"is gone \(run-\w+/hours\.json\), and the log has no longer all"):
        batch(log, out)
    assert results(out) == {"2026-01-05": ["R1 0", "R1 1"]}


def test_files_that_are_deleted_while_they_are_read_end_no_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next batch takes what is there; if it happens each time, the stream says so and ends."""
    log, out, told = tmp_path / "log", tmp_path / "out", list[str]()
    put(log, "R1", 0, minutes(START, 0))
    files = [put(log, "R1", number, minutes(START, number)) for number in range(1, 4)]
    whole = surveying.survey

    def survey(*args: Any) -> Any:
        found = whole(*args)
        if files:
            files.pop().unlink()
        return found

    monkeypatch.setattr(stream, "survey", survey)
    none: Any = None
    with claimed(str(out), STREAM, str(log)) as output:
        del files[2:]
        stream.run(none, str(log), output, {}, Pace(once=True), told.append)
        assert len([line for line in told if "; the next batch reads what is there" in line]) == 2
        assert results(out) == {"2026-01-05": ["R1 0", "R1 3"]}
        files += [put(log, "R1", number, minutes(START, number)) for number in range(4, 7)]
        with pytest.raises(PipelineError, match=r"R1-0-\d+.parquet was deleted before it was read"):
            stream.run(none, str(log), output, {}, Pace(once=True), told.append)


@pytest.mark.parametrize("local", [True, False])
def test_killed_before_any_step_it_loses_doubles_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    """In a batch of two days, one of them late, and one after that, while the oldest goes; readers have whole results
    at any time."""
    files = disk(local)
    log, formed = tmp_path / "log", tmp_path / "formed"
    for number in range(4):
        put(log, "R1", 2 * number, minutes(START + timedelta(days=number), 0))
    batch(log, formed)
    put(log, "R1", 3, minutes(START + timedelta(days=1), 30), 400)
    put(log, "R2", 0, minutes(START + timedelta(days=4), 0))
    monkeypatch.setattr("pipeline.output.directory.file_system", lambda path: (files, file_system(path)[1]))
    for name in ("symlink", "replace"):
        monkeypatch.setattr(generations.os, name, Mortal.step(getattr(os, name)))
    wanted = {"2026-01-06": ["R1 2", "R1 3"], "2026-01-07": ["R1 4"], "2026-01-08": ["R1 6"], "2026-01-09": ["R2 0"]}
    if not local:
        Mortal.left = 1 << 30
        for link in formed.glob("date=*/current"):
            name = os.readlink(link)
            link.unlink()
            link.write_text(name)
    for at in range(200):
        out = Path(shutil.copytree(formed, tmp_path / str(at), symlinks=True))
        Mortal.left, died = at, True
        try:
            batch(log, out, keep=4)
            died = False
        except Killed:
            pass
        Mortal.left = 1 << 30
        for day, lines in whole_days(out).items():
            assert lines in ([f"R1 {2 * (int(day[-2:]) - 5)}"], wanted.get(day))
        batch(log, out, keep=4)
        assert results(out) == wanted
        names = Counter(path.name.partition("-")[0] for path in out.glob("date=*/*"))
        assert names["run"] - 4 in (0, 1, 2), names
        assert names["rollup"] - 4 in (0, 1), names
        assert sorted(path.name for path in out.iterdir()) == ["_routerd_stream", *(f"date={one}" for one in wanted)]
        assert {name for name in names if name not in ("run", "rollup")} == {"_routerd_day", "current"}
        if not died:
            break
        shutil.rmtree(out)
    assert 20 < at < 199


def whole_days(out: Path) -> dict[str, list[str]]:
    """What a reader finds of the days that it finds."""
    found = {}
    for path in out.glob("date=*"):
        if os.path.lexists(path / "current"):
            made = current(str(path))
            found[path.name[5:]] = sorted(line for one in made.files(TABLE) for line in text_of(made.output, one))
    return found

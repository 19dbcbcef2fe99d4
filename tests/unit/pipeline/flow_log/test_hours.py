"""The hours of a log: what each holds is known by its records, however they are cut into files."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.errors import PipelineError
from pipeline.flow_log import hours as module
from pipeline.flow_log.hours import HOUR_US, Period, hours_of, number, text, within
from pipeline.flow_log.survey import EPOCH, MICROSECOND, survey
from pipeline.generate.scenario import Scenario
from pipeline.record_sets import Records
from shm.contract.flow_log.arrow import SCHEMA
from tests.support.pipeline.logs import Written, cut, file, written_at_noon

PLACES = st.lists(st.integers(0, 10_000), max_size=6)


@pytest.fixture(scope="module")
def writers(tmp_path_factory: pytest.TempPathFactory) -> list[Written]:
    """The records of three routers within some hours."""
    directory = tmp_path_factory.mktemp("hours") / "log"
    return written_at_noon(directory, Scenario(records=3000, days=1, routers=3, workers=1, clients=3))


def sums(directory: Path) -> dict[str, Records]:
    found, _ = hours_of(survey(str(directory)), {}, {})
    return {text(at): one.numbers for at, one in found.items()}


def lay(writers: list[Written], places: list[int], directory: Path) -> list[Path]:
    """Write the log, each writer's records cut at these places."""
    shutil.rmtree(directory, ignore_errors=True)
    paths = []
    for one in writers:
        for at, records in enumerate(cut(one, places)):
            paths.append(directory / "raw" / f"{one.router}-all-{one.boot}-{at:06d}.parquet")
            file(one, records, paths[-1])
    return paths


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PLACES, PLACES)
def test_hours_are_the_same_however_a_log_is_cut(
    writers: list[Written], tmp_path: Path, one: list[int], other: list[int]
) -> None:
    """A file may be of several hours, as a compacted one is; copies change nothing."""
    lay(writers, one, tmp_path / "one")
    copied = lay(writers, other, tmp_path / "other")[0]
    shutil.copy(copied, copied.with_name("copy.parquet"))
    assert sums(tmp_path / "one") == sums(tmp_path / "other")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PLACES, st.integers(0, 100))
def test_a_file_that_is_missing_changes_its_hours_and_no_others(
    writers: list[Written], tmp_path: Path, places: list[int], which: int
) -> None:
    """So a late one makes these be computed again; their files have all of their records."""
    paths = lay(writers, places, tmp_path / "log")
    before, found = sums(tmp_path / "log"), survey(str(tmp_path / "log"))
    hours, _ = hours_of(found, {}, {})
    gone = paths[which % len(paths)]
    times = pq.ParquetFile(gone).read(["ts"])["ts"].to_pylist()
    gone.unlink()
    after = sums(tmp_path / "log")
    changed = {hour for hour in before if before[hour] != after.get(hour)}
    assert changed == {time.strftime("%Y-%m-%dT%H") for time in times}
    for at, hour in hours.items():
        assert (str(gone) in {one.path for one in within(found, [hour]).clean}) == (text(at) in changed)


def test_what_was_read_once_is_not_read_again(
    writers: list[Written], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of files of several hours; another file of that name is."""
    (path, *_) = lay(writers, [], tmp_path / "log")
    found = survey(str(tmp_path / "log"))
    first, known = hours_of(found, {}, {})
    read: list[str] = []
    whole = module._split

    def split(files: object, places: object, one: module.LogFile) -> object:
        read.append(one.path)
        return whole(files, {}, one)

    monkeypatch.setattr(module, "_split", split)
    again, _ = hours_of(found, {}, known)
    assert not read
    assert {at: one.numbers for at, one in again.items()} == {at: one.numbers for at, one in first.items()}
    file(writers[0], writers[0].records[:-1], path)
    hours_of(survey(str(tmp_path / "log")), {}, known)
    assert read == [str(path)]


@pytest.mark.parametrize("hours", [1, 3])
@pytest.mark.parametrize("year", [1969, 2263, 9980])
def test_a_time_that_no_table_has_names_its_file(writers: list[Written], tmp_path: Path, year: int, hours: int) -> None:
    """In nanoseconds since 1970 it is not within 64 bits; whether its file is of one hour, or is read for its hours."""
    one = writers[0]
    moved = datetime(year, 6, 1, 10, tzinfo=UTC) - EPOCH
    micros = [moved // MICROSECOND + at * hours * HOUR_US // len(one.records) for at in range(len(one.records))]
    place = one.records.schema.get_field_index("ts")
    times = pa.array(micros).cast(one.records.schema.field("ts").type)
    file(one, one.records.set_column(place, one.records.schema.field("ts"), times), tmp_path / "raw" / "odd.parquet")
    with pytest.raises(PipelineError, match=r"odd\.parquet: a record has a time before 1970 or after 2262"):
        hours_of(survey(str(tmp_path)), {}, {})


def test_a_file_whose_records_are_damaged_is_named(writers: list[Written], tmp_path: Path) -> None:
    """It is of several hours, so its records are read: the footer alone is whole."""
    path = lay(writers, [], tmp_path)[0]
    column = pq.read_metadata(path).row_group(0).column(SCHEMA.get_field_index("seq"))
    start = column.dictionary_page_offset or column.data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)
    with pytest.raises(PipelineError, match=f"{path.name}: its records cannot be read"):
        hours_of(survey(str(tmp_path)), {}, {})
    found = survey(str(tmp_path))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        hours_of(found, {}, {})


def test_a_period_is_of_whole_hours() -> None:
    """From a day or an hour on, and before another; anything else is one sentence."""
    day = number("2026-01-05", "--since")
    assert [text(one) for one in (day, number("2026-01-05T07", "--since"))] == ["2026-01-05T00", "2026-01-05T07"]
    period = Period.of("2026-01-05", "2026-01-05T02")
    assert [one in period for one in range(day - 1, day + 4)] == [False, True, True, False, False]
    assert day in Period.of(None, None)
    for wrong in ("2026-1-5", "2026-02-30", "2026-01-05T24", "2026-01-05T07:30", "yesterday", ""):
        with pytest.raises(PipelineError, match=f"^--until {wrong} is neither a day, YYYY-MM-DD, nor an hour"):
            Period.of(None, wrong)
    with pytest.raises(PipelineError, match="--until 2026-01-05 is not after --since 2026-01-05T00: no hour"):
        Period.of("2026-01-05T00", "2026-01-05")

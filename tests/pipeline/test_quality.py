"""Checks of results: each fails for what it is there for, and says so with its status."""

import json
import shutil
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pipeline.cli import pipeline
from pipeline.output.columns import TABLES
from pipeline.output.directory import RESULTS, claimed
from pipeline.output.generations import Generation, begin, current
from pipeline.quality import Limits, checks
from tests.support.pipeline.output import part

ARROW = {
    "string": pa.string(), "bool": pa.bool_(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "double": pa.float64(), "timestamp": pa.timestamp("us", "UTC"), "strings": pa.list_(pa.string()),
}  # fmt: skip
SUMMED = ("int64",)
SUMMARY = {
    "records": 2, "messages": 2, "bytes": 2, "hops": 2, "hop_bytes": 2,
    "files": 1, "lost": 0, "dropped": 0, "skipped": [],
    "first_minute": "2026-01-05 10:00:00", "last_minute": "2026-01-05 12:00:00",
}  # fmt: skip


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Results of a log of two records, made by hand; `test_batch.py` has those that Spark writes."""
    (tmp_path / "log").mkdir()
    with claimed(str(tmp_path / "out"), RESULTS, str(tmp_path / "log")) as output:
        fresh = begin(output)
        for table in TABLES.values():
            columns = {
                one.name: pa.array([1] * 2).cast(ARROW[one.type])
                if one.type in SUMMED
                else pa.nulls(2, ARROW[one.type])
                for one in table.columns
            }
            path = Path(fresh.root, table.name)
            path.mkdir()
            pq.write_table(pa.table(columns), path / part(table.name))
        hours = {f"2026-01-05T{hour}": {"sums": "", "files": {}} for hour in (10, 11, 12)}
        fresh.publish(SUMMARY, json.dumps({"schema": "rollups", "hours": hours, "log": {}}))
    return tmp_path / "out"


def run(directory: Path) -> Path:
    return Path(current(str(directory)).root)


def rewrite(directory: Path, table: str, change: Callable[[Any], Any]) -> None:
    """Change a table's first file, whose name stays."""
    path = sorted((run(directory) / table).glob("*.parquet"))[0]
    pq.write_table(change(pq.ParquetFile(path).read()), path)


def say(directory: Path, **changes: Any) -> None:
    """Change the summary."""
    path = run(directory) / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def wider(rows: Any) -> Any:
    return rows.set_column(0, rows.schema.names[0], pa.array([1.5] * len(rows)))


def nulls(rows: Any) -> Any:
    place = rows.schema.names.index("sent")
    return rows.set_column(place, rows.schema.field(place), pa.array([1, None], pa.int64()))


def less(rows: Any) -> Any:
    return rows.drop_columns(["sent_bytes"])


def damage(directory: Path, table: str, left: int | None) -> None:
    """Cut a table's file, or spoil its values and leave what says where they are."""
    path = sorted((run(directory) / table).glob("*.parquet"))[0]
    data = path.read_bytes()
    if left is None:
        whole = pq.read_metadata(path).row_group(0)
        names = [whole.column(at).path_in_schema for at in range(whole.num_columns)]
        chunk = whole.column(names.index("records"))
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        data = data[:start] + b"\xff" * chunk.total_compressed_size + data[start + chunk.total_compressed_size :]
    path.write_bytes(data if left is None else data[:left])


def unsaid(directory: Path, name: str) -> None:
    """Take something out of the summary."""
    path = run(directory) / "summary.json"
    said = json.loads(path.read_text())
    del said[name]
    path.write_text(json.dumps(said))


def without_an_hour(directory: Path) -> None:
    path = run(directory) / "hours.json"
    manifest = json.loads(path.read_text())
    manifest["hours"].pop("2026-01-05T11")
    path.write_text(json.dumps(manifest))


def know(directory: Path, *hours: str) -> None:
    path = run(directory) / "hours.json"
    manifest = json.loads(path.read_text())
    manifest["hours"] |= {hour: {"files": {}} for hour in hours}
    path.write_text(json.dumps(manifest))


def faults(found: Generation, limits: Limits, now: datetime) -> dict[str, tuple[str, ...]]:
    """What is wrong, by check."""
    return {one.name: one.faults for one in checks(found, limits, now) if one.faults}


def test_results_are_well_for_some_time(made: Path) -> None:
    """An hour after the last minute, and not two and a half after it; then by the option."""
    found, last = current(str(made)), datetime(2026, 1, 5, 12, tzinfo=UTC)
    assert faults(found, Limits(), last + timedelta(hours=1)) == {}
    late = {"freshness": ("the newest record is 2.5 hours old, more than 2",)}
    assert faults(found, Limits(), last + timedelta(hours=2.5)) == late
    assert faults(found, Limits(max_age_h=3), last + timedelta(hours=2.5)) == {}


def test_a_record_from_the_future_makes_no_results_fresh(made: Path) -> None:
    """A router whose clock was wrong once would hide for as long that nothing comes any more."""
    found, last = current(str(made)), datetime(2026, 1, 5, 12, tzinfo=UTC)
    assert faults(found, Limits(), last - timedelta(hours=2)) == {}
    said = "the newest record is 2.5 hours in the future: the clock of a router, or this one, is wrong"
    assert faults(found, Limits(), last - timedelta(hours=2.5)) == {"freshness": (said,)}


def test_hours_outside_of_the_results_are_not_silent(made: Path) -> None:
    """The manifest has all hours of the log, and a run with --since some of them; any number of hours may be silent."""
    now, last = (datetime(*day, tzinfo=UTC) for day in ((2026, 1, 5, 12), (9970, 1, 1, 0)))
    know(made, "2026-01-04T00", "2026-01-05T14")
    assert faults(current(str(made)), Limits(), now) == {}
    know(made, f"{last:%FT%H}")
    say(made, last_minute=f"{last:%F %T}")
    silent = (last - now) // timedelta(hours=1) - 2
    said = f"{silent:,} hours without a record: 2026-01-05T13, 2026-01-05T15, 2026-01-05T16, …"
    tracemalloc.start()
    assert faults(current(str(made)), Limits(max_age_h=1e9), now) == {"gaps": (said,)}
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("spoil", "status", "said"),
    [
        (lambda out: rewrite(out, "ways", wider), 10, "schema: failed: the table ways is not as routerd writes it"),
        (lambda out: rewrite(out, "traffic", lambda rows: rows[1:]), 11, "totals: failed: the table traffic has "),
        (lambda out: say(out, lost=3), 12, "gaps: failed: 3 records missing between others, by their numbers"),
        (lambda out: say(out, dropped=3), 12, "gaps: failed: the routers had no room for 3 records"),
        (lambda out: say(out, skipped=["a: left out"]), 12, "gaps: failed: 1 file left out: a: left out"),
        (without_an_hour, 12, "gaps: failed: 1 hour without a record: 2026-01-05T11"),
        (lambda out: damage(out, "ways", 4), 10, "schema: failed: the table ways is not as routerd writes it: "),
        (lambda out: damage(out, "traffic", 4), 10, "totals: failed: the table traffic does not add up: "),
        (lambda out: damage(out, "traffic", None), 11, ".parquet cannot be read: "),
        (lambda out: rewrite(out, "flows", nulls), 11, ".parquet has no value of sent in 1 row"),
        (lambda out: rewrite(out, "flows", less), 10, ".parquet has no column sent_bytes"),
        (lambda out: say(out, records=None), 1, "summary.json says null as `records`, which must be a number: "),
        (lambda out: say(out, hops="2"), 1, 'summary.json says "2" as `hops`, which must be a number: '),
        (lambda out: say(out, skipped=None), 1, "summary.json says null as `skipped`, which must be a list of texts"),
        (lambda out: say(out, last_minute="soon"), 1, 'says "soon" as `last_minute`, which must be a time, or null'),
        (lambda out: unsaid(out, "lost"), 1, "summary.json says nothing as `lost`, which must be a number"),
        (lambda out: None, 13, "freshness: failed: the newest record is "),
        (lambda out: shutil.rmtree(run(out) / "ways"), 1, "the table ways is not there"),
    ],
)
def test_each_fault_has_its_status(made: Path, spoil: Callable[[Path], None], status: int, said: str) -> None:
    """The log is of years ago, so it is late in any case; the worst fault decides."""
    spoil(made)
    done = CliRunner().invoke(pipeline, ["check", "--results", str(made)])
    assert (done.exit_code, said in done.output) == (status, True), done.output


def test_what_is_usual_is_no_fault(made: Path) -> None:
    """By the options: some lost records, hours without any, an old log."""
    say(made, lost=3)
    without_an_hour(made)
    words = ["check", "--results", str(made), "--lost", "0.6", "--idle", "--max-age", "1e9"]
    done = CliRunner().invoke(pipeline, words)
    assert done.exit_code == 0, done.output
    assert [line.partition(" (")[0] for line in done.output.splitlines()] == [
        "schema: well", "totals: well", "gaps: well", "freshness: well",
    ]  # fmt: skip

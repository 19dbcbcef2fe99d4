"""The stream on Spark: days are as runs over them, whatever came when, and files are read once; how it is stopped."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pipeline import batch, quality
from pipeline.batch import chosen, recipes_of
from pipeline.flow_log.records import read_log
from pipeline.flow_log.survey import survey
from pipeline.hourly import ROLLUPS, Rollup, without
from pipeline.output import days
from pipeline.output.directory import STREAM, claimed
from pipeline.output.generations import current, read
from pipeline.output.results import Results
from pipeline.stopping import until_stopped
from pipeline.stream import Pace, Stream
from pipeline.tables import capacity
from pipeline.tables.adding import ADDED
from pipeline.tables.anomalies import Limits, latency_shifts
from pipeline.tables.capacity import Costs
from tests.support.pipeline.logs import Written, cut, file
from tests.support.pipeline.small_spark import PLAIN
from tests.support.pipeline.tables import SUMMED, rows

DAY = "2026-01-05"
YEAR_NS = 365 * 86400 * 10**9


def follow(spark: SparkSession, log: Path, out: Path, tables: tuple[str, ...]) -> list[str]:
    """One batch of a stream that starts anew."""
    told: list[str] = []
    with claimed(str(out), STREAM, str(log)) as output:
        Stream(spark, str(log), output, chosen(recipes_of(Costs()), tables), Pace(), told.append).batch()
    return told


@settings(
    max_examples=1,  # it takes most of a minute; what hours hold has tests with many examples, without Spark
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.integers(0, 5000), min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_any_split_of_a_log_into_batches_gives_the_tables_of_runs(
    spark: SparkSession,
    whole: Results,
    writers: list[Written],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    places: list[int],
    random: Any,
) -> None:
    """Files cut anywhere, which come in any order, the late ones a year older than others, and are read once.

    What is added to rollups of the other tables has test_rollups_add_up.
    """
    log, out = tmp_path / "log", tmp_path / "out"
    (log / "raw").mkdir(parents=True)
    files = [(one, records) for one in writers for records in cut(one, places)]
    random.shuffle(files)
    make = batch.make

    def once(hours: Any, recipes: Any, tell: Callable[[str], None], *more: Any) -> Results:
        """Files lose their content when the first rollup is made, and have it again for the next day."""
        saved = {path: (path.read_bytes(), path.stat()) for path in log.rglob("*.parquet")}
        made = make(hours, recipes, lambda _: [path.write_bytes(b"") for path in saved] and None, *more)
        for path, (content, status) in saved.items():
            path.write_bytes(content)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return made

    monkeypatch.setattr("pipeline.stream.batch.make", once)
    late = files[: 1 + len(files) // 4]
    for part in (files[len(late) :], late):
        for one, records in part:
            path = log / "raw" / f"{one.router}-all-{one.boot}-{records['seq'][0].as_py():06d}.parquet"
            file(one, records, path)
            if part is late:
                os.utime(path, ns=(0, path.stat().st_mtime_ns - YEAR_NS))
        assert len(follow(spark, log, out, SUMMED)) == 1
    monkeypatch.setattr("pipeline.stream.batch.make", make)
    made = Results(spark, current(days.results_in(str(out))))
    for name in SUMMED:
        assert rows(made, name) == rows(whole, name), name
    same = ("records", "messages", "hops", "hop_bytes", "lost", "dropped", "first_minute", "last_minute", "hours")
    said = made.generation.summary()
    assert {name: said[name] for name in same} == {name: whole.generation.summary()[name] for name in same}
    assert said["records"] == sum(len(one.records) for one in writers)
    assert not follow(spark, log, out, SUMMED)
    with read(days.results_in(str(out))) as found:
        assert found.root.startswith(str(out / f"date={DAY}"))
        limits = quality.Limits(max_age_h=1)
        assert [one for one in quality.checks(found, limits, datetime(2026, 1, 5, 13, tzinfo=UTC)) if one.faults] == []


def test_an_hour_of_which_the_log_lost_files_keeps_them(
    spark: SparkSession, writers: list[Written], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late file is added to what is kept of it, without the records that were there before."""
    minutes: dict[str, Rollup] = {"minutes": ROLLUPS["minutes"]}
    monkeypatch.setattr("pipeline.hourly.ROLLUPS", minutes)
    log, out = tmp_path / "log", tmp_path / "out"
    one = writers[0]
    half = len(one.records) // 2
    file(one, one.records[:half], log / "raw" / "first.parquet")
    follow(spark, log, out, ("load",))
    (log / "raw" / "first.parquet").unlink()
    file(one, one.records[half - 3 :], log / "raw" / "second.parquet")
    follow(spark, log, out, ("load",))
    totals = [current(str(path)).summary() for path in out.glob("date=*")]
    assert sum(said["records"] for said in totals) == len(one.records)
    assert sum(said["hop_bytes"] for said in totals) == sum(
        size * weight for size, weight in zip(*(one.records[name].to_pylist() for name in SIZES), strict=True)
    )


def test_records_that_were_there_may_have_any_number_of_gaps(spark: SparkSession) -> None:
    """An hour in which every other record was lost; the others come late, and those of other writers."""
    log = spark.range(6000).selectExpr(
        "if(id < 3, 'R2', 'R1') router_id", "'b' boot_id", "cast(0 as smallint) worker_id", "id seq"
    )
    left = without(log, [("R1", "b", 0, 2 * at, 2 * at, 1) for at in range(3000)]).collect()
    assert sorted(row["seq"] for row in left) == [0, 1, 2, *range(3, 6000, 2)]


SIZES = ("size_bytes", "sample_weight")


def test_rollups_add_up(spark: SparkSession, whole_log: Path) -> None:
    """Those of some routers and of the others are those of all, but for messages that went from one to another."""
    log = read_log(spark, survey(str(whole_log))).cache()
    some = log.router_id == "R1"
    assert ADDED.keys() == ROLLUPS.keys()
    for name in ("minutes", "flows", "traffic", "latencies", "quarters"):
        make = ROLLUPS[name].make
        added = ADDED[name](make(log.where(some)).unionByName(make(log.where(~some))))
        assert sorted(map(repr, added.collect())) == sorted(map(repr, make(log).collect())), name
    for name in ("passages", "trips", "endpoints"):
        rollup = ROLLUPS[name].make(log).cache()
        twice = ADDED[name](rollup.unionByName(rollup))
        assert twice.schema == rollup.schema
        given, found = (rows.toArrow().to_pylist() for rows in (rollup, twice))
        rollup.unpersist()
        assert (len(found), summed(found)) == (len(summed(given)), summed(given + given)), name
    log.unpersist()


def summed(rows: list[dict[str, Any]]) -> dict[str, Counter[str]]:
    """Messages, weights and bytes of rows that are equal but for these, added up."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        sums = {name: row[name] or 0 for name in ("messages", "weight", "bytes") if name in row}
        found[repr([row[name] for name in row if name not in sums])].update(sums)
    return found


def test_a_day_is_compared_with_the_days_before(spark: SparkSession) -> None:
    """Latency that is longer than on earlier days, and a peak that grows: as if all days were in one run."""
    columns = "quarter timestamp, router_id string, address string, mtype int, container string"
    places = [(datetime(2026, 1, day, hour), "R1", "a", -1, "x") for day in (3, 4, 5) for hour in (1, 2)]
    quarters = spark.createDataFrame(
        [(*place, 9_000_000 if place[0] == datetime(2026, 1, 5, 2) else 1_000_000, 50, 50) for place in places],
        f"{columns}, own_p50 long, own_n long, n long",
    )
    day, before = quarters.where("quarter >= '2026-01-05'"), quarters.where("quarter < '2026-01-05'")
    [found] = latency_shifts(day, Limits(), before).collect()
    assert [found] == latency_shifts(quarters, Limits()).collect()
    assert latency_shifts(day, Limits()).collect() == []
    schema = "minute timestamp, router_id string, worker_id smallint, messages long, bytes long, load double"
    load = spark.createDataFrame([(datetime(2026, 1, day), "R1", 0, 1, 1, day / 10) for day in (3, 4)], schema)
    day, before = load.where("minute >= '2026-01-04'"), load.where("minute < '2026-01-04'")
    [shares] = capacity.processes(day, before, costs=Costs()).collect()
    assert (shares["growth_per_day"], shares["messages"]) == (pytest.approx(0.1), 1)


LOOKING_BACK = ("processes",)  # on former days, as no table of a run does


def start(log: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pipeline", "stream", "--input", str(log), "--output", str(out)]
    command += ["--master", "local[2]", "--memory", "600m", "--tables", ",".join(LOOKING_BACK)]
    for name, value in PLAIN.items():
        command += ["--conf", f"{name}={value}"]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def test_a_signal_ends_it_well(whole_log: Path, tmp_path: Path) -> None:
    """Its tables are there; SIGTERM to all of its processes, as systemd sends it, is status 0, and nothing is left."""
    running = start(whole_log, tmp_path / "out")
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert re.match(r"batch 1: [\d,]+ records, 0 late; 2026-01-05 \(3 of 3 hours\); ", line), line
        second = start(whole_log, tmp_path / "out")
        _, said = second.communicate(timeout=120)
        assert second.returncode == 1
        assert "another `routerd pipeline stream` is writing to" in said
        os.killpg(running.pid, signal.SIGTERM)
        out, said = running.communicate(timeout=120)
    finally:
        running.kill()
    assert (running.returncode, out) == (0, f"{tmp_path / 'out'}: stopped; the next start continues here\n"), said
    found = current(str(tmp_path / "out" / f"date={DAY}"))
    assert found.summary()["tables"].keys() == set(chosen(recipes_of(Costs()), LOOKING_BACK))
    assert len(list(Path(found.root).parent.iterdir())) == 4


def test_a_signal_that_stops_it_is_no_error_and_others_are() -> None:
    """Whatever comes of it; the second one does nothing; handlers are then as before."""
    before = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)]
    for one in (signal.SIGTERM, signal.SIGINT):
        with until_stopped() as stop:
            stop.listen()
            try:
                os.kill(os.getpid(), one)
            finally:
                os.kill(os.getpid(), one)
                fail("Java died, because it got the signal, too")
        assert stop.told
    with pytest.raises(ValueError, match="not stopped"), until_stopped():
        fail("not stopped")
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)] == before


def fail(why: str) -> None:
    raise ValueError(why)

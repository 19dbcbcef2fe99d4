"""Sums of days: hours added one after the other, in any order, are as all hours at once."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline import batch, daily
from pipeline.batch import Choice
from pipeline.daily import SUMS, summed
from pipeline.flow_log.hours import HOUR_US, Period
from pipeline.flow_log.records import FLOW
from pipeline.flow_log.survey import survey
from pipeline.hourly import ROLLUPS
from pipeline.output.directory import RESULTS, claimed
from pipeline.output.results import Results
from pipeline.tables import endpoints, paths, ranges
from pipeline.tables.capacity import Costs
from pipeline.tables.ranges import condensed, ranks
from tests.support.pipeline.logs import Written, file
from tests.support.pipeline.tables import SUMMED, rows
from tests.support.pipeline.trips import arrived, copy, record

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
EXACT = ("least", "transit_n", "transit_p50", "transit_p99", "many")


def values(spark: SparkSession, given: Iterable[tuple[str, int, int]]) -> DataFrame:
    """Times of pairs with their weights, of one hour."""
    columns = "began timestamp, pair string, transit long, weight long, many boolean"
    return spark.createDataFrame([(NOON, *one, False) for one in given], columns)


def ranked(found: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in ("pair", *EXACT)) for row in found.collect())


def test_percentiles_of_condensed_values_are_exact(spark: SparkSession) -> None:
    """Also of those condensed again with new ones, and of a pair that is new; few values are left."""
    random = np.random.default_rng(1)
    first = [
        (pair, round(random.lognormal(8, 1)) + skew, int(random.choice((1, 1, 1, 16))))
        for pair, skew in (("a>b", 10**9), ("b>a", -(10**9)))
        for _ in range(1000)
    ] + [("c>d", 7, 2)]
    more = [("a>b", round(random.lognormal(8.1, 1)) + 10**9, 1) for _ in range(60)]
    more += [("d>c", value, 3) for value in range(100)]
    ends = ranks(values(spark, first), paths.TRANSITS).cache()
    few = condensed(values(spark, first), ends, paths.TRANSITS)
    assert ranked(ranks(few, paths.TRANSITS)) == ranked(ends)
    assert few.count() < len(first) / 8
    again = condensed(few.unionByName(values(spark, more)), ends, paths.TRANSITS)
    wanted = ranked(ranks(values(spark, first + more), paths.TRANSITS))
    assert len(wanted) == 4
    assert not any(many for *_, many in wanted)
    assert ranked(ranks(again, paths.TRANSITS)) == wanted
    assert again.count() < len(first) / 8 + len(more)


def test_a_percentile_that_has_left_its_range_says_so(spark: SparkSession) -> None:
    """After an hour that was slower than all others; another pair's percentiles are as they were."""
    first = [(pair, value, 1) for pair in ("a>b", "b>a") for value in range(1000)]
    ends = ranks(values(spark, first), paths.TRANSITS)
    slow = values(spark, [("a>b", value, 1) for value in range(5000, 5200)])
    found = ranks(condensed(values(spark, first).unionByName(slow), ends, paths.TRANSITS), paths.TRANSITS)
    assert {row["pair"]: row["many"] for row in found.collect()} == {"a>b": True, "b>a": False}


def table(name: str, of: DataFrame) -> list[Any]:
    """What comes of a rollup or a sum, in an order of its own."""
    made: Callable[[DataFrame], DataFrame] = {
        "transits": lambda rows: paths.transits(rows).drop("began"),
        "times": lambda rows: paths.whole_trips(rows).select("path", "took", "weight"),
        "followed": lambda rows: paths.whole_trips(rows).groupBy("path", "receiver").agg({"weight": "sum"}),
        "endpoints": endpoints.endpoints,
    }[name]
    return sorted(made(of).collect(), key=repr)


@pytest.mark.parametrize("name", ["transits", "times", "followed", "endpoints"])
def test_what_passes_the_end_of_an_hour_is_in_a_sum_once_both_are(spark: SparkSession, name: str) -> None:
    """Within a day, over midnight, and where the second hour comes first."""
    of = SUMS[name]
    message = iter(range(1, 100))
    records = []
    midnight = NOON + timedelta(hours=12)
    within = midnight - timedelta(hours=1)
    for end in (within, midnight):
        for sent, came in ((-0.2, 0.1), (0.2, -0.1), (-0.3, -0.1), (-0.2, 700), (-2000, -1999)):
            number = next(message)
            before, after = (end + timedelta(seconds=one) for one in (sent, came))
            records += [record(number, before, "R1", "R1", "R2"), record(number, after, "R2", "R1>R2", None)]
            records += [copy(before, "R1", "a:1", number, number), copy(before, "R1", "R2", number, number)]
            records += [arrived(after, number, "b:1")]
    log = spark.createDataFrame(records, FLOW).coalesce(1)  # without shuffles: one task is quicker
    hours = {row[0].replace(tzinfo=UTC) for row in log.selectExpr("date_trunc('hour', ts)").distinct().collect()}
    last = timedelta(hours=1, microseconds=-1)
    rollups = {one: ROLLUPS[of.rollup].make(log.where(log.ts.between(one, one + last))).cache() for one in hours}
    whole = reduce(DataFrame.unionByName, rollups.values())
    wanted = table(name, whole)
    assert wanted
    for order in (sorted(hours), sorted(hours, reverse=True)):
        sums: dict[Any, tuple[list[datetime], DataFrame]] = {}
        for hour in order:
            there, had = sums.get(hour.date(), ([], None))
            there = [*there, hour]
            given = rollups[hour] if had is None else rollups[hour].unionByName(had, allowMissingColumns=True)
            ends = [round(one.timestamp()) * 10**6 for one in there if one - timedelta(hours=1) in there]
            assert all(end % HOUR_US == 0 for end in ends)
            sums[hour.date()] = there, summed(given.coalesce(1), of, ends).coalesce(1).localCheckpoint()
        rest = reduce(DataFrame.unionByName, (one for _, one in sums.values()))
        assert table(name, rest) == wanted
        waiting = rest.where("edge is not null").select("edge").collect()
        assert within.replace(tzinfo=None) not in {row["edge"] for row in waiting}


@pytest.mark.parametrize(("least", "tables"), [(ranges.LEAST, (*SUMMED, "traffic")), (0, ("links", "journeys"))])
def test_new_hours_are_added_to_what_days_add_up_to(
    spark: SparkSession, whole: Results, writers: list[Written], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    least: int, tables: tuple[str, ...],
) -> None:  # fmt: skip
    """The tables are those of one run. Files of hours that are in a sum are not read again, unless ranges were left.

    They are at once if also groups of a few values have them, and are narrow.
    """
    monkeypatch.setattr(daily, "ENOUGH", 0)
    monkeypatch.setattr(ranges, "LEAST", least)
    if not least:
        monkeypatch.setattr(ranges, "REACH", dict.fromkeys(ranges.REACH, 0))
    log, out = tmp_path / "log", tmp_path / "out"
    for one in writers:
        file(one, one.records, log / "raw" / f"{one.router}.parquet")

    def run(until: str | None) -> tuple[Results, dict[str, Any]]:
        choice = Choice(Period.of(None, until), tables)
        with claimed(str(out), RESULTS, str(log)) as place:
            made = batch.run(spark, survey(str(log)), place, Costs(), lambda _: None, None, choice)
        return made, json.loads(Path(made.generation.root, "hours.json").read_text())["sums"]

    _, before = run("2026-01-05T12")
    made, after = run(None)
    assert (
        before.keys()
        == after.keys()
        == {one for name in tables for one in batch.recipes_of(Costs())[name].sums} | {"flows"}
    )
    for name in after:
        [then], [now] = before[name]["days"].values(), after[name]["days"].values()
        assert then["hours"].items() < now["hours"].items()
        assert then["files"] != now["files"]
        assert (after[name]["ranges"] == before[name]["ranges"]) == (least > 0 or SUMS[name].values is None)
    for name in tables:
        assert rows(made, name) == rows(whole, name), name
    if not least:
        return
    traffic = {path.stat().st_ino for path in Path(made.generation.root, "traffic").iterdir()}
    assert traffic == {path.stat().st_ino for path in out.glob("rollup-*/traffic/*/*/*.parquet")}
    for path in out.glob("rollup-*/passages/*/hour=1[01]/*.parquet"):
        path.write_bytes(b"")  # not read again
    again, last = run(None)
    assert last["transits"] == after["transits"]
    assert rows(again, "links") == rows(whole, "links")

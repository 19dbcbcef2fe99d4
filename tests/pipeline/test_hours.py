"""Runs that compute only what is new: the same tables as one run over everything, whatever came when."""

import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from pipeline import batch
from pipeline.batch import Choice
from pipeline.errors import PipelineError
from pipeline.flow_log.hours import Period
from pipeline.flow_log.records import FLOW
from pipeline.flow_log.survey import survey
from pipeline.hourly import Hourly
from pipeline.output.directory import RESULTS, claimed
from pipeline.output.generations import begin
from pipeline.output.results import Results
from pipeline.tables import endpoints, paths
from pipeline.tables.capacity import Costs
from tests.support.pipeline.logs import Written, cut, file
from tests.support.pipeline.streams import put as put_records
from tests.support.pipeline.tables import ALONE, MERGED, rows
from tests.support.pipeline.trips import arrived, copy, record

Run = Callable[..., tuple[Results, list[str]]]


@pytest.fixture
def run(spark: SparkSession) -> Run:
    """Makes a run over a log into an output, and says what it told, with neither numbers of steps nor of rows."""

    def made(log: Path, output: Path, choice: Choice | None = None) -> tuple[Results, list[str]]:
        said: list[str] = []
        with claimed(str(output), RESULTS, str(log)) as place:
            results = batch.run(spark, survey(str(log)), place, Costs(), said.append, None, choice)
        steps = [re.fullmatch(r"(\d+) of (\d+): ([^,]+)(?:, [\d,]+ rows)?", one) for one in said]
        assert [one and (int(one[1]), int(one[2])) for one in steps] == [(n + 1, len(said)) for n in range(len(said))]
        return results, [one[3] for one in steps if one]

    return made


def put(files: list[tuple[Written, Any]], log: Path) -> None:
    """Write files as a recorder does."""
    for one, records in files:
        first = records["seq"][0].as_py()
        file(one, records, log / "raw" / f"{one.router}-all-{one.boot}-{first:06d}.parquet")


@settings(
    max_examples=1,  # it takes most of a minute; what hours hold has a test with many examples, without Spark
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.integers(0, 5000), min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_any_split_of_a_log_into_runs_gives_the_tables_of_one(
    run: Run, whole: Results, writers: list[Written], tmp_path: Path, places: list[int], random: Any
) -> None:
    """Files cut anywhere, which come in any order, before any of two runs; the last one computes no other hours.

    The other tables are made of runs of some hours in the next test, and in test_daily.py.
    """
    shutil.rmtree(tmp_path / "log", ignore_errors=True)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    (tmp_path / "log").mkdir()
    files = [(one, records) for one in writers for records in cut(one, places)]
    random.shuffle(files)
    late = files[: 1 + len(files) // 4]
    put(files[len(late) :], tmp_path / "log")
    run(tmp_path / "log", tmp_path / "out", Choice(tables=ALONE))
    put(late, tmp_path / "log")
    made, _ = run(tmp_path / "log", tmp_path / "out", Choice(tables=ALONE))
    hours = {time.hour for _, records in late for time in records["ts"].to_pylist()}
    assert made.generation.summary()["computed"] == len(hours)
    for name in ALONE:
        assert rows(made, name) == rows(whole, name), name


def test_what_is_known_is_not_computed_again(run: Run, whole: Results, writers: list[Written], tmp_path: Path) -> None:
    """By tables and periods: each run computes what it needs and none had; rollups that are gone are made again."""
    log, out = tmp_path / "log", tmp_path / "out"
    for one in writers:
        file(one, one.records, log / "raw" / f"{one.router}.parquet")
    made, said = run(log, out, Choice(Period.of("2026-01-05T10", "2026-01-05T12"), ("hops",)))
    assert said == [
        "minutes of 2 hours", "flows of 2 hours", "flows", "passages of 2 hours", "links", "hops",
    ]  # fmt: skip
    assert made.read("flows").agg({"last": "max"}).collect()[0][0] < datetime(2026, 1, 5, 12)
    with pytest.raises(PipelineError, match="no table ways: `routerd pipeline run` without `--tables` makes it"):
        made.read("ways")
    _, said = run(log, out, Choice(tables=("load",)))
    assert said == ["minutes of 1 hour", "load"]
    made, said = run(log, out, Choice(tables=MERGED))
    assert not [one for one in said if one.startswith("minutes of")]
    for name in MERGED:
        assert rows(made, name) == rows(whole, name), name
    hour = next(out.glob("rollup-*/traffic/date=2026-01-05/hour=11"))
    shutil.rmtree(hour)
    made, said = run(log, out, Choice(tables=("traffic",)))
    assert said == ["traffic of 1 hour", "traffic"]
    assert rows(made, "traffic") == rows(whole, "traffic")
    with pytest.raises(PipelineError, match=r"no record is in these hours: the log has hours from 2026-01-05T"):
        run(log, out, Choice(Period.of("2027-01-01", None)))
    with pytest.raises(PipelineError, match="there is no table waves; the tables are load, flows, traffic"):
        run(log, out, Choice(tables=("waves",)))


def test_a_message_over_the_end_of_a_period_is_not_lost(tmp_path: Path) -> None:
    """Its number is among those of the next hour; what is missing is, also right before the period."""
    noon, second = datetime(2026, 1, 5, 12, tzinfo=UTC), timedelta(seconds=1)
    put_records(tmp_path / "log", "R1", 1, [noon + at * second for at in (-2, 1, -1, 2)])
    put_records(tmp_path / "log", "R1", 7, [noon + timedelta(hours=1)])
    none: Any = None
    with claimed(str(tmp_path / "out"), RESULTS, str(tmp_path / "log")) as output:
        made = begin(output)
        lost = {
            period: Hourly.of_log(none, survey(str(tmp_path / "log")), made, {}, Period.of(*period)).lost()
            for period in ((None, None), (None, HOUR), (HOUR, NEXT), (NEXT, None))
        }
    assert lost == {(None, None): 2, (None, HOUR): 0, (HOUR, NEXT): 0, (NEXT, None): 2}


def test_records_without_room_are_of_their_hours(tmp_path: Path) -> None:
    """Each file says how many there were since its core's start, and a run with --since only what was after it."""
    noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
    for hour, number in enumerate((5, 5, 8)):
        put_records(tmp_path / "log", "R1", 1 + hour, [noon + timedelta(hours=hour)], dropped=number)
    none: Any = None
    with claimed(str(tmp_path / "out"), RESULTS, str(tmp_path / "log")) as output:
        made, log = begin(output), survey(str(tmp_path / "log"))
        periods = ((None, None), (None, NEXT), (NEXT, "2026-01-05T14"), ("2026-01-05T14", None))
        found = [Hourly.of_log(none, log, made, {}, Period.of(*one)).dropped() for one in periods]
    assert found == [8, 5, 0, 3]


HOUR, NEXT = "2026-01-05T12", "2026-01-05T13"


def test_names_of_directories_are_no_patterns(run: Run, writers: list[Written], tmp_path: Path) -> None:
    """Nor of the log, where Spark reads files by their names."""
    place = tmp_path / "all [1]{x,y}*?\\=%20"
    file(writers[0], writers[0].records[:20], place / "log" / "raw" / "a.parquet")
    made, _ = run(place / "log", place / "out", Choice(tables=("taken",)))
    assert made.generation.summary()["records"] == 20


def hourly(log: DataFrame, make: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """What comes of hours that are computed each by itself."""
    hours = [row[0] for row in log.selectExpr("date_trunc('hour', ts)").distinct().collect()]
    made = [make(log.where(log.ts.between(hour, hour + timedelta(hours=1, microseconds=-1)))) for hour in hours]
    whole = made[0]
    for one in made[1:]:
        whole = whole.unionByName(one)
    return whole


def test_messages_that_pass_the_end_of_an_hour_are_followed(spark: SparkSession) -> None:
    """Up to ten minutes before and after it, also where a clock is behind; and an id of another hour is another one."""
    end = datetime(2026, 1, 5, 11, tzinfo=UTC)
    seconds = {
        1: (-0.2, 0.1),  # over the end
        2: (-599, 599),  # by ten minutes each
        3: (-601, 1),  # too long before it
        4: (-1, 601),  # and after it
        5: (0.2, -0.1),  # the other clock is behind
        6: (-1800, -1799),
        7: (-2, 1),
    }
    log = spark.createDataFrame(
        [
            one
            for message, (sent, came) in seconds.items()
            for one in (
                record(message, end + timedelta(seconds=sent), "R1", "R1", "R2"),
                record(message, end + timedelta(seconds=came), "R2", "R1>R2", None),
            )
        ]
        + [
            record(6, end + timedelta(seconds=60), "R1", "R1", "R2"),  # the sender counts anew
            record(6, end + timedelta(seconds=61), "R2", "R1>R2", None),
            record(7, end - timedelta(seconds=2.5), "R1", "R1", "R2") | {"message_number": 1},  # not one message
            record(7, end - timedelta(seconds=2), "R1", "R1", "R2") | {"message_number": 2},
        ],
        FLOW,
    )
    wanted = [-0.301, 0.299, 0.999, 0.999, 1197.999]
    for hours in (paths.passages(log), hourly(log, paths.passages)):
        times = paths.transits(hours).collect()
        assert sorted(row["transit"] / 1e9 for row in times) == wanted
    for hours in (paths.trips(log), hourly(log, paths.trips)):
        times = paths.whole_trips(hours).collect()
        assert sorted(row["took"] / 1e9 for row in times) == [round(one + 0.002, 3) for one in wanted]
    more = {"address_class": "mc", "message_number": 1}
    copies = spark.createDataFrame(
        [
            record(1, end + timedelta(seconds=sent), *of) | more
            for sent, *of in (
                (-0.2, "R1", "R1", "R2"), (-0.2, "R1", "R1", "R3"),
                (-0.1, "R2", "R1>R2", None), (0.1, "R3", "R1>R3", None),
            )
        ],
        FLOW,
    )  # fmt: skip
    times = paths.whole_trips(hourly(copies, paths.trips)).collect()
    assert sorted((row["path"], row["took"] / 1e9) for row in times) == [("R1>R2", 0.101), ("R1>R3", 0.301)]


def test_copies_at_several_routers_and_in_two_hours_are_of_one_message(spark: SparkSession) -> None:
    """Counts are scaled; where the log does not say who got a copy, the set says that it is not whole."""
    end = datetime(2026, 1, 5, 11, tzinfo=UTC)
    before, after, noon = end - timedelta(seconds=0.2), end + timedelta(seconds=0.1), end + timedelta(minutes=30)
    early = {"message_number": None, "address": None}  # a log without numbers has the key at each router
    log = spark.createDataFrame(
        [
            # over the end of an hour, and a third copy in the first hour
            copy(before, "R1", "a:1", 1, 1), copy(before, "R1", "R2", 1, 1), copy(before, "R1", "R2", 1, 1),
            arrived(before, 1, "b:1"), arrived(after, 1, "c:1", message_number=7),
            # the other clock is behind
            copy(after, "R1", "R2", 2, 2), arrived(before, 2, "d:1"),
            # of one router alone, sampled: it needs no id
            *(copy(noon, "R1", peer, 3, None, sample_weight=4) for peer in ("a:1", "b:1")),
            # sampled so that the second router has no record of it
            copy(noon, "R1", "a:1", 4, 4, sample_weight=4), copy(noon, "R1", "R2", 4, 4, sample_weight=4),
            # two messages with one id are two, and nobody knows of which the copy is
            copy(noon, "R1", "a:1", 5, 5), copy(noon, "R1", "c:1", 6, 5), copy(noon, "R1", "R2", 6, 5),
            arrived(noon, 5, "b:1"),
            # the same in two hours
            copy(before, "R1", "R2", 8, 8), copy(after, "R1", "R2", 9, 8), arrived(after, 8, "a:1"),
            # through an edge router
            copy(noon, "R1", "R2", 10, 10, egress_kind="edge"), arrived(noon, 10, "e:1", ingress_kind="edge"),
            # an earlier log, over the end of an hour
            copy(before, "R1", "a:1", None, 11, **early), copy(before, "R1", "R2", None, 11, **early),
            arrived(after, 11, "", mtype=3001, peer_container="f:1", **early),
            # ids of clients count from 1: a copy of another table's message, and of two messages of one table
            copy(noon, "R1", "a:1", 13, 13), copy(noon, "R1", "R2", 13, 13),
            arrived(noon, 13, "x:1", address="other/x:1"),
            copy(noon, "R1", "a:1", 14, 14), copy(noon, "R1", "R2", 14, 14),
            arrived(noon, 14, "b:1"), arrived(noon, 14, "x:1"),
            # the same over the end of an hour
            copy(before, "R1", "a:1", 15, 15), copy(before, "R1", "R2", 15, 15),
            arrived(after, 15, "b:1"), arrived(after, 15, "x:1"), arrived(after, 15, "y:1", address="other/y:1"),
            # none went on
            copy(noon, "R1", "a:1", 16, 16), arrived(noon, 16, "x:1"),
            # keys of earlier logs belong together
            copy(noon, "R1", "a:1", None, 17, mtype=1, sub_id=9, **early),
            copy(noon, "R1", "b:1", None, 17, mtype=2, sub_id=8, **early),
            # no copy by a route table
            arrived(noon, 12, "x:1"),
        ],
        FLOW,
    )  # fmt: skip
    wanted = [
        ([], False, 1), (["a:1"], False, 7), (["a:1"], True, 3), (["a:1", "b:1"], True, 4),
        (["a:1", "b:1", "c:1"], True, 1), (["a:1", "f:1"], True, 1), (["c:1"], False, 1), (["d:1"], True, 1),
        (["e:1"], True, 1),
    ]  # fmt: skip
    wanted = [(3001, -1, *one) for one in wanted] + [(1, 9, ["a:1"], True, 1), (2, 8, ["b:1"], True, 1)]
    for hours in (endpoints.endpoint_sets(log), hourly(log, endpoints.endpoint_sets)):
        rows = endpoints.endpoints(hours).collect()
        assert sorted(map(tuple, rows)) == sorted(wanted)

"""Results of the batch jobs against what the generator knows; `test_sql.py` compares each row with another engine."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pipeline import batch, quality
from pipeline.daily import SUMS, summed
from pipeline.errors import PipelineError
from pipeline.flow_log.survey import survey
from pipeline.generate.scenario import FAULTS
from pipeline.hourly import ROLLUPS, VERSION
from pipeline.output import generations
from pipeline.output.catalogue import check, register
from pipeline.output.columns import SPARK, TABLES
from pipeline.output.directory import RESULTS, claimed
from pipeline.output.generations import current
from pipeline.output.results import Results
from pipeline.output.rollups import Rollups
from pipeline.plan import Wishes
from pipeline.tables import capacity
from pipeline.tables.anomalies import Limits, anomalies, latency_shifts
from pipeline.tables.capacity import Costs
from pipeline.tables.measures import PERCENTILES, placed, ranked
from pipeline.tables.ranges import ranks
from tests.model import plainly

SKEW = timedelta(minutes=16)  # a quarter of an hour, and how wrong clocks are

pytestmark = pytest.mark.timeout(900)  # the first test waits for all tables: minutes, where others use the CPUs


def test_all_tables_of_a_run_are_known() -> None:
    """A run leaves no table behind that nothing removes."""
    recipes = batch.recipes_of(Costs())
    assert sorted(generations.TABLES) == sorted(recipes)
    made: set[str] = set()
    for name, recipe in recipes.items():
        assert made.issuperset(recipe.tables)  # they come first
        made.add(name)


def test_totals_are_those_of_the_log(results: Results, truth: dict[str, Any]) -> None:
    """The summary says how many records, messages and bytes, scaled by the sampling."""
    said = results.generation.summary()
    assert (said["records"], said["files"]) == (truth["records"], truth["files"])
    assert (said["messages"], said["hops"], said["hop_bytes"]) == (
        truth["sent"], truth["messages"], truth["size_bytes"],
    )  # fmt: skip
    assert 0 < said["bytes"] < said["hop_bytes"]
    assert (said["lost"], said["dropped"], said["copies"], said["skipped"]) == (0, 0, 0, [])
    late = [one.name for one in quality.checks(results.generation, quality.Limits(), datetime.now(UTC)) if one.faults]
    assert late == ["freshness"]


@pytest.mark.parametrize("kind", FAULTS)
def test_exactly_the_injected_faults_are_found(results: Results, truth: dict[str, Any], kind: str) -> None:
    """One finding of each kind, at the right place and time, and no other."""
    [fault] = [one for one in truth["faults"] if one["kind"] == kind]
    given = results.read("findings").where(f.col("kind") == kind).toArrow().to_pylist()
    assert len(given) == 1, given
    [found] = given
    if kind != "asymmetric pair":
        assert found["address"] == fault["address"]
    if kind in ("slow consumer", "credit starvation"):
        assert (found["router_id"], found["container"]) == (fault["router"], fault["container"])
    if kind == "credit starvation":
        assert found["value"] <= found["usual"]  # of the time in the router: of the same quarter of an hour
    if kind in ("loop", "detour"):
        assert found["container"] == fault["path"]
    if kind == "asymmetric pair":
        there, back = fault["path"].split()
        assert found["container"] == there
        assert back in found["evidence"]
    if "start" in fault:
        start, end = (datetime.fromisoformat(fault[name]) for name in ("start", "end"))
        assert start - SKEW < found["first"] < start + SKEW
        assert end - SKEW < found["last"] < end + SKEW


def test_an_empty_log_gives_empty_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Also where the command did not refuse it; a plan has nothing to go by, and says so."""
    (tmp_path / "log").mkdir()
    source = str(tmp_path / "log")
    with claimed(str(tmp_path / "results"), RESULTS, source) as output:
        choice = batch.Choice(tables=("findings", "advice", "entities", "endpoints"))
        made = batch.run(spark, survey(source), output, Costs(), lambda _: None, None, choice)
    said = current(str(tmp_path / "results")).summary()
    assert (said["records"], said["messages"], said["files"]) == (0, 0, 0)
    assert made.read("findings").count() == made.read("advice").count() == 0
    with pytest.raises(PipelineError, match="nothing to plan: no message of a route table in the log went"):
        batch.plan(made.generation, Wishes())


def test_tables_with_other_columns_are_neither_written_nor_read(spark: SparkSession, tmp_path: Path) -> None:
    """The columns are a promise: who reads a table is told which one is not kept."""
    with claimed(str(tmp_path / "results"), RESULTS, str(tmp_path / "log")) as output:
        made = Results(spark, generations.begin(output))
        table = spark.range(1).withColumnRenamed("id", "mtype")
        with pytest.raises(ValueError, match="endpoints is not as declared: mtype is bigint instead of int"):
            made.write("endpoints", table)
        table.write.parquet(made.generation.table("endpoints"))
        with pytest.raises(
            PipelineError, match=r"the table endpoints is not as routerd writes it \(mtype is bigint ins"
        ):
            made.read("endpoints")


def test_tables_have_names_in_the_catalogue(spark: SparkSession, results: Results) -> None:
    """With their columns and comments; an entry of somebody else stays, and to drop ours loses no file."""
    made, database = results.generation, "routerd_names"
    for _ in range(2):
        register(spark, made, ["traffic", "endpoints"], database)
    assert {row["tableName"] for row in spark.sql(f"SHOW TABLES IN {database}").collect()} == {"traffic", "endpoints"}
    said = spark.sql(f"SELECT sum(messages) FROM {database}.traffic").collect()[0][0]  # noqa: S608  our own name
    assert said == made.summary()["hops"]
    columns = spark.sql(f"DESCRIBE {database}.endpoints").collect()
    assert ("endpoints", "array<string>", "the endpoints, in order") in [tuple(row) for row in columns]
    spark.sql(f"CREATE TABLE {database}.hops (a INT) USING parquet")
    with pytest.raises(PipelineError, match=r"routerd_names\.hops is there already, and routerd did not register it"):
        register(spark, made, ["traffic", "hops"], database)
    spark.sql(f"DROP DATABASE {database} CASCADE")
    made.check()
    for wrong in ("", "a b", "a.b", "1", "a`"):
        with pytest.raises(PipelineError, match="is no name of a database: give letters, digits and underscores"):
            check(wrong)


def test_clocks_are_seen_and_set_right(results: Results) -> None:
    """Links take between 0.1 and 0.5 ms, however wrong the clocks are: by more than a second."""
    hops = results.read("hops").toArrow().to_pylist()
    assert {(row["router_id"], row["onward"]) for row in hops} == {
        *((f"R{at}", f"R{at % 4 + 1}") for at in range(1, 5)), *((f"R{at % 4 + 1}", f"R{at}") for at in range(1, 5)),
        ("R2", "E1"), ("E1", "R2"),
    }  # fmt: skip
    assert any(abs(row["clock_ns"]) > 1_000_000_000 for row in hops)
    assert all(100_000 < row["transit_p50"] < 500_000 for row in hops)
    journeys = results.read("journeys").toArrow().to_pylist()
    assert all(100_000 < row["took_p50"] < 2_000_000 for row in journeys)
    ways = results.read("ways").toArrow().to_pylist()
    assert {row["path"] for row in journeys} == {row["path"] for row in ways if row["routers"] > 1 and not row["loop"]}
    assert {"R2>E1", "R1>R2>E1"} <= {row["path"] for row in journeys}


def test_senders_are_known_through_several_routers(results: Results, log: DataFrame) -> None:
    """No conversation lacks them, at whatever router the receiver is, but those of senders behind an edge router, and
    those over a link route."""
    unknown = log.where("(ingress_kind = 'edge' and path = router_id) or path is null")
    behind = {row["address"] for row in unknown.select("address").distinct().collect()}
    rows = results.read("conversations").toArrow().to_pylist()
    far = [row for row in rows if row["origin"] != row["router_id"] and row["address"] not in behind]
    assert {row["router_id"] for row in far} >= {"R1", "R2", "R3", "R4", "E1"}
    assert all(row["sender_container"] for row in far)
    here = {row["address"] for row in rows if row["origin"] == row["router_id"] and row["sender_container"] is None}
    assert here
    assert here <= behind
    linked = [row for row in rows if row["address"] == "linked/orders"]
    assert {((row["sender_container"] or "")[:3], row["receiver_container"]) for row in linked} == {
        (sender, f"broker-{router}") for router in ("R1", "R3") for sender in ("", f"{router}-")
    }


def test_source_routes_take_part_in_ways(results: Results) -> None:
    """With both routes and their state; they are no detours, and others are not compared with them."""
    rows = results.read("ways").toArrow().to_pylist()
    routed = [row for row in rows if row["onward_route"]]
    assert {row["route_state"] for row in routed} == {"complete", "partial"}
    assert all(row["return_route"] == f"F=>{row['onward_route']}/replies" for row in routed)
    assert not any(row[kind] for row in routed for kind in ("usual", "detour", "loop", "asymmetric"))
    pairs = {(row["origin"], row["target"]) for row in rows if not row["onward_route"]}
    assert sum(row["usual"] for row in rows) == len(pairs)


def test_advice_follows_the_load(spark: SparkSession) -> None:
    """Three workers at 90 % of a CPU should be four; a peak that grows by a tenth a day is full in days."""
    rows = [
        (datetime(2026, 1, day, 12, minute), "R1", worker, 1, 1, 0.5 + day / 10 if worker >= 0 else 0.4)
        for day in (3, 4)
        for minute in range(5)
        for worker in (-1, 0, 1, 2)
    ]
    schema = "minute timestamp, router_id string, worker_id smallint, messages long, bytes long, load double"
    costs = Costs(full=1.0)
    shares = capacity.processes(spark.createDataFrame(rows, schema), costs=costs)
    one = shares.where("worker_id = 0").collect()[0]
    assert one["load_mean"] == (10 * 1.6e3 + 10 * 1.2) / 10 / 60e9  # of sums: the order of rows makes no difference
    assert one["growth_per_day"] == pytest.approx(0.1)
    assert one["full_in_days"] == pytest.approx(1.0)
    told = capacity.advice(shares, costs).collect()[0]
    assert (told["workers"], told["workers_needed"], told["cpus"]) == (3, 3, 4)
    assert "core a CPU of its own" in told["pinning"]


def test_the_peak_of_weeks_is_exact(spark: SparkSession) -> None:
    """However many minutes: of two weeks it was that of two minutes less."""
    minute, load = f.timestamp_seconds(f.col("id") * 60).alias("minute"), f.pmod(f.col("id") * 7919, f.lit(20_000))
    place = (f.lit("R1").alias("router_id"), f.expr("0S as worker_id"), f.expr("1L as messages"), f.expr("1L as bytes"))
    weeks = spark.range(20_000).select(minute, *place, load.cast("double").alias("load"))
    [process] = capacity.processes(weeks, costs=Costs()).collect()
    assert (process["load_peak"], process["busiest"]) == (19_799, weeks.where("load = 19999").first()["minute"])


def test_percentiles_are_nearest_rank(spark: SparkSession) -> None:
    """With weights that are alike, and that are not; of no messages there is none."""
    groups = [
        [(5, 1)],
        [(1, 1), (2, 1)],
        [(n, 1) for n in range(1, 1001)],
        [(n << 14, 3) for n in range(-500, 501)],
        [(n, 7) for n in range(1, 100)],
        [(1, 1), (2, 98), (3, 1)],
        [(10, 3), (20, 8), (30, 1), (40, 1)],
        [(1 << 46, 1), (-5, 5)],
        [(5, 1_000_000), (900, 1_000_000), (901, 64_000_000)],
        [(1, 0), (6, 1)],
        [(5, 0), (9, 0)],
    ]
    values = [(key, value, weight) for key, group in enumerate(groups) for value, weight in group]
    rows = spark.createDataFrame(values, "key int, x long, weight long")
    given = placed(rows, ["key"], "x").groupBy("key").agg(*ranked("x")).collect()
    assert {key: found for key, *found in given} == {
        key: [sum(weight for _, weight in group), *(plainly.nearest_rank(group, one) for one in PERCENTILES.values())]
        for key, group in enumerate(groups)
    }


def test_a_quarter_of_long_waits_overflows_nothing(spark: SparkSession) -> None:
    """Hours times millions of messages are more nanoseconds than 64 bits have."""
    quarter, hours, millions = datetime(2026, 1, 5), 3 * 3600 * 10**9, 10**7
    rows = [(quarter, "R1", "a", -1, name, hours, millions, millions) for name in ("x", "y")]
    columns = "quarter timestamp, router_id string, address string, mtype int, container string, own_p50 long"
    assert latency_shifts(spark.createDataFrame(rows, f"{columns}, own_n long, n long"), Limits()).collect() == []


def test_few_records_prove_no_latency_shift_however_many_messages_they_stand_for(spark: SparkSession) -> None:
    """As with sampling; nine records of a hundred messages each, and ten."""
    days = [(datetime(2026, 1, day, 1), own) for day, own in ((4, 1_000_000), (5, 9_000_000))]
    columns = "quarter timestamp, own_p50 long, router_id string, address string, mtype int, own_n long, n long"
    found = [
        latency_shifts(spark.createDataFrame([(*day, "R1", "a", -1, 100 * n, n) for day in days], columns), Limits())
        for n in (9, 10)
    ]
    assert [[row["n"] for row in one.collect()] for one in found] == [[], [10]]


def test_hours_are_written_as_numbers_and_no_weight_is_no_failure(spark: SparkSession) -> None:
    """Java writes 1.08E7 ms; the records of an address that stand for no message are no share of anything."""
    columns = {column.name: column.type for column in TABLES["quarters"].columns}
    none: dict[str, Any] = dict.fromkeys(columns)
    none |= {"quarter": datetime(2026, 1, 5), "router_id": "R1", "mtype": -1, "outer": True, "n": 10, "failed": 0}
    slow, quick = 3 * 3600 * 10**9, 1_500_000
    rows = [none | {"address": "none", "messages": 0}]
    rows += [
        none | {"address": "a", "container": name, "messages": 10, "answer_n": 10, "answer_p50": time}
        for name, time in (("x", slow), ("y", quick), ("z", quick))
    ]
    schema = ", ".join(f"`{name}` {SPARK[kind]}" for name, kind in columns.items())
    quarters = spark.createDataFrame([tuple(row[name] for name in columns) for row in rows], schema)
    [found] = anomalies(quarters).collect()
    assert (found["kind"], found["container"]) == ("slow consumer", "x")
    assert found["evidence"] == "half of the messages took it 10800000 ms or longer, the usual time is 1.5 ms"


def plan_of(frame: DataFrame) -> str:
    """The physical plan, all of it."""
    frame.sparkSession.conf.set("spark.sql.maxPlanStringLength", str(2**31 - 16))
    return str(frame._jdf.queryExecution().executedPlan().toString())


# How often a rollup reads the log, a sum and a table read rollups, and shuffle: by the key of each grouping and window,
# and for joins.
READS_AND_SHUFFLES = {
    "rollup minutes": (1, 1), "rollup flows": (1, 1), "rollup traffic": (1, 1), "rollup quarters": (1, 1),
    "rollup latencies": (1, 1), "latencies": (1, 0),
    "rollup endpoints": (1, 1), "rollup passages": (1, 1), "rollup trips": (1, 1),
    "flows": (1, 1), "traffic": (1, 0), "quarters": (1, 0), "load": (1, 1), "endpoints": (2, 2),
    "sum flows": (1, 1), "sum endpoints": (3, 2), "sum transits": (3, 2), "sum times": (4, 1), "sum followed": (4, 1),
    "ranks transits": (2, 2), "ranks times": (3, 1),
    "links": (0, 1), "hops": (0, 0), "journeys": (0, 1), "taken": (0, 1), "ways": (0, 2), "talkers": (0, 3),
    "conversations": (3, 7), "unheard": (0, 2), "entities": (0, 1), "findings": (0, 5), "processes": (0, 3),
    "advice": (0, 1),
}  # fmt: skip


@pytest.fixture(scope="module")
def plans(spark: SparkSession, log: DataFrame, results: Results) -> dict[str, DataFrame]:
    """How each rollup and each table of a run is made."""
    made = results.generation
    kept = Rollups(made.output, made.name, VERSION)

    rollups = {f"rollup {name}": one.make(log) for name, one in ROLLUPS.items()}

    def rollup(name: str) -> DataFrame:
        schema = rollups[f"rollup {name}"].schema
        return spark.read.schema(schema).parquet(*kept.files(name, kept.hours))

    made_of = {name: rollup(of.rollup) for name, of in SUMS.items()}
    ends = {name: ranks(of.whole(made_of[name]), of.values) for name, of in SUMS.items() if of.values}

    def sum_of(name: str) -> DataFrame:
        if name not in ends:
            return made_of[name]
        [there] = Path(made.output.path(made.rollup)).glob(f"ranks_{name}*")
        return spark.read.schema(ends[name].schema).parquet(str(there))

    return (
        rollups
        | {
            f"sum {name}": summed(made_of[name], of, (), sum_of(name) if name in ends else None)
            for name, of in SUMS.items()
        }
        | {f"ranks {name}": found for name, found in ends.items()}
        | {
            name: recipe.make(
                *map(results.read, recipe.tables), *map(rollup, recipe.rollups), *map(sum_of, recipe.sums)
            )
            for name, recipe in batch.recipes_of(Costs()).items()
        }
    )


@pytest.mark.parametrize("name", READS_AND_SHUFFLES)
def test_plans_have_no_more_than_they_need(plans: dict[str, DataFrame], name: str) -> None:
    """No Python evaluation, no cross join, no read of the log or shuffle but those counted, few columns.

    Nor lists of a group's records or a join in memory, for which a busy address, receiver or path has too many. The
    endpoints of messages over the end of an hour are a list, of one entry for each of a message's hours.
    """
    assert plans.keys() == READS_AND_SHUFFLES.keys()
    plan = plan_of(plans[name])
    for heavy in (
        "Python",
        "ArrowEval",
        "CartesianProduct",
        "NestedLoop",
        "RoundRobin",
        "xact_id",
        *([] if name.endswith("endpoints") and "rollup" not in name else ["collect_list"]),
        "ShuffledHashJoin",
    ):
        assert heavy not in plan, plan
    files = [int(number) for number in re.findall(r"InMemoryFileIndex\((\d+) paths\)", plan)]
    reads = sum(number > 1 for number in files)  # tables are one directory each
    assert (reads, plan.count("Exchange hashpartitioning")) == READS_AND_SHUFFLES[name], plan

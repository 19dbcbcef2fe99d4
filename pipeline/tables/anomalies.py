"""Anomalies: what is out of the ordinary, one row each, with evidence.

The log is aggregated once, by quarter of an hour (`observed`). Each kind of anomaly is a condition on quarters, and
quarters that follow each other make one row.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from pipeline.flow_log.records import require
from pipeline.tables.flows import client
from pipeline.tables.measures import beginning, gathered, hour, identity, messages, placed, ranked, weight

NEEDS: Final = (
    "ts", "router_id", "egress_kind", "peer_container", "address", "mtype", "n_deliveries", "sample_weight",
    "latency_ns", "settle_ns", "credit_wait_ns", "outcome", "error_type",
)  # fmt: skip
QUARTER_S: Final = 900
WHERE: Final = ("router_id", "address", "mtype", "container")
MEANS: Final = {"latency_ns": "latency_mean", "credit_wait_ns": "credit_mean"}  # of whole sums, in any order the same
FAILED: Final = ("rejected", "modified", "undeliverable", "aborted")
LOWER: Final = (1 << 32) - 1  # the lower half of 64 bits
COLUMNS: Final = ("kind", "first", "last", *WHERE, "n", "value", "usual", "evidence")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits beyond which something is out of the ordinary."""

    least_n: int = 10  # records in a quarter; fewer prove nothing
    slow_ns: int = 100_000_000  # a receiver's time for a message
    slow_times: float = 10.0  # the usual time
    credit_ns: int = 50_000_000  # mean wait for credit
    credit_share: float = 0.5  # of the time in the router
    failed_share: float = 0.2
    failed_times: float = 5.0
    shift_ns: int = 500_000
    shift_times: float = 3.0


def observed(log: DataFrame) -> DataFrame:
    """Return one row for each quarter of an hour, router, address or message type, and receiver."""
    rows = require(log, NEEDS, "anomalies").select(
        hour(),
        beginning(QUARTER_S).alias("quarter"),
        "router_id",
        "address",
        "mtype",
        f.col("peer_container").alias("container"),
        client("egress_kind").alias("outer"),
        "n_deliveries", "sample_weight", "latency_ns", "credit_wait_ns", "outcome", "error_type",
        weight().alias("weight"),
        (f.col("settle_ns") - f.col("latency_ns")).alias("answer"),
        (f.col("latency_ns") - f.coalesce("credit_wait_ns", f.lit(0))).alias("own"),
    )  # fmt: skip
    failed = f.sum(f.when(f.col("outcome").isin(*FAILED), weight()).otherwise(0))
    key = ("quarter", *WHERE, "outer", "began")
    # Spark adds up numbers in code of its own, and texts not: first come many numbers, then the few kinds of errors.
    by_error = (
        placed(gathered(rows).select("*", identity(*key[:-1]).alias("group")), ("group", "began"), "answer", "own")
        .groupBy(*key, "error_type")
        .agg(
            f.count("*").alias("n"),
            messages(),
            failed.alias("failed"),
            *(part for name in MEANS for part in _halves(name)),
            *ranked("answer", ("p50",)),
            *ranked("own", ("p50",)),
        )
    )
    often = f.when(f.col("error_type").isNotNull(), f.struct(-f.col("n"), "error_type"))
    return by_error.groupBy(*key).agg(
        *(f.sum(name).alias(name) for name in ("n", "messages", "failed")),
        f.min(often)["error_type"].alias("error"),
        *(_mean(one).alias(name) for one, name in MEANS.items()),
        *(one for name in ("answer", "own") for one in (f.max(f"{name}_n").alias(f"{name}_n"),
                                                        f.min(f"{name}_p50").alias(f"{name}_p50"))),
    ).drop("began")  # fmt: skip


def _halves(name: str) -> tuple[Column, Column, Column]:
    """Return the sums of the upper and the lower half of a column's values, and their number.

    The sum of the values may be beyond 64 bits, and Spark is slow with larger numbers.
    """
    value = f.col(name)
    return (
        f.sum(f.shiftright(value, 32)).alias(f"{name}_upper"),
        f.sum(value.bitwiseAND(f.lit(LOWER))).alias(f"{name}_lower"),
        f.count(value).alias(f"{name}_n"),
    )


def _mean(name: str) -> Column:
    """Return the mean of a column's values from sums of `_halves`: of whole numbers, so in any order the same."""
    upper, lower = (f.sum(f"{name}_{half}").cast("decimal(38,0)") for half in ("upper", "lower"))
    return f.try_divide((upper * (LOWER + 1) + lower).cast("double"), f.sum(f"{name}_n"))


def anomalies(quarters: DataFrame, limits: Limits | None = None, earlier: DataFrame | None = None) -> DataFrame:
    """Return one row for each anomaly, from `observed`: kind, first and last time, place, and evidence.

    ``earlier`` are quarters of earlier days: these are not looked through, only compared with.
    """
    limits = limits or Limits()
    detectors = (slow_consumers, starvation, error_bursts)
    found = reduce(DataFrame.unionByName, (detect(quarters, limits) for detect in detectors))
    return _joined(found.unionByName(latency_shifts(quarters, limits, earlier)))


def slow_consumers(quarters: DataFrame, limits: Limits) -> DataFrame:
    """Return receivers that take many times longer for a message than is usual at their address, or anywhere."""
    outer = quarters.where(f.col("outer") & f.col("answer_p50").isNotNull() & (f.col("n") >= limits.least_n))
    everywhere = f.percentile_approx("answer_p50", 0.5).over(Window.partitionBy(f.lit(1)))
    here = f.percentile_approx("answer_p50", 0.5).over(Window.partitionBy("address", "mtype"))
    usual = outer.withColumn("usual", f.least(everywhere, here).cast("double"))
    return usual.where(
        (f.col("answer_p50") >= limits.slow_ns) & (f.col("answer_p50") >= limits.slow_times * f.col("usual"))
    ).select(*_common("slow consumer"), f.col("answer_p50").cast("double").alias("value"), "usual")


def starvation(quarters: DataFrame, limits: Limits) -> DataFrame:
    """Return receivers that answer in time but grant too little credit: messages spend most of their time waiting."""
    starved = (f.col("credit_mean") >= limits.credit_ns) & (
        f.col("credit_mean") >= limits.credit_share * f.col("latency_mean")
    )
    prompt = f.coalesce(f.col("answer_p50") < limits.slow_ns, f.lit(True))
    enough = f.col("n") >= limits.least_n
    return quarters.where(f.col("outer") & enough & starved & prompt).select(
        *_common("credit starvation"), f.col("credit_mean").alias("value"), f.col("latency_mean").alias("usual")
    )


def error_bursts(quarters: DataFrame, limits: Limits) -> DataFrame:
    """Return addresses of which an unusually large share of messages fails."""
    by_address = (
        quarters.where("outer")
        .groupBy("quarter", "address", "mtype")
        .agg(
            f.sum("n").alias("n"),
            f.try_divide(f.sum("failed"), f.sum("messages")).alias("value"),
            f.max_by("error", f.struct("failed", "error")).alias("error"),
            f.max_by("router_id", f.struct("failed", "router_id")).alias("router_id"),
        )
    )
    usual = f.percentile_approx("value", 0.5).over(Window.partitionBy("address", "mtype"))
    found = by_address.withColumn("usual", usual).where(
        (f.col("n") >= limits.least_n)
        & (f.col("value") >= limits.failed_share)
        & (f.col("value") >= limits.failed_times * f.col("usual"))
    )
    return found.withColumn("container", f.col("error")).select(*_common("error burst"), "value", "usual")


def latency_shifts(quarters: DataFrame, limits: Limits, earlier: DataFrame | None = None) -> DataFrame:
    """Return where messages took many times longer in a router than in the same hour of earlier days.

    The wait for receivers' credit does not count: the receivers cause it.
    """
    spent = f.col("own_p50").cast("double") * f.col("own_n")  # more than 64 bits where messages waited for hours
    if earlier is not None:
        now = quarters.withColumn("now", f.lit(True))
        quarters = now.unionByName(earlier.withColumn("now", f.lit(False)))
    by_router = (
        quarters.where("own_p50 is not null")
        .groupBy("quarter", "router_id", "address", "mtype", *([] if earlier is None else ["now"]))
        .agg(f.sum("n").alias("n"), (f.sum(spent) / f.sum("own_n")).alias("value"))
    )
    day = f.floor(f.unix_seconds("quarter") / 86400)
    same_hour = (
        Window.partitionBy("router_id", "address", "mtype", f.hour("quarter"))
        .orderBy(day)
        .rangeBetween(Window.unboundedPreceding, -1)
    )
    found = by_router.withColumn("usual", f.avg("value").over(same_hour)).where(
        (f.col("n") >= limits.least_n)
        & (f.col("value") - f.col("usual") >= limits.shift_ns)
        & (f.col("value") >= limits.shift_times * f.col("usual"))
    )
    found = found if earlier is None else found.where("now")
    return found.withColumn("container", f.lit(None).cast("string")).select(*_common("latency shift"), "value", "usual")


def _common(kind: str) -> tuple[Column, ...]:
    return f.lit(kind).alias("kind"), f.col("quarter"), *(f.col(one) for one in WHERE), f.col("n")


def _joined(found: DataFrame) -> DataFrame:
    """Return one row for quarters that follow each other, with the worst of their values."""
    place = Window.partitionBy("kind", *WHERE).orderBy("quarter")
    gap = f.unix_seconds("quarter") - f.unix_seconds(f.lag("quarter").over(place)) > 2 * QUARTER_S
    numbered = found.withColumn("begins", f.coalesce(gap, f.lit(True)).cast("int")).withColumn(
        "number", f.sum("begins").over(place)
    )
    joined = numbered.groupBy("kind", *WHERE, "number").agg(
        f.min("quarter").alias("first"),
        (f.max("quarter") + f.expr(f"interval {QUARTER_S} seconds")).alias("last"),
        f.sum("n").alias("n"),
        f.max_by("usual", f.struct("value", "usual")).alias("usual"),  # belongs to the worst value
        f.max("value").alias("value"),
    )
    return joined.withColumn("evidence", _evidence()).select(*COLUMNS)


def _evidence() -> Column:
    """Return the sentence of each anomaly, with its value and the usual one."""

    def ms(name: str) -> Column:
        value = f.round(f.col(name) / 1e6, 3)
        whole = f.round(value).cast("decimal(38,0)")  # Java writes 1.08E7
        return f.when(value < 1e7, value.cast("string")).otherwise(whole.cast("string"))

    def percent(name: str) -> Column:
        return f.round(f.col(name) * 100, 1)

    sentences = {
        "slow consumer": ("half of the messages took it %s ms or longer, the usual time is %s ms", ms),
        "credit starvation": ("messages waited %s ms for credit, of %s ms in the router", ms),
        "error burst": ("%s %% failed, the usual share is %s %%", percent),
        "latency shift": ("messages took %s ms in the router, on earlier days %s ms", ms),
    }
    return f.coalesce(
        *(
            f.when(f.col("kind") == kind, f.format_string(sentence, shown("value"), shown("usual")))
            for kind, (sentence, shown) in sentences.items()
        )
    )

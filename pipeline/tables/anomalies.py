"""What is out of the ordinary, a line each with its evidence.

The log is aggregated once, by quarters of an hour (`observed`); each kind of anomaly is a condition on
those, and quarters that follow each other are one line.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from pipeline.flow_log.records import require
from pipeline.tables.measures import beginning, gathered, messages, packed, ranked, weight

NEEDS: Final = (
    "ts", "router_id", "egress_kind", "peer_container", "address", "mtype", "n_deliveries", "sample_weight",
    "latency_ns", "settle_ns", "credit_wait_ns", "outcome", "error_type",
)  # fmt: skip
QUARTER_S: Final = 900
WHERE: Final = ("router_id", "address", "mtype", "container")
FAILED: Final = ("rejected", "modified", "undeliverable", "aborted")
COLUMNS: Final = ("kind", "first", "last", *WHERE, "n", "value", "usual", "evidence")


@dataclass(frozen=True, slots=True)
class Limits:
    """From when on something is out of the ordinary."""

    least_n: int = 10  # records in a quarter; fewer say nothing
    slow_ns: int = 100_000_000  # a receiver's time for a message
    slow_times: float = 10.0  # of what is usual
    credit_ns: int = 50_000_000  # mean wait for credit
    credit_share: float = 0.5  # of the time in the router
    failed_share: float = 0.2
    failed_times: float = 5.0
    shift_ns: int = 500_000
    shift_times: float = 3.0


def observed(log: DataFrame) -> DataFrame:
    """One row for each quarter of an hour, router, address or message type, and receiver."""
    rows = require(log, NEEDS, "anomalies").select(
        beginning(QUARTER_S).alias("quarter"),
        "router_id",
        "address",
        "mtype",
        f.col("peer_container").alias("container"),
        (f.col("egress_kind").isNull() | (f.col("egress_kind") != "inter_router")).alias("outer"),
        "n_deliveries", "sample_weight", "latency_ns", "credit_wait_ns", "outcome", "error_type",
        packed(f.col("settle_ns") - f.col("latency_ns"), "answer"),
        packed(f.col("latency_ns") - f.coalesce("credit_wait_ns", f.lit(0)), "own"),
    )  # fmt: skip
    failed = f.sum(f.when(f.col("outcome").isin(*FAILED), weight()).otherwise(0))
    return rows.groupBy("quarter", *WHERE, "outer").agg(
        f.count("*").alias("n"),
        messages(),
        failed.alias("failed"),
        f.mode("error_type", True).alias("error"),
        f.avg("latency_ns").alias("latency_mean"),
        f.avg("credit_wait_ns").alias("credit_mean"),
        *gathered("answer"),
        *gathered("own"),
    ).select(
        "quarter", *WHERE, "outer", "n", "messages", "failed", "error", "latency_mean", "credit_mean",
        *ranked("answer", ("p50",)), *ranked("own", ("p50",)),
    )  # fmt: skip


def anomalies(quarters: DataFrame, limits: Limits | None = None) -> DataFrame:
    """One row for each anomaly: kind, from when to when, where, and the evidence; from `observed`."""
    limits = limits or Limits()
    detectors = (slow_consumers, starvation, error_bursts, latency_shifts)
    found = reduce(DataFrame.unionByName, (detect(quarters, limits) for detect in detectors))
    return _joined(found)


def slow_consumers(quarters: DataFrame, limits: Limits) -> DataFrame:
    """Receivers that take many times longer for a message than is usual at their address, or anywhere."""
    outer = quarters.where(f.col("outer") & f.col("answer_p50").isNotNull() & (f.col("n") >= limits.least_n))
    everywhere = f.percentile_approx("answer_p50", 0.5).over(Window.partitionBy(f.lit(1)))
    here = f.percentile_approx("answer_p50", 0.5).over(Window.partitionBy("address", "mtype"))
    usual = outer.withColumn("usual", f.least(everywhere, here).cast("double"))
    return usual.where(
        (f.col("answer_p50") >= limits.slow_ns) & (f.col("answer_p50") >= limits.slow_times * f.col("usual"))
    ).select(*_common("slow consumer"), f.col("answer_p50").cast("double").alias("value"), "usual")


def starvation(quarters: DataFrame, limits: Limits) -> DataFrame:
    """Receivers that answer in time but give too little credit: messages wait for it, most of their time."""
    starved = (f.col("credit_mean") >= limits.credit_ns) & (
        f.col("credit_mean") >= limits.credit_share * f.col("latency_mean")
    )
    prompt = f.coalesce(f.col("answer_p50") < limits.slow_ns, f.lit(True))
    enough = f.col("n") >= limits.least_n
    return quarters.where(f.col("outer") & enough & starved & prompt).select(
        *_common("credit starvation"), f.col("credit_mean").alias("value"), f.col("latency_mean").alias("usual")
    )


def error_bursts(quarters: DataFrame, limits: Limits) -> DataFrame:
    """Addresses of which a large share fails that does not do so usually."""
    by_address = (
        quarters.where("outer")
        .groupBy("quarter", "address", "mtype")
        .agg(
            f.sum("n").alias("n"),
            (f.sum("failed") / f.sum("messages")).alias("value"),
            f.max_by("error", "failed").alias("error"),
            f.max_by("router_id", "failed").alias("router_id"),
        )
    )
    usual = f.percentile_approx("value", 0.5).over(Window.partitionBy("address", "mtype"))
    found = by_address.withColumn("usual", usual).where(
        (f.col("n") >= limits.least_n)
        & (f.col("value") >= limits.failed_share)
        & (f.col("value") >= limits.failed_times * f.col("usual"))
    )
    return found.withColumn("container", f.col("error")).select(*_common("error burst"), "value", "usual")


def latency_shifts(quarters: DataFrame, limits: Limits) -> DataFrame:
    """Messages that took many times longer in a router than in the same hour of earlier days.

    The wait for receivers' credit is left out: it is theirs.
    """
    by_router = (
        quarters.where("own_p50 is not null")
        .groupBy("quarter", "router_id", "address", "mtype")
        .agg(f.sum("own_n").alias("n"), (f.sum(f.col("own_p50") * f.col("own_n")) / f.sum("own_n")).alias("value"))
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
    return found.withColumn("container", f.lit(None).cast("string")).select(*_common("latency shift"), "value", "usual")


def _common(kind: str) -> tuple[Column, ...]:
    return f.lit(kind).alias("kind"), f.col("quarter"), *(f.col(one) for one in WHERE), f.col("n")


def _joined(found: DataFrame) -> DataFrame:
    """Quarters that follow each other as one line, with the worst value of them."""
    place = Window.partitionBy("kind", *WHERE).orderBy("quarter")
    gap = f.unix_seconds("quarter") - f.unix_seconds(f.lag("quarter").over(place)) > 2 * QUARTER_S
    numbered = found.withColumn("begins", f.coalesce(gap, f.lit(True)).cast("int")).withColumn(
        "number", f.sum("begins").over(place)
    )
    joined = numbered.groupBy("kind", *WHERE, "number").agg(
        f.min("quarter").alias("first"),
        (f.max("quarter") + f.expr(f"interval {QUARTER_S} seconds")).alias("last"),
        f.sum("n").alias("n"),
        f.max_by("usual", "value").alias("usual"),  # beside the value that is told
        f.max("value").alias("value"),
    )
    return joined.withColumn("evidence", _evidence()).select(*COLUMNS)


def _evidence() -> Column:
    def ms(name: str) -> Column:
        return f.round(f.col(name) / 1e6, 3)

    return (
        f.when(
            f.col("kind") == "slow consumer",
            f.format_string("half of the messages took it %s ms or longer, usual are %s ms", ms("value"), ms("usual")),
        )
        .when(
            f.col("kind") == "credit starvation",
            f.format_string("messages waited %s ms for credit, of %s ms in the router", ms("value"), ms("usual")),
        )
        .when(
            f.col("kind") == "error burst",
            f.format_string(
                "%s %% failed, usual are %s %%", f.round(f.col("value") * 100, 1), f.round(f.col("usual") * 100, 1)
            ),
        )
        .otherwise(f.format_string("took %s ms in the router, on earlier days %s ms", ms("value"), ms("usual")))
    )

"""The load of workers and cores, when the next worker is due, and how many workers there should be."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from pipeline.flow_log.records import require
from pipeline.tables.flows import sent
from pipeline.tables.measures import PERCENTILES, beginning, messages, nearest, octets, placed

NEEDS: Final = (
    "ts", "router_id", "worker_id", "size_bytes", "n_deliveries", "sample_weight", "ingress_kind", "further_copy",
)  # fmt: skip
MINUTE_NS: Final = 60e9


@dataclass(frozen=True, slots=True)
class Costs:
    """The CPU time of a message, as `make bench` measures it on the machine in question.

    Latency grows beyond the share ``full`` of a CPU. A core with a share of ``busy_core`` needs a CPU of its own.
    """

    worker_us: float = 1.6  # in and out together
    core_us: float = 0.25
    byte_ns: float = 1.2
    full: float = 0.7
    busy_core: float = 0.3


def minutes(log: DataFrame) -> DataFrame:
    """Return one row for each minute, router and worker: records, messages and bytes, and sent ones."""
    return (
        require(log, NEEDS, "capacity")
        .groupBy(beginning(60).alias("minute"), "router_id", "worker_id")
        .agg(f.count("*").alias("records"), messages(), octets(), *sent())
    )


def load(workers: DataFrame, costs: Costs) -> DataFrame:
    """Return one row for each minute and process, from `minutes`: messages, bytes, and the share of a CPU they cost.

    ``worker_id`` -1 is the core. The cost at the sending worker counts for the receiving worker.
    """
    core = f.lit(-1).cast("smallint")  # every message passes the core
    shares = workers.withColumn("worker_id", f.explode(f.array("worker_id", core)))
    return (
        shares.groupBy("minute", "router_id", "worker_id")
        .agg(f.sum("messages").alias("messages"), f.sum("bytes").alias("bytes"))
        .withColumn("load", _spent(costs) / MINUTE_NS)
    )


def _spent(costs: Costs) -> Column:
    """Return the CPU time of messages and bytes at a process, in ns."""
    by_worker = f.col("messages") * (costs.worker_us * 1e3) + f.col("bytes") * costs.byte_ns
    return f.when(f.col("worker_id") < 0, f.col("messages") * (costs.core_us * 1e3)).otherwise(by_worker)


def processes(minutes: DataFrame, earlier: DataFrame | None = None, *, costs: Costs) -> DataFrame:
    """Return one row for each worker and core: mean and peak load, and how the peak of a day grows.

    The peak is the load that 99 of 100 minutes do not exceed. ``full_in_days`` is null if the peak does not grow, or
    there are fewer than two days. ``earlier`` is the load of earlier days, of which only the peaks count.
    """
    place = ("router_id", "worker_id")
    all_days = minutes if earlier is None else minutes.unionByName(earlier)
    peaks = all_days.groupBy(*place, f.unix_date(f.to_date("minute")).alias("day")).agg(
        f.percentile_approx("load", 0.99, 10000).alias("peak")  # exact: a day has fewer minutes
    )
    trend = peaks.groupBy(*place).agg(
        f.regr_slope("peak", "day").alias("growth"), f.max_by("peak", "day").alias("latest")
    )
    whole = (
        placed(minutes.withColumn("weight", f.lit(1)), place, "load")
        .groupBy(*place)
        .agg(
            f.sum("messages").alias("messages"),
            f.sum("bytes").alias("bytes"),
            f.count("*").alias("minutes"),
            nearest("load", PERCENTILES["p99"]).alias("load_peak"),
            f.max_by("minute", f.struct("load", "minute")).alias("busiest"),
        )
    )
    # The sums are whole numbers: a sum of fractions differs in its last digits with the order of the files.
    mean = _spent(costs) / f.col("minutes") / MINUTE_NS
    left = f.greatest(f.lit(0.0), costs.full - f.col("latest")) / f.col("growth")
    return whole.join(trend, [*place]).select(
        *place, "messages", "bytes", mean.alias("load_mean"), "load_peak", "busiest",
        f.col("growth").alias("growth_per_day"),
        f.when(f.col("growth") > 1e-9, left).alias("full_in_days"),
    )  # fmt: skip


def advice(shares: DataFrame, costs: Costs) -> DataFrame:
    """Return one row for each router from `processes`: present and recommended workers, and what to pin."""
    worker = f.col("worker_id") >= 0
    routers = shares.groupBy("router_id").agg(
        f.count(f.when(worker, 1)).alias("workers"),
        f.sum(f.when(worker, f.col("load_peak"))).alias("worker_peak"),
        f.max(f.when(~worker, f.col("load_peak"))).alias("core_peak"),
        f.min(f.when(worker, f.col("full_in_days"))).alias("next_worker_in_days"),
    )
    needed = f.greatest(f.lit(1), f.ceil(f.col("worker_peak") / costs.full)).cast("int")
    pinning = f.when(
        f.col("core_peak") >= costs.busy_core, f.lit("give the core a CPU of its own (coreCpu), and each worker one")
    ).otherwise(f.lit("the core may share a CPU; pin workers (workerCpus) if latency matters"))
    return routers.select("*", needed.alias("workers_needed"), (needed + 1).alias("cpus"), pinning.alias("pinning"))

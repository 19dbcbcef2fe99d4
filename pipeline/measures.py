"""Expressions that several jobs use: weights, nearest-rank percentiles, logarithmic buckets."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f

from shm.flow import OUTCOMES

PERCENTILES: Final = {"p50": 500, "p90": 900, "p99": 990, "p999": 999}  # per mille
MOST_WEIGHT: Final = 1 << 16  # of one record, in a percentile
LONGEST_NS: Final = (1 << 47) - 1  # 39 hours; longer ones count as that long in a percentile
BUCKETS: Final = 16  # to a power of two: a bucket is 4.4 % wide


def weight() -> Column:
    """How many deliveries a record stands for."""
    return f.col("n_deliveries") * f.col("sample_weight")


def messages() -> Column:
    """How many messages the records stand for."""
    return f.coalesce(f.sum(weight()), f.lit(0)).alias("messages")


def octets() -> Column:
    """Their bytes. A record of an aggregate has the bytes of all of its deliveries."""
    return f.sum(f.col("size_bytes") * f.col("sample_weight")).alias("bytes")


def outcomes() -> list[Column]:
    """A count for each outcome."""
    return [f.sum(f.when(f.col("outcome") == name, weight()).otherwise(0)).alias(name) for name in OUTCOMES]


def gathered(column: str, name: str, weighted: Column | None = None, lowest: int = 0) -> list[Column]:
    """Aggregates that `ranked` makes percentiles of: values with weights, in order, and what they weigh.

    A value and its weight (that of a record, unless it is given) share an integer, value first: those sort
    and travel faster than pairs. Values below ``lowest`` count as that.
    """
    heavy = f.least(weight() if weighted is None else weighted, f.lit(MOST_WEIGHT - 1))
    present = f.when(f.col(column).isNotNull(), heavy)
    value = f.greatest(f.lit(0), f.least(f.col(column) - lowest, f.lit(LONGEST_NS)))
    packed = f.when(f.col(column).isNotNull(), value * MOST_WEIGHT + present)
    return [
        f.sort_array(f.collect_list(packed)).alias(f"{name}_values"),
        f.coalesce(f.sum(present), f.lit(0)).alias(f"{name}_n"),
        f.min(present).alias(f"{name}_least"),
        f.max(present).alias(f"{name}_most"),
    ]


def ranked(name: str, percentiles: Iterable[str] = PERCENTILES, lowest: int = 0) -> list[Column]:
    """Nearest-rank percentiles of what was gathered, and n: the smallest value that so many do not exceed."""
    found = ((_percentile(name, one) + lowest).alias(f"{name}_{one}") for one in percentiles)
    return [f.col(f"{name}_n"), *found]


def _percentile(name: str, percentile: str) -> Column:
    values, per_mille = f.col(f"{name}_values"), PERCENTILES[percentile]
    place = _rank(f.size(values), per_mille)
    alike = f.get(values, (place - 1).cast("int"))
    # Weights that differ: walk to the value at which their sum reaches the rank.
    rank = _rank(f.col(f"{name}_n"), per_mille)

    def step(state: Column, one: Column) -> Column:
        further = f.struct((state["sum"] + one % MOST_WEIGHT).alias("sum"), one.alias("at"))
        return f.when(state["sum"] >= rank, state).otherwise(further)

    start = f.struct(f.lit(0).cast("long").alias("sum"), f.lit(None).cast("long").alias("at"))
    walked = f.aggregate(values, start, step)["at"]
    chosen = f.when(f.col(f"{name}_least") == f.col(f"{name}_most"), alike).otherwise(walked)
    return f.shiftright(chosen, 16)


def _rank(count: Column, per_mille: int) -> Column:
    """The percentile's place among so many, from 1. Exact: the sum is far from 2**53."""
    return f.floor((count.cast("long") * per_mille + 999) / 1000)


def bucket(column: str) -> Column:
    """The logarithmic bucket of a duration; null where that is."""
    return f.floor(f.log2(f.greatest(f.col(column), f.lit(1)).cast("double")) * BUCKETS).cast("int")


def bucket_end(bucket_column: Column) -> Column:
    """The longest duration of a bucket, in ns."""
    return f.floor(f.pow(f.lit(2.0), (bucket_column + 1) / BUCKETS)).cast("long")


def origin() -> Column:
    """The router at which a message entered the network, as far as its path is known."""
    return f.coalesce(f.substring_index("path", ">", 1), f.col("router_id"))

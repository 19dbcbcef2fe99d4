"""Expressions that several tables use: weights, nearest-rank percentiles, logarithmic buckets."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from shm.contract.flow_log.schema import OUTCOMES

PERCENTILES: Final = {"p50": 500, "p90": 900, "p99": 990, "p999": 999}  # per mille
VALUE_AT: Final = 16  # bits of a packed value below which its weight stands
MOST_WEIGHT: Final = 1 << VALUE_AT  # exceeds the weight of one record in a percentile
SPAN_BITS: Final = VALUE_AT + 15  # the values of a span differ by at most 33 microseconds
LONGEST_NS: Final = (1 << 47) - 1  # 39 hours; a longer duration counts as that in a percentile
BUCKETS: Final = 16  # in a power of two; a bucket is 4.4 % wide


def weight() -> Column:
    """Return how many deliveries a record stands for."""
    return f.col("n_deliveries") * f.col("sample_weight")


def messages() -> Column:
    """Return how many messages the records stand for."""
    return f.coalesce(f.sum(weight()), f.lit(0)).alias("messages")


def octets() -> Column:
    """Return the bytes of the messages. A record of an aggregate has the bytes of all of its deliveries."""
    return f.sum(f.col("size_bytes") * f.col("sample_weight")).alias("bytes")


def outcomes() -> list[Column]:
    """Return the number of messages of each outcome."""
    return [f.sum(f.when(f.col("outcome") == name, weight()).otherwise(0)).alias(name) for name in OUTCOMES]


def beginning(seconds: int) -> Column:
    """Return when the period of so many seconds began in which a record is.

    These are whole numbers; Spark's own function makes objects of each record.
    """
    micros = f.unix_micros("ts")
    return f.timestamp_micros(micros - f.pmod(micros, f.lit(seconds * 1_000_000)))


def packed(column: str | Column, name: str, weighted: Column | None = None, lowest: int = 0) -> Column:
    """Return a column for `gathered`: a value and its weight, by default the record's, in one integer.

    Integers sort and travel faster than pairs. A value below ``lowest`` counts as ``lowest``. Select the column
    before the grouping: Spark interprets what a collecting aggregate computes itself, and compiles the rest.
    """
    value = f.col(column) if isinstance(column, str) else column
    heavy = f.least(weight() if weighted is None else weighted, f.lit(MOST_WEIGHT - 1))
    bounded = f.greatest(f.lit(0), f.least(value - lowest, f.lit(LONGEST_NS)))
    return f.when(value.isNotNull(), bounded * MOST_WEIGHT + heavy).alias(f"{name}_packed")


def gathered(name: str) -> list[Column]:
    """Return the aggregates of a packed column that `ranked` needs: the values in order, and their weights."""
    heavy = f.col(f"{name}_packed").bitwiseAND(MOST_WEIGHT - 1)
    return [
        f.sort_array(f.collect_list(f"{name}_packed")).alias(f"{name}_values"),
        f.coalesce(f.sum(heavy), f.lit(0)).alias(f"{name}_n"),
        f.min(heavy).alias(f"{name}_least"),
        f.max(heavy).alias(f"{name}_most"),
    ]


def ranked(name: str, percentiles: Iterable[str] = PERCENTILES, lowest: int = 0) -> list[Column]:
    """Return the number of gathered messages and nearest-rank percentiles: values that so many do not exceed."""
    all_ = f.col(f"{name}_n")
    found = ((_at(name, _rank(all_, one)) + lowest).alias(f"{name}_{one}") for one in percentiles)
    return [all_, *found]


def ranked_in_spans(rows: DataFrame, key: str, name: str, percentiles: Iterable[str], lowest: int = 0) -> DataFrame:
    """Return number, least value and percentiles by ``key``, for few groups with very many packed values.

    Values are gathered by span, so no list is as long as the log. Only the spans that hold a percentile are walked.
    """
    spans = rows.groupBy(key, f.shiftright(f"{name}_packed", SPAN_BITS).alias("span")).agg(*gathered(name))
    group = Window.partitionBy(key)
    n = f.col(f"{name}_n")
    placed = spans.select(
        "*", f.sum(n).over(group).alias("all"), (f.sum(n).over(group.orderBy("span")) - n).alias("before")
    )
    first = f.shiftright(f.get(f"{name}_values", f.lit(0)), VALUE_AT) + lowest
    found = []
    for one in percentiles:
        rank = _rank(f.col("all"), one) - f.col("before")
        inside = (rank > 0) & (rank <= n)
        found.append(f.max(f.when(inside, _at(name, rank) + lowest)).alias(f"{name}_{one}"))
    return placed.groupBy(key).agg(f.max("all").alias(f"{name}_n"), f.min(first).alias("least_ns"), *found)


def _at(name: str, rank: Column) -> Column:
    """Return the gathered value at which the sum of weights reaches the rank, which counts from 1."""
    values, least = f.col(f"{name}_values"), f.col(f"{name}_least")

    def step(state: Column, one: Column) -> Column:
        further = f.struct((state["left"] - one.bitwiseAND(MOST_WEIGHT - 1)).alias("left"), one.alias("at"))
        return f.when(state["left"] <= 0, state).otherwise(further)

    start = f.struct(rank.alias("left"), f.lit(None).cast("long").alias("at"))
    walked = f.aggregate(values, start, step)["at"]
    alike = f.get(values, (f.ceil(rank / f.nullif(least, f.lit(0))) - 1).cast("int"))
    return f.shiftright(f.when(least == f.col(f"{name}_most"), alike).otherwise(walked), VALUE_AT)


def _rank(count: Column, percentile: str) -> Column:
    """Return the percentile's rank among so many, from 1. It is exact, as the sum is far from 2**53."""
    return f.floor((count * PERCENTILES[percentile] + 999) / 1000)


def bucket(column: str) -> Column:
    """Return the logarithmic bucket of a duration; null for null."""
    return f.floor(f.log2(f.greatest(f.col(column), f.lit(1)).cast("double")) * BUCKETS).cast("int")


def bucket_end(bucket_column: Column) -> Column:
    """Return the longest duration of a bucket, in ns."""
    return f.floor(f.pow(f.lit(2.0), (bucket_column + 1) / BUCKETS)).cast("long")


def origin() -> Column:
    """Return the router at which a message entered the network, as far as its path is known."""
    return f.coalesce(f.substring_index("path", ">", 1), f.col("router_id"))

"""Expressions that several jobs use: weights, nearest-rank percentiles, logarithmic buckets."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from shm.contract.flow import OUTCOMES

PERCENTILES: Final = {"p50": 500, "p90": 900, "p99": 990, "p999": 999}  # per mille
VALUE_AT: Final = 16  # bits of a packed value below which its weight stands
MOST_WEIGHT: Final = 1 << VALUE_AT  # of one record, in a percentile
SPAN_BITS: Final = VALUE_AT + 15  # values of a span are alike but for 33 microseconds
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


def beginning(seconds: int) -> Column:
    """When the span of so many seconds began that a record is in; whole numbers, where Spark's own function
    makes objects of each record."""
    micros = f.unix_micros("ts")
    return f.timestamp_micros(micros - f.pmod(micros, f.lit(seconds * 1_000_000)))


def packed(column: str | Column, name: str, weighted: Column | None = None, lowest: int = 0) -> Column:
    """A column that `gathered` takes: a value and its weight (that of a record, unless it is given).

    They share an integer, value first: those sort and travel faster than pairs. Values below ``lowest``
    count as that. To be selected before the grouping: what a collecting aggregate has to compute by itself
    is interpreted, not compiled.
    """
    value = f.col(column) if isinstance(column, str) else column
    heavy = f.least(weight() if weighted is None else weighted, f.lit(MOST_WEIGHT - 1))
    bounded = f.greatest(f.lit(0), f.least(value - lowest, f.lit(LONGEST_NS)))
    return f.when(value.isNotNull(), bounded * MOST_WEIGHT + heavy).alias(f"{name}_packed")


def gathered(name: str) -> list[Column]:
    """Aggregates of what was packed that `ranked` makes percentiles of: values in order, what they weigh."""
    heavy = f.col(f"{name}_packed").bitwiseAND(MOST_WEIGHT - 1)
    return [
        f.sort_array(f.collect_list(f"{name}_packed")).alias(f"{name}_values"),
        f.coalesce(f.sum(heavy), f.lit(0)).alias(f"{name}_n"),
        f.min(heavy).alias(f"{name}_least"),
        f.max(heavy).alias(f"{name}_most"),
    ]


def ranked(name: str, percentiles: Iterable[str] = PERCENTILES, lowest: int = 0) -> list[Column]:
    """Nearest-rank percentiles of what was gathered, and n: the smallest value that so many do not exceed."""
    all_ = f.col(f"{name}_n")
    found = ((_at(name, _rank(all_, one)) + lowest).alias(f"{name}_{one}") for one in percentiles)
    return [all_, *found]


def ranked_in_spans(rows: DataFrame, key: str, name: str, percentiles: Iterable[str], lowest: int = 0) -> DataFrame:
    """The same of few groups with very many values, from what was packed: n, the least value, percentiles.

    Values are gathered by their span, so that no list is as long as the log, and only those are walked into
    which a percentile falls.
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
    """Of gathered values the one at which the sum of weights reaches the rank, from 1."""
    values, least = f.col(f"{name}_values"), f.col(f"{name}_least")

    def step(state: Column, one: Column) -> Column:
        further = f.struct((state["left"] - one.bitwiseAND(MOST_WEIGHT - 1)).alias("left"), one.alias("at"))
        return f.when(state["left"] <= 0, state).otherwise(further)

    start = f.struct(rank.alias("left"), f.lit(None).cast("long").alias("at"))
    walked = f.aggregate(values, start, step)["at"]
    alike = f.get(values, (f.ceil(rank / f.nullif(least, f.lit(0))) - 1).cast("int"))
    return f.shiftright(f.when(least == f.col(f"{name}_most"), alike).otherwise(walked), VALUE_AT)


def _rank(count: Column, percentile: str) -> Column:
    """The percentile's place among so many, from 1. Exact: the sum is far from 2**53."""
    return f.floor((count * PERCENTILES[percentile] + 999) / 1000)


def bucket(column: str) -> Column:
    """The logarithmic bucket of a duration; null where that is."""
    return f.floor(f.log2(f.greatest(f.col(column), f.lit(1)).cast("double")) * BUCKETS).cast("int")


def bucket_end(bucket_column: Column) -> Column:
    """The longest duration of a bucket, in ns."""
    return f.floor(f.pow(f.lit(2.0), (bucket_column + 1) / BUCKETS)).cast("long")


def origin() -> Column:
    """The router at which a message entered the network, as far as its path is known."""
    return f.coalesce(f.substring_index("path", ">", 1), f.col("router_id"))

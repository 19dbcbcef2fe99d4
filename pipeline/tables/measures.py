"""Expressions that several tables use: weights, nearest-rank percentiles, logarithmic buckets."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from shm.contract.flow_log.schema import OUTCOMES

PERCENTILES: Final = {"p50": 500, "p90": 900, "p99": 990, "p999": 999}  # per mille
HOUR_S: Final = 3600
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


def hour() -> Column:
    """Return when the hour began in which a record is, as ``began``: rollups are made by it."""
    return beginning(HOUR_S).alias("began")


def identity(*names: str) -> Column:
    """Return a number that stands for these columns, null or not: equal for equal ones alone, but for rare chance.

    Columns that are compared by it have the same types. Spark sorts by it in a fraction of the time that it takes to
    compare the columns themselves.
    """
    return f.xxhash64(*names, *(f.col(name).isNull() for name in names))


def gathered(rows: DataFrame) -> DataFrame:
    """Return rows with all of an hour, ``began``, in one partition.

    What is then grouped by ``began`` and more needs no further shuffle, and is written as one file for each hour.
    """
    return rows.repartition("began")


def placed(rows: DataFrame, key: Iterable[str], *names: str) -> DataFrame:
    """Return rows with what `ranked` needs of each value: how much weight its group has up to it, and in all.

    ``names`` are columns with values; ``weight`` is a column with what each row stands for. Rows are sorted by group
    and value: Spark sorts what does not fit into memory on disk, so a group may have any number of rows. The column
    that differs most comes first in ``key``: Spark compares the first eight bytes of a row without reading the rest.
    """
    same = Window.partitionBy(*key)
    for name in names:
        counted = f.sum(f.when(f.col(name).isNotNull(), f.col("weight")).otherwise(0))
        ordered = same.orderBy(name)
        rows = rows.select(
            "*",
            counted.over(ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)).alias(f"{name}_upto"),
            counted.over(ordered.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)).alias(
                f"{name}_all"
            ),
        )
    return rows


def ranked(name: str, percentiles: Iterable[str] = PERCENTILES) -> list[Column]:
    """Return aggregates of placed rows: the number of messages, and nearest-rank percentiles.

    A percentile is the least value that so many messages do not exceed, null without any message.
    """
    found = (nearest(name, PERCENTILES[one]).alias(f"{name}_{one}") for one in percentiles)
    return [f.coalesce(f.max(f"{name}_all"), f.lit(0)).alias(f"{name}_n"), *found]


def nearest(name: str, per_mille: int) -> Column:
    """Return the aggregate of placed rows that is the least value which so many of a thousand do not exceed."""
    return f.min(f.when(reached(name, per_mille), f.col(name)))


def reached(name: str, per_mille: int) -> Column:
    """Return whether so many of a thousand messages do not exceed the value of a placed row.

    The rank from 1 is exact, as the sum is far from 2**53.
    """
    upto = f.col(f"{name}_upto")
    return (upto > 0) & (upto >= f.floor((f.col(f"{name}_all") * per_mille + 999) / 1000))


def bucket(column: str) -> Column:
    """Return the logarithmic bucket of a duration; null for null."""
    return f.floor(f.log2(f.greatest(f.col(column), f.lit(1)).cast("double")) * BUCKETS).cast("int")


def origin() -> Column:
    """Return the router at which a message entered the network, as far as its path is known."""
    return f.coalesce(f.substring_index("path", ">", 1), f.col("router_id"))

"""Values of all time, condensed: those around each percentile stay, and the others become a few rows.

A nearest-rank percentile of all time is one of very many values, and which one changes little from hour to hour. So a
range of values around each stays as it is (`ranks`). Of the values between two ranges one row is left, ``many``: the
least of them, with the weight of all. Condensed values are condensed again by the same ranges, together with new ones.
A percentile of condensed values is exact unless it is a row of many, which `ranks` says.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from pipeline.tables.measures import PERCENTILES, nearest, placed, ranked, reached

# Per mille of the weight on either side of a percentile that stay. An hour in which all messages were slower than that
# moves the median of a day by 21, and the others by more; it mostly moves them by little.
REACH: Final = {"p50": 30, "p90": 18, "p99": 6}

LEAST: Final = 1000  # values of a group that has ranges; percentiles of fewer move far


class Values(NamedTuple):
    """Columns of rows with ``began`` and ``weight``: the value, the group, and which percentiles a group has."""

    group: str
    value: str
    percentiles: tuple[str, ...]

    def range(self, percentile: str) -> tuple[str, str]:
        """Return the names of the ends of a range."""
        return f"{percentile}_low", f"{percentile}_high"


def ranks(rows: DataFrame, of: Values) -> DataFrame:
    """Return one row for each group: least value, number of messages, percentiles, and the range around each if it has
    many values.

    ``many`` says that a percentile is not exact. Then no range is one either.
    """
    enough = f.count(of.value) >= LEAST
    reaches = (
        f.when(enough, nearest(of.value, PERCENTILES[one] + shift)).alias(name)
        for one in of.percentiles
        for name, shift in zip(of.range(one), (-REACH[one], REACH[one]), strict=True)
    )
    of_many = (
        f.min(f.when(reached(of.value, PERCENTILES[one]), f.struct(of.value, "many")))["many"] for one in of.percentiles
    )
    return (
        placed(rows, [of.group], of.value)
        .groupBy(of.group)
        .agg(
            f.min(of.value).alias("least"),
            *ranked(of.value, of.percentiles),
            f.coalesce(_any(of_many), f.lit(False)).alias("many"),
            *reaches,
        )
    )


def condensed(rows: DataFrame, ranges: DataFrame, of: Values) -> DataFrame:
    """Return the values of each day, condensed by the ranges of `ranks`; those of groups that have none all stay."""
    ends = [of.range(one) for one in of.percentiles]
    value = f.col(of.value)
    near = f.col(ends[0][0]).isNull() | _any(value.between(f.col(low), f.col(high)) for low, high in ends)
    place = reduce(Column.__add__, ((value > f.col(high)).cast("int") for _, high in ends))
    return (
        rows.join(f.broadcast(ranges.select(of.group, *(name for both in ends for name in both))), [of.group], "left")
        .groupBy(
            f.date_trunc("day", "began").alias("began"),
            of.group,
            near.alias("near"),
            f.when(near, value).otherwise(place).alias("at"),
        )
        .agg(
            f.min(value).alias(of.value),
            f.sum("weight").alias("weight"),
            (f.max("many") | (f.min(value) != f.max(value))).alias("many"),
        )
        .drop("near", "at")
    )


def _any(conditions: Iterable[Column]) -> Column:
    return reduce(Column.__or__, conditions)

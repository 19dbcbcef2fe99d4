"""The sums of days: what hours add up to, kept so that a run adds only the hours that are new.

The sum of a day is made of one rollup. A run adds hours that the day did not have, once they are enough, and makes the
day anew if one of its hours has other records or is gone. What waits for the other hour at the end of an hour
(`pipeline.tables.paths`) waits in the sum until the day has both hours, and from day to day until a table is made.

Percentiles do not add up: a sum of values is condensed by ranges (`pipeline.tables.ranges`). If a percentile has left
its range, or as many hours were added as the ranges were made of, ranges and sums are made anew from all hours.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, StructField, StructType

from pipeline.files import literal
from pipeline.flow_log.hours import HOUR_US, number
from pipeline.hourly import LITTLE, SMALL, Hourly
from pipeline.output.rollups import Day, Sum, below, size
from pipeline.session import uncompiled
from pipeline.tables import conversations, endpoints, flows, paths
from pipeline.tables.ranges import Values, condensed, ranks

ENOUGH: Final = 1 << 20  # bytes of hours that are added to days; fewer are read each time


class Summing(NamedTuple):
    """How rows of a rollup, and of former sums, become a sum.

    ``whole`` puts together what waits for another hour. Then ``add`` adds up, or else they are values, and condensed.
    """

    rollup: str
    whole: Callable[[DataFrame], DataFrame]
    add: Callable[[DataFrame], DataFrame] | None = None
    values: Values | None = None


def _alike(rows: DataFrame) -> DataFrame:
    """Return rows of which none waits."""
    return rows


SUMS: Final = {
    "flows": Summing("flows", _alike, flows.daily),
    "endpoints": Summing("endpoints", endpoints.whole_sets, endpoints.daily),
    "transits": Summing("passages", paths.transits, values=paths.TRANSITS),
    "times": Summing("trips", paths.whole_trips, values=paths.TIMES),
    "followed": Summing("trips", paths.whole_trips, conversations.daily),
}


def summed(rows: DataFrame, of: Summing, ends: Iterable[int], ranges: DataFrame | None = None) -> DataFrame:
    """Return what rows add up to by day. Rows that wait for another hour stay as they are.

    ``ends`` are ends of hours of which the rows have both hours, in µs since 1970: nothing waits there any more.
    """
    waits = f.lit(False)
    if "edge" in rows.columns:
        waits = f.col("edge").isNotNull() & ~f.unix_micros("edge").isin(list(ends))
    done = of.whole(rows.where(~waits))
    if of.add is not None:
        done = of.add(done)
    if of.values is not None and ranges is not None:
        done = condensed(done, ranges, of.values)
    return done.unionByName(rows.where(waits), allowMissingColumns=True)


class Daily:
    """The sums of the days of hours that are wanted."""

    def __init__(self, hours: Hourly) -> None:
        self._hours = hours
        self._output = hours.made.output
        self._kept = hours.kept
        self._read: dict[str, int] = {}  # bytes
        self._schemas: dict[str, StructType] = {}  # of `ranks`

    def read(self, name: str) -> DataFrame:
        """Return the sum of all hours that are wanted: rows of days and hours, or of values a row of `ranks` a group.

        What is in the sum of a day already is not read again, unless the ranges are made anew.
        """
        of = SUMS[name]
        digests = self._kept.digests(of.rollup, self._hours.wanted)
        had = self._kept.sums.get(name, Sum())
        days = {day: one for day, one in had.days.items() if one.hours.items() <= digests.items()}
        lacking = sorted(digests.keys() - {hour for one in days.values() for hour in one.hours})
        self._kept.sums[name] = had = replace(had, days=days)
        much = self._kept.size(of.rollup, lacking) > ENOUGH
        if of.values is None:
            if much:
                self._add(name, lacking, digests)
            return self._rows(name)
        if not much or (had.ranges and had.since + len(lacking) < had.made_of):
            if much:
                self._add(name, lacking, digests)
                had.since += len(lacking)
            found = self._ranked(name)
            if not self._many(found):
                return self._ranks(name, found)
        self._kept.sums[name] = Sum()
        found = self._ranked(name, "_anew")
        self._kept.sums[name] = Sum({}, found, made_of=len(digests))
        self._add(name, sorted(digests), digests, "_anew")
        return self._ranks(name, found)

    def bytes(self, names: Iterable[str]) -> int:
        """Return how much there is to read of sums; `ranks` are few."""
        return sum(self._read[name] for name in names if SUMS[name].values is None)

    def _add(self, name: str, hours: list[str], digests: Mapping[str, str], mark: str = "") -> None:
        """Add hours to the sums of their days."""
        of, had, directory = SUMS[name], self._kept.sums[name], f"{self._hours.made.rollup}/sum_{name}{mark}"
        more: dict[str, dict[str, str]] = {hour[:10]: {} for hour in hours}
        for day in more.keys() & had.days.keys():
            more[day].update(had.days[day].hours)
        for hour in hours:
            more[hour[:10]][hour] = digests[hour]
        before = [path for day in more if day in had.days for path in had.days[day].files]
        read = self._kept.size(of.rollup, hours) + size(self._output, before)
        ranges = self._ranks(name, had.ranges) if had.ranges else None
        found = summed(self._both(name, hours, before), of, _ends(more.values()), ranges)
        found = found.withColumn("date", f.date_format("began", "yyyy-MM-dd"))
        found = found.coalesce(1) if read <= SMALL else found.repartition("date")
        with uncompiled(self._hours.spark, read <= LITTLE):
            found.write.partitionBy("date").parquet(self._output.url(self._output.path(directory)))
        written: dict[str, list[str]] = defaultdict(list)
        for path in sorted(below(self._output, directory)):
            written[path.split("/")[2].partition("=")[2]].append(path)
        had.days |= {day: Day(more[day], written[day]) for day in more}

    def _rows(self, name: str) -> DataFrame:
        """Return what days have of a sum, and the hours that are in none."""
        of, days = SUMS[name], self._kept.sums[name].days.values()
        there = {hour for one in days for hour in one.hours}
        hours = [hour for hour in self._hours.wanted if hour not in there]
        files = [path for one in days for path in one.files]
        self._read[name] = self._kept.size(of.rollup, hours) + size(self._output, files)
        rows = self._both(name, hours, files)
        return rows.coalesce(1) if self._read[name] <= SMALL else rows

    def _both(self, name: str, hours: list[str], files: list[str]) -> DataFrame:
        """Return the rows of a rollup and those in files of a sum of it, which has the same columns; others are null.

        Of values ``many`` says that a row stands for several.
        """
        of = SUMS[name]
        more = [] if of.values is None else [StructField("many", BooleanType())]
        return self._hours.rows(of.rollup, [*self._urls(files), *self._kept.files(of.rollup, hours)], more)

    def _ranked(self, name: str, mark: str = "") -> list[str]:
        """Write the `ranks` of a sum, and return their files."""
        directory = f"{self._hours.made.rollup}/ranks_{name}{mark}"
        found = _ranks(SUMS[name], self._rows(name))
        self._schemas[name] = found.schema
        with uncompiled(self._hours.spark, self._read[name] <= LITTLE):
            found.write.parquet(self._output.url(self._output.path(directory)))
        return below(self._output, directory)

    def _many(self, files: Iterable[str]) -> bool:
        """Return whether a percentile is not exact."""
        for path in files:
            with self._output.files.open_input_file(self._output.path(path)) as file:
                if pc.any(pq.ParquetFile(file).read(["many"])["many"]).as_py():
                    return True
        return False

    def _ranks(self, name: str, files: Iterable[str]) -> DataFrame:
        if name not in self._schemas:
            self._schemas[name] = _ranks(SUMS[name], self._both(name, [], [])).schema
        return self._hours.spark.read.schema(self._schemas[name]).parquet(*map(literal, self._urls(files))).coalesce(1)

    def _urls(self, files: Iterable[str]) -> list[str]:
        return [self._output.url(self._output.path(path)) for path in files]


def _ranks(of: Summing, rows: DataFrame) -> DataFrame:
    if of.values is None:
        raise ValueError(f"the sum of {of.rollup} has no values")
    return ranks(of.whole(rows), of.values)


def _ends(days: Iterable[Iterable[str]]) -> list[int]:
    """Return the ends of hours within these days of which both hours are there, in µs since 1970."""
    hours = [{number(hour, hour) for hour in day} for day in days]
    return [hour * HOUR_US for day in hours for hour in sorted(day) if hour - 1 in day]

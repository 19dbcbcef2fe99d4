"""The rollups of hours: what a run computes once of each hour, and every table of results is made from.

A rollup depends on the records of its hour alone. Records that belong together and are of two hours (`paths`) therefore
wait in the rollups of both.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from typing import Any, Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from pipeline.errors import PipelineError, UnusableError
from pipeline.files import literal
from pipeline.flow_log.hours import HOUR_US, Hour, Period, dropped, hours_of, lone, number, text, within
from pipeline.flow_log.records import FLOW, KEY, read_log
from pipeline.flow_log.survey import Survey
from pipeline.output.generations import Generation, last_said
from pipeline.output.results import write_rollup
from pipeline.output.rollups import MANIFEST, Rollups
from pipeline.record_sets import Records, Seen, covers
from pipeline.session import uncompiled
from pipeline.tables import anomalies, capacity, endpoints, flows, latencies, paths, traffic
from pipeline.tables.adding import ADDED

# A rollup that was computed otherwise is computed again: whoever changes what one means raises the version.
VERSION: Final = "routerd.rollups.v7"
SMALL: Final = 4 << 20  # bytes of a rollup that one task reads sooner than Spark shuffles them
LITTLE: Final = 1 << 19  # bytes of rollups that Spark takes sooner without code of its own

Tell = Callable[[str], None]


class Rollup(NamedTuple):
    """How a rollup is made of records, and which of its columns says the hour.

    Spark writes a file for each partition and hour: the rows of an hour are in one (`gathered`), or few.
    """

    make: Callable[[DataFrame], DataFrame]
    time: str = "began"


ROLLUPS: Final = {
    "minutes": Rollup(capacity.minutes, "minute"),
    "flows": Rollup(flows.hourly),
    "traffic": Rollup(traffic.traffic, "minute"),
    "latencies": Rollup(latencies.latencies, "quarter"),
    "quarters": Rollup(anomalies.observed, "quarter"),
    "endpoints": Rollup(endpoints.endpoint_sets),
    "passages": Rollup(paths.passages),
    "trips": Rollup(paths.trips),
}
# All columns that rollups need of the log.
_MAKERS: Final = (anomalies, capacity, endpoints, flows, latencies, paths, traffic)
NEEDS: Final = sorted({*KEY}.union(*(one.NEEDS for one in _MAKERS)))
FEW: Final = 50_000  # records that Spark takes sooner without code of its own
RANGES: Final = "router_id string, boot_id string, worker_id smallint, first long, last long"
AT_ONCE: Final = 4_000_000  # records that are kept in Spark while rollups are made of them


@dataclass
class Hourly:
    """The rollups of hours that are wanted, in an output in which results are being made.

    ``hours`` are those of the ``log``, and ``known`` is what the next run need not read of it. ``places`` says by path
    where a file is to be read instead. ``lasting`` are records of hours whose rollups contain what the log has no
    longer (`Rollups.take`), and ``rollups`` those to which what is new is added then. ``seen`` are all records that
    are known, also of other days; without it, those of all hours. With ``once`` Spark reads each file once, and keeps
    the records until all rollups are made.
    """

    spark: SparkSession
    log: Survey
    made: Generation
    places: Mapping[str, str]
    kept: Rollups
    hours: Mapping[str, Hour]
    known: Any
    wanted: list[str]
    lasting: Mapping[str, Records] = field(default_factory=dict)
    rollups: Collection[str] = field(default_factory=list)
    seen: Seen | None = None
    once: bool = False
    computed: set[str] = field(default_factory=set)
    _schemas: dict[str, StructType] = field(default_factory=dict, init=False)  # of rollups, which Spark need not read
    _logs: dict[tuple[str, ...], DataFrame] = field(default_factory=dict, init=False)  # of hours

    @classmethod
    def of_log(
        cls, spark: SparkSession, log: Survey, made: Generation, places: Mapping[str, str], period: Period
    ) -> "Hourly":
        """Return those of a log as it is, within a period. Raises ``PipelineError`` if it has no record then."""
        kept = Rollups(made.output, made.former, VERSION)
        numbered, known = hours_of(log, places, kept.known)
        hours = {text(number): one for number, one in numbered.items()}
        kept.keep({name: one.numbers for name, one in hours.items()})
        wanted = [text(number) for number in numbered if number in period]
        if hours and not wanted:
            first, last = min(hours), max(hours)
            raise PipelineError(f"no record is in these hours: the log has hours from {first} to {last} (UTC)")
        return cls(spark, log, made, places, kept, hours, known, wanted)

    @classmethod
    def of_day(
        cls, spark: SparkSession, log: Survey, made: Generation, places: Mapping[str, str],
        hours: Mapping[str, Hour], known: Any, *, wanted: Collection[str], seen: Seen,
    ) -> "Hourly":  # fmt: skip
        """Return those of a day of a log, its ``hours``: what former runs had of it and the log has no longer, too.

        ``wanted`` are rollups; new records are not added to the others, which go. ``seen`` are the records of all
        days. Raises ``UnusableError`` if rollups
        are gone, and the log has no longer all of their records.
        """
        kept = Rollups(made.output, made.former, VERSION)
        there = sum(one[-1] for hour in hours.values() for one in hour.numbers)
        if not kept.hours and last_said(made.output, "records") > there:
            raise UnusableError(
                f"{made.output.directory}: the list of what this day is made of is gone ({made.former}/{MANIFEST}), "
                "and the log has no longer all its records: move this directory away to compute from what the log has, "
                "or give another --output"
            )
        lasting = kept.take({name: one.numbers for name, one in hours.items()})
        for hour, one in kept.hours.items():
            if set(wanted) - one.files.keys() and not (hour in hours and covers(hours[hour].numbers, one.records)):
                raise UnusableError(
                    f"{made.output.directory}: rollups of the hour {hour} are gone, were not among --tables, or are of "
                    "another version of routerd, and the log has no longer all of its records: move this directory "
                    "away to compute from what the log has, or give another --output"
                )
        return cls(spark, log, made, places, kept, hours, known, sorted(kept.hours), lasting, wanted, seen, once=True)

    def lacking(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Return which of these rollups hours lack, and which hours."""
        missing = {name: self.kept.missing(name, self.wanted) for name in names}
        return {name: hours for name, hours in missing.items() if hours}

    def compute(self, lacking: Mapping[str, list[str]], tell: Tell) -> None:
        """Compute rollups of hours that lack them."""
        for hours, some in groupby(lacking, key=lambda name: lacking[name]):
            names = list(some)
            for step in self._steps(hours):
                with self._records(step) as log:
                    few = self._number(step) <= FEW
                    for name in names:
                        with uncompiled(self.spark, few):
                            self._write(name, step, ROLLUPS[name].make(log))
                        tell(f"{name} of {len(step)} hour{'s' if len(step) > 1 else ''}")
        for hour, had in self.lasting.items():
            with self._records([hour]) as log:
                fresh = without(log, had)
                self.kept.forget(hour, self.rollups)
                for name in self.rollups:
                    before = self.rows(name, self.kept.files(name, [hour]))
                    self._write(name, [hour], ADDED[name](before.unionByName(ROLLUPS[name].make(fresh))))

    def _steps(self, hours: list[str]) -> list[list[str]]:
        """Return hours in steps; those for which records are kept have a bounded number of these, or one hour."""
        if not self.once:
            return [hours]
        steps: list[list[str]] = []
        room = 0
        for hour in hours:
            records = self._number([hour])
            if records > room:
                steps.append([])
                room = AT_ONCE
            steps[-1].append(hour)
            room -= records
        return steps

    def _number(self, hours: list[str]) -> int:
        """Return how many records hours have."""
        return sum(one[-1] for hour in hours for one in self.hours[hour].records)

    def _write(self, name: str, hours: list[str], rows: DataFrame) -> None:
        directory = self.made.output.path(f"{self.made.rollup}/{name}")
        rollup = ROLLUPS[name]
        self._schemas[name] = rows.schema
        write_rollup(rows, rollup.time, self.made.output.url(directory))
        self.kept.add(name, hours, self.made.rollup)
        self.computed.update(hours)

    @contextmanager
    def _records(self, hours: list[str]) -> Iterator[DataFrame]:
        """Give the records of these hours, each once."""
        if not self.once:
            if tuple(hours) not in self._logs:
                self._logs[tuple(hours)] = self._of(hours)
            yield self._logs[tuple(hours)]
            return
        taken = self._of(hours).select(*NEEDS).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield taken
        finally:
            taken.unpersist()

    def _of(self, hours: list[str]) -> DataFrame:
        part = within(self.log, [self.hours[name] for name in hours])
        log = read_log(self.spark, part, self.places)
        numbers = {number(name, name) for name in hours}
        if numbers.issuperset(lone(file) for file in (*part.clean, *part.tangled)):
            return log
        return log.where(reduce(Column.__or__, map(_between, _runs(numbers))))

    def read(self, name: str) -> DataFrame:
        """Return a rollup of all hours that are wanted."""
        rows = self.rows(name, self.kept.files(name, self.wanted))
        return rows.coalesce(1) if self.bytes([name]) <= SMALL else rows

    def bytes(self, names: Iterable[str]) -> int:
        """Return how large these rollups are in the hours that are wanted."""
        return sum(self.kept.size(name, self.wanted) for name in names)

    def rows(self, name: str, files: list[str], more: Iterable[StructField] = ()) -> DataFrame:
        """Return the rows of a rollup in these files, as Spark calls them, with ``more`` columns if they have these."""
        if name not in self._schemas:
            self._schemas[name] = ROLLUPS[name].make(self.spark.createDataFrame([], FLOW)).schema
        schema = StructType([*self._schemas[name], *more])
        if not files:
            return self.spark.createDataFrame([], schema)
        return self.spark.read.schema(schema).parquet(*map(literal, files))

    def lost(self) -> int:
        """Return how many records are missing in these hours, by their numbers.

        Numbers follow each other as messages end, and hours by when they came: some numbers are of other hours.
        """

        def of(hours: Iterable[str]) -> Records:
            return [one for hour in hours for one in self.kept.hours[hour].records]

        if self.seen is None:
            self.seen = Seen()
            self.seen.add(of(self.kept.hours))
        return self.seen.missing(of(self.wanted))

    def dropped(self) -> int:
        """Return how many records had no room in these hours, as their routers report."""
        part = within(self.log, [self.hours[hour] for hour in self.wanted if hour in self.hours])
        return dropped(self.log, part, self.wanted[0]) if self.wanted else 0

    def manifest(self) -> str:
        """Return what the next run has to know."""
        return self.kept.text(self.known)


def without(log: DataFrame, had: Records) -> DataFrame:
    """Return the records that are none of these, which may be in any number of ranges."""
    ranges = log.sparkSession.createDataFrame([one[:-1] for one in had], RANGES)
    same = [log[name] == ranges[name] for name in ("router_id", "boot_id", "worker_id")]
    return log.join(f.broadcast(ranges), [*same, log.seq.between(ranges["first"], ranges["last"])], "left_anti")


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and last of numbers that follow each other."""
    runs: list[tuple[int, int]] = []
    for one in sorted(numbers):
        runs[-1:] = [(runs[-1][0], one)] if runs and runs[-1][1] == one - 1 else [*runs[-1:], (one, one)]
    return runs


def _between(run: tuple[int, int]) -> Column:
    first, last = (f.timestamp_micros(f.lit(number * HOUR_US)) for number in (run[0], run[1] + 1))
    return (f.col("ts") >= first) & (f.col("ts") < last)

"""The rollups of hours: what a run computes once of each hour, and every table of results is made from.

A rollup depends on the records of its hour alone. Records that belong together and are of two hours (`paths`) therefore
wait in the rollups of both.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from pipeline.errors import PipelineError
from pipeline.flow_log.hours import HOUR_US, Hour, Period, hours_of, text, within
from pipeline.flow_log.records import FLOW, read_log
from pipeline.flow_log.survey import Survey
from pipeline.output.generations import Generation
from pipeline.output.results import write_rollup
from pipeline.output.rollups import Rollups
from pipeline.plan import endpoint_sets
from pipeline.tables import anomalies, capacity, flows, latencies, paths, traffic

# A rollup that was computed otherwise is computed again: whoever changes what one means raises the version.
VERSION: Final = "routerd.rollups.v2"

Tell = Callable[[str], None]


class Rollup(NamedTuple):
    """How a rollup is made of records, and which of its columns says the hour.

    Spark writes a file for each partition and hour: ``gathered`` says that the rows of an hour are in one already.
    """

    make: Callable[[DataFrame], DataFrame]
    time: str = "began"
    gathered: bool = False


ROLLUPS: Final = {
    "minutes": Rollup(capacity.minutes, "minute"),
    "flows": Rollup(flows.hourly),
    "traffic": Rollup(traffic.traffic, "minute"),
    "latencies": Rollup(latencies.latencies, "quarter"),
    "quarters": Rollup(anomalies.observed, "quarter"),
    "endpoints": Rollup(endpoint_sets),
    "passages": Rollup(paths.passages, gathered=True),
    "trips": Rollup(paths.trips, gathered=True),
}


@dataclass
class Hourly:
    """The rollups of a log, in the output of a run that is being made; ``period`` are the hours that are wanted.

    ``places`` says by path where a file is to be read instead.
    """

    spark: SparkSession
    log: Survey
    made: Generation
    places: Mapping[str, str]
    period: Period
    computed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._kept = Rollups(self.made.output, self.made.former, VERSION)
        self._hours, self._known = hours_of(self.log, self.places, self._kept.known)
        self._by_text: dict[str, tuple[int, Hour]] = {
            text(number): (number, one) for number, one in self._hours.items()
        }
        self._kept.keep({name: one.sums for name, (_, one) in self._by_text.items()})
        self.wanted = [name for name, (number, _) in self._by_text.items() if number in self.period]
        if self._by_text and not self.wanted:
            first, last = min(self._by_text), max(self._by_text)
            raise PipelineError(f"no record is in these hours: the log has hours from {first} to {last} (UTC)")

    def lacking(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Return which of these rollups hours lack, and which hours."""
        missing = {name: self._kept.missing(name, self.wanted) for name in names}
        return {name: hours for name, hours in missing.items() if hours}

    def compute(self, lacking: Mapping[str, list[str]], tell: Tell) -> None:
        """Compute rollups of hours that lack them."""
        for hours, some in groupby(lacking, key=lambda name: lacking[name]):
            log = self._records(hours)
            for name in some:
                self._compute(name, hours, log)
                tell(f"{name} of {len(hours)} hour{'s' if len(hours) > 1 else ''}")

    def _compute(self, name: str, hours: list[str], log: DataFrame) -> None:
        directory = self.made.output.path(f"{self.made.rollup}/{name}")
        rollup = ROLLUPS[name]
        rows = rollup.make(log)
        by_hour = rows if rollup.gathered else rows.repartition(f.date_trunc("hour", rollup.time))
        write_rollup(by_hour, rollup.time, self.made.output.url(directory))
        self._kept.add(name, hours, self.made.rollup)
        self.computed.update(hours)

    def _records(self, hours: list[str]) -> DataFrame:
        """Return the records of these hours, each once."""
        chosen = [self._by_text[name] for name in hours]
        part = within(self.log, [one for _, one in chosen])
        log = read_log(self.spark, part, self.places)
        numbers = {number for number, _ in chosen}
        paths = {file.path for file in (*part.clean, *part.tangled)}
        others = {
            number for number, one in self._hours.items() if any(file.path in paths for file in one.files)
        } - numbers
        return log.where(reduce(Column.__or__, map(_between, _runs(numbers)))) if others else log

    def read(self, name: str) -> DataFrame:
        """Return a rollup of all hours that are wanted."""
        schema = ROLLUPS[name].make(self.spark.createDataFrame([], FLOW)).schema
        files = self._kept.files(name, self.wanted)
        return self.spark.read.schema(schema).parquet(*files) if files else self.spark.createDataFrame([], schema)

    def manifest(self) -> str:
        """Return what the next run has to know."""
        return self._kept.text(self._known)


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and last of numbers that follow each other."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        runs[-1:] = [(runs[-1][0], number)] if runs and runs[-1][1] == number - 1 else [*runs[-1:], (number, number)]
    return runs


def _between(run: tuple[int, int]) -> Column:
    first, last = (f.timestamp_micros(f.lit(number * HOUR_US)) for number in (run[0], run[1] + 1))
    return (f.col("ts") >= first) & (f.col("ts") < last)

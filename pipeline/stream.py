"""The stream: a run again and again, for the days of a growing log that have new records.

A batch looks at the files that are new, and finds the hours of their records. It computes rollups of these hours,
anew where they had some, makes all tables of their days and publishes each day as a run does (`pipeline.batch.make`).
So every day is as a run over it would be, and a stream that is killed does the same batch again.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from pipeline import batch
from pipeline.errors import DeletedError, PipelineError
from pipeline.files import literal
from pipeline.flow_log.holding import Held, places_for
from pipeline.flow_log.hours import Hour, dropped, hours_of, text, within
from pipeline.flow_log.memory import Memory
from pipeline.flow_log.survey import Survey, survey
from pipeline.hourly import VERSION, Hourly
from pipeline.output import days
from pipeline.output.columns import TABLES
from pipeline.output.columns import VERSION as SCHEMA
from pipeline.output.directory import DAY, Output, claimed
from pipeline.output.generations import Generation, begun, last_said, pointed
from pipeline.output.rollups import Rollups
from pipeline.record_sets import Records, Seen, covers
from pipeline.stopping import ending
from pipeline.watermark import Watermarks, moment

EARLIER: Final = 7  # days that findings and capacity compare with
TRIES: Final = 3  # of a batch whose files are deleted while it reads them

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How a stream runs: with ``once`` it takes what is there and ends; ``keep`` is how many days stay."""

    once: bool = False
    every_s: float = 60.0
    delay_s: float = 60.0
    gone_s: float = 900.0
    keep: int = 30


def run(
    spark: SparkSession, source: str, output: Output, recipes: Mapping[str, batch.Recipe], pace: Pace, tell: Tell
) -> None:
    """Keep the results of each day of a log in a claimed output: for ever, or, with ``once``, until nothing is new.

    Raises ``PipelineError`` as a run does, and if files are deleted each time that a batch reads them.
    """
    stream = Stream(spark, source, output, recipes, pace, tell)
    tries = 0
    while True:
        began = time.monotonic()
        try:
            stream.batch()
        except (DeletedError, FileNotFoundError) as error:
            tries += 1
            if tries == TRIES:
                raise
            tell(f"{error}; the next batch reads what is there")
            continue
        tries = 0
        if pace.once:
            return
        time.sleep(max(0.0, began + pace.every_s - time.monotonic()))


class Stream:
    """What a stream knows from one batch to the next; after a start, from the days in its output."""

    def __init__(
        self,
        spark: SparkSession,
        source: str,
        output: Output,
        recipes: Mapping[str, batch.Recipe],
        pace: Pace,
        tell: Tell,
    ) -> None:
        self._spark, self._source, self._output, self._pace, self._tell = spark, source, output, pace, tell
        self._recipes = recipes
        self._memory = Memory()
        self._marks = Watermarks(pace.delay_s, pace.gone_s)
        self._told: set[str] = set()
        self._number = 0
        self._left = True  # the last batch did not come to its end
        self._known: dict[str, Any] = {}
        self._have: dict[str, dict[str, Records]] = {}  # what results are made of, by day and hour
        self._lost: dict[str, int] = {}  # what they say of that
        self._seen = Seen()  # of these, and of the log as the last batch found it
        days.sweep(output)
        for day in days.days(output):
            place = Output(days.of(output, day))
            if not (name := pointed(place)):
                days.remove(output, day)  # its first batch was killed
                continue
            kept = Rollups(place, name, VERSION)
            self._have[day] = {hour: one.records for hour, one in kept.hours.items()}
            self._lost[day] = last_said(place, "lost")
            self._known.update(kept.known)

    def batch(self) -> bool:
        """Take what is new, if there is anything; return whether there was."""
        began = time.monotonic()
        found = survey(self._source, self._memory)
        if not self._memory.changed and not self._left:
            return False
        if self._left:  # what such a batch saw may be in no results
            self._seen = Seen()
            for hours in self._have.values():
                self._seen.add(one for records in hours.values() for one in records)
        self._left = True
        self._once(str(one) for one in found.skipped)
        closed = self._marks.complete_until()
        self._marks.take(found)
        numbered, self._known = hours_of(found, {}, self._known)
        by_day: dict[str, dict[str, Hour]] = defaultdict(dict)
        for number, hour in numbered.items():
            by_day[text(number)[:10]][text(number)] = hour
        first = self._first(by_day)
        done = []
        new = {day: self._new(day, by_day[day]) for day in sorted(by_day)}
        for records in new.values():
            self._seen.add(one for hour in records.values() for one in hour)
        for day, fresh in new.items():
            had = self._have.get(day, {})
            if day < first:
                said = f"records of days before {first} are left out: --keep is {self._pace.keep}"
                self._once([said] if fresh else [])
            elif fresh or self._again(day):
                self._make(day, by_day[day], fresh.keys(), found)
                done.append(_Done(day, set(fresh), had, self._have[day], closed))
        self._remove_before(first)
        self._left = False
        if done:
            self._number += 1
            self._report(done, time.monotonic() - began)
        return bool(done)

    def _new(self, day: str, hours: Mapping[str, Hour]) -> dict[str, Records]:
        """Return the records of the hours of a day of which the results do not have all."""
        had = self._have.get(day, {})
        now = {name: hour.numbers for name, hour in hours.items()}
        return {name: records for name, records in now.items() if not covers(had.get(name, []), records)}

    def _again(self, day: str) -> bool:
        """Return whether fewer records before a day are lost than its results say: some of days before came late."""
        records = [one for hour in self._have.get(day, {}).values() for one in hour]
        return self._seen.missing(records) < self._lost.get(day, 0)

    def _once(self, lines: Iterable[str]) -> None:
        """Tell what was not told before."""
        for line in lines:
            if line not in self._told:
                self._told.add(line)
                self._tell(line)

    def _first(self, by_day: Iterable[str]) -> str:
        """Return the first day that stays."""
        newest = max({*by_day, *self._have}, default="")
        return days.first_kept(newest, datetime.now(UTC).date(), self._pace.keep) if newest else ""

    def _make(self, day: str, hours: Mapping[str, Hour], fresh: Collection[str], found: Survey) -> None:
        """Make the results of a day, whose hours ``fresh`` have new records; ``hours`` is what the log has of it."""
        part = _of_day(found, day, hours)
        here = {file.path for file in (*part.clean, *part.tangled)}
        known = {path: one for path, one in self._known.items() if path in here}
        said = {**self._marks.said(), "dropped": dropped(found, part, min(hours))}
        with claimed(days.of(self._output, day), DAY, self._source) as place, closing(Held(self._source)) as kept:
            reads = within(part, [hours[name] for name in fresh])
            if gone := kept.take([*reads.clean, *reads.tangled]):
                raise DeletedError(f"{gone[0].path} was deleted before it was read ({len(gone)} files)")
            places = places_for(self._spark, kept)
            try:
                with begun(place) as made, ending(self._spark):
                    made_of = Hourly.of_day(
                        self._spark, part, made, places, hours, known,
                        wanted=batch.rollups_of(self._recipes), seen=self._seen,
                    )  # fmt: skip
                    batch.make(made_of, self._recipes, lambda _: None, said, lambda name: self._earlier(name, day))
            except Exception as error:
                raise kept.failed(reads, error) from error
        self._have[day] = {hour: one.records for hour, one in made_of.kept.hours.items()}
        self._lost[day] = made_of.lost()

    def _earlier(self, name: str, day: str) -> DataFrame | None:
        """Return a table of the days before a day, but for those that another version of routerd made."""
        start = (date.fromisoformat(day) - timedelta(days=EARLIER)).isoformat()
        found = []
        for one in sorted(self._have):
            if start <= one < day:
                place = Output(days.of(self._output, one))
                there = Generation(place, pointed(place))
                if there.files(name) and _of_this_version(there):
                    found.append(there.table(name))
        schema = ", ".join(f"`{column}` {kind}" for column, kind in TABLES[name].types.items())
        return self._spark.read.schema(schema).parquet(*map(literal, found)) if found else None

    def _remove_before(self, first: str) -> None:
        going = [one for one in days.days(self._output) if one < first]
        for day in going:
            if not days.remove(self._output, day):
                self._once([f"{days.of(self._output, day)}: what routerd did not make stays"])
            self._have.pop(day, None)
        if going:
            kept = (records for hours in self._have.values() for records in hours.values())
            self._seen.keep({one[:3] for records in kept for one in records})

    def _report(self, done: list["_Done"], took_s: float) -> None:
        of = ", ".join(f"{one.day} ({len(one.fresh)} of {len(one.now)} hours)" for one in done)
        gone = self._marks.gone()
        self._tell(
            f"batch {self._number}: {sum(one.records for one in done):,} records, {sum(one.late for one in done):,} "
            f"late; {of}; {took_s:.1f} s; complete until {moment(self._marks.complete_until()) or '-'}"
            + (f"; gone: {', '.join(f'{one} at {moment(self._marks.newest[one])}' for one in gone)}" if gone else "")
        )


@dataclass(frozen=True, slots=True)
class _Done:
    """What a batch did with a day: hours with new records, and what the results had and have of each hour."""

    day: str
    fresh: set[str]
    had: Mapping[str, Records]
    now: Mapping[str, Records]
    closed: int | None  # µs since 1970: what was complete before

    def _more(self, hours: Iterable[str]) -> int:
        return sum(_count(self.now[hour]) - _count(self.had.get(hour, [])) for hour in hours)

    @property
    def records(self) -> int:
        return self._more(self.fresh)

    @property
    def late(self) -> int:
        """Records of hours that were complete."""
        closed = moment(self.closed) or ""
        return self._more(hour for hour in self.fresh if hour < closed[:13])


def _count(records: Records) -> int:
    return sum(one[-1] for one in records)


def _of_this_version(made: Generation) -> bool:
    with suppress(PipelineError):
        return bool(made.summary().get("schema") == SCHEMA)
    return False


def _of_day(found: Survey, day: str, hours: Mapping[str, Hour]) -> Survey:
    """Return the part of a survey that is of a day; files without records that can be read are by their folder."""

    def here(path: str) -> bool:
        return f"/date={day}/" in path

    return replace(
        within(found, hours.values()),
        copies=[one for one in found.copies if here(one.path)],
        compacted=sum(map(here, found.replaced)),
        skipped=[one for one in found.skipped if here(one.path)],
    )

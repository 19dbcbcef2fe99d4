"""The hours of a log: which records each of them has, by the records' own times.

A file's folder is the hour in which it was begun, so its last records may be of the next hour, and a compacted file has
both. A footer says between which times its records are: only files of several hours are read, four columns of each.
What an hour holds is known by the numbers of its records, so it stays the same when files are compacted or copied.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import PipelineError
from pipeline.files import file_system
from pipeline.flow_log.memory import at_once
from pipeline.flow_log.survey import LogFile, Span, Survey
from pipeline.record_sets import RANGES, Records, united
from shm.contract.flow_log.numbers import COLUMNS as KEY
from shm.contract.flow_log.numbers import Numbers, numbers

HOUR_US: Final = 3_600_000_000
END: Final = (1 << 63) // 1000 // HOUR_US  # hours since 1970; tables have times in ns, which are beyond 64 bits then
FORM: Final = "%Y-%m-%dT%H"
DAY: Final = "%Y-%m-%d"

Split = Mapping[int, Records]  # of a file, by hour


@dataclass(slots=True)
class Hour:
    """What a log has of an hour."""

    files: list[LogFile] = field(default_factory=list)
    records: Records = field(default_factory=list)

    @property
    def numbers(self) -> Records:
        """What is equal for equal records: their numbers by writer, in order, ranges that touch as one."""
        return united(self.records)


def text(hour: int) -> str:
    """Return an hour, counted since 1970, as it is written."""
    return datetime.fromtimestamp(hour * 3600, UTC).strftime(FORM)


def number(written: str, option: str) -> int:
    """Return the number of the hour that an option names. Raises ``PipelineError`` for anything else."""
    for form in (DAY, FORM):
        try:
            moment = datetime.strptime(written, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        if moment.strftime(form) == written:
            return int(moment.timestamp()) // 3600
    raise PipelineError(f"{option} {written} is neither a day, YYYY-MM-DD, nor an hour, YYYY-MM-DDTHH, of UTC")


@dataclass(frozen=True, slots=True)
class Period:
    """The hours from ``since`` on and before ``until``, counted since 1970; None is no bound."""

    since: int | None = None
    until: int | None = None

    @classmethod
    def of(cls, since: str | None, until: str | None) -> "Period":
        """Return the period that two options name. Raises ``PipelineError`` if there is none."""
        first = None if since is None else number(since, "--since")
        end = None if until is None else number(until, "--until")
        if first is not None and end is not None and first >= end:
            raise PipelineError(f"--until {until} is not after --since {since}: no hour is between them")
        return cls(first, end)

    def __contains__(self, hour: int) -> bool:
        """Return whether an hour is in the period."""
        return (self.since is None or hour >= self.since) and (self.until is None or hour < self.until)


EVER: Final = Period()


def hours_of(found: Survey, places: Mapping[str, str], known: Mapping[str, Any]) -> tuple[dict[int, Hour], Any]:
    """Return what a log has of each hour, and what to give as ``known`` the next time.

    ``places`` says by path where a file is to be read instead. ``known`` spares reading the files that were read then.
    """
    files, _ = file_system(found.directory)
    hours: dict[int, Hour] = defaultdict(Hour)
    learned: dict[str, Any] = {}
    unclear: list[LogFile] = []
    for file in (*found.clean, *found.tangled):
        if (only := lone(file)) is not None:
            _add(hours, file, {only: [(*one.writer, one.first, one.last, _size(one)) for one in file.spans]})
        elif (there := known.get(file.path)) and (there["rows"], there["spans"]) == (file.rows, _spans(file)):
            learned[file.path] = there
        elif file.rows:
            unclear.append(file)
    split = at_once(partial(_split, files, places), unclear)
    for file, one in zip(unclear, split, strict=True):
        learned[file.path] = {"rows": file.rows, "spans": _spans(file), "hours": {text(at): one[at] for at in one}}
    by_path = {file.path: file for file in (*found.clean, *found.tangled)}
    for path, one in learned.items():
        _add(hours, by_path[path], {number(at, path): [tuple(row) for row in one["hours"][at]] for at in one["hours"]})
    return dict(sorted(hours.items())), learned


def _add(hours: dict[int, Hour], file: LogFile, split: Split) -> None:
    for hour, records in split.items():
        hours[hour].files.append(file)
        hours[hour].records += records


def lone(file: LogFile) -> int | None:
    """Return the only hour of a file whose footer says everything about its records."""
    if not file.rows or not file.complete or file.times is None:
        return None
    first, last = (time // HOUR_US for time in file.times)
    return _named(first, file) if first == last else None


def _named(hour: int, file: LogFile) -> int:
    """Return an hour. Raises ``PipelineError`` if it is none that tables have."""
    if not 0 <= hour < END:
        raise PipelineError(f"{file.path}: a record has a time before 1970 or after 2262 (`ts`): move the file away")
    return hour


def _size(span: Span) -> int:
    return int(span.last - span.first + 1)


def _spans(file: LogFile) -> str:
    return hashlib.blake2b(json.dumps(file.spans).encode(), digest_size=16).hexdigest()


def _split(files: Any, places: Mapping[str, str], file: LogFile) -> Split:
    """Return the numbers of a file's records by hour; its row groups are read one after the other."""
    found: dict[int, Numbers] = defaultdict(partial(Numbers, RANGES))
    try:
        with files.open_input_file(places.get(file.path, file.path)) as stream:
            parquet = pq.ParquetFile(stream)
            for group in range(parquet.num_row_groups):
                table = parquet.read_row_group(group, columns=["ts", *KEY])
                for hour, rows in _by_hour(table):
                    found[_named(hour, file)].add(numbers(rows))
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        why = str(error).splitlines()[0][:100]
        raise PipelineError(f"{file.path}: its records cannot be read ({why}): move it away") from error
    return {
        hour: [
            (file.router, boot, worker, *one) for (boot, worker), ranges in one_hour.ranges.items() for one in ranges
        ]
        for hour, one_hour in found.items()
    }


def _by_hour(table: Any) -> Iterable[tuple[int, Any]]:
    micros = table["ts"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    hours = pc.divide(micros, HOUR_US)  # towards zero, which is the same from 1970 on
    there = pc.unique(hours).to_pylist()
    for hour in there:
        yield hour, table if len(there) == 1 else table.filter(pc.equal(hours, hour))


def within(found: Survey, hours: Iterable[Hour]) -> Survey:
    """Return the files that have records of these hours, and perhaps of others."""
    wanted = {file.path for hour in hours for file in hour.files}
    clean, tangled = ([one for one in part if one.path in wanted] for part in (found.clean, found.tangled))
    return replace(found, clean=clean, tangled=tangled)


def dropped(found: Survey, part: Survey, start: str) -> int:
    """Return how many records had no room in the hours of a part of a log, the first of which is ``start``.

    Each file says how many there were since its core's start.
    """
    first = number(start, start) * HOUR_US
    before = [one for one in (*found.clean, *found.tangled) if one.times is not None and one.times[1] < first]
    then, now = _most(before), _most([*part.clean, *part.tangled])
    return sum(max(0, most - then.get(life, 0)) for life, most in now.items())


def _most(files: Iterable[LogFile]) -> dict[tuple[str, str], int]:
    most: dict[tuple[str, str], int] = defaultdict(int)
    for file in files:
        for boot, number_of in file.dropped.items():
            most[file.router, boot] = max(most[file.router, boot], number_of)
    return most

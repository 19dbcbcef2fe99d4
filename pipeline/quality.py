"""Checks of the results of a run, for timers and schedulers. They need no Spark, so they take a second.

A check that could not be made is an error, with status 1; one that fails has a status of its own.
"""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import PipelineError
from pipeline.flow_log.hours import number, text
from pipeline.output.columns import differs
from pipeline.output.generations import SUMMARY, Generation
from pipeline.output.rollups import manifest

# By what pyarrow calls the types that Spark writes.
SPARK: Final = {
    "string": "string", "bool": "boolean", "int16": "smallint", "int32": "int", "int64": "bigint", "double": "double",
    "timestamp[us, tz=UTC]": "timestamp", "list<element: string>": "array<string>",
}  # fmt: skip
# Columns whose sums are those of the whole log, by their names in the summary.
SUMS: Final = {
    "traffic": {"records": "records", "messages": "hops", "bytes": "hop_bytes"},
    "flows": {"messages": "hops", "bytes": "hop_bytes", "sent": "messages", "sent_bytes": "bytes"},
}
# What the summary says, by what the values must be; a log without records has no last minute.
SAYS: Final = {
    **dict.fromkeys(("records", "messages", "bytes", "hops", "hop_bytes", "files", "lost", "dropped"), "a number"),
    "skipped": "a list of texts", "first_minute": "a time, or null", "last_minute": "a time, or null",
}  # fmt: skip
NAMED: Final = 3  # hours or files that a line names, and faults of a table that have a line


class Limits(NamedTuple):
    """What is still well: an age of the newest record, a share of lost records, hours without any."""

    max_age_h: float = 2.0
    lost: float = 0.0
    idle: bool = False


class Check(NamedTuple):
    """A check with its exit status if it fails, and how many things it looked at; ``faults`` are sentences."""

    name: str
    status: int
    looked_at: str
    faults: tuple[str, ...]


def checks(found: Generation, limits: Limits, now: datetime) -> list[Check]:
    """Return all checks of a run's results, those of the worst faults first. Raises ``PipelineError`` if torn."""
    said = found.summary()
    for name, what in SAYS.items():
        if name not in said or not _is(said[name], what):
            value = json.dumps(said[name])[:40] if name in said else "nothing"
            raise PipelineError(
                f"{found.root}/{SUMMARY} says {value} as `{name}`, which must be {what}: `routerd pipeline run` makes "
                "the results anew"
            )
    made: tuple[tuple[str, int, str, Callable[[], Iterator[str]]], ...] = (
        ("schema", 10, f"{len(said['tables'])} tables", lambda: _schema(found, said)),
        ("totals", 11, f"{said['records']:,} records", lambda: _totals(found, said)),
        ("gaps", 12, f"{said['files']:,} files", lambda: _gaps(found, said, limits)),
        ("freshness", 13, f"the last minute is {said['last_minute']}", lambda: _freshness(said, limits, now)),
    )
    return [Check(name, status, looked_at, tuple(look())) for name, status, looked_at, look in made]


def _is(value: Any, what: str) -> bool:
    """Return whether a value of the summary is what it must be."""
    if what == "a number":
        return type(value) is int and value >= 0
    if what == "a list of texts":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    try:
        return value is None or bool(datetime.fromisoformat(value))
    except (TypeError, ValueError):
        return False


def _schema(found: Generation, said: dict[str, Any]) -> Iterator[str]:
    for name in said["tables"]:
        if why := table_differs(found, name):
            yield f"the table {name} is not as routerd writes it: {why}"


def table_differs(found: Generation, name: str) -> str:
    """Return how the columns of a table of a run differ from those declared, or which file is damaged; "" if not."""
    for part in found.files(name):
        try:
            with found.output.files.open_input_file(part) as file:
                schema = pq.read_schema(file)
        except (OSError, pa.ArrowException) as error:
            return damaged(part, error)
        types = {field.name: SPARK.get(kind := _plain(field.type), kind) for field in schema}
        if why := differs(name, types):
            return why
    return ""


def damaged(part: str, error: Exception) -> str:
    """Return the sentence that a file cannot be read, with the first line of the error."""
    return f"{part} cannot be read: {(str(error).splitlines() or [type(error).__name__])[0][:100]}"


def _plain(kind: pa.DataType) -> str:
    """Return the name of a type, whether its elements may be null or not."""
    return str(kind).replace(" not null", "")


def _totals(found: Generation, said: dict[str, Any]) -> Iterator[str]:
    for name, sums in SUMS.items():
        if name not in said["tables"]:
            continue
        there = dict.fromkeys(sums, 0)
        wrong = []
        for part in found.files(name):
            try:
                with found.output.files.open_input_file(part) as file:
                    parquet = pq.ParquetFile(file)
                    wrong += [f"{part} has no column {one}" for one in sums if one not in parquet.schema_arrow.names]
                    rows = parquet.read(columns=[one for one in sums if one in parquet.schema_arrow.names])
                for column in rows.column_names:
                    there[column] += pc.sum(rows[column].cast(pa.decimal128(38)), min_count=0).as_py()
                    if nulls := rows[column].null_count:
                        wrong.append(f"{part} has no value of {column} in {_counted(nulls, 'row')}")
            except (OSError, pa.ArrowException) as error:
                wrong.append(damaged(part, error))
        if wrong:
            yield from (f"the table {name} does not add up: {one}" for one in wrong[:NAMED])
            if len(wrong) > NAMED:
                yield f"the table {name} does not add up: {_counted(len(wrong) - NAMED, 'more fault')}"
            continue
        for column, total in sums.items():
            if there[column] != said[total]:
                yield f"the table {name} has {int(there[column]):,} {column}, and the log {said[total]:,}"


def _gaps(found: Generation, said: dict[str, Any], limits: Limits) -> Iterator[str]:
    if said["lost"] > limits.lost * (said["records"] + said["lost"]):
        yield f"{_counted(said['lost'], 'record')} missing between others, by their numbers"
    if said["dropped"] > limits.lost * (said["records"] + said["dropped"]):
        yield f"the routers had no room for {_counted(said['dropped'], 'record')}"
    if said["skipped"]:
        yield f"{_counted(len(said['skipped']), 'file')} left out: {_some(said['skipped'])}"
    if (silent := _silent(found, said)) and not limits.idle:
        some = islice((text(hour) for hours in silent for hour in hours), NAMED + 1)
        yield f"{_counted(sum(map(len, silent)), 'hour')} without a record: {_some(list(some))}"


def _silent(found: Generation, said: dict[str, Any]) -> list[range]:
    """Return the hours without a record between those of the results; the log may have others before and after."""
    if said["first_minute"] is None or said["last_minute"] is None:
        return []
    first, last = (said[name][:13].replace(" ", "T") for name in ("first_minute", "last_minute"))
    known = manifest(found.output, found.name).get("hours", {})
    hours = sorted(number(hour, found.name) for hour in known if first <= hour <= last)
    return [range(one + 1, other) for one, other in pairwise(hours) if other - one > 1]


def _freshness(said: dict[str, Any], limits: Limits, now: datetime) -> Iterator[str]:
    if said["last_minute"] is None:
        yield "the log has no record"
        return
    age_h = (now - datetime.fromisoformat(said["last_minute"]).replace(tzinfo=UTC)).total_seconds() / 3600
    if age_h > limits.max_age_h:
        yield f"the newest record is {age_h:.1f} hours old, more than {limits.max_age_h:g}"
    elif -age_h > limits.max_age_h:
        yield f"the newest record is {-age_h:.1f} hours in the future: the clock of a router, or this one, is wrong"


def _counted(number: int, one: str) -> str:
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")

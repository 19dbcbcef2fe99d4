"""Checks of the results of a run, for timers and schedulers. They need no Spark, so they take a second.

A check that could not be made is an error, with status 1; one that fails has a status of its own.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.flow_log.hours import number, text
from pipeline.output.columns import differs
from pipeline.output.generations import Generation
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
NAMED: Final = 3  # hours or files that a line names


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
    made: tuple[tuple[str, int, str, Callable[[], Iterator[str]]], ...] = (
        ("schema", 10, f"{len(said['tables'])} tables", lambda: _schema(found, said)),
        ("totals", 11, f"{said['records']:,} records", lambda: _totals(found, said)),
        ("gaps", 12, f"{said['files']:,} files", lambda: _gaps(found, said, limits)),
        ("freshness", 13, f"the last minute is {said['last_minute']}", lambda: _freshness(said, limits, now)),
    )
    return [Check(name, status, looked_at, tuple(look())) for name, status, looked_at, look in made]


def _schema(found: Generation, said: dict[str, Any]) -> Iterator[str]:
    for name in said["tables"]:
        if why := table_differs(found, name):
            yield f"the table {name} is not as routerd writes it: {why}"


def table_differs(found: Generation, name: str) -> str:
    """Return how the columns of a table of a run differ from those declared; "" if not."""
    for part in found.files(name):
        with found.output.files.open_input_file(part) as file:
            schema = pq.read_schema(file)
        types = {field.name: SPARK.get(kind := _plain(field.type), kind) for field in schema}
        if why := differs(name, types):
            return why
    return ""


def _plain(kind: pa.DataType) -> str:
    """Return the name of a type, whether its elements may be null or not."""
    return str(kind).replace(" not null", "")


def _totals(found: Generation, said: dict[str, Any]) -> Iterator[str]:
    for name, sums in SUMS.items():
        if name not in said["tables"]:
            continue
        there = dict.fromkeys(sums, 0)
        for part in found.files(name):
            with found.output.files.open_input_file(part) as file:
                rows = pq.read_table(file, columns=list(sums))
            for column in sums:
                there[column] += sum(rows[column].to_pylist())
        for column, total in sums.items():
            if there[column] != said[total]:
                yield f"the table {name} has {there[column]:,} {column}, and the log {said[total]:,}"


def _gaps(found: Generation, said: dict[str, Any], limits: Limits) -> Iterator[str]:
    if said["lost"] > limits.lost * (said["records"] + said["lost"]):
        yield f"{said['lost']:,} records are missing between others, by their numbers"
    if said["dropped"] > limits.lost * (said["records"] + said["dropped"]):
        yield f"the routers had no room for {said['dropped']:,} records"
    if said["skipped"]:
        yield f"{len(said['skipped'])} files were left out: {_some(said['skipped'])}"
    hours = sorted(number(hour, found.name) for hour in manifest(found.output, found.name).get("hours", {}))
    silent = sorted(set(range(hours[0], hours[-1])) - set(hours)) if hours else []
    if silent and not limits.idle:
        yield f"{len(silent)} hours have no record: {_some([text(hour) for hour in silent])}"


def _freshness(said: dict[str, Any], limits: Limits, now: datetime) -> Iterator[str]:
    if said["last_minute"] is None:
        yield "the log has no record"
        return
    age_h = (now - datetime.fromisoformat(said["last_minute"]).replace(tzinfo=UTC)).total_seconds() / 3600
    if age_h > limits.max_age_h:
        yield f"the newest record is {age_h:.1f} hours old, more than {limits.max_age_h:g}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")

"""Streams without Spark: logs of a few records, and results that name them."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.hourly import Hourly
from pipeline.output.directory import STREAM, Output, claimed
from pipeline.output.generations import current
from pipeline.stream import Pace, Stream
from shm.contract.flow_log.schema import COLUMNS, VERSION

START = datetime(2026, 1, 5, 22, tzinfo=UTC)
TABLE, ROLLUP = "traffic", "minutes"
SCHEMA = pa.schema([(column.name, pa.int64()) for column in COLUMNS if not column.nullable])


def put(log: Path, router: str, first: int, times: list[datetime], age_days: int = 0, dropped: int = 0) -> Path:
    """Write a file as a recorder does, with records of these times."""
    path = log / "raw" / f"date={times[0]:%Y-%m-%d}" / f"hour={times[0]:%H}" / f"{router}-0-{first:06d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    numbers = list(range(first, first + len(times)))
    columns: dict[str, Any] = {name: pa.array([0] * len(times)) for name in SCHEMA.names}
    columns |= {
        "ts": pa.array(times, pa.timestamp("us", "UTC")), "router_id": pa.array([router] * len(times)),
        "boot_id": pa.array(["b"] * len(times)), "worker_id": pa.array([0] * len(times), pa.int16()),
        "seq": pa.array(numbers),
    }  # fmt: skip
    metadata = {
        "routerd.flow.schema": VERSION, "routerd.flow.router": router, "routerd.flow.boot": "b",
        "routerd.flow.sequences": json.dumps({"0": [numbers[0], numbers[-1]]}), "routerd.flow.dropped": str(dropped),
    }  # fmt: skip
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)
    os.utime(path, (0, path.stat().st_mtime - age_days * 86400))
    return path


def minutes(start: datetime, *after: int) -> list[datetime]:
    return [start + timedelta(minutes=one) for one in after]


def write(output: Output, directory: str, rows: list[str]) -> None:
    """Stands for Spark."""
    output.files.create_dir(directory, recursive=True)
    with output.files.open_output_stream(f"{directory}/part-00000-{uuid4()}-c000.zstd.parquet") as sink:
        sink.write("\n".join(rows).encode())


def make(hours: Hourly, recipes: Any, tell: Any, said: dict[str, Any], earlier: Any) -> None:
    """Stands for `batch.make`: rollups and tables name their records, those of an hour by reading its files."""
    output = hours.made.output
    for hour in [*hours.kept.missing(ROLLUP, hours.wanted), *hours.lasting]:
        found = {
            f"{row['router_id']} {row['seq']}": row["ts"].strftime("%Y-%m-%dT%H")
            for file in hours.hours[hour].files
            for row in pq.ParquetFile(file.path).read(["router_id", "seq", "ts"]).to_pylist()
        }
        here = [name for name, at in found.items() if at == hour]
        if hour in hours.lasting:
            had = [line for path in hours.kept.files(ROLLUP, [hour]) for line in text_of(output, path)]
            here = [*had, *(one for one in here if one not in had)]
        day, at = hour.split("T")
        write(output, output.path(f"{hours.made.rollup}/{ROLLUP}/date={day}/hour={at}"), here)
        hours.kept.add(ROLLUP, [hour], hours.made.rollup)
        hours.computed.add(hour)
    lines = [line for path in hours.kept.files(ROLLUP, hours.wanted) for line in text_of(output, path)]
    write(output, f"{hours.made.root}/{TABLE}", lines)
    about = {"records": len(lines), "computed": sorted(hours.computed), "lost": hours.lost()}
    hours.made.publish(about | said, hours.manifest())


def text_of(output: Output, path: str) -> list[str]:
    with output.files.open_input_file(path.removeprefix("file://")) as file:
        return bytes(file.read()).decode().split("\n")


@contextmanager
def streaming(log: Path, out: Path, told: list[str] | None = None, **pace: Any) -> Iterator[Stream]:
    """A process of the stream."""
    with claimed(str(out), STREAM, str(log)) as output:
        none: Any = None
        yield Stream(none, str(log), output, {}, Pace(**pace), (told if told is not None else []).append)


def batch(log: Path, out: Path, **pace: Any) -> list[str]:
    """One batch of a new process, and what it tells."""
    told: list[str] = []
    with streaming(log, out, told, **pace) as one:
        one.batch()
    return told


def results(out: Path) -> dict[str, list[str]]:
    """The records in the results of each day."""
    found = {}
    for day in sorted(out.glob("date=*")):
        made = current(str(day))
        lines = [line for path in made.files(TABLE) for line in text_of(made.output, path)]
        assert made.summary()["records"] == len(lines)
        found[day.name[5:]] = sorted(lines)
    return found


def computed(out: Path, day: str) -> list[str]:
    return list(current(str(out / f"date={day}")).summary()["computed"])

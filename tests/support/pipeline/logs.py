"""Flow logs of a few hours, cut into files otherwise than a recorder would: by any numbers, in any order."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.flow_log import hours as hours_module
from pipeline.flow_log.hours import hours_of, text
from pipeline.flow_log.survey import survey
from pipeline.generate.scenario import Scenario
from pipeline.generate.write import generate
from pipeline.record_sets import Seen
from shm.contract.flow_log.schema import VERSION


def lost(directory: Path | str) -> int:
    """How many records are missing in a log, by their numbers."""
    hours, _ = hours_of(survey(str(directory)), {}, {})
    seen, records = Seen(), [one for hour in hours.values() for one in hour.records]
    seen.add(records)
    return seen.missing(records)


def dropped(directory: Path | str) -> int:
    """How many records had no room, as the routers of a log report."""
    found = survey(str(directory))
    hours, _ = hours_of(found, {}, {})
    return hours_module.dropped(found, found, text(min(hours)))


class Written(NamedTuple):
    """The records of one writer, in the order of their numbers."""

    router: str
    boot: str
    records: Any


def written_at_noon(directory: Path, scenario: Scenario) -> list[Written]:
    """The records of three hours of a generated log, from 10 to 13; the rest of it is deleted."""
    generate(scenario, directory)
    for folder in (directory / "raw").glob("date=*/hour=*"):
        if folder.name not in ("hour=10", "hour=11", "hour=12"):
            shutil.rmtree(folder)
    return written(directory)


def written(directory: Path) -> list[Written]:
    """The records of a log whose routers have one worker each."""
    tables = [pq.ParquetFile(file).read() for file in sorted(directory.rglob("*.parquet"))]
    whole = pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
    whole = whole.unify_dictionaries()
    found = []
    for router in sorted(pc.unique(whole["router_id"].cast(pa.string())).to_pylist()):
        mine = whole.filter(pc.equal(whole["router_id"].cast(pa.string()), router)).sort_by("seq")
        found.append(Written(router, mine["boot_id"][0].as_py(), mine))
    return found


def cut(one: Written, places: Iterable[int]) -> list[Any]:
    """The records of a writer as tables that begin at these places, and at the first one."""
    edges = sorted({0, *(place % len(one.records) for place in places)})
    return [one.records[start:end] for start, end in zip(edges, [*edges[1:], len(one.records)], strict=True)]


def file(one: Written, records: Any, path: Path) -> None:
    """Write a file as a recorder does, of records with consecutive numbers."""
    first, last = records["seq"][0].as_py(), records["seq"][-1].as_py()
    metadata = {
        "routerd.flow.schema": VERSION,
        "routerd.flow.router": one.router,
        "routerd.flow.boot": one.boot,
        "routerd.flow.sequences": json.dumps({"0": [first, last]}),
        "routerd.flow.dropped": "0",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(records.replace_schema_metadata(metadata), path, row_group_size=500)

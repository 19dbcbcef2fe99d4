"""How many records of a log a run has to read: it runs otherwise with few of them."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from pipeline.flow_log.hours import lone, text
from pipeline.flow_log.survey import LogFile
from pipeline.output.rollups import Rollups
from pipeline.record_sets import covers


def unread(files: Iterable[LogFile], kept: Rollups, names: Collection[str]) -> int:
    """Return about how many records of a log are in hours of which not all, or not all of these rollups, are kept."""
    by_hour: dict[str, list[LogFile]] = defaultdict(list)
    more = 0
    for file in files:
        if (only := lone(file)) is not None:
            by_hour[text(only)].append(file)
        elif kept.known.get(file.path, {}).get("rows") != file.rows:
            more += file.rows
    for hour, those in by_hour.items():
        spans = [one for file in those for one in file.spans]
        there = [(*one.writer, one.first, one.last, one.last - one.first + 1) for one in spans]
        had = kept.hours.get(hour)
        if had is None or set(names) - had.files.keys() or not covers(had.records, there):
            more += sum(file.rows for file in those)
    return more

"""How many records of a log a run has to read, which decides how it runs."""

import json
from pathlib import Path

from pipeline.flow_log.survey import LogFile, Span, Writer
from pipeline.output.directory import Output
from pipeline.output.rollups import MANIFEST, Rollups
from pipeline.unread import unread

HOUR_US = 3_600_000_000
WRITER = Writer("R1", "boot", 0)


def file(hour: int, first: int, last: int, *, until: int | None = None) -> LogFile:
    """A file with these numbers, of one hour or until another one."""
    times = (hour * HOUR_US, (hour if until is None else until) * HOUR_US + 1)
    return LogFile(f"{hour}-{first}", last - first + 1, (Span(WRITER, first, last),), times=times)


def former(output: Path, version: str = "v1") -> Rollups:
    """What a run has left of the first three hours, with 1,000 records each, and of a file of two of them."""
    hours = {
        f"1970-01-01T{hour:02}": {
            "records": [(*WRITER, hour * 1000 + 1, hour * 1000 + 1000, 1000)],
            "files": {"traffic": [], "totals": []},
        }
        for hour in range(3)
    }
    (output / "run-1").mkdir(parents=True)
    said = {"schema": version, "hours": hours, "sums": {}, "log": {"1-1501": {"rows": 1000}}}
    (output / "run-1" / MANIFEST).write_text(json.dumps(said))
    return Rollups(Output(str(output)), "run-1", "v1")


def test_a_log_whose_retention_deletes_has_as_many_new_records_as_its_new_hours(tmp_path: Path) -> None:
    """However many the last run had: those of hours that are gone make no others known."""
    kept = former(tmp_path)
    log = [file(1, 1001, 1500), file(1, 1501, 2500, until=2), file(2, 2501, 3000), file(3, 3001, 5000)]
    assert unread(log, kept, ["traffic", "totals"]) == 2000
    assert unread([*log, file(2, 5001, 5010)], kept, ["totals"]) == 2000 + 510
    assert unread([*log, file(3, 5001, 6000, until=4)], kept, ["totals"]) == 3000


def test_every_record_is_read_for_what_the_last_run_lacks(tmp_path: Path) -> None:
    """A table that it did not make, or made as another version of routerd does."""
    log = [file(1, 1001, 2000), file(2, 2001, 3000)]
    assert unread(log, former(tmp_path / "one"), ["traffic"]) == 0
    assert unread(log, former(tmp_path / "two"), ["minutes", "traffic"]) == 2000
    assert unread(log, former(tmp_path / "three", "v0"), ["traffic"]) == 2000
    assert unread(log, Rollups(Output(str(tmp_path)), "", "v1"), ["traffic"]) == 2000

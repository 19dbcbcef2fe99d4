"""Object stores: a real S3 server for what pyarrow does; `test_source.py` has Spark's side of URLs."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from pipeline.errors import PipelineError
from pipeline.files import file_system
from pipeline.flow_log.holding import held
from pipeline.flow_log.hours import hours_of
from pipeline.flow_log.survey import survey
from pipeline.generate.scenario import Scenario
from pipeline.generate.write import generate
from pipeline.output import days
from pipeline.output.columns import TABLES, VERSION
from pipeline.output.directory import DAY, RESULTS, STREAM, Output, claimed
from pipeline.output.generations import REPORT, SIGNS, Generation, begin, current
from pipeline.output.rollups import Rollups
from tests.support.pipeline.logs import dropped, file, lost, written
from tests.support.servers.s3 import ENVIRONMENT, Store

TABLE = next(iter(TABLES))
HOUR, ROLLED = "2026-01-05T03", "minutes"
PARTITION = f"{ROLLED}/date=2026-01-05/hour=03"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """An S3 server."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        made = Store()
        yield made
        made.close()


@pytest.fixture
def where(store: Store) -> Iterator[str]:
    """The URL of a directory in a bucket of its own."""
    store.left = None
    yield store.url(f"b-{uuid4().hex}/results")
    store.left = None


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of a day, with a file for each router: who wants to know its hours must read it."""
    directory = tmp_path_factory.mktemp("log")
    generate(Scenario(records=1000, days=1, routers=3, workers=1, clients=3, faults=()), directory / "written")
    for one in written(directory / "written"):
        file(one, one.records[:200], directory / "log" / "raw" / f"{one.router}.parquet")
    return directory / "log"


class Sums:
    """What Spark would write, written by pyarrow: Spark is told a URL without pyarrow's options."""

    def __init__(self, directory: str, value: int) -> None:
        self._output = Output(directory)
        self._value = value
        self.write = self

    def coalesce(self, _: int) -> "Sums":
        return self

    def parquet(self, url: str) -> None:
        whole = self._output.url(self._output.root)
        assert url.startswith(f"{whole}/")
        assert "?" not in url
        path = self._output.root + url.removeprefix(whole)
        for name in (f"part-00000-{uuid4()}-c000.zstd.parquet", "_SUCCESS"):
            with self._output.files.open_output_stream(f"{path}/{name}") as sink:
                if name != "_SUCCESS":
                    pq.write_table(pa.table({"value": [self._value]}), sink)


def values(directory: str, path: str) -> list[int]:
    """What is in the files below a path."""
    files, _ = file_system(directory)
    infos = files.get_file_info(fs.FileSelector(path, recursive=True))
    return sorted(value for info in infos if info.path.endswith(".parquet") for value in value_of(files, info.path))


def value_of(files: Any, path: str) -> list[int]:
    """What is in a file."""
    with files.open_input_file(path) as source:
        return list(pq.read_table(source).column("value").to_pylist())


def make(output: Output, value: int) -> Generation:
    """A run with one table, and with a rollup of one hour, whose records are others each time."""
    made = begin(output)
    kept = Rollups(output, made.former, "rollups")
    kept.keep({HOUR: [("R1", "b", 0, value, value, 1)]})
    Sums(output.directory, value).parquet(output.url(output.path(f"{made.rollup}/{PARTITION}")))
    kept.add(ROLLED, [HOUR], made.rollup)
    Sums(output.directory, value).parquet(made.table(TABLE))
    made.publish({"value": value}, kept.text({}))
    return made


def rolled(output: Output, run: str) -> list[int]:
    """What is in the rollup that the manifest of a run names, where Spark is told to read it."""
    kept = Rollups(output, run, "rollups")
    kept.keep({hour: one.records for hour, one in kept.hours.items()})
    assert not kept.missing(ROLLED, [HOUR])
    paths = [url.replace(output.url(output.root), output.root) for url in kept.files(ROLLED, [HOUR])]
    return [value for path in paths for value in value_of(output.files, path)]


def test_a_log_is_surveyed_as_on_a_disk(log: Path, where: str) -> None:
    """The same files with the same numbers, in the same hours; what is no file of a log is named."""
    files, root = file_system(where)
    fs.copy_files(str(log), root, source_filesystem=fs.LocalFileSystem(), destination_filesystem=files)
    with files.open_output_stream(f"{root}/raw/foreign.parquet") as sink:
        sink.write(b"PAR1 or not")
    local, far = survey(str(log)), survey(where)
    assert [file.path.removeprefix(f"{root}/") for file in far.clean] == [
        file.path.removeprefix(f"{log}/") for file in local.clean
    ]
    assert (far.rows, lost(where), dropped(where)) == (local.rows, lost(log), dropped(log))
    assert [one.path.rpartition("/")[2] for one in far.skipped] == ["foreign.parquet"]
    with held(where) as (found, kept):
        assert found.clean == far.clean
        ours, _ = hours_of(found, kept.places, {})
    theirs, _ = hours_of(local, {}, {})
    assert {hour: one.numbers for hour, one in ours.items()} == {hour: one.numbers for hour, one in theirs.items()}


def points(changes: int) -> tuple[int, ...]:
    """After how many of so many changing requests to kill; tests with local files, which are quick, kill at each."""
    return (changes // 2, changes - 1)


def test_a_run_that_is_killed_leaves_the_former_results_or_its_own(store: Store, where: str) -> None:
    """The next run removes what it left, and results older than the last."""
    with claimed(where, RESULTS, store.url("other/log")) as output:
        make(output, 0)
        before = store.changes
        last = make(output, 1).summary()["value"]
        for left in points(store.changes - before):
            store.left = left
            with suppress(OSError, PipelineError):  # as if it had been killed: it removes nothing
                make(output, last + 1)
            assert store.left == 0
            store.left = None
            found = current(where)
            value = found.summary()["value"]
            assert values(where, found.root) == rolled(output, found.name) == [value]
            assert value == last or value == last + 1
            last = value
        made = make(output, last + 1)
        made.write_text(REPORT, SIGNS[REPORT])
        begin(output)
        kinds = sorted(name.partition("-")[0] for name in output.entries())
        assert kinds == ["_routerd_results", "current", "report.html", "rollup", "run", "run"]  # one run began
        assert values(where, output.root) == [last + 1, last + 1]


def test_what_somebody_put_into_a_run_stays_in_a_store(where: str, store: Store) -> None:
    """And the run with it; a page that is not ours is not replaced."""
    with claimed(where, RESULTS, store.url("other/log")) as output:
        first = make(output, 1)
        with output.files.open_output_stream(f"{first.root}/notes.txt") as sink:
            sink.write(b"precious")
        make(output, 2)
        third = make(output, 3)
        assert output.has(f"{first.root}/notes.txt")
        assert values(where, first.root) == [1]
        with output.files.open_output_stream(output.path(REPORT)) as sink:
            sink.write(b"<p>mine")
        with pytest.raises(PipelineError, match="routerd did not make it"):
            third.write_text(REPORT, SIGNS[REPORT])
        assert third.summary() == {"schema": VERSION, "value": 3, "tables": third.summary()["tables"]}


def test_days_of_a_stream_are_read_and_removed(store: Store, where: str) -> None:
    """The last one is read; one that goes is gone as a whole, or goes on going after a kill."""
    log = store.url("other/log")
    with claimed(where, STREAM, log) as output:
        changes = 0  # of a removal without a death
        for left in (None, 0, 1, 2):
            for number, day in enumerate(("2026-01-05", "2026-01-06")):
                with claimed(days.of(output, day), DAY, log) as place:
                    make(place, number)
            assert current(days.results_in(where)).summary()["value"] == 1
            before = store.changes
            store.left = left
            with suppress(OSError):
                days.remove(output, "2026-01-06")
            store.left = None
            changes = changes or store.changes - before
            assert current(days.results_in(where)).summary()["value"] == (1 if left == 0 else 0)
            if "2026-01-06" in days.days(output):
                assert days.remove(output, "2026-01-06")
            assert days.days(output) == ["2026-01-05"]
            assert not [info for info in paths(where) if "2026-01-06" in info]
        assert changes > 2
        with (
            pytest.raises(PipelineError, match="is the output of `routerd pipeline stream`"),
            claimed(days.of(output, "2026-01-05"), RESULTS, log),
        ):
            pass


def paths(directory: str) -> list[str]:
    """All that is below a directory."""
    files, root = file_system(directory)
    return [info.path for info in files.get_file_info(fs.FileSelector(root, recursive=True))]


def test_outputs_in_stores_are_refused_as_on_disks(store: Store, where: str) -> None:
    """A directory of somebody else, and the log, also if its URL has other options."""
    same = where.replace("us-east-1", "us-east-2")
    with pytest.raises(PipelineError, match="is the log"), claimed(same, RESULTS, where):
        pass
    files, root = file_system(where)
    files.create_dir(root)
    with files.open_output_stream(f"{root}/notes") as sink:
        sink.write(b"precious")
    with pytest.raises(PipelineError, match="holds what routerd did not make"), claimed(where, RESULTS, "/tmp"):
        pass
    with pytest.raises(PipelineError, match="is not a directory"):
        survey(store.url(f"{root.partition('/')[0]}/missing"))

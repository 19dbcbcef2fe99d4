"""The stream: each record once, whatever is killed, repeated or late; the same totals as the batch job."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pipeline import stream
from pipeline.errors import PipelineError
from pipeline.flow_log.records import read_log
from pipeline.flow_log.survey import survey
from pipeline.output.directory import STREAM, claimed
from pipeline.output.parts import Parts
from pipeline.output.spans import Range, add, meet, taken
from pipeline.stream import SUMS, Pace
from pipeline.tables.measures import BUCKETS
from pipeline.tables.traffic import KEY, traffic
from tests.support.small_spark import SMALL

RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda one: (one[0], sum(one))))


def numbers(ranges: list[Range]) -> set[int]:
    return {number for low, high in ranges for number in range(low, high + 1)}


@settings(deadline=None)  # other tests may have the CPU
@given(RANGES, st.integers(0, 30), st.integers(0, 10))
def test_ranges_are_sets_of_numbers(given_: list[Range], first: int, more: int) -> None:
    """Joined, in order, apart from each other; and what is in them is found."""
    ledger: list[Range] = []
    for one in given_:
        ledger = add(ledger, one)
    assert numbers(ledger) == numbers(given_)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(ledger))
    fresh = first, first + more
    assert numbers(taken(ledger, fresh)) == numbers(ledger) & numbers([fresh])
    assert meet(given_) == (len(numbers(given_)) < sum(high - low + 1 for low, high in given_))


@pytest.fixture(scope="module")
def some(flows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first hours of the log, with text and half a file among them."""
    directory = tmp_path_factory.mktemp("some")
    for file in sorted((flows / "raw" / "date=2026-01-05").rglob("*.parquet"))[:24]:
        target = directory / file.relative_to(flows)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    cut = file.read_bytes()[:2000]
    (target.parent / "cut.parquet").write_bytes(cut)
    return directory


def follow(spark: SparkSession, source: Path, output: Path, pace: Pace, tell: stream.Tell) -> None:
    with claimed(str(output), STREAM, str(source)) as place:
        stream.run(spark, str(source), place, pace, tell)


def totals(frame: DataFrame) -> dict[str, Any]:
    names = [name for name in SUMS if name != "latency_sum"]
    return frame.agg(*(f.sum(name).alias(name) for name in names)).collect()[0].asDict()


@pytest.fixture(scope="module")
def wanted(spark: SparkSession, some: Path) -> DataFrame:
    """The batch job's matrix of the same records."""
    return traffic(read_log(spark, survey(str(some)))).cache()


def test_the_stream_makes_the_batch_jobs_matrix(
    spark: SparkSession, some: Path, wanted: DataFrame, tmp_path: Path
) -> None:
    """Key by key; percentiles within a bucket. A bad file is named; files that come later are added."""
    told: list[str] = []
    late = sorted(some.rglob("R*.parquet"))[7]
    aside = tmp_path / "late"
    shutil.move(late, aside)
    output = tmp_path / "out"
    follow(spark, some, output, Pace(once=True, files=10), told.append)
    shutil.copy(
        some / "raw" / "date=2026-01-05" / "hour=02" / "R1-0-00010000-000002.parquet", some / "raw" / "copy.parquet"
    )
    shutil.move(aside, late)
    follow(spark, some, output, Pace(once=True, files=10), told.append)
    (some / "raw" / "copy.parquet").unlink()
    assert sum("cut.parquet: left out: it is cut short" in line for line in told) >= 1
    parts = Parts(spark, str(output))
    sums = parts.read()
    assert sums is not None
    given = {tuple(row[:6]): row for row in stream.traffic(sums).collect()}
    expected = {tuple(row[k] for k in KEY): row for row in wanted.collect()}
    assert given.keys() == expected.keys()
    for key, row in expected.items():
        for name in SUMS:
            if name != "latency_sum":
                assert given[key][name] == row[name]
        for name in ("latency_p50", "latency_p99"):
            exact, rough = row[name], given[key][name]
            assert (exact is None) == (rough is None)
            assert exact is None or exact <= rough * 1.000001 <= exact * 2 ** (1 / BUCKETS) + 1
    state = parts.latest()
    assert state.repeated > 0
    closed = state.closed_until(60)
    assert closed is not None
    assert datetime.fromtimestamp(closed / 1e6, UTC).date().isoformat() == "2026-01-05"
    before = totals(sums)
    parts.fold(stream.added(sums))
    assert parts.number == 1
    folded = parts.read()
    assert folded is not None
    assert totals(folded) == before


def test_a_file_that_is_deleted_before_it_is_read_is_missing(spark: SparkSession, flows: Path, tmp_path: Path) -> None:
    """The stream goes on with the next one, and says how many records it did not see."""
    raw = tmp_path / "log" / "raw"
    raw.mkdir(parents=True)
    files = []
    for at, file in enumerate(sorted((flows / "raw").rglob("R1-0-*.parquet"))[:3]):
        files.append(Path(shutil.copy(file, raw)))
        os.utime(files[-1], (at, at))
    rows = [pq.read_metadata(file).num_rows for file in files]
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        files[1].unlink(missing_ok=True)

    follow(spark, tmp_path / "log", tmp_path / "out", Pace(once=True, files=1), tell)
    assert f": {rows[0]} records so far; " in told[0]
    assert f": {rows[0] + rows[2]} records so far, {rows[1]} missing; " in told[-1]


def start(some: Path, output: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pipeline", "stream", "--input", str(some), "--output", str(output), "--once"]
    command += ["--files", "6", "--master", "local[2]", "--memory", "600m"]
    for name, value in SMALL.items():
        command += ["--conf", f"{name}={value}"]
    return subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )


def test_killed_and_started_again_it_counts_each_record_once(
    spark: SparkSession, some: Path, wanted: DataFrame, tmp_path: Path
) -> None:
    """SIGKILL in the middle of a batch; then the totals are those of the batch job."""
    output = tmp_path / "out"
    running = start(some, output)
    deadline = time.monotonic() + 900
    while not list(output.glob("part-*1")):
        assert time.monotonic() < deadline
        assert running.poll() is None, running.stdout and running.stdout.read()
        time.sleep(0.05)
    while not list(output.glob(".part-*")) and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    with suppress(ProcessLookupError):  # it was faster
        os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    done, _ = start(some, output).communicate(timeout=900)
    assert "so far" in done
    assert not list(output.glob(".part-*"))
    sums = Parts(spark, str(output)).read()
    assert sums is not None
    assert totals(sums) == totals(wanted)


def test_an_output_without_its_checkpoint_is_refused(spark: SparkSession, some: Path, tmp_path: Path) -> None:
    """It would be counted again; a directory that is no log is refused, too."""
    (tmp_path / "_routerd_stream").touch()
    (tmp_path / "part-000000000003").mkdir()
    with pytest.raises(PipelineError, match="give another --output"):
        follow(spark, some, tmp_path, Pace(once=True), print)
    with pytest.raises(PipelineError, match="missing is not a directory"):
        follow(spark, some / "missing", tmp_path / "new", Pace(once=True), print)

"""OpenLineage events: written by the library itself into a file."""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import PipelineError
from pipeline.lineage import named, told
from pipeline.output.columns import TABLES
from pipeline.output.directory import RESULTS
from pipeline.output.generations import begin
from tests.support.pipeline.output import claim, part


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the library writes events."""
    config = tmp_path / "openlineage.yml"
    config.write_text(f"transport:\n  type: file\n  log_file_path: {tmp_path}/events\n  append: true\n")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(config))
    return tmp_path / "events"


def read(events: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in events.read_text().splitlines()]


def test_a_run_says_what_it_reads_and_writes(events: Path, tmp_path: Path) -> None:
    """Beginning and end are of one run; the end names tables with columns and rows."""
    output = claim(tmp_path / "out", tmp_path / "log", RESULTS)
    made = begin(output)
    Path(made.root, "ways").mkdir()
    pq.write_table(pa.table({"path": ["R1"] * 3}), Path(made.root, "ways", part("one")))
    made.publish({})
    said: list[str] = []
    with told(str(tmp_path / "log"), str(tmp_path / "out"), said.append) as take:
        take(made)
    start, end = read(events)
    assert (start["eventType"], end["eventType"], said) == ("START", "COMPLETE", [])
    assert start["run"]["runId"] == end["run"]["runId"]
    assert [(one["namespace"], one["name"]) for one in start["inputs"]] == [("file", str(tmp_path / "log"))]
    [ways] = end["outputs"]
    assert ways["name"] == str(tmp_path / "out" / "ways")
    assert ways["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert [one["name"] for one in ways["facets"]["schema"]["fields"]] == list(TABLES["ways"].types)


def test_a_run_that_fails_says_why(events: Path, tmp_path: Path) -> None:
    """And the error goes on."""
    with pytest.raises(PipelineError, match="no room"), told("log", "out", pytest.fail):
        raise PipelineError("no room")
    end = read(events)[-1]
    assert (end["eventType"], end["run"]["facets"]["errorMessage"]["message"]) == ("FAIL", "no room")


def test_without_a_configuration_nothing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nor is the library asked for."""
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    with told("log", "out", pytest.fail):
        pass
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    with pytest.raises(PipelineError, match="pip install openlineage-python"), told("log", "out", pytest.fail):
        pass


def test_data_sets_have_the_names_of_the_standard() -> None:
    """A directory, a bucket, a cluster."""
    assert named("/a/b") == ("file", "/a/b")
    assert named("s3a://bucket/a/b?region=r") == ("s3://bucket", "a/b")
    assert named("hdfs://name:8020/a") == ("hdfs://name:8020", "a")

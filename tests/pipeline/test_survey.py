"""What is found in a directory: bad files, repeated records, lost ones, versions."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pipeline.cli import pipeline
from pipeline.errors import PipelineError
from pipeline.flow_log.memory import Memory
from pipeline.flow_log.survey import LogFile, Span, Survey, Writer, survey, untangle
from shm.contract.flow_log.arrow import SCHEMA
from tests.support.pipeline.logs import lost

WRITER = Writer("R1", "b", 0)
NOBODY = 65534


def span_file(name: str, first: int, last: int, rows: int | None = None) -> LogFile:
    rows = last - first + 1 if rows is None else rows
    return LogFile(name, rows, (Span(WRITER, first, last),))


def sorted_out(*files: LogFile) -> tuple[list[str], list[str], list[str]]:
    """Names of clean files, tangled ones and copies."""
    found = Survey()
    untangle(files, found)
    return tuple([one.path for one in part] for part in (found.clean, found.tangled, found.copies))  # type: ignore[return-value]  # three of them


def test_files_that_share_nothing_are_clean() -> None:
    """However they are ordered; nothing needs to be looked at twice."""
    assert sorted_out(span_file("b", 11, 20), span_file("a", 1, 10)) == (["a", "b"], [], [])


def test_a_copy_is_left_out() -> None:
    """So are files of which a compacted one holds everything."""
    assert sorted_out(span_file("a", 1, 10), span_file("b", 1, 10)) == (["a"], [], ["b"])
    whole, half, rest = span_file("all", 1, 30), span_file("b", 1, 10), span_file("c", 11, 30)
    assert sorted_out(half, whole, rest) == (["all"], [], ["b", "c"])


def test_compacted_files_stand_for_those_they_were_made_of(few: Path) -> None:
    """As the manifest says, or else their numbers, even where the file itself says nothing of them; one
    that is named and gone stands for nothing."""
    raw = sorted(few.rglob("*.parquet"))
    hour = str(raw[0].parent.relative_to(few / "raw"))
    compact = few / "compact" / hour / "R1-all-compact-000001.parquet"
    compact.parent.mkdir(parents=True)
    table = pq.ParquetFile(raw[0]).read()
    told = {"routerd.flow.schema": "routerd.flow.v1", "routerd.flow.router": raw[0].name.partition("-")[0]}
    pq.write_table(table.replace_schema_metadata(told), compact)
    unnamed = survey(str(few))
    assert [Path(file.path) for file in unnamed.clean] == [compact, raw[1]]
    assert [Path(file.path) for file in unnamed.copies] == [raw[0]]
    hours = {hour: {"files": [compact.name], "sources": [raw[0].name]}}
    manifest = few / "compact" / "_manifest-R1.json"
    manifest.write_text(json.dumps({"hours": hours}))
    found = survey(str(few))
    assert [Path(file.path) for file in found.clean] == [compact, raw[1]]
    assert (found.compacted, lost(few), found.skipped) == (1, 0, [])
    compact.unlink()
    assert [Path(file.path) for file in survey(str(few)).clean] == raw
    for damaged in ("{", "[" * 100_000):
        manifest.write_text(damaged)
        with pytest.raises(PipelineError, match="does not say which files were compacted"):
            survey(str(few))


def test_files_that_share_some_records_are_tangled() -> None:
    """And those that hold more records than they have numbers for."""
    first, second, third = span_file("a", 1, 10), span_file("b", 8, 20), span_file("c", 21, 30)
    assert sorted_out(first, second, third) == (["c"], ["a", "b"], [])
    assert sorted_out(span_file("a", 1, 10, rows=12)) == ([], ["a"], [])


@pytest.fixture
def few(flows: Path, tmp_path: Path) -> Path:
    """A log of two files."""
    files = sorted(flows.rglob("*.parquet"))[:2]
    for file in files:
        target = tmp_path / file.relative_to(flows)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    return tmp_path


def write(file: Path, schema: str | None) -> None:
    metadata = None if schema is None else {"routerd.flow.schema": schema}
    pq.write_table(SCHEMA.empty_table().replace_schema_metadata(metadata), file)


def test_bad_files_are_named_and_left_out(few: Path) -> None:
    """One cut short, one of something else, text, metadata that is damaged, and names that are no text; the others are
    read."""
    good = sorted(few.rglob("*.parquet"))
    data = good[0].read_bytes()
    (few / "cut.parquet").write_bytes(data[: len(data) // 2])
    (few / "empty.parquet").write_bytes(b"")
    (few / "notes.txt").write_text("hello")
    (few / ".hidden.tmp").write_text("half a file")
    pq.write_table(pa.table({"a": [1]}), few / "foreign.parquet")
    write(few / "damaged.parquet", "routerd.flow.v1")
    write(few / "zero.parquet", "routerd.flow.v0")
    deep = {"routerd.flow.schema": "routerd.flow.v1", "routerd.flow.router": "R1", "routerd.flow.lives": "[" * 100_000}
    pq.write_table(SCHEMA.empty_table().replace_schema_metadata(deep), few / "deep.parquet")
    for octets in (b"odd\xff.parquet", b"compact/odd\xfe", b"folder\xfe/of.parquet", b".hidden\xff"):
        path = Path(os.fsdecode(os.path.join(os.fsencode(few), octets)))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    found = survey(str(few))
    assert [file.path for file in found.clean] == [str(file) for file in good]
    said = {Path(one.path).name: one.reason for one in found.skipped}
    odd = [str(Path(one.path).relative_to(few)) for one in found.skipped if "no UTF-8" in one.reason]
    assert odd == [r"compact/odd\xfe", r"folder\xfe/of.parquet", r"odd\xff.parquet"]
    wanted = {
        "cut.parquet",
        "empty.parquet",
        "notes.txt",
        "foreign.parquet",
        "damaged.parquet",
        "zero.parquet",
        "deep.parquet",
    }
    wanted |= {Path(one).name for one in odd}
    assert said.keys() == wanted
    assert said["zero.parquet"] == "its schema is routerd.flow.v0, which no version of routerd ever wrote"
    assert "cut short" in said["cut.parquet"]
    assert said["foreign.parquet"] == "it is not a file of a flow log"
    assert "metadata is damaged" in said["damaged.parquet"]
    assert "metadata is damaged (RecursionError" in said["deep.parquet"]


def test_a_file_from_the_future_is_refused(few: Path) -> None:
    """Its columns could mean something else; the sentence names it and says what to do."""
    write(few / "new.parquet", "routerd.flow.v2")
    with pytest.raises(PipelineError, match=r"new\.parquet has the schema routerd\.flow\.v2.*update routerd"):
        survey(str(few))
    done = CliRunner().invoke(pipeline, ["run", "--input", str(few), "--output", str(few / "out")])
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert "update routerd" in done.output


def test_a_file_of_no_time_is_left_out(few: Path) -> None:
    """No calendar has the year 142,000; the others are read."""
    good = sorted(few.rglob("*.parquet"))
    table = pq.ParquetFile(good[0]).read()
    times = pa.array([1 << 62] * len(table), pa.timestamp("us", "UTC"))
    pq.write_table(table.set_column(table.schema.get_field_index("ts"), SCHEMA.field("ts"), times), few / "far.parquet")
    (left_out,) = survey(str(few)).skipped
    assert str(left_out).startswith(f"{few / 'far.parquet'}: left out: its metadata is damaged (OverflowError: date")


@pytest.fixture
def closed(few: Path) -> Iterator[Path]:
    """A log one file of which must not be read, where everybody may look for it; root is nobody then."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(few, folder, dirs_exist_ok=True)
        Path(folder).chmod(0o755)
        (file,) = sorted(Path(folder).rglob("*.parquet"))[:1]
        file.chmod(0)
        root = not os.geteuid()
        try:
            if root:
                os.seteuid(NOBODY)
        except OSError as error:
            # nothing is unreadable for root, and some containers let root become nobody else
            pytest.skip(f"root reads everything, and can be nobody else here ({error}): run as another user")
        try:
            yield file
        finally:
            if root:
                os.seteuid(0)


def test_a_file_that_must_not_be_read_is_said(closed: Path) -> None:
    """It is not left out as if it were broken: it may hold what matters. One sentence, status 1, no Spark."""
    root = str(closed.parents[3])
    with pytest.raises(PipelineError, match=f"{closed} must not be read: .*Permission denied"):
        survey(root)
    done = CliRunner().invoke(pipeline, ["run", "--input", root, "--output", "unused"])
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert done.output.startswith(f"Error: {closed} must not be read")


def test_a_file_without_later_columns_is_read(few: Path) -> None:
    """Versions only add columns that can be null: a file lacking such is one of an earlier version."""
    table = SCHEMA.remove(SCHEMA.get_field_index("lat_hist")).empty_table()
    metadata = {
        "routerd.flow.schema": "routerd.flow.v1",
        "routerd.flow.router": "R9",
        "routerd.flow.boot": "b",
        "routerd.flow.sequences": json.dumps({"0": [1, 1]}),
    }
    pq.write_table(table.replace_schema_metadata(metadata), few / "old.parquet")
    assert not survey(str(few)).skipped


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    """So is a file system that cannot be reached."""
    with pytest.raises(PipelineError, match="missing is not a directory; give the directory of a flowLog"):
        survey(str(tmp_path / "missing"))
    with pytest.raises(PipelineError, match="cannot be reached"):
        survey("strange://host/flows")


def test_a_growing_log_is_looked_at_once(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its files, until it is another one."""
    memory = Memory()
    first = survey(str(few), memory)
    assert memory.changed
    again = survey(str(few), memory)
    assert not memory.changed
    assert (again.clean, again.skipped) == (first.clean, first.skipped)
    looked: list[str] = []
    monkeypatch.setattr("pyarrow.parquet.read_metadata", lambda file: looked.append(file) or fail())
    (few / "notes.txt").write_text("hello")
    assert [Path(one.path).name for one in survey(str(few), memory).skipped] == ["notes.txt"]
    assert memory.changed
    assert not looked
    (raw, *_) = (few / "raw").rglob("*.parquet")
    os.utime(raw, ns=(0, 1))
    with pytest.raises(ZeroDivisionError):
        survey(str(few), memory)


@pytest.mark.parametrize("name", ["read_metadata", "ParquetFile"])
def test_a_file_that_could_not_be_read_is_looked_at_again(
    few: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """By a stream that goes on, though nothing else is new: a disk, or too many open files, is no damaged file."""
    memory, works = Memory(), getattr(pq, name)
    (raw, *_) = (few / "raw").rglob("*.parquet")
    told = {"routerd.flow.schema": "routerd.flow.v1", "routerd.flow.router": "R1"}  # and nothing of its numbers
    pq.write_table(pq.ParquetFile(raw).read().replace_schema_metadata(told), raw)
    broken = [OSError(errno.EMFILE, "Too many open files")]

    def once(*args: Any, **more: Any) -> Any:
        if broken:
            raise broken.pop()
        return works(*args, **more)

    whole = survey(str(few))
    monkeypatch.setattr(f"pyarrow.parquet.{name}", once)
    first = survey(str(few), memory)
    (skipped,) = (one for one in first.skipped if one.again)
    assert "cannot be read" in skipped.reason
    assert skipped.reason.endswith("([Errno 24] Too many open files)")
    again = survey(str(few), memory)
    assert memory.changed
    assert (again.clean, again.tangled, again.skipped) == (whole.clean, whole.tangled, whole.skipped)
    survey(str(few), memory)
    assert not memory.changed


def fail() -> None:
    raise ZeroDivisionError

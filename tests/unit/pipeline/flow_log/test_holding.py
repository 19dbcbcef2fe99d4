"""The log of a run is as it was at the start, whatever the router deletes meanwhile."""

import errno
import os
import resource
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow import fs

from pipeline.errors import PipelineError
from pipeline.flow_log import survey as module
from pipeline.flow_log.holding import Held, held, places_for
from pipeline.flow_log.survey import GONE, LogFile, Skipped, Survey, survey


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three files of two hours."""
    for name in ("date=2026-01-05/hour=00/a", "date=2026-01-05/hour=01/b", "date=2026-01-05/hour=01/c"):
        file = tmp_path / "raw" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name[-1])
    return tmp_path


def paths(log: Path) -> list[Path]:
    return sorted(path for path in log.rglob("*") if path.is_file())


def look(log: Path) -> Survey:
    """Stands for `survey`."""
    return Survey(clean=[LogFile(str(path), 1, ()) for path in paths(log)])


def spark(master: str) -> SimpleNamespace:
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master))


def test_what_is_deleted_meanwhile_is_read(log: Path) -> None:
    """To the end of the run, by Spark on this machine; then the files are closed."""
    before = set(os.listdir("/proc/self/fd"))
    with held(str(log), lambda _: look(log)) as (found, kept):
        for path in paths(log):
            path.unlink()
        places = places_for(spark("local[*]"), kept)
        assert [Path(places[file.path]).read_text() for file in found.clean] == ["a", "b", "c"]
        assert places_for(spark("spark://elsewhere:7077"), kept) == {}
        assert all(int(place.rpartition("/")[2]) >= 1024 for place in places.values())
    assert set(os.listdir("/proc/self/fd")) == before


def test_what_goes_while_the_log_is_listed_is_named_and_left_out(log: Path) -> None:
    """Not before the log was listed again: its records may be in a compacted file that is new."""
    first, *_ = paths(log)
    compacted = log / "compact" / "date=2026-01-05" / "hour=00" / "whole"
    tries = []

    def going(_: str) -> Survey:
        """The log as it was listed just before retention came."""
        found = look(log)
        if not tries:
            first.unlink()
            compacted.parent.mkdir(parents=True)
            compacted.write_text("a")
        elif len(tries) == 1:
            found.replaced = {str(first)}
        tries.append(found)
        return found

    with held(str(log), going) as (found, kept):
        assert [Path(kept.places[file.path]).read_text() for file in found.clean] == ["a", "b", "c"]
        assert found.skipped == []
    assert len(tries) == 2

    def always(_: str) -> Survey:
        """It is faster every time."""
        found = look(log)
        found.skipped.append(Skipped("x", GONE))
        paths(log)[0].unlink()
        return found

    with held(str(log), always) as (found, kept):
        assert [Path(kept.places[file.path]).read_text() for file in found.clean] == ["c"]
        assert found.skipped == [Skipped("x", GONE), Skipped(str(compacted), GONE)]


def test_more_files_than_may_be_open_are_read_by_their_names(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are kept, which go first; a later one that goes ends the run in a sentence."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    first, second, third = paths(log)
    try:
        resource.prlimit(0, resource.RLIMIT_NOFILE, (1025, limits[1]))
        kept = Held(str(log))
        assert kept.take(look(log).clean) == []
    finally:
        resource.prlimit(0, resource.RLIMIT_NOFILE, limits)
    found = look(log)
    error = ValueError("Spark's words")
    assert list(kept.places) == [str(first)]
    assert kept.failed(found, error) is error
    first.unlink()
    assert kept.failed(found, error) is error
    third.unlink()
    said = kept.failed(found, error)
    assert isinstance(said, PipelineError)
    assert str(said).startswith(f"{third} was deleted while the log was read (1 of 3 files), so the former")
    damaged = kept.failed(found, ValueError(f"cannot read file:{kept.places[str(first)]}."))
    assert str(damaged) == f"{first} cannot be read by Spark: move it away, and start again"
    assert second.exists()
    kept.close()


def test_a_folder_that_goes_while_the_log_is_listed_is_no_error(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention removes it after pyarrow has found its name: that is an error of pyarrow's, unless it is told."""

    class Going:
        def get_file_info(self, asked: str | fs.FileSelector) -> object:
            if isinstance(asked, fs.FileSelector) and asked.recursive and not asked.allow_not_found:
                raise FileNotFoundError(errno.ENOENT, "Cannot list directory", f"{log}/raw/date=2026-01-05/hour=02")
            return fs.LocalFileSystem().get_file_info(asked)

    monkeypatch.setattr(module, "file_system", lambda _: (Going(), str(log)))
    assert len(survey(str(log)).skipped) == 3

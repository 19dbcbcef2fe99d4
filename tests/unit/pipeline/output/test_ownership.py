"""What an output of the pipeline may remove: what it made itself, whatever else is called alike."""

import os
import shutil
from pathlib import Path

import pytest
from pyarrow import fs

from pipeline.errors import PipelineError
from pipeline.output.generations import begin, current
from tests.support.pipeline.output import ID, claim, make, part, tree


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Beside the outputs; nobody reads it here."""
    return tmp_path / "flows"


@pytest.mark.parametrize("local", [True, False])
def test_what_others_call_like_ours_is_theirs(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    """Files, links and directories, empty or with what looks like tables; also beside a copied marker, and
    by the names of what was being written."""
    if not local:
        files = fs.SubTreeFileSystem("/", fs.LocalFileSystem())
        monkeypatch.setattr("pipeline.output.directory.file_system", lambda path: (files, path))
    first, other = tmp_path / "first", tmp_path / "other"
    make(claim(first, log), "one")
    other.mkdir()
    shutil.copy(first / "_routerd_results", other)
    for out in (first, other):
        for at, entry in enumerate(("", f"mytable/{part('x')}", "summary.json", f"traffic/{part('x')}")):
            path = out / f"run-{at}{ID[1:]}" / entry
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("precious") if entry else path.mkdir()
        for name in (f"run-8{ID[1:]}", f".report.html-{ID}", f".current-{ID}"):
            (out / name).write_text("precious")
        os.link(out / f"run-8{ID[1:]}", out / f"run-9{ID[1:]}")
        kept = tree(out).items()
        for name in ("two", "three"):
            make(claim(out, log), name)
        left = tree(out).items()
        assert {one for one in kept if ID[1:] in one[0]} <= left
        mine = begin(claim(out, log))
        Path(mine.root, "mytable").mkdir()
        Path(mine.root, "mytable", part("x")).touch()
        make(claim(out, log), "four")
        assert Path(mine.root, "mytable", part("x")).exists()  # in a run of ours, too


def test_a_marker_that_routerd_did_not_write_is_refused(tmp_path: Path, log: Path) -> None:
    """It keeps what is in it; an empty one, which a killed process left, gets a secret."""
    marker = tmp_path / "out" / "_routerd_results"
    marker.parent.mkdir()
    marker.write_text("precious")
    with pytest.raises(PipelineError, match="_routerd_results is not a marker of routerd: move it away"):
        claim(tmp_path / "out", log)
    assert marker.read_text() == "precious"
    marker.write_text("")
    claim(tmp_path / "out", log)
    assert "token " in marker.read_text()


def test_a_copy_that_followed_links_is_told(tmp_path: Path, log: Path) -> None:
    """What it is, and how to copy an output."""
    make(claim(tmp_path / "out", log), "one")
    shutil.copytree(tmp_path / "out", tmp_path / "copy")
    with pytest.raises(PipelineError, match="a copy that followed links: copy the output with `cp -a`"):
        current(str(tmp_path / "copy"))
    shutil.copytree(tmp_path / "out", tmp_path / "whole", symlinks=True)
    assert current(str(tmp_path / "whole")).summary()["made"] == "one"

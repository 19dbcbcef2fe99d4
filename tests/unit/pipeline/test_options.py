"""Values of options that no log and no clock can have: refused by name, before anything is written."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.cli import pipeline


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seed", "-1"), "Invalid value for '--seed'"),
        (("--start", "9999-12-31"), "2 days from --start 9999-12-31 are not between 1970-01-02 and 2262-04-11"),
        (("--start", "1970-01-01"), "2 days from --start 1970-01-01 are not between 1970-01-02 and 2262-04-11"),
    ],
)
def test_a_log_that_nothing_can_read_is_not_generated(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """These ended with a traceback, or in a log that a run refuses."""
    done = CliRunner().invoke(pipeline, ["generate", str(tmp_path / "x"), *words])
    assert isinstance(done.exception, SystemExit)
    assert said in done.output
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("option", ["--every", "--delay", "--gone"])
def test_a_pace_that_no_clock_can_count_is_refused(tmp_path: Path, option: str) -> None:
    """A stream ended with a traceback when it first waited so long."""
    words = ("stream", "--input", str(tmp_path), "--output", str(tmp_path / "x"), option, "1e300")
    assert f"Invalid value for '{option}'" in CliRunner().invoke(pipeline, words).output

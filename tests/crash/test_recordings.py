"""Recordings that once killed a core, or made it do something else, do so no more (docs/replay.md)."""

from pathlib import Path

import pytest

from routerd.replay.commands import Attempt
from routerd.replay.recording import Recording

RECORDINGS = sorted(Path(__file__).with_name("recordings").glob("*.flight*"))


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: str(file.name))
def test_a_recording_replays(file: Path) -> None:
    """The core lives, and makes the work that the file has. A file of another layout is recorded again, or deleted."""
    recording = Recording.load(file)
    died = Attempt(recording).run(None)
    assert died.how == 0, died.told(recording)

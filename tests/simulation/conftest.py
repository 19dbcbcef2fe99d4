"""What tests of simulated networks share: each router is recorded, and its life is replayed when the test is over."""

import mmap
from collections.abc import Iterator
from typing import Any

import pytest

from routerd.replay.recording import Recording
from routerd.replay.run import Replay
from shm.memory import flight
from tests.model import sites
from tests.model.memory import Memory

LINES = 1 << 16


@pytest.fixture(autouse=True)
def replayed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A replay of each router of a network makes the same work, unless it did what no replay knows."""
    rings: list[mmap.mmap] = []

    def memory(*arguments: Any, **named: Any) -> Memory:
        made = Memory(*arguments, **named)
        made.flight = mmap.mmap(-1, flight.ring_bytes(LINES))
        rings.append(made.flight)
        return made

    monkeypatch.setattr(sites, "Memory", memory)
    yield
    for ring in rings:
        taken = flight.take(ring, "me", "0", "a test", running=False)
        assert taken.about.whole
        if not taken.about.blind:
            assert Replay(Recording(taken.about, taken.lines)).run() is None

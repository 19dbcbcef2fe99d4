"""What tests of simulated networks share: each router is recorded, and its life is replayed when the test is over."""

from collections.abc import Iterator
from typing import Any

import pytest

from routerd.replay.recording import Recording
from routerd.replay.run import Replay
from shm.memory import flight
from tests.model.sites import Site


@pytest.fixture(autouse=True)
def replayed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A replay of each router of a network makes the same work, unless it did what no replay knows."""
    made: list[Site] = []
    begin = Site.__init__

    def begun(self: Site, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        made.append(self)

    monkeypatch.setattr(Site, "__init__", begun)
    monkeypatch.setattr(Site, "flight_lines", 1 << 16)
    yield
    for site in made:
        assert site.memory.flight is not None
        taken = flight.take(site.memory.flight, site.name, "0", "a test", running=False)
        if not taken.about.blind:
            assert Replay(Recording(taken.about, taken.lines, site.name)).run() is None

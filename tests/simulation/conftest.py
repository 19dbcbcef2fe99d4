"""What tests of simulated networks share: each router is recorded, and its life is replayed when the test is over."""

import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

from core.process.router import Core
from routerd.replay.recording import Recording
from routerd.replay.run import Replay
from shm.memory import flight
from tests.model.network_life import from_checkpoints
from tests.model.sites import Site

STEPS: Final = (6, 12, 24, 60, 120, 240, 480, 960, 1920)  # of a core, about which there is a checkpoint
LINES: Final = 1 << 16
FILLER: Final = bytes(LINES // 4 * flight.MORE_OCTETS)  # a quarter of the ring


@pytest.fixture(autouse=True)
def replayed(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """A replay of each router of a network makes the same work, from its begin and from the checkpoints that its
    recording still has, unless it did what no replay knows."""
    made: list[Site] = []
    steps = Counter[Core]()
    begin, step = Site.__init__, Core.step
    shift = zlib.crc32(request.node.nodeid.encode()) % 6  # each test has them at other moments
    moments = {one + shift for one in STEPS}

    def begun(self: Site, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        made.append(self)

    def stepped(self: Core, *arguments: Any) -> Any:
        recorder = self.forwarder.recorder
        steps[self] += 1
        if recorder is not None and recorder.room == LINES // 8 and steps[self] in moments:
            recorder.note("set_text", (0, FILLER))  # of no address: nothing happens
        return step(self, *arguments)

    monkeypatch.setattr(Site, "__init__", begun)
    monkeypatch.setattr(Site, "flight_lines", LINES)
    monkeypatch.setattr(Core, "step", stepped)
    yield
    for site in made:
        assert site.memory.flight is not None
        taken = flight.take(site.memory.flight, site.name, "0", "a test", running=False)
        if taken.about.blind:
            continue
        if taken.about.whole:
            assert Replay(Recording(taken.about, taken.lines, site.name)).run() is None
        for recording in from_checkpoints(site.memory.flight):
            assert Replay(recording).run() is None, site.name

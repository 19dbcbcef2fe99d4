"""Random lives of a router with a route table replay, from their begin and from checkpoints."""

import os

import pytest

from routerd.replay.recording import Recording
from routerd.replay.run import Replay
from shm.memory import flight
from tests.model.network_life import from_checkpoints
from tests.model.table_life import TableLife, checkpoints

SEEDS = int(os.environ.get("TABLE_REPLAY_SEEDS", "4"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_life_replays_from_a_checkpoint(seed: int) -> None:
    """From each one that the ring still has."""
    life = TableLife(seed)
    life.run(6000)
    made, skipped = checkpoints(life)
    assert made > 3
    assert skipped == 0
    recordings = from_checkpoints(life.ring)
    assert recordings
    for recording in recordings:
        assert Replay(recording).run() is None


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_life_replays_from_its_begin(seed: int) -> None:
    life = TableLife(100 + seed, 1 << 17)
    life.run(1500)
    taken = flight.take(life.ring, "me", "0", "a test", running=False)
    assert taken.about.whole
    replay = Replay(Recording(taken.about, taken.lines))
    assert replay.run() is None

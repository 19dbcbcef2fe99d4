"""Random lives of a router with a route table, and of one with exchanges, replay from begin and from checkpoints."""

import os

import pytest

from routerd.replay.recording import Recording
from routerd.replay.run import Replay
from shm.memory import flight
from tests.model.exchange_life import ExchangeLife
from tests.model.network_life import from_checkpoints
from tests.model.table_life import TableLife, checkpoints

SEEDS = int(os.environ.get("TABLE_REPLAY_SEEDS", "3"))


@pytest.mark.parametrize("kind", [TableLife, ExchangeLife])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_life_replays_from_a_checkpoint(seed: int, kind: type[TableLife]) -> None:
    """From each one that the ring still has."""
    life = kind(seed, 1 << 15)
    life.run(6000)
    made, skipped = checkpoints(life)
    assert made > 1
    assert skipped == 0
    recordings = from_checkpoints(life.ring)
    assert recordings
    for recording in recordings:
        assert Replay(recording).run() is None


@pytest.mark.parametrize("kind", [TableLife, ExchangeLife])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_life_replays_from_its_begin(seed: int, kind: type[TableLife]) -> None:
    life = kind(100 + seed, 1 << 18)
    life.run(1500)
    taken = flight.take(life.ring, "me", "0", "a test", running=False)
    assert taken.about.whole
    replay = Replay(Recording(taken.about, taken.lines))
    assert replay.run() is None

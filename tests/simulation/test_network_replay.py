"""Random lives of networks: each router's recording replays from a checkpoint, with all that networks bring."""

import os

import pytest

from routerd.replay.run import Replay
from tests.model.network_life import Life, from_checkpoints

SEEDS = int(os.environ.get("NETWORK_REPLAY_SEEDS", "2"))


@pytest.mark.parametrize("border", [False, True])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_life_replays_from_a_checkpoint(seed: int, border: bool) -> None:
    """From each one that the ring still has, of every router, interior and edge, and with a border between dialects."""
    life = Life(seed, border)
    life.run(4000)
    for site in life.net.sites.values():
        assert site.memory.flight is not None
        recordings = from_checkpoints(site.memory.flight)
        assert recordings, site.name
        for recording in recordings:
            assert Replay(recording).run() is None, site.name

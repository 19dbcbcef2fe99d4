"""A replay of what the flight recorder wrote of a simulated router makes the same work."""

import mmap
from pathlib import Path

import pytest

from bench import contract as n
from routerd.replay.recording import Recording
from routerd.replay.run import Replay
from shm.memory import flight
from tests.model.world import World


def recorded(seed: int, folder: Path, lines: int, moves: int) -> Recording:
    """A recording of a random schedule in a ring of so many lines."""
    ring = mmap.mmap(-1, flight.ring_bytes(lines))
    world = World(seed, workers=2 + seed % 2, capacity=n.RING_CAPACITY, deaths=seed % 3 != 0, flight=ring)
    world.run(moves)
    flight.take(ring, "me", "0", "test", running=False).write(folder / "it")
    return Recording.load(folder / "it")


@pytest.mark.parametrize("seed", range(8))
def test_from_the_beginning(seed: int, tmp_path: Path) -> None:
    """A recording that has the core's first record."""
    recording = recorded(seed, tmp_path, 1 << 16, 600)
    assert recording.about.whole
    replay = Replay(recording)
    assert replay.run() is None
    assert replay.steps > 100


@pytest.mark.parametrize("seed", range(8))
def test_from_a_checkpoint(seed: int, tmp_path: Path) -> None:
    """A recording that begins in the middle."""
    recording = recorded(seed, tmp_path, 1 << 13, 8000)
    assert not recording.about.whole
    replay = Replay(recording)
    assert replay.run() is None
    assert replay.steps > 1000

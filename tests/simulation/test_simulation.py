"""The core among random clients: whatever happens in whatever order, the promises of the router hold.

A failing seed is the whole report: ``schedule(seed).run(MOVES)`` repeats it.
"""

import os

import pytest

from tests.model.world import World

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "1000"))
GROUP = 50
MOVES = 150


def schedule(seed: int) -> World:
    """Two or three workers, rings that are often full for every fourth seed, deaths in two of three."""
    return World(seed, workers=2 + seed % 2, capacity=16 if seed % 4 else 4, deaths=seed % 3 != 0)


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_promises_hold(first: int) -> None:
    """Nothing is lost, duplicated or settled twice; credit and blocks come back; the tables end empty."""
    for seed in range(first, first + GROUP):
        try:
            schedule(seed).run(MOVES)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error

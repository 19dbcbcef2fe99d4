"""Random schedules of a simulated router, by seed."""

import os

from tests.model.world import World

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "400"))
MOVES = 150


def schedule(seed: int) -> World:
    """Two or three workers, rings that are often full for every fourth seed, deaths in two of three."""
    return World(seed, workers=2 + seed % 2, capacity=16 if seed % 4 else 4, deaths=seed % 3 != 0)

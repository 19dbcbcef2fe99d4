"""A Route Manager and applications against each other, whatever is lost and whoever starts again."""

import os

import pytest

from core.rmr.managers import application as a
from tests.model.route_world import World

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "400")) // 10


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_in_the_end_everybody_runs_the_table(first: int) -> None:
    """And is known to; at no time anybody is said to run what it does not."""
    for seed in range(first, first + 10):
        world = World(seed)
        dice = world.random
        for _ in range(150):
            move = dice.random()
            if move < 0.1:
                world.change()
            elif move < 0.13 and world.connections:
                world.cut(dice.choice(sorted(world.connections)))
            elif move < 0.14 and seed % 2:
                world.restart()
            elif move < 0.17:
                world.renew(dice.choice(world.programs))
            elif move < 0.4:
                world.tick()
            else:
                world.deliver()
            world.check()
        world.change()
        world.settle()
        states = {one.control: one.state for one in world.server}
        assert states == {program.control: a.OK for program in world.programs}, seed
        assert all(world.same(program.use) for program in world.programs), seed

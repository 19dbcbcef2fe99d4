"""Many routers without processes: whatever happens to their connections, all end up with the same tables."""

import pytest

from bench.network import phases
from bench.network_world import World


def test_forty_routers_agree_after_flaps_partitions_and_restarts() -> None:
    """Next hops, costs and addresses are those of the true topology, and lead nowhere in a circle."""
    world = World(seed=7)
    names = [phase.name for phase in phases(world, 40)]
    assert names == ["start", "flaps", "partition", "heal", "silent cut", "mended", "restarts"]


@pytest.mark.parametrize("seed", range(6))
def test_small_networks_with_floods_like_qpid_dispatch(seed: int) -> None:
    """A forwarder that floods by traces alone makes many copies; they change nothing."""
    world = World(seed=seed, by_origin=False)
    assert len(list(phases(world, 8))) == 7

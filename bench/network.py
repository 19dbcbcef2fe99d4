"""How a simulated network of many routers settles: convergence, control messages and CPU per router.

    python -m bench.network --routers 120 --seed 1

The protocol is the router's own; connections, delays and the forwarder are modelled (`bench.network_world`).
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from bench.network_world import Link, Router, World
from core.interior import paths

CLOSEST, BALANCED = 2, 3
# Longer than a change takes when nothing is lost, or what is lost to be told again.
SETTLED = 20.0
LONGEST = 120.0


class Phase(msgspec.Struct, frozen=True):
    """The effect of one change: seconds until the last table was right, messages and CPU per router."""

    name: str
    seconds: float
    messages: float
    cpu: float
    looped: int


def build(world: World, count: int) -> None:
    """Return a random connected network; each router has an address of its own, and all share one."""
    names = [f"R{number:03}" for number in range(count)]
    for name in names:
        router = world.add(name)
        router.listen(f"M0own.{name}", BALANCED)
        router.listen("M0shared", CLOSEST)
    pairs = {(names[at], names[world.random.randrange(at)]) for at in range(1, count)}
    while len(pairs) < min(2 * count, count * (count - 1) // 2):
        one, other = world.random.sample(names, 2)
        if (other, one) not in pairs:
            pairs.add((one, other))
    for one, other in sorted(pairs):
        world.connect(one, other, world.random.randint(1, 5))


def wrong(world: World) -> list[str]:
    """Return what is wrong in the tables."""
    graph = paths.Graph(world.states())

    def next_hops(me: str) -> dict[str, tuple[str, int]]:
        return {name: (way.next_hop, way.cost) for name, way in paths.routes(graph, me).paths.items()}

    return world.wrong(next_hops)


def loops(world: World) -> list[str]:
    """Return the pairs of routers between which the tables form a loop."""
    found = []
    for start in world.routers.values():
        for goal in start.table.bits:
            at, steps = start, 0
            while at.name != goal and steps <= len(world.routers):
                number = at.table.next_link(goal)
                if number is None:
                    break
                at, steps = at.links[number].peer(at), steps + 1
            if steps > len(world.routers):
                found.append(f"{start.name} to {goal}")
    return found


def settle(world: World, name: str, change: Callable[[], None]) -> Phase:
    """Make a change and let the network settle. Raises ``AssertionError`` if it does not."""
    began, messages = world.now, world.messages
    cpu = sum(router.seconds for router in world.routers.values())
    looped = sum(router.looped for router in world.routers.values())
    world.changed_at = world.now
    change()
    world.run(SETTLED)
    while (bad := wrong(world)) and world.now - began < LONGEST:
        world.run(SETTLED)
    assert not bad, bad[:3]
    assert not (circles := loops(world)), circles[:3]
    count = len(world.routers)
    return Phase(
        name,
        world.changed_at - began,
        (world.messages - messages) / count,
        (sum(router.seconds for router in world.routers.values()) - cpu) / count,
        sum(router.looped for router in world.routers.values()) - looped,
    )


def flap(world: World) -> None:
    """Take a tenth of the connections down and up again within ten seconds."""
    for link in world.random.sample(world.links, max(1, len(world.links) // 10)):
        down = world.random.uniform(0, 5)
        world.after(down, partial(world.close, link))
        world.after(down + world.random.uniform(0.01, 5), partial(world.open, link))


def each(change: Callable[[Any], None], them: Iterable[Any]) -> None:
    for one in them:
        change(one)


def crossing(world: World) -> list[Link]:
    """Return the connections between the first half of the routers and the second."""
    names = sorted(world.routers)
    half = set(names[: len(names) // 2])
    return [link for link in world.links if len({router.name in half for router in link.ends}) == 2]


def phases(world: World, count: int) -> Iterator[Phase]:
    """Yield the changes: start, flaps, a partition and its end, an unnoticed cut, restarts."""
    yield settle(world, "start", lambda: build(world, count))
    yield settle(world, "flaps", lambda: flap(world))
    cut = crossing(world)
    yield settle(world, "partition", partial(each, world.close, cut))
    yield settle(world, "heal", partial(each, world.open, cut))
    silent = world.random.sample(world.links, max(1, count // 20))
    yield settle(world, "silent cut", partial(each, world.sever, silent))
    yield settle(world, "mended", partial(each, world.mend, silent))
    names = world.random.sample(sorted(world.routers), max(1, count // 20))
    routers = [world.routers[name] for name in names]
    yield settle(world, "restarts", partial(each, Router.restart, routers))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--routers", type=int, default=120, help="from 3 to 128")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not 3 <= options.routers <= 128:
        parser.error("--routers: a network has from 3 to 128 interior routers")
    world = World(options.seed)
    print(f"{'':12}{'settled after':>15}{'messages':>12}{'CPU':>10}{'looped':>9}")
    print(f"{'':12}{'simulated s':>15}{'per router':>12}{'ms/router':>10}{'':>9}")
    for phase in phases(world, options.routers):
        cpu = phase.cpu * 1000
        print(f"{phase.name:12}{phase.seconds:15.2f}{phase.messages:12.0f}{cpu:10.1f}{phase.looped:9}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

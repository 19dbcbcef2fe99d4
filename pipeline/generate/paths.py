"""The generated network: a ring of routers, edge routers, and the paths through it, faulty ones included."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.generate.scenario import Scenario


def around(routers: int, origin: int, target: int, step: int) -> tuple[int, ...]:
    """Return the path from one router to another in one direction of the ring."""
    way = [origin]
    while way[-1] != target:
        way.append((way[-1] + step) % routers)
    return tuple(way)


def usual(routers: int, origin: int, target: int) -> tuple[int, ...]:
    """Return the shortest path, whose reverse is the usual path back."""
    low, high = min(origin, target), max(origin, target)
    ways = (around(routers, low, high, 1), around(routers, low, high, -1))
    best = min(ways, key=len)
    return best if origin == low else best[::-1]


class Ways:
    """Every path that messages take, by number; ``usual`` ones come first, by origin and target."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        every = range(scenario.places)
        self._ways = [self._usual(origin, target) for origin in every for target in every]
        self._names: dict[str, int] = {}

    def _usual(self, origin: int, target: int) -> tuple[int, ...]:
        if origin == target:
            return (origin,)
        here, there = map(self._scenario.interior, (origin, target))
        ends = ((origin,) if origin != here else ()), ((target,) if target != there else ())
        return (*ends[0], *usual(self._scenario.routers, here, there), *ends[1])

    def number(self, origin: Any, target: Any) -> Any:
        """Return the number of the usual path, or those of many."""
        return origin * self._scenario.places + target

    def way(self, origin: int, target: int) -> tuple[int, ...]:
        """Return the usual path."""
        return self._ways[int(self.number(origin, target))]

    def reverse(self, origin: int, target: int) -> None:
        """Make the path in the other direction of the ring the usual one."""
        first, second, *_ = self.way(origin, target)
        self._ways[self.number(origin, target)] = around(self._scenario.routers, origin, target, first - second)

    def add(self, way: tuple[int, ...]) -> int:
        """Add another path, such as a loop, and return its number."""
        self._ways.append(way)
        return len(self._ways) - 1

    def text(self, way: tuple[int, ...]) -> str:
        """Return a path as records have it: behind an edge router at which it begins, that one is not on it."""
        begins = int(len(way) > 1 and way[0] >= self._scenario.routers)
        return ">".join(map(self._scenario.router, way[begins:]))

    def compile(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], list[str]]:
        """Return each path's routers (padded with -1), length, and number of its text up to each hop; and the texts."""
        longest = max(map(len, self._ways))
        routers = np.full((len(self._ways), longest), -1, np.int64)
        texts = np.full((len(self._ways), longest), -1, np.int64)
        for at, way in enumerate(self._ways):
            routers[at, : len(way)] = way
            for hop in range(len(way)):
                name = self.text(way[: hop + 1])
                texts[at, hop] = self._names.setdefault(name, len(self._names))
        lengths = np.array(list(map(len, self._ways)), np.int64)
        return routers, lengths, texts, list(self._names)

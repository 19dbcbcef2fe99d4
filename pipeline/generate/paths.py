"""The generated network: a ring of routers, the ways through it, and those that something is wrong with."""

import numpy as np
import numpy.typing as npt

from pipeline.generate.scenario import Scenario


def around(routers: int, origin: int, target: int, step: int) -> tuple[int, ...]:
    """The way from one router to another in one direction of the ring."""
    way = [origin]
    while way[-1] != target:
        way.append((way[-1] + step) % routers)
    return tuple(way)


def usual(routers: int, origin: int, target: int) -> tuple[int, ...]:
    """The shortest way; of two as short the one that is the other's way back, too."""
    low, high = min(origin, target), max(origin, target)
    ways = (around(routers, low, high, 1), around(routers, low, high, -1))
    best = min(ways, key=len)
    return best if origin == low else best[::-1]


class Ways:
    """Every way that messages take, by number; ``usual`` ones come first, by origin and target."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        n = scenario.routers
        self._ways = [usual(n, origin, target) for origin in range(n) for target in range(n)]
        self._names: dict[str, int] = {}

    def number(self, origin: int, target: int) -> int:
        """Of the usual way."""
        return origin * self._scenario.routers + target

    def way(self, origin: int, target: int) -> tuple[int, ...]:
        """The usual one."""
        return self._ways[self.number(origin, target)]

    def reverse(self, origin: int, target: int) -> None:
        """Make the other way round the ring the usual one."""
        first, second, *_ = self.way(origin, target)
        self._ways[self.number(origin, target)] = around(self._scenario.routers, origin, target, first - second)

    def add(self, way: tuple[int, ...]) -> int:
        """A further one, such as a loop."""
        self._ways.append(way)
        return len(self._ways) - 1

    def text(self, way: tuple[int, ...]) -> str:
        """As a record has it."""
        return ">".join(map(self._scenario.router, way))

    def compile(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], list[str]]:
        """By way: its routers (padded with -1), length, the number of its text up to each hop; the texts."""
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

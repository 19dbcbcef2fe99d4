"""Shortest paths to all routers: Dijkstra's algorithm over the known link states.

All routers compute the same trees, whatever software they run: a path replaces another only if it is strictly
cheaper, and routers of equal cost are visited in the order of their ids. An id is replaced by its rank, so
that one number, cost times the number of routers plus rank, holds both.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

LinkStates = Mapping[str, Mapping[str, int]]

FABRICATED_COST: Final = 1
_NOBODY: Final = -1


class Route(msgspec.Struct, frozen=True):
    """The path to one router: the next hop, and the cost of the whole path."""

    next_hop: str
    cost: int


class Routes(msgspec.Struct, frozen=True):
    """The paths to all routers that can be reached.

    ``radius`` is the number of links of the longest shortest path, and among paths of equal cost of the
    longest one. Another router may prefer that one on its way here, and its messages are not looping.
    """

    paths: dict[str, Route]
    radius: int


class Graph:
    """Routers and their links. Each direction has its own cost."""

    def __init__(self, states: LinkStates) -> None:
        links: dict[str, Mapping[str, int]] = dict(states)
        for router, peers in states.items():
            for peer in peers:
                # A router without link state can be asked for it only if a path leads back from it.
                links.setdefault(peer, {router: FABRICATED_COST})
        self.names = sorted(links)
        self._rank = {name: rank for rank, name in enumerate(self.names)}
        self._links = [[(self._rank[peer], cost) for peer, cost in links[name].items()] for name in self.names]

    def rank(self, name: str) -> int:
        return self._rank[name]

    def tree(self, root: int) -> tuple[list[int], list[int], list[int]]:
        """Return the tree of shortest paths from a router: predecessors, costs and order.

        The predecessor of each router is -1 if it has none. The order sorts the routers by cost, without the
        root.
        """
        count = len(self.names)
        before = [_NOBODY] * count
        costs = [_NOBODY] * count
        settled = bytearray(count)
        order: list[int] = []
        costs[root] = 0
        heap = [root]
        while heap:
            cost, at = divmod(heapq.heappop(heap), count)
            if settled[at]:
                continue
            settled[at] = 1
            order.append(at)
            for peer, step in self._links[at]:
                if not settled[peer] and (costs[peer] == _NOBODY or cost + step < costs[peer]):
                    costs[peer] = cost + step
                    before[peer] = at
                    heapq.heappush(heap, (cost + step) * count + peer)
        return before, costs, order[1:]

    def longest(self, root: int, costs: list[int], order: list[int]) -> int:
        """Return the number of links of the longest among all shortest paths of these costs."""
        hops = [0] * len(self.names)
        for at in (root, *order):
            for peer, step in self._links[at]:
                if costs[at] + step == costs[peer]:
                    hops[peer] = max(hops[peer], hops[at] + 1)
        return max(hops)


def routes(graph: Graph, me: str) -> Routes:
    """Return the paths from this router."""
    root = graph.rank(me)
    before, costs, order = graph.tree(root)
    first: dict[int, int] = {}
    for at in order:
        previous = before[at]
        first[at] = at if previous == root else first[previous]
    names = graph.names
    paths = {names[at]: Route(names[first[at]], costs[at]) for at in order}
    return Routes(paths, graph.longest(root, costs, order))


def valid_origins(graph: Graph, me: str, reachable: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return, for each router, the reachable origins whose shortest path to it leads through this router.

    A message of any other origin is not forwarded there, because another copy is on its way.
    """
    mine = graph.rank(me)
    through: dict[int, list[str]] = {}
    for origin in reachable:
        for at in _beyond(graph, graph.rank(origin), mine):
            through.setdefault(at, []).append(origin)
    return {graph.names[at]: frozenset(origins) for at, origins in through.items()}


def _beyond(graph: Graph, root: int, mine: int) -> Iterator[int]:
    """Yield the routers behind this one in the tree of a root."""
    before, _, order = graph.tree(root)
    behind = bytearray(len(graph.names))
    behind[mine] = 1
    for at in order:
        if behind[before[at]]:
            behind[at] = 1
            yield at

"""Which way to every router: Dijkstra's algorithm over the link states that are known.

Every router computes the same trees, whatever software it runs: a path replaces another only if it is
strictly cheaper, and routers at the same cost are taken in the order of their names. Names are turned
into their ranks, so that one number, cost times the count of routers plus rank, is both.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

LinkStates = Mapping[str, Mapping[str, int]]

FABRICATED_COST: Final = 1
_NOBODY: Final = -1


class Route(msgspec.Struct, frozen=True):
    """The way to one router: the neighbour to send by, and what the whole way costs."""

    next_hop: str
    cost: int


class Routes(msgspec.Struct, frozen=True):
    """The ways to all routers that can be reached.

    ``radius``: how many links the longest of the shortest paths has, of those that cost the same the longest.
    Another router may prefer that one on its way to us, and its messages are not going in circles.
    """

    paths: dict[str, Route]
    radius: int


class Graph:
    """Routers and their links, each with a cost in its direction."""

    def __init__(self, states: LinkStates) -> None:
        links: dict[str, Mapping[str, int]] = dict(states)
        for router, peers in states.items():
            for peer in peers:
                # One that has told nobody about its links yet can be asked only if there is a way back.
                links.setdefault(peer, {router: FABRICATED_COST})
        self.names = sorted(links)
        self._rank = {name: rank for rank, name in enumerate(self.names)}
        self._links = [
            [(self._rank[peer], cost) for peer, cost in links[name].items()] for name in self.names
        ]

    def rank(self, name: str) -> int:
        return self._rank[name]

    def tree(self, root: int) -> tuple[list[int], list[int], list[int]]:
        """Of the shortest paths from a router: each router's predecessor (-1: none), its cost, and the
        routers in the order of their costs, the root left out.
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
        """Of all shortest paths in a tree's costs, the links of the longest one."""
        hops = [0] * len(self.names)
        for at in (root, *order):
            for peer, step in self._links[at]:
                if costs[at] + step == costs[peer]:
                    hops[peer] = max(hops[peer], hops[at] + 1)
        return max(hops)


def routes(graph: Graph, me: str) -> Routes:
    """The ways from this router."""
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
    """For each router: the reachable ones whose own shortest path to it leads through this one.

    A message from any other router is not ours to send on there: another copy is on its way.
    """
    mine = graph.rank(me)
    through: dict[int, list[str]] = {}
    for origin in reachable:
        for at in _beyond(graph, graph.rank(origin), mine):
            through.setdefault(at, []).append(origin)
    return {graph.names[at]: frozenset(origins) for at, origins in through.items()}


def _beyond(graph: Graph, root: int, mine: int) -> Iterator[int]:
    """The routers behind this one in the tree of a root."""
    before, _, order = graph.tree(root)
    behind = bytearray(len(graph.names))
    behind[mine] = 1
    for at in order:
        if behind[before[at]]:
            behind[at] = 1
            yield at

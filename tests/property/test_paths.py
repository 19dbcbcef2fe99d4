"""Paths against a plain model: distances by Floyd and Warshall, and the trees by the letter of the rule."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from core.interior.paths import Graph, routes, valid_origins

States = dict[str, dict[str, int]]
Costs = dict[tuple[str, str], int]

NAMES = [f"R{number}" for number in (1, 2, 3, 10, 20, 30, 4)]

# Directed links, as states may disagree while they change; costs from a small range make ties.
STATES = st.dictionaries(
    st.sampled_from(NAMES), st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3), max_size=4), min_size=1
).map(lambda states: {name: {p: c for p, c in peers.items() if p != name} for name, peers in states.items()})


def completed(states: States) -> States:
    """With the way back to the first that speaks of a router without a state."""
    links = dict(states)
    for name, peers in states.items():
        for peer in peers:
            links.setdefault(peer, {name: 1})
    return links


def distances(states: States) -> Costs:
    links = completed(states)
    cost = {(a, b): c for a, peers in links.items() for b, c in peers.items()} | {(a, a): 0 for a in links}
    for via, a, b in itertools.product(links, repeat=3):
        if (a, via) in cost and (via, b) in cost:
            through = cost[a, via] + cost[via, b]
            cost[a, b] = min(cost.get((a, b), through), through)
    return cost


def predecessor(states: States, cost: Costs, root: str, at: str) -> str:
    """The router before another one in a tree: of those on a shortest path the cheapest, then by name.

    It is settled first, and nothing later is strictly cheaper.
    """
    links = completed(states)
    fitting = [
        name
        for name, peers in links.items()
        if at in peers and (root, name) in cost and cost[root, name] + peers[at] == cost[root, at]
    ]
    return min(fitting, key=lambda name: (cost[root, name], name))


def path(states: States, cost: Costs, root: str, at: str) -> list[str]:
    """The routers from a root to another one, both included."""
    way = [at]
    while way[-1] != root:
        way.append(predecessor(states, cost, root, way[-1]))
    return way[::-1]


@given(STATES)
def test_routes_are_shortest_and_deterministic(states: States) -> None:
    """Exactly the reachable routers, at their true cost, by the first step of the tree."""
    me = min(states)
    cost = distances(states)
    found = routes(Graph(states), me)
    assert set(found.paths) == {b for a, b in cost if a == me} - {me}
    for name, way in found.paths.items():
        assert way.cost == cost[me, name]
        assert way.next_hop == path(states, cost, me, name)[1]


@given(STATES)
def test_valid_origins_are_those_whose_path_leads_through_here(states: States) -> None:
    """For every pair of other routers."""
    me = min(states)
    cost = distances(states)
    graph = Graph(states)
    reachable = routes(graph, me).paths
    found = valid_origins(graph, me, reachable)
    for origin, name in itertools.product(reachable, completed(states)):
        if (origin, name) in cost and name not in (origin, me):
            through = me in path(states, cost, origin, name)
            assert (origin in found.get(name, frozenset())) == through, (origin, name)


@given(STATES)
def test_the_radius_is_no_less_than_any_shortest_path(states: States) -> None:
    """With ties, the one with the most links."""
    me = min(states)
    cost = distances(states)
    links = completed(states)
    longest = {me: 0}
    for at in sorted((name for name in links if (me, name) in cost and name != me), key=lambda n: cost[me, n]):
        longest[at] = 1 + max(
            longest[name] for name in longest if at in links[name] and cost[me, name] + links[name][at] == cost[me, at]
        )
    assert routes(Graph(states), me).radius == max(longest.values())


@given(STATES)
def test_the_order_of_states_does_not_matter(states: States) -> None:
    """Routers learn of each other in different orders, and agree."""
    me = min(states)
    names = sorted(completed(states))
    full = {name: completed(states)[name] for name in names}
    turned = {name: dict(reversed(full[name].items())) for name in reversed(names)}
    assert routes(Graph(full), me) == routes(Graph(turned), me)
    one, other = Graph(full), Graph(turned)
    reachable = routes(one, me).paths
    assert valid_origins(one, me, sorted(reachable)) == valid_origins(other, me, sorted(reachable))

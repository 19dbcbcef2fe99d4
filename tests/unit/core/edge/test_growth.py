"""What one event costs an edge router's core does not grow with its clients' links and addresses."""

from collections.abc import Callable

import pytest

from bench.contract import C_CONNECTION_CLOSED, C_DETACH
from core.edge import lookup, uplink
from core.edge.place import LOOKUP
from core.link_routes.routes import Routes
from shm.contract.payloads import Attached, ConnectionClosed, Detach
from tests.support.beds.edge_router import CLIENT, UPLINKS, EdgeRouter, client

FEW, MANY = 60, 240
GROWTH = 1.25


def waiting(n: int) -> EdgeRouter:
    """So many links of a client wait for answers when the interior router takes no more questions."""
    edge = EdgeRouter()
    edge.do([edge.open(UPLINKS)])
    edge.do(edge.answer())
    edge.count("link is asked for", [client(i, True, f"a.{i}") for i in range(n)])
    assert edge.lookups() == n
    edge.told.clear()
    edge.count("questions end", [(C_DETACH, Detach(edge.find(LOOKUP), 1))])
    assert edge.lookups() >= n - 3 * lookup.PORTION
    edge.turn("turn while links wait", 0)
    while edge.uplink.restless:
        before = edge.lookups()
        edge.core.step(edge.now)
        assert 0 < before - edge.lookups() <= lookup.PORTION
        edge._heard()
    edge._heard()
    answered = [one for one in edge.told if isinstance(one, Attached)]
    assert [one.link for one in answered if one.error is None] == list(range(n))
    return edge


def rest(edge: EdgeRouter) -> None:
    """Let the core do what it has left to its next steps."""
    while edge.uplink.restless:
        edge.core.step(edge.now)
        edge._heard()


def proxied(n: int) -> EdgeRouter:
    """So many addresses have a sender and a receiver here; the uplink goes, and another one takes over."""
    edge = EdgeRouter()
    attached = [client(i, bool(i % 2), f"a.{i // 2}") for i in range(2 * n)]
    edge.count("client attaches", attached)
    edge.count("uplink opens", [edge.open(UPLINKS)])
    edge.turn("turn while proxies are requested", 0)
    rest(edge)
    edge.count("proxy attaches", edge.answer())
    first = list(edge.links)
    assert len(edge.uplink._proxies) == 2 * n
    edge.do([edge.open(UPLINKS + 1)])
    edge.count("link of the uplink is lost", [(C_DETACH, Detach(index, 1, lost=True)) for index in first])
    edge.told.clear()
    edge.count("uplink closes", [(C_CONNECTION_CLOSED, ConnectionClosed(UPLINKS, 1))])
    assert 0 < len(edge.uplink._proxies) <= 3 * uplink.PORTION
    edge.turn("turn while the successor's proxies are requested", 0)
    rest(edge)
    edge.do(edge.answer())
    assert len(edge.uplink._proxies) == 2 * n
    edge.count("client detaches", [(C_DETACH, Detach(i, 1)) for i in range(2 * n)])
    return edge


def routed(n: int) -> EdgeRouter:
    """So many link routes have a broker here; the interior router leaves the requests for them without an answer."""
    edge = EdgeRouter()
    routes = edge.core.plane(Routes)
    for i in range(n):
        routes.offer((0, CLIENT), None, f"r{i}.#", False, "broker")
    edge.do([edge.open(UPLINKS)])
    answers = edge.answer()
    edge.do(answers[:-1])
    edge.count("link for requests attaches", answers[-1:])
    edge.turn("turn while routes are requested", 0)
    rest(edge)
    orders = edge.uplink.route_proxies._orders
    assert len(orders) == n
    edge.turn("turn while requests have no answer", 1)
    edge.turn("turn in which requests are repeated", 10)
    edge.count("link for requests detaches", [(C_DETACH, Detach(edge.find("$management"), 1))])
    rest(edge)
    assert not orders
    assert len(edge.uplink.route_proxies._proxies) == n
    edge.do([(C_CONNECTION_CLOSED, ConnectionClosed(CLIENT, 1))])
    while routes.restless:
        edge.core.step(edge.now)
        edge._heard()
    assert not edge.uplink.route_proxies._proxies
    return edge


@pytest.mark.parametrize("many", [waiting, proxied, routed], ids=lambda many: str(many.__name__))
def test_events_cost_as_much_among_many(many: Callable[[int], EdgeRouter]) -> None:
    few, more = many(FEW).costs, many(MANY).costs
    assert {name: (few[name], cost) for name, cost in more.items() if cost > few[name] * GROWTH} == {}

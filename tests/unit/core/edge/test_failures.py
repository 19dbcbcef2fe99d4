"""A failure of the core at one address or link route of an edge router leaves all others, and is not repeated."""

from typing import Any

import pytest

from core.edge import orders
from core.link_routes.routes import Routes
from shm.contract.failures import failures
from tests.support.beds.edge_router import CLIENT, UPLINKS, EdgeRouter, client

N = 40  # more than two portions
BAD = 33


def rest(edge: EdgeRouter) -> None:
    """Let the core do what it has left to its next steps, and some more turns."""
    while edge.uplink.restless:
        edge.core.step(edge.now)
        edge._heard()
    for _ in range(3):
        edge.now += 20_000_000_000
        edge.core.step(edge.now)
        edge._heard()


def test_the_other_addresses_get_their_links(monkeypatch: pytest.MonkeyPatch) -> None:
    edge, before = EdgeRouter(), failures.number
    edge.do(client(i, False, f"a.{i}") for i in range(N))
    open_link = edge.core.open_link

    def fail(*given: Any, **terms: Any) -> str:
        if terms.get("source") == f"a.{BAD}" or terms.get("target") == f"a.{BAD}":
            raise RuntimeError("a fault of ours")
        return open_link(*given, **terms)

    with monkeypatch.context() as context:
        context.setattr(edge.core, "open_link", fail)
        edge.do([edge.open(UPLINKS)])
        rest(edge)
        assert failures.number == before + 1
    assert {key for key, _ in edge.uplink._proxies} == {f"M0a.{i}" for i in range(N) if i != BAD}
    edge.do([client(N, False, f"a.{BAD}")])
    assert (f"M0a.{BAD}", True) in edge.uplink._proxies


@pytest.mark.parametrize("repeated", [False, True], ids=["after a change of the uplink", "after no answer"])
def test_the_other_link_routes_are_announced(repeated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    edge, before = EdgeRouter(), failures.number
    for i in range(N):
        edge.core.plane(Routes).offer((0, CLIENT), None, f"r{i}.#", False, "broker")
    edge.do([edge.open(UPLINKS)])
    answers = edge.answer()
    create = orders.create

    def fail(to: orders.Envelope, name: str, pattern: str, direction: str) -> bytes:
        if pattern.startswith(f"r{BAD}/"):
            raise RuntimeError("a fault of ours")
        return create(to, name, pattern, direction)

    if repeated:
        edge.do(answers)
        rest(edge)
    monkeypatch.setattr(orders, "create", fail)
    if not repeated:
        edge.do(answers)
    rest(edge)
    assert failures.number == before + 1
    proxies = edge.uplink.route_proxies
    assert len(proxies._orders) == N - 1
    assert [proxy.pattern for proxy in proxies._proxies.values() if not proxy.order] == [f"r{BAD}/#"]

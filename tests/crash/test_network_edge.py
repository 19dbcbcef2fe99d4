"""A star with two edge routers under load: each member dies and comes back, and so do cores.

::

    e1 ── a ──── b ── e2        e1 also has a connection to b, and e2 one to a, which stand by
"""

import signal
from collections.abc import Iterator

import pytest

from tests.support.clients.load import Load
from tests.support.routers.members import Network, query
from tests.support.running import until


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    network = Network(tmp_path_factory.mktemp("edges"))
    network.add("a")
    network.add("b", costs={"a": 1})
    network.add("e1", costs={"a": 1, "b": 1}, mode="edge")
    network.add("e2", costs={"b": 1, "a": 1}, mode="edge")
    try:
        network.start()
        whole(network)
        yield network
    finally:
        network.end()


def uplinks(network: Network, name: str) -> dict[str, bool]:
    """Where an edge router is connected to, and whether that connection is active."""
    rows = query(network[name], "connection", ["role", "container", "active"])
    return {row["container"]: row["active"] for row in rows if row["role"] == "edge"}


def whole(network: Network) -> None:
    """Wait until each edge router has both uplinks, one of them active."""
    for name in ("e1", "e2"):
        until(network[name].serving, f"{name} serves")
        until(lambda name=name: sorted(uplinks(network, name).values()) == [False, True], f"uplinks of {name}")


def load(network: Network) -> Load:
    return Load(network["e1"], network["e2"], ["balanced.up", "multicast.up"], ["balanced.down"])


def test_each_member_dies_and_comes_back(network: Network) -> None:
    """Of the interior routers the other one serves both edge routers; nothing that was accepted is lost."""
    with load(network) as clients:
        clients.get_on()
        for name, other in (("a", "b"), ("b", "a")):
            network[name].end(signal.SIGKILL)
            clients.get_on()
            for edge in ("e1", "e2"):
                until(lambda edge=edge, other=other: uplinks(network, edge) == {other: True}, f"{other} alone")
            network[name].start()
            whole(network)
        for name in ("e1", "e2"):
            network[name].end(signal.SIGKILL)
            network[name].start()
            clients.get_on()


def test_a_core_is_started_anew(network: Network) -> None:
    """Of an edge router, and of an interior one: the uplinks are made again."""
    with load(network) as clients:
        clients.get_on()
        for name in ("e1", "b"):
            network[name].child("core").kill()
            clients.get_on()

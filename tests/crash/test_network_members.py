"""A ring of four routers under load, whose members and processes die and come back one after the other; then
a mesh.

::

    a ─1─ b        Messages go from a to c: by b as long as it is there, by d otherwise.
    2     1
    d ─2─ c

With a connection of cost 5 between a and c, and one of cost 3 between b and d, it is a mesh.
"""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.support.clients.load import Load
from tests.support.routers.members import Member, Network, nodes, query
from tests.support.running import until


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    network = Network(tmp_path_factory.mktemp("ring"))
    network.add("a")
    network.add("b", costs={"a": 1})
    network.add("d", costs={"a": 2})
    network.add("c", costs={"b": 1, "d": 2})
    try:
        network.start()
        yield network
    finally:
        network.end()


def load(ring: Network) -> Load:
    return Load(ring["a"], ring["c"], ["balanced", "multicast"])


def through(member: Member) -> int:
    """Copies of the clients' messages that it has sent on to other routers."""
    rows = query(member, "router.address", ["key", "deliveriesTransit"])
    return sum(row["deliveriesTransit"] for row in rows if row["key"] in ("M0balanced", "M0multicast"))


def way(ring: Network, here: str, there: str, hop: str | None) -> None:
    """Wait until one reaches another by a next hop; None: not at all, or as its neighbour."""

    def so() -> bool:
        rows = [row for row in nodes(ring[here]) if row["id"] == there]
        return any(row["nextHop"] == hop for row in rows) if rows else hop is None

    until(so, f"{here} reaches {there} by {hop}")


def test_the_cheapest_way_is_taken(ring: Network) -> None:
    """All of it, while it is there."""
    way(ring, "a", "c", "b")
    with load(ring) as clients:
        clients.get_on()
        assert through(ring["b"]) > 0
        assert through(ring["d"]) == 0


@pytest.mark.parametrize(("name", "other", "how"), [("b", "d", signal.SIGKILL), ("d", "b", signal.SIGTERM)])
def test_a_router_on_the_way_ends_and_comes_back(ring: Network, name: str, other: str, how: signal.Signals) -> None:
    """The other way is taken, and left again when the cheaper one is back."""
    with load(ring) as clients:
        clients.get_on()
        ring[name].end(how)
        clients.get_on()
        way(ring, "a", "c", other)
        ring[name].start()
        ring.converge()
        way(ring, "a", "c", "b")
        clients.get_on()


def test_a_router_with_clients_ends_and_comes_back(ring: Network) -> None:
    """Its clients connect again, and find the others."""
    with load(ring) as clients:
        clients.get_on()
        ring["a"].end(signal.SIGKILL)
        ring["a"].start()
        ring.converge()
        clients.get_on()


def test_a_worker_with_a_router_connection_dies(ring: Network) -> None:
    """Only what was on its way through it is in doubt; the connection is dialled anew."""
    with load(ring) as clients:
        clients.get_on()
        for worker in ("0", "1"):
            os.kill(ring["b"].child("worker", worker).pid, signal.SIGKILL)
            clients.get_on()
        ring.converge()
        way(ring, "a", "c", "b")


def test_a_ring_becomes_a_mesh_of_mixed_costs(ring: Network) -> None:
    """Each member ends and comes back under load; of the ways that are left the cheapest is taken."""
    ring["c"].costs["a"], ring["d"].costs["b"] = 5, 3
    with load(ring) as clients:
        clients.get_on()
        ring["c"].end(signal.SIGKILL)
        ring["c"].start()
        ring.converge()
        way(ring, "a", "c", "b")
        clients.get_on()
        ring["b"].end(signal.SIGKILL)
        way(ring, "a", "c", "d")
        clients.get_on()
        ring["d"].end(signal.SIGTERM)
        way(ring, "a", "c", None)
        clients.get_on()
        for name in ("b", "d"):
            ring[name].start()
        ring.converge()
        way(ring, "a", "c", "b")
        clients.get_on()
        ring["a"].end(signal.SIGTERM)
        ring["a"].start()
        ring.converge()
        clients.get_on()


def test_nobody_complained(ring: Network) -> None:
    """Of anything but what was done to it."""
    for member in ring.members.values():
        bad = ("Traceback", "invalid control record", "made no sense")
        lines = [line for line in member.complaints() if any(one in line for one in bad)]
        assert lines == []

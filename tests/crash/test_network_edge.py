"""Edge routers under load whose uplink is lost: another interior router takes over.

::

    e1 ── a ─┐        e1 also has a connection to b, which stands by
     └─── b ─┴─ e2
"""

import signal
from collections.abc import Iterator

import pytest
from ledger import Clients, check
from members import Network, query
from running import until

GET_ON = 20  # messages accepted to each sender after each thing that happens


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    network = Network(tmp_path_factory.mktemp("edges"))
    network.add("a")
    network.add("b", costs={"a": 1})
    network.add("e1", costs={"a": 1, "b": 1}, mode="edge")
    network.add("e2", costs={"b": 1}, mode="edge")
    try:
        network.start()
        until(lambda: len(uplinks(network, "e1")) == 2, "both connections of e1")
        until(lambda: len(uplinks(network, "e2")) == 1, "the connection of e2")
        yield network
    finally:
        network.end()


def uplinks(network: Network, name: str) -> dict[str, bool]:
    """Where an edge router is connected to, and whether that connection is active."""
    rows = query(network[name], "connection", ["role", "container", "active"])
    return {row["container"]: row["active"] for row in rows if row["role"] == "edge"}


def url(network: Network, name: str) -> str:
    member = network[name]
    return f"amqp://{member.host}:{member.port}"


def get_on(senders: list[Clients]) -> None:
    """More messages are accepted to each sender."""
    for clients in senders:
        while not (before := clients.accepted()):
            pass

        def more(clients: Clients = clients, before: dict[str, int] = before) -> bool:
            now = clients.accepted()
            return all(now.get(name, 0) >= count + GET_ON for name, count in before.items())

        until(more, "more messages accepted")


def test_the_active_interior_router_dies_and_comes_back(network: Network) -> None:
    """Nothing that was accepted is lost, in either direction."""
    roles = [("e1", "send=balanced.up"), ("e2", "receive=balanced.up")]
    roles += [("e2", "send=balanced.down"), ("e1", "receive=balanced.down")]
    clients = [Clients(url(network, name), [[role]]) for name, role in roles]
    senders = [clients[0], clients[2]]
    try:
        get_on(senders)
        first = next(name for name, active in uplinks(network, "e1").items() if active)
        other = {"a": "b", "b": "a"}[first]
        if first == "a":
            network["a"].end(signal.SIGKILL)
            until(lambda: uplinks(network, "e1") == {other: True}, "the other uplink of e1")
            get_on(senders)
            network["a"].start()
            network.converge()
            until(lambda: uplinks(network, "e1") == {"a": False, "b": True}, "a stands by")
        get_on(senders)
        ledgers = [ledger for one in (*senders, clients[1], clients[3]) for ledger in one.finish()]
        check(ledgers, at_least=2 * GET_ON)
    finally:
        for one in clients:
            one.__exit__()


def test_a_core_is_started_anew(network: Network) -> None:
    """Of the edge router, and of an interior one: the uplinks are made again."""
    for name in ("e1", "b"):
        receiver = Clients(url(network, "e2"), [["receive=balanced.again"]])
        sender = Clients(url(network, "e1"), [["send=balanced.again"]])
        try:
            get_on([sender])
            network[name].child("core").kill()
            get_on([sender])
            check(sender.finish() + receiver.finish(), at_least=2 * GET_ON)
        finally:
            for one in (sender, receiver):
                one.__exit__()

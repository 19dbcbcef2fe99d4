"""Credit without a configured linkCapacity: a fast client gets more than 250, others never do."""

import threading
from collections.abc import Iterator

import pytest
from proton import Message

from bench.build import build_wire
from bench.clients import Client, ClientSpec
from routerd.cli.client import Client as Manager
from routerd.cli.client import Place
from tests.support.peer import ACCEPTED, CREDIT, Net
from tests.support.running import Configuration, RunningRouter, address_of

MOST = 1000
MANY = 3_000_000  # enough that some 1,024 of them come within 8 ms, whatever else this machine does
SOME = 200_000
SLOWLY = 3000


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """The second listener's capacity is configured, and so is that of an address."""
    return Configuration(
        sections=f"listener {{\n host: 127.0.0.1\n port: 0\n linkCapacity: {CREDIT}\n}}\n"
        f"address {{\n prefix: exact\n linkCapacity: {CREDIT}\n}}\n"
    )


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    build_wire()


@pytest.fixture
def manager(router: RunningRouter) -> Iterator[Manager]:
    with Manager(Place(router.url)) as manager:
        yield manager


def capacity(manager: Manager, name: str) -> int:
    """The credit that the sender to an address may have; 0: it is not there."""
    rows = [r for r in manager.query("router.link") if r["owningAddr"] == f"M0{name}" and r["linkDir"] == "in"]
    return int(rows[0]["capacity"]) if rows else 0


def capacities(
    manager: Manager, url: str, name: str, count: int, *, presettled: bool = False, enough: int = 0
) -> set[int]:
    """What a fast sender to an address may have, while it sends, or until that is ``enough``."""

    def client(mode: str) -> Client:
        port = address_of(url)[1]
        return Client(ClientSpec(mode=mode, port=port, address=name, count=count, presettled=presettled), "wire")

    found: set[int] = set()
    with client("recv") as to, client("send") as by:
        to.await_ready()
        by.await_ready()
        waiting = threading.Thread(target=to.result)
        waiting.start()
        by.go()
        while waiting.is_alive() and enough not in found:
            found.add(capacity(manager, name))
            waiting.join(0.02)
        if not enough:
            waiting.join()
    return found


@pytest.mark.parametrize("presettled", [False, True])
def test_a_fast_client_gets_more(router: RunningRouter, manager: Manager, presettled: bool) -> None:
    """And management says so."""
    found = capacities(manager, router.url, f"fast.{presettled}", MANY, presettled=presettled, enough=MOST)
    assert MOST in found


def test_no_settled_message_of_a_fast_client_is_dropped(router: RunningRouter, manager: Manager) -> None:
    """Its receiver's list is as long as its credit."""
    capacities(manager, router.url, "settled", SOME, presettled=True)
    assert [router.core[name] for name in ("dropped_slow", "dropped_behind", "dropped_presettled")] == [0, 0, 0]


def test_a_configured_capacity_is_a_bound(router: RunningRouter, manager: Manager) -> None:
    """The listener's, and the address's, however fast the client is."""
    assert capacities(manager, router.urls[1], "listener", SOME) == {CREDIT}
    assert capacities(manager, router.url, "exact", SOME) == {CREDIT}


def test_an_ordinary_client_has_250(net: Net, manager: Manager) -> None:
    """For as long as it sends."""
    at, to = net.peer(), net.peer()
    receiver = at.receiver("slow", 2 * CREDIT)
    sender = to.ready_sender("slow")
    for _ in range(SLOWLY // 100):
        sent = [net.send(sender, Message(body="x")) for _ in range(100)]
        for got in at.take(receiver, 100):
            got.settle()
        assert net.settled(*sent) == [ACCEPTED] * 100
        receiver.flow(100)
        assert 0 < sender.credit <= CREDIT
        assert capacity(manager, "slow") == CREDIT

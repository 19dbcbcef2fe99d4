"""Credit without a configured linkCapacity: a fast client gets more than 250, others never do."""

import threading
import time
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
MANY, SOME = 400_000, 100_000  # messages
BUSY = 200_000  # messages a second: at fewer so much else runs here that no 1,024 messages may come within 8 ms
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
    manager: Manager, url: str, name: str, count: int, *, presettled: bool = False
) -> tuple[set[int], float]:
    """What a fast sender to an address may have while it sends, and how many messages a second it sends."""

    def client(mode: str) -> Client:
        port = address_of(url)[1]
        return Client(ClientSpec(mode=mode, port=port, address=name, count=count, presettled=presettled), "wire")

    found: set[int] = set()
    with client("recv") as to, client("send") as by:
        to.await_ready()
        by.await_ready()
        began = time.monotonic()
        sending = threading.Thread(target=by.result)
        sending.start()
        by.go()
        while sending.is_alive():
            found.add(capacity(manager, name))
            sending.join(0.01)
        seconds = time.monotonic() - began
    return found - {0}, count / seconds


@pytest.mark.parametrize("presettled", [False, True])
def test_a_fast_client_gets_more(router: RunningRouter, manager: Manager, presettled: bool) -> None:
    """And management says so."""
    found, rate = capacities(manager, router.url, f"fast.{presettled}", MANY, presettled=presettled)
    assert found <= set(range(CREDIT, MOST + 1))
    if rate < BUSY:
        pytest.skip(f"this machine carries only {rate:.0f} messages a second now")
    assert MOST in found


def test_a_configured_capacity_is_a_bound(router: RunningRouter, manager: Manager) -> None:
    """The listener's, and the address's, however fast the client is."""
    assert capacities(manager, router.urls[1], "listener", SOME)[0] == {CREDIT}
    assert capacities(manager, router.url, "exact", SOME)[0] == {CREDIT}


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

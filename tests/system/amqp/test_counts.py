"""Counts of deliveries: each ends in exactly one counter, and management and metrics show the same.

Every test's router is asked for the balance when it is at rest (tests/support/running.py).
"""

from collections.abc import Iterator

import pytest
from proton import Message

from routerd.cli.client import Client, Place
from shm.statistics.stats import DROPPED_PRESETTLED
from tests.support.clients.web import get, series, site
from tests.support.peer import Net
from tests.support.running import Configuration, RunningRouter

# attributes of the router entity, by the metric with the same meaning
SAME = {
    "deliveries_ingress": "deliveriesIngress",
    "deliveries_egress": "deliveriesEgress",
    "deliveries_transit": "deliveriesTransit",
    "presettled_deliveries": "presettledDeliveries",
    "dropped_presettled_deliveries": "droppedPresettledDeliveries",
    "accepted_deliveries": "acceptedDeliveries",
    "rejected_deliveries": "rejectedDeliveries",
    "released_deliveries": "releasedDeliveries",
    "modified_deliveries": "modifiedDeliveries",
}


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(router="workers: 2", sections="listener {\n host: 127.0.0.1\n port: 0\n http: yes\n}\n")


class Counts:
    """What a router has counted since the last look."""

    def __init__(self, router: RunningRouter) -> None:
        self._router, self._before = router, router.core

    def since(self, *names: str) -> list[int]:
        now = self._router.core
        return [now[name] - self._before[name] for name in names]


@pytest.fixture
def counts(router: RunningRouter) -> Counts:
    return Counts(router)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"counts.{request.node.name}"


@pytest.fixture
def client(router: RunningRouter) -> Iterator[Client]:
    """A client of the router's agent."""
    with Client(Place(router.url)) as client:
        yield client


@pytest.mark.parametrize("drops", [False, True])
def test_presettled_messages_on_their_way_to_a_receiver_that_goes(
    net: Net, counts: Counts, name: str, drops: bool
) -> None:
    """200 are on their way, it takes 10 and closes its link, or its connection breaks: 190 are dropped."""
    at, to = net.peer(), net.peer()
    receiver, sender = at.receiver(name, 10), to.ready_sender(name)
    for number in range(200):
        net.send(sender, Message(body=number), settled=True)
    at.take(receiver, 10)
    if drops:
        at.drop()
    else:
        at.close_link(receiver)
    net.until(lambda: sum(counts.since("egress", *DROPPED_PRESETTLED)) == 200, "an end of each")
    assert counts.since("ingress", "presettled", "egress") == [200, 200, 10]
    dropped = dict(zip(DROPPED_PRESETTLED, counts.since(*DROPPED_PRESETTLED), strict=True))
    assert dropped["dropped_gone"] + dropped["dropped_presettled"] == 190, dropped


def test_unsettled_messages_to_a_receiver_that_goes(net: Net, counts: Counts, name: str) -> None:
    """Sent ones are modified and out; the others are released, and not sent."""
    at, to = net.peer(), net.peer()
    receiver, sender = at.receiver(name, 10), to.ready_sender(name)
    sent = [net.send(sender, Message(body=number)) for number in range(30)]
    at.take(receiver, 10)
    at.close_link(receiver)
    net.settled(*sent)
    assert counts.since("ingress", "egress", "unsent", "modified", "released") == [30, 10, 20, 10, 20]


def test_unsettled_messages_of_a_sender_that_goes(net: Net, client: Client, counts: Counts, name: str) -> None:
    """Nobody hears the outcome that their receiver gives."""
    at, to = net.peer(), net.peer()
    receiver, sender = at.receiver(name, 10), to.ready_sender(name)
    for number in range(5):
        net.send(sender, Message(body=number))
    got = at.take(receiver, 5)
    to.drop()
    net.until(
        lambda: [r["linkDir"] for r in client.query("link") if r["owningAddr"] == f"M0{name}"] == ["out"], "its end"
    )
    for one in got:
        one.settle()
    net.until(lambda: counts.since("no_outcome") == [5], "the end of each")
    assert counts.since("released", "modified") == [0, 0]


def test_a_stream_that_is_aborted(net: Net, counts: Counts, name: str) -> None:
    """It is neither sent nor dropped."""
    at, to = net.peer(), net.peer()
    at.receiver(name, 10)
    sender = to.ready_sender(name)
    half = net.begin(sender, b"\0Su\xb0\0\0\1\0" + bytes(100))
    net.until(lambda: counts.since("ingress") == [1], "the beginning")
    half.abort()
    net.until(lambda: counts.since("no_outcome", "unsent") == [1, 1], "the end")
    assert counts.since("egress", *DROPPED_PRESETTLED) == [0] * 5


def test_management_and_metrics_show_the_same(net: Net, router: RunningRouter, client: Client, name: str) -> None:
    """A receiver's and a sender's ends, and a message to nobody."""
    at, to = net.peer(), net.peer()
    receiver, sender = at.receiver(name, 3), to.ready_sender(name)
    for number in range(6):
        net.send(sender, Message(body=number), settled=number % 2 == 0)
    for one in at.take(receiver, 3):
        one.settle()
    at.drop()
    net.send(to.ready_sender(None), Message(address=name), settled=True)
    net.until(lambda: router.core["live_deliveries"] == 0, "an end of each")

    def scraped() -> dict[str, float]:
        scrape = series(get(site(router) + "/metrics").body)
        return {name: scrape[f"qdr_{name}_total"] for name in SAME}

    before = scraped()
    (row,) = client.query("router")
    after = scraped()
    assert all(before[name] <= row[attribute] <= after[name] for name, attribute in SAME.items()), (before, row, after)

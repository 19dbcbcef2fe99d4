"""Clients that attach and detach again and again over a link route, to a broker that does not answer."""

from collections.abc import Iterator

import pytest

from core.link_routes.requests import SHARE
from tests.support.beds.queue_routes import queue_routes
from tests.support.clients.frame_broker import FrameBroker
from tests.support.clients.frame_client import FrameClient
from tests.support.clients.octets import ATTACH, BEGIN, DETACH, said
from tests.support.hostile.verdict import MIB, Bounds, Verdict
from tests.support.running import Configuration, RunningRouter, address_of

PORTION, PORTIONS = 200, 12
WAITING = 1024  # links whose DETACH a broker has not answered, before it is asked for others
BOUNDS = Bounds(memory=16 * MIB)


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return queue_routes("broker")


def attaches(broker: FrameBroker) -> int:
    """What came while something else was awaited."""
    return sum(got.code == ATTACH for got in broker.passed)


@pytest.fixture
def broker(router: RunningRouter) -> Iterator[FrameBroker]:
    with FrameBroker(address_of(router.urls[1]), "broker") as broker:
        yield broker


def again_and_again(client: FrameClient) -> None:
    """Links of ever new names, each detached in the same write."""
    client.begin()
    for portion in range(PORTIONS):
        for n in range(PORTION):
            name = f"{portion}.{n}"
            client.write(client.attaching("queue.a", 0, True, name=name), said(DETACH, handle=0, closed=True))
        for _ in range(PORTION):
            client.expect(DETACH, 0)
        client.passed.clear()


def test_a_client_asks_a_silent_broker_for_no_more_than_its_share(router: RunningRouter, broker: FrameBroker) -> None:
    """It answers no ATTACH. The next client's attach comes at once, behind these."""
    with Verdict(router, BOUNDS), FrameClient(router.address) as attacker:
        again_and_again(attacker)
        broker.answer_begin(broker.expect(BEGIN))
        with FrameClient(router.address, "other") as other:
            other.begin()
            other.write(other.attaching("queue.a", 0, True))
            broker.expect(ATTACH, name="link-0-0@other")
            assert attaches(broker) == SHARE


def test_a_broker_that_answers_no_detach_is_not_asked_for_more(router: RunningRouter, broker: FrameBroker) -> None:
    """The engine keeps each link until its DETACH is answered."""
    with Verdict(router, BOUNDS), FrameClient(router.address) as client:
        client.begin()
        client.write(client.attaching("queue.a", WAITING, True))
        session = broker.answer(WAITING).channel
        client.expect(ATTACH)
        for first in range(0, WAITING, PORTION):
            numbers = range(first, min(first + PORTION, WAITING))
            client.write(*(client.attaching("queue.a", n, True) for n in numbers))
            for n in numbers:
                broker.answer(n)
            client.write(*(said(DETACH, handle=n, closed=True) for n in numbers))
            for _ in numbers:
                client.expect(DETACH, 0)
                broker.expect(DETACH)
        client.write(client.attaching("queue.a", 0, True, name="next"))
        client.round_trip()
        broker.passed.clear()
        broker.round_trip()
        assert attaches(broker) == 0
        broker.write(said(DETACH, session, handle=0, closed=True))
        assert broker.expect(ATTACH, name="next@frames")

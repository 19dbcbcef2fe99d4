"""Clients that attach and detach again and again over a link route, to a broker that does not answer."""

from collections.abc import Iterator

import pytest

from core.link_routes.requests import SHARE
from tests.support.beds.queue_routes import queue_routes
from tests.support.clients.frame_client import FrameClient, termini
from tests.support.clients.octets import ATTACH, BEGIN, DETACH, Frame, said
from tests.support.hostile.verdict import MIB, Bounds, Verdict
from tests.support.running import Configuration, RunningRouter, address_of

PORTION, PORTIONS = 200, 12
THEIRS = 1  # the broker's channel of the session that the router begins
WAITING = 1024  # links whose DETACH a broker has not answered, before it is asked for others
BOUNDS = Bounds(memory=16 * MIB)


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return queue_routes("broker")


class Quiet(FrameClient):
    """A broker that answers only what it is told to."""

    def take_session(self) -> None:
        got = self.expect(BEGIN)
        self.channels[THEIRS] = got.channel
        self.write(self.beginning(THEIRS, remote_channel=got.channel))

    def attaches(self) -> Iterator[Frame]:
        """What came while something else was awaited."""
        return (got for got in self.passed if got.code == ATTACH and got.channel == self.channels[THEIRS])

    def answer(self, got: Frame, handle: int) -> None:
        ends = termini(got["receiver"], "queue.a")
        count = {"count": 0} if got["receiver"] else {}
        fields = {"name": got["name"], "handle": handle, "receiver": not got["receiver"], **ends, **count}
        self.write(said(ATTACH, THEIRS, **fields))


@pytest.fixture
def broker(router: RunningRouter) -> Iterator[Quiet]:
    with Quiet(address_of(router.urls[1]), "broker") as broker:
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


def test_a_client_asks_a_silent_broker_for_no_more_than_its_share(router: RunningRouter, broker: Quiet) -> None:
    """The next client's attach comes at once, behind these."""
    with Verdict(router, BOUNDS), FrameClient(router.address) as attacker:
        again_and_again(attacker)
        with FrameClient(router.address, "other") as other:
            other.begin()
            other.write(other.attaching("queue.a", 0, True))
            broker.take_session()
            broker.expect(ATTACH, name="link-0-0@other")
            assert len(list(broker.attaches())) == SHARE


def test_a_broker_that_answers_no_detach_is_not_asked_for_more(router: RunningRouter, broker: Quiet) -> None:
    """The engine keeps each link until its DETACH is answered."""
    with Verdict(router, BOUNDS), FrameClient(router.address) as client:
        client.begin()
        client.write(client.attaching("queue.a", WAITING, True))
        broker.take_session()
        broker.answer(broker.expect(ATTACH), WAITING)
        client.expect(ATTACH)
        for first in range(0, WAITING, PORTION):
            numbers = range(first, min(first + PORTION, WAITING))
            client.write(*(client.attaching("queue.a", n, True) for n in numbers))
            for n in numbers:
                broker.answer(broker.expect(ATTACH), n)
            client.write(*(said(DETACH, handle=n, closed=True) for n in numbers))
            for _ in numbers:
                client.expect(DETACH, 0)
                broker.expect(DETACH)
        client.write(client.attaching("queue.a", 0, True, name="next"))
        client.round_trip()
        broker.passed.clear()
        broker.round_trip()
        assert list(broker.attaches()) == []
        broker.write(said(DETACH, THEIRS, handle=0, closed=True))
        assert broker.expect(ATTACH, name="next@frames")

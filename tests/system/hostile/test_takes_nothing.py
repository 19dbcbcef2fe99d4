"""A client of a link route that gives credit and reads nothing, in the one session that a broker takes."""

import pytest

from tests.support.beds.queue_routes import queue_routes
from tests.support.clients.frame_broker import FrameBroker
from tests.support.clients.frame_client import FrameClient, flow, transfer
from tests.support.clients.octets import BEGIN, DETACH, FLOW, Frame
from tests.support.hostile.verdict import MIB, Bounds, Verdict
from tests.support.running import Configuration, RunningRouter, address_of

HOG, HONEST = 0, 1  # handles
PIECE = b"\0\x53\x75\xb0" + (1 << 30).to_bytes(4, "big") + bytes(8_000)  # of a message that never ends
BOUNDS = Bounds(memory=192 * MIB)


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return queue_routes("broker")


class Window:
    """What a broker may send in its session."""

    def __init__(self, broker: FrameBroker, began: Frame) -> None:
        self.broker, self.sent, self.left, self.ids = broker, 0, began["in_window"], 0

    def message(self, handle: int) -> None:
        """Send a short one."""
        self.broker.write(transfer(self.ids, handle=handle, settled=True))
        self.ids, self.sent, self.left = self.ids + 1, self.sent + 1, self.left - 1

    def feed(self, handle: int) -> Frame:
        """Send the pieces of a long message, as many as there is room for, until the router ends a link; its DETACH."""
        first: int | None = self.ids
        self.ids += 1
        while True:
            while self.left:
                self.broker.write(transfer(first, PIECE if first is not None else PIECE[8:], handle=handle, more=True))
                first, self.sent, self.left = None, self.sent + 1, self.left - 1
            got = self.broker.read()
            if got.code == DETACH:
                return got
            if got.code == FLOW:
                self.left = got["next_in"] + got["in_window"] - self.sent


def test_who_reads_nothing_loses_its_link_and_others_of_the_session_go_on(router: RunningRouter) -> None:
    with (
        Verdict(router, BOUNDS),
        FrameBroker(address_of(router.urls[1]), "broker", channel_max=0) as broker,
        FrameClient(router.address, "hog") as hog,
        FrameClient(router.address, "honest") as honest,
    ):
        for handle, client in ((HOG, hog), (HONEST, honest)):
            client.begin()
            client.write(client.attaching("queue.a", handle, True))
            if handle == HOG:
                broker.answer_begin(began := broker.expect(BEGIN))
            broker.answer(handle)
            client.attached(handle)
            client.write(flow(handle=handle, count=0, credit=1000))
            broker.expect(FLOW, handle=broker.handles[0, handle])
        window = Window(broker, began)
        window.message(HONEST)
        honest.take(1, HONEST)
        gone = window.feed(HOG)
        assert gone.condition == "amqp:resource-limit-exceeded"
        assert gone["handle"] == broker.handles[0, HOG]
        window.message(HONEST)
        honest.take(1, HONEST)

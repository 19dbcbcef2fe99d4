"""A link that its session's window holds up says so, whoever's window it is (AMQP 1.0 part 2.5.6)."""

import select

import pytest

from routerd.cli.client import Client, Place
from tests.support.clients.frame_client import FrameClient, flow, transfer
from tests.support.clients.octets import FLOW
from tests.support.running import Configuration, RunningRouter, until

FRAMES = 8  # of the router's window
BEGINNING = b"\0\x53\x75\xb0\x40\0\0\0"  # of a message of 1 GiB
PIECE = b"x" * 15_000


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(router="workers: 1", listener=f"host: 127.0.0.1\n port: 0\n maxSessionFrames: {FRAMES}")


class Endless:
    """A message that goes on as far as the router's window lets it."""

    def __init__(self, client: FrameClient) -> None:
        self.client, self.sent, self.most = client, 0, FRAMES

    def go_on(self) -> None:
        while self.sent < self.most:
            first = 0 if self.sent == 0 else None
            self.client.write(transfer(first, PIECE if self.sent else BEGINNING + PIECE, handle=0, more=True))
            self.sent += 1
        while self.client.buffer or select.select([self.client.socket], [], [], 0)[0]:
            if (got := self.client.read()).code == FLOW:
                self.most = got["next_in"] + got["in_window"]


def test_whose_window_is_shut(router: RunningRouter) -> None:
    """The receiver's client takes no frame, so its link holds a message up, and with it all links of the sender's."""
    with (
        FrameClient(router.address, "takes") as takes,
        FrameClient(router.address, "sends") as sends,
        Client(Place(router.url)) as client,
    ):
        takes.begin(in_window=0)
        sends.begin()
        for handle, address in enumerate("ab"):
            takes.receiver(address, handle)
            takes.write(flow(0, handle=handle, count=0, credit=10, in_window=0))
            sends.sender(address, handle)
        message = Endless(sends)

        def shut() -> dict[tuple[str, str], bool]:
            names = ["owningAddr", "linkDir", "windowShut"]
            rows = [row for row in client.query("router.link", names) if row["owningAddr"] in ("M0a", "M0b")]
            return {(row["owningAddr"], row["linkDir"]): row["windowShut"] for row in rows}

        ends = [("M0a", "out"), ("M0b", "out"), ("M0a", "in"), ("M0b", "in")]
        assert shut() == dict.fromkeys(ends, False)
        expected = dict(zip(ends, (True, False, True, True), strict=True))
        until(lambda: message.go_on() or shut() == expected, "the windows are shut")
        takes.write(flow(0, handle=0, count=0, credit=10))
        until(lambda: not shut()["M0a", "out"], "the receiver's window opens")
        assert "windowShut" not in next(iter(client.query("router.link")))

"""Heartbeats: empty frames that keep a silent connection alive (AMQP 1.0 part 2.4.5)."""

import time

from tests.support.clients.frame_client import FrameClient, transfer
from tests.support.clients.octets import Uint, frame
from tests.support.running import RunningRouter

HEARTBEAT = frame(0, b"")


class Listener(FrameClient):
    """A client that counts heartbeats."""

    heartbeats = 0

    def _more(self) -> None:
        before = self.buffer.count(HEARTBEAT)
        super()._more()
        self.heartbeats += self.buffer.count(HEARTBEAT) - before


def test_heartbeats_come_in_silence_alone(router: RunningRouter, name: str) -> None:
    """Frames are as good; without them an empty one comes before the time that the peer has named is over."""
    with Listener(router.address, idle=Uint(400)) as client:
        client.begin()
        client.receiver(name, 1, credit=100)
        client.sender(name)
        client.heartbeats = 0
        for number in range(60):
            client.write(transfer(number, settled=True))
            client.take(1, 1)
            time.sleep(0.02)
        assert client.heartbeats <= 2  # of a machine that is busy
        client.socket.settimeout(5)
        while client.heartbeats < 5:
            client._more()

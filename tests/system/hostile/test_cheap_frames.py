"""A few clients that send frames as small as there are, as fast as the router reads them."""

import select
import socket
import struct
import time
from contextlib import suppress
from typing import Final

import pytest

from tests.model.ockam_framing import TODAY, frame
from tests.model.source_routes.message import new_message
from tests.support.clients.wire import AMQP_HEADER, OPEN, begin, described
from tests.support.clients.wire import frame as amqp_frame
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import Verdict
from tests.support.running import RunningRouter

CLIENTS = 12  # half of them at each worker: four full reads of each would be 24 in a turn, of some 5 ms each
FULL_READS = 6 << 16  # octets of a quarter of these
SECONDS: Final = 1.2
OPENED = AMQP_HEADER + amqp_frame(0, described(OPEN, "hasty")) + begin(0)
HEARTBEAT = struct.pack(">IBBH", 8, 2, 0, 0)
FLOODS = {
    "amqp, heartbeats": ("amqp", OPENED, HEARTBEAT),
    "ockam, heartbeats": ("ockam", TODAY.preamble, frame(new_message((), (), b"", None), TODAY)),
}


def rage(clients: list[socket.socket], chunk: bytes) -> None:
    """All of them write and read at once."""
    rest = dict.fromkeys(clients, memoryview(chunk))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        readable, writable, _ = select.select(clients, clients, [], 0.1)
        for client in readable:
            with suppress(BlockingIOError):
                client.recv(1 << 16)
        for client in writable:
            with suppress(BlockingIOError):
                rest[client] = rest[client][client.send(rest[client]) :] or memoryview(chunk)


@pytest.mark.parametrize("kind", FLOODS)
def test_frames_that_say_nothing(attacked: RunningRouter, target: Target, kind: str) -> None:
    """Each connection has its share of a turn, whatever its octets cost."""
    where, begins, says = FLOODS[kind]
    with Verdict(attacked):
        octets, turns = attacked.counted("bytes_in"), attacked.counted("loops")
        clients = [socket.create_connection(("127.0.0.1", getattr(target, where)), timeout=30) for _ in range(CLIENTS)]
        for client in clients:
            client.sendall(begins)
            client.setblocking(False)
        rage(clients, says * 8000)
        octets, turns = attacked.counted("bytes_in") - octets, attacked.counted("loops") - turns
        for client in clients:
            client.close()
    assert octets / turns < FULL_READS

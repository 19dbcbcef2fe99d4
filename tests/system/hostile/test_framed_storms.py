"""Thousands of RMR and Ockam clients within a few seconds that say nothing or half a frame, and go or stay."""

import socket
import struct
from collections import deque
from contextlib import suppress
from typing import NamedTuple

import pytest

from tests.model.ockam_framing import TODAY
from tests.support.clients import rmr_frames
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import MIB, Bounds, Verdict
from tests.support.running import RunningRouter

CLIENTS = 2_000
HELD = 300  # of them, at the same time
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: the end of a connection comes as a reset
RMR = rmr_frames.encode(rmr_frames.Frame(1004, b"x" * 5_000))
OCKAM = TODAY.preamble + (100_000).to_bytes(4, "big") + b"\x84" + b"x" * 3_000


class Storm(NamedTuple):
    """What each client says to which listener, how many stay meanwhile, and whether their ends come as resets."""

    where: str
    says: bytes
    held: int = 0
    reset: bool = False


STORMS = {
    "rmr, silent, and gone": Storm("rmr", b""),
    "rmr, half a frame, and gone": Storm("rmr", RMR[:3_000]),
    "rmr, half a frame, and there": Storm("rmr", RMR[:3_000], HELD),
    "rmr, a frame and a half, and reset": Storm("rmr", RMR + RMR[:3_000], reset=True),
    "ockam, silent, and gone": Storm("ockam", b""),
    "ockam, the preamble, and there": Storm("ockam", TODAY.preamble, HELD),
    "ockam, half a frame, and there": Storm("ockam", OCKAM, HELD),
    "ockam, half a frame, and reset": Storm("ockam", OCKAM, reset=True),
}


def rage(port: int, storm: Storm) -> None:
    clients: deque[socket.socket] = deque()
    for _ in range(CLIENTS):
        clients.append(socket.create_connection(("127.0.0.1", port), timeout=30))
        if storm.reset:
            clients[-1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        with suppress(OSError):
            clients[-1].sendall(storm.says)
        if len(clients) > storm.held:
            clients.popleft().close()
    for client in clients:
        client.close()


@pytest.mark.parametrize("kind", STORMS)
def test_a_storm_of_framed_clients(attacked: RunningRouter, target: Target, kind: str) -> None:
    """Bystanders keep their time, few clients have a line in the log, and what they held comes back."""
    storm = STORMS[kind]
    with Verdict(attacked, Bounds(stall=0.25, memory=64 * MIB)):
        rage(getattr(target, storm.where), storm)

"""Connections that would keep all blocks of a worker: each has its part, and others go on."""

import time
from contextlib import ExitStack

import pytest

from tests.support.clients.frame_client import FrameClient, transfer
from tests.support.hostile.verdict import MIB, Bounds, Verdict
from tests.support.running import Configuration, RunningRouter

LINKS = 100
CREDIT = 250  # the link capacity of a listener
BOUNDS = Bounds(memory=64 * MIB)
HOLD = 2.0  # seconds during which the blocks are kept
SMALL = b"\0\x53\x77\xa1\x14" + 20 * b"x"


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """A router with few blocks."""
    return Configuration(router="workers: 2\n arenaSize: 8")


def receiver_of_all(router: RunningRouter, prefix: str, credit: int) -> FrameClient:
    """A client with a receiver for each address, which settles nothing, and reads nothing from now on."""
    client = FrameClient(router.address).__enter__()
    client.begin()
    for n in range(LINKS):
        client.receiver(f"{prefix}.{n}", n, credit=credit)
    return client


@pytest.mark.parametrize("own_receiver", [False, True], ids=["sends", "sends and receives"])
def test_small_messages_that_nobody_settles(router: RunningRouter, own_receiver: bool) -> None:
    """Of links that are each within their credit: their connection has its part of the blocks, on each worker."""
    with Verdict(router, BOUNDS), ExitStack() as clients:
        for part in range(4):
            prefix = f"kept.{own_receiver}.{part}"
            clients.push(receiver_of_all(router, prefix, 1000))
            sender = clients.enter_context(FrameClient(router.address))
            sender.begin()
            if own_receiver:
                sender.receiver(f"{prefix}.own", LINKS, credit=1)
            for n in range(LINKS):
                sender.sender(f"{prefix}.{n}", n)
            sender.write(*(transfer(i, SMALL, handle=i % LINKS) for i in range(LINKS * CREDIT)))
        time.sleep(HOLD)

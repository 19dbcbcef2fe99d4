"""Messages that never end, over many links, and receivers that read nothing: others find blocks, and streams go on."""

import time
from contextlib import ExitStack

import pytest

from tests.support.clients.frame_client import FrameClient, transfer
from tests.support.hostile.verdict import MIB, Bounds, Verdict
from tests.support.running import Configuration, RunningRouter

CONNECTIONS = 4
LINKS = 30
PIECE = b"\0\x53\x75\xb0\0\x10\0\0" + 15_992 * b"x"  # the beginning of a data section of a mebibyte
MORE = 16_000 * b"x"
PIECES = 20  # of each message: more than a stream may be ahead of its readers
LIVE = 60  # pieces of a message that somebody reads
BOUNDS = Bounds(memory=128 * MIB)
RECEIVERS = {"live": 1, "all.live": 20}  # by address; of more than 16 the core is told in steps
LATER = 10.0  # seconds in which a message that is read gets through


@pytest.fixture(scope="module", params=[4, 8])
def configuration(request: pytest.FixtureRequest) -> Configuration:
    """A router with few blocks."""
    sections = "address {\n prefix: all\n distribution: multicast\n}"
    return Configuration(router=f"workers: 2\n arenaSize: {request.param}", sections=sections)


def endless(client: FrameClient, prefix: str) -> None:
    """Begin a message on each link, and go on with all of them."""
    client.begin()
    for n in range(LINKS):
        client.sender(f"{prefix}.{n}", n)
    client.write(*(transfer(n, PIECE, handle=n, more=True) for n in range(LINKS)))
    for _ in range(PIECES):
        client.write(*(transfer(None, MORE, handle=n, more=True) for n in range(LINKS)))


@pytest.mark.parametrize("credit", [0, 1], ids=["receivers without credit", "receivers that do not read"])
def test_endless_messages(router: RunningRouter, credit: int) -> None:
    """Bystanders go on as usual, also with messages in several transfers; a long message that is read arrives."""
    with Verdict(router, BOUNDS), ExitStack() as clients:
        for part in range(CONNECTIONS):
            prefix = f"endless.{credit}.{part}"
            receiver = clients.enter_context(FrameClient(router.address))
            receiver.begin()
            for n in range(LINKS):
                receiver.receiver(f"{prefix}.{n}", n, credit=credit)
            endless(clients.enter_context(FrameClient(router.address)), prefix)
        time.sleep(1.0)
        for address, number in RECEIVERS.items():
            live(router, address, number)


def live(router: RunningRouter, address: str, number: int) -> None:
    """Three long messages to receivers of one connection, which reads them."""
    with FrameClient(router.address) as to, FrameClient(router.address) as at:
        for one in (to, at):
            one.begin()
        for n in range(number):
            at.receiver(address, n, credit=10)
        to.sender(address)
        began = time.monotonic()
        for id in range(3):
            to.write(transfer(id, PIECE, more=True), *(transfer(None, MORE, more=True) for _ in range(LIVE - 2)))
            to.write(transfer(None, MORE))
            for n in range(number):
                (got,) = at.take(1, n)
                assert len(got.payload) == LIVE * len(MORE)
        assert time.monotonic() - began < LATER

"""Thousands of sessions and links of one connection: the worker gives everybody else their turn."""

from tests.support.clients.frame_client import FrameClient
from tests.support.clients.octets import ATTACH, BEGIN, CLOSE, DETACH, END, said
from tests.support.hostile.verdict import MIB, Bounds, Verdict
from tests.support.running import RunningRouter, until

SESSIONS = 10_000
LINKS = 5_000
FEW = 2_000
# The allocator keeps what sessions and links had, for others to come.
BOUNDS = Bounds(stall=0.3, memory=128 * MIB)


def counted(client: FrameClient, code: int, number: int, channel: int | None = None) -> None:
    """So many frames of a kind come."""
    for _ in range(number):
        client.expect(code, channel)
        client.passed.clear()


def test_sessions(router: RunningRouter) -> None:
    """All begun in one write, all ended in another; each is answered."""
    with Verdict(router, BOUNDS), FrameClient(router.address) as client:
        client.write(*(client.beginning(channel) for channel in range(SESSIONS)))
        counted(client, BEGIN, SESSIONS)
        client.write(*(said(END, channel) for channel in range(SESSIONS)))
        counted(client, END, SESSIONS)
        client.close()


def test_links(router: RunningRouter) -> None:
    """All attached in one write, all detached in another; each is answered."""
    with Verdict(router, BOUNDS), FrameClient(router.address) as client:
        client.begin()
        client.write(*(client.attaching(f"crowd.{n % 50}", n, bool(n & 1)) for n in range(LINKS)))
        counted(client, ATTACH, LINKS, 0)
        client.write(*(said(DETACH, handle=n, closed=True) for n in range(LINKS)))
        counted(client, DETACH, LINKS, 0)
        client.close()


def test_a_session_with_many_links_ends(router: RunningRouter) -> None:
    """Its links go in portions; the session that the peer begins on its channel behind it is another one."""
    with Verdict(router, BOUNDS), FrameClient(router.address) as client:
        client.begin()
        client.write(*(client.attaching(f"crowd.{n % 50}", n, bool(n & 1)) for n in range(FEW)))
        counted(client, ATTACH, FEW, 0)
        client.write(said(END), client.beginning())
        client.expect(END, 0)
        client.begun()
        client.receiver("crowd.0")
        client.close()


def test_a_connection_with_many_links_goes(router: RunningRouter) -> None:
    """With a CLOSE, or without one."""
    for polite in (True, False):
        with Verdict(router, BOUNDS), FrameClient(router.address) as client:
            client.begin()
            client.write(*(client.attaching(f"crowd.{n % 50}", n, bool(n & 1)) for n in range(FEW)))
            counted(client, ATTACH, FEW, 0)
            if polite:
                client.close()
        until(lambda: router.counted("links") <= 6, "end of the links")


def test_frames_behind_those_that_wait(router: RunningRouter) -> None:
    """What stands behind thousands of BEGINs is read in its order: a CLOSE comes last, and ends all."""
    with Verdict(router, BOUNDS), FrameClient(router.address) as client:
        client.write(*(client.beginning(channel) for channel in range(FEW)), said(CLOSE))
        counted(client, BEGIN, FEW)
        client.end_of_connection()

"""Thousands of sessions and links of one connection: the worker gives everybody else their turn."""

from contextlib import suppress
from dataclasses import replace

from tests.support.clients.frame_client import EndedError, FrameClient
from tests.support.clients.octets import ATTACH, BEGIN, CLOSE, DETACH, END, said
from tests.support.hostile.verdict import MIB, Bounds, Verdict
from tests.support.running import RunningRouter, until

SESSIONS = 10_000
LINKS = 5_000
FEW = 2_000
LONG_NAME = 16_000
MOST_ATTACHED = 64 * MIB  # octets
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


def test_a_session_with_many_links_breaks_a_rule(router: RunningRouter) -> None:
    """Its links go in portions before it, those of other sessions stay, and what comes on it meanwhile is forgotten."""
    with Verdict(router, BOUNDS), FrameClient(router.address) as client:
        client.begin(1)
        client.receiver("crowd.other", channel=1)
        client.begin()
        client.write(*(client.attaching(f"crowd.{n % 50}", n, bool(n & 1)) for n in range(FEW)))
        counted(client, ATTACH, FEW, 0)
        client.write(client.attaching("crowd.again", 5, True, name="again"), said(DETACH, handle=7, closed=True))
        assert client.expect(END, 0).condition == "amqp:session:handle-in-use"
        client.write(said(END))
        client.receiver("crowd.third", 1, channel=1)
        assert router.counted("links") <= 2 + 6
        client.close()


def test_long_names_of_links(router: RunningRouter) -> None:
    """What the ATTACHs of a connection may have in all: beyond that it ends, and the memory comes back."""
    with Verdict(router, replace(BOUNDS, stall=1.0, memory=3 * MOST_ATTACHED)), FrameClient(router.address) as client:
        client.begin()
        attached = 0
        with suppress(EndedError):
            while attached <= MOST_ATTACHED // LONG_NAME:
                client.write(client.attaching("crowd.long", attached, False, name=f"{attached:05}" + "n" * LONG_NAME))
                counted(client, ATTACH, 1, 0)
                attached += 1
        assert 0.9 < attached / (MOST_ATTACHED // LONG_NAME) <= 1
        assert client.passed[-1].condition == "amqp:resource-limit-exceeded"
    until(lambda: router.counted("links") <= 6, "end of the links")


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

"""Deliveries whose link, session or connection ends before they are settled (AMQP 1.0 parts 2.5.2, 2.5.3 and 2.6.6)."""

from collections.abc import Callable

import pytest

from tests.support.beds.conformance import FREE, Connect
from tests.support.clients.frame_client import MESSAGE, FrameClient, disposition, flow, message, transfer
from tests.support.clients.octets import (
    ACCEPTED,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    MODIFIED,
    RELEASED,
    TRANSFER,
    said,
    state,
)

PLENTY = 100
LONG = message("l" * 15_000)

Leave = Callable[[FrameClient], None]


def leaves(*octets: bytes) -> Leave:
    return lambda client: client.write(*octets)


WAYS: dict[str, Leave] = {
    "closes the link": leaves(said(DETACH, handle=0, closed=True)),
    "detaches the link": leaves(said(DETACH, handle=0)),
    "ends the session": leaves(said(END)),
    "closes the connection": leaves(said(CLOSE)),
    "is gone": lambda client: client.socket.close(),
    "violates a rule": leaves(transfer(0, handle=FREE)),
    "says nonsense": leaves(said(FLOW)),
}
every_way = pytest.mark.parametrize("leave", WAYS.values(), ids=WAYS)


@every_way
def test_a_receiver_leaves_with_unsettled_deliveries(connect: Connect, name: str, leave: Leave) -> None:
    """2.6.12: those that it has may have been processed; those that it has not are free for others."""
    at, to = connect(), connect()
    at.receiver(name, credit=3)
    to.sender(name)
    to.write(*(transfer(number) for number in range(5)))
    at.take(3)
    to.round_trip()
    leave(at)
    states = to.settled(0, 4)
    assert [one.descriptor for one in states] == [MODIFIED] * 3 + [RELEASED] * 2
    assert all(one.value[0] is True for one in states[:3]), "delivery-failed"


@every_way
def test_a_sender_leaves_with_unsettled_deliveries(connect: Connect, name: str, leave: Leave) -> None:
    """2.6.12: the receiver keeps them, and what it says of them is nobody's error."""
    at, to, other = connect(), connect(), connect()
    at.receiver(name, credit=PLENTY)
    to.sender(name)
    to.write(*(transfer(number) for number in range(3)))
    at.take(3)
    leave(to)
    at.write(disposition(0, state=state(ACCEPTED)), disposition(1, settled=False, state=state(ACCEPTED)))
    at.round_trip()
    at.write(disposition(1, 2, state=state(ACCEPTED)))
    other.sender(name)
    other.write(transfer(0, message("later")))
    (arrived,) = at.take(1)
    assert arrived.payload == message("later")
    at.write(disposition(arrived["id"], state=state(ACCEPTED)))
    assert other.settled(0, 0) == [state(ACCEPTED)]


@every_way
def test_a_sender_leaves_within_a_message(connect: Connect, name: str, leave: Leave) -> None:
    """2.6.14: what its receiver has of it is aborted; the next message follows."""
    at, to, other = connect(), connect(), connect()
    at.receiver(name, credit=PLENTY)
    to.sender(name)
    to.write(transfer(0, LONG, more=True), *(transfer(None, LONG, more=True) for _ in range(20)))
    (first,) = at.frames(1)
    assert first["more"]
    leave(to)
    assert at.take(1)[0]["aborted"]
    other.sender(name)
    other.write(transfer(0))
    assert at.take(1)[0].payload == MESSAGE


@every_way
def test_a_receiver_leaves_within_a_message(connect: Connect, name: str, leave: Leave) -> None:
    """2.6.12: its sender hears of it once the rest has come, and goes on."""
    at, to, other = connect(), connect(), connect()
    at.receiver(name, credit=PLENTY)
    to.sender(name)
    to.write(transfer(0, LONG, more=True), *(transfer(None, LONG, more=True) for _ in range(20)))
    at.frames(1)
    leave(at)
    to.write(transfer(None, LONG, more=True), transfer(None, b""))
    (got,) = to.settled(0, 0)
    assert got.descriptor in (MODIFIED, RELEASED)
    other.receiver(name, credit=1)
    to.write(transfer(1))
    (arrived,) = other.take(1)
    assert arrived.payload == MESSAGE


@every_way
def test_a_receiver_leaves_whose_window_is_shut(connect: Connect, name: str, leave: Leave) -> None:
    """2.5.6: what waits for the window goes to nobody. 2.6.12: no octet of the second has been sent."""
    at, to = connect(0), connect()
    at.begin(in_window=1)
    at.receiver(name)
    at.write(flow(handle=0, count=0, credit=PLENTY, in_window=1))
    to.sender(name)
    to.write(transfer(0, LONG, more=True), transfer(None, LONG), transfer(1), transfer(2, settled=True))
    at.frames(1)
    to.round_trip()
    leave(at)
    assert [one.descriptor for one in to.settled(0, 1)] == [MODIFIED, RELEASED]


def test_a_session_ends_with_links_of_both_kinds(connect: Connect, name: str) -> None:
    """2.5.2: each with unsettled deliveries; the other session of the connection goes on with its own."""
    both, other = connect(2), connect()
    for channel in range(2):
        both.receiver(f"{name}.in.{channel}", 0, channel, credit=PLENTY)
        other.receiver(f"{name}.out.{channel}", channel, credit=PLENTY)
        both.sender(f"{name}.out.{channel}", 1, channel)
        other.sender(f"{name}.in.{channel}", 2 + channel)
    for channel in range(2):
        both.write(transfer(0, channel=channel, handle=1))
        other.take(1, channel)
        other.write(transfer(channel, handle=2 + channel))
        both.take(1, 0, channel)
    both.write(said(END))
    both.expect(END, 0)
    assert other.settled(0, 0)[0].descriptor == MODIFIED
    both.write(disposition(0, channel=1, state=state(ACCEPTED)))
    assert other.settled(1, 1) == [state(ACCEPTED)]
    other.write(disposition(0, 1, state=state(ACCEPTED)))
    assert both.settled(0, 0, 1) == [state(ACCEPTED)]
    both.close()


@pytest.mark.parametrize("fault", [transfer(9, handle=FREE), disposition(9, 8)], ids=["transfer", "disposition"])
def test_ends_that_cross(connect: Connect, name: str, fault: bytes) -> None:
    """2.5.3: each is taken for the answer to the other one; the channel is free then."""
    client = connect()
    client.receiver(name, credit=1)
    for _ in range(3):
        client.write(fault, transfer(0, handle=FREE), said(END))
        client.expect(END, 0)
        client.begin()
        client.receiver(name, credit=1)
    passed = client.round_trip()
    assert [got for got in passed if got.code == END] == []
    client.close()


def test_detaches_that_cross(connect: Connect, name: str) -> None:
    """2.6.6: the router ends the link while its peer does; the handle is free then."""
    at, client = connect(), connect(narrow=True)
    at.receiver(name, credit=PLENTY)
    for turn in range(3):
        client.sender(name)
        first = 6 * turn
        client.write(*(transfer(first + number) for number in range(6)), said(DETACH, handle=0, closed=True))
        client.expect(DETACH, 0)
    assert [got for got in client.round_trip() if got.code in (DETACH, END)] == []
    client.close()


def test_outcomes_that_cross_the_end_of_their_link(connect: Connect, name: str) -> None:
    """2.6.5: they come too late, and end nothing."""
    at, to = connect(), connect()
    for turn in range(3):
        at.receiver(name, credit=PLENTY)
        to.sender(name)
        to.write(transfer(turn))
        (arrived,) = at.take(1)
        at.write(disposition(arrived["id"], state=state(ACCEPTED)))
        to.write(said(DETACH, handle=0, closed=True))
        to.expect(DETACH, 0)
        at.write(said(DETACH, handle=0, closed=True), disposition(arrived["id"], state=state(RELEASED)))
        at.expect(DETACH, 0)
    at.close()
    to.close()


def test_nothing_comes_behind_the_routers_detach_and_end(connect: Connect, name: str) -> None:
    """2.5.2, 2.6.6: no TRANSFER, FLOW or DISPOSITION of what has ended, though messages wait for it."""
    at, to = connect(), connect()
    at.receiver(name, credit=3)
    to.sender(name)
    to.write(*(transfer(number) for number in range(20)))
    at.frames(3)
    at.write(said(DETACH, handle=0, closed=True), flow(next_in=3, in_window=PLENTY))
    at.expect(DETACH, 0)
    late = [got for got in at.round_trip() if got.code in (TRANSFER, DISPOSITION) or got["handle"] is not None]
    assert late == []
    to.write(said(END))
    to.expect(END, 0)
    late = [got for got in to.round_trip() if got.channel == 0 and got.code in (FLOW, DISPOSITION)]
    assert late == []

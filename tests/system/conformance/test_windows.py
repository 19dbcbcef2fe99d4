"""Sessions' windows and transfer-ids, in both directions (AMQP 1.0 parts 2.5.6 and 2.7.4)."""

import pytest

from tests.support.beds.conformance import WINDOW as NARROW_WINDOW
from tests.support.beds.conformance import Connect
from tests.support.clients.frame_client import FrameClient, disposition, flow, message, transfer
from tests.support.clients.octets import ACCEPTED, FLOW, TRANSFER, WRAP, Frame, state

PLENTY = 100


def transfers(client: FrameClient) -> list[Frame]:
    """Those that have come by now, and none will come without a FLOW."""
    return [got for got in client.round_trip() if got.code == TRANSFER]


def feed(connect: Connect, name: str, texts: list[str]) -> FrameClient:
    """A client that has sent these messages; the core has them."""
    client = connect()
    client.sender(name)
    client.write(*(transfer(number, message(text)) for number, text in enumerate(texts)))
    client.round_trip()
    return client


# ---- what the router says ----


def test_begin_says_the_windows(connect: Connect) -> None:
    """2.7.2: the answer names the channel that it answers, and offers the window that is configured."""
    client = connect(0, narrow=True)
    client.begin(3)
    answer = client.begin(5)
    assert answer["remote_channel"] == 5
    assert answer["in_window"] == NARROW_WINDOW
    assert answer["next_out"] == 0
    assert answer["out_window"] > 0


def test_the_routers_flows_say_where_it_is(connect: Connect, name: str) -> None:
    """2.7.4: next-incoming-id counts the peer's TRANSFERs from its first id, next-outgoing-id the router's own."""
    client = connect(0)
    client.begin(next_out=1000)
    client.receiver(name, 1, credit=PLENTY)
    client.sender(name)
    for number in range(3):
        client.write(transfer(number, more=True), transfer(None))
    client.take(3, 1)
    client.write(flow(echo=True))
    while (got := client.expect(FLOW, 0))["next_in"] != 1006:
        pass
    assert (got["next_out"], got["handle"]) == (3, None)
    assert got["in_window"] > 0
    assert got["out_window"] > 0


# ---- what the router sends ----


def test_no_more_transfers_than_the_peers_window(connect: Connect, name: str) -> None:
    """2.5.6: as many as BEGIN offers, then as many as each FLOW offers, whatever the credit is."""
    at = connect(0)
    at.begin(in_window=3)
    at.receiver(name)
    at.write(flow(handle=0, count=0, credit=PLENTY, in_window=3))
    feed(connect, name, [str(number) for number in range(10)])
    assert len(transfers(at)) == 3
    at.write(flow(next_in=3, in_window=2))
    assert len(transfers(at)) == 2
    at.write(flow(next_in=5, in_window=PLENTY))
    assert len(transfers(at)) == 5


def test_a_window_of_zero_lets_nothing_pass(connect: Connect, name: str) -> None:
    """2.5.6: until a FLOW of the session or of any of its links opens it."""
    at = connect(0)
    at.begin(in_window=0)
    at.receiver(name)
    at.write(flow(handle=0, count=0, credit=PLENTY, in_window=0))
    feed(connect, name, ["x"])
    assert transfers(at) == []
    at.write(flow(handle=0, count=0, credit=PLENTY, in_window=1))
    assert len(transfers(at)) == 1


def test_a_window_that_shuts_within_a_message_leaves_it_where_it_is(connect: Connect, name: str) -> None:
    """2.5.6: each frame of a message counts; the rest follows behind the FLOW, and nothing between."""
    at = connect(0, max_frame=512)
    at.begin(in_window=2)
    at.receiver(name, 0)
    at.receiver(f"{name}.other", 1)
    at.write(flow(handle=0, count=0, credit=1, in_window=2), flow(handle=1, count=0, credit=1, in_window=2))
    long = "x" * 3000
    feed(connect, name, [long])
    head = transfers(at)
    assert len(head) == 2
    assert all(got["more"] for got in head)
    feed(connect, f"{name}.other", ["y"])
    assert transfers(at) == []
    at.write(flow(next_in=2, in_window=PLENTY))
    rest = transfers(at)
    mine = [got for got in rest if got["handle"] == at.handles[0, 0]]
    assert b"".join(got.payload for got in head + mine) == message(long)
    assert not mine[-1]["more"]
    assert len(rest) - len(mine) == 1


def test_an_old_flow_offers_no_more_than_it_says(connect: Connect, name: str) -> None:
    """2.5.6: next-incoming-id + incoming-window - next-outgoing-id; what is already on its way counts."""
    at = connect(0)
    at.begin(in_window=4)
    at.receiver(name)
    at.write(flow(handle=0, count=0, credit=PLENTY, in_window=4))
    feed(connect, name, [str(number) for number in range(10)])
    assert len(transfers(at)) == 4
    at.write(flow(next_in=1, in_window=2))
    assert transfers(at) == []
    at.write(flow(next_in=1, in_window=5))
    assert len(transfers(at)) == 2


def test_a_flow_without_next_incoming_id_counts_from_the_first(connect: Connect, name: str) -> None:
    """2.5.6: its sender had not yet seen the router's BEGIN; the window is initial-outgoing-id + incoming-window."""
    at = connect(0)
    at.begin(in_window=1)
    at.receiver(name)
    at.write(flow(next_in=None, handle=0, count=0, credit=PLENTY, in_window=1))
    feed(connect, name, [str(number) for number in range(10)])
    assert len(transfers(at)) == 1
    at.write(flow(next_in=None, in_window=4))
    assert len(transfers(at)) == 3


@pytest.mark.parametrize("window", [2**31 - 1, 2**31, WRAP - 1])
def test_the_largest_windows_are_open(connect: Connect, name: str, window: int) -> None:
    """2.7.4: a window is any uint, in BEGIN and in FLOW."""
    at = connect(0)
    at.begin(in_window=window)
    at.receiver(name)
    at.write(flow(handle=0, count=0, credit=2, in_window=window))
    feed(connect, name, ["a", "b", "c"])
    assert len(transfers(at)) == 2
    at.write(flow(next_in=2, in_window=window, handle=0, count=2, credit=1))
    assert len(transfers(at)) == 1


def test_a_smaller_window_takes_back(connect: Connect, name: str) -> None:
    """2.5.6: a FLOW may offer less than the one before."""
    at = connect(0)
    at.begin(in_window=PLENTY)
    at.receiver(name)
    at.write(flow(in_window=1), flow(handle=0, count=0, credit=PLENTY, in_window=1))
    feed(connect, name, ["a", "b"])
    assert len(transfers(at)) == 1


def test_windows_of_two_sessions_are_their_own(connect: Connect, name: str) -> None:
    """2.5.6: a shut one does not hold up the other."""
    at = connect(0)
    at.begin(0, in_window=0)
    at.begin(1, in_window=PLENTY)
    at.receiver(f"{name}.0")
    at.receiver(f"{name}.1", channel=1, credit=PLENTY)
    at.write(flow(handle=0, count=0, credit=PLENTY, in_window=0))
    feed(connect, f"{name}.0", ["x"])
    feed(connect, f"{name}.1", ["y"])
    (got,) = transfers(at)
    assert got.channel == at.channels[1]


# ---- what the router takes ----


def test_a_peer_that_keeps_to_the_window_is_never_stopped_for_good(connect: Connect, name: str) -> None:
    """2.5.6: the router's FLOWs open the window again, within a message and between messages."""
    at, to = connect(), connect(0, narrow=True)
    window = to.begin()["in_window"]
    at.receiver(name, credit=PLENTY)
    to.sender(name)
    pieces = 10 * NARROW_WINDOW
    limit = window
    for number in range(pieces):
        while number == limit:
            got = to.expect(FLOW, 0)
            limit = got["next_in"] + got["in_window"]
        to.write(transfer(None if number else 0, message(str(number)), more=number < pieces - 1))
    assert at.take(1)[0].payload == b"".join(message(str(number)) for number in range(pieces))


def test_the_whole_window_may_come_at_once(connect: Connect, name: str) -> None:
    """2.5.6: as many frames as were offered, in one write, are no violation; what is behind is the next window's."""
    at, to = connect(), connect(0, narrow=True)
    to.begin()
    at.receiver(name, credit=PLENTY)
    to.sender(name)
    to.write(transfer(0, message("0"), more=True), *(transfer(None, b"", more=True) for _ in range(NARROW_WINDOW - 1)))
    to.write(flow(echo=True))
    while (got := to.expect(FLOW, 0))["next_in"] != NARROW_WINDOW:
        pass
    assert got["in_window"] > 0
    to.write(transfer(None, b""))
    at.take(1)


@pytest.mark.parametrize("first", [WRAP - 2, 2**31 - 2])
def test_transfer_ids_wrap(connect: Connect, name: str, first: int) -> None:
    """2.8.10: they are serial numbers; the router's next-incoming-id goes on behind zero."""
    at, to = connect(), connect(0, narrow=True)
    to.begin(next_out=first)
    at.receiver(name, credit=PLENTY)
    to.sender(name)
    for number in range(5):
        to.write(transfer(number, more=True), transfer(None))
        (arrived,) = at.take(1)
        at.write(disposition(arrived["id"], state=state(ACCEPTED)))
        to.settled(number, number)
    to.write(flow(next_out=(first + 10) % WRAP, echo=True))
    while (got := to.expect(FLOW, 0))["next_in"] != (first + 10) % WRAP:
        pass
    assert 0 < got["in_window"] <= NARROW_WINDOW


# ---- echo ----


def test_echo_of_a_session_is_answered(connect: Connect) -> None:
    """2.7.4: by a FLOW without a handle that asks for none in return."""
    client = connect(2)
    client.write(flow(1, echo=True))
    got = client.expect(FLOW)
    assert got.channel == client.channels[1]
    assert [got[field] for field in ("handle", "count", "credit", "available")] == [None] * 4
    assert not got["echo"]
    assert not got["drain"]


@pytest.mark.parametrize("receiver", [True, False], ids=["receiver", "sender"])
def test_echo_of_a_link_is_answered(connect: Connect, name: str, receiver: bool) -> None:
    """2.6.10: by a FLOW of that link, from which its peer knows where it is."""
    client = connect()
    client.receiver(name, 0, credit=7)
    client.sender(name, 1)
    client.write(flow(handle=0 if receiver else 1, count=0, credit=7 if receiver else 0, echo=True))
    got = client.expect(FLOW, 0, handle=client.handles[0, 0 if receiver else 1])
    assert got["count"] == 0
    assert got["credit"] == (7 if receiver else 250)
    assert not got["echo"]


def test_flows_without_echo_are_not_answered(connect: Connect, name: str) -> None:
    """2.7.4: two peers that answer each other's FLOWs never stop."""
    client = connect()
    client.receiver(name, 0, credit=7)
    client.sender(name, 1)
    client.round_trip()
    for _ in range(10):
        client.write(flow(), flow(handle=0, count=0, credit=7), flow(handle=1, count=0, credit=250))
    assert [got for got in client.round_trip() if got.code == FLOW] == []


def test_a_flow_of_the_session_alone_leaves_links_as_they_are(connect: Connect, name: str) -> None:
    """2.7.4: without a handle, no field of a link counts."""
    at = connect()
    at.receiver(name, credit=1)
    at.write(flow(count=0, credit=PLENTY, drain=True, available=3))
    feed(connect, name, ["a", "b"])
    assert len(transfers(at)) == 1

"""A checkpoint has what waits for a link for streams, and the replay from it goes on with that."""

from collections.abc import Callable

import msgspec
import pytest

from bench import contract as n
from core.forwarder.forward import DATA_LINK, LOCAL, NOTHING, STREAM_LINK
from core.forwarder.link_terms import LinkTerms
from core.forwarder.recorded import Exchanges, Nodes, StreamLinks
from routerd.replay.recording import Recording
from routerd.replay.run import Replay
from shm.memory import flight
from shm.memory.flight import RecordingError
from tests.support.beds.recorded import Bed

FAR, PLACE = 1, 0  # the bit of the other router, and the place of the connection to it
DATA, FIRST, SECOND, THIRD = 10, 11, 12, 13  # links of the receiver's worker
LONG = 128 << 10  # octets of an incomplete message that make it a stream
LINES = 1 << 13
ENTRY_LINK, ENTRY_LIST = 5, 8  # shm/memory/flight.h
LIST_IDLE, LINK_BYTES = 4, 80  # image.h
EDGE = 14  # a link to an edge router
SENDER = 1  # a link of the sender's worker to an address whose receivers are elsewhere


class Border(Bed):
    """A router with a neighbour, where the receivers of a second address are."""

    stops = (NOTHING, LOCAL)  # a stream waits for a link

    def __init__(self) -> None:
        super().__init__(LINES)
        self.nodes, self.links = Nodes(self.forwarder), StreamLinks(self.forwarder)
        self.nodes.add_router(0, b"0/me")
        self.nodes.add_router(FAR, b"0/far")
        self.pool = self.links.open()
        assert self.nodes.take_neighbour(self.pool) == PLACE
        self.open(DATA, DATA_LINK)
        self.nodes.set_neighbour(FAR, PLACE)
        self.nodes.set_path(FAR, FAR, 1, [])
        self.elsewhere = self.forwarder.add_address(1)
        self.forwarder.set_text(self.elsewhere, b"queue")
        self.nodes.add_remote(self.elsewhere, FAR)
        self.forwarder.add_link(0, SENDER, 1, LinkTerms(False, self.elsewhere, 250))

    def open(self, link: int, kind: int) -> None:
        assert self.nodes.add_link(1, link, 1, PLACE, kind, 0, LinkTerms(True, capacity=250))

    def begin(self, peer: int, length: int) -> None:
        self.act(
            0, type=n.A_DELIVER, link=SENDER, link_gen=1, block=20 + peer, peer=2 << 32 | peer, length=length, flags=0
        )

    def end(self, peer: int) -> None:
        self.act(
            0, type=n.A_CONTINUE, link=SENDER, link_gen=1, peer=2 << 32 | peer, length=2 * LONG, flags=n.F_COMPLETE
        )

    def sent(self) -> list[int]:
        """The links of messages that the neighbour's worker was told of."""
        return [one["link"] for one in self.heard(1) if one["type"] == n.W_SEND]

    def checkpoint(self) -> None:
        """Go on until one is made."""
        made = flight.header(self.ring).checkpoints
        while flight.header(self.ring).checkpoints == made:
            self.exchange(8)
            assert flight.header(self.ring).head < LINES

    def last(self) -> Recording:
        """What the ring has from its last checkpoint on."""
        taken = self.take()
        at = flight.header(self.ring).checkpoint - 1 - taken.about.first
        lines = taken.lines[at * flight.LINE :]
        about = msgspec.structs.replace(taken.about, whole=False, lines=len(lines) // flight.LINE)
        return Recording(about, lines)


def test_streams_that_wait_and_messages_that_grow() -> None:
    """Two streams have no link yet, and two messages are neither complete nor long: they get their links in turn."""
    border = Border()
    for peer, length in enumerate((LONG, LONG, 5, 5)):
        border.begin(peer, length)
    assert border.sent() == []
    assert border.links.state(border.pool) == (0, 0, 2)
    border.checkpoint()
    border.open(FIRST, STREAM_LINK)
    border.open(SECOND, STREAM_LINK)
    for peer in (2, 0, 1, 3):
        border.end(peer)
    border.forwarder.publish()
    assert border.sent() == [FIRST, SECOND, DATA, DATA]
    replay = Replay(border.last())
    assert replay.run() is None


def test_an_edge_router_is_told_of_addresses() -> None:
    """Also of one whose text the first core wrote before the checkpoint, and of one that goes while a copy names it."""
    border = Border()
    queue = border.forwarder.add_address(1)
    border.forwarder.set_text(queue, b"from the queue")
    border.forwarder.add_link(0, 2, 1, LinkTerms(False, queue, 250))
    border.forwarder.add_link(1, EDGE, 1, LinkTerms(True, queue, 250, edge=7, wants_override=True))
    whole = {"type": n.A_DELIVER, "link": 2, "link_gen": 1, "flags": n.F_COMPLETE, "length": 5}
    border.act(0, **whole, block=30, peer=3 << 32)
    border.forwarder.set_text(queue, b"under another name")
    border.act(0, **whole, block=31, peer=3 << 32 | 1)
    told = [one["extra"] for one in border.heard(1)]
    assert len(set(told)) == 2
    assert all(told)
    border.checkpoint()
    border.act(0, **whole, block=32, peer=3 << 32 | 2)
    assert [one["extra"] for one in border.heard(1)] == [told[1]]
    assert Replay(border.last()).run() is None


def test_copies_name_the_text_of_an_exchange_s_hop() -> None:
    """Those that are on their way when a checkpoint is made, and later ones."""
    border = Border()
    exchange = border.forwarder.add_address(1)
    hops = [(border.address, b""), (border.elsewhere, b"hop")]
    Exchanges(border.forwarder).put(exchange, b".", [(0, 0, b"")], [], hops, 1)
    border.forwarder.add_link(0, 2, 1, LinkTerms(False, exchange, 250))
    whole = {"type": n.A_DELIVER, "link": 2, "link_gen": 1, "flags": n.F_COMPLETE, "length": 5}
    border.act(0, **whole, block=30, peer=3 << 32)
    (first,) = [one for one in border.heard(1) if one["type"] == n.W_SEND]
    assert first["extra"]
    border.checkpoint()
    border.act(0, **whole, block=31, peer=3 << 32 | 1)
    assert [one["extra"] for one in border.heard(1) if one["type"] == n.W_SEND] == [first["extra"]]
    settled = {"flags": n.F_SETTLED, "state": n.S_ACCEPTED, "block": 0xFFFFFFFF}
    border.act(1, type=n.A_UPDATE, delivery=first["peer"], **settled)
    assert Replay(border.last()).run() is None


def changed(recording: Recording, kind: int, wanted: Callable[[bytes], bool], at: int, octets: bytes) -> Recording:
    """The recording with one of its checkpoint's entries changed: the first one of this kind that is wanted."""
    step = next(one for one in recording.steps() if one.kind == "entry" and one.what == kind and wanted(one.octets))
    body = bytearray(step.octets)
    body[at : at + len(octets)] = octets
    lines = bytearray(recording.lines)
    line = step.number * flight.LINE
    lines[line + flight.LINE - flight.INLINE : line + flight.LINE] = body[: flight.INLINE].ljust(flight.INLINE, b"\0")
    for place in range(flight.INLINE, len(body), flight.MORE_OCTETS):
        line += flight.LINE
        part = body[place : place + flight.MORE_OCTETS]
        lines[line + 1 : line + 1 + len(part)] = part
    return Recording(recording.about, bytes(lines))


def test_an_idle_link_is_not_idle_twice() -> None:
    """Whoever looked for a link among the idle ones would never come to an end."""
    border = Border()
    for link in (FIRST, SECOND, THIRD):
        border.open(link, STREAM_LINK)
    border.checkpoint()
    recording = border.last()
    assert Replay(recording).run() is None
    (listed,) = [
        one.octets for one in recording.steps()
        if one.kind == "entry" and one.what == ENTRY_LIST and one.octets[0] == LIST_IDLE
    ]  # fmt: skip
    assert len(listed) == 5 * 4
    crafted = changed(recording, ENTRY_LIST, lambda octets: octets == listed, 16, listed[8:12])
    with pytest.raises(RecordingError, match="an idle link makes no sense"):
        Replay(crafted).run()


def test_the_credit_of_a_receiver_s_link_does_not_grow() -> None:
    """What is kept of a sender's credit stands where a receiver's place among the busy ones does."""
    border = Border()
    border.checkpoint()
    recording = border.last()
    assert Replay(recording).run() is None
    growth = LINK_BYTES - 8  # four octets behind the flags
    crafted = changed(recording, ENTRY_LINK, lambda octets: octets[growth - 4] & 1 == 1, growth, b"\2")
    with pytest.raises(RecordingError, match="a link makes no sense"):
        Replay(crafted).run()


def test_idle_links_keep_their_order() -> None:
    """A surplus one waits for its peer and carries nothing more."""
    border = Border()
    for link in (FIRST, SECOND, THIRD):
        border.open(link, STREAM_LINK)
    (surplus,) = border.links.surplus(border.pool, 0, 1)
    border.checkpoint()
    border.begin(0, LONG)
    border.begin(1, LONG)
    border.begin(2, LONG)
    kept = [link for link in (THIRD, SECOND, FIRST) if link != surplus[0]]
    assert border.sent() == kept
    assert border.links.state(border.pool) == (3, 0, 1)
    border.forwarder.remove_link(1, *surplus)
    border.end(0)
    assert Replay(border.last()).run() is None

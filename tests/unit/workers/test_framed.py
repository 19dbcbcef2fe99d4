"""Framed connections of a worker, whose core and peer the test is."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import TYPE_CHECKING

import pytest
from proton import Message

from bench import contract as n
from tests.support.beds.stand import Stand
from tests.support.clients.rmr_frames import Frame, encode
from workers.framed.framed import BACK, DATA, OTHER, OUT
from workers.rmr.connections import Terms

if TYPE_CHECKING:
    from collections.abc import Iterator

PAYLOAD = 40_000
NONCE = 1  # of this router's tokens


def message(letter: bytes, size: int = PAYLOAD) -> bytes:
    """An RMR message that is all of this letter."""
    body = b"\0\x53\x75" + b"\xb0" + struct.pack(">I", size) + letter * size
    head = b"\xa1\x06rmr.mt\x71" + struct.pack(">i", 100)
    return b"\0\x53\x74\xc1" + bytes([len(head) + 1, 2]) + head + body


class Endpoint:
    """A connection to an RMR endpoint of a table with this address; the test is its core and its peer.

    ``most``: octets of its longest frame.
    """

    def __init__(self, stand: Stand, address: str = "t", most: int = 1 << 20) -> None:
        from workers.loop.pump import RmrTransport  # noqa: PLC0415 - the engine must be loaded first

        self.stand, self.address, self.got, self.names = stand, address, b"", []
        transport = RmrTransport(stand.pump)
        transport.serve(self)
        place = transport.add_place(10)
        transport.speak(place, Terms(address, "t/$rm", "t/$conn", "me:1", NONCE, bytes(16), most, 0, True))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            index, _ = transport.dial(place, socket.create_connection(listening.getsockname()).detach())
            self.peer = listening.accept()[0]
        self.peer.setblocking(False)
        stand.until(lambda: self.names, "a connection")
        self.links = {which: transport.attach(index, 1, which)[:2] for which in (DATA, OTHER, OUT, BACK)}
        for link in self.links.values():
            transport.link_open(*link, False)

    def opened(self, index: int, generation: int) -> None:
        self.names.append((index, generation))

    def gone(self, *what: object) -> None:
        """The test's end."""

    def tell(self, which: int, kind: int, **fields: int) -> None:
        link, generation = self.links[which]
        self.stand.work.push(n.pack(type=kind, link=link, link_gen=generation, **fields))
        self.stand.turn(0.0)
        self.stand.turn(0.0)

    def send(self, which: int, name: int, octets: bytes) -> None:
        """A whole message."""
        writer = self.stand.own.begin(True)
        assert writer
        assert writer.write(octets)
        writer.publish(n.CONTENT_COMPLETE)
        self.tell(which, n.W_SEND, arena=1, block=writer.head, peer=name, flags=n.F_COMPLETE)

    def begin(self, which: int, name: int, octets: bytes) -> n.ChainWriter:
        """The first octets of a message of which more come."""
        writer = self.stand.own.begin(True)
        assert writer
        assert writer.write(octets)
        writer.publish(n.CONTENT_RECEIVING)
        self.tell(which, n.W_SEND, arena=1, block=writer.head, peer=name)
        return writer

    def read(self) -> bytes:
        with contextlib.suppress(BlockingIOError):
            self.got += self.peer.recv(1 << 20)
        return self.got


@pytest.fixture
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    stand = Stand("framed")
    endpoint = Endpoint(stand, *getattr(request, "param", ()))
    yield endpoint
    endpoint.peer.close()
    stand.end()


def test_what_waits_for_a_gathered_message_goes_when_that_one_is_aborted(endpoint: Endpoint) -> None:
    aborted = endpoint.begin(OUT, 1, message(b"a")[:20_000])
    later = endpoint.begin(BACK, 2, message(b"b")[:20_000])
    assert later.write(message(b"b")[20_000:])
    later.publish(n.CONTENT_COMPLETE)
    endpoint.tell(BACK, n.W_CONTINUE, peer=2, flags=n.F_COMPLETE)
    assert not endpoint.read()
    aborted.publish(n.CONTENT_ABORTED)
    endpoint.tell(OUT, n.W_CONTINUE, peer=1, flags=n.F_ABORTED)
    endpoint.stand.until(lambda: b"b" * PAYLOAD in endpoint.read(), "the other message")
    assert b"aaa" not in endpoint.got


MIB = 1 << 20
LONG, REST = 100 * MIB, 27 * MIB + 780_000  # all but 6,432 octets of the worker's for long frames, with their fronts


@pytest.fixture
def pair() -> Iterator[tuple[Endpoint, Endpoint]]:
    """Two connections of a worker, whose longest frames do not fit into its memory for them together."""
    stand = Stand("framed", arena=8)
    one, other = Endpoint(stand, "t", LONG), Endpoint(stand, "u", REST)
    yield one, other
    one.peer.close()
    other.peer.close()
    stand.end()


def test_a_frame_counts_beside_a_message_that_is_gathered(pair: tuple[Endpoint, Endpoint]) -> None:
    """A connection has no memory for both that others have not left."""
    one, other = pair
    long = message(b"a", 300_000)
    gathered = one.begin(OUT, 1, long[:290_000])
    held = other.begin(OUT, 2, long[:290_000])
    one.send(BACK, 3, message(b"c", 300_000))
    one.send(BACK, 4, message(b"d", 40_000))
    assert not one.read()
    held.publish(n.CONTENT_ABORTED)
    other.tell(OUT, n.W_CONTINUE, peer=2, flags=n.F_ABORTED)
    one.stand.until(lambda: b"d" * 40_000 in one.read(), "the other frames")
    gathered.publish(n.CONTENT_ABORTED)
    one.tell(OUT, n.W_CONTINUE, peer=1, flags=n.F_ABORTED)


LONGEST = "t" * 1012  # of a table with RMR applications


@pytest.mark.parametrize("endpoint", [["t"], [LONGEST]], indirect=True, ids=["short", "longest"])
def test_a_reply_goes_to_the_application_that_its_token_names(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address is the table's and goes on with its name, however long both are."""
    stand, delivered = endpoint.stand, list[bytes]()
    name = b"application-x.local:4560"

    def hear(action: dict[str, int]) -> None:
        if action["type"] == n.A_DELIVER:
            delivered.append(stand.arena.read(action["block"]))

    monkeypatch.setattr(stand, "_hear", hear)
    endpoint.tell(OTHER, n.W_FLOW, credit=1)
    token = b"\xf5rtd" + bytes([2, len(name)]) + struct.pack("<H", NONCE) + name
    endpoint.peer.send(encode(Frame(100, sid=token)))
    stand.until(lambda: delivered, "a message")
    got = Message()
    got.decode(delivered[0])
    assert got.address == f"{endpoint.address}/{name.decode()}"

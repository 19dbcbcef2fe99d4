"""What a worker sends on framed connections: two links of one connection, whose frames go one after the other."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from bench import contract as n
from tests.support.beds.stand import Stand
from workers.framed.framed import BACK, OUT
from workers.rmr.connections import Terms

if TYPE_CHECKING:
    from collections.abc import Iterator

PROPERTIES, DATA = 0x74, 0x75
PAYLOAD = 40_000


def message(letter: bytes) -> bytes:
    """An RMR message that is all of this letter."""
    body = b"\0\x53" + bytes([DATA]) + b"\xb0" + struct.pack(">I", PAYLOAD) + letter * PAYLOAD
    head = b"\xa1\x06rmr.mt\x71" + struct.pack(">i", 100)
    return b"\0\x53" + bytes([PROPERTIES]) + b"\xc1" + bytes([len(head) + 1, 2]) + head + body


class Endpoint:
    """A connection to an RMR endpoint; the test is its core and its peer."""

    def __init__(self, stand: Stand) -> None:
        from workers.loop.pump import RmrTransport  # noqa: PLC0415 - the engine must be loaded first

        self.stand, self.got, self.names = stand, b"", []
        transport = RmrTransport(stand.pump)
        transport.serve(self)
        place = transport.add_place(10)
        transport.speak(place, Terms("t", "t/$rm", "t/$conn", "me:1", 1, bytes(16), 1 << 20, 0, True))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            index, _ = transport.dial(place, socket.create_connection(listening.getsockname()).detach())
            self.peer = listening.accept()[0]
        self.peer.setblocking(False)
        stand.until(lambda: self.names, "a connection")
        self.links = {which: transport.attach(index, 1, which)[:2] for which in (OUT, BACK)}
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
def endpoint() -> Iterator[Endpoint]:
    stand = Stand("framed")
    endpoint = Endpoint(stand)
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

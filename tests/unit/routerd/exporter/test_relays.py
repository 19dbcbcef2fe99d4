"""Relays between TLS and a worker: each has a portion of a turn, and what it leaves comes in the next ones."""

import selectors
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from routerd.exporter import websocket
from routerd.exporter.tls import Secured
from routerd.exporter.websocket import PORTION, Relay, Relays
from shm.contract.security import TlsSetup
from tests.support.certificates import Authority

NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
SENT = bytes(range(256)) * 2000  # more than the buffers of a pair take, in records of 16 KiB that no portion divides


class Endless:
    """A socket that always has more, and takes all."""

    def __init__(self) -> None:
        self.reads = 0

    def recv(self, most: int) -> bytes:
        self.reads += 1
        assert self.reads < 1000, "nobody else has a turn"
        return b"x"

    def send(self, data: memoryview) -> int:
        return len(data)


def test_a_relay_gives_way_to_others_though_there_is_more() -> None:
    """In both directions, and it waits for what it has left."""
    client, worker = Endless(), Endless()
    relay = Relay(client, worker)  # type: ignore[arg-type]  # as much of sockets as is used
    for turns in (1, 2):
        assert relay.serve()
        assert client.reads == worker.reads == turns * PORTION
        assert set(relay.awaited().values()) == {selectors.EVENT_READ}


class Bed:
    """A TLS client, a relay, and a worker's end, in one thread."""

    def __init__(self, authority: Authority, stack: ExitStack) -> None:
        made = authority.issue("server", "/CN=localhost")
        here, there = self.pair(stack)
        self.worker, ours = self.pair(stack)
        context = ssl.create_default_context(cafile=str(authority.certificate))
        self.client = context.wrap_socket(here, server_hostname="localhost", do_handshake_on_connect=False)
        server = Secured(TlsSetup("p", str(made.certificate), str(made.key))).accept(there)
        left = [self.client.do_handshake, server.do_handshake]
        while left:
            with suppress(*NOT_YET):
                left[0]()
                del left[0]
                continue
            left.reverse()
        self.selector = stack.enter_context(selectors.DefaultSelector())
        self.relays = Relays(self.selector)
        relay = Relay(server, ours)
        self.relays._relays.add(relay)
        self.relays._serve(relay)
        stack.callback(self.relays.close)
        stack.callback(self.client.close)

    def pair(self, stack: ExitStack) -> tuple[socket.socket, socket.socket]:
        ends = socket.socketpair()
        for end in ends:
            end.setblocking(False)
            stack.callback(end.close)
        return ends

    def passed(self, source: Any, sink: Any) -> bytes:
        """What comes at one side of all that is said at the other, until nothing is left to do."""
        got, rest, idle = bytearray(), memoryview(SENT), 0
        while idle < 3:
            idle += 1
            with suppress(*NOT_YET):
                while rest:
                    rest = rest[source.send(rest) :]
                    idle = 0
            for key, _ in self.selector.select(0):
                key.data()
                idle = 0
            with suppress(*NOT_YET):
                while part := sink.recv(70_000):
                    got += part
                    idle = 0
        assert not rest
        return bytes(got)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(Path(tmp_path_factory.mktemp("authority")))


@pytest.fixture
def bed(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    """With the smallest portions."""
    monkeypatch.setattr(websocket, "PORTION", 1)
    with ExitStack() as stack:
        yield Bed(authority, stack)


Sides = Callable[[Bed], tuple[Any, Any]]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl: apt install openssl")
@pytest.mark.parametrize("sides", [lambda bed: (bed.client, bed.worker), lambda bed: (bed.worker, bed.client)])
def test_all_arrives_in_order_in_many_portions(bed: Bed, sides: Sides) -> None:
    """TLS holds nothing back of which the selector does not know."""
    assert bed.passed(*sides(bed)) == SENT

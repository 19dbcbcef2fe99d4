"""An Ockam node's TCP transport driven by hand: frames as messages of the plain codec."""

import socket
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from routerd.source_routes.address import parse_route, show_route
from tests.model.ockam_framing import Framing, Unframer, frame
from tests.model.source_routes.message import Message, new_message
from tests.support.running import LONG


class Node:
    """One connection, whoever made it."""

    def __init__(self, sock: socket.socket, framing: Framing) -> None:
        self.socket = sock
        self.framing = framing
        sock.settimeout(LONG)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.name = "{}:{}".format(*sock.getsockname()[:2])
        self._unframer = Unframer(framing)
        self.inbox: list[Message] = []
        sock.sendall(framing.preamble)

    @classmethod
    def to(cls, address: tuple[str, int], framing: Framing) -> Self:
        """A connection to a router's listener."""
        return cls(socket.create_connection(address, timeout=LONG), framing)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.socket.close()

    def framed(self, onward: str, returning: str = "", payload: bytes = b"ping", tracing: str | None = None) -> bytes:
        return frame(new_message(parse_route(onward), parse_route(returning), payload, tracing), self.framing)

    def send(self, onward: str, returning: str = "", payload: bytes = b"ping", tracing: str | None = None) -> None:
        self.socket.sendall(self.framed(onward, returning, payload, tracing))

    def receive(self) -> Message:
        """The next message."""
        end = time.monotonic() + LONG
        while not self.inbox:
            assert time.monotonic() < end, "no message"
            data = self.socket.recv(1 << 16)
            assert data, "the router has closed"
            self.inbox += self._unframer.feed(data)
        return self.inbox.pop(0)

    def closed(self) -> bool:
        """Whether the router closes it."""
        with suppress(ConnectionError):
            while self.socket.recv(1 << 16):
                pass
        return True


def said(message: Message) -> tuple[str, str, bytes]:
    """Onward route, return route, payload."""
    return show_route(message.onward), show_route(message.returning), message.payload

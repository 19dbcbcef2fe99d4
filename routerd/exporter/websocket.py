"""AMQP over WebSockets: the exporter answers the HTTP request and a worker does the rest.

    asked --refused--> answered like any request
          --granted--> handed over                         without TLS: the socket goes to a worker
                   --> relayed --either side ends--> gone  with TLS: a worker has one end of a pair

A relay passes bytes between TLS and a worker; it reads from neither side while the other has bytes to take. In a turn
of the exporter it passes a portion in each direction: the rest still waits in the sockets, which wake it again. A read
leaves nothing in TLS, because it takes more than the largest record.
"""

import array
import base64
import contextlib
import hashlib
import selectors
import socket
import ssl
import struct
from collections.abc import Callable
from email.message import Message
from functools import partial
from http import HTTPStatus
from typing import Final

from routerd.exporter.gate import ShutError

PROTOCOLS: Final = ("amqp", "AMQPWSB10", "binary")  # the first one that the client offers wins
MOST_RELAYS: Final = 512
PORTION: Final = 4  # reads and writes of a relay in a turn, in each direction
_RELAY_BYTES: Final = 64 * 1024
_KEY: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
_NOT_YET: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def wanted(headers: "Message[str, str]") -> bool:
    """Whether a request asks for a WebSocket (RFC 6455, 4.2.1)."""
    return headers.get("Upgrade", "").strip().lower() == "websocket"


def granted(headers: "Message[str, str]") -> bytes:
    """Return the answer to a request for a WebSocket (RFC 6455, 4.2.2). Raises ShutError."""
    if headers.get("Sec-WebSocket-Version", "").strip() != "13":
        raise ShutError(HTTPStatus.BAD_REQUEST, "", "only version 13 of WebSockets is spoken here")
    key = headers.get("Sec-WebSocket-Key", "").strip()
    try:
        right = len(base64.b64decode(key, validate=True)) == 16
    except ValueError:
        right = False
    if not right:
        raise ShutError(HTTPStatus.BAD_REQUEST, "", "Sec-WebSocket-Key must be 16 bytes in base64")
    offered = [one.strip() for said in headers.get_all("Sec-WebSocket-Protocol", []) for one in said.split(",")]
    protocol = next((one for one in offered if one in PROTOCOLS), None)
    if protocol is None:
        raise ShutError(
            HTTPStatus.BAD_REQUEST, "", "the subprotocol amqp is spoken here; offer it in Sec-WebSocket-Protocol"
        )
    digest = hashlib.sha1((key + _KEY).encode(), usedforsecurity=False).digest()
    lines = (
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {base64.b64encode(digest).decode()}",
        f"Sec-WebSocket-Protocol: {protocol}",
    )
    return "\r\n".join([*lines, "", ""]).encode()


def hand_over(door: socket.socket, sock: socket.socket, peer: bytes) -> bool:
    """Pass a connection to any worker. Return False if none takes it now."""
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sock.fileno()]))
    try:
        door.sendmsg([peer], [rights])
    except OSError:
        return False
    return True


def address_of(sock: socket.socket) -> bytes:
    """Return the peer's address as a struct sockaddr_in or sockaddr_in6."""
    host, port, *more = sock.getpeername()
    if sock.family == socket.AF_INET:
        return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, socket.inet_aton(host))
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    head = struct.pack("=H", socket.AF_INET6) + struct.pack("!HI16s", port, more[0], packed)
    return head + struct.pack("=I", more[1])


class _Way:
    """Bytes from one side that the other has not taken; `ended` means that no more come."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source, self.sink = source, sink
        self.rest = memoryview(b"")
        self.ended = self.closed = False

    def move(self) -> None:
        """Pass a portion on, or what the source has and the sink takes."""
        for _ in range(PORTION):
            if self.closed:
                return
            if not self.rest and not self.ended:
                data = self.source.recv(_RELAY_BYTES)
                self.ended = not data
                self.rest = memoryview(data)
            if self.rest:
                self.rest = self.rest[self.sink.send(self.rest) :]
            elif self.ended:
                self.closed = True
                with contextlib.suppress(OSError, ValueError):
                    self.sink.shutdown(socket.SHUT_WR)


class Relay:
    """A client's connection with TLS, and the worker's end."""

    def __init__(self, client: socket.socket, worker: socket.socket) -> None:
        self.client, self.worker = client, worker
        self._ways = (_Way(client, worker), _Way(worker, client))

    def serve(self) -> bool:
        """Pass on what is possible. Return False when the relay has ended."""
        try:
            for way in self._ways:
                with contextlib.suppress(*_NOT_YET):
                    way.move()
        except (OSError, ValueError):
            return False
        return not any(way.closed for way in self._ways)

    def awaited(self) -> dict[socket.socket, int]:
        """Return the events to wait for at client and worker."""
        to_worker, to_client = self._ways
        read, write = selectors.EVENT_READ, selectors.EVENT_WRITE
        return {
            self.client: (write if to_client.rest else 0) | (0 if to_worker.rest else read),
            self.worker: (write if to_worker.rest else 0) | (0 if to_client.rest else read),
        }


class Relays:
    """All relays of a server; its selector wakes them."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._relays: set[Relay] = set()

    def begin(self, client: socket.socket, door: socket.socket, peer: bytes) -> bool:
        """Relay for a client. Return False if there are too many relays or no worker takes it."""
        if len(self._relays) >= MOST_RELAYS:
            return False
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        with theirs:
            if not hand_over(door, theirs, peer):
                ours.close()
                return False
        relay = Relay(client, ours)
        self._relays.add(relay)
        self._serve(relay)
        return True

    def close(self) -> None:
        """End all relays."""
        for relay in list(self._relays):
            self._end(relay)

    def _serve(self, relay: Relay) -> None:
        if relay not in self._relays:
            return  # its other side has just ended it
        if not relay.serve():
            self._end(relay)
            return
        for sock, events in relay.awaited().items():
            self._watch(sock, events, partial(self._serve, relay))

    def _watch(self, sock: socket.socket, events: int, ready: Callable[[], None] | None = None) -> None:
        known = sock in self._selector.get_map()
        if events and known:
            self._selector.modify(sock, events, ready)
        elif events:
            self._selector.register(sock, events, ready)
        elif known:
            self._selector.unregister(sock)

    def _end(self, relay: Relay) -> None:
        self._relays.remove(relay)
        for sock in (relay.client, relay.worker):
            self._watch(sock, 0)
            sock.close()

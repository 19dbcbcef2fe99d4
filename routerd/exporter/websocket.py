"""AMQP over WebSockets: the exporter answers the HTTP request and a worker does the rest.

    asked --refused--> answered like any request
          --granted--> handed over                         without TLS: the socket goes to a worker
                   --> relayed --either side ends--> gone  with TLS: a worker has one end of a pair

A relay passes bytes between TLS and a worker; it reads from neither side while the other has bytes to take.
"""

import array
import base64
import contextlib
import hashlib
import selectors
import socket
import ssl
import struct
from email.message import Message
from typing import Final

PROTOCOLS: Final = ("amqp", "AMQPWSB10", "binary")  # the first one that the client offers wins
MOST_RELAYS: Final = 512
_RELAY_BYTES: Final = 64 * 1024
_KEY: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
_NOT_YET: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class RefusedError(Exception):
    """A WebSocket is refused; the text says why and what to ask for instead."""


def wanted(headers: "Message[str, str]") -> bool:
    """Whether a request asks for a WebSocket (RFC 6455, 4.2.1)."""
    return headers.get("Upgrade", "").strip().lower() == "websocket"


def granted(headers: "Message[str, str]") -> bytes:
    """Return the answer to a request for a WebSocket (RFC 6455, 4.2.2). Raises RefusedError."""
    if headers.get("Sec-WebSocket-Version", "").strip() != "13":
        raise RefusedError("only version 13 of WebSockets is spoken here")
    key = headers.get("Sec-WebSocket-Key", "").strip()
    try:
        right = len(base64.b64decode(key, validate=True)) == 16
    except ValueError:
        right = False
    if not right:
        raise RefusedError("Sec-WebSocket-Key must be 16 bytes in base64")
    offered = [one.strip() for one in headers.get("Sec-WebSocket-Protocol", "").split(",")]
    protocol = next((one for one in offered if one in PROTOCOLS), None)
    if protocol is None:
        raise RefusedError("the subprotocol amqp is spoken here; offer it in Sec-WebSocket-Protocol")
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
        """Pass bytes on until the source has no more or the sink is full."""
        while not self.closed:
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
        worker.setblocking(False)
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

    def awaited(self) -> tuple[int, int]:
        """Return the events to wait for at client and worker."""
        to_worker, to_client = self._ways
        read, write = selectors.EVENT_READ, selectors.EVENT_WRITE
        client = (write if to_client.rest else 0) | (0 if to_worker.rest else read)
        worker = (write if to_worker.rest else 0) | (0 if to_client.rest else read)
        return client, worker

    def close(self) -> None:
        """Close both ends."""
        self.client.close()
        self.worker.close()


class Relays:
    """All relays of a server; its selector wakes them."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._by_socket: dict[socket.socket, Relay] = {}

    def __len__(self) -> int:
        return len(self._by_socket) // 2

    def __contains__(self, sock: object) -> bool:
        return sock in self._by_socket

    def begin(self, client: socket.socket, door: socket.socket, peer: bytes) -> bool:
        """Relay for a client. Return False if there are too many relays or no worker takes it."""
        if len(self) >= MOST_RELAYS:
            return False
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        with theirs:
            if not hand_over(door, theirs, peer):
                ours.close()
                return False
        relay = Relay(client, ours)
        for sock in (client, ours):
            self._by_socket[sock] = relay
            self._selector.register(sock, selectors.EVENT_READ)
        self.serve(client)
        return True

    def serve(self, sock: socket.socket) -> None:
        """Serve a relay of which one side is ready."""
        relay = self._by_socket[sock]
        if not relay.serve():
            self._end(relay)
            return
        for one, events in zip((relay.client, relay.worker), relay.awaited(), strict=True):
            self._watch(one, events)

    def close(self) -> None:
        """End all relays."""
        for relay in set(self._by_socket.values()):
            self._end(relay)

    def _watch(self, sock: socket.socket, events: int) -> None:
        known = sock in self._selector.get_map()
        if events and known:
            self._selector.modify(sock, events)
        elif events:
            self._selector.register(sock, events)
        elif known:
            self._selector.unregister(sock)

    def _end(self, relay: Relay) -> None:
        for sock in (relay.client, relay.worker):
            self._watch(sock, 0)
            del self._by_socket[sock]
        relay.close()

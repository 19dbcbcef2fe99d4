"""An HTTP server for a few small answers: one thread, bounded connections, no patience.

A connection is a conversation: a generator that yields the events that its socket waits for.

    accepted --first byte--> shaking hands --done--> reading      with TLS; without it, reading at once
    reading --whole head--> answering --all sent--> closing --peer closes, or time--> gone
    reading --deadline, bad or long head--> answering (an error) or gone

Every connection gets one answer and is closed, unless it asks for AMQP over WebSockets (websocket.py).
Prohibited: waiting for a peer. A slow client has a place in a table until its deadline, or until the table is
full and the oldest must go.
"""

import contextlib
import logging
import re
import selectors
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import Final, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec

from routerd.exporter import websocket
from routerd.exporter.gate import Gate, ShutError
from routerd.exporter.tls import TLS_RECORD, Secured
from shm.contract.complaints import Complaints
from shm.contract.failures import failures

LOGGER = logging.getLogger("HTTP")

MOST = 128  # open connections
AT_ONCE = 16  # connections accepted in one turn
HEAD_BYTES = 8192
_END = re.compile(rb"\r\n\r\n|\n\n")  # of a head
HEAD_SECONDS = 5.0
ANSWER_SECONDS = 10.0
CLOSING_SECONDS = 1.0
CROWDED_SECONDS = 1.0  # when the table is full, a connection of this age makes room
TELL_SECONDS = 1.0  # between two log lines about clients
REFUSALS: Final = ("slow", "crowded", "malformed", "reset", "tls", "host", "origin")
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

Result = TypeVar("Result")
Waiting = Generator[int, None, Result]  # yields events, returns a result


class Request(msgspec.Struct, frozen=True):
    """A request: ``parameters`` are those of the query, ``accept`` is the header of that name."""

    path: str
    parameters: dict[str, list[str]] = {}
    accept: str = ""


class Answer(msgspec.Struct, frozen=True):
    """An answer; ``headers`` come on top of type and length."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = {}

    def octets(self, with_body: bool) -> bytes:
        """Return the answer as it is sent."""
        lines = [
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
            "Connection: close",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        return head + (self.body if with_body else b"")


Site = Callable[[Request], Answer]


class Door(msgspec.Struct, frozen=True):
    """The settings of a listening socket."""

    site: Site
    gate: Gate
    tls: Secured | None = None
    workers: socket.socket | None = None  # takes connections for AMQP over WebSockets


class _Head(BaseHTTPRequestHandler):
    """The library's parser for a head that has already arrived. Raises ShutError."""

    def __init__(self, head: bytes) -> None:
        self.rfile = BytesIO(head)
        self.raw_requestline = self.rfile.readline()
        if not self.parse_request():
            raise _malformed(HTTPStatus.BAD_REQUEST)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        raise _malformed(code)


def _malformed(status: int) -> ShutError:
    return ShutError(HTTPStatus(status), "malformed", HTTPStatus(status).phrase)


class Connection:
    """A client's connection. Nobody is blamed for how one ends that is ``closing``: it has its answer."""

    def __init__(self, sock: socket.socket, peer: str, door: Door, now: float) -> None:
        self.sock = sock
        self.peer = peer  # address:port
        self.door = door
        self.born = now
        self.deadline = now + HEAD_SECONDS
        self.closing = False


class Server:
    """Serves sites on listening sockets; the caller calls ``turn`` repeatedly. Time is an argument."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()  # the data of a descriptor: what to do when it is ready
        self._connections: dict[Connection, Waiting[None]] = {}  # and their conversations, oldest first
        self._listening: dict[socket.socket, Door] = {}
        self._accepting = False
        self.answered: Counter[int] = Counter()
        self._relays = websocket.Relays(self._selector)
        self._clients = Complaints(TELL_SECONDS)
        self._now = 0.0  # the time of this turn
        self._pages = Complaints()
        self.refused: Counter[str] = Counter(dict.fromkeys(REFUSALS, 0))

    def __len__(self) -> int:
        return len(self._connections)

    def watch(self, fd: int) -> None:
        """Let ``turn`` return when this descriptor is readable."""
        self._selector.register(fd, selectors.EVENT_READ)

    def listen(self, doors: Mapping[socket.socket, Door]) -> None:
        """Accept connections from these listening sockets and no others."""
        self._accept_from_all(False)
        kept = {door.workers for door in doors.values()}
        for sock in self._listening.keys() - doors.keys():
            sock.close()
        for door in {one.workers for one in self._listening.values()} - kept:
            if door is not None:
                door.close()
        self._listening = dict(doors)
        self._accept_from_all(True)

    def turn(self, now: float, seconds: float) -> None:
        """Serve clients that are ready; wait at most `seconds` if none is."""
        self._now = now
        self._expire()
        due = min((c.deadline for c in self._connections), default=now + seconds)
        wait = min(seconds, max(0.0, due - now), seconds if self._accepting else CROWDED_SECONDS / 10)
        for key, _ in self._selector.select(wait):
            if key.data is not None:
                key.data()

    def close(self) -> None:
        """Drop all connections and stop listening."""
        for connection in list(self._connections):
            self._drop(connection)
        self._relays.close()
        self.listen({})
        self._selector.close()

    def _accept_from_all(self, accepting: bool) -> None:
        if accepting == self._accepting:
            return
        self._accepting = accepting
        for sock, door in self._listening.items():
            if accepting:
                self._selector.register(sock, READ, partial(self._accept, sock, door))
            else:
                self._selector.unregister(sock)

    def _accept(self, listening: socket.socket, door: Door) -> None:
        for _ in range(AT_ONCE):
            if len(self._connections) >= MOST:
                self._accept_from_all(False)
                return
            try:
                sock, address = listening.accept()
            except OSError:  # none left, or it is gone already, or there are no descriptors: the next turn tells
                return
            sock.setblocking(False)
            connection = Connection(sock, f"{address[0]}:{address[1]}", door, self._now)
            self._connections[connection] = self._converse(connection)
            self._selector.register(sock, READ, partial(self._serve, connection))

    def _expire(self) -> None:
        for connection in [c for c in self._connections if self._now >= c.deadline]:
            self._drop(connection, "slow")
        if not self._accepting and len(self._connections) >= MOST:
            oldest = next(iter(self._connections))
            if self._now - oldest.born >= CROWDED_SECONDS:
                self._drop(oldest, "crowded")
        if len(self._connections) < MOST:
            self._accept_from_all(True)

    def _serve(self, connection: Connection) -> None:
        """Continue a connection's conversation until it waits again."""
        try:
            events = next(self._connections[connection])
            self._selector.modify(connection.sock, events, partial(self._serve, connection))
        except StopIteration:
            self._drop(connection)
        except ssl.SSLError as error:
            self._drop(connection, "tls", getattr(error, "reason", None) or str(error))
        except OSError:
            self._drop(connection, "reset")
        except Exception as error:  # one client must not end the service of others
            failures.tell(f"answering HTTP client {connection.peer}", error, "its connection is closed")
            self._drop(connection)

    def _converse(self, connection: Connection) -> Waiting[None]:
        """Shake hands, read a request, answer it, and wait until the peer closes."""
        with_body = True
        try:
            if connection.door.tls is not None:
                yield from _shake_hands(connection, connection.door.tls)
            request = yield from _read(connection)
            if request is None:
                return
            octets, behind = request
            head = _Head(octets)
            with_body = head.command != "HEAD"
            host = connection.door.gate.host(head.headers, head.path, head.request_version)
            if connection.door.workers is not None and websocket.wanted(head.headers):
                connection.door.gate.page(head.headers, host, isinstance(connection.sock, ssl.SSLSocket))
                self._upgrade(connection, connection.door.workers, head, behind)
                return
            answer = self._answer(connection.door.site, head)
        except ShutError as shut:
            if shut.counter:
                self._refused(connection, shut.counter, str(shut))
            answer = Answer(f"{shut}\n".encode(), status=shut.status)
        self.answered[answer.status] += 1
        connection.deadline = self._now + ANSWER_SECONDS
        yield from _send(connection.sock, answer.octets(with_body))
        connection.closing = True
        connection.deadline = self._now + CLOSING_SECONDS
        while (yield from _when_ready(partial(connection.sock.recv, HEAD_BYTES), READ)):
            yield READ

    def _answer(self, site: Site, head: _Head) -> Answer:
        """Return a page, or status 500 if making it fails; other pages stay available. Raises ShutError."""
        if head.command not in ("GET", "HEAD"):
            return Answer(b"only GET is served here\n", status=405, headers={"Allow": "GET, HEAD"})
        try:
            url = urlsplit(head.path)
        except ValueError:
            raise _malformed(HTTPStatus.BAD_REQUEST) from None
        try:
            return site(Request(url.path, parse_qs(url.query), head.headers.get("Accept", "")))
        except Exception as error:
            text = "the page %s could not be made; its client gets status 500"
            self._pages.tell(self._now, LOGGER, logging.ERROR, text, url.path, error=error)
            return Answer(b"this page could not be made; the router's log says why\n", status=500)

    def _upgrade(self, connection: Connection, workers: socket.socket, head: _Head, behind: bytes) -> None:
        """Hand the connection to a worker, through a relay if it has TLS. Raises ShutError."""
        answer = websocket.granted(head.headers)
        if head.command != "GET" or behind:
            raise ShutError(HTTPStatus.BAD_REQUEST, "", "ask by GET, and wait for the answer")
        sock, peer = connection.sock, websocket.address_of(connection.sock)
        sock.send(answer)  # the first write has room for all of it
        self.answered[HTTPStatus.SWITCHING_PROTOCOLS] += 1
        if isinstance(sock, ssl.SSLSocket):
            self._selector.unregister(sock)
            taken = self._relays.begin(sock, workers, peer)
            if taken:
                del self._connections[connection]
        else:
            taken = websocket.hand_over(workers, sock, peer)
        if not taken:
            self._refused(connection, "crowded", "no worker takes another WebSocket")

    def _refused(self, connection: Connection, why: str, detail: str = "") -> None:
        self.refused[why] += 1
        text = "HTTP client %s refused: %s"
        said = f"{why}: {detail}" if detail else why
        self._clients.tell(self._now, LOGGER, logging.INFO, text, connection.peer, said)

    def _drop(self, connection: Connection, why: str | None = None, detail: str = "") -> None:
        if self._connections.pop(connection, None) is None:
            return  # a relay has its socket
        if why is not None and not connection.closing:
            self._refused(connection, why, detail)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.sock)
        connection.sock.close()


def _when_ready(call: Callable[[], Result], events: int) -> Waiting[Result]:
    """Make a call on a socket that does not block; yield what it waits for, `events` without TLS."""
    while True:
        try:
            return call()
        except ssl.SSLWantReadError:
            yield READ
        except ssl.SSLWantWriteError:
            yield WRITE
        except BlockingIOError:
            yield events


def _shake_hands(connection: Connection, tls: Secured) -> Waiting[None]:
    """Shake hands for TLS; go on in clear text if the listener allows it. Raises ShutError."""
    first = yield from _when_ready(partial(connection.sock.recv, 1, socket.MSG_PEEK), READ)
    if first == TLS_RECORD:
        connection.sock = tls.accept(connection.sock)
        yield from _when_ready(connection.sock.do_handshake, READ)
    elif first and tls.required:
        raise ssl.SSLError(0, "no TLS")


def _read(connection: Connection) -> Waiting[tuple[bytes, bytes] | None]:
    """Return a request's head and the octets that came behind it; None if the peer closes instead. Raises ShutError.

    Both together have at most `HEAD_BYTES`.
    """
    octets = b""
    while (end := _END.search(octets)) is None:
        if len(octets) == HEAD_BYTES:
            raise _malformed(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        part = yield from _when_ready(partial(connection.sock.recv, HEAD_BYTES - len(octets)), READ)
        if not part and octets:
            raise ConnectionResetError
        if not part:
            return None
        octets += part
    return octets[: end.end()], octets[end.end() :]


def _send(sock: socket.socket, octets: bytes) -> Waiting[None]:
    """Send all octets, and then the end; a turn sends what the socket takes at once."""
    rest = memoryview(octets)
    while rest := rest[(yield from _when_ready(partial(sock.send, rest), WRITE)) :]:
        yield WRITE
    if isinstance(sock, ssl.SSLSocket):
        with contextlib.suppress(ssl.SSLError):  # do not wait for the peer's close_notify
            sock.unwrap()
    sock.shutdown(socket.SHUT_WR)  # closing with unread bytes would reset the connection

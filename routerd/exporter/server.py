"""An HTTP server for a few small answers: one thread, bounded connections, no patience.

    accepted --first byte--> shaking hands --done--> reading      with TLS; without it, reading at once
    reading --whole head--> answering --all sent--> closing --peer closes, or time--> gone
    reading --deadline, bad or long head--> answering (an error) or gone

Every connection gets one answer and is closed, unless it asks for AMQP over WebSockets (websocket.py).
Prohibited: waiting for a peer. A slow client has a place in a table until its deadline, or until the table is
full and the oldest must go.
"""

import contextlib
import logging
import selectors
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import Final
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
HEAD_SECONDS = 5.0
ANSWER_SECONDS = 10.0
CLOSING_SECONDS = 1.0
CROWDED_SECONDS = 1.0  # when the table is full, a connection of this age makes room
TELL_SECONDS = 1.0  # between two log lines about clients
REFUSALS: Final = ("slow", "crowded", "malformed", "reset", "tls", "host", "origin")
_NOT_YET: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


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


Site = Callable[[Request], Answer]


class Door(msgspec.Struct, frozen=True):
    """The settings of a listening socket."""

    site: Site
    gate: Gate
    tls: Secured | None = None
    workers: socket.socket | None = None  # takes connections for AMQP over WebSockets


class _Head(BaseHTTPRequestHandler):
    """The library's parser for a head that has already arrived."""

    def __init__(self, head: bytes) -> None:
        self.error = 0
        self.rfile = BytesIO(head)
        self.raw_requestline = self.rfile.readline(HEAD_BYTES + 1)
        if not self.parse_request():
            self.error = self.error or HTTPStatus.BAD_REQUEST

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self.error = code


class Connection:
    """A client's connection: what has arrived, and what is still to be sent."""

    def __init__(self, sock: socket.socket, door: Door, now: float) -> None:
        self.sock = sock
        self.site = door.site
        self.gate = door.gate
        self.workers = door.workers
        self.tls = door.tls  # None without TLS, or when its handshake is done
        self.born = now
        self.deadline = now + HEAD_SECONDS
        self.head = b""
        self.rest: memoryview | None = None  # the unsent rest of the answer
        self.closing = False
        self.peer = ""  # address:port


class Server:
    """Serves sites on listening sockets; the caller calls ``turn`` repeatedly. Time is an argument."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._connections: dict[socket.socket, Connection] = {}  # oldest first
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
        self._expire(now)
        due = min((c.deadline for c in self._connections.values()), default=now + seconds)
        wait = min(seconds, max(0.0, due - now), seconds if self._accepting else CROWDED_SECONDS / 10)
        for key, _ in self._selector.select(wait):
            if isinstance(key.fileobj, int):
                continue
            if key.fileobj in self._listening:
                self._accept(key.fileobj, now)
            elif key.fileobj in self._relays:
                self._relays.serve(key.fileobj)  # type: ignore[arg-type]  # a socket, as it is one of theirs
            elif connection := self._connections.get(key.fileobj):  # type: ignore[call-overload]  # likewise
                self._serve(connection, now)

    def close(self) -> None:
        """Drop all connections and stop listening."""
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._relays.close()
        self.listen({})
        self._selector.close()

    def _accept_from_all(self, accepting: bool) -> None:
        if accepting == self._accepting:
            return
        self._accepting = accepting
        for sock in self._listening:
            if accepting:
                self._selector.register(sock, selectors.EVENT_READ)
            else:
                self._selector.unregister(sock)

    def _accept(self, listening: socket.socket, now: float) -> None:
        for _ in range(AT_ONCE):
            if len(self._connections) >= MOST:
                self._accept_from_all(False)
                return
            try:
                sock, address = listening.accept()
            except OSError:  # none left, or it is gone already, or there are no descriptors: the next turn tells
                return
            sock.setblocking(False)
            connection = Connection(sock, self._listening[listening], now)
            connection.peer = f"{address[0]}:{address[1]}"
            self._connections[sock] = connection
            self._selector.register(sock, selectors.EVENT_READ)

    def _expire(self, now: float) -> None:
        for connection in [c for c in self._connections.values() if now >= c.deadline]:
            self._drop(connection, None if connection.closing else "slow")
        if not self._accepting and len(self._connections) >= MOST:
            oldest = next(iter(self._connections.values()))
            if now - oldest.born >= CROWDED_SECONDS:
                self._drop(oldest, None if oldest.closing else "crowded")
        if len(self._connections) < MOST:
            self._accept_from_all(True)

    def _serve(self, connection: Connection, now: float) -> None:
        try:
            if connection.tls is not None:
                self._shake_hands(connection)
            elif connection.rest is None:
                self._read(connection, now)
            elif connection.closing:
                if not connection.sock.recv(HEAD_BYTES):
                    self._drop(connection)
            else:
                self._write(connection, now)
        except _NOT_YET as wait:
            self._selector.modify(connection.sock, self._awaited(connection, wait))
        except ssl.SSLError as error:
            reason = str(error.reason or error)
            self._drop(connection, None if connection.closing else "tls", reason)
        except OSError:
            self._drop(connection, None if connection.closing else "reset")
        except Exception as error:  # one client must not end the service of others
            failures.tell(f"answering HTTP client {connection.peer}", error, "its connection is closed")
            self._drop(connection)

    @staticmethod
    def _awaited(connection: Connection, wait: OSError) -> int:
        """Return the events that the socket waits for."""
        if isinstance(wait, ssl.SSLWantReadError):
            return selectors.EVENT_READ
        writes = isinstance(wait, ssl.SSLWantWriteError) or (connection.rest is not None and not connection.closing)
        return selectors.EVENT_WRITE if writes else selectors.EVENT_READ

    def _shake_hands(self, connection: Connection) -> None:
        """Begin or continue the TLS handshake; serve clear text if the listener allows it."""
        assert connection.tls is not None
        if not isinstance(connection.sock, ssl.SSLSocket):
            first = connection.sock.recv(1, socket.MSG_PEEK)
            if not first:
                self._drop(connection)
                return
            if first != TLS_RECORD:
                if connection.tls.required:
                    self._drop(connection, "tls", "no TLS")
                connection.tls = None
                return  # the socket still holds the bytes and is readable
            plain = connection.sock
            self._selector.unregister(plain)
            del self._connections[plain]
            connection.sock = connection.tls.accept(plain)
            self._connections[connection.sock] = connection
            self._selector.register(connection.sock, selectors.EVENT_READ)
        connection.sock.do_handshake()
        connection.tls = None
        self._selector.modify(connection.sock, selectors.EVENT_READ)

    def _read(self, connection: Connection, now: float) -> None:
        part = connection.sock.recv(HEAD_BYTES + 1)  # one read returns a whole head, also from TLS
        connection.head += part
        if b"\r\n\r\n" in connection.head or b"\n\n" in connection.head:
            self._answer(connection, now)
        elif len(connection.head) > HEAD_BYTES:
            self._refuse(connection, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, now)
        elif not part:
            self._drop(connection, "reset" if connection.head else None)

    def _answer(self, connection: Connection, now: float) -> None:
        head = _Head(connection.head)
        if head.error:
            self._refuse(connection, head.error, now)
            return
        try:
            host = connection.gate.host(head.headers, head.path, head.request_version)
            if connection.workers is not None and websocket.wanted(head.headers):
                connection.gate.page(head.headers, host, isinstance(connection.sock, ssl.SSLSocket))
                self._upgrade(connection, connection.workers, head, now)
                return
        except ShutError as shut:
            self._refused(connection, shut.counter, str(shut))
            answer = Answer(f"{shut}\n".encode(), status=shut.status)
            self._send(connection, answer, head.command != "HEAD", now)
            return
        if head.command not in ("GET", "HEAD"):
            answer = Answer(b"only GET is served here\n", status=405, headers={"Allow": "GET, HEAD"})
        else:
            try:
                url = urlsplit(head.path)
            except ValueError:
                self._refuse(connection, HTTPStatus.BAD_REQUEST, now)
                return
            answer = self._made(connection.site, Request(url.path, parse_qs(url.query), head.headers.get("Accept", "")))
        self._send(connection, answer, head.command != "HEAD", now)

    def _made(self, site: Site, request: Request) -> Answer:
        """Return a page, or status 500 if making it fails; other pages stay available."""
        try:
            return site(request)
        except Exception as error:
            text = "%s could not be made, and is answered with 500"
            self._pages.tell(self._now, LOGGER, logging.ERROR, text, request.path, error=error)
            return Answer(b"this page could not be made; the router's log says why\n", status=500)

    def _upgrade(self, connection: Connection, workers: socket.socket, head: _Head, now: float) -> None:
        """Hand the connection to a worker, through a relay if it has TLS."""
        try:
            answer = websocket.granted(head.headers)
            if head.command != "GET" or not connection.head.endswith(b"\n"):
                raise websocket.RefusedError("ask by GET, and wait for the answer")
        except websocket.RefusedError as error:
            self._send(connection, Answer(f"{error}\n".encode(), status=400), True, now)
            return
        sock, peer = connection.sock, websocket.address_of(connection.sock)
        sock.send(answer)  # the first write has room for all of it
        self.answered[HTTPStatus.SWITCHING_PROTOCOLS] += 1
        self._selector.unregister(sock)
        del self._connections[sock]
        secured = isinstance(sock, ssl.SSLSocket)
        taken = self._relays.begin(sock, workers, peer) if secured else websocket.hand_over(workers, sock, peer)
        if not taken:
            self._refused(connection, "crowded", "no worker takes another WebSocket")
        if not (secured and taken):
            sock.close()

    def _refuse(self, connection: Connection, status: int, now: float) -> None:
        self._refused(connection, "malformed", HTTPStatus(status).phrase)
        self._send(connection, Answer(f"{HTTPStatus(status).phrase}\n".encode(), status=status), True, now)

    def _send(self, connection: Connection, answer: Answer, with_body: bool, now: float) -> None:
        self.answered[answer.status] += 1
        lines = [
            f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            "Connection: close",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            *(f"{name}: {value}" for name, value in answer.headers.items()),
        ]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        connection.rest = memoryview(head + (answer.body if with_body else b""))
        connection.deadline = now + ANSWER_SECONDS
        self._selector.modify(connection.sock, selectors.EVENT_WRITE)
        self._write(connection, now)

    def _write(self, connection: Connection, now: float) -> None:
        assert connection.rest is not None
        connection.rest = connection.rest[connection.sock.send(connection.rest) :]
        if not connection.rest:
            if isinstance(connection.sock, ssl.SSLSocket):
                with contextlib.suppress(ssl.SSLError):  # do not wait for the peer's close_notify
                    connection.sock.unwrap()
            connection.sock.shutdown(socket.SHUT_WR)  # closing with unread bytes would reset the connection
            connection.closing = True
            connection.deadline = now + CLOSING_SECONDS
            self._selector.modify(connection.sock, selectors.EVENT_READ)

    def _refused(self, connection: Connection, why: str, detail: str = "") -> None:
        self.refused[why] += 1
        text = "HTTP client %s refused: %s"
        said = f"{why}: {detail}" if detail else why
        self._clients.tell(self._now, LOGGER, logging.INFO, text, connection.peer, said)

    def _drop(self, connection: Connection, why: str | None = None, detail: str = "") -> None:
        if why is not None:
            self._refused(connection, why, detail)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.sock)
        connection.sock.close()
        self._connections.pop(connection.sock, None)

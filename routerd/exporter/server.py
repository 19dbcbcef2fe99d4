"""An HTTP server for a few small answers: one thread, bounded connections, no patience.

A connection is a conversation: a generator that yields the events that its socket waits for.

    accepted --first byte--> shaking hands --done--> reading      with TLS; without it, reading at once
    reading --whole head--> asking --its turn--> answering --all sent--> closing --peer closes, or time--> gone
    reading --deadline, bad or long head--> answering (an error) or gone

Every connection gets one answer and is closed, unless it asks for AMQP over WebSockets (websocket.py).

A turn accepts and serves a bounded number of clients, and makes a bounded number of pages: between two turns the
caller does what is due, however many clients come. All who asked for a page before it is made get the same one.

Prohibited: waiting for a peer. A slow client has a place in a table until its deadline, or until the table is
full: then those go first that have not asked yet, in the order in which they came.
"""

import contextlib
import errno
import logging
import resource
import selectors
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from routerd.exporter import websocket
from routerd.exporter.conversation import (
    HEAD_BYTES,
    READ,
    Waiting,
    has_gone,
    malformed,
    read_head,
    send,
    shake_hands,
    when_ready,
)  # fmt: skip
from routerd.exporter.gate import Gate, ShutError
from routerd.exporter.tls import Secured
from shm.contract.complaints import Complaints
from shm.contract.failures import failures

LOGGER = logging.getLogger("HTTP")

MOST = 128  # open connections, as long as there are descriptors for them, and
SPARE = 16  # for what pages are made from
# In one turn:
ACCEPTED_MOST = 64  # connections
SERVED_MOST = 64  # conversations that go on
MADE_MOST = 4  # pages, each of which takes some milliseconds
CROWD = 16  # clients that ask: from so many on, nothing is made for one that has closed its side
SMALL_BYTES = 64 * 1024  # of a body: a larger one is not copied for each client
HEAD_SECONDS = 5.0
ANSWER_SECONDS = 10.0
CLOSING_SECONDS = 1.0
CROWDED_SECONDS = 1.0  # when the table is full of clients that have asked, one of this age makes room
SHORT_SECONDS = 0.1  # without accepting, when the process has no descriptor for another client
NO_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
TELL_SECONDS = 1.0  # between two log lines about clients
REFUSALS: Final = ("slow", "crowded", "malformed", "reset", "tls", "host", "origin")
ASKING: Final = 0  # in place of events: the conversation goes on when its page may be made


class Request(msgspec.Struct, frozen=True):
    """A request: ``parameters`` are those of the query, ``accept`` and ``accept_encoding`` the headers of that name."""

    path: str
    parameters: dict[str, list[str]] = {}
    accept: str = ""
    accept_encoding: str = ""


class Answer(msgspec.Struct, frozen=True):
    """An answer; ``headers`` come on top of type and length."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = {}

    def octets(self, with_body: bool) -> tuple[bytes, bytes]:
        """Return head and body as they are sent; a small body stands behind its head, to go with it."""
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
        body = self.body if with_body else b""
        return (head + body, b"") if len(body) <= SMALL_BYTES else (head, body)


Site = Callable[[Request], Answer]


def _is_late(sock: socket.socket) -> bool:
    """Whether no more than the spare descriptors are left: a new one is the lowest that is free."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit != resource.RLIM_INFINITY and sock.fileno() >= limit - SPARE


class Door(msgspec.Struct, frozen=True):
    """The settings of a listening socket."""

    site: Site
    gate: Gate
    tls: Secured | None = None
    workers: socket.socket | None = None  # takes connections for AMQP over WebSockets
    name: str = ""  # of the listener


class _Head(BaseHTTPRequestHandler):
    """The library's parser for a head that has already arrived. Raises ShutError."""

    def __init__(self, head: bytes) -> None:
        self.rfile = BytesIO(head)
        self.raw_requestline = self.rfile.readline()
        if not self.parse_request():
            raise malformed(HTTPStatus.BAD_REQUEST)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        raise malformed(code)


class Connection:
    """A client's connection. Nobody is blamed for how one ends that is ``closing``: it has its answer."""

    def __init__(self, sock: socket.socket, peer: str, door: Door, now: float) -> None:
        self.sock = sock
        self.peer = peer  # address:port
        self.door = door
        self.born = now
        self.deadline = now + HEAD_SECONDS
        self.events = 0  # that the selector waits for; 0: none yet
        self.closing = False


class Server:
    """Serves sites on listening sockets; the caller calls ``turn`` repeatedly. Time is an argument."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()  # the data of a descriptor: what to do when it is ready
        self._connections: dict[Connection, Waiting[None]] = {}  # and their conversations, oldest first
        self._reading: dict[Connection, None] = {}  # those whose head is not complete, oldest first
        self._asking: dict[Connection, None] = {}  # those that wait for their page, in their order
        self._served = -1  # the last descriptor of a turn that left some for the next one
        self._made: dict[tuple[Site, str, str, str], Answer] = {}  # pages of this turn
        self._due = float("inf")  # no deadline is earlier
        self._listening: dict[socket.socket, Door] = {}
        self._accepting = False
        self._short_until = 0.0  # no client is accepted before
        self._most = MOST  # connections for which there are descriptors
        self.answered: Counter[int] = Counter()
        self._relays = websocket.Relays(self._selector)
        self._clients = Complaints(TELL_SECONDS)
        self._now = 0.0  # the time of this turn
        self._pages = Complaints()
        self.refused: Counter[str] = Counter(dict.fromkeys(REFUSALS, 0))

    def __len__(self) -> int:
        return len(self._connections)

    def by_listener(self) -> dict[str, int | None]:
        """Return the number of open connections of each listener by its name; None: its TLS cannot be used."""
        doors = self._listening.values()
        counts = Counter(connection.door.name for connection in self._connections)
        shut = dict.fromkeys(door.name for door in doors if door.tls is not None and not door.tls.usable)
        return {door.name: 0 for door in doors} | counts | shut

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
        wait = min(seconds, max(0.0, self._due - now), seconds if self._accepting else SHORT_SECONDS)
        ready = self._selector.select(0.0 if self._asking else wait)
        if len(ready) > SERVED_MOST:  # a selector may name the same ones first in every turn
            ready.sort(key=lambda one: (one[0].fd <= self._served, one[0].fd))
            del ready[SERVED_MOST:]
            self._served = ready[-1][0].fd
        for key, _ in ready:
            if key.data is not None:
                key.data()
        self._answer_all()

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
        for number in range(ACCEPTED_MOST):
            full = len(self._connections) >= self._most
            if full and not self._reading:
                self._accept_from_all(False)
                return
            try:
                sock, address = listening.accept()
            except OSError as error:  # none is left, or it is gone already
                if error.errno in NO_ROOM and number == 0:  # behind others, this says nothing of who comes
                    self._make_room()
                return
            if full:
                self._drop(next(iter(self._reading)), "crowded")
            sock.setblocking(False)
            connection = Connection(sock, f"{address[0]}:{address[1]}", door, self._now)
            self._connections[connection] = self._converse(connection)
            if _is_late(sock):
                self._most = len(self._connections)
            self._reading[connection] = None
            self._due = min(self._due, connection.deadline)
            self._serve(connection)  # most have asked, or have gone, by now

    def _make_room(self) -> None:
        """Let a client that has not asked yet give its descriptor to who comes, or accept nobody for a while."""
        if self._reading:
            self._drop(next(iter(self._reading)), "crowded")
        else:
            self._short_until = self._now + SHORT_SECONDS
            self._accept_from_all(False)

    def _expire(self) -> None:
        if not self._connections:
            self._most = MOST
        if self._now >= self._due:
            for connection in [c for c in self._connections if self._now >= c.deadline]:
                self._drop(connection, "slow")
            self._due = min((c.deadline for c in self._connections), default=float("inf"))
        if not self._accepting and len(self._connections) >= self._most:
            oldest = next(iter(self._connections))
            if self._now - oldest.born >= CROWDED_SECONDS:
                self._drop(oldest, "crowded")
        if len(self._connections) < self._most and self._now >= self._short_until:
            self._accept_from_all(True)

    def _answer_all(self) -> None:
        """Let clients have the pages that they ask for, until `MADE_MOST` have been made."""
        crowd = len(self._asking) > CROWD
        while self._asking and len(self._made) < MADE_MOST:
            connection = next(iter(self._asking))
            del self._asking[connection]
            if crowd and has_gone(connection.sock):
                self._drop(connection, "reset")
            else:
                self._serve(connection)
        self._made.clear()

    def _wait(self, connection: Connection, deadline: float) -> None:
        connection.deadline = deadline
        self._due = min(self._due, deadline)

    def _serve(self, connection: Connection) -> None:
        """Continue a connection's conversation until it waits again."""
        conversation = self._connections.get(connection)
        if conversation is None or connection in self._asking:
            return  # it has just made room for another; or it says more than its request: its page comes first
        try:
            events = next(conversation)
            if events == ASKING:
                self._asking[connection] = None
            elif not connection.events:
                self._selector.register(connection.sock, events, partial(self._serve, connection))
                connection.events = events
            elif connection.events != events:
                self._selector.modify(connection.sock, events, partial(self._serve, connection))
                connection.events = events
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
                yield from shake_hands(connection, connection.door.tls)
            request = yield from read_head(connection.sock)
            if request is None:
                return
            self._reading.pop(connection, None)
            self._wait(connection, self._now + ANSWER_SECONDS)
            yield ASKING
            octets, behind = request
            head = _Head(octets)
            with_body = head.command != "HEAD"
            host = connection.door.gate.host(head.headers, head.path, head.request_version)
            if connection.door.workers is not None and websocket.wanted(head.headers):
                connection.door.gate.page(head.headers, host, isinstance(connection.sock, ssl.SSLSocket))
                self._upgrade(connection, connection.door.workers, head, behind)
                return
            answer = self._page(connection.door.site, head)
        except ShutError as shut:
            if shut.counter:
                self._refused(connection, shut.counter, str(shut))
            self._reading.pop(connection, None)
            answer = Answer(f"{shut}\n".encode(), status=shut.status)
        self.answered[answer.status] += 1
        self._wait(connection, self._now + ANSWER_SECONDS)
        yield from send(connection.sock, *answer.octets(with_body))
        connection.closing = True
        self._wait(connection, self._now + CLOSING_SECONDS)
        while (yield from when_ready(partial(connection.sock.recv, HEAD_BYTES), READ)):
            yield READ

    def _page(self, site: Site, head: _Head) -> Answer:
        """Return the page that a head asks for: the one of this turn, if another client has asked for the same."""
        accept, encoding = (head.headers.get(name, "") for name in ("Accept", "Accept-Encoding"))
        if head.command not in ("GET", "HEAD"):
            return Answer(b"only GET is served here\n", status=405, headers={"Allow": "GET, HEAD"})
        key = (site, head.path, accept, encoding)
        if key not in self._made:
            self._made[key] = self._answer(*key)
        return self._made[key]

    def _answer(self, site: Site, path: str, accept: str, encoding: str) -> Answer:
        """Return a page, or status 500 if making it fails; other pages stay available. Raises ShutError."""
        try:
            url = urlsplit(path)
        except ValueError:
            raise malformed(HTTPStatus.BAD_REQUEST) from None
        try:
            return site(Request(url.path, parse_qs(url.query), accept, encoding))
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
            if connection.events:
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
        self._reading.pop(connection, None)
        self._asking.pop(connection, None)
        if self._connections.pop(connection, None) is None:
            return  # a relay has its socket
        if why is not None and not connection.closing:
            self._refused(connection, why, detail)
        if connection.events:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(connection.sock)
        connection.sock.close()

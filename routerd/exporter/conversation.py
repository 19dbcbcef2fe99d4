"""The steps of an HTTP conversation on a socket that does not block: each yields the events that it waits for."""

import contextlib
import re
import selectors
import socket
import ssl
from collections.abc import Callable, Generator
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol, TypeVar

from routerd.exporter.gate import ShutError
from routerd.exporter.tls import TLS_RECORD, Secured

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
HEAD_BYTES: Final = 8192  # of a request
_END: Final = re.compile(rb"\r\n\r\n|\n\n")  # of a head
_NO_HTTP: Final = {b"AMQP": "AMQP, and the listener HTTP", TLS_RECORD: "TLS, and the listener has no sslProfile"}

Result = TypeVar("Result")
Waiting = Generator[int, None, Result]  # yields events, returns a result


class Connected(Protocol):
    """A connection; TLS replaces its socket."""

    sock: socket.socket


def malformed(status: int, why: str = "") -> ShutError:
    """Return the refusal of what is no request, with this HTTP status."""
    return ShutError(HTTPStatus(status), "malformed", why or HTTPStatus(status).phrase)


def when_ready(call: Callable[[], Result], events: int) -> Waiting[Result]:
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


def shake_hands(connection: Connected, tls: Secured) -> Waiting[None]:
    """Shake hands for TLS; go on in clear text if the listener allows it. Raises ssl.SSLError."""
    first = yield from when_ready(partial(connection.sock.recv, 1, socket.MSG_PEEK), READ)
    if first == TLS_RECORD:
        connection.sock = tls.accept(connection.sock)
        yield from when_ready(connection.sock.do_handshake, READ)
    elif first and tls.required:
        raise ssl.SSLError(0, "no TLS")


def read_head(sock: socket.socket) -> Waiting[tuple[bytes, bytes] | None]:
    """Return a request's head and the octets that came behind it; None if the peer closes instead. Raises ShutError.

    Both together have at most `HEAD_BYTES`.
    """
    octets = b""
    while (end := _END.search(octets)) is None:
        if len(octets) == HEAD_BYTES:
            raise malformed(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        part = yield from when_ready(partial(sock.recv, HEAD_BYTES - len(octets)), READ)
        if not part and octets:
            raise ConnectionResetError
        if not part:
            return None
        octets += part
        for begin, spoken in _NO_HTTP.items():
            if octets.startswith(begin):
                raise malformed(HTTPStatus.BAD_REQUEST, f"the client speaks {spoken}")
    return octets[: end.end()], octets[end.end() :]


def send(sock: socket.socket, *parts: bytes) -> Waiting[None]:
    """Send all parts, and then the end; a turn sends what the socket takes at once."""
    for part in filter(None, parts):
        rest = memoryview(part)
        while rest := rest[(yield from when_ready(partial(sock.send, rest), WRITE)) :]:
            yield WRITE
    if isinstance(sock, ssl.SSLSocket):
        with contextlib.suppress(ssl.SSLError):  # do not wait for the peer's close_notify
            sock.unwrap()
    sock.shutdown(socket.SHUT_WR)  # closing with unread bytes would reset the connection


def has_gone(sock: socket.socket) -> bool:
    """Whether a client that has asked has closed its side since, or its connection is reset. Unknown with TLS."""
    try:
        return not isinstance(sock, ssl.SSLSocket) and not sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True

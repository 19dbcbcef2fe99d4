"""An authentication service by hand, and clients of it: frames of SASL, for what engines never do."""

import contextlib
import queue
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

from proton import UNDESCRIBED, Array, Data, symbol, ubyte

from tests.support.clients.sasl_frames import MECHANISMS, OUTCOME, SASL_HEADER, sasl
from tests.support.clients.wire import AMQP_HEADER, CLOSE, OPEN, Frame, described, exactly, frame, parse
from tests.support.running import LONG

OK, AUTH = ubyte(0), ubyte(1)
SEND_RECV = Array(UNDESCRIBED, Data.STRING, "send", "recv")


class Asked(NamedTuple):
    """What a service was asked about a client."""

    mechanism: str
    response: bytes
    hostname: str | None

    @property
    def user(self) -> str:
        """In a response of PLAIN."""
        return self.response.split(b"\0")[1].decode()

    @property
    def password(self) -> str:
        return self.response.split(b"\0")[2].decode()


class SaslWire:
    """One end of a connection that begins with SASL."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        sock.settimeout(LONG)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def exactly(self, size: int) -> bytes:
        return exactly(self.socket, size)

    def read(self) -> Frame:
        """The next frame that is no heartbeat. EOFError at the end."""
        while True:
            size = self.exactly(4)
            if got := parse(size + self.exactly(struct.unpack(">I", size)[0] - 4)):
                return got

    def say(self, code: int, *fields: Any) -> None:
        """A frame of SASL."""
        self.socket.sendall(sasl(code, *fields))

    def amqp(self, code: int, *fields: Any) -> None:
        """The protocol header and a frame of AMQP."""
        self.socket.sendall(AMQP_HEADER + frame(0, described(code, *fields)))

    def ended(self) -> bool:
        """Whether the other side ends the connection; what it says first is skipped."""
        with contextlib.suppress(ConnectionError):
            while self.socket.recv(65_536):
                pass
        return True


def client(address: tuple[str, int]) -> SaslWire:
    """A client that has said that it speaks SASL, and has heard the same."""
    wire = SaslWire(socket.create_connection(address, timeout=LONG))
    wire.socket.sendall(SASL_HEADER)
    assert wire.exactly(8) == SASL_HEADER
    return wire


def offered(wire: SaslWire) -> list[str]:
    """The mechanisms that a client is offered."""
    names = wire.read().fields[0]
    return [str(name) for name in (names if isinstance(names, (list, tuple, Array)) else [names]) if name]


Judgement = Callable[[SaslWire, Asked], None]


class Judge:
    """A listening service. ``judge`` says what becomes of a client whose init has come; ``ends`` has an entry
    for each connection that is over."""

    def __init__(
        self, judge: Judgement, mechanisms: Iterable[str] = ("PLAIN",), tls: ssl.SSLContext | None = None
    ) -> None:
        self.judge = judge
        self.mechanisms = Array(UNDESCRIBED, Data.SYMBOL, *map(symbol, mechanisms))
        self.tls = tls
        self.ends: queue.Queue[str] = queue.Queue()
        self.asked: list[Asked] = []
        self.names: list[str | None] = []  # that TLS was asked for
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self.listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                sock, _ = self.listening.accept()
                threading.Thread(target=self._attend, args=[sock], daemon=True).start()

    def _attend(self, sock: socket.socket) -> None:
        try:
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True)
            with SaslWire(sock) as wire:
                self._hear(wire)
                wire.ended()
        except (OSError, EOFError):
            pass
        finally:
            sock.close()
            self.ends.put("over")

    def _hear(self, wire: SaslWire) -> None:
        assert wire.exactly(8) == SASL_HEADER
        wire.socket.sendall(SASL_HEADER)
        wire.say(MECHANISMS, self.mechanisms)
        mechanism, response, *rest = [*wire.read().fields, None, None]
        asked = Asked(str(mechanism), bytes(response or b""), rest[0] and str(rest[0]))
        self.asked.append(asked)
        self.judge(wire, asked)


def admit(
    wire: SaslWire, properties: object, capabilities: Any = None, last: bytes | None = None, container: object = "judge"
) -> None:
    """The client may come in; OPEN has these properties."""
    wire.say(OUTCOME, OK, last)
    assert wire.exactly(8) == AMQP_HEADER
    assert wire.read().code == OPEN
    more = [None] * 7
    wire.amqp(OPEN, container, None, *more[:5], capabilities, None, properties)
    wire.read()  # CLOSE
    with contextlib.suppress(OSError):
        wire.socket.sendall(frame(0, described(CLOSE)))


def word(user: str, **addresses: Any) -> dict[Any, Any]:
    """Properties that say who a client is and what it may do."""
    said: dict[Any, Any] = {symbol("authenticated-identity"): {"sub": user}}
    if addresses:
        said[symbol("address-authz")] = addresses
    return said

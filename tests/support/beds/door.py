"""A worker's pump that listens, and connections to it or from it whose octets are the test's."""

import contextlib
import socket
import ssl
import struct
import time

from shm.contract.control import ListenerSetup
from shm.contract.security import TlsSetup
from tests.support.beds.stand import Stand
from tests.support.clients.wire import parse


class Door(Stand):
    """A pump that listens."""

    def __init__(self, name: str, tls: TlsSetup | None, mechanisms: str = "ANONYMOUS", arena: int = 1) -> None:
        super().__init__(name, arena)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.setblocking(False)
        setup = self.registry.listeners[0] = ListenerSetup("door", [self.listening.fileno()], tls=tls)
        place = self.pump.add_listener(
            self.listening.fileno(), 0, 16384, 100, 60_000, 60_000, 50, 64, 64, False, mechanisms
        )
        self.handler.guard.protect(place, setup)
        self.pump.accept(True)

    def dial(self) -> socket.socket:
        """A connection to it, of which it does not know yet."""
        return socket.create_connection(self.listening.getsockname())

    def end(self) -> None:
        self.pump.accept(False)
        super().end()
        self.listening.close()


class Client:
    """The octets of one connection, while the pump turns."""

    def __init__(
        self, stand: Stand, sock: socket.socket, context: ssl.SSLContext | None = None, *, serves: bool = False
    ) -> None:
        self.stand, self.socket, self.got, self.ended, self.notified = stand, sock, b"", False, False
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # pieces go as they are said
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        name = None if serves else "localhost"
        self.tls = context and context.wrap_bio(self.incoming, self.outgoing, server_side=serves, server_hostname=name)

    def _flush(self) -> None:
        if self.outgoing.pending:
            self.socket.sendall(self.outgoing.read())

    def secure(self) -> None:
        """TLS agrees."""
        assert self.tls
        for _ in range(1000):
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self.step()
            else:
                self._flush()
                return
        raise AssertionError("no TLS")

    def write(self, *octets: bytes) -> None:
        for some in octets:
            if self.tls:
                self.tls.write(some)
                self._flush()
            else:
                self.socket.sendall(some)
            self.step()

    def rest(self, seconds: float) -> None:
        """Say nothing for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.stand.turn(0.01)

    def finish(self) -> None:
        """No more is said."""
        self.socket.shutdown(socket.SHUT_WR)
        self.step()

    def step(self) -> None:
        self.stand.turn(0.0)
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while some := self.socket.recv(65536):
                if self.tls:
                    self.incoming.write(some)
                else:
                    self.got += some
            self.ended = True
        if self.tls:
            with contextlib.suppress(ssl.SSLError):
                while some := self.tls.read(65536):
                    self.got += some
                self.notified = True  # its end has come as close_notify

    def take(self, size: int) -> bytes:
        """So many octets that have come."""
        for _ in range(1000):
            if len(self.got) >= size:
                break
            self.step()
        assert len(self.got) >= size, (self.got, self.ended)
        taken, self.got = self.got[:size], self.got[size:]
        return taken

    def frames(self, *codes: int) -> list[list[object]]:
        """The next frames, which are these; the fields of each."""
        found = []
        for code in codes:
            size = self.take(4)
            got = parse(size + self.take(struct.unpack(">I", size)[0] - 4))
            assert got is not None
            assert got.code == code
            found.append(got.fields)
        return found

    def all_until(self, code: int) -> list[tuple[int, list[object]]]:
        """The next frames, up to the first of this kind: the kind and fields of each."""
        found: list[tuple[int, list[object]]] = []
        while not found or found[-1][0] != code:
            size = self.take(4)
            got = parse(size + self.take(struct.unpack(">I", size)[0] - 4))
            assert got is not None
            found.append((got.code, got.fields))
        return found

    def over(self) -> bytes:
        """Whatever else comes, until the connection ends."""
        for _ in range(1000):
            if self.ended:
                return self.got
            self.step()
        raise AssertionError(f"the connection goes on: {self.got!r}")

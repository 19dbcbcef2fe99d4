"""An HTTP server and its clients, whose time the test sets."""

import socket

from routerd.exporter.gate import Gate
from routerd.exporter.server import Answer, Door, Request, Server, Site
from routerd.exporter.tls import Secured

GATE = Gate(["router", "*.inside.example"], ["https://app.example"])
LARGE = 8 * 1024 * 1024  # more than socket buffers take
LARGE_BODY = b"x" * LARGE  # one for all


def site(request: Request) -> Answer:
    if request.path == "/large":
        return Answer(LARGE_BODY)
    if request.path == "/broken":
        raise FileNotFoundError("/proc/stat")
    return Answer(f"{request.path} {request.parameters} {request.accept}".encode(), headers={"X-Own": "1"})


class Bed:
    """A server on a free port and its clients; a turn takes no time unless it is told."""

    def __init__(self, site: Site = site, tls: Secured | None = None) -> None:
        self.server = Server()
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        self.address = listening.getsockname()
        self.server.listen({listening: Door(site, GATE, tls)})
        self.now = 0.0
        self.clients: list[socket.socket] = []

    def client(self, says: bytes = b"") -> socket.socket:
        client = socket.create_connection(self.address, timeout=20)
        self.clients.append(client)
        client.sendall(says)
        return client

    def turn(self, turns: int = 4, seconds: float = 0.0) -> None:
        for _ in range(turns):
            self.server.turn(self.now, 0)
        self.now += seconds

    def answer(self, client: socket.socket) -> bytes:
        """All that comes until the server says it is done."""
        client.setblocking(False)
        data = b""
        for _ in range(10_000):
            self.turn(1)
            try:
                part = client.recv(1 << 20)
            except BlockingIOError:
                continue
            if not part:
                return data
            data += part
        raise AssertionError(f"no end after {data[:80]!r}")

    def ask(self, says: bytes) -> bytes:
        return self.answer(self.client(says))

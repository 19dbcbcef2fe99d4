"""RMR applications driven by hand: a listening socket, connections, frames as values."""

import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from tests.support.clients import rmr_frames as frames
from tests.support.clients.rmr_frames import Frame
from tests.support.running import LONG


class Link:
    """One TCP connection with frames on it."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        sock.settimeout(LONG)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port = sock.getsockname()[:2]
        self.name = f"{host}:{port}"
        self.reader = frames.Reader()
        self.inbox: list[Frame] = []
        self.raw = b""

    @classmethod
    def to(cls, host_port: str) -> Self:
        """A connection to what a frame names as its source."""
        host, _, port = host_port.rpartition(":")
        return cls(socket.create_connection((host, int(port)), timeout=LONG))

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, *some: Frame) -> None:
        self.socket.sendall(b"".join(map(frames.encode, some)))

    def read(self, wait: float = 0.0) -> bool:
        """Take what has come. False: nothing, or the other side has closed."""
        self.socket.settimeout(wait or 0.000001)
        try:
            data = self.socket.recv(1 << 16)
        except (TimeoutError, BlockingIOError):
            return False
        finally:
            self.socket.settimeout(LONG)
        self.raw += data
        self.inbox += self.reader.feed(data)
        return bool(data)

    def receive(self, number: int = 1) -> list[Frame]:
        """The next frames."""
        end = time.monotonic() + LONG
        while len(self.inbox) < number:
            assert time.monotonic() < end, f"{len(self.inbox)} of {number} frames"
            self.read(0.1)
        taken, self.inbox = self.inbox[:number], self.inbox[number:]
        return taken

    def closed(self) -> bool:
        """Whether the other side closes it."""
        with suppress(ConnectionError):
            while data := self.socket.recv(1 << 16):
                self.raw += data
        return True

    def close(self) -> None:
        self.socket.close()


class Application:
    """An RMR application: it listens, takes connections, and sends to routers."""

    def __init__(self, port: int = 0) -> None:
        self.listening = socket.create_server(("127.0.0.1", port))
        self.listening.settimeout(LONG)
        self.name = f"127.0.0.1:{self.listening.getsockname()[1]}"
        self.links: list[Link] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.listening.close()
        for link in self.links:
            link.close()

    def connect(self, router: tuple[str, int]) -> Link:
        """A connection to a router's listener."""
        return Link(socket.create_connection(router, timeout=LONG))

    def accept(self) -> None:
        """Take whoever wants to connect now."""
        while select.select([self.listening], [], [], 0)[0]:
            self.links.append(Link(self.listening.accept()[0]))

    def look(self) -> None:
        """Read whatever there is."""
        self.accept()
        for link in self.links:
            link.read(0.000001)

    def take(self, wanted: Callable[[Frame], bool]) -> tuple[Link, Frame]:
        """The next frame of the kind on any accepted connection, and that connection."""
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            self.accept()
            for link in self.links:
                for frame in link.inbox:
                    if wanted(frame):
                        link.inbox.remove(frame)
                        return link, frame
            ready, _, _ = select.select([self.listening, *self.links], [], [], 0.1)
            for link in self.links:
                if link in ready and not link.read(0.01):
                    ready.remove(link)
        raise AssertionError("no such frame")

    def send_on(self, link: Link, kind: int, payload: bytes = b"", **fields: object) -> Frame:
        """As this application."""
        given: dict[str, Any] = {"source": self.name, "source_ip": self.name} | fields
        frame = Frame(kind, payload, **given)
        link.send(frame)
        return frame

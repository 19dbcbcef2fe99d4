"""A WebSocket by hand: a socket whose bytes travel in frames (RFC 6455), as a client sends and reads them."""

import os
import select
import socket
from typing import Any

from tests.support.running import LONG

KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # and what is to be answered: RFC 6455, 1.3
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
BINARY, CLOSE, PING, PONG = 2, 8, 9, 10


def ask(address: tuple[str, int], **headers: str | None) -> tuple[socket.socket, str]:
    """Ask for a WebSocket; the socket, and the head of the answer. A header that is None is left out."""
    wanted: dict[str, str | None] = {
        "Host": "localhost",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": KEY,
        "Sec-WebSocket-Protocol": "amqp",
    }
    wanted |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in wanted.items() if value is not None]
    sock = socket.create_connection(address, timeout=LONG)
    sock.sendall("\r\n".join(["GET / HTTP/1.1", *lines, "", ""]).encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n") and (byte := sock.recv(1)):
        answer += byte
    return sock, answer.decode()


def frame(payload: bytes, opcode: int = BINARY, mask: bytes | None = None, flags: int = 0x80) -> bytes:
    """A frame of a client; ``mask`` empty: it is not masked."""
    mask = os.urandom(4) if mask is None else mask
    size = len(payload)
    masked = 0x80 if mask else 0
    if size < 126:
        head = bytes([flags | opcode, masked | size])
    elif size < 65536:
        head = bytes([flags | opcode, masked | 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([flags | opcode, masked | 127]) + size.to_bytes(8, "big")
    key = (mask * (size // 4 + 1))[:size]
    changed = int.from_bytes(payload, "big") ^ int.from_bytes(key, "big") if mask else 0
    return head + mask + (changed.to_bytes(size, "big") if mask else payload)


class WebSocket(socket.socket):
    """A socket with a WebSocket. ``piece``: so many bytes are sent at once; ``heard``: control frames."""

    def __init__(self, sock: socket.socket, piece: int = 0) -> None:
        super().__init__(fileno=sock.detach())
        self.piece = piece
        self.heard: list[tuple[int, bytes]] = []
        self._raw = b""
        self._left = 0  # of the frame that is being read

    def send(self, data: Any, flags: int = 0) -> int:
        """A binary frame, whole, though perhaps piece by piece."""
        self.put(frame(bytes(data)))
        return len(data)

    def put(self, rest: bytes) -> None:
        """Bytes as they are."""
        while rest:
            select.select([], [self], [], LONG)
            sent = super().send(rest[: self.piece or len(rest)])
            rest = rest[sent:]

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Payload of binary frames, as it comes; raises BlockingIOError while there is none."""
        raw = super().recv(min(size, 2048))
        if not raw:
            return b""
        self._raw += raw
        payload = b""
        while self._raw and (found := self._part()) is not None:
            payload += found
        if not payload:
            raise BlockingIOError
        return payload

    def _part(self) -> bytes | None:
        """What has come of a payload; a control frame is kept apart. None: too little."""
        if not self._left and not self._header():
            return None
        part, self._raw = self._raw[: self._left], self._raw[self._left :]
        self._left -= len(part)
        return part

    def _header(self) -> bool:
        raw = self._raw
        if len(raw) < 2:
            return False
        size, start = raw[1], 2
        if size >= 126:
            start = 4 if size == 126 else 10
            size = int.from_bytes(raw[2:start], "big")
        opcode = raw[0] & 15
        if len(raw) < start + (size if opcode != BINARY else 0):
            return False
        assert raw[0] & 0xF0 == 0x80
        self._raw = raw[start:]
        if opcode == BINARY:
            self._left = size
        else:
            self.heard.append((opcode, self._raw[:size]))
            self._raw = self._raw[size:]
        return True

"""A sender that writes its frames itself, for what an engine would never send (AMQP 1.0 parts 2.2 to 2.8)."""

import socket
import struct
from types import TracebackType
from typing import Any, Self

from proton import Array, Data, Described, symbol, ubyte, uint, ulong, ushort

LONG = 20.0  # far beyond what anything here takes; it only ends a broken test

AMQP_HEADER = b"AMQP\0\1\0\0"
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SOURCE, TARGET = 0x28, 0x29


def encode(value: Any) -> bytes:
    """A value in AMQP's type system."""
    data = Data()
    data.put_object(value)
    return bytes(data.encode())


def described(code: int, *fields: Any) -> bytes:
    """A described list: a performative or a terminus."""
    return encode(Described(ulong(code), list(fields)))


def frame(channel: int, performative: bytes = b"", payload: bytes = b"") -> bytes:
    """An AMQP frame; one without performative is a heartbeat."""
    body = performative + payload
    return struct.pack(">IBBH", 8 + len(body), 2, 0, channel) + body


class Wire:
    """A connection without SASL and one session, opened; what the router says is read frame by frame."""

    def __init__(self, address: tuple[str, int], **limits: int) -> None:
        self.socket = socket.create_connection(address, timeout=LONG)
        self.limits = limits

    def __enter__(self) -> Self:
        self.write(AMQP_HEADER)
        assert self.exactly(8) == AMQP_HEADER
        limits: list[Any] = [uint(self.limits["max_frame"]) if "max_frame" in self.limits else None]
        limits += [ushort(self.limits["channel_max"]) if "channel_max" in self.limits else None]
        limits += [uint(self.limits["idle"]) if "idle" in self.limits else None]
        self.write(frame(0, described(OPEN, "wire", "", *limits)))
        self.write(frame(0, described(BEGIN, None, uint(0), uint(2**31 - 1), uint(2**31 - 1))))
        self.opened = self.expect(OPEN)
        self.begun = self.expect(BEGIN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.socket.close()

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def read(self) -> tuple[int, int, list[Any]] | None:
        """The next frame's channel, descriptor and fields; None: a heartbeat. EOFError at the end."""
        size, doff, _, channel = struct.unpack(">IBBH", self.exactly(8))
        body = self.exactly(size - 8)[4 * doff - 8 :]
        if not body:
            return None
        data = Data()
        data.decode(body)
        data.rewind()
        data.next()
        performative: Any = data.get_object()
        return channel, int(performative.descriptor), list(performative.value)

    def expect(self, code: int) -> list[Any]:
        """The fields of the next frame of that kind; others in front of it are skipped."""
        while (got := self.read()) is None or got[1] != code:
            pass
        return got[2]

    def attach_sender(self, address: str, handle: int = 0) -> list[Any]:
        """A sending link; returns the router's flow with its credit."""
        source, target = Described(ulong(SOURCE), []), Described(ulong(TARGET), [address])
        fields = (f"link-{handle}", uint(handle), False, None, None, source, target, None, None, uint(0))
        self.write(frame(0, described(ATTACH, *fields)))
        self.expect(ATTACH)
        return self.expect(FLOW)

    def transfer(
        self, delivery: int, data: bytes, settled: bool = False, more: bool = False, handle: int = 0
    ) -> None:
        """One transfer frame."""
        tag = str(delivery).encode()
        fields = (uint(handle), uint(delivery), tag, uint(0), settled, more)
        self.write(frame(0, described(TRANSFER, *fields), data))


__all__ = ["Array", "Wire", "described", "encode", "frame", "symbol", "ubyte"]

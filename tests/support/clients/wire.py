"""A sender that writes its frames itself, for what an engine would never send (AMQP 1.0 parts 2.2 to 2.8)."""

import contextlib
import socket
import struct
from types import TracebackType
from typing import Any, NamedTuple, Self

from proton import Data, Described, uint, ulong, ushort

from tests.support.peer import Net
from tests.support.running import LONG

AMQP_HEADER = b"AMQP\0\1\0\0"
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SOURCE, TARGET = 0x28, 0x29
WINDOW = 2**31 - 1
NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"


def encode(value: Any) -> bytes:
    """A value in AMQP's type system."""
    data = Data()
    data.put_object(value)
    return bytes(data.encode())


def described(code: int, *fields: Any) -> bytes:
    """A described list: a performative or a terminus."""
    return encode(Described(ulong(code), list(fields)))


def listed(code: int, *fields: bytes) -> bytes:
    """A performative whose fields are octets already."""
    items = b"".join(fields)
    return b"\0\x53" + bytes([code]) + struct.pack(">BII", 0xD0, len(items) + 4, len(fields)) + items


def frame(channel: int, performative: bytes = b"", payload: bytes = b"") -> bytes:
    """An AMQP frame; one without performative is a heartbeat."""
    body = performative + payload
    return struct.pack(">IBBH", 8 + len(body), 2, 0, channel) + body


def begin(channel: int, window: int = WINDOW) -> bytes:
    """The frame that begins a session with this incoming window."""
    return frame(channel, described(BEGIN, None, uint(0), uint(window), uint(WINDOW)))


def error_in(close: "Frame") -> tuple[str, str]:
    """Condition and description in a CLOSE or END."""
    error = close.fields[-1].value
    return str(error[0]), str(error[1])


class Frame(NamedTuple):
    """A frame that has come: the kind of its performative, its fields, the size of it all, its octets, its payload."""

    code: int
    fields: list[Any]
    size: int
    data: bytes = b""
    payload: bytes = b""

    def field(self, number: int) -> Any:
        """A field; None where the list ends before it."""
        return self.fields[number] if number < len(self.fields) else None


def parse(data: bytes) -> Frame | None:
    """A whole frame, header included; None: a heartbeat."""
    body = data[4 * data[4] :]
    if not body:
        return None
    decoder = Data()
    behind = decoder.decode(body)
    decoder.rewind()
    decoder.next()
    performative: Any = decoder.get_object()
    fields = [bytes(one) if isinstance(one, memoryview) else one for one in performative.value]
    return Frame(int(performative.descriptor), fields, len(data), data, body[behind:])


def exactly(sock: socket.socket, size: int) -> bytes:
    """So many bytes. EOFError at the end."""
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


class Wire:
    """A connection without SASL and one session, opened; what the router says is read frame by frame."""

    def __init__(self, address: tuple[str, int], hostname: str = "", **limits: int) -> None:
        self.socket = socket.create_connection(address, timeout=LONG)
        self.hostname = hostname
        self.limits = limits
        self.channel = 0

    def __enter__(self) -> Self:
        self.write(AMQP_HEADER)
        assert self.exactly(8) == AMQP_HEADER
        limits: list[Any] = [uint(self.limits["max_frame"]) if "max_frame" in self.limits else None]
        limits += [ushort(self.limits["channel_max"]) if "channel_max" in self.limits else None]
        limits += [uint(self.limits["idle"]) if "idle" in self.limits else None]
        opening = frame(0, described(OPEN, "wire", self.hostname, *limits))
        sessions, window = range(self.limits.get("sessions", 1)), self.limits.get("window", WINDOW)
        self.write(opening + b"".join(begin(channel, window) for channel in sessions))
        self.begun = self.expect(BEGIN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.socket.close()

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def exactly(self, size: int) -> bytes:
        return exactly(self.socket, size)

    def read(self) -> Frame | None:
        """The next frame; None: a heartbeat. EOFError at the end."""
        size = self.exactly(4)
        return parse(size + self.exactly(struct.unpack(">I", size)[0] - 4))

    def expect(self, *codes: int) -> Frame:
        """The next frame of one of those kinds; others in front of it are skipped."""
        while (got := self.read()) is None or got.code not in codes:
            pass
        return got

    def error(self) -> tuple[str, str]:
        """Condition and description with which the router closes the connection."""
        return error_in(self.expect(CLOSE))

    def await_end(self, net: Net) -> tuple[str, str]:
        """The same, while other clients are served and this one says nothing."""
        self.socket.setblocking(False)
        data = b""

        def ended() -> bool:
            nonlocal data
            with contextlib.suppress(BlockingIOError):
                part = self.socket.recv(65_536)
                data += part
                return not part
            return False

        net.until(ended, "end of the connection")
        frames = []
        while data:
            size = struct.unpack(">I", data[:4])[0]
            frames, data = [*frames, parse(data[:size])], data[size:]
        return error_in(next(got for got in frames if got is not None and got.code == CLOSE))

    def attach_sender(self, address: str, handle: int = 0) -> None:
        """A sending link; returns when it has credit."""
        self.ask(handle, False, "", address)
        self.expect(FLOW)

    def attach_receiver(self, address: str, credit: int, handle: int = 0) -> None:
        """A receiving link with credit."""
        self.ask(handle, True, address, "")
        self.expect(ATTACH)
        self.flow(credit, handle)

    def flow(self, credit: int, handle: int = 0) -> None:
        """Credit for the first deliveries of a receiving link."""
        window = self.limits.get("window", WINDOW)
        fields = (uint(0), uint(window), uint(0), uint(WINDOW), uint(handle), uint(0), uint(credit))
        self.write(frame(self.channel, described(FLOW, *fields)))

    def ask(self, handle: int, receives: bool, source: str, target: str) -> None:
        """An attach, on its way."""
        ends = Described(ulong(SOURCE), [source]), Described(ulong(TARGET), [target])
        count = None if receives else uint(0)
        fields = (f"link-{handle}", uint(handle), receives, None, None, *ends, None, None, count)
        self.write(frame(self.channel, described(ATTACH, *fields)))

    def answer(self) -> None:
        """Take the session and the link that the router begins: this end is what the router wants it to be."""
        channel = int.from_bytes(self.expect(BEGIN).data[6:8])
        self.channel = 1
        self.write(frame(1, described(BEGIN, ushort(channel), uint(0), uint(WINDOW), uint(WINDOW))))
        name, handle, receives, *modes_and_ends = self.expect(ATTACH).fields[:7]
        count = uint(0) if receives else None
        self.write(frame(1, described(ATTACH, name, handle, not receives, *modes_and_ends, None, None, count)))

    def begin(self, channel: int) -> None:
        """A session, on its way."""
        self.write(begin(channel))

    def transfer(self, delivery: int, data: bytes, settled: bool = False, more: bool = False, handle: int = 0) -> None:
        """One transfer frame."""
        tag = str(delivery).encode()
        fields = (uint(handle), uint(delivery), tag, uint(0), settled, more)
        self.write(frame(self.channel, described(TRANSFER, *fields), data))

    def send(self, delivery: int, data: bytes, message_format: int = 0, **said: bytes) -> None:
        """A message in one transfer, which says more: `settled`, `mode`, `state` and `resume` as octets."""
        names = ("settled", "more", "mode", "state", "resume")
        head = map(encode, (uint(0), uint(delivery), str(delivery).encode(), uint(message_format)))
        self.write(frame(self.channel, listed(TRANSFER, *head, *(said.get(name, NULL) for name in names)), data))

    def dispose(self, delivery: int, state: bytes, receiver: bool = True, settled: bool = True) -> None:
        """The state of a delivery, as octets."""
        fields = (encode(receiver), encode(uint(delivery)), NULL, encode(settled), state)
        self.write(frame(self.channel, listed(DISPOSITION, *fields)))

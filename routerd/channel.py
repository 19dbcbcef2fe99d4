"""One end of the socket pair between the supervisor and a child: msgspec structures, one at a time.

A structure travels as one packet, or as several where it is larger than a packet may be; the first byte of
a packet says whether more follow. The set-up of a router with ten thousand addresses is such a structure.
"""

import select
import socket
from typing import Generic, TypeVar

import msgspec

from shm.control import FromChild, ToChild

FRAGMENT = 64 * 1024  # a socket's send buffer takes several of these at the system's default size
LARGEST = 256 * 1024 * 1024  # a structure beyond this is not ours: the largest set-up is a few MiB
SEND_SECONDS = 3.0  # a peer that has not read for so long while its buffer is full is given up

_LAST = b"\x00"
_MORE = b"\x01"

Received = TypeVar("Received")


class ChannelClosedError(ConnectionError):
    """The other end is gone, or what it said made no sense: nothing more will come."""


class Channel(Generic[Received]):
    """Sends structures and receives those of the types given as `receives`.

    `receive` never blocks. `send` blocks only while the peer's buffer is full, at most `SEND_SECONDS`.
    Both raise `ChannelClosedError` when the other end is gone.
    """

    def __init__(self, sock: socket.socket, receives: object) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._parts: list[bytes] = []
        self._size = 0
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder: msgspec.msgpack.Decoder[Received] = msgspec.msgpack.Decoder(receives)

    def fileno(self) -> int:
        """The file descriptor to wait on; -1 after `close`."""
        return self._socket.fileno()

    def send(self, message: msgspec.Struct) -> None:
        data = self._encode(message)
        for start in range(0, len(data), FRAGMENT):
            last = start + FRAGMENT >= len(data)
            self._send_packet((_LAST if last else _MORE) + data[start : start + FRAGMENT])

    def receive(self) -> Received | None:
        """The next structure, or None if there is none yet."""
        while True:
            try:
                packet = self._socket.recv(FRAGMENT + 1)
            except BlockingIOError:
                return None
            except OSError as error:
                raise ChannelClosedError(f"control socket: {error}") from error
            if not packet:
                raise ChannelClosedError("control socket: the other end is closed")
            self._parts.append(packet[1:])
            self._size += len(packet) - 1
            if self._size > LARGEST:
                raise ChannelClosedError(f"control socket: a message of more than {LARGEST} bytes")
            if packet[:1] == _LAST:
                return self._decode()

    def close(self) -> None:
        self._socket.close()

    def _decode(self) -> Received:
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise ChannelClosedError(f"control socket: not a message of ours: {error}") from error

    def _send_packet(self, packet: bytes) -> None:
        while True:
            try:
                self._socket.send(packet)
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._socket, select.POLLOUT)
                if not poll.poll(SEND_SECONDS * 1000):
                    raise ChannelClosedError(f"control socket: not read for {SEND_SECONDS:g} s") from None
            except OSError as error:
                raise ChannelClosedError(f"control socket: {error}") from error
            else:
                return


def pair() -> tuple[Channel[FromChild], socket.socket]:
    """The supervisor's end, and the socket a child inherits as its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(ours, FromChild), theirs


def of_child(fd: int) -> Channel[ToChild]:
    """The child's end, made of the inherited file descriptor."""
    return Channel(socket.socket(fileno=fd), ToChild)

"""One end of the socket pair between the supervisor and a child, which carries msgspec structures.

A structure travels as one packet, or as several if it is too large, such as the set-up of a router with ten
thousand addresses. The first byte of a packet says whether others of its structure came before and follow, so that the
beginning of one whose end could not be sent in time spoils none of the next ones. File descriptors travel with the last
packet, from the supervisor to a child only.
"""

import array
import os
import select
import socket
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from shm.contract.control import FromChild, LogSetup, SetLogs, ToChild

FRAGMENT = 64 * 1024  # a socket's send buffer takes several of these at the system's default size
LARGEST = 256 * 1024 * 1024  # the router sends no larger structure: the largest set-up is a few MiB
MOST_DESCRIPTORS = 250  # the kernel takes 253 with one packet
SEND_SECONDS = 3.0  # a peer with a full buffer that does not read a structure for so long counts as gone

_DESCRIPTORS_BYTES = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array("i").itemsize)
_MORE = 1  # packets of the structure follow
_CONTINUED = 2  # others came before

Received = TypeVar("Received")


class ChannelClosedError(ConnectionError):
    """The other end is gone or has sent something invalid; or it has not read a structure in time, which is lost."""


class Channel(Generic[Received]):
    """Sends structures and receives those of the types given as `receives`.

    `receive` never blocks. `send` blocks only while the peer's buffer is full, at most `SEND_SECONDS`.
    Both raise `ChannelClosedError` when the other end is gone. An end that takes no descriptors drops those
    that the other sends.
    """

    def __init__(self, sock: socket.socket, receives: object, *, takes_descriptors: bool = False) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._parts: list[bytes] = []
        self._size = 0
        self._descriptors: list[int] = []
        self._room = _DESCRIPTORS_BYTES if takes_descriptors else 0
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder: msgspec.msgpack.Decoder[Received] = msgspec.msgpack.Decoder(receives)

    def fileno(self) -> int:
        """The file descriptor to wait on; -1 after `close`."""
        return self._socket.fileno()

    def send(self, message: msgspec.Struct, descriptors: Sequence[int] = ()) -> None:
        """Send a structure, and with it file descriptors: the receiver gets duplicates."""
        data, until = self._encode(message), time.monotonic() + SEND_SECONDS
        for start in range(0, len(data), FRAGMENT):
            last = start + FRAGMENT >= len(data)
            place = (0 if last else _MORE) | (_CONTINUED if start else 0)
            self._send_packet(bytes((place,)) + data[start : start + FRAGMENT], descriptors if last else (), until)

    def receive(self) -> Received | None:
        """Return the next structure, or None if there is none yet."""
        while True:
            try:
                packet, ancillary, *_ = self._socket.recvmsg(FRAGMENT + 1, self._room, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return None
            except OSError as error:
                raise ChannelClosedError(f"control socket: {error}") from error
            if not packet:
                raise ChannelClosedError("control socket: the other end is closed")
            self._keep(ancillary)
            if not packet[0] & _CONTINUED:
                self._parts.clear()
                self._size = 0
            self._parts.append(packet[1:])
            self._size += len(packet) - 1
            if self._size > LARGEST:
                raise ChannelClosedError(f"control socket: a message of more than {LARGEST} bytes")
            if not packet[0] & _MORE:
                return self._decode()

    def take_descriptors(self) -> list[int]:
        """Return the descriptors of the last structure, which the caller closes."""
        taken, self._descriptors = self._descriptors, []
        return taken

    def close(self) -> None:
        self._socket.close()

    def _keep(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        """Keep the descriptors of a packet; close those of earlier packets that nobody took."""
        for descriptor in self.take_descriptors():
            os.close(descriptor)
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                received = array.array("i")
                received.frombytes(data[: len(data) - len(data) % received.itemsize])
                self._descriptors += received

    def _decode(self) -> Received:
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise ChannelClosedError(f"control socket: not a message of the router: {error}") from error

    def _send_packet(self, packet: bytes, descriptors: Sequence[int], until: float) -> None:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        while True:
            try:
                self._socket.sendmsg([packet], [rights] if descriptors else [])
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._socket, select.POLLOUT)
                if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                    raise ChannelClosedError(f"control socket: not read for {SEND_SECONDS:g} s") from None
            except OSError as error:
                raise ChannelClosedError(f"control socket: {error}") from error
            else:
                return


class ChildEnd(Channel[ToChild]):
    """A child's end, which handles changes of the log itself, because every role handles them alike."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock, ToChild, takes_descriptors=True)
        self.set_logs: Callable[[list[LogSetup]], None] = lambda _: None

    def receive(self) -> ToChild | None:
        while isinstance(message := super().receive(), SetLogs):
            self.set_logs(message.logs)
        return message


def pair() -> tuple[Channel[FromChild], socket.socket]:
    """Return the supervisor's end, and the socket that a child inherits."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(ours, FromChild), theirs


def of_child(fd: int) -> ChildEnd:
    """Return the child's end for the inherited file descriptor."""
    return ChildEnd(socket.socket(fileno=fd))

"""A client that says each frame itself and reads what comes frame by frame (AMQP 1.0 part 2).

It acknowledges nothing by itself: windows, credit, delivery-ids and answers to DETACH and END are the test's.
"""

import contextlib
import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from tests.support.clients.octets import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    OPEN,
    SOURCE,
    TARGET,
    TRANSFER,
    Described,
    Frame,
    Ulong,
    parse,
    said,
)
from tests.support.running import LONG

MESSAGE = b"\0\x53\x77\xa1\x05hello"  # an amqp-value
WINDOW = 2**31 - 1
ASIDE = 7  # the channel of round trips


class EndedError(Exception):
    """What a test waits for cannot come: the router has ended the connection, or the session."""


def message(text: str) -> bytes:
    """A message whose body is that text."""
    octets = text.encode()
    return b"\0\x53\x77\xb1" + struct.pack(">I", len(octets)) + octets


def termini(receiver: bool, address: str | None) -> dict[str, Any]:
    """Source and target of a link's ATTACH; the client's own end has no address."""
    far, near = (SOURCE, TARGET) if receiver else (TARGET, SOURCE)
    ends = {far: Described(Ulong(far), [address]), near: Described(Ulong(near), [])}
    return {"source": ends[SOURCE], "target": ends[TARGET]}


class FrameClient:
    """A connection without SASL. ``limits`` are fields of its OPEN."""

    def __init__(self, address: tuple[str, int], container: str = "frames", **limits: Any) -> None:
        self.socket = socket.create_connection(address, timeout=LONG)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.opening = said(OPEN, container=container, **limits)
        self.buffer = b""
        self.passed: list[Frame] = []  # what came while something else was awaited
        self.channels: dict[int, int] = {}  # the router's channel of each session, by the client's
        self.handles: dict[tuple[int, int], int] = {}  # the router's handle of each link, by the client's

    def __enter__(self) -> Self:
        self.write(AMQP_HEADER + self.opening)
        self.answer_to_open()
        return self

    def answer_to_open(self) -> Frame:
        """The router's header and OPEN."""
        while len(self.buffer) < len(AMQP_HEADER):
            self._more()
        assert self.buffer.startswith(AMQP_HEADER)
        self.buffer = self.buffer[len(AMQP_HEADER) :]
        return self.expect(OPEN)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.socket.close()

    # ---- the wire ----

    def write(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def write_in_pieces(self, octets: bytes, sizes: Iterable[int]) -> None:
        """The octets in as many writes as there are sizes; the last one takes what is left."""
        for size in sizes:
            self.socket.sendall(octets[:size])
            octets = octets[size:]
            time.sleep(0)  # the router may read now
        self.socket.sendall(octets)

    def _more(self) -> None:
        octets = self.socket.recv(1 << 16)
        if not octets:
            raise EOFError
        self.buffer += octets

    def read(self) -> Frame:
        """The next frame that is no heartbeat. EOFError: the router has ended the connection."""
        while True:
            while len(self.buffer) < 4 or len(self.buffer) < (size := int.from_bytes(self.buffer[:4], "big")):
                self._more()
            octets, self.buffer = self.buffer[:size], self.buffer[size:]
            if (got := parse(octets)).code:
                return got

    def expect(self, code: int, channel: int | None = None, **fields: Any) -> Frame:
        """The next frame of that kind, on the session that has this channel, with these values of fields."""
        while True:
            got = self.read()
            here = channel is None or got.channel == self.channels[channel]
            if got.code == code and here and all(got[name] == value for name, value in fields.items()):
                return got
            self.passed.append(got)
            if got.code == CLOSE or (got.code == END and here and channel is not None):
                raise EndedError(got)

    def end_of_connection(self) -> Frame:
        """The CLOSE; behind it the router says nothing."""
        while (got := self.read()).code != CLOSE:
            self.passed.append(got)
        with contextlib.suppress(ConnectionResetError, EOFError):
            raise AssertionError(f"behind CLOSE: {self.read()}")
        return got

    # ---- sessions and links ----

    def begin(self, channel: int = 0, **fields: Any) -> Frame:
        """A session; the router's BEGIN."""
        self.write(self.beginning(channel, **fields))
        return self.begun(channel)

    def beginning(self, channel: int = 0, **fields: Any) -> bytes:
        return said(BEGIN, channel, **{"next_out": 0, "in_window": WINDOW, "out_window": WINDOW, **fields})

    def begun(self, channel: int = 0) -> Frame:
        """The answer to a BEGIN."""
        got = self.expect(BEGIN, remote_channel=channel)
        self.channels[channel] = got.channel
        return got

    def attaching(self, address: str | None, handle: int, receiver: bool, channel: int = 0, **fields: Any) -> bytes:
        """An ATTACH."""
        count = {} if receiver else {"count": 0}
        name = f"link-{channel}-{handle}"
        values = {"name": name, "handle": handle, "receiver": receiver, **termini(receiver, address), **count}
        return said(ATTACH, channel, **{**values, **fields})

    def attached(self, handle: int, channel: int = 0, **fields: Any) -> Frame:
        """The answer to an ATTACH."""
        got = self.expect(ATTACH, channel, **{"name": f"link-{channel}-{handle}", **fields})
        self.handles[channel, handle] = got["handle"]
        return got

    def sender(self, address: str | None, handle: int = 0, channel: int = 0, **fields: Any) -> Frame:
        """A sending link; the FLOW that gives it its first credit."""
        self.write(self.attaching(address, handle, False, channel, **fields))
        self.attached(handle, channel)
        while not (got := self.expect(FLOW, channel, handle=self.handles[channel, handle]))["credit"]:
            pass
        return got

    def receiver(self, address: str | None, handle: int = 0, channel: int = 0, credit: int = 0, **fields: Any) -> Frame:
        """A receiving link; the router's ATTACH."""
        self.write(self.attaching(address, handle, True, channel, **fields))
        got = self.attached(handle, channel)
        if credit:
            self.write(flow(channel, handle=handle, count=got["count"], credit=credit))
        return got

    def frames(self, number: int, handle: int = 0, channel: int = 0) -> list[Frame]:
        """The next TRANSFERs of a link, among them those that have come while something else was awaited."""
        link = (self.channels[channel], self.handles[channel, handle])
        found = [got for got in self.passed if got.code == TRANSFER and (got.channel, got["handle"]) == link][:number]
        self.passed = [got for got in self.passed if all(got is not one for one in found)]
        return found + [self.expect(TRANSFER, channel, handle=link[1]) for _ in range(number - len(found))]

    def take(self, number: int, handle: int = 0, channel: int = 0) -> list[Frame]:
        """The next deliveries of a link, each as its first TRANSFER with the payload, and the ends, of all of them."""
        return [whole(self._delivery(handle, channel)) for _ in range(number)]

    def _delivery(self, handle: int, channel: int) -> list[Frame]:
        frames = self.frames(1, handle, channel)
        while frames[-1]["more"] and not frames[-1]["aborted"]:
            frames += self.frames(1, handle, channel)
        return frames

    def settled(self, first: int, last: int, channel: int = 0) -> list[Any]:
        """The state in which the router settles each of these deliveries of the client, in their order."""
        states: dict[int, Any] = {}
        while set(states) < set(range(first, last + 1)):
            got = self.expect(DISPOSITION, channel, receiver=True, settled=True)
            states |= dict.fromkeys(ids_of(got), got["state"])
        return [states[number] for number in range(first, last + 1)]

    def round_trip(self, channel: int = ASIDE) -> list[Frame]:
        """All that came until the core has handled what this client said, and told it what it knew by then."""
        if channel not in self.channels:
            self.begin(channel)
        self.write(self.attaching(None, 0, False, channel))
        self.attached(0, channel)  # by the core; a DETACH that comes before it is answered by the worker
        self.write(said(DETACH, channel, handle=0, closed=True))
        self.expect(DETACH, channel)
        passed, self.passed = self.passed, []
        return [got for got in passed if got.channel != self.channels[channel] or got.code == CLOSE]

    def ended(self, channel: int = 0) -> Frame:
        """The router's END, which is answered."""
        got = self.expect(END, channel)
        self.write(said(END, channel))
        del self.channels[channel]
        return got

    def close(self) -> None:
        """CLOSE, and the router's answer."""
        self.write(said(CLOSE))
        assert self.end_of_connection().condition is None


def whole(frames: list[Frame]) -> Frame:
    """A delivery as one TRANSFER: settled and aborted are what any of its frames says."""
    flags = {name: one.values[name] for name in ("settled", "aborted") for one in frames if one[name]}
    payload = b"".join(one.payload for one in frames)
    first = frames[0]
    more = {"more": frames[-1].values["more"]} if "more" in frames[-1].values else {}
    return replace(first, values={**first.values, **more, **flags}, payload=payload)


def ids_of(got: Frame) -> range:
    """The delivery-ids that a DISPOSITION names, where they do not wrap."""
    return range(got["first"], (got["first"] if got["last"] is None else got["last"]) + 1)


def flow(channel: int = 0, **fields: Any) -> bytes:
    """A FLOW of a client that has received nothing: its window is wide open. ``fields`` say otherwise."""
    return said(FLOW, channel, **{"next_in": 0, "in_window": WINDOW, "next_out": 0, "out_window": WINDOW, **fields})


def transfer(id: int | None, payload: bytes = MESSAGE, channel: int = 0, **fields: Any) -> bytes:
    """A TRANSFER, by default the only one of an unsettled delivery; ``id`` None: it goes on with one."""
    first = {} if id is None else {"id": id, "tag": b"%d" % id, "format": 0}
    return said(TRANSFER, channel, payload, **{"handle": 0, **first, **fields})


def disposition(first: int, last: int | None = None, channel: int = 0, **fields: Any) -> bytes:
    """A DISPOSITION of a receiver that settles."""
    ends = {"receiver": True, "first": first, "settled": True}
    return said(DISPOSITION, channel, **{**ends, **({} if last is None else {"last": last}), **fields})

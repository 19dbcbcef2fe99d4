"""``steady_pairs HOST PORT PREFIX NUMBER [PID...]``: pairs of a sender and a receiver whose round trips are measured.

Run by ``python -m``. A pair has a message on its way at any time: the sender sends it, the receiver gets and accepts
it, the sender hears of it; the next one follows after a pause. Each end has a connection of its own and comes back
when that is lost. ``lap`` on standard input is answered by a line of JSON about the time since the last ``lap``; the
program ends with its input.

A round trip does not include the time in which the processes that are named could have run and had to wait for a CPU:
attackers on the same machine use it up, too.
"""

import contextlib
import json
import math
import os
import select
import socket
import sys
import time
from typing import Any

from tests.support.clients.octets import (
    ACCEPTED,
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
    state,
)

PAUSE = 0.01  # seconds between a pair's messages
AGAIN = 0.02  # seconds until an end connects again
CREDIT = 2**31 - 1
WINDOW = 2**31 - 1
FRAME = 16_000  # octets of a message in one TRANSFER
SIZES = (0, 20, 300, 3_000, 20, 100, 20, 40_000)  # octets of messages, in turn


class End:
    """A connection with one link."""

    def __init__(self, pair: "Pair", receives: bool) -> None:
        self.pair, self.receives = pair, receives
        self.socket = socket.socket()
        self.out = self.buffer = b""
        self.header = self.ready = False
        self.count = 0  # deliveries so far: the next delivery-id

    def connect(self) -> None:
        """Connect; all that is to be said before the first message goes out as soon as it can."""
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex(self.pair.pairs.address)  # what becomes of it is seen by the first read
        self.header, self.ready, self.count, self.buffer = False, False, 0, b""
        far, near = (SOURCE, TARGET) if self.receives else (TARGET, SOURCE)
        ends = {far: Described(Ulong(far), [self.pair.name]), near: Described(Ulong(near), [])}
        more = {} if self.receives else {"count": 0}
        container = f"steady-{self.pair.name}-{'receiver' if self.receives else 'sender'}"
        link = {"name": container, "handle": 0, "receiver": self.receives, "source": ends[SOURCE]}
        said_first = [
            AMQP_HEADER,
            said(OPEN, container=container),
            said(BEGIN, next_out=0, in_window=WINDOW, out_window=WINDOW),
            said(ATTACH, target=ends[TARGET], **link, **more),
        ]
        if self.receives:
            window = {"next_in": 0, "in_window": WINDOW, "next_out": 0, "out_window": WINDOW}
            said_first.append(said(FLOW, **window, handle=0, count=0, credit=CREDIT))
        self.out = b"".join(said_first)

    def write(self, octets: bytes = b"") -> None:
        """Send what there is, as far as the socket takes it. A broken connection shows when it is read."""
        self.out += octets
        with contextlib.suppress(OSError):
            self.out = self.out[self.socket.send(self.out) :]

    def read(self) -> None:
        """Take all frames that have come. Raises EOFError and OSError at the end of the connection."""
        octets = self.socket.recv(1 << 18)
        if not octets:
            raise EOFError("the router has ended the connection")
        self.buffer += octets
        if not self.header and len(self.buffer) >= len(AMQP_HEADER):
            self.header, self.buffer = True, self.buffer[len(AMQP_HEADER) :]
        while self.header and len(self.buffer) >= 4 and len(self.buffer) >= (size := int.from_bytes(self.buffer[:4])):
            octets, self.buffer = self.buffer[:size], self.buffer[size:]
            self._frame(parse(octets))

    def _frame(self, frame: Frame) -> None:
        if frame.code in (DETACH, END, CLOSE):
            raise EOFError(f"the router has ended it: {frame.code:#x} {frame['error']}")
        if frame.code == (ATTACH if self.receives else FLOW):
            self.ready = True
        elif frame.code == TRANSFER and self.receives:
            self.pair.arrived(frame)
        elif frame.code == DISPOSITION and not self.receives:
            self.pair.decided(frame)


class Pair:
    """A sender and a receiver, and the message that is on its way."""

    def __init__(self, pairs: "Pairs", name: str) -> None:
        self.pairs, self.name = pairs, name
        self.sender, self.receiver = End(self, False), End(self, True)
        self.due = time.monotonic()  # of the next thing to do: connect, or send
        self.connected = False
        self.number = 0
        self.since: float | None = None  # when the message on its way was sent
        self.queued = 0.0  # what the scheduler had withheld by then
        self.away: float | None = None  # since when no message has been accepted because a connection was lost
        self.sent = self.got = b""
        self.complete = 0  # times that the message on its way has arrived
        self.doubtful: set[int] = set()  # messages that were on their way when a connection was lost: may yet arrive
        self.id = 0  # of the delivery to the receiver

    @property
    def next(self) -> float:
        """When to look at it again; what its ends receive comes by itself."""
        waits = self.connected and (self.since is not None or not (self.sender.ready and self.receiver.ready))
        return math.inf if waits else self.due

    def step(self, now: float) -> None:
        """Connect, or send the next message, when it is time."""
        if now < self.due:
            return
        if not self.connected:
            self.sender.connect()
            self.receiver.connect()
            self.connected = True
        elif self.since is None and self.sender.ready and self.receiver.ready:
            self.number += 1
            self.sent, self.complete = self.body(self.number), 0
            payload = b"\0\x53\x75\xb0" + len(self.sent).to_bytes(4) + self.sent
            pieces = [payload[at : at + FRAME] for at in range(0, len(payload), FRAME)]
            tag, number = self.number.to_bytes(4), self.sender.count
            self.sender.count += 1
            first = {"id": number, "tag": tag, "format": 0}
            frames = [
                said(TRANSFER, 0, piece, handle=0, **({} if at else first), more=at < len(pieces) - 1)
                for at, piece in enumerate(pieces)
            ]
            self.since, self.queued = time.monotonic(), self.pairs.queues.seconds()
            self.sender.write(b"".join(frames))

    def body(self, number: int) -> bytes:
        """The octets of a message, which no other message has."""
        text = f"{self.name}:{number};".encode()
        size = SIZES[number % len(SIZES)]
        return text + (text * (size // len(text) + 1))[:size]

    def trip(self, now: float) -> float:
        """How long the message on its way has taken, without what the scheduler withheld."""
        assert self.since is not None
        return max(0.0, now - self.since - (self.pairs.queues.seconds() - self.queued))

    def arrived(self, frame: Frame) -> None:
        """A frame of the message, at the receiver."""
        self.got += frame.payload
        self.id = self.id if frame["id"] is None else frame["id"]
        if frame["more"]:
            return
        got, self.got = self.got, b""
        late = next((number for number in self.doubtful if got.endswith(self.body(number))), None)
        if late is not None:
            self.doubtful.remove(late)
        else:
            self.complete += 1
            if self.complete > 1 or not got.endswith(self.sent):
                self.pairs.faults.append(f"{self.name} {self.number}: arrived {self.complete} times as {got[:80]!r}")
        self.receiver.write(said(DISPOSITION, receiver=True, first=self.id, settled=True, state=state(ACCEPTED)))

    def decided(self, frame: Frame) -> None:
        """The outcome, at the sender."""
        outcome = frame["state"].descriptor if frame["state"] else None
        if outcome == ACCEPTED and self.complete != 1:
            self.pairs.faults.append(f"{self.name} {self.number}: accepted, and arrived {self.complete} times")
        elif outcome != ACCEPTED:
            self.pairs.unlucky.append(f"{self.name} {self.number}: outcome {outcome}")
        now = time.monotonic()
        self.pairs.trips.append(self.trip(now))
        if self.away is not None and outcome == ACCEPTED:
            self.pairs.outages.append(now - self.away)
            self.away = None
        self.since, self.due = None, now + PAUSE

    def lost(self, error: Exception) -> None:
        """Connect both ends again."""
        self.pairs.unlucky.append(f"{self.name}: {error!r}")
        self.away = self.away or self.since or time.monotonic()
        if self.since is not None:
            self.doubtful.add(self.number)
        self.got = b""
        self.sender.socket.close()
        self.receiver.socket.close()
        self.connected, self.since = False, None
        self.due = time.monotonic() + AGAIN


class Queues:
    """The time that the main threads of processes spent runnable without a CPU (/proc/PID/schedstat, second figure)."""

    def __init__(self, processes: list[int]) -> None:
        self.files = []
        for process in processes:
            with contextlib.suppress(OSError):  # it has ended, or this kernel does not count
                self.files.append(os.open(f"/proc/{process}/schedstat", os.O_RDONLY))

    def seconds(self) -> float:
        """Sum up the time that they could have run and did not."""
        withheld = 0
        for file in self.files:
            with contextlib.suppress(OSError, IndexError):  # of a process that has ended
                withheld += int(os.pread(file, 100, 0).split()[1])
        return withheld / 1e9


class Echo:
    """A process that answers at once: how long it takes is the machine's doing."""

    def __init__(self) -> None:
        self.near, far = socket.socketpair(type=socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            self.near.close()
            with contextlib.suppress(OSError):
                while octets := far.recv(8):
                    far.send(octets)
            os._exit(0)
        far.close()
        self.trips: list[float] = []
        self.since: float | None = None
        self.due = 0.0

    @property
    def next(self) -> float:
        """As a pair's."""
        return self.due if self.since is None else math.inf

    def step(self, now: float) -> None:
        if self.since is None and now >= self.due:
            self.since = time.monotonic()
            self.near.send(b"x")

    def answered(self) -> None:
        self.near.recv(8)
        now = time.monotonic()
        assert self.since is not None
        self.trips.append(now - self.since)
        self.since, self.due = None, now + PAUSE


class Pairs:
    """All of them."""

    def __init__(self, address: tuple[str, int], prefix: str, number: int, processes: list[int]) -> None:
        self.address = address
        self.queues = Queues(processes)
        self.trips: list[float] = []
        self.outages: list[float] = []  # from the loss of a connection to the next message that is accepted
        self.faults: list[str] = []  # what must never be
        self.unlucky: list[str] = []  # what may be where processes are killed
        self.echo = Echo()
        self.pairs = [Pair(self, f"{prefix}.{i}") for i in range(number)]

    def run(self) -> None:
        """Until the end of standard input."""
        while True:
            now = time.monotonic()
            self.echo.step(now)
            for pair in self.pairs:
                pair.step(now)
            if not self.turn():
                return

    def turn(self) -> bool:
        """Serve whoever is ready; False at the end of the input."""
        ends = {end.socket.fileno(): end for pair in self.pairs if pair.connected
                for end in (pair.sender, pair.receiver)}  # fmt: skip
        poller = select.poll()
        poller.register(0, select.POLLIN)
        poller.register(self.echo.near, select.POLLIN)
        for number, end in ends.items():
            poller.register(number, select.POLLIN | (select.POLLOUT if end.out else 0))
        next_ = min(self.echo.next, *(pair.next for pair in self.pairs))
        wait = max(0, math.ceil(1000 * (next_ - time.monotonic()))) if next_ < math.inf else None
        for number, seen in poller.poll(wait):
            if number == 0:
                if not sys.stdin.readline():
                    return False
                print(json.dumps(self.lap()), flush=True)
            elif number == self.echo.near.fileno():
                self.echo.answered()
            elif ends[number].pair.connected:
                self.serve(ends[number], seen)
        return True

    def serve(self, end: End, seen: int) -> None:
        try:
            if end.out:
                end.write()
            if seen & ~select.POLLOUT:
                end.read()
        except BlockingIOError:
            pass
        except (OSError, EOFError) as error:
            end.pair.lost(error)

    def lap(self) -> dict[str, Any]:
        """What has happened since the last lap; waits that go on count as they are now."""
        now = time.monotonic()
        waits = [pair.trip(now) for pair in self.pairs if pair.since is not None]
        absent = [now - pair.away for pair in self.pairs if pair.away is not None]
        found = {
            "trips": self.trips,
            "waits": waits,
            "outages": self.outages,
            "absent": absent,
            "machine": self.echo.trips,
            "faults": self.faults,
            "unlucky": self.unlucky,
        }
        self.trips, self.outages, self.faults, self.unlucky, self.echo.trips = [], [], [], [], []
        return found


if __name__ == "__main__":
    Pairs((sys.argv[1], int(sys.argv[2])), sys.argv[3], int(sys.argv[4]), [int(one) for one in sys.argv[5:]]).run()

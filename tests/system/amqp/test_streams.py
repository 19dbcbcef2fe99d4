"""Long messages come to a stop and go on: each reason to stop has its own wake-up, and without it a test here hangs."""

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from proton import uint

from tests.support.clients.wire import BEGIN, DISPOSITION, END, FLOW, TRANSFER, WINDOW, Wire, described, frame
from tests.support.running import Configuration, RunningRouter

FRAME = 16_384
PAYLOAD = FRAME - 64  # beside the head of a TRANSFER
LONG_BODY = random.Random(1).randbytes(1_000_000)  # noqa: S311 - content only
HEAD = 8  # octets of a data section before its own


def data(size: int) -> bytes:
    """The head of a data section."""
    return b"\0\x53\x75\xb0" + size.to_bytes(4, "big")


MESSAGE = data(len(LONG_BODY)) + LONG_BODY
numbers = count()


@pytest.fixture(scope="module", params=[1, 2], ids=["1 worker", "2 workers"])
def configuration(request: pytest.FixtureRequest) -> Configuration:
    """As little memory for messages as can be configured."""
    return Configuration(router=f"workers: {request.param}\n arenaSize: 4")


@pytest.fixture
def name() -> str:
    return f"streams.{next(numbers)}"


class Arrival:
    """A receiver that reads frames one by one, and opens its window, and gives credit, as it is told."""

    def __init__(self, wire: Wire, window: int) -> None:
        self.wire, self.window = wire, window
        self.next_in, self.left, self.deliveries = 0, window, 0

    def message(self, reopen: Callable[[], bool]) -> bytes:
        """The next message; ``reopen`` says after each frame whether the window is opened again."""
        parts = []
        while True:
            got = self.wire.expect(TRANSFER)
            assert self.left, "a frame more than the window"
            self.next_in, self.left = self.next_in + 1, self.left - 1
            parts.append(got.payload)
            if not (len(got.fields) > 5 and got.fields[5]):
                self.deliveries += 1
                return b"".join(parts)
            if not self.left or reopen():
                self.flow()

    def flow(self, *link: uint) -> None:
        """A FLOW of the session, or of a link with its delivery-count and credit."""
        self.left = self.window
        fields = (uint(self.next_in), uint(self.window), uint(0), uint(WINDOW), *link)
        self.wire.write(frame(0, described(FLOW, *fields)))

    def accept(self) -> None:
        """The last message, with credit for another one."""
        self.wire.dispose(self.deliveries - 1, b"\0\x53\x24\x45")
        self.flow(uint(0), uint(self.deliveries), uint(1))


class Departure:
    """A sender that keeps to the router's session window."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.next_out, self.settled, self.left = 0, 0, int(wire.begun.fields[2])

    def transfer(self, delivery: int, data: bytes, **terms: Any) -> None:
        """One frame, once the window allows it."""
        while not self.left:
            self.read()
        self.wire.transfer(delivery, data, **terms)
        self.next_out, self.left = self.next_out + 1, self.left - 1

    def read(self) -> None:
        """The next FLOW or DISPOSITION."""
        got = self.wire.expect(FLOW, DISPOSITION)
        if got.code == FLOW:
            self.left = int(got.fields[0]) + int(got.fields[1]) - self.next_out
            return
        last = got.fields[2] if len(got.fields) > 2 and got.fields[2] is not None else got.fields[1]
        self.settled = int(last) + 1

    def send(self, messages: int, size: int = PAYLOAD, handle: int = 0) -> None:
        """Messages in frames with so much payload each."""
        for number in range(messages):
            for at in range(0, len(MESSAGE), size):
                self.transfer(number, MESSAGE[at : at + size], more=at + size < len(MESSAGE), handle=handle)


@contextmanager
def sending(wire: Wire, messages: int, size: int = PAYLOAD) -> Iterator[None]:
    """Messages that a thread sends meanwhile; at the end all of them are settled."""
    departure = Departure(wire)
    thread = threading.Thread(target=departure.send, args=(messages, size))
    thread.start()
    try:
        yield
        thread.join()
        while departure.settled < messages:
            departure.read()
    finally:
        wire.socket.close()
        thread.join()


@pytest.mark.parametrize(("window", "size"), [(1, 512), (1, FRAME), (2, 512), (7, 1000), (3, 65_536), (1000, 512)])
@pytest.mark.parametrize("keen", [False, True], ids=["used up", "each frame"])
def test_a_session_window_of_a_few_frames(router: RunningRouter, name: str, window: int, size: int, keen: bool) -> None:
    """It is opened by FLOWs of the session, without a link: when it is used up, or with each frame."""
    with Wire(router.address) as to, Wire(router.address, max_frame=size, window=window) as at:
        at.attach_receiver(name, 1)
        to.attach_sender(name)
        arrival = Arrival(at, window)
        with sending(to, 2):
            for _ in range(2):
                assert arrival.message(lambda: keen) == MESSAGE
                arrival.accept()


@pytest.mark.parametrize("size", [512, 1021, FRAME, 1 << 20])
def test_a_receiver_that_reads_by_fits_and_starts(router: RunningRouter, name: str, size: int) -> None:
    """Its socket is full again and again, in the middle of frames: no octet is lost or comes twice."""
    some = random.Random(size)  # noqa: S311 - no secret
    with Wire(router.address) as to, Wire(router.address, max_frame=size) as at:
        at.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
        at.attach_receiver(name, 1)
        to.attach_sender(name)
        arrival, pause = Arrival(at, WINDOW), threading.Event()
        with sending(to, 3):
            for _ in range(3):
                assert arrival.message(lambda: some.random() < 0.01 and not pause.wait(0.002)) == MESSAGE
                arrival.accept()


def test_a_sender_whose_frames_come_in_pieces(router: RunningRouter, name: str) -> None:
    """Frames that end anywhere in what is read at once."""
    some = random.Random(3)  # noqa: S311 - no secret
    with Wire(router.address) as to, Wire(router.address) as at:
        at.attach_receiver(name, 1)
        to.attach_sender(name)
        whole = b"".join(
            frame(0, described(TRANSFER, uint(0), uint(0), b"0", uint(0), False, start + 9000 < len(MESSAGE)),
                  MESSAGE[start : start + 9000])
            for start in range(0, len(MESSAGE), 9000)
        )  # fmt: skip
        while whole:
            part = whole[: some.randrange(1, some.choice((4, 20_000, 100_000)))]
            to.write(part)
            whole = whole[len(part) :]
        arrival = Arrival(at, WINDOW)
        assert arrival.message(lambda: False) == MESSAGE
        arrival.accept()


def test_one_connection_sends_and_receives_more_than_there_is_room(router: RunningRouter, name: str) -> None:
    """Its own outcomes and windows free the blocks for which its own messages wait."""
    messages = 8  # all their frames fit the session's window: nobody has to read for the sender
    with Wire(router.address, window=64) as both:
        both.attach_receiver(name, 1, handle=0)
        both.attach_sender(name, handle=1)
        thread = threading.Thread(target=Departure(both).send, args=(messages, PAYLOAD, 1))
        thread.start()
        arrival = Arrival(both, 64)
        try:
            for _ in range(messages):
                assert arrival.message(lambda: False) == MESSAGE
                arrival.accept()
        finally:
            both.socket.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_held_link_leaves_others_of_its_session_their_part_of_the_window(router: RunningRouter, name: str) -> None:
    """A message waits for its receiver's credit; any number of others passes, and then it goes on."""
    with Wire(router.address) as to, Wire(router.address) as slow, Wire(router.address) as ready:
        slow.attach_receiver(f"{name}.slow", 0)
        ready.attach_receiver(f"{name}.ready", 6000)
        to.attach_sender(f"{name}.slow", handle=0)
        to.attach_sender(f"{name}.ready", handle=1)
        departure = Departure(to)
        for at in range(0, len(MESSAGE), 3000):
            departure.transfer(0, MESSAGE[at : at + 3000], more=at + 3000 < len(MESSAGE), handle=0)
        small = b"\0\x53\x77\xa1\x01x"
        for first in range(1, 6001, 50):  # far fewer at once than there is credit
            for number in range(first, first + 50):
                departure.transfer(number, small, settled=True, handle=1)
            assert {ready.expect(TRANSFER).payload for _ in range(50)} == {small}
        arrival = Arrival(slow, WINDOW)
        arrival.flow(uint(0), uint(0), uint(1))
        assert arrival.message(lambda: False) == MESSAGE
        arrival.accept()
        while not departure.settled:
            departure.read()


def test_empty_transfers_behind_a_held_message_leave_the_window_open(router: RunningRouter, name: str) -> None:
    """They need no memory: any number of them may stand before the octets of the next message."""
    small = b"\0\x53\x77\xa1\x01x"
    with Wire(router.address) as to, Wire(router.address) as at:
        at.attach_receiver(name, 0)
        to.attach_sender(name)
        departure = Departure(to)
        for start in range(0, len(MESSAGE), 3000):
            departure.transfer(0, MESSAGE[start : start + 3000], more=start + 3000 < len(MESSAGE))
        for _ in range(6000):
            departure.transfer(1, b"", more=True)
        departure.transfer(1, small)
        arrival = Arrival(at, WINDOW)
        arrival.flow(uint(0), uint(0), uint(2))
        assert [arrival.message(lambda: False) for _ in range(2)] == [MESSAGE, small]


def test_a_message_whose_credit_is_taken_back_holds_up_no_other_link(router: RunningRouter, name: str) -> None:
    """It waited for the session's window; when that opens, other links' messages pass it."""
    small = [b"\0\x53\x77\xa1\x01" + bytes([number]) for number in range(4)]
    with Wire(router.address) as to, Wire(router.address, window=1) as at:
        at.attach_receiver(f"{name}.other", 10, handle=1)
        at.attach_receiver(f"{name}.back", 1, handle=0)
        to.attach_sender(f"{name}.other", handle=1)
        to.attach_sender(f"{name}.back", handle=0)
        to.transfer(0, small[0], settled=True, handle=1)
        assert at.expect(TRANSFER).payload == small[0]
        to.transfer(1, small[1], settled=True, handle=0)
        time.sleep(0.2)  # it is in the worker, and waits for the window
        arrival = Arrival(at, 0)
        arrival.next_in = 1
        arrival.flow(uint(0), uint(0), uint(0))
        arrival.window = 10
        arrival.flow()
        for number in (2, 3):
            to.transfer(number, small[number], settled=True, handle=1)
            assert at.expect(TRANSFER).payload == small[number]
        arrival.next_in = 3
        arrival.flow(uint(0), uint(0), uint(1))
        assert at.expect(TRANSFER).payload == small[1]


def test_the_first_session_of_a_connection_has_a_wide_window(router: RunningRouter) -> None:
    """Others have a smaller one, until the first has ended."""
    with Wire(router.address, sessions=2) as wire:
        assert int(wire.begun.fields[2]) == 4096
        assert int(wire.expect(BEGIN).fields[2]) == 512
        wire.write(frame(0, described(END)))
        wire.expect(END)
        wire.begin(0)
        assert int(wire.expect(BEGIN).fields[2]) == 4096


def test_a_connection_of_which_too_much_waits_is_not_read_until_it_has_gone(router: RunningRouter, name: str) -> None:
    """Sessions use up their windows before there is credit for any of their messages: those hold more than may wait
    and what the kernel buffers of a connection can hold besides."""
    kernel = sum(int(Path(f"/proc/sys/net/ipv4/tcp_{end}").read_text().split()[2]) for end in ("rmem", "wmem"))
    frames = [4096] + [512] * (10 + kernel // (512 * PAYLOAD))
    receivers = [Wire(router.address) for _ in frames]
    with ExitStack() as stack, Wire(router.address, sessions=len(frames)) as to:
        for number, at in enumerate(receivers):
            stack.enter_context(at).attach_receiver(f"{name}.{number}", 0)
            to.channel = number
            to.attach_sender(f"{name}.{number}")

        def send() -> None:
            for channel, most in enumerate(frames):
                to.channel = channel
                to.transfer(0, data(most * PAYLOAD - HEAD) + bytes(PAYLOAD - HEAD), more=True)
                for left in range(most - 2, -1, -1):
                    to.transfer(0, bytes(PAYLOAD), more=left > 0)

        thread = threading.Thread(target=send)
        thread.start()
        thread.join(3)
        assert thread.is_alive()
        for at, most in zip(receivers, frames, strict=True):
            arrival = Arrival(at, WINDOW)
            arrival.flow(uint(0), uint(0), uint(1))
            assert len(arrival.message(lambda: False)) == most * PAYLOAD
            arrival.accept()
        thread.join()

"""Much at once: thousands of connections, gigabytes in one message. Memory is what is looked at."""

import random
import resource
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from proton import Described, Message, uint, ulong

from bench.processes import processes, pss_bytes
from tests.support.clients.wire import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    DISPOSITION,
    FLOW,
    OPEN,
    SOURCE,
    TARGET,
    TRANSFER,
    Frame,
    Wire,
    described,
    frame,
)
from tests.support.peer import ACCEPTED, Net
from tests.support.running import LONG, Configuration, RunningRouter, address_of, until

KIB, MIB, GIB = 1024, 1024**2, 1024**3
CONNECTIONS = 5000
EACH = 64 * KIB
MOST_FRAME = 65536
DESCRIPTORS = 2 * CONNECTIONS + 500  # of this process and of one worker, in the worst case


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """Idle connections may stay so; another listener takes larger frames, of which gigabytes need fewer."""
    listener = "host: 127.0.0.1\n port: 0\n idleTimeoutSeconds: 300"
    larger = f"listener {{\n {listener}\n maxFrameSize: {MOST_FRAME}\n}}"
    return Configuration(listener=listener, router="workers: 2", sections=larger)


def memory(router: RunningRouter) -> int:
    """Proportional set size of the router's processes that serve, in bytes; spare ones may begin at any time."""
    serving = {name: pid for name, pid in processes(router.process.pid).items() if not name.startswith("spare")}
    return sum(pss_bytes(pid) for pid in serving.values())


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """As many as the system lets us have, which must be enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < DESCRIPTORS:
        pytest.skip(f"the hard limit of open files is {hard}; {DESCRIPTORS} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, DESCRIPTORS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def receiver(handle: int, address: str) -> bytes:
    """The attach of a receiving link."""
    source, target = Described(ulong(SOURCE), [address]), Described(ulong(TARGET), [])
    fields = (f"receiver-{handle}", uint(handle), True, None, None, source, target)
    return frame(0, described(ATTACH, *fields))


def credit(handle: int, number: int) -> bytes:
    """The flow that lets a link's sender send; the session's window never closes."""
    window, zero = uint(2**31 - 1), uint(0)
    return frame(0, described(FLOW, zero, window, zero, window, uint(handle), zero, uint(number)))


OPENING = (
    AMQP_HEADER
    + frame(0, described(OPEN, "idle"))
    + frame(0, described(BEGIN, None, uint(0), uint(2**31 - 1), uint(2**31 - 1)))
)


@pytest.mark.usefixtures("many_descriptors")
def test_thousands_of_idle_connections(router: RunningRouter, net: Net) -> None:
    """Each with a link of its own: at most 64 KiB a connection; who is active is served beside them."""
    at, to = net.peer(), net.peer()
    busy = at.receiver("scale.busy", 10)
    sender = to.ready_sender("scale.busy")
    before, links = memory(router), router.counted("links")
    idle = []
    for i in range(CONNECTIONS):
        connection = socket.create_connection(router.address)
        connection.sendall(OPENING + receiver(0, f"scale.idle.{i}"))
        idle.append(connection)
        if i % 500 == 0:
            net.turn(0)
    net.until(lambda: router.counted("links") == links + CONNECTIONS, "links")
    net.until(lambda: router.core["addresses"] > CONNECTIONS, "addresses")
    assert (memory(router) - before) / CONNECTIONS <= EACH
    shares = [worker["connections"] for worker in router.workers]
    assert min(shares) > CONNECTIONS / len(shares) / 2
    sent = net.send(sender, Message(body="among many"))
    at.take(busy)[0].settle()
    assert net.settled(sent) == [ACCEPTED]
    idle[17].sendall(credit(0, 1))
    last = to.ready_sender("scale.idle.17")
    net.send(last, Message(body="waited for"))
    said = bytearray()

    def came() -> bool:
        if select.select([idle[17]], [], [], 0)[0]:
            said.extend(idle[17].recv(65536))
        return b"waited for" in said

    net.until(came, "message to an idle one")
    for connection in idle:
        connection.close()
    net.until(lambda: router.counted("connections") == 2, "end of the connections")


# ---- a very long message --------------------------------------------------------------------------------

CHUNK = 64_000  # bytes of a transfer; with its header it fits a frame
CHUNKS = 16
PATTERN = random.Random(1).randbytes(CHUNK * CHUNKS)  # noqa: S311 - no secret
ROUNDS = 2 * GIB // len(PATTERN) + 1
LENGTH = ROUNDS * len(PATTERN)
WAITING = 64 * MIB  # what may wait in the first session of a connection (docs/operations.md, Limits)
PREFIX = b"\0\x53\x75\xb0" + struct.pack(">I", LENGTH)  # a data section
MORE = described(TRANSFER, uint(0), None, None, None, False, True)


class WindowedWire(Wire):
    """Knows how many transfers the router takes."""

    window = 0  # the number of the first one that it does not

    def read(self) -> Frame | None:
        got = super().read()
        if got is not None and got.code == BEGIN:
            self.window = int(got.fields[2])
        if got is not None and got.code == FLOW:
            self.window = int(got.fields[0]) + int(got.fields[1])
        return got


class LongSender:
    """Writes one message of LENGTH bytes as far as the router's session window is open."""

    def __init__(self, wire: WindowedWire) -> None:
        self.wire = wire
        self.written = 0  # transfers
        self.outcome: list[object] = []
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            self.stream()
        except BaseException as error:
            self.failed = error

    def stream(self) -> None:
        self.wire.attach_sender("scale.long")
        frames = b"".join(frame(0, MORE, PATTERN[i : i + CHUNK]) for i in range(0, len(PATTERN), CHUNK))
        self.wire.transfer(0, PREFIX, more=True)
        self.written = 1
        for _ in range(ROUNDS):
            while self.wire.window - self.written < CHUNKS:
                self.wire.read()
            self.wire.write(frames)
            self.written += CHUNKS
        self.wire.write(frame(0, described(TRANSFER, uint(0), None, None, None, False, False)))
        self.outcome = self.wire.expect(DISPOSITION).fields


class LongReceiver:
    """Compares what arrives with what was sent."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        wire.attach_receiver("scale.long", credit=1)
        self.reader = wire.socket.makefile("rb", buffering=MIB)
        self.position = -len(PREFIX)
        self.twice = memoryview(PATTERN + PATTERN)
        self.whole = False

    def take(self) -> None:
        """One frame."""
        size, doff, _, _ = struct.unpack(">IBBH", self.reader.read(8))
        body = memoryview(self.reader.read(size - 8))[4 * doff - 8 :]
        if not body or body[2] != TRANSFER:
            return
        assert body[3] == 0xC0
        payload = body[5 + body[4] :]
        self.whole = len(payload) == 0 or self.position + len(payload) == LENGTH
        if self.position < 0:
            head, payload = payload[: -self.position], payload[-self.position :]
            assert head == PREFIX[: len(head)]
            self.position += len(head)
        if payload:
            at = self.position % len(PATTERN)
            assert payload == self.twice[at : at + len(payload)]
            self.position += len(payload)

    def accept(self) -> None:
        state = Described(ulong(0x24), [])
        self.wire.write(frame(0, described(DISPOSITION, True, uint(0), uint(0), True, state)))


def test_a_message_of_two_gigabytes(router: RunningRouter) -> None:
    """Passes whole and unchanged, and needs no more memory than a session may keep."""
    larger = address_of(router.urls[1])
    with Wire(larger) as at, WindowedWire(larger) as to, ExitStack() as closing:
        receiving, sending = LongReceiver(at), LongSender(to)
        closing.enter_context(receiving.reader)
        before, peak = memory(router), 0
        thread = threading.Thread(target=sending.run, daemon=True)
        thread.start()
        step = 0
        while not receiving.whole:
            receiving.take()
            if receiving.position > step:
                step += 128 * MIB
                peak = max(peak, memory(router))
        assert receiving.position == LENGTH
        receiving.accept()
        thread.join(timeout=LONG)
        assert sending.failed is None
        state = sending.outcome[4]
        assert isinstance(state, Described)
        assert state.descriptor == 0x24
    assert peak - before < WAITING + 32 * MIB
    until(lambda: router.core["live_deliveries"] == 0, "end of the delivery")

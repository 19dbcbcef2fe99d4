"""Peers that make the router write and never read: what waits for them is bounded, and goes on when they read."""

import select
import socket
import struct
import time

import pytest

from tests.support.clients.frame_client import WINDOW, FrameClient
from tests.support.clients.octets import AMQP_HEADER, BEGIN, DETACH, END, said
from tests.support.hostile.verdict import MIB, Verdict
from tests.support.running import LONG, RunningRouter, roles, until

PATIENCE = 2.0  # seconds without progress after which the router does not read
ENOUGH = 60 * MIB  # octets that no router reads whose answers nobody takes
MOST = 12 * MIB  # by which the memory of a worker grows: more than what the engine keeps of answers and links
FREED = 4 * MIB  # of that, which may stay
LONG_NAME = "n" * 12_000


class Deaf(FrameClient):
    """A client that reads nothing for a while, and whose buffer is small."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address)
        self.socket.close()
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(address)
        self.write(AMQP_HEADER + self.opening)
        self.socket.setblocking(False)
        self.times, self.left = 0, b""
        self.counts: dict[int, int] = {}

    def shout(self, octets: bytes) -> None:
        """Writes the same again and again, as long as the router reads."""
        last = time.monotonic()
        while time.monotonic() - last < PATIENCE and self.times * len(octets) < ENOUGH:
            if not self.left:
                self.left, self.times = octets, self.times + 1
            if select.select([], [self.socket], [], 0.1)[1]:
                self.left = self.left[self.socket.send(self.left) :]
                last = time.monotonic()

    def hear(self, code: int, number: int) -> None:
        """Reads until so many frames of a kind have come, and writes the rest meanwhile."""
        end = time.monotonic() + LONG
        while self.counts.get(code, 0) < number:
            reading, writing, _ = select.select([self.socket], [self.socket] * bool(self.left), [], 1)
            if writing:
                self.left = self.left[self.socket.send(self.left) :]
            if reading:
                octets = self.socket.recv(1 << 20)
                assert octets, "the router has ended the connection"
                self.buffer += octets
                self._count()
            assert time.monotonic() < end, f"{self.counts} of {number}"

    def _count(self) -> None:
        at = len(AMQP_HEADER) if self.buffer.startswith(AMQP_HEADER) else 0
        while len(self.buffer) - at >= 8 and len(self.buffer) - at >= (
            size := struct.unpack_from(">I", self.buffer, at)[0]
        ):
            if size > 8:
                code = self.buffer[at + 10]
                self.counts[code] = self.counts.get(code, 0) + 1
            at += size
        self.buffer = self.buffer[at:]


def memory(router: RunningRouter) -> dict[str, int]:
    """Octets of each worker that it shares with nobody."""
    workers = {role: one for role, one in roles(router.process.pid).items() if role.startswith("worker")}
    return {role: process.memory_full_info().uss for role, process in workers.items()}


def beginning(**fields: int) -> bytes:
    return said(BEGIN, 0, next_out=0, in_window=WINDOW, out_window=WINDOW, **fields)


@pytest.mark.parametrize(("what", "answer"), [("sessions", END), ("links", DETACH)])
def test_answers_wait_within_bounds(router: RunningRouter, what: str, answer: int) -> None:
    """The router reads no more; once the peer reads, all is answered, and the worker gives the memory back."""
    with Verdict(router):
        before = memory(router)
        client = Deaf(router.address)
        if what == "sessions":
            pairs, one = 100, beginning() + said(END)
        else:
            client.socket.send(beginning())
            pairs, one = 4, client.attaching("deaf", 0, True, name=LONG_NAME) + said(DETACH, handle=0, closed=True)

        def grown() -> int:
            return max(now - before[role] for role, now in memory(router).items())

        client.shout(one * pairs)
        assert grown() < MOST
        client.hear(answer, client.times * pairs)
        until(lambda: grown() < FREED, "return of the memory")
        client.socket.close()

"""Thousands of connections a second that begin and end at once: all others keep their time, and the log is short.

The same of links, on a few connections: whoever connects, or closes, is answered.
"""

import random
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread

import pytest

from tests.support.clients.frame_client import FrameClient
from tests.support.clients.octets import AMQP_HEADER, CLOSE, DETACH, OPEN, said
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import MIB, Bounds, Verdict
from tests.support.running import RunningRouter

SECONDS = 1.2
BOUNDS = Bounds(stall=0.25, memory=64 * MIB)
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: the end of a connection comes as a reset
OPENING = AMQP_HEADER + said(OPEN, container="storm", hostname="localhost")


CHANCE = random.Random(17)  # noqa: S311 - an attack that is the same in each run


def begun(port: int) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port), timeout=10)
    if CHANCE.random() < 0.5:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    return one


def gone(port: int) -> None:
    begun(port).close()


def framed(port: int) -> None:
    with begun(port) as one, suppress(OSError):
        one.sendall(CHANCE.randbytes(CHANCE.randrange(200)))


def opened(port: int) -> None:
    """Each connection is opened and closed, and its peer waits for nothing."""
    with begun(port) as one, suppress(OSError):
        one.sendall(OPENING + said(CLOSE))


def closed(port: int) -> None:
    """Reads the answers, too."""
    with begun(port) as one, suppress(OSError):
        one.sendall(OPENING)
        one.recv(4096)
        one.sendall(said(CLOSE))
        one.recv(4096)


def asking(port: int) -> None:
    with begun(port) as one, suppress(OSError):
        one.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")


def shaking(port: int, context: ssl.SSLContext) -> None:
    with suppress(OSError), context.wrap_socket(begun(port)) as one:
        one.sendall(OPENING)


ATTACKS: dict[str, Callable[[Target], None]] = {
    "amqp": lambda target: gone(target.amqp),
    "open": lambda target: opened(target.amqp),
    "close": lambda target: closed(target.amqp),
    "tls": lambda target: shaking(target.tls, target.trusting),
    "http": lambda target: asking(target.http),
    "rmr": lambda target: framed(target.rmr),
    "ockam": lambda target: framed(target.ockam),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_storm_of_connections(attacked: RunningRouter, target: Target, attack: str) -> None:
    """Whatever it speaks, bystanders keep their time, and few of its connections have a line."""
    with Verdict(attacked, BOUNDS):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            ATTACKS[attack](target)


# ---- links ----

HEARTBEAT = struct.pack(">IBBH", 8, 2, 0, 0)
STORMS = 8  # connections, several for each worker
LINKS = 50  # of each
# Seconds from a newcomer's connect, or its CLOSE, to the answer. Who is shut out waits for the end of the storm.
ANSWERED = 20.0


def pouring(storm: FrameClient, frames: bytes) -> None:
    with suppress(OSError):
        while True:
            storm.write(frames)


def swallowing(storm: FrameClient) -> None:
    with suppress(OSError):
        while storm.socket.recv(1 << 18):
            pass


@contextmanager
def storm_of_links(address: tuple[str, int]) -> Iterator[None]:
    """Connections that attach and detach without end, and read the answers."""
    with ExitStack() as stack:
        storms = [stack.enter_context(FrameClient(address, f"storm-{number}")) for number in range(STORMS)]
        for number, storm in enumerate(storms):
            storm.begin()
            links = (
                storm.attaching(f"storm.{number}.{n}", n, True) + said(DETACH, handle=n, closed=True)
                for n in range(LINKS)
            )
            for thread in (
                Thread(target=pouring, args=(storm, b"".join(links))),
                Thread(target=swallowing, args=(storm,)),
            ):
                thread.start()
                stack.callback(thread.join)
        for storm in storms:
            stack.callback(storm.socket.shutdown, socket.SHUT_RDWR)
        yield


def test_a_storm_of_links(attacked: RunningRouter, target: Target) -> None:
    """A newcomer is let in, has its link and is let go; so are connections from before the storm."""
    address = ("127.0.0.1", target.amqp)
    with Verdict(attacked, BOUNDS), ExitStack() as stack:
        early = [stack.enter_context(FrameClient(address, f"early-{number}")) for number in range(4)]
        for client in early:
            client.begin()
            client.receiver("early")
        with storm_of_links(address):
            time.sleep(1)
            end = time.monotonic() + SECONDS
            while early or time.monotonic() < end:
                for client in early:
                    client.write(HEARTBEAT)  # who says nothing for some seconds is sent away
                began = time.monotonic()
                with FrameClient(address, "newcomer") as newcomer:
                    newcomer.begin()
                    newcomer.receiver("newcomer")
                    served = time.monotonic()
                    assert served - began < ANSWERED
                    newcomer.close()
                    if early:
                        early.pop().close()
                    assert time.monotonic() - served < ANSWERED

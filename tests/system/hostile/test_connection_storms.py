"""Thousands of connections a second that begin and end at once: all others keep their time, and the log is short."""

import random
import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.support.clients.octets import AMQP_HEADER, CLOSE, OPEN, said
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import MIB, Bounds, Verdict
from tests.support.running import RunningRouter

SECONDS = 3.0
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

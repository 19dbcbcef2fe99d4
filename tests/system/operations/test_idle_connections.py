"""Connections with a link and nothing to do."""

import socket
import struct
from collections.abc import Iterator

import psutil
import pytest
from proton import Described, symbol, uint, ulong

from tests.support.clients.wire import (
    AMQP_HEADER,
    ATTACH,
    OPEN,
    SOURCE,
    TARGET,
    Frame,
    begin,
    described,
    exactly,
    frame,
    parse,
)
from tests.support.running import Configuration, RunningRouter, roles, until

FEW, MANY, AT_ONCE = 300, 600, 100  # the logins of the first leave memory to those of the others, who are fewer at once
MECHANISMS, OUTCOME = 0x40, 0x44
MOST = 24 * 1024  # bytes of each
ENDS = Described(ulong(SOURCE), ["idle"]), Described(ulong(TARGET), ["idle"])
LINK = frame(0, described(ATTACH, "link", uint(0), True, None, None, *ENDS))
LOGIN = described(0x41, symbol("ANONYMOUS"))
SASL = b"AMQP\3\1\0\0" + struct.pack(">IBBH", 8 + len(LOGIN), 2, 1, 0) + LOGIN
WORDS = SASL + AMQP_HEADER + frame(0, described(OPEN, "idle")) + begin(0) + LINK


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(router="workers: 1")


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    made: list[socket.socket] = []
    yield made
    for one in made:
        one.close()


def read_until(one: socket.socket, code: int) -> Frame:
    """Read frames up to one of that kind."""
    while True:
        size = exactly(one, 4)
        got = parse(size + exactly(one, int.from_bytes(size, "big") - 4))
        if got and got.code == code:
            return got


def attach(router: RunningRouter, sockets: list[socket.socket], number: int) -> None:
    """So many connections more, each with a receiver."""
    new = [socket.create_connection(router.address, timeout=30) for _ in range(number)]
    sockets += new
    for one in new:
        one.sendall(WORDS)
    for one in new:
        exactly(one, 8)
        assert b"ANONYMOUS" in read_until(one, MECHANISMS).data, "who does not wait is told them, too"
        read_until(one, OUTCOME)
        exactly(one, 8)
        read_until(one, ATTACH)


def test_an_idle_connection_is_small(router: RunningRouter, sockets: list[socket.socket]) -> None:
    """In its worker: the engine's objects, the lane's, and the handler's; buffers are for those that use them."""
    worker: psutil.Process = next(one for role, one in roles(router.process.pid).items() if role.startswith("worker"))
    attach(router, sockets, FEW)
    before = worker.memory_full_info().uss
    for _ in range(MANY // AT_ONCE):
        attach(router, sockets, AT_ONCE)
    until(lambda: (worker.memory_full_info().uss - before) / MANY < MOST, f"less than {MOST} bytes for each", 10)

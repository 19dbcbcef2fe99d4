"""Clients that mean no good, or are broken: their connection ends, is counted, and nobody else notices."""

import random
import re
import resource
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from proton import Message, symbol, ubyte

from tests.support.beds.bystander import Bystander
from tests.support.clients.wire import AMQP_HEADER, BEGIN, OPEN, described, frame
from tests.support.peer import Net, Peer
from tests.support.running import LONG, Configuration, RunningRouter, roles, until

HANDSHAKE = 2  # seconds that the router gives a client to say OPEN
SILENCE = 5  # and seconds until an open connection that says nothing is closed
SASL_HEADER = b"AMQP\3\1\0\0"
OPENED = AMQP_HEADER + frame(0, described(OPEN, "hostile"))
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """Little patience with clients that say nothing."""
    return Configuration(
        listener=f"host: 127.0.0.1\n port: 0\n initialHandshakeTimeoutSeconds: {HANDSHAKE}\n"
        f" idleTimeoutSeconds: {SILENCE}",
        router="workers: 2",
    )


@pytest.fixture
def failed(router: RunningRouter) -> Callable[[int], None]:
    """Waits until so many more connections than before the test have been counted as failed."""
    before = router.counted("connections_failed")

    def expect(number: int) -> None:
        until(lambda: router.counted("connections_failed") >= before + number, f"{number} failures")
        assert router.counted("connections_failed") == before + number

    return expect


def end_of(net: Net, connection: socket.socket) -> None:
    """Wait until the router ends a connection; who behaves well is served meanwhile."""
    connection.setblocking(False)

    def ended() -> bool:
        try:
            while connection.recv(65536):
                pass
        except BlockingIOError:
            return False
        except ConnectionResetError:
            pass
        return True

    net.until(ended, "end of the connection")


def sasl_frame(performative: bytes) -> bytes:
    return struct.pack(">IBBH", 8 + len(performative), 2, 1, 0) + performative


NOISE = random.Random(7).randbytes(5000)  # noqa: S311 - no secret
CLIENT_HELLO = bytes.fromhex("16030100520100004e0303") + NOISE[:71]

GARBAGE = {
    "noise": NOISE,
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": CLIENT_HELLO,
    "amqp 0-9-1": b"AMQP\0\0\x09\x01",
    "tls header": b"AMQP\2\1\0\0",
    "noise behind the header": AMQP_HEADER + NOISE,
    "noise behind the sasl header": SASL_HEADER + NOISE,
    "unknown sasl mechanism": SASL_HEADER + sasl_frame(described(0x41, symbol("NOPE"), b"")),
    "sasl frame that makes no sense": SASL_HEADER + sasl_frame(described(0x44, ubyte(200))),
    "no open": AMQP_HEADER + frame(0, described(BEGIN, None)),
    "frame shorter than its header": OPENED + struct.pack(">IBBH", 3, 2, 0, 0),
    "data offset behind the frame": OPENED + struct.pack(">IBBH", 8, 200, 0, 0),
    "frame larger than allowed": OPENED + struct.pack(">IBBH", 2**31 - 1, 2, 0, 0) + NOISE,
    "no performative": OPENED + frame(0, NOISE[:40]),  # the engine skips it; then silence is what ends it
    "unknown performative": OPENED + frame(0, described(0x99)),
    "begin on a channel that is not allowed": OPENED + frame(65535, described(BEGIN, None)),
    "transfer without link": OPENED + frame(0, described(0x14, 0)),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_ends_its_own_connection(
    router: RunningRouter, bystander: Bystander, failed: Callable[[int], None], garbage: bytes
) -> None:
    """Whatever it is, and at whatever point of a connection's life."""
    with socket.create_connection(router.address) as connection:
        peer = "{}:{}".format(*connection.getsockname())
        connection.sendall(garbage)
        bystander.goes_on()
        end_of(bystander.net, connection)
    failed(1)
    said = rf" {re.escape(peer)} | ended before it was opened"  # of the latter kind one line a minute
    until(lambda: re.search(said, router.log), "a line of the log that names it")
    bystander.goes_on()


def test_tls_where_none_is_served_is_told_as_that(router: RunningRouter) -> None:
    """Who writes amqps:// for amqp:// hears of an unexpected end of file, so the router's log has to say why."""
    before = len(router.log)
    said = "ended before it was opened: .*: the client speaks TLS, and the listener has no sslProfile"
    with socket.create_connection(router.address) as connection:
        connection.sendall(CLIENT_HELLO)
        until(lambda: re.search(said, router.log[before:]), "a line of the log that says so")


def test_a_flood_of_garbage(router: RunningRouter, bystander: Bystander, failed: Callable[[int], None]) -> None:
    """Two hundred at once, each sending as much as it can: all are ended, no descriptor is lost."""
    until(lambda: router.counted("connections") == 2, "end of earlier connections")
    workers = [p for role, p in roles(router.process.pid).items() if role.startswith("worker")]
    descriptors = [p.num_fds() for p in workers]
    flood = [socket.create_connection(router.address) for _ in range(200)]
    for i, connection in enumerate(flood):
        connection.setblocking(False)
        try:
            for _ in range(20):
                connection.send(OPENED * (i % 2) + NOISE * 10)
        except OSError:
            pass
    bystander.goes_on()
    for connection in flood:
        end_of(bystander.net, connection)
        connection.close()
    failed(len(flood))
    until(
        lambda: all(p.num_fds() <= most for p, most in zip(workers, descriptors, strict=True)),
        "close of the descriptors",
    )
    bystander.goes_on()


def test_half_open_connections(router: RunningRouter, bystander: Bystander, failed: Callable[[int], None]) -> None:
    """Hundreds that say nothing, and some that say it byte by byte, have until the handshake's end."""
    silent = []
    for i in range(300):
        silent.append(socket.create_connection(router.address))
        if i % 50 == 0:
            bystander.goes_on()
    slow = [socket.create_connection(router.address) for _ in range(20)]
    trickle = iter(SASL_HEADER + bytes(10_000))
    end = time.monotonic() + LONG
    while slow and time.monotonic() < end:
        byte = bytes([next(trickle)])
        for connection in list(slow):
            try:
                connection.send(byte)
            except OSError:
                connection.close()
                slow.remove(connection)
        bystander.goes_on()
        time.sleep(0.05)
    assert slow == []
    for connection in silent:
        end_of(bystander.net, connection)
        connection.close()
    failed(320)
    bystander.goes_on()


def test_connections_that_are_dropped_at_once(router: RunningRouter, bystander: Bystander) -> None:
    """Reset before, while and after they say something."""
    for i in range(300):
        connection = socket.create_connection(router.address)
        linger = struct.pack("ii", 1, 0)  # close with RST
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        connection.send(OPENED[: i % (len(OPENED) + 1)])
        connection.close()
        if i % 50 == 0:
            bystander.goes_on()
    until(lambda: router.counted("connections") == 2, "end of the connections")
    bystander.goes_on()


WAITING = 64  # MiB of a sender that the router holds back, in the first session of its connection


def deaf_receiver(net: Net, address: str, credit: int) -> Peer:
    """Asks for messages and never reads them from its socket."""
    peer = net.begin_peer()
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.expect_error = True
    peer.open()
    peer.receiver(address, credit)
    peer.deaf = True
    return peer


def memory(router: RunningRouter) -> int:
    """Bytes that the router's processes have for themselves."""
    processes = [psutil.Process(router.process.pid), *roles(router.process.pid).values()]
    return sum(p.memory_full_info().uss for p in processes)


@pytest.mark.parametrize("size", [100, 10_000, 200_000, 1_000_000])
@pytest.mark.parametrize("settled", [False, True], ids=["unsettled", "presettled"])
def test_receivers_that_never_read(
    router: RunningRouter, net: Net, bystander: Bystander, size: int, settled: bool
) -> None:
    """Their senders come to a halt, or what is settled is dropped; the router does not grow."""
    address = f"deaf.{size}.{settled}"
    deaf = [deaf_receiver(net, address, 100_000) for _ in range(5)]
    sending = net.peer()
    sender = sending.ready_sender(address)
    message = Message(body=bytes(size)).encode()
    bystander.goes_on()
    before = memory(router)
    for _ in range(20):
        while sender.credit > 0 and sending.transport.pending() < MIB:
            net.send(sender, message, settled)
        bystander.goes_on()
    assert memory(router) - before < (WAITING + 16) * MIB
    for peer in [*deaf, sending]:
        peer.drop()
    bystander.goes_on()


@pytest.fixture
def short_of_descriptors(tmp_path: Path) -> Iterator[RunningRouter]:
    """A router whose workers may open a few files only."""
    router = RunningRouter(tmp_path, Configuration(router="workers: 2"))
    try:
        for role, process in roles(router.process.pid).items():
            if role.startswith("worker"):
                resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (process.num_fds() + 10,) * 2)
        yield router
    finally:
        router.kill()


def test_descriptors_run_out(short_of_descriptors: RunningRouter) -> None:
    """Who is connected is served; who comes too late waits; when others have gone, it is let in."""
    router = short_of_descriptors
    with Net(router.address) as net:
        bystander = Bystander(net, "bystander").goes_on()
        crowd = [socket.create_connection(router.address) for _ in range(60)]
        until(lambda: "out of file descriptors" in router.log, "complaint")
        until(lambda: router.counted("accepting") == 0, "end of readiness")
        late = net.begin_peer()
        late.connection.open()
        for _ in range(5):
            bystander.goes_on()
            select.select([], [], [], 0.05)
        assert not late.connection.state & late.connection.REMOTE_ACTIVE
        for connection in crowd:
            connection.close()
        until(lambda: router.counted("accepting") == 2, "readiness")
        late.open()
        bystander.goes_on()
    router.come_to_rest()

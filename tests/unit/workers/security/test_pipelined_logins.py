"""Clients that say more before their login is answered: it waits, is read afterwards, and counts for nobody refused.

AMQP 1.0 parts 2.2 (pipelined open) and 5.3 (SASL).
"""

from __future__ import annotations

import contextlib
import ssl
import struct
from typing import TYPE_CHECKING

import pytest
from proton import symbol, uint

from shm.contract.security import TlsSetup
from shm.statistics.stats import COUNTERS
from tests.support.beds.door import Client, Door
from tests.support.certificates import Authority, Certificate
from tests.support.clients.sasl_frames import CHALLENGE, INIT, MECHANISMS, OUTCOME, RESPONSE, SASL_HEADER, sasl
from tests.support.clients.wire import AMQP_HEADER, ATTACH, BEGIN, CLOSE, OPEN, begin, described, frame

if TYPE_CHECKING:
    from collections.abc import Iterator

OK, AUTH = 0, 1
BYTES_IN = COUNTERS["bytes_in"].place


LOGIN = SASL_HEADER + sasl(INIT, symbol("PLAIN"), b"\0alice\0secret")
BEYOND = b"".join(
    (
        AMQP_HEADER,
        frame(0, described(OPEN, "peer")),
        begin(0),
        frame(0, described(ATTACH, "link", uint(7), True)),
        frame(0, described(CLOSE)),
    )
)
ALL = LOGIN + BEYOND


class Answering:
    """The handler of logins: the test answers them."""

    def __init__(self, door: Door) -> None:
        from workers.loop.pump import Relayer  # noqa: PLC0415 - the engine must be loaded first

        self.asked: list[tuple[tuple[int, int], str, bytes]] = []
        self.relayer = Relayer(door.pump)
        self.relayer.serve(self)
        self.relayer.offer(0, "PLAIN SCRAM-SHA-256")

    @property
    def logins(self) -> Answering:
        return self

    def said(self, client: tuple[int, int], mechanism: str, said: bytes) -> None:
        self.asked.append((client, mechanism, said))

    def left(self, client: tuple[int, int]) -> None:
        """A client has left."""


class Bed:
    """A listener, and clients that come one after the other."""

    def __init__(self, name: str, certificate: Certificate, secured: bool) -> None:
        tls = None
        self.context: ssl.SSLContext | None = None
        if secured:
            tls = TlsSetup("tls", str(certificate.certificate), str(certificate.key), required=True)
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.door = Door(name, tls, "PLAIN SCRAM-SHA-256")
        self.answering = Answering(self.door)

    def client(self) -> Client:
        client = Client(self.door, self.door.dial(), self.context)
        if self.context:
            client.secure()
        return client

    def asked(self) -> tuple[int, int]:
        """Wait for a login, and return whose it is."""
        self.door.until(lambda: bool(self.answering.asked), "a login")
        return self.answering.asked.pop(0)[0]

    def bytes_in(self) -> int:
        return self.door.segments.worker_stats(0).get(BYTES_IN)

    def end(self) -> None:
        self.door.end()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Authority(tmp_path_factory.mktemp("tls")).issue("server", "/CN=localhost")


@pytest.fixture(params=["plain", "tls"])
def bed(request: pytest.FixtureRequest, certificate: Certificate) -> Iterator[Bed]:
    bed = Bed(f"pipelined-{request.param}", certificate, request.param == "tls")
    yield bed
    bed.end()


def admitted(client: Client, *before: int) -> None:
    """The client hears that it is in, and all answers to what it has said."""
    assert client.take(8) == SASL_HEADER
    assert client.frames(MECHANISMS, *before, OUTCOME)[-1][0] == OK
    assert client.take(8) == AMQP_HEADER
    client.frames(OPEN, BEGIN, CLOSE)
    assert client.over() == b""


def refused(client: Client) -> None:
    assert client.take(8) == SASL_HEADER
    assert client.frames(MECHANISMS, OUTCOME)[-1][0] == AUTH
    assert client.over() == b""


def test_a_client_that_says_all_at_once_is_let_in(bed: Bed) -> None:
    client = bed.client()
    client.write(ALL)
    name = bed.asked()
    client.rest(0.05)
    client.step()
    assert client.got[:8] == SASL_HEADER
    bed.answering.relayer.admit(*name, "alice")
    admitted(client)


def test_a_client_that_says_all_at_once_is_refused(bed: Bed) -> None:
    """It hears so, and nothing of what it has said is looked at."""
    client = bed.client()
    client.write(ALL)
    name = bed.asked()
    client.rest(0.05)
    bed.answering.relayer.deny(*name)
    refused(client)
    assert not bed.door.heard


@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_what_is_said_is_cut_anywhere(bed: Bed, right: bool) -> None:
    """The second half comes before the answer."""
    for at in range(1, len(ALL)):
        client = bed.client()
        client.write(ALL[:at], ALL[at:])
        name = bed.asked()
        if right:
            bed.answering.relayer.admit(*name, "alice")
            admitted(client)
        else:
            bed.answering.relayer.deny(*name)
            refused(client)
        client.socket.close()


def test_the_rest_comes_after_the_answer(bed: Bed) -> None:
    """What waited for it ends anywhere: in the header, or in a frame."""
    for at in range(len(LOGIN) + 1, len(ALL)):
        client = bed.client()
        client.write(ALL[:at])
        name = bed.asked()
        bed.answering.relayer.admit(*name, "alice")
        client.step()
        client.write(ALL[at:])
        admitted(client)
        client.socket.close()


def test_octet_by_octet(bed: Bed) -> None:
    client = bed.client()
    client.write(*(ALL[at : at + 1] for at in range(len(ALL) - len(BEYOND))))
    name = bed.asked()
    client.write(*(BEYOND[at : at + 1] for at in range(20)))
    bed.answering.relayer.admit(*name, "alice")
    client.write(*(BEYOND[at : at + 1] for at in range(20, len(BEYOND))))
    admitted(client)


def test_an_exchange_of_several_steps(bed: Bed) -> None:
    """What is behind the response waits for the outcome."""
    client = bed.client()
    client.write(SASL_HEADER + sasl(INIT, symbol("SCRAM-SHA-256"), b"n,,n=alice,r=mine"))
    name = bed.asked()
    bed.answering.relayer.challenge(*name, b"who?")
    client.rest(0.05)
    client.write(sasl(RESPONSE, b"proof") + BEYOND)
    assert bed.asked() == name
    client.rest(0.05)
    bed.answering.relayer.admit(*name, "alice")
    admitted(client, CHALLENGE)


def test_what_waits_is_bounded(bed: Bed) -> None:
    """The socket of a client that goes on is not read, and all of it is answered afterwards."""
    client = bed.client()
    client.write(LOGIN + AMQP_HEADER + frame(0, described(OPEN, "peer")) + begin(0))
    name = bed.asked()
    before = bed.bytes_in()
    more = frame(0, described(ATTACH, "link" * 2000, uint(7), True)) * 64
    with contextlib.suppress(BlockingIOError):
        for _ in range(64):
            client.write(more)
    client.rest(0.1)
    assert bed.bytes_in() - before <= 1 << 17
    bed.answering.relayer.deny(*name)
    bed.door.until(lambda: not bed.door.pump.connections, "its end")


def test_a_client_that_leaves_meanwhile_is_forgotten(bed: Bed) -> None:
    client = bed.client()
    client.write(ALL)
    name = bed.asked()
    client.socket.close()
    bed.answering.relayer.admit(*name, "alice")
    bed.door.until(lambda: not bed.door.pump.connections, "its end")


@pytest.mark.parametrize("behind", [b"AMQP\0\0\x09\1", SASL_HEADER, b"AMQ/"])
def test_a_wrong_header_behind_a_login_ends_the_connection(bed: Bed, behind: bytes) -> None:
    """The answer to the login comes before."""
    client = bed.client()
    client.write(LOGIN + behind + bytes(8))
    name = bed.asked()
    bed.answering.relayer.admit(*name, "alice")
    assert client.take(8) == SASL_HEADER
    assert client.frames(MECHANISMS, OUTCOME)[-1][0] == OK
    client.over()


@pytest.mark.parametrize("behind", [b"GET / HTTP/1.1\r\n", sasl(RESPONSE, b"more"), LOGIN[8:]])
def test_what_is_no_header_waits_for_no_answer(bed: Bed, behind: bytes) -> None:
    """The connection ends at once."""
    client = bed.client()
    client.write(LOGIN + behind)
    client.over()


@pytest.mark.parametrize("pipelined", [True, False], ids=["pipelined", "waiting"])
@pytest.mark.parametrize(
    "behind", [b"\xff" * 100, bytes(1 << 14), frame(0, described(CLOSE))], ids=["octets", "zeros", "close"]
)
def test_the_end_behind_a_login_is_said(bed: Bed, behind: bytes, pipelined: bool) -> None:
    """A CLOSE comes before the end, over TLS, too; there close_notify follows if the client has waited."""
    client = bed.client()
    said = AMQP_HEADER + frame(0, described(OPEN, "peer")) + behind
    client.write(LOGIN + said * pipelined)
    bed.answering.relayer.admit(*bed.asked(), "alice")
    if not pipelined:
        client.rest(0.05)
        client.write(said)
    assert client.take(8) == SASL_HEADER
    client.frames(MECHANISMS, OUTCOME)
    assert client.take(8) == AMQP_HEADER
    client.frames(OPEN, CLOSE)
    assert client.over() == b""
    if bed.context and not pipelined:
        assert client.notified


BAD_OPENS = {
    "garbage": b"\xff" * 100,
    "small": struct.pack(">IBBH", 7, 2, 0, 0),
    "early": begin(0),
    "no text": frame(0, b"\0\x53\x10\xc0\x05\x01\xa1\x02\xff\xfe"),
    "no list": frame(0, b"\0\x53\x10\x40"),
}


@pytest.mark.parametrize("behind", BAD_OPENS.values(), ids=BAD_OPENS)
def test_the_fault_of_an_open_behind_a_login_is_said(bed: Bed, behind: bytes) -> None:
    """The client hears our header, OPEN, and CLOSE with the error (AMQP 1.0 part 2.4.1)."""
    client = bed.client()
    client.write(LOGIN + AMQP_HEADER + behind)
    bed.answering.relayer.admit(*bed.asked(), "alice")
    assert client.take(8) == SASL_HEADER
    client.frames(MECHANISMS, OUTCOME)
    assert client.take(8) == AMQP_HEADER
    said = client.frames(OPEN, CLOSE)
    assert said[1][0] is not None
    assert client.over() == b""


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("behind", BAD_OPENS.values(), ids=BAD_OPENS)
def test_the_fault_of_an_open_behind_a_login_of_the_engine_is_said(behind: bytes, ends: bool) -> None:
    """So it is where the engine answers the login itself, and if the client says no more."""
    door = Door("pipelined-engine", None, "ANONYMOUS")
    client = Client(door, door.dial())
    client.socket.sendall(SASL_HEADER + sasl(INIT, symbol("ANONYMOUS"), b"") + AMQP_HEADER + behind)
    if ends:
        client.finish()
    assert client.take(8) == SASL_HEADER
    client.frames(MECHANISMS, OUTCOME)
    assert client.take(8) == AMQP_HEADER
    said = client.frames(OPEN, CLOSE)
    assert said[1][0] is not None
    assert client.over() == b""
    door.end()

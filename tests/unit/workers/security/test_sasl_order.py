"""Frames that are out of order in a login, or no frames of one, fail it and nothing else.

AMQP 1.0 part 5.3. Whoever answers: the AMQP engine, or this router for Cyrus SASL and authentication services.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest
from proton import symbol, ubyte

from shm.contract.payloads import ConnectorState
from tests.support.beds.door import Client, Door
from tests.support.beds.stand import Stand
from tests.support.clients.sasl_frames import CHALLENGE, INIT, MECHANISMS, OUTCOME, RESPONSE, SASL_HEADER, sasl
from tests.support.clients.wire import AMQP_HEADER, BEGIN, OPEN, described, frame

if TYPE_CHECKING:
    from collections.abc import Iterator

AUTH = 1
OPENING = AMQP_HEADER + frame(0, described(OPEN, "peer"))


class Silent:
    """The handler of logins: it answers none."""

    def __init__(self, door: Door) -> None:
        from workers.loop.pump import Relayer  # noqa: PLC0415 - the engine must be loaded first

        self.asked = 0
        self.relayer = Relayer(door.pump)
        self.relayer.serve(self)
        self.relayer.offer(0, "ANONYMOUS PLAIN")

    @property
    def logins(self) -> Silent:
        return self

    def said(self, client: tuple[int, int], mechanism: str, said: bytes) -> None:
        self.asked += 1

    def left(self, client: tuple[int, int]) -> None:
        """A client has left."""


@pytest.fixture(params=["", "ANONYMOUS"], ids=["any mechanism", "one mechanism"])
def mechanisms(request: pytest.FixtureRequest) -> str:
    """Those that the listener allows; empty: all that there are."""
    return str(request.param)


@pytest.fixture(params=["engine", "router"])
def door(request: pytest.FixtureRequest, mechanisms: str) -> Iterator[Door]:
    """A listener, whose logins the engine answers or this router."""
    door = Door(f"order-{request.param}-{mechanisms}", None, mechanisms)
    silent = Silent(door) if request.param == "router" else None
    yield door
    door.end()
    assert not (silent and silent.asked)


WRONG = {
    "response": sasl(RESPONSE, b"x"),
    "empty response": sasl(RESPONSE),
    "mechanism is text": sasl(INIT, "ANONYMOUS", b""),
    "mechanism is a list": sasl(INIT, [symbol("PLAIN")], b"\0alice\0secret"),
    "mechanism is a number": sasl(INIT, ubyte(7), b""),
    "mechanism is null": sasl(INIT, None, b""),
    "nothing": sasl(INIT),
    "open": frame(0, described(OPEN, "peer")) + frame(0, described(BEGIN, None, 0, 1, 1)),
    "mechanisms": sasl(MECHANISMS, symbol("PLAIN")),
    "outcome": sasl(OUTCOME, ubyte(0)),
    "another number": sasl(0x45),
    "no number": struct.pack(">IBBH", 20, 2, 1, 0) + b"\0\xa3\x08amqp:sas\x45",
}


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "pipelined"])
@pytest.mark.parametrize("said", WRONG.values(), ids=WRONG)
def test_a_client_that_has_not_begun_is_refused(door: Door, said: bytes, waits: bool) -> None:
    """It hears so, and the next client is served."""
    client = Client(door, door.dial())
    if waits:
        client.write(SASL_HEADER)
        assert client.take(8) == SASL_HEADER
        client.frames(MECHANISMS)
        client.write(said)
        outcome = client.frames(OUTCOME)[-1]
    else:
        client.write(SASL_HEADER + said + OPENING)
        assert client.take(8) == SASL_HEADER
        outcome = client.frames(MECHANISMS, OUTCOME)[-1]
    assert outcome[0] == AUTH
    client.over()
    assert not door.heard
    after = Client(door, door.dial())
    after.write(SASL_HEADER)
    assert after.take(8) == SASL_HEADER
    after.frames(MECHANISMS)


@pytest.mark.parametrize("pieces", [1, 2])
def test_what_a_refused_client_says_behind_its_login_is_forgotten(door: Door, pieces: int) -> None:
    """It hears that it is refused, and the core never hears of it, in one read or in several before the answer."""
    client = Client(door, door.dial())
    words = sasl(INIT, symbol("X-NONE"), b"\0alice\0secret") + OPENING
    if pieces == 1:
        client.write(SASL_HEADER + words)
    else:
        client.write(SASL_HEADER)
        client.write(words)
    assert client.take(8) == SASL_HEADER
    assert client.frames(MECHANISMS, OUTCOME)[-1][0] == AUTH
    assert client.over() == b""
    assert not door.heard


@pytest.mark.parametrize("mechanisms", [""])
def test_a_second_init_is_refused(door: Door) -> None:
    """The engine would lose the memory of the first one."""
    client = Client(door, door.dial())
    begun = sasl(INIT, symbol("SCRAM-SHA-256"), b"n,,n=alice,r=abcdef")
    client.write(SASL_HEADER + begun * 3)
    assert client.take(8) == SASL_HEADER
    assert client.all_until(OUTCOME)[-1][1][0] == AUTH
    client.over()


FROM_SERVERS = {
    "open": frame(0, described(OPEN, "server")),
    "outcome": sasl(OUTCOME, ubyte(0)),
    "challenge": sasl(CHALLENGE, b"x"),
    "init": sasl(INIT, symbol("PLAIN"), b""),
    "mechanisms twice": sasl(MECHANISMS, symbol("ANONYMOUS")) * 2,
}


@pytest.mark.parametrize("said", FROM_SERVERS.values(), ids=FROM_SERVERS)
def test_a_server_that_is_out_of_order_is_left(said: bytes) -> None:
    """A connector's connection ends, and the core hears of an attempt that has failed."""
    stand = Stand("order-dialled")
    listening = socket.create_server(("127.0.0.1", 0))
    stand.connect(listening.getsockname()[1])
    stand.turn(0.0)
    server = Client(stand, listening.accept()[0], serves=True)
    server.write(SASL_HEADER + said)
    server.over()
    first, second = stand.hear(ConnectorState, 2)
    assert first.message == ""
    assert second.message.endswith("the server's SASL frames are out of order")
    assert {first.status, second.status} == {"CONNECTING"}
    assert not stand.heard
    stand.end()
    listening.close()

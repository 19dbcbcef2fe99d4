"""A SASL frame that the router relays has at most 512 octets, whoever sends it (AMQP 1.0 part 5.3.1)."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest
from proton import symbol

from shm.contract.control import ConnectorSetup
from shm.contract.security import ServiceSetup
from tests.support.beds.door import Client, Door
from tests.support.clients.sasl_frames import CHALLENGE, INIT, MECHANISMS, OUTCOME, RESPONSE, SASL_HEADER, sasl
from workers.control.listeners import terms

if TYPE_CHECKING:
    from collections.abc import Iterator

AUTH, SYS_TEMP = 1, 4
MOST = 512
SHORT = b"x"


def sized(size: int, code: int, *fields: object) -> bytes:
    """A frame whose last field is filled so that it has this size."""
    longest = b"x" * size
    over = len(sasl(code, *fields, longest)) - size
    return sasl(code, *fields, longest[over:])


class Service:
    """A listener, a client of it, and the service that judges it; the test speaks for both."""

    def __init__(self, realm: str = "") -> None:
        from workers.loop.pump import Dialler, Relayer  # noqa: PLC0415 - the engine must be loaded first

        self.door = Door("sizes", None, "")
        self.relayer = Relayer(self.door.pump)
        self.relayer.serve(self)
        self.relayer.relay(0, True)
        self.place = Dialler(self.door.pump).add_place(*terms(ConnectorSetup("service", 7, [])))
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.setup = ServiceSetup("service", "127.0.0.1", "0", realm)
        self.names: list[tuple[int, int]] = []
        self.ends: list[str] = []
        self.client = Client(self.door, self.door.dial())
        self.client.write(SASL_HEADER)
        self.door.until(lambda: bool(self.names), "a client")
        dialled = socket.create_connection(self.listening.getsockname())
        dialled.setblocking(False)
        assert self.relayer.dial(self.place, dialled.detach(), self.names[0], self.setup, "me", {})
        self.service = Client(self.door, self.listening.accept()[0], serves=True)
        self.service.write(SASL_HEADER + sasl(MECHANISMS, symbol("X-STEPS")))
        for one in (self.client, self.service):
            assert one.take(8) == SASL_HEADER
        self.client.frames(MECHANISMS)

    @property
    def logins(self) -> Service:
        return self

    def wanted(self, client: tuple[int, int], listener: int) -> None:
        self.names.append(client)

    def left(self, client: tuple[int, int]) -> None:
        """The client has left."""

    def ended(self, name: tuple[int, int], decided: bool, faulty: bool, why: str, error: object) -> None:
        self.ends.append(why)

    def asked(self, size: int) -> None:
        """The service gets a frame of that size."""
        octets = self.service.take(4)
        assert struct.unpack(">I", octets)[0] == size
        self.service.take(size - 4)

    def refused(self, code: int) -> None:
        """The client hears so, and the service nothing more."""
        assert self.client.frames(OUTCOME)[0][0] == code
        self.client.over()
        assert self.service.over() == b""

    def end(self) -> None:
        self.door.end()
        self.listening.close()


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.end()


def test_the_largest_frames_pass(service: Service) -> None:
    client, judge = service.client, service.service
    client.write(sized(MOST, INIT, symbol("X-STEPS")))
    service.asked(MOST)
    for _ in range(2):
        judge.write(sized(MOST, CHALLENGE))
        assert struct.unpack(">I", client.take(MOST)[:4])[0] == MOST
        client.write(sized(MOST, RESPONSE))
        service.asked(MOST)


@pytest.mark.parametrize("there", [8, MOST + 1])
def test_a_clients_larger_frame_is_refused_as_soon_as_it_begins(service: Service, there: int) -> None:
    service.client.write(sized(MOST + 1, INIT, symbol("X-STEPS"))[:there])
    service.refused(AUTH)


def test_a_clients_larger_response_is_refused(service: Service) -> None:
    service.client.write(sasl(INIT, symbol("X-STEPS"), SHORT))
    service.service.frames(INIT)
    service.service.write(sasl(CHALLENGE, SHORT))
    service.client.frames(CHALLENGE)
    service.client.write(sized(MOST + 1, RESPONSE)[:8])
    service.refused(AUTH)


def test_a_services_larger_frame_is_refused_as_soon_as_it_begins(service: Service) -> None:
    service.client.write(sasl(INIT, symbol("X-STEPS"), SHORT))
    service.service.frames(INIT)
    service.service.write(sized(MOST + 1, CHALLENGE)[:8])
    service.refused(SYS_TEMP)


@pytest.mark.parametrize(("more", "passes"), [(0, True), (1, False)])
def test_the_realm_counts(more: int, passes: bool) -> None:
    """The router says it in each init, and the client does not: an init that would be too large with it is refused."""
    realm = "the-realm"
    service = Service(realm)
    size = MOST - len(sasl(INIT, symbol("X"), SHORT, realm)) + len(sasl(INIT, symbol("X"), SHORT))
    service.client.write(sized(size + more, INIT, symbol("X-STEPS")))
    if passes:
        service.asked(MOST)
    else:
        service.refused(AUTH)
    service.end()

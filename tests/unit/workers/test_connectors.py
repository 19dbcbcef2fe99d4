"""A worker's connectors, without sockets of peers: what is dialled when, and what is said of it."""

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from shm.contract import peer_address
from shm.contract.control import ConnectorSetup
from shm.contract.payloads import LONGEST, ConnectorState, record
from shm.contract.security import TlsSetup
from workers.control.connectors import Connectors
from workers.control.lookup import Lookup
from workers.control.tls import CertificateError


class Found:
    """A lookup that ends when it is told to."""

    def __init__(self, host: str, port: str, family: str) -> None:
        self.asked = host, port, family
        self.addresses: list[Any] = []
        self.error = ""
        self.done = False


class World:
    """All that connectors deal with: ``said`` is what was told of each, ``dialled_hosts`` where they went."""

    def __init__(self) -> None:
        self.now = 100.0
        self.lookups: list[Found] = []
        self.dialled_hosts: list[tuple[int, str, str, str]] = []
        self.said: list[ConnectorState] = []
        self.hung_up: list[tuple[int, int]] = []
        self.removed: list[int] = []
        self.costs: list[tuple[tuple[int, int], int]] = []
        self.room = True
        self.broken_certificate = False
        self.sockets: list[int] = []
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.connectors = Connectors(self, self, self, self, lambda: self.now, self.look_up)  # type: ignore[arg-type]  # a Found is as good as a Lookup

    def look_up(self, *asked: str) -> Found:
        self.lookups.append(Found(*asked))
        return self.lookups[-1]

    def resolve(self, *addresses: tuple[str, int], error: str = "") -> None:
        self.lookups[-1].addresses = [(socket.AF_INET, address) for address in addresses]
        self.lookups[-1].error, self.lookups[-1].done = error, True
        self.connectors.step()

    def connect(self, *attributes: ConnectorSetup) -> None:
        self.connectors.change(attributes)
        self.connectors.step()

    # workers.loop.pump.Dialler

    def add_place(self, *_: Any) -> int:
        return 3

    def remove_place(self, place: int) -> None:
        self.removed.append(place)

    def dial(self, place: int, fd: int, hostname: str, user: str, password: str) -> tuple[int, int] | None:
        if not self.room:
            return None
        self.sockets.append(fd)
        self.dialled_hosts.append((place, hostname, user, password))
        return len(self.dialled_hosts), 1

    def end_round(self) -> None:
        pass

    # workers.control.handler.Handler

    def dialled(self, name: tuple[int, int], connector: ConnectorSetup, host: str) -> int:
        return 40 + name[0]

    def hang_up(self, name: tuple[int, int], _: tuple[str, str]) -> None:
        self.hung_up.append(name)

    def connector_cost(self, name: tuple[int, int], connector: ConnectorSetup) -> None:
        self.costs.append((name, connector.cost))

    def connector_state(self, state: ConnectorState) -> None:
        self.said.append(state)

    # workers.control.guard.Guard

    def protect(self, _: int, __: ConnectorSetup) -> None:
        if self.broken_certificate:
            raise CertificateError("sslProfile p: caCertFile: cannot be read")

    def certificates_due(self, _: int) -> None:
        pass


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(peer_address, "_refusals", {})  # clients of tests in this process have dialled here
    world = World()
    yield world
    world.listening.close()
    for fd in world.sockets:
        os.close(fd)


def setup(number: int = 1, *hosts: str, **more: Any) -> ConnectorSetup:
    return ConnectorSetup(f"c{number}", number, list(hosts or ("far:77",)), **more)


def test_a_name_is_looked_up_before_anything_is_dialled(world: World) -> None:
    """Without waiting: the worker looks again soon, and a name that nobody knows is tried again later."""
    world.connect(setup())
    assert world.lookups[0].asked == ("far", "77", "")
    assert not world.dialled_hosts
    assert world.connectors.wait(1.0) < 0.1
    world.resolve(error="host far is not known: no such name")
    assert world.said[-1].status == "CONNECTING"
    assert "Connection to far:77 failed: host far is not known" in world.said[-1].message
    assert world.connectors.wait(60.0) == 5.0


def test_a_peer_cannot_say_more_than_the_core_can_be_told(world: World) -> None:
    """Neither in its OPEN nor in an error: a state too long for the core ended the worker."""
    world.connect(setup())
    world.resolve(("127.0.0.1", world.port))
    world.connectors.opened(1, (1, 1), {}, f"container_id={'c' * LONGEST}")
    assert len(record(world.said[-1])[1]) < LONGEST
    world.connectors.ended(1, (1, 1), True, ("amqp:connection:forced", "d" * LONGEST))
    assert len(record(world.said[-1])[1]) < LONGEST


def test_an_opened_connection_is_told(world: World) -> None:
    """With its number and what is known of it; user and password went into it."""
    world.connect(setup(sasl_username="u", sasl_password="pass:secret"))  # noqa: S106 - of this test
    world.resolve(("127.0.0.1", world.port))
    assert world.dialled_hosts == [(3, "far", "u", "secret")]
    world.connectors.opened(1, (1, 1), {}, "host=far:77")
    assert world.said[-1] == ConnectorState(
        "c1", "SUCCESS", "[C41] Connection Opened: dir=out host=far:77", ["amqp://far:77"]
    )
    assert world.connectors.wait(60.0) == 60.0
    world.connectors.ended(1, (1, 1), True, None)
    assert world.connectors.wait(60.0) == 2.0
    assert world.said[-1].message == "[C41] Connection to far:77 failed: closed by the peer"


def test_every_address_of_a_host_is_tried_before_it_has_failed(world: World) -> None:
    """A refused password is no matter of the address."""
    world.connect(setup())
    world.resolve(("127.0.0.1", world.port), ("127.0.0.1", world.port), ("127.0.0.1", world.port))
    world.connectors.ended(1, (1, 1), False, ("proton:io", "Connection refused"))
    assert len(world.dialled_hosts) == 2
    world.connectors.ended(1, (2, 1), False, ("amqp:unauthorized-access", "Authentication failed"))
    assert len(world.dialled_hosts) == 2
    assert "Authentication failed" in world.said[-1].message


def test_an_address_that_fails_at_once_is_not_the_last(world: World) -> None:
    """Such as one of a family that this machine has no route for: the next attempt met it first again."""
    multicast = ("224.0.0.1", world.port)  # no stream leads there
    world.connect(setup())
    world.resolve(multicast, multicast, ("127.0.0.1", world.port))
    assert len(world.dialled_hosts) == 1
    world.connect(setup(2))
    world.resolve(multicast)
    assert "Connection to far:77 failed: [Errno 101] Network is unreachable" in world.said[-1].message


def test_what_is_said_of_another_connection_does_not_count(world: World) -> None:
    """A connector that was changed has a new one; its old one may still end."""
    world.connect(setup())
    world.resolve(("127.0.0.1", world.port))
    world.connect(setup(idle_timeout_seconds=4))
    assert world.hung_up == [(1, 1)]
    assert world.removed == [3]
    world.resolve(("127.0.0.1", world.port))
    before = list(world.said)
    world.connectors.ended(1, (1, 1), True, ("amqp:connection:forced", "changed"))
    world.connectors.opened(1, (1, 1), {}, "")
    world.connectors.opened(9, (1, 1), {}, "")
    assert world.said == before


def test_another_cost_leaves_the_connection_open(world: World) -> None:
    """The core is told; without a connection the next one is told of it."""
    world.connect(setup())
    world.connect(setup(cost=4))
    assert not world.costs
    world.resolve(("127.0.0.1", world.port))
    world.connect(setup(cost=7))
    assert world.costs == [((1, 1), 7)]
    assert world.hung_up == []


def test_one_that_is_the_same_stays_as_it_is(world: World) -> None:
    world.connect(setup(1), setup(2))
    world.resolve(("127.0.0.1", world.port))
    world.connect(setup(2))
    assert world.hung_up == []  # the first one was still looking for its host
    assert len(world.dialled_hosts) == 1
    assert len(world.lookups) == 2


@pytest.mark.parametrize("broken", ["certificate", "password", "room"])
def test_what_cannot_be_dialled_is_told_and_tried_again(
    world: World, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing goes out unprotected, and no socket is left."""
    world.broken_certificate = broken == "certificate"
    world.room = broken != "room"
    password = "env:ROUTERD_NOT_THERE" if broken == "password" else ""
    world.connect(setup(tls=TlsSetup("p", client=True), sasl_password=password))
    if broken != "certificate":
        world.resolve(("127.0.0.1", world.port))
    assert not world.dialled_hosts
    why = {"certificate": "caCertFile", "password": "ROUTERD_NOT_THERE", "room": "no room"}[broken]
    assert why in world.said[-1].message
    assert ("SSL CA configuration failed for connector c1 to " in caplog.text) is world.broken_certificate
    assert world.connectors.wait(60.0) == 5.0


def test_a_password_that_cannot_be_read(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The peer is not asked without it, and the log says why."""
    world.connect(setup(sasl_username="u", sasl_password="file:/no/such", sasl_mechanisms="PLAIN"))  # noqa: S106 - there is none
    world.resolve(("127.0.0.1", world.port))
    assert not world.dialled_hosts
    assert "c1: Unable to open password file /no/such, error: No such file or directory" in caplog.text


def test_a_worker_that_stops_dials_nobody(world: World) -> None:
    world.connectors.change([setup()])
    world.connectors.stop()
    world.connectors.step()
    assert not world.lookups
    assert world.connectors.wait(60.0) == 60.0


def test_a_worker_that_stops_dials_no_other_address_either(world: World) -> None:
    """It would wait in vain for its last connection to end."""
    world.connect(setup())
    world.resolve(("127.0.0.1", world.port), ("127.0.0.1", world.port))
    world.connectors.stop()
    world.connectors.ended(1, (1, 1), False, ("proton:io", "Connection refused"))
    assert len(world.dialled_hosts) == 1


def test_a_new_core_is_told_of_all(world: World) -> None:
    world.connect(setup(1), setup(2))
    world.said.clear()
    world.connectors.tell()
    assert [state.name for state in world.said] == ["c1", "c2"]


def test_a_new_core_is_told_of_a_connector_that_makes_no_connection(world: World, monkeypatch: Any) -> None:
    """It is gone with its entity, and only then."""

    def full(*_: Any) -> int:
        raise ValueError("no place")

    monkeypatch.setattr(world, "add_place", full)
    world.connect(setup(1))
    failed = ConnectorState("c1", "FAILED", "no place", ["far:77"])
    assert world.said == [failed]
    world.connectors.tell()
    assert world.said == [failed, failed]
    world.connect()
    world.connectors.tell()
    assert world.said[2:] == [ConnectorState("c1", "GONE")]


@pytest.mark.parametrize(
    ("host", "verify", "why", "advised"),
    [
        ("127.0.0.1", True, "SSL routines::certificate verify failed", "trusts, and have 127.0.0.1 as an address"),
        ("127.0.0.1", False, "SSL routines::certificate verify failed", "of an authority that sslProfile p trusts"),
        ("here.example", True, "SSL routines::certificate verify failed", "trusts, and have here.example as a name"),
        ("127.0.0.1", True, "Connection refused", "Connection refused"),
    ],
)
def test_what_a_certificate_must_have_is_told(
    world: World, caplog: pytest.LogCaptureFixture, host: str, verify: bool, why: str, advised: str
) -> None:
    """Where that may be what is wrong; each attempt has its line in qdrouterd's words."""
    caplog.set_level("INFO", "SERVER")
    world.connect(setup(1, f"{host}:5671", tls=TlsSetup("p", client=True, verify=verify)))
    world.resolve(("127.0.0.1", world.port))
    world.connectors.ended(1, (1, 1), False, ("amqp:connection:framing-error", why))
    assert world.said[-1].message.endswith(advised)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert any(line.startswith(f"[C41] Connection to {host}:") and why in line for line in lines), lines


def test_an_address_needs_no_thread() -> None:
    """It is there at once; a family that it is not of is an error in the end."""
    assert Lookup("127.0.0.1", "80").addresses == [(socket.AF_INET, ("127.0.0.1", 80))]
    assert Lookup("::1", "80").done

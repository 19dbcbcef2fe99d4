"""What a change of the configuration tells each process, and in which order."""

import socket
from collections.abc import Iterator

import msgspec
import pytest

from routerd.config import Listener, Router
from routerd.machine.listeners import Listening
from routerd.translate.setup import Blueprint
from shm.contract.control import (
    AddressSetup,
    ChangeAddresses,
    SetListeners,
    SetPolicy,
    SetRouting,
    SetSourceRoutes,
    SetTables,
)
from shm.contract.roles import Role
from shm.contract.routing import AutoLinkSetup, Routing
from shm.contract.security import PolicySetup
from shm.contract.source_routes import SourceRoutesSetup
from shm.contract.tables import TableSetup

FORMER = Blueprint(Router(id="me"), "0", (), (-1,))


@pytest.fixture
def new() -> Iterator[Blueprint]:
    """A listener comes with the table that it needs, another policy and other source routes."""
    with socket.socket() as sock:
        listening = Listening(Listener(name="rmr", protocol="rmr", table="ric", port="4560"), [sock], 1)
        yield msgspec.structs.replace(
            FORMER,
            listening=(listening,),
            tables=[TableSetup("ric", "rt")],
            policy=PolicySetup(max_connections=9),
            source_routes=SourceRoutesSetup(hops=3),
            routing=Routing(auto_links=[AutoLinkSetup("1", "a", incoming=False, phase=0)]),
            addresses=[AddressSetup(prefix="a")],
        )


def told(role: Role, new: Blueprint) -> list[type[msgspec.Struct]]:
    return [type(message) for message, _ in new.news(role, 0, FORMER)]


def test_listeners_come_last(new: Blueprint) -> None:
    """A worker accepts nobody before it knows the policy, tables and source routes that go with the listener."""
    assert told(Role.WORKER, new) == [SetPolicy, SetTables, SetSourceRoutes, SetListeners]


def test_addresses_come_first(new: Blueprint) -> None:
    """The core resolves auto links by them."""
    assert told(Role.CORE, new) == [ChangeAddresses, SetPolicy, SetTables, SetSourceRoutes, SetRouting]

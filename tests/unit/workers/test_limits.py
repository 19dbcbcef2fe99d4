"""The largest number that the configuration takes of each attribute reaches the pump's C types."""

from collections.abc import Iterator
from typing import Any

import pytest

from routerd.config.entities.attribute import Attribute
from routerd.config.entities.policy import Policy, Vhost
from routerd.config.entities.router import Router
from routerd.config.entities.schema import TYPE_OF, USER_GROUP, EntityType
from routerd.config.entities.transport import Connector, Listener
from routerd.machine.listeners import Listening
from routerd.translate.connectors import Connecting
from routerd.translate.security import policy_setup
from routerd.translate.setup import Blueprint
from shm.contract.control import ConnectorSetup, Setup
from shm.contract.roles import Role
from tests.support.beds.door import Door
from workers.control.listeners import terms

MAX_LISTENERS = 512  # of the pump, connectors included
ANY = (1 << 63) - 1  # of an integer without a maximum


def integers(type_: EntityType) -> Any:
    """Run a test with each number of an entity that somebody sets."""
    found = [one for one in type_.attributes.values() if one.kind == "integer" and one.create]
    return pytest.mark.parametrize("attribute", found, ids=lambda one: str(one.name))


def largest(attribute: Attribute) -> int:
    return ANY if attribute.maximum is None else attribute.maximum


def setup(**more: Any) -> Setup:
    return Blueprint(Router(), "0", **{"listening": (), "doorbells": (-1,)} | more).setup(
        Role.WORKER, 0, 1, [], "/none"
    )


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    door = Door("limits", None)
    yield door
    door.end()


@integers(TYPE_OF[Listener])
def test_a_listener_with_the_largest_number(door: Door, attribute: Attribute) -> None:
    listener = Listener(**{attribute.field: largest(attribute)})
    (one,) = setup(listening=(Listening(listener, []),)).listeners
    door.pump.change_listener(0, *terms(one))


@integers(TYPE_OF[Connector])
def test_a_connector_with_the_largest_number(door: Door, attribute: Attribute) -> None:
    """The worker makes its connections."""
    connector = Connector(**{attribute.field: largest(attribute)})
    door.connectors.change(setup(connecting=(Connecting(connector, 1, 0),)).connectors)
    assert not door.connectors._refused
    door.connectors.change([])


def let_in(door: Door, policy: Policy, vhost: Vhost) -> None:
    guard = door.handler.guard
    guard.set_policy(policy_setup(policy, [vhost]))
    with door.dial():
        door.until(lambda: door.pump.connections == 1, "a client")
        guard.enter(0, door.registry.listeners[0], "any", "me", "PLAIN", "127.0.0.1:1")
    door.until(lambda: door.pump.connections == 0, "its end")


@integers(USER_GROUP)
def test_a_user_group_with_the_largest_number(door: Door, attribute: Attribute) -> None:
    """Its users are let in."""
    groups: dict[str, object] = {"$default": {"remoteHosts": "*", attribute.name: largest(attribute)}}
    let_in(door, Policy(enable_vhost_policy=True), Vhost(hostname="$default", allow_unknown_user=True, groups=groups))


@integers(TYPE_OF[Policy])
def test_a_policy_with_the_largest_number(door: Door, attribute: Attribute) -> None:
    let_in(door, Policy(**{attribute.field: largest(attribute)}), Vhost(hostname="any"))


def test_a_number_that_is_too_large_all_the_same(door: Door) -> None:
    """It is an error like others of a listener, and leaves the former terms."""
    with pytest.raises(ValueError, match="too large"):
        door.pump.change_listener(0, 1 << 40, 16384, 100, 60_000, 60_000, 50, 64, 64, False, "ANONYMOUS")


def test_a_connector_whose_settings_are_refused(door: Door) -> None:
    """It takes no place away, however often it is configured."""
    fits = terms(ConnectorSetup("c", 1, ["127.0.0.1:1"]))
    dialler = door.connectors._dialler
    for _ in range(MAX_LISTENERS):
        with pytest.raises(ValueError, match="longer than 255 characters"):
            dialler.add_place(*fits[:-1], "PLAIN " * 43)
    dialler.remove_place(dialler.add_place(*fits))

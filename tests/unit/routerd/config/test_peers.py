"""Roles, failover lists and open properties of listeners and connectors."""

import re

import pytest

from core.interior.linkstate import LARGEST_COST
from routerd.config import ConfigError, parse
from routerd.config.entities.schema import ENTITY_TYPES
from routerd.config.entities.transport import MAX_SESSIONS, failover_places
from routerd.machine.listeners import Listening
from routerd.translate.setup import Blueprint
from shm.contract.control import ListenerSetup


def told(text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        parse(text, "f.conf")
    return "\n".join(m.text for m in refused.value.mistakes if not m.warning)


def listener_setup(attributes: str) -> ListenerSetup:
    """What a worker is told of a listener with these attributes."""
    config = parse(f"router {{\n id: A\n}}\nlistener {{\n port: 0\n {attributes}\n}}\n", "f.conf")
    blueprint = Blueprint(config.router, "0", [Listening(one, []) for one in config.listeners], [])
    (setup,) = blueprint.setup("worker", 0, 1, [], "/none").listeners
    return setup


NARROWER = [
    (one.short_name, attribute.name, int(said[2]), -1 if said[1] == "least" else 1)
    for one in ENTITY_TYPES
    for attribute in one.attributes.values()
    if attribute.kind == "integer" and "rounded" not in attribute.description
    if (said := re.search(r"at (least|most) (\d+)", attribute.description))
]


@pytest.mark.parametrize(("entity", "attribute", "bound", "beyond"), NARROWER)
def test_a_number_that_does_not_count_is_told(entity: str, attribute: str, bound: int, beyond: int) -> None:
    """Wherever an attribute's description has a bound that its values need not keep."""
    text = "listener {{\n}}\n{} {{\n host: h\n port: 1\n {}: {}\n}}\n"
    assert parse(text.format(entity, attribute, bound), "f.conf").warnings == ()
    (warning,) = parse(text.format(entity, attribute, bound + beyond), "f.conf").warnings
    assert warning.line == 6
    assert f"{attribute}: {bound} counts in place of {bound + beyond}" in warning.text


def test_such_numbers_are_found() -> None:
    assert {(entity, attribute) for entity, attribute, *_ in NARROWER} >= {("listener", "maxFrameSize")}


@pytest.mark.parametrize("entity", ["listener", "connector"])
def test_a_cost_that_other_routers_would_not_believe_is_refused(entity: str) -> None:
    """They ignore the greeting or the link state with it."""
    head = f"router {{\n mode: interior\n}}\n{entity} {{\n host: h\n port: 1\n role: inter-router\n cost: "
    parse(f"{head}{LARGEST_COST}\n}}\n", "f.conf")
    why = told(f"{head}{LARGEST_COST + 1}\n}}\n")
    assert why.endswith(f"cost: {LARGEST_COST + 1} is out of range; give a whole number from 1 to {LARGEST_COST}")


@pytest.mark.parametrize(
    ("mode", "entity", "role", "why"),
    [
        ("standalone", "listener", "edge", "role='standalone' not allowed to connect to or accept"),
        ("standalone", "connector", "inter-router", "role='standalone' not allowed to connect to or accept"),
        ("edge", "listener", "edge", "role='edge' only allowed with router mode='interior'"),
        ("edge", "listener", "inter-router", "role='inter-router' only allowed with router mode='interior'"),
        ("edge", "connector", "inter-router", "role='inter-router' only allowed with router mode='interior'"),
    ],
)
def test_a_role_must_fit_the_mode(mode: str, entity: str, role: str, why: str) -> None:
    text = told(f"router {{\n mode: {mode}\n}}\n{entity} {{\n port: 1\n role: {role}\n}}\n")
    assert why in text
    assert ("standalone is the router's mode" in text) == (mode == "standalone")


@pytest.mark.parametrize(
    ("mode", "entity", "role"),
    [("interior", "listener", "edge"), ("interior", "connector", "inter-router"), ("edge", "connector", "edge")],
)
def test_roles_that_fit(mode: str, entity: str, role: str) -> None:
    parse(f"router {{\n mode: {mode}\n}}\n{entity} {{\n port: 1\n role: {role}\n}}\n", "f.conf")


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", []),
        ("a", [{"network-host": "a", "port": "5672"}]),
        (
            "a:1, amqps://b:amqps",
            [{"network-host": "a", "port": "1"}, {"scheme": "amqps", "network-host": "b", "port": "amqps"}],
        ),
        ("amqp://[::1]:7", [{"scheme": "amqp", "network-host": "::1", "port": "7"}]),
    ],
)
def test_failover_places(text: str, places: list[dict[str, str]]) -> None:
    assert failover_places(text) == places


@pytest.mark.parametrize("text", ["http://a", "a b", "a:1:2", "amqp://", "@"])
def test_what_is_no_place_is_told(text: str) -> None:
    assert "is not an address of a router; give host:port" in told(
        f"listener {{\n port: 1\n failoverUrls: {text}\n}}\n"
    )


@pytest.mark.parametrize("port", ["nosuchservice", "0", "65536", "99999999999999999999"])
@pytest.mark.parametrize("entity", ["listener", "connector"])
def test_a_port_that_no_router_has_is_told(entity: str, port: str) -> None:
    """A connector's was looked up only for its worker's set-up, and ended the router."""
    found = told(f"{entity} {{\n port: 1\n failoverUrls: a, b:{port}\n}}\n")
    assert f"failoverUrls: 'b:{port}' names no port; give one from 1 to 65535, or a service name such as amqp" in found


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("{ 9: 1 }", "Expecting property name"),
        ("{ null: null }", "Expecting property name"),
        ("[1, 2]", "Properties must be a map"),
        ("words", "Properties must be a map"),
        ('{ "\u2588": 1 }', "Property keys must be ASCII encoded"),
        ('{ "product": 1 }', "Reserved key 'product' not allowed in openProperties"),
        ('{ "qd.x": 1 }', "Reserved key 'qd.x' not allowed in openProperties"),
        ('{ "x-opt-qd.x": 1 }', "Reserved key 'x-opt-qd.x' not allowed in openProperties"),
        ('{ "scheme": 1 }', "Reserved key 'scheme' not allowed in openProperties"),
        ('{ "a": 9223372036854775808 }', "9223372036854775808 does not fit 64 bits; give a smaller number"),
        ('{ "a": [{ "b": -99999999999999999999 }] }', "-99999999999999999999 does not fit 64 bits"),
        ('{ "a": "\\ud800" }', "this text in quotes has half a character, '\\ud800'; give a whole one"),
    ],
)
def test_open_properties_that_are_refused(value: str, why: str) -> None:
    assert why in told(f"listener {{\n port: 1\n openProperties: {value}\n}}\n")


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_the_largest_numbers_of_open_properties(number: int) -> None:
    """They are AMQP longs."""
    assert listener_setup(f'openProperties: {{"a": {number}}}').open_properties == {"a": number}


def test_routers_get_no_open_properties() -> None:
    text = 'router {\n mode: interior\n}\nconnector {\n role: edge\n openProperties: {"a": 1}\n}\n'
    assert "openProperties not allowed for role edge" in told(text)


def test_open_properties_and_failover_list_reach_the_worker() -> None:
    setup = listener_setup('openProperties: {"a": [1, null]}\n failoverUrls: b:1')
    assert setup.open_properties == {"a": [1, None]}
    assert setup.failover == [{"network-host": "b", "port": "1"}]


@pytest.mark.parametrize(
    ("given", "sessions"), [("0", MAX_SESSIONS), ("500000", MAX_SESSIONS), ("10", 10), ("32768", 32768)]
)
def test_sessions_without_a_limit_have_the_engines(given: str, sessions: int) -> None:
    assert listener_setup(f"maxSessions: {given}").max_sessions == sessions


def test_a_frame_is_never_smaller_than_the_protocol_has_it() -> None:
    assert listener_setup("maxFrameSize: 2").max_frame_size == 512

"""What OPEN says, and what follows from what the peer says there."""

from typing import Any

import msgspec
import pytest

from shm.contract.control import ConnectorSetup, ListenerSetup
from shm.contract.payloads import ConnectionOpened
from workers.control.opening import MAP, NONE, SECTION, SKUPPER, Form, Terms, form_of, introduced, open_properties


def connector(**attributes: object) -> ConnectorSetup:
    return ConnectorSetup("c", 1, ["h:1"], **attributes)  # type: ignore[arg-type]  # a test's shorthand


@pytest.mark.parametrize(
    ("peer", "form"),
    [
        ({"product": "qpid-dispatch-router", "qd.annotations-version": 1}, MAP),
        ({"product": "skupper-router", "qd.annotations-version": 2}, SKUPPER),
        ({"product": "routerd", "qd.annotations-version": 1}, SECTION),
        ({"product": "routerd", "qd.annotations-version": 3}, SECTION),
        ({"product": "routerd"}, MAP),
        ({"product": "routerd", "qd.annotations-version": "1"}, MAP),
        ({"product": 7}, MAP),
        ({}, MAP),
    ],
)
@pytest.mark.parametrize("role", ["inter-router", "edge"])
def test_between_routers_the_product_chooses_the_form(role: str, peer: dict[str, object], form: int) -> None:
    """Nothing is stripped there, whatever stripAnnotations says."""
    assert form_of(connector(role=role), peer) == Form(form, False, False)


@pytest.mark.parametrize(
    ("strip", "form"),
    [
        ("both", Form(NONE, True, True)),
        ("in", Form(MAP, True, False)),
        ("out", Form(MAP, False, True)),
        ("no", Form(MAP, False, False)),
    ],
)
def test_for_clients_and_brokers_strip_annotations_counts(strip: str, form: Form) -> None:
    """The product does not."""
    listener = ListenerSetup("l", [], strip_annotations=strip)
    assert form_of(listener, {"product": "routerd", "qd.annotations-version": 1}) == form


@pytest.mark.parametrize(("name", "form"), [("none", NONE), ("map", MAP), ("section", SECTION), ("skupper", SKUPPER)])
def test_a_form_can_be_forced(name: str, form: int) -> None:
    """Whoever the peer says it is."""
    forced = connector(role="inter-router", annotations=name)
    assert form_of(forced, {"product": "skupper-router"}) == Form(form, False, False)
    assert form_of(connector(annotations=name, strip_annotations="in"), {}) == Form(form, True, False)


def test_routers_are_reported_cost_and_version_and_others_what_is_configured() -> None:
    """The cost only when it is no matter of course."""
    ours = {"product": "routerd", "version": "1.0", "qd.conn-id": 8}
    assert open_properties(connector(role="inter-router", cost=5), "1.0", 8) == ours | {
        "qd.inter-router-cost": 5,
        "qd.annotations-version": 1,
    }
    assert open_properties(connector(role="edge", cost=5), "1.0", 8) == ours | {"qd.annotations-version": 1}
    plain = connector(open_properties={"mine": [1]}, cost=5)
    assert open_properties(plain, "1.0", 8) == ours | {"mine": [1]}
    place = [{"network-host": "h", "port": "1"}]
    listener = ListenerSetup("l", [], failover=place)
    assert open_properties(listener, "1.0", 8) == ours | {"failover-server-list": place}


OUTSIDE = ListenerSetup("outside", [], url="amqps://0.0.0.0:5671")
UNNAMED = msgspec.structs.replace(OUTSIDE, name="")


@pytest.mark.parametrize(
    ("terms", "said", "text"),
    [
        (UNNAMED, {"user": "anonymous", "sasl": "ANONYMOUS", "authenticated": True}, ", listener amqps://0.0.0.0:5671"),
        (OUTSIDE, {"login": "al\nice"}, r", user 'al\nice', listener outside"),
        (
            OUTSIDE,
            {"login": "CN=e", "tls_protocol": "TLSv1.3", "role": "edge"},
            ", user 'CN=e', TLSv1.3, role edge, listener outside",
        ),
        (connector(), {"user": "ours", "role": "route-container"}, ", role route-container"),
    ],
)
def test_the_log_says_who_has_come_in_by_which_door(terms: Terms, said: dict[str, Any], text: str) -> None:
    """But no user whom nobody has proved, and not as whom the router itself logged in."""
    assert introduced(ConnectionOpened(1, 1, "c", "h:1", **said), terms) == text

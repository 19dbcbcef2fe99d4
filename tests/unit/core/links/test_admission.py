"""Vhost policy in the core: counting over all workers, and rights to addresses."""

import logging

import pytest
from msgspec.structs import replace

from core.addresses.addresses import Identity
from core.amqp import codec as wire
from core.links.admission import Admissions
from core.links.rights import LONGEST_TOLD, AddressRights, Rights, Scopes
from shm.contract.complaints import LINE_BURST
from shm.contract.payloads import Attach, ConnectionOpened, Termini, Terminus
from shm.contract.security import Admission
from shm.contract.spelling import strip_spelling


def admission(**more: object) -> Admission:
    flags = dict.fromkeys((name for name in Admission.__struct_fields__ if name.startswith("allow_")), False)
    limits = {"max_connections": 3, "max_connections_per_user": 2, "max_connections_per_host": 3}
    links = {"max_senders": 1, "max_receivers": 1, "source_patterns": [], "target_patterns": []}
    names = {"vhost": "v", "group": "g", "user": "u", "host": "h", "sources": ["in"], "targets": ["out"]}
    fields: dict[str, object] = {**flags, **limits, **links, **names}
    return Admission(**{**fields, **more})  # type: ignore[arg-type]  # from keyword to field


def opened(connection: int, **more: object) -> ConnectionOpened:
    return ConnectionOpened(connection, 1, "c", "h:1", admission=admission(**more))


def enter(admissions: Admissions, worker: int, connection: int, **more: object) -> bool:
    return admissions.enter((worker, connection), opened(connection, **more), 0) is None


def test_limits_hold_over_all_workers() -> None:
    """By user, by host, and in all; whoever leaves makes room."""
    it = Admissions(100)
    assert enter(it, 0, 0)
    assert enter(it, 1, 0)
    assert not enter(it, 2, 0)  # the user's third
    assert enter(it, 2, 1, user="w")
    assert not enter(it, 2, 2, user="x", host="i")  # the vhost's fourth
    it.leave((1, 0))
    assert not enter(it, 0, 3, user="x", max_connections_per_host=2)  # the host's third
    assert enter(it, 0, 3)
    counts = it.vhosts["v"]
    assert (counts.current, counts.approved, counts.denied) == (3, 4, 3)


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("", "vhost v has 1 connection, which is the limit (maxConnections)"),
        ("_per_user", "user 'u' has 1 connection to vhost v, which is the limit (maxConnectionsPerUser)"),
        ("_per_host", "host h has 1 connection to vhost v, which is the limit (maxConnectionsPerHost)"),
    ],
)
def test_a_limit_is_told_with_its_attribute(caplog: pytest.LogCaptureFixture, limit: str, text: str) -> None:
    caplog.set_level(logging.INFO)
    it = Admissions(100)
    assert enter(it, 0, 0)
    assert not enter(it, 0, 1, **{f"max_connections{limit}": 1})
    assert caplog.messages == [f"connection from h:1 denied: {text}"]


def test_the_router_has_a_limit_of_its_own() -> None:
    it = Admissions(2)
    free = ConnectionOpened(0, 1, "c", "h:1")
    assert it.enter((0, 0), free, 1) is None
    assert it.enter((0, 1), free, 2) is not None
    assert not it.was_denied((0, 1), 2)  # another connection in that place
    assert it.was_denied((0, 1), 1)
    assert not it.was_denied((0, 1), 1)
    it.set_limit(3)
    assert it.enter((0, 2), free, 2) is None


def test_a_dead_worker_takes_its_connections_along() -> None:
    it = Admissions(100)
    assert enter(it, 0, 0)
    assert enter(it, 1, 0)
    assert not enter(it, 0, 1)
    it.forget_worker(0)
    assert not it.was_denied((0, 1), 1)
    assert it.vhosts["v"].current == 1
    assert dict(it.vhosts["v"].users) == {"u": 1}
    assert it.guarded((0, 0)) is None
    assert it.guarded((1, 0)) is not None


def test_who_leaves_is_told_of_with_the_denials_of_its_vhost(caplog: pytest.LogCaptureFixture) -> None:
    it = Admissions(100)
    assert enter(it, 0, 0)
    guarded = it.guarded((0, 0))
    assert guarded is not None
    guarded.denied(outgoing=True)
    guarded.denied(outgoing=False)
    with caplog.at_level(logging.DEBUG, "POLICY"):
        it.leave((0, 0))
    assert caplog.messages == [
        "connection of h:1 (user 'u', vhost v) closed; its vhost: senders_denied=1, receivers_denied=1"
    ]


def attach(address: str | None, *, outgoing: bool = True, **more: object) -> Attach:
    return Attach(0, 1, 0, "l", outgoing, address, **more)  # type: ignore[arg-type]  # from keyword to field


@pytest.mark.parametrize(
    ("link", "allowed"),
    [
        (attach("in"), True),
        (attach("out"), False),
        (attach("out", outgoing=False), True),
        (attach("in", outgoing=False), False),
        (attach(None, outgoing=False), False),
        (attach(None, dynamic=True), False),
        (attach(None), True),  # the core refuses it for what it is
        (attach("in", capabilities=["qd.waypoint.1"]), False),
        (attach("in", capabilities=["qd.fallback"]), False),
        (attach(None, outgoing=False, coordinator=True), False),
    ],
)
def test_what_a_link_may_be(link: Attach, allowed: bool) -> None:
    assert (Rights(admission()).refusal(link) is None) is allowed


def node(outgoing: bool, properties: bytes) -> Termini:
    one = Terminus(kind=1, dynamic=True, properties=properties)
    return Termini(one, Terminus()) if outgoing else Termini(Terminus(), one)


NAME = wire.symbol("x-opt-qd.address")


@pytest.mark.parametrize("outgoing", [True, False])
@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(
    ("address", "properties", "allowed"),
    [
        ("ok", b"", True),
        ("secret", b"", False),
        (None, wire.mapping([(NAME, wire.string("ok"))]), True),
        (None, wire.mapping([(NAME, wire.string("secret"))]), False),
        (None, wire.mapping([(NAME, wire.symbol("secret"))]), False),
        (None, wire.mapping([(NAME, b"\xa0\x06secret")]), False),
        ("ok", wire.mapping([(NAME, wire.string("secret"))]), False),
        ("ok", wire.mapping([(NAME, wire.string("ok")), (NAME, wire.string("secret"))]), False),
        ("ok", b"\xff", False),
        ("ok", wire.string("no map"), False),
        ("ok", wire.mapping([(wire.symbol("lifetime-policy"), wire.section(0x2B, wire.sequence([])))]), True),
    ],
)
def test_every_address_that_a_terminus_names_is_judged(
    outgoing: bool, dynamic: bool, address: str | None, properties: bytes, allowed: bool
) -> None:
    """Its own and its node's, dynamic or not; what cannot be read is not allowed, as it may say anything."""
    rights = Rights(admission(sources=["ok"], targets=["ok"], allow_dynamic_source=True))
    link = attach(address, outgoing=outgoing, dynamic=dynamic, termini=node(outgoing, properties))
    assert (rights.refusal(link) is None) is allowed
    if dynamic:
        still = Rights(admission(sources=["ok"], targets=["ok"]))
        assert still.refusal(link) is not None


@pytest.mark.parametrize(
    ("address", "told"),
    [("ok.not", "'ok.not'"), ("a\n\x1b[2Jb", "'a\\n\\x1b[2Jb'"), ("x" * 5000, "'" + "x" * 97 + "...'")],
)
@pytest.mark.parametrize("outgoing", [True, False])
def test_a_denial_names_the_address(outgoing: bool, address: str, told: str) -> None:
    """In one line, and no more of it than a line can bear: a peer chose it."""
    error = Rights(admission(sources=["ok"], targets=["ok"])).refusal(attach(address, outgoing=outgoing))
    assert error is not None
    kind = "source" if outgoing else "target"
    assert error.description == f"the {kind} address {told} is not allowed by the policy"


@pytest.mark.parametrize(
    "right",
    [
        {"allow_anonymous_sender": True},
        {"targets": ["$coordinator"]},
        {"targets": ["*"]},
        {"targets": [], "target_patterns": ["#"]},
    ],
)
def test_who_may_use_a_transaction_coordinator(right: dict[str, object]) -> None:
    assert Rights(admission(**right)).refusal(attach(None, outgoing=False, coordinator=True)) is None


@pytest.mark.parametrize(("outgoing", "address"), [(True, "in"), (False, "out")])
def test_links_are_counted_by_direction(outgoing: bool, address: str) -> None:
    """As many as the policy says; one that has gone makes room, those of the other direction take none."""
    it = Admissions(100)
    assert enter(it, 0, 0, max_senders=2, max_receivers=2)
    guarded = it.guarded((0, 0))
    assert guarded is not None
    told = []
    for number in (1, 1, -1):
        guarded.attached(not outgoing, 1)
        guarded.attached(outgoing, number)
        told.append(guarded.refusal(attach(address, outgoing=outgoing)) is None)
    assert told == [True, False, True]


def test_what_is_granted_is_allowed() -> None:
    rights = Rights(
        admission(
            allow_dynamic_source=True, allow_anonymous_sender=True, allow_waypoint_links=True, allow_fallback_links=True
        )
    )
    for link in (
        attach(None, outgoing=False),
        attach(None, dynamic=True),
        attach("in", capabilities=["qd.waypoint"]),
        attach("in", capabilities=["qd.fallback"]),
    ):
        assert rights.refusal(link) is None


def test_links_are_counted_by_kind() -> None:
    it = Admissions(100)
    enter(it, 0, 0)
    guarded = it.guarded((0, 0))
    assert guarded is not None
    guarded.attached(True, 1)
    refusal = guarded.refusal(attach("in"))
    assert refusal is not None
    assert refusal[0].condition == "amqp:resource-limit-exceeded"
    assert guarded.refusal(attach("out", outgoing=False)) is None
    guarded.attached(True, -1)
    assert guarded.refusal(attach("in")) is None


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("a", True),
        ("amqp:/a", True),
        ("/a", True),
        ("amqp://host/a", True),
        ("aa", False),
        ("amqp://a/b", False),
        ("temp.1", True),
        ("/temp.1", True),
        ("tem", False),
        ("p.x.q", True),
        ("p/x/q", True),
        ("p.x.y.q", False),
        ("", False),
    ],
)
def test_names_beginnings_and_patterns(address: str, allowed: bool) -> None:
    """An address is what it means, however it is spelt."""
    assert AddressRights(["a", "temp*"], ["p.*.q"]).allow(address) is allowed


@pytest.mark.parametrize(
    ("address", "listed"),
    [
        ("_local/a", True),
        ("/_local/a", True),
        ("_local/b", False),
        ("_topo/0/all/x", True),
        ("_topo/0/R/x", False),
        ("_edge/E/x", True),
        ("_$temp.x", False),
        ("anything", False),
    ],
)
def test_what_is_of_routers_is_listed_by_its_name(address: str, listed: bool) -> None:
    """A star, the beginning of a word and a pattern for everything are about a tenant's own addresses."""
    rights = AddressRights(["*", "_*", "_local*", "_local/a", "_topo/0/all/*"], ["#", "*.x", "_edge.#"])
    assert rights.allow(address)
    assert rights.lists(address) is listed


MADE = "temp.0123456789ABCd+"
ME = Identity("R")


@pytest.mark.parametrize(
    ("address", "sends", "receives"),
    [
        ("orders", True, True),
        ("$management", True, True),
        ("_local", True, True),
        ("_topo", True, True),
        ("_local/x", False, False),
        ("amqp://h/_local/x", False, False),
        ("_topo/0/all/x", False, False),
        ("_topo/0/R/$management", False, False),
        ("_topo/9/R", False, False),
        ("_edge/E/x", False, False),
        ("_$temp.x", False, False),
        (f"amqp:/_topo/0/R/{MADE}", True, False),
        (f"_topo/0/other/{MADE}", True, False),
        (f"_edge/E/{MADE}", True, False),
        (f"_${MADE}", True, False),
        (f"_local/{MADE}", False, False),
        (f"_topo/0/all/{MADE}x", False, False),
        (f"_topo/0/a/b/{MADE}", False, False),
        (f"_topo/0/R/{MADE}\n", False, False),
    ],
)
def test_what_a_tenant_may_name(address: str, sends: bool, receives: bool) -> None:
    """Its own addresses, and to send to what a router has made up; other addresses of routers are listed."""
    links = (attach(address, outgoing=False), attach(address, outgoing=True))
    of_tenant, free = (replace(opened(0), tenant=tenant, admission=None) for tenant in ("t", ""))
    it = Admissions(9, ME)
    assert [it.refusal(None, link, of_tenant) is None for link in links] == [sends, receives]
    assert [it.refusal(None, link, free) for link in links] == [None, None]
    assert it.scopes.allow(it.scopes.enter(None, "t"), address) is sends
    assert it.scopes.allow(it.scopes.enter(AddressRights(["*"], []), "t"), address) is sends
    assert it.scopes.allow(it.scopes.enter(AddressRights(["*", strip_spelling(address)], []), "t"), address)
    assert it.scopes.allow(it.scopes.enter(None), address)


@pytest.mark.parametrize(
    ("address", "properties", "allowed"),
    [
        (None, wire.mapping([(NAME, wire.string("q"))]), True),
        ("q", wire.mapping([(NAME, wire.string("q"))]), False),
        (None, wire.mapping([(NAME, wire.string("q")), (wire.symbol("more"), b"\x52\x01")]), False),
        (None, b"\xff", False),
    ],
)
def test_a_broker_is_shown_no_address_without_its_tenant(address: str | None, properties: bytes, allowed: bool) -> None:
    """Where the router cannot put the tenant in front of all that a terminus names, the link is refused."""
    termini = replace(node(True, properties), source=Terminus(1, address, properties=properties))
    link = attach(address, dynamic=True, termini=termini)
    of_tenant = replace(opened(0), tenant="t", admission=None)
    assert (Admissions(9, ME).refusal(None, link, of_tenant) is None) is allowed


def test_a_star_is_everything_and_nothing_is_nothing() -> None:
    assert AddressRights(["*"], []).allow("any.thing")
    assert AddressRights([], ["#"]).allow("any.thing")
    assert not AddressRights([], []).allow("any.thing")


def test_a_scope_is_shared_while_used_and_its_number_never_again() -> None:
    """Otherwise the forwarder would take what it knows of one for another."""
    scopes = Scopes(Identity("me"))
    one = scopes.enter(AddressRights(["out"], []))
    assert scopes.enter(AddressRights(["out"], [])) == one
    other = scopes.enter(AddressRights(["x"], []))
    assert other != one
    assert scopes.allow(one, "out")
    assert not scopes.allow(other, "out")
    assert scopes.allow(0, "whatever")
    scopes.leave(one)
    assert scopes.allow(one, "out")
    scopes.leave(one)
    assert not scopes.allow(one, "out")
    assert scopes.enter(AddressRights(["out"], [])) not in (one, other)
    assert len(scopes) == 2


def test_denied_messages_are_told_of_but_not_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    """A short line for each address, within a bound that no client gets around by attaching again."""
    caplog.set_level(logging.INFO, "POLICY")
    scopes = Scopes(Identity("me"))
    for link in range(LINE_BURST):
        number = scopes.enter(AddressRights(["out"], []))
        assert scopes.allow(number, "out")
        assert not any(scopes.allow(number, f"secret.{link}.{i}\n" + "x" * 500) for i in range(LINE_BURST))
        scopes.leave(number)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == LINE_BURST
    assert lines[0].startswith("messages of anonymous senders to 'secret.0.0\\nxxx")
    assert max(map(len, lines)) < 2 * LONGEST_TOLD

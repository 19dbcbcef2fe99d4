"""Attacks on what docs/security.md promises, on each kind of link and at each kind of listener.

All of them are refused. An attack that is missing here is a promise that nobody has tried.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from proton import Message, symbol

from tests.support.clients.websocket import WebSocket, ask
from tests.support.doors import LISTENERS, NOT_ALLOWED, TOO_MANY, User, attach, configured, node, outcome
from tests.support.peer import REJECTED, Net, Peer, error_of, is_closed, is_open
from tests.support.running import Configuration, RunningRouter, address_of, needs_users, until
from tests.support.servers.broker import Broker

DOORS = ["normal", "edge", "tenant", "web"]  # by which clients come in


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    return configured(tmp_path_factory.mktemp("sasl"))


@pytest.fixture(autouse=True)
def broker(net: Net, router: RunningRouter) -> Broker:
    """What link routes lead to."""
    until(lambda: router.core["connections_admitted"] == 0, "end of earlier connections")
    (broker := Broker(net, address_of(router.urls[1])).open()).round_trip()
    return broker


Enter = Callable[..., Peer]


@pytest.fixture
def enter(net: Net, router: RunningRouter) -> Enter:
    """A client comes in by a door, for a vhost."""

    def enter(vhost: str, door: str = "normal", container: str = "", user: str = "", opens: bool = True) -> Peer:
        if door == "web":
            found = re.search(r"http://127.0.0.1:(\d+)", router.output)
            assert found is not None
            place = "127.0.0.1", int(found[1])
            sock, _ = ask(place)
            peer = Peer(net, WebSocket(sock, 0), hostname=vhost)
            net.peers.append(peer)
        else:
            place = address_of(router.urls[list(LISTENERS).index(door)])
            peer = User(net, place, hostname=vhost, user=user) if user else Peer(net, place, hostname=vhost)
            net.peers.append(peer)
        if container:
            peer.connection.container = container
        return peer.open() if opens else peer

    return enter


# What a terminus may say that names a forbidden address: all kinds of links, routed and not.
NAMES: list[dict[str, Any]] = [
    {"address": "secret"},
    {"address": "lr.secret"},
    {"address": "lr.secret", "dynamic": True},
    {"address": "secret", "dynamic": True},
    {"dynamic": True, "node": node("lr.secret")},
    {"dynamic": True, "node": node(symbol("lr.secret"))},
    {"dynamic": True, "node": node(b"lr.secret")},
    {"address": "lr.pub", "dynamic": True, "node": node("lr.secret")},
    {"address": "lr.pub", "node": node("lr.secret")},
    {"address": "pub", "node": node("/lr.secret")},
]


@pytest.mark.parametrize("door", DOORS)
def test_a_forbidden_address_however_a_terminus_names_it(net: Net, enter: Enter, broker: Broker, door: str) -> None:
    """By its address or by its node's, dynamic or not, for senders and receivers, link-routed or not."""
    peer = enter("tight", door)
    links = [(sends, name, attach(peer, sends, **name)) for name in NAMES for sends in (True, False)]
    assert [(sends, name) for sends, name, link in links if outcome(net, link) != NOT_ALLOWED] == []
    assert broker.attached == [], "the broker has heard of none of them"


def test_an_allowed_address_may_be_named_so(net: Net, enter: Enter, broker: Broker) -> None:
    """What the policy lists is reached by each of these ways; dynamic ones need allowDynamicSource, too."""
    dynamic = [{"address": "lr.pub", "dynamic": True}, {"dynamic": True, "node": node("lr.pub")}]
    peer, still = enter("tight"), enter("still")
    for name in [{"address": "lr.pub"}, *dynamic]:
        for sends in (True, False):
            attach(peer, sends, **name)
    net.until(lambda: len(broker.attached) == 6, "attaches at the broker")
    refused = [attach(still, sends, **name) for name in dynamic for sends in (True, False)]
    assert [outcome(net, link) for link in refused] == [NOT_ALLOWED] * 4


@pytest.mark.parametrize("door", DOORS)
def test_a_coordinator_of_transactions(net: Net, enter: Enter, broker: Broker, door: str) -> None:
    """Only who may send to $coordinator, or anonymously, gets as far as the broker."""
    assert outcome(net, enter("tight", door).coordinator()) == NOT_ALLOWED
    assert broker.attached == []
    for vhost in ("loose", "transacted"):
        link = enter(vhost, door).coordinator()
        net.until(lambda: is_open(link) and link.credit, "coordinator")  # noqa: B023 - used at once
    assert len(broker.attached) == 2


def speaking(user: bytes, size: int = 1, front: int = 0) -> bytes:
    """A message in somebody's name, with so many octets of annotations in front."""
    message = Message(body="x" * size, user_id=user)
    if front:
        message.annotations = {symbol("x-opt-much"): "x" * front}
    return message.encode()


FOREIGN = {
    "short": speaking(b"admin"),
    "long": speaking(b"admin", 300_000),
    "late": speaking(b"admin", 300_000, 100_000),  # the properties lie behind the first block
    "named": speaking(b"admin").replace(b"\x00\x53\x73", b"\x00\xa3\x14amqp:properties:list"),
    "hidden": b"\x00\x53\x72\xa1\x04nope" + speaking(b"admin"),
    "symbolic": speaking(b"admin").replace(b"\x00\x53\x73", b"\x00\xa3\x14amqp:properties:list"),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_foreign_user_id(net: Net, enter: Enter, broker: Broker, door: str) -> None:
    """On a routed link as on others, in one frame or in many, and in a transaction: it reaches no broker."""
    peer, other = enter("tight", door), enter("tight", "normal" if door == "edge" else door)
    for address in ("lr.pub", "pub"):
        reader = other.receiver("pub", 10)
        sender = peer.ready_sender(address)
        for data in FOREIGN.values():
            sent = net.stream(sender, data)
            assert net.settled(sent) == [REJECTED]
        net.tags += 1
        sent = sender.delivery(f"tag-{net.tags}")
        sent.local.data = [b"txn-1"]
        sent.update(0x34)
        sender.stream(FOREIGN["short"])
        sender.advance()
        net.until(lambda: sent.settled, "settlement")  # noqa: B023 - used at once
        assert (sent.remote_state, error_of(sent)[0]) == (REJECTED, NOT_ALLOWED)
        for own in (b"anonymous", b""):
            net.stream(sender, speaking(own, 100_000))
        arrived = broker.take(broker.taken(), 2) if address == "lr.pub" else other.take(reader, 2)
        assert [one.message.user_id for one in arrived] == [b"anonymous", b""]
        for one in arrived:
            one.settle()
        reader.close()
        net.until(lambda: is_closed(reader), "detach")  # noqa: B023 - used at once


def test_who_may_speak_for_others_does(net: Net, enter: Enter, broker: Broker) -> None:
    """allowUserIdProxy; and what the router cannot read goes through, as it is the broker's business."""
    sender = enter("still").ready_sender("lr.pub")
    for data in FOREIGN.values():
        net.stream(sender, data)
        (arrived,) = broker.take(broker.taken())
        assert bytes(arrived.data) == data


@needs_users
def test_a_strangers_name_opens_nothing(net: Net, enter: Enter) -> None:
    """A stranger is called anonymous and has nothing of its own; a user has its own, and nobody else's."""
    stranger, alice = enter("own"), enter("own", user="alice")
    for sends in (True, False):
        assert outcome(net, attach(stranger, sends, "u_anonymous")) == NOT_ALLOWED
        assert outcome(net, attach(stranger, sends, "u_")) == NOT_ALLOWED
        assert outcome(net, attach(alice, sends, "u_alice")) == ""
        assert outcome(net, attach(alice, sends, "u_bob")) == NOT_ALLOWED


@pytest.mark.parametrize("door", DOORS)
def test_what_a_group_does_not_list(net: Net, enter: Enter, door: str) -> None:
    """Neither an anonymous sender nor a dynamic terminus, a waypoint's link or a fallback's."""
    still, bare = enter("still", door), enter("bare", door)
    links = [attach(still, True), *(attach(still, sends, dynamic=True) for sends in (True, False))]
    for capability in ("qd.waypoint", "qd.waypoint.3", "qd.fallback"):
        links += [attach(bare, sends, "pub", capability=capability) for sends in (True, False)]
    assert {outcome(net, link) for link in links} == {NOT_ALLOWED}


ELSEWHERE = ["secret", "/secret", "amqp:/secret", "amqp://pub/secret", "secret.", "pub/../secret", "PUB", "lr.secret"]
ELSEWHERE += ["$management", "_local/$management", "_topo/0/all/pub", "_edge/another/pub", "_$temp.x"]


@pytest.mark.parametrize("door", DOORS)
def test_messages_of_an_anonymous_sender(net: Net, enter: Enter, door: str) -> None:
    """Each is judged by its own address, however that is spelt."""
    sender = enter("loose", door).ready_sender(None)
    sent = [net.send(sender, Message(address=address, body="x")) for address in ELSEWHERE]
    assert set(net.settled(*sent)) == {REJECTED}
    assert {error_of(one)[0] for one in sent} == {NOT_ALLOWED}


@pytest.mark.parametrize("door", DOORS)
def test_limits(net: Net, enter: Enter, broker: Broker, door: str) -> None:
    """Of links, of connections and of the size of a message, also on a link that is routed to a broker."""
    peer = enter("small", door)
    peer.expect_error = True
    peer.receiver("pub")
    sender = peer.ready_sender("lr.pub")
    for sends in (True, False):
        assert outcome(net, attach(peer, sends, "pub")) == TOO_MANY
    second = enter("small", door, opens=False)
    second.expect_error = True
    second.connection.open()
    net.until(lambda: second.connection.remote_condition, "CLOSE")
    assert second.connection.remote_condition.name == TOO_MANY
    sent = net.send(sender, Message(body="x" * 1000))
    net.until(lambda: peer.connection.remote_condition, "CLOSE")
    assert peer.connection.remote_condition.name == "amqp:connection:forced"
    assert (sent.remote_state, error_of(sent)[0]) == (REJECTED, "amqp:link:message-size-exceeded")
    assert broker.inbox(broker.taken()) == []


AGENTS = ["$management", "_local/$management", "/_local/agent", "amqp:/_topo/0/{}/$management"]


@pytest.mark.parametrize("door", ["normal", "edge", "web"])
def test_management(net: Net, router: RunningRouter, enter: Enter, door: str) -> None:
    """Who may nothing attaches to no agent; who reads receives from none, and changes nothing."""
    nothing, reads = enter("manages", door), enter("reads", door)
    for address in AGENTS:
        agent = address.format(router.id)
        links = [attach(nothing, False, agent), attach(reads, False, agent)]
        if door != "edge":  # edge routers ask for link routes there, and for nothing else
            links.append(attach(nothing, True, agent))
        assert {outcome(net, link) for link in links} <= {NOT_ALLOWED, "amqp:not-allowed"}, agent
    asked = {"operation": "CREATE", "type": "org.apache.qpid.dispatch.address", "name": f"by.{door}"}
    for peer in (nothing, reads):
        asker = enter("all")
        answers = asker.receiver(None, 1)
        request = Message(
            address="$management",
            reply_to=answers.remote_source.address,
            properties=asked,
            body={"prefix": f"by.{door}", "distribution": "closest"},
        )
        net.send(peer.ready_sender(None), request)
        assert asker.take(answers)[0].message.properties["statusCode"] == 403


# ---- what is of routers ----

OF_ROUTERS = [
    "_topo/0/another/temp.x",
    "amqp:/_topo/0/another/$management",
    "_topo/1/another/x",
    "_edge/another/temp.x",
    "$management",
    "_local/$management",
    "/_local/agent",
    "_local/qdhello",
    "_topo/0/all/qdrouter",
    "_local/_$qd.edge_heartbeat",
    "_local/_$qd.addr_lookup",
]


@pytest.mark.parametrize("door", ["normal", "edge", "web"])
def test_nobody_receives_what_is_for_another_router(net: Net, enter: Enter, door: str) -> None:
    """A receiver there would get a share of it, or all: requests with passwords, replies to other clients."""
    peer = enter("all", door)
    links = [(address, attach(peer, False, address)) for address in OF_ROUTERS]
    assert [address for address, link in links if outcome(net, link) != "amqp:not-allowed"] == []


# What lies in no tenant's space, however it is spelt.
COMMON = [
    "_local/meet",
    "amqp:/_local/meet",
    "amqp://somewhere/_local/meet",
    "/_local/$management",
    "_topo/0/all/meet",
    "_topo/all/all/meet",
    "_topo/0/{}/meet",
    "_topo/0/{}/temp.meet",
    "_topo/0/{}/$management",
    "_topo/0/another/meet",
    "_topo/7/another/meet",
    "_edge/another/meet",
    "_$temp.meet",
    "/_$temp.meet",
]


def test_tenants_do_not_meet_where_routers_do(net: Net, router: RunningRouter, enter: Enter) -> None:
    """`*` is all of a tenant's own addresses: those in nobody's space are refused by link and by message."""
    tenant = enter("all", "tenant")
    texts = [text.format(router.id) for text in COMMON]
    links = [(sends, text, attach(tenant, sends, text)) for text in texts for sends in (True, False)]
    dynamic = [attach(tenant, True, None, dynamic=True, node=node(text)) for text in texts]
    assert [one[:2] for one in links if outcome(net, one[2]) != NOT_ALLOWED] == []
    assert {outcome(net, link) for link in dynamic} == {NOT_ALLOWED}
    sender = tenant.ready_sender(None)
    sent = [net.send(sender, Message(address=text, body="x")) for text in texts]
    assert set(net.settled(*sent)) == {REJECTED}
    assert {error_of(one)[0] for one in sent} == {NOT_ALLOWED}


def test_tenants_use_what_their_group_lists(net: Net, enter: Enter) -> None:
    """By a name or a pattern that says so; and who is no tenant is bound by the policy alone."""
    tenant, client = enter("common", "tenant"), enter("all")
    receiver = tenant.receiver("_local/meet", 10)
    for sender in (tenant.ready_sender("_local/meet"), client.ready_sender("_local/meet"), tenant.ready_sender(None)):
        net.send(sender, Message(address="_local/meet", body="x"))
        tenant.take(receiver)[0].settle()
    assert outcome(net, attach(tenant, False, "_local/other")) == NOT_ALLOWED
    assert outcome(net, attach(tenant, True, "_topo/0/all/meet")) == NOT_ALLOWED


def test_tenants_get_answers(net: Net, enter: Enter) -> None:
    """Names that the router has made up are sent to by link and by message, also by another tenant."""
    asker, other = enter("all", "tenant"), enter("common", "tenant")
    answers = asker.receiver(None, 10)
    address = answers.remote_source.address
    for peer in (asker, other):
        for sender in (peer.ready_sender(address), peer.ready_sender(None)):
            net.send(sender, Message(address=address, body="x"))
            asker.take(answers)[0].settle()
    assert outcome(net, attach(asker, False, address)) == NOT_ALLOWED, "nobody else listens there"


# ---- edge routers ----

DOWNLINK = {"capability": "qd.router-edge-downlink"}


@needs_users
def test_an_edge_connection_has_its_own_downlink_only(net: Net, enter: Enter) -> None:
    """By the id of its OPEN, which its user group lists."""
    edge = enter("own", "edge", "alice", "alice")
    assert outcome(net, attach(edge, False, "alice", **DOWNLINK)) == ""
    assert outcome(net, attach(edge, False, "bob", **DOWNLINK)) == "amqp:not-allowed"
    assert outcome(net, attach(edge, False, "a/b", **DOWNLINK)) == "amqp:invalid-field"
    assert outcome(net, attach(edge, False, "_edge/bob/x")) == NOT_ALLOWED
    liar = enter("own", "edge", "somebody", "bob")
    assert outcome(net, attach(liar, False, "somebody", **DOWNLINK)) == NOT_ALLOWED


@needs_users
def test_an_edge_routers_id_belongs_to_one_user(net: Net, enter: Enter, router: RunningRouter) -> None:
    """It may be there twice, as when it connects again; another user, or nobody, is sent away and told."""
    first, again = (enter("all", "edge", "E", "alice") for _ in range(2))
    for who in ({"user": "bob"}, {}):
        rival = enter("all", "edge", "E", opens=False, **who)
        rival.expect_error = True
        rival.connection.open()
        net.until(lambda: rival.connection.remote_condition, "CLOSE")  # noqa: B023 - used at once
        assert rival.connection.remote_condition.name == "amqp:not-allowed"
    until(lambda: "'bob' at 127.0.0.1 was refused because another user" in router.log, "one naming both")
    for edge in (first, again):
        assert outcome(net, attach(edge, False, "E", **DOWNLINK)) == ""


LINK_ROUTES = """reads mine 403, manages mine 403, routes mine.# 201, routes # 403, routes $management 400,
all $management 400, all _topo.# 400, all # 201"""


def test_no_edge_router_takes_addresses_from_others(net: Net, enter: Enter, router: RunningRouter) -> None:
    """By a link route: it needs the right `all` and a pattern of its group's; the agent's is for nobody."""
    answers = (asker := enter("all")).receiver(None, 20)
    reply_to = answers.remote_source.address

    def status(peer: Peer, what: str, kind: str, **body: Any) -> int:
        request = Message(reply_to=reply_to, properties={"operation": what, "type": kind}, body=body)
        net.send(peer.ready_sender("$management"), request)
        return int(asker.take(answers)[0].message.properties["statusCode"])

    edges = {vhost: enter(vhost, "edge", vhost) for vhost in ("reads", "manages", "routes", "all")}
    for vhost, pattern, expected in (row.split() for row in LINK_ROUTES.split(",")):
        for way in ("in", "out"):
            body, kind = {"pattern": pattern, "direction": way}, "router.connection.linkRoute"
            assert status(edges[vhost], "CREATE", kind, **body) == int(expected), (vhost, pattern)
    assert status(enter("all"), "QUERY", "listener", attributeNames=[]) == 200  # the agent hears it still
    for who in ("'reads' at .* may only read", "'routes' at .* covers all addresses of the pattern '#'"):
        assert re.search(rf"CREATE of .*linkRoute' by edge router {who}", router.log), who

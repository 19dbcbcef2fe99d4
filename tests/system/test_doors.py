"""Attacks on what docs/security.md promises, on each kind of link and at each kind of listener.

All of them are refused. An attack that is missing here is a promise that nobody has tried.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from broker import Broker
from peer import REJECTED, Net, Peer, error_of, is_closed, is_open
from proton import Link, Message, Sender, symbol
from running import Configuration, RunningRouter, address_of, until
from websocket import WebSocket, ask

NOT_ALLOWED = "amqp:unauthorized-access"

GROUP = """
vhost {{
    hostname: {}
    allowUnknownUser: yes
    groups: {{
        $default: {{
            remoteHosts: *
            {}
        }}
    }}
}}
"""
VHOSTS = {
    "tight": ["sources: pub, lr.pub", "targets: pub, lr.pub", "allowDynamicSource: yes"],
    "still": ["sources: pub, lr.pub", "targets: pub, lr.pub", "allowUserIdProxy: yes"],
    "loose": ["sources: pub", "targets: pub", "allowAnonymousSender: yes", "allowDynamicSource: yes"],
    "transacted": ["targets: $coordinator"],
    "brokers": ["sources: *", "targets: *", "allowUserIdProxy: yes", "allowAnonymousSender: yes"],
}
LISTENERS = {
    "normal": ["multiTenant: no"],
    "route-container": ["role: route-container", "policyVhost: brokers"],
    "edge": ["role: edge"],
    "tenant": ["multiTenant: yes"],
    "web": ["http: yes"],
}
ROUTES = """
linkRoute {{
    prefix: {0}
    direction: in
    containerId: broker
}}
linkRoute {{
    prefix: {0}
    direction: out
    containerId: broker
}}
"""
DOORS = ["normal", "edge", "tenant", "web"]  # by which clients come in


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    listeners = [
        "listener {\n" + "\n".join(["host: 127.0.0.1", "port: 0", *more]) + "\n}\n"
        for more in list(LISTENERS.values())[1:]
    ]
    vhosts = [GROUP.format(name, "\n".join(said)) for name, said in VHOSTS.items()]
    routes = [ROUTES.format(prefix) for prefix in ("lr", "tight/lr", "$coordinator")]
    policy = "policy {\n enableVhostPolicy: yes\n}\n"
    return Configuration("mode: interior", sections=policy + "".join(listeners + vhosts + routes))


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

    def enter(vhost: str, door: str = "normal", container: str = "") -> Peer:
        if door == "web":
            found = re.search(r"http://127.0.0.1:(\d+)", router.output)
            assert found is not None
            place = "127.0.0.1", int(found[1])
            sock, _ = ask(place)
            peer = Peer(net, WebSocket(sock, 0), hostname=vhost)
            net.peers.append(peer)
        else:
            place = address_of(router.urls[list(LISTENERS).index(door)])
            peer = net.begin_peer(place, hostname=vhost)
        if container:
            peer.connection.container = container
        return peer.open()

    return enter


def attach(peer: Peer, sends: bool, address: str | None = None, **more: Any) -> Link:
    """A link whose terminus says what an attacker wants it to."""
    assert peer.default_session is not None
    name = peer.name()
    link: Link = peer.default_session.sender(name) if sends else peer.default_session.receiver(name)
    terminus = link.target if sends else link.source
    terminus.address = address
    terminus.dynamic = more.get("dynamic", False)
    if "node" in more:
        terminus.properties.put_object(more["node"])
    if "capability" in more:
        terminus.capabilities.put_object(symbol(more["capability"]))
    peer.inboxes[link.name] = []
    link.open()
    return link


def outcome(net: Net, link: Link) -> str:
    """The condition by which a link is refused; empty: it is open."""
    net.until(lambda: is_closed(link) or _serves(link), "an answer")
    return error_of(link)[0] if is_closed(link) else ""


def _serves(link: Link) -> bool:
    if not is_open(link):
        return False
    terminus = link.remote_target if isinstance(link, Sender) else link.remote_source
    return bool(terminus.address or link.credit)


def node(address: object) -> dict[Any, Any]:
    """Properties of a dynamic node that is to lie at an address."""
    return {symbol("x-opt-qd.address"): address}


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
def test_a_forbidden_address_however_a_terminus_names_it(
    net: Net, enter: Enter, broker: Broker, door: str
) -> None:
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

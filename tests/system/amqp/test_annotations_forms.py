"""`annotations` of listeners and connectors: each form, octet for octet."""

from collections.abc import Iterator
from typing import Any

import pytest
from proton import Described, Message, symbol, ulong

from tests.support.clients.arrival import Arrived
from tests.support.clients.inter_router_links import open_inter_router
from tests.support.clients.wire import encode
from tests.support.peer import ACCEPTED, REJECTED, Net, Peer
from tests.support.running import Configuration, RunningRouter, address_of, until
from tests.support.servers.acceptor import Acceptor

FORMS = ("auto", "section", "map", "skupper", "none")
STRIPS = ("in", "out", "both")  # besides `no`, with the form section
BODY = encode(Described(ulong(0x77), "body"))
KEY = "x-opt-qd."
INTER_ROUTER = "listener {{\n host: 127.0.0.1\n port: 0\n role: inter-router\n annotations: {}\n}}\n"
LISTENER = "listener {{\n host: 127.0.0.1\n port: 0\n annotations: {}\n stripAnnotations: {}\n}}\n"
CONNECTOR = (
    "connector {{\n name: {0}\n host: 127.0.0.1\n port: {1}\n role: route-container\n"
    " annotations: {0}\n stripAnnotations: no\n}}\n"
    "autoLink {{\n address: to.{0}\n direction: out\n connection: {0}\n}}\n"
    "autoLink {{\n address: from.{0}\n direction: in\n phase: 0\n connection: {0}\n}}\n"
)


def string(text: str) -> bytes:
    return bytes((0xA1, len(text))) + text.encode()


def short(*items: bytes) -> bytes:
    """A list8."""
    inside = b"".join(items)
    return bytes((0xC0, len(inside) + 1, len(items))) + inside


def long(*items: bytes) -> bytes:
    """A list32."""
    inside = b"".join(items)
    return b"\xd0" + (len(inside) + 4).to_bytes(4, "big") + len(items).to_bytes(4, "big") + inside


def front(form: str, *trace: str) -> bytes:
    """What stands before a message that has come by these routers (facts 3, spec of the section)."""
    ids = [string(one) for one in trace]
    if form == "section":
        return bytes.fromhex("0080ffffffff00002000") + short(b"\x50\0", b"\x40", ids[0], short(*ids))
    if form == "skupper":
        return bytes.fromhex("0080534b50522d2d5241") + long(b"\x43", b"\x40", ids[0], long(*ids))
    if form == "none":
        return b""
    keys = [b"\xa3" + bytes((len(name),)) + name for name in (b"x-opt-qd.ingress", b"x-opt-qd.trace")]
    inside = keys[0] + ids[0] + keys[1] + short(*ids)
    return b"\0\x53\x72\xc1" + bytes((len(inside) + 1, 4)) + inside


@pytest.fixture(scope="module")
def dialled() -> Acceptor:
    """What the connectors connect to."""
    return Acceptor(Net(("", 0)))


@pytest.fixture(scope="module")
def router(dialled: Acceptor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRouter]:
    """A listener for routers of each form, listeners for clients, and connectors to a broker."""
    sections = "".join(INTER_ROUTER.format(form) for form in FORMS)
    sections += "".join(LISTENER.format(form, "no") for form in FORMS)
    sections += "".join(LISTENER.format("section", strip) for strip in STRIPS)
    sections += "".join(CONNECTOR.format(form, dialled.port) for form in FORMS)
    # No neighbour is lost however long a test is held up.
    terms = "mode: interior\n workers: 2\n helloMaxAgeSeconds: 60"
    expected = r"SERVER|ROUTER_CORE \(warning\) auto link"  # of the broker that goes
    router = RunningRouter(
        tmp_path_factory.mktemp("router"), Configuration(terms, sections=sections, expected=expected)
    )
    yield router
    dialled.close()
    router.stop()


def inter_router(router: RunningRouter, form: str) -> tuple[str, int]:
    return address_of(router.urls[1 + FORMS.index(form)])


def clients(router: RunningRouter, form: str, strip: str = "no") -> tuple[str, int]:
    at = FORMS.index(form) if strip == "no" else len(FORMS) + STRIPS.index(strip)
    return address_of(router.urls[1 + len(FORMS) + at])


class Neighbour:
    """A router that has said HELLO."""

    def __init__(self, net: Net, router: RunningRouter, form: str, properties: dict[str, Any]) -> None:
        self.net, self.name = net, f"n-{form}-{properties.get('product', 'nobody')}"
        self.peer = Peer(net, inter_router(router, form))
        net.peers.append(self.peer)
        self.peer.connection.properties = {symbol(key): value for key, value in properties.items()}
        self.peer.open()
        self.control, self.data = open_inter_router(self.peer)
        net.until(lambda: self.control.credit > 0 and self.data.credit > 0, "credit")
        body = {"id": self.name, "pv": 1, "area": "0", "instance": 1, "seen": [router.id]}
        hello = Message(address="amqp:/_local/qdhello", properties={"opcode": "HELLO"}, body=body)
        net.send(self.control, hello, settled=True)
        until(lambda: net.turn(0.01) or f"{self.name} by {self.name} at cost 1" in router.log, "the neighbour")

    def came(self) -> Arrived:
        """The message that is no word between routers."""

        def there() -> list[Arrived]:
            return [one for one in self.peer.arrivals if one.data.endswith(BODY)]

        self.net.until(there, "the message")
        return there()[0]


PRODUCTS = [
    ("section", {"product": "qpid-dispatch-router"}, "section"),
    ("map", {"product": "routerd", "qd.annotations-version": 1}, "map"),
    ("skupper", {"product": "routerd", "qd.annotations-version": 1}, "skupper"),
    ("none", {"product": "routerd", "qd.annotations-version": 1}, "none"),
    ("auto", {"product": "routerd", "qd.annotations-version": 1}, "section"),
    ("auto", {"product": "routerd", "qd.annotations-version": 7}, "section"),
    ("auto", {"product": "qpid-dispatch-router", "qd.annotations-version": 1}, "map"),
    ("auto", {"product": "skupper-router", "qd.annotations-version": 2}, "skupper"),
    ("auto", {}, "map"),
]


@pytest.mark.parametrize(("form", "properties", "wanted"), PRODUCTS)
def test_between_routers(net: Net, router: RunningRouter, form: str, properties: dict[str, Any], wanted: str) -> None:
    """The form is the listener's, or follows from what the peer says; what goes and what comes has it."""
    neighbour = Neighbour(net, router, form, properties)
    me = f"0/{router.id}"
    message = encode(Described(ulong(0x73), [None, None, f"_topo/0/{neighbour.name}/x"])) + BODY
    net.send(net.peer().ready_sender(None), message, settled=True)
    assert neighbour.came().data == front(wanted, me) + message
    at = net.peer(clients(router, "map"))
    receiver = at.receiver(neighbour.name, 1)
    message = encode(Described(ulong(0x73), [None, None, neighbour.name])) + BODY
    net.send(neighbour.data, front(wanted, "0/x", "0/y") + message, settled=True)
    passed = (me,) if wanted == "none" else ("0/x", "0/y", me)
    assert at.take(receiver)[0].data == front("map", *passed) + message
    neighbour.peer.drop()


@pytest.mark.parametrize("form", FORMS)
def test_clients_of_a_listener(net: Net, router: RunningRouter, form: str) -> None:
    """With nothing stripped they are spoken with, and believed, in its form."""
    near, far = net.peer(clients(router, form)), net.peer(clients(router, "map"))
    heard, told = far.receiver(f"a.{form}", 1), near.receiver(f"b.{form}", 1)
    net.send(near.ready_sender(f"a.{form}"), front(form, "0/x") + BODY, settled=True)
    net.send(far.ready_sender(f"b.{form}"), BODY, settled=True)
    me = f"0/{router.id}"
    assert far.take(heard)[0].data == front("map", *(() if form == "none" else ("0/x",)), me) + BODY
    assert near.take(told)[0].data == front(form, me) + BODY


@pytest.mark.parametrize("strip", ["no", *STRIPS])
def test_each_rule_about_the_section_has_its_switch(net: Net, router: RunningRouter, strip: str) -> None:
    """`out`: clients may send it, and get none; `in`: they may not, and get it; `both` is as if it was not
    configured (spec, Section Inclusion/Removal)."""
    peer = net.peer(clients(router, "section", strip))
    receiver = peer.receiver(f"strip.{strip}", 2)
    sender = peer.ready_sender(f"strip.{strip}")
    me = f"0/{router.id}"
    sent = [net.send(sender, before + BODY) for before in (front("section", "0/x"), b"")]
    believed, told = strip in ("no", "out"), strip in ("no", "in")
    got = peer.take(receiver, 1 + believed)
    for one in got:
        one.settle()
    assert net.settled(*sent) == [ACCEPTED if believed else REJECTED, ACCEPTED]
    wanted = [front("section", "0/x", me)] * believed + [front("section", me)]
    assert [one.data for one in got] == [(before if told else b"") + BODY for before in wanted]


def test_connectors(dialled: Acceptor, net: Net, router: RunningRouter) -> None:
    """Each its own."""
    me = f"0/{router.id}"
    dialled.net = net
    at = net.peer(clients(router, "map"))
    receivers = {form: at.receiver(f"from.{form}", 1) for form in FORMS}
    for _ in FORMS:
        broker = dialled.accept()
        net.until(lambda: len(broker.attached) == 2, "both auto links")  # noqa: B023  at once
        links = [broker.answer(name) for name in list(broker.attached)]
        sender, receiver = sorted(links, key=lambda link: link.is_receiver)
        broker.inboxes[receiver.name] = []
        receiver.flow(1)
        form = receiver.target.address.removeprefix("to.")
        net.send(at.ready_sender(f"to.{form}"), BODY, settled=True)
        assert broker.take(receiver)[0].data == front(form, me) + BODY
        net.until(lambda: sender.credit > 0, "credit")  # noqa: B023  at once
        net.send(sender, front(form, "0/x") + BODY, settled=True)
        wanted = front("map", *(() if form == "none" else ("0/x",)), me) + BODY
        assert at.take(receivers[form])[0].data == wanted

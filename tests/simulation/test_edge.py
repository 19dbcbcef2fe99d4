"""Edge routers on interior ones, joined by simulated wires: where messages go, and what each is told."""

import pytest

from core.amqp import codec as wire
from core.edge import words
from core.links.link import Edges
from shm import native as n
from tests.model.internet import Internet, cut, join
from tests.model.sites import Packet, Site
from tests.support.beds.edge import SENDERS, at_rest, attached, send, star


@pytest.mark.parametrize("targeted", SENDERS)
@pytest.mark.parametrize("interiors", [("A",), ("A", "B")])
@pytest.mark.parametrize(
    ("sender", "receiver"), [("edge1", "edge2"), ("edge1", "A"), ("A", "edge2"), ("edge1", "edge1")]
)
def test_a_message_gets_from_everywhere_to_everywhere(
    targeted: bool, interiors: tuple[str, ...], sender: str, receiver: str
) -> None:
    net = star(*interiors)
    link = attached(net, receiver, True, "orders")
    assert send(net, sender, "orders", 3, targeted) == [[n.S_ACCEPTED]] * 3
    assert len(link.got) == 3
    at_rest(net)


@pytest.mark.parametrize("targeted", SENDERS)
def test_a_dynamic_address_of_an_edge_router_is_reached_from_everywhere(targeted: bool) -> None:
    net = star("A", "B")
    link = net["edge2"].attach(True, None, dynamic=True)
    net.settle()
    net.run(3)
    assert link.address is not None
    assert link.address.startswith("amqp:/_edge/edge2/temp.")
    for site in ("edge1", "A", "B", "edge2"):
        assert send(net, site, link.address, 1, targeted) == [[n.S_ACCEPTED]], site
    assert len(link.got) == 4
    at_rest(net)


@pytest.mark.parametrize("targeted", SENDERS)
def test_other_routers_addresses_are_beyond_the_uplink(targeted: bool) -> None:
    net = star("A", "B")
    link = attached(net, "B", True, "_local/x")
    assert send(net, "edge1", "amqp:/_topo/0/B/x", 2, targeted) == [[n.S_ACCEPTED]] * 2
    assert len(link.got) == 2


@pytest.mark.parametrize("targeted", SENDERS)
def test_multicast_reaches_every_receiver_once(targeted: bool) -> None:
    net = star("A", "B")
    sites = ["edge1", "edge1", "A", "B", "edge2"]
    links = [attached(net, site, True, "multicast.news") for site in sites]
    for site in ("edge1", "B"):
        for link in links:
            link.got.clear()
        assert send(net, site, "multicast.news", 2, targeted) == [[n.S_ACCEPTED]] * 2
        assert [len(link.got) for link in links] == [2] * len(links), site
    at_rest(net)


def test_a_sender_gets_credit_when_there_is_a_receiver_beyond_and_loses_its_way_with_it() -> None:
    net = star("A")
    sender = attached(net, "edge1", False, "late")
    assert sender.credit == 0
    receiver = attached(net, "edge2", True, "late")
    assert sender.credit == 250
    net["edge2"].detach(receiver)
    net.run(3)
    net["edge1"].send(sender, Packet(1))
    net.settle()
    assert net["edge1"].outcomes[1] == [n.S_RELEASED]
    assert sender.credit == 0


def test_an_edge_router_is_told_of_receivers_before_its_interior_router_sleeps() -> None:
    net = star("A")
    attached(net, "edge1", False, "late")
    core = net["A"].core
    assert not core.restless
    net["A"].attach(True, "late")
    core._settle(net.now)
    assert core.restless
    core.tick(net.now)
    assert not core.restless


def test_routers_of_the_other_dialect_are_told_of_addresses_in_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys have no phase; what is told is understood."""
    net = Internet("A", "edge1")
    join(net["edge1"], net["A"], role="edge", product="skupper-router")
    net.run(6)
    told = []
    tracked = words.tracked
    monkeypatch.setattr(words, "tracked", lambda *said: told.append(tracked(said[0])) or tracked(*said))
    attached(net, "A", True, "orders")
    assert send(net, "edge1", "orders", 1, True) == [[n.S_ACCEPTED]]
    assert told == [("Morders", True)]


def test_a_receiver_of_its_own_is_not_beyond() -> None:
    """What goes up for an address comes not back on the same connection: an edge router keeps it."""
    net = star("A")
    receiver = attached(net, "edge1", True, "home")
    assert send(net, "edge1", "home", 3, True) == [[n.S_ACCEPTED]] * 3
    assert len(receiver.got) == 3
    net["edge1"].detach(receiver)
    net.run(3)
    assert send(net, "edge1", "home", 1, False) == [[n.S_RELEASED]]


def test_nobody_anywhere_is_released() -> None:
    net = star("A")
    assert send(net, "edge1", "nobody", 1, False) == [[n.S_RELEASED]]
    at_rest(net)


def test_balanced_takes_the_idle_receiver_wherever_it_is() -> None:
    net = star("A")
    here = attached(net, "edge1", True, "work")
    there = attached(net, "edge2", True, "work")
    here.answer = there.answer = 0
    sender = attached(net, "edge1", False, "work")
    for number in range(1, 9):
        net["edge1"].send(sender, Packet(number))
        net.settle()
    assert len(here.got) == len(there.got) == 4


def fail_over() -> tuple[Internet, Site, tuple[int, int], tuple[int, int]]:
    net = Internet("A", "B", "edge1")
    join(net["A"], net["B"])
    ends = [join(net["edge1"], net[one], role="edge") for one in ("A", "B")]
    net.run(6)
    return net, net["edge1"], ends[0], ends[1]


def test_another_connection_takes_over() -> None:
    net, edge, first, second = fail_over()
    assert edge.core.plane(Edges).is_active(0, first[0])
    assert not edge.core.plane(Edges).is_active(0, second[0])
    sender = attached(net, "edge1", False, "far")
    receiver = attached(net, "B", True, "far")
    edge.send(sender, Packet(1))
    net.settle()
    cut(edge, net["A"], first)
    net.run(5)
    assert edge.core.plane(Edges).is_active(0, second[0])
    assert sender.credit == 250
    edge.send(sender, Packet(2))
    net.settle()
    assert [packet.number for packet in receiver.got] == [1, 2]
    assert edge.outcomes == {1: [n.S_ACCEPTED], 2: [n.S_ACCEPTED]}
    at_rest(net)


def test_without_its_uplink_an_edge_router_serves_its_own() -> None:
    net, edge, first, second = fail_over()
    cut(edge, net["A"], first)
    cut(edge, net["B"], second)
    net.run(2)
    receiver = attached(net, "edge1", True, "home")
    assert send(net, "edge1", "home", 2, False) == [[n.S_ACCEPTED]] * 2
    assert send(net, "edge1", "elsewhere", 1, False) == [[n.S_RELEASED]]
    assert len(receiver.got) == 2


def test_an_edge_router_that_falls_silent_is_given_up() -> None:
    net = star("A")
    net.run(20)
    assert net["A"].closing == []
    now = net.now
    for second in range(1, 12):  # of the interior router alone
        net["A"].core.step(now + second * 1_000_000_000)
        net["A"].read()
    assert sorted(net["A"].closing) == [1, 2]


HEART = "_$qd.edge_heartbeat"


def test_heartbeats_are_watched_on_any_connection() -> None:
    """Whoever begins to send them is given up when they stop; nobody receives them."""
    net = star("A")
    site = net["A"]
    receiver = attached(net, "A", True, HEART)
    assert (receiver.open, receiver.error) == (False, "amqp:not-allowed")
    silent, beating, gone = (attached(net, "A", False, HEART) for _ in range(3))
    assert (silent.credit, silent.open) == (2, True)
    net["A"].detach(gone)
    for number in range(12):
        site.send(beating, Packet(number))
        net.run(1)
    assert set(site.closing) == {silent.connection}
    assert beating.credit == 2
    at_rest(net)


LOOKUP = "_$qd.addr_lookup"


def asked(version: int, opcode: int, *about: bytes) -> bytes:
    """A question about an address, of any shape."""
    said = {"version": version, "opcode": opcode}
    return (
        wire.section(0x73, wire.sequence([wire.NULL] * 4 + [wire.string("amqp:/here"), wire.string("c1")]))
        + wire.section(0x74, wire.mapping((wire.string(k), wire.integer(n)) for k, n in said.items()))
        + wire.section(0x77, wire.sequence(about))
    )


NONSENSE = [
    b"",
    wire.section(0x77, wire.sequence([wire.string("x"), wire.FALSE])),
    asked(2, 1, wire.string("x"), wire.FALSE),
    asked(1, 7, wire.string("x"), wire.FALSE),
    asked(1, 1, wire.FALSE),
    asked(1, 1, wire.string("x"), wire.FALSE)[:-1],
]


def test_a_question_that_makes_no_sense_is_rejected(caplog: pytest.LogCaptureFixture) -> None:
    """And named once; one that does is accepted. Only edge routers may ask."""
    net = star("A")
    site = net["A"]
    assert attached(net, "A", False, LOOKUP).error == "amqp:not-allowed"
    asking = next(link for link in site.core.links.entries() if link.owning == f"L{LOOKUP}")
    link = site.links[asking.link]
    good = asked(1, 1, wire.string("x"), wire.FALSE)
    for number, content in enumerate([*NONSENSE, *NONSENSE, good], 1):
        site.send(link, Packet(number, payload=content))
        net.settle()
    count = 2 * len(NONSENSE)
    assert [site.outcomes[number] for number in range(1, count + 1)] == [[n.S_REJECTED]] * count
    assert site.outcomes[count + 1] == [n.S_ACCEPTED]
    said = [record.getMessage() for record in caplog.records if "unreadable question" in record.message]
    assert 0 < len(said) <= len(NONSENSE)
    assert all(line.startswith("edge") for line in said)
    at_rest(net)


def test_many_edge_routers_on_one_interior_router() -> None:
    """A multicast reaches each once, and each has its own addresses."""
    names = [f"edge{number}" for number in range(30)]
    net = Internet("A", *names)
    for name in names:
        join(net[name], net["A"], role="edge")
    net.settle()
    net.run(6)
    shared = {name: net[name].attach(True, "multicast.all") for name in names}
    own = {name: net[name].attach(True, "_local/own") for name in names}
    net.settle()
    link, anonymous = (attached(net, "edge0", False, address) for address in ("multicast.all", None))
    net["edge0"].send(link, Packet(1))
    for number, name in enumerate(names[1:], 2):
        net["edge0"].send(anonymous, Packet(number, to=f"_edge/{name}/own"))
    net.settle()
    assert [one.number for name in names for one in shared[name].got] == [1] * len(names)
    assert [one.number for name in names for one in own[name].got] == [*range(2, len(names) + 1)]
    assert all(outcome == [n.S_ACCEPTED] for outcome in net["edge0"].outcomes.values())
    at_rest(net)


def test_an_interior_router_that_cannot_be_read_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of what it says of addresses, and answers about them and link routes; a minute later again."""
    net = star("A")
    monkeypatch.setattr(words, "tracking", lambda *_: wire.section(0x77, wire.string("nonsense")))
    attached(net, "A", True, "shared")
    wrong = attached(net, "A", False, None)
    numbers = iter(range(100))

    def lie() -> list[str]:
        link = net["edge1"].attach(False, "shared")
        for kind in ("lookup", "management"):
            address = f"_edge/edge1/_$qd.edge_{kind}_{'answers' if kind == 'lookup' else 'replies'}"
            net["A"].send(wrong, Packet(next(numbers), to=address, payload=b"\0Sw@"))
        net.settle()
        net["edge1"].detach(link)
        net.settle()
        return [record.getMessage() for record in caplog.records if "unreadable" in record.message]

    said = [lie() for _ in range(10)][-1]
    assert len(said) == len(set(said)) == 3
    assert all(line.startswith("router A at ") for line in said)
    net.run(60)
    more = "(and 9 more since the last such line)"
    assert [line.endswith(more) for line in lie()] == [False] * 3 + [True] * 3
    at_rest(net)


def test_proxies_go_with_the_last_client() -> None:
    net = star("A")
    before = len(net["A"].core.links)
    links = [attached(net, "edge1", outgoing, "shared") for outgoing in (True, True, False, False)]
    assert len(net["A"].core.links) == before + 2
    for link in links:
        net["edge1"].detach(link)
        net.settle()
    net.run(2)
    assert len(net["A"].core.links) == before
    assert len(net["edge1"].core.links) == 6


@pytest.mark.parametrize(
    ("sender", "receiver"),
    [("edge1", "A"), ("edge1", "edge1"), ("A", "edge1"), ("edge1", "B"), ("edge1", "edge2"), ("B", "edge1")],
)
@pytest.mark.parametrize("sender_first", [True, False])
def test_a_fallback_destination_is_reached_from_everywhere(sender: str, receiver: str, sender_first: bool) -> None:
    net = star("A", "B")
    link = attached(net, sender, False, "second.choice") if sender_first else None
    fallback = net[receiver].attach(True, "second.choice", capabilities=["qd.fallback"])
    net.settle()
    net.run(3)
    link = link or attached(net, sender, False, "second.choice")
    net.run(3)
    assert link.credit > 0
    net[sender].send(link, Packet(1))
    net.settle()
    assert net[sender].outcomes[1] == [n.S_ACCEPTED]
    assert len(fallback.got) == 1
    primary = attached(net, "A", True, "second.choice")
    net[sender].send(link, Packet(2))
    net.settle()
    assert len(fallback.got) == len(primary.got) == 1
    at_rest(net)

"""Whole cores joined by simulated wires: where messages go in a network."""

import random
from collections import Counter

import pytest

from bench import contract as n
from bench.contract import C_ATTACH
from core.interior.message import decode
from shm.contract.payloads import Attach
from tests.model.internet import Internet, cut, join
from tests.model.sites import Packet, Site
from tests.support.beds.internet import NEWS, check_rest, line, numbers, receiver, sender, sent


def test_a_line_of_three() -> None:
    """Settlement end to end; the override, ingress and trace as each router adds to them."""
    net = line("A", "B", "C")
    there = receiver(net, "C", "q")
    link = sender(net, "A", "q")
    assert link.credit == 250
    assert sent(net, net["A"], link, Packet(1), Packet(2, settled=True)) == {1: [n.S_ACCEPTED]}
    assert [(p.number, p.override, p.ingress, p.trace) for p in there.got] == [
        (1, "q", "0/A", ("0/A", "0/B")),
        (2, "q", "0/A", ("0/A", "0/B")),
    ]
    for site in "BC":
        sent(net, net[site], sender(net, site, "q"), Packet(3))
    nodes = net["C"].network_adapter.nodes
    assert sorted(nodes.origins(0, there.index, 1).values()) == [1, 2]  # from B, from A; not from C itself
    check_rest(net)


@pytest.mark.parametrize("answer", [n.S_REJECTED, n.S_RELEASED, n.S_MODIFIED])
def test_outcomes_come_from_the_receiver(answer: int) -> None:
    """Whatever it is, the sender hears it."""
    net = line("A", "B", "C")
    receiver(net, "C", "q", answer)
    link = sender(net, "A", "q")
    assert sent(net, net["A"], link, Packet(1)) == {1: [answer]}
    check_rest(net)


def test_an_anonymous_message_says_itself_where_to() -> None:
    """It is forwarded as it is."""
    net = line("A", "B", "C")
    there = receiver(net, "C", "q")
    link = sender(net, "A", None)
    sent(net, net["A"], link, Packet(1, to="/q"), Packet(2, to="nobody"))
    assert [(p.to, p.override) for p in there.got] == [("/q", "")]
    assert net["A"].outcomes == {1: [n.S_ACCEPTED], 2: [n.S_RELEASED]}
    check_rest(net)


def test_addresses_of_one_router() -> None:
    """_topo/0/C/… leads to router C only, for targeted and anonymous senders."""
    net = line("A", "B", "C")
    there = receiver(net, "C", "_local/x")
    receiver(net, "A", "_local/x")
    targeted = sender(net, "A", "amqp:/_topo/0/C/x")
    anonymous = sender(net, "A", None)
    sent(net, net["A"], targeted, Packet(1))
    sent(net, net["A"], anonymous, Packet(2, to="amqp:/_topo/0/C/x"))
    assert numbers(there) == [1, 2]
    check_rest(net)


def test_dynamic_addresses_from_anywhere() -> None:
    """A reply finds its way back."""
    net = line("A", "B", "C")
    there = net["A"].attach(True, None, dynamic=True)
    link = sender(net, "C", None)
    assert there.address is not None
    sent(net, net["C"], link, Packet(1, to=there.address))
    assert numbers(there) == [1]
    check_rest(net)


def test_closest_is_the_cheapest() -> None:
    """A receiver here first; else routers of the lowest cost in turn."""
    net = line("A", "B", "C")
    join(net["A"], net["C"], cost=2)  # both ways to C cost 2
    net.run(6)
    near, far = receiver(net, "B", "closest.x"), receiver(net, "C", "closest.x")
    link = sender(net, "A", "closest.x")
    sent(net, net["A"], link, *map(Packet, range(4)))
    assert (len(near.got), len(far.got)) == (4, 0)
    here = receiver(net, "A", "closest.x")
    sent(net, net["A"], link, Packet(4))
    assert (numbers(here), len(near.got)) == ([4], 4)
    net["A"].detach(here)
    net["B"].detach(near)
    net.run(NEWS)
    sent(net, net["A"], link, Packet(5))
    assert numbers(far) == [5]
    check_rest(net)


def test_balanced_counts_what_is_outstanding() -> None:
    """Another router is as good as its outstanding deliveries plus its cost."""
    net = line("A", "B")
    here, there = receiver(net, "A", "q", 0), receiver(net, "B", "q", 0)
    link = sender(net, "A", "q")
    sent(net, net["A"], link, *map(Packet, range(9)))
    assert (len(here.got), len(there.got)) == (5, 4)
    for packet, handle in there.unsettled:
        assert packet.number in numbers(there)
        net["B"].settle(handle, n.S_ACCEPTED)
    net.settle()
    sent(net, net["A"], link, *map(Packet, range(10, 14)))
    assert (len(here.got), len(there.got)) == (5, 8)


def test_multicast_once_each() -> None:
    """In a ring of four each receiver gets one copy, and outcomes are merged over the network."""
    net = line("A", "B", "C", "D")
    join(net["D"], net["A"])
    net.run(6)
    links = {name: receiver(net, name, "multicast.x") for name in "ABCD"}
    links["C"].answer = n.S_RELEASED
    for name in "ABCD":
        link = sender(net, name, "multicast.x")
        sent(net, net[name], link, Packet(1))
        assert net[name].outcomes == {1: [n.S_ACCEPTED]}
        assert {other: len(at.got) for other, at in links.items()} == dict.fromkeys("ABCD", 1)
        for at in links.values():
            at.got.clear()
    links["D"].answer = n.S_REJECTED
    sent(net, net["B"], link := sender(net, "B", "multicast.x"), Packet(2))
    assert link.credit == 250
    assert net["B"].outcomes[2] == [n.S_REJECTED]
    check_rest(net)


def test_priorities_have_their_own_links() -> None:
    """A message of priority p takes the p-th data link; an address's priority goes with the message."""
    net = line("A", "B")
    there = receiver(net, "B", "q"), receiver(net, "B", "high.q")
    link, high = sender(net, "A", "q"), sender(net, "A", "high.q")
    used = []
    for priority in range(10):
        before = {i: one.credit for i, one in net["B"].links.items()}
        net["A"].send(link, Packet(priority, priority=priority))
        net.settle()
        used += [i for i, credit in before.items() if net["B"].links[i].credit == credit - 1]
    assert len(set(used)) == 10
    assert [p.priority for p in there[0].got] == list(range(10))
    sent(net, net["A"], high, Packet(1, priority=2))
    assert there[1].got[0].priority == 7


def test_a_sender_waits_for_the_first_receiver_anywhere() -> None:
    """Credit follows destinations in the whole network, and ends with the first message that finds none."""
    net = line("A", "B", "C")
    link = net["A"].attach(False, "q")
    net.settle()
    assert link.credit == 0
    there = receiver(net, "C", "q")
    net.run(NEWS)
    assert link.credit == 250
    net["C"].detach(there)
    net.run(NEWS)
    assert sent(net, net["A"], link, Packet(1)) == {1: [n.S_RELEASED]}
    assert link.credit == 0
    check_rest(net)


def test_more_than_a_capacity_under_way() -> None:
    """Credit between routers does not wait for settlement."""
    net = line("A", "B", "C")
    there = receiver(net, "C", "q", 0)
    links = [sender(net, "A", "q") for _ in range(3)]
    for number in range(600):
        net["A"].send(links[number % 3], Packet(number))
        if number % 50 == 0:
            net.settle()
    net.settle()
    assert len(there.got) == 600
    for _, handle in there.unsettled:
        net["C"].settle(handle, n.S_ACCEPTED)
        net.settle()
    assert all(outcome == [n.S_ACCEPTED] for outcome in net["A"].outcomes.values())
    assert len(net["A"].outcomes) == 600
    check_rest(net)


def test_a_cut_cable() -> None:
    """What was under way is modified; senders keep their credit, and another way is taken."""
    net = line("A", "B", "C")
    ends = join(net["A"], net["C"], cost=1)
    net.run(6)
    there = receiver(net, "C", "q", 0)
    link = sender(net, "A", "q")
    sent(net, net["A"], link, Packet(1))
    assert numbers(there) == [1]
    cut(net["A"], net["C"], ends)
    net.settle()
    assert net["A"].outcomes == {1: [n.S_MODIFIED]}
    net.run(10)
    there.answer = n.S_ACCEPTED
    there.got.clear()
    assert sent(net, net["A"], link, Packet(2))[2] == [n.S_ACCEPTED]
    assert there.got[0].trace == ("0/A", "0/B")


def test_a_part_of_the_network_is_gone() -> None:
    """Its receivers are no destinations any more."""
    net = Internet("A", "B")
    ends = join(net["A"], net["B"])
    net.run(6)
    receiver(net, "B", "q")
    link = sender(net, "A", "q")
    cut(net["A"], net["B"], ends)
    net.run(10)
    assert sent(net, net["A"], link, Packet(1)) == {1: [n.S_RELEASED]}
    assert link.credit == 0
    join(net["A"], net["B"])
    net.run(10)
    assert link.credit == 250
    assert sent(net, net["A"], link, Packet(2))[2] == [n.S_ACCEPTED]
    check_rest(net)


def test_control_addresses_are_for_routers() -> None:
    """A client's message to one is released, and no router hears of it."""
    net = line("A", "B")
    link = sender(net, "A", None)
    for number, to in enumerate(["_local/qdhello", "_topo/0/all/qdrouter", "_topo/0/all/qdrouter.ma"]):
        sent(net, net["A"], link, Packet(number, to=to, payload=b"\0"))
    assert set(map(tuple, net["A"].outcomes.values())) == {(n.S_RELEASED,)}


def test_a_message_that_goes_in_circles() -> None:
    """One that has been through more routers than there are in any way is released."""
    net = line("A", "B")
    there = receiver(net, "B", "q")
    net.run(NEWS)
    site = net["B"]
    inter_router = next(link for link in site.links.values() if link.peer and not link.outgoing and link.credit)
    site.send(inter_router, Packet(1, to="q", settled=True, ingress="0/X", trace=("0/X", "0/Y", "0/Z")))
    site.send(inter_router, Packet(2, to="q", settled=True, ingress="0/X", trace=("0/X", "0/Y")))
    net.settle()
    assert numbers(there) == [2]


def test_links_between_routers_only_where_routers_are() -> None:
    """A client cannot pretend to be one, and no client's link is let in before the control link."""
    net = Internet("A")
    link = net["A"].attach(False, None, capabilities=["qd.router"])
    other = net["A"].connect(role="inter-router")
    early = net["A"]._new_link(other, True, "q")
    net["A"].control(C_ATTACH, Attach(early.index, 1, other, "early", True, "q"))
    net.settle()
    assert (link.error, early.error) == ("qd:forbidden", "qd:connection-role")


def test_a_border_between_dialects() -> None:
    """Addresses are known beyond it, in both directions, and messages cross it."""
    net = Internet("P", "Q", "A", "S", "T")
    join(net["P"], net["Q"], product="qpid-dispatch-router")
    join(net["Q"], net["A"], product="qpid-dispatch-router")
    join(net["A"], net["S"], product="skupper-router")
    join(net["S"], net["T"], product="skupper-router")
    versions = {name: heard_updates(net[name]) for name in "QS"}
    net.settle()
    net.run(10)
    ends = {name: receiver(net, name, f"multicast.{name}") for name in "PT"}
    for name, other in ("PT", "TP"):
        link = sender(net, name, f"multicast.{other}")
        assert sent(net, net[name], link, Packet(1)) == {1: [n.S_ACCEPTED]}
    assert [numbers(link) for link in ends.values()] == [[1], [1]]
    late = receiver(net, "T", "late")
    link = sender(net, "P", "late")
    sent(net, net["P"], link, Packet(2))
    assert numbers(late) == [2]
    assert (versions["Q"], versions["S"]) == ({1}, {2})
    check_rest(net)


def heard_updates(site: Site) -> set[int]:
    """Versions of the updates about addresses that come to a router."""
    versions: set[int] = set()
    received = site.network.received

    def listen(neighbour: int, content: bytes, now: float) -> None:
        control = decode(content)
        if control.opcode == "MAU":
            versions.add(control.body["pv"])
        received(neighbour, content, now)

    site.network.received = listen  # type: ignore[method-assign]  # an ear on the wall
    return versions


def mesh(seed: int) -> tuple[Internet, random.Random]:
    """Up to six routers, connected somehow, with costs."""
    chance = random.Random(seed)  # noqa: S311  a test's choice
    names = "ABCDEF"[: chance.randint(2, 6)]
    net = Internet(*names, seed=seed)
    for i, name in enumerate(names[1:], 1):
        join(net[name], net[chance.choice(names[:i])], cost=chance.choice([1, 1, 2, 5]))
    for _ in range(chance.randint(0, 3)):
        one, other = chance.sample(names, 2)
        join(net[one], net[other], cost=chance.choice([1, 2, 5]))
    net.run(8)
    return net, chance


@pytest.mark.parametrize("seed", range(12))
def test_any_network(seed: int) -> None:
    """Multicast reaches every receiver once, the others one receiver; every sender hears of it once."""
    net, chance = mesh(seed)
    addresses = ["closest.x", "q", "multicast.x"]
    receivers = [
        (chance.choice(addresses), receiver(net, chance.choice(list(net.sites)), address))
        for address in addresses
        for _ in range(chance.randint(1, 4))
    ]
    receivers = [(str(link.address), link) for _, link in receivers]
    expected: dict[int, int] = {}
    net.run(NEWS)
    for number in range(30):
        site = net[chance.choice(list(net.sites))]
        address = chance.choice(addresses)
        link = site.attach(False, address if chance.random() < 0.5 else None)
        net.settle()
        site.send(link, Packet(number, to=address if link.address is None else "", priority=chance.randrange(10)))
        expected[number] = sum(one == address for one, _ in receivers) if address.startswith("multicast") else 1
    net.settle()
    copies = Counter(number for _, link in receivers for number in numbers(link))
    assert copies == Counter(expected)
    outcomes = [one for site in net.sites.values() for one in site.outcomes.values()]
    assert outcomes == [[n.S_ACCEPTED]] * 30
    check_rest(net)

"""Source routes across two routers of a network: what the scopes between trace stays between them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proton import Message, Sender, symbol

from tests.support.peer import ACCEPTED, CHUNK, REJECTED, Net, Peer, error_of
from tests.support.routers.network import LISTENERS, NetworkRouter, connector
from tests.support.running import Configuration, RunningRouter, address_of, until
from tests.support.values.route_ways import PATHS, WORKERS, section, sent, side, told

ONWARD, RETURN = symbol("x-opt-route.onward"), symbol("x-opt-route.return")
ME = f"system-{os.getpid()}"

# Of the router of each side: a discovery worker, and what carries its messages over.
SIDES = {
    "one": """
routeWorker {
 kind: discovery
 address: D1
 inner: D1.in
 route: T1=>F1=>F2=>D2.in
 innerAllow: uplink:%(other)s
}
routeWorker {
 kind: forward
 address: T1
 trace: yes
}
routeWorker {
 kind: forward
 address: closed
}
routeWorker {
 kind: forward
 address: mid
 trace: yes
 allow: local, uplink:%(other)s, uplink:%(edge)s
}
listener {
 host: 127.0.0.1
 port: 0
 role: edge
}
""",
    "two": """
routeWorker {
 kind: discovery
 address: D2
 inner: D2.in
 route: D1.in
 innerAllow: worker:F2
}
routeWorker {
 kind: forward
 address: F1
 trace: yes
 allow: uplink:%(other)s
}
routeWorker {
 kind: forward
 address: F2
 trace: yes
}
routeWorker {
 kind: forward
 address: near
}
""",
}


class Side(NetworkRouter):
    """A router with the workers of one side."""

    def __init__(self, folder: Path, *others: str) -> None:
        folder.mkdir()
        other = f"{ME}-{'two' if folder.name == 'one' else 'one'}"
        sections = LISTENERS + "".join(map(connector, others))
        sections += SIDES[folder.name] % {"other": other, "edge": f"{ME}-edge"}
        for case, texts in WORKERS.items():
            mine = [text for text in texts if side(text.split()[0]) == folder.name]
            sections += "".join(section(case, text, f"local,uplink:{other}") for text in mine)
        configuration = Configuration("mode: interior\n workers: 1", sections=sections)
        RunningRouter.__init__(self, folder, configuration)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    folder = tmp_path_factory.mktemp("sides")
    one = Side(folder / "one")
    try:
        two = Side(folder / "two", one.routers_url)
        try:
            one.knows(two.id)
            two.knows(one.id)
            yield one, two
        finally:
            two.stop()
    finally:
        one.stop()


@pytest.fixture
def net(sides: tuple[Side, Side]) -> Iterator[Net]:
    with Net(sides[0].address) as net:
        yield net


def message(onward: list[str], returning: list[str], body: bytes = b"ping") -> Message:
    made = Message(body=body, inferred=True)
    made.annotations = {ONWARD: onward, RETURN: returning}
    return made


def routes(message: Message) -> tuple[list[Any], list[Any]]:
    return list(message.annotations[ONWARD]), list(message.annotations[RETURN])


def known(peer: Peer, address: str) -> Sender:
    """A sender to an address that has a receiver, or a worker, somewhere."""
    return peer.ready_sender(address)


def test_discovery_workers_hide_what_is_between(net: Net, sides: tuple[Side, Side]) -> None:
    """A1 talks to B2 as [D1, B2], B2 answers by [D2, A1], and neither sees the three workers between."""
    here, there = net.peer(), net.peer(sides[1].address)
    bob, alice = there.receiver("B2", credit=1), here.receiver("A1", credit=1)
    known(here, "F1")
    sent = net.send(here.ready_sender("D1"), message(["D1", "B2"], ["A1"]))
    (question,) = there.take(bob)
    assert routes(question.message) == (["B2"], ["D2", "A1"])
    question.settle()
    assert net.settled(sent) == [ACCEPTED]
    known(there, "D1.in")
    net.send(there.ready_sender(None), message(["D2", "A1"], ["B2"]))
    (answer,) = here.take(alice)
    assert routes(answer.message) == (["A1"], ["D1", "B2"])
    answer.settle()


def test_another_router_reaches_only_what_is_listed(net: Net, sides: tuple[Side, Side]) -> None:
    """An uplink may not send to a worker that names no uplink, whatever the message says."""
    there = net.peer(sides[1].address)
    for returning in (["closed"], ["worker:T1"]):
        delivery = net.send(known(there, "closed"), message(["closed", "x"], returning))
        assert net.settled(delivery) == [REJECTED]
        assert error_of(delivery)[0] == "amqp:unauthorized-access"


@pytest.fixture(scope="module")
def paths(sides: tuple[Side, Side]) -> None:
    """Each of the two knows the workers of the other."""
    with Net(sides[0].address) as net:
        others = {"one": net.peer(sides[1].address), "two": net.peer()}
        for case, texts in WORKERS.items():
            for name in (f"{case}.{text.split()[0]}" for text in texts):
                known(others[side(name)], name)


@pytest.mark.parametrize(("case", "first", "last", "where"), PATHS, ids=str)
@pytest.mark.usefixtures("paths")
def test_a_way_of_the_specification(
    net: Net, sides: tuple[Side, Side], case: str, first: int, last: int, where: str
) -> None:
    """Through workers of both routers, each where its scope is."""
    peers = {"one": net.peer(), "two": net.peer(sides[1].address)}
    others = {"one": peers["two"], "two": peers["one"]}
    made, expected = sent(case, first, where), sent(case, last, where)
    end = routes(expected)[0][0]
    receiver = peers[side(end)].receiver(end, credit=1)
    known(others[side(end)], end)
    source = routes(made)[1][-1] if routes(made)[1] else "A"
    delivery = net.send(peers[side(source)].ready_sender(None), made)
    (arrived,) = peers[side(end)].take(receiver)
    arrived.settle()
    assert net.settled(delivery) == [ACCEPTED]
    assert told(arrived.message) == told(expected)


class Edge(NetworkRouter):
    """An edge router of the first, with two workers."""

    def __init__(self, folder: Path, one: Side) -> None:
        folder.mkdir()
        host, port = address_of(one.urls[2])
        workers = "".join(
            f"routeWorker {{\n kind: forward\n address: {name}\n trace: yes\n {allow}\n}}\n"
            for name, allow in (("rim", f"allow: local, uplink:{one.id}"), ("rim.closed", ""))
        )
        uplink = f"connector {{\n name: hub\n role: edge\n host: {host}\n port: {port}\n}}\n"
        configuration = Configuration("mode: edge\n workers: 1", sections=uplink + workers)
        RunningRouter.__init__(self, folder, configuration)


def test_there_and_back_by_an_edge_router(
    net: Net, sides: tuple[Side, Side], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its workers are reached from everywhere, and its clients reach those of others; what names no uplink is
    closed from outside there, too."""
    edge = Edge(tmp_path_factory.mktemp("outside") / "edge", sides[0])
    try:
        there, outside = net.peer(sides[1].address), net.peer(edge.address)
        bob, alice = there.receiver("B5", credit=1), outside.receiver("A5", credit=1)
        for peer, names in ((outside, ("mid", "B5")), (there, ("rim", "rim.closed", "mid", "A5"))):
            for name in names:
                known(peer, name)
        delivery = net.send(outside.ready_sender(None), message(["rim", "mid", "B5"], ["A5"]))
        (question,) = there.take(bob)
        question.settle()
        assert routes(question.message) == (["B5"], ["mid", "rim", "A5"])
        reply = net.send(there.ready_sender(None), message(routes(question.message)[1], ["B5"]))
        (answer,) = outside.take(alice)
        answer.settle()
        assert routes(answer.message) == (["A5"], ["rim", "mid", "B5"])
        shut = net.send(known(there, "rim.closed"), message(["rim.closed", "A5"], ["rim"]))
        assert net.settled(delivery, reply, shut) == [ACCEPTED, ACCEPTED, REJECTED]
        assert error_of(shut)[0] == "amqp:unauthorized-access"
        outside.connection.close()  # what it has settled goes before
        net.until(lambda: outside.closed, "the end of its connection")
    finally:
        edge.stop()


SIZE = 100 << 20  # octets of a body that nobody holds whole
MOST = 24 << 20  # octets that may be under way, in blocks of both routers
BLOCK = 16384


def test_a_hundred_megabytes_are_wrapped_carried_and_unwrapped(net: Net, sides: tuple[Side, Side]) -> None:
    """Through three forwarders between the two discovery workers, while most of it is still to be sent."""
    here, there = net.peer(), net.peer(sides[1].address)
    bob = there.receiver("B2", credit=1)
    known(here, "F1")
    sender = here.ready_sender("D1")
    piece = bytes(range(256)) * (CHUNK // 256)
    head = bytes(message(["D1", "B2"], ["A1"], b"").encode())
    head = head[: head.rindex(b"\x00Su")] + b"\x00Su\xb0" + SIZE.to_bytes(4, "big")
    delivery = net.begin(sender, head)
    inbox, got, held, left = there.inbox(bob), 0, 0, SIZE
    while left:
        part = piece[: min(left, len(piece))]
        sender.stream(part)
        left -= len(part)
        net.until(lambda: sender.session.outgoing_bytes < CHUNK, "the router's readiness for more")
        got += emptied(inbox)
        held = max(held, *(large_in_use(side) * BLOCK for side in sides))
    sender.advance()
    net.until(lambda: inbox and inbox[0].complete, "the end")
    got += emptied(inbox)
    assert SIZE <= got < SIZE * 1.01
    assert held < MOST
    inbox[0].settle()
    assert net.settled(delivery) == [ACCEPTED]
    until(lambda: not any(map(large_in_use, sides)), "return of the blocks")


def large_in_use(side: Side) -> int:
    """Large blocks of all its workers that hold something."""
    pairs = zip(side.blocks, side.free_blocks, strict=True)
    return sum(there - free for (_, there), (_, free) in pairs)


def emptied(inbox: list[Any]) -> int:
    """How much has come; it is not kept here, either."""
    size = sum(len(arrived.data) for arrived in inbox)
    for arrived in inbox:
        arrived.data.clear()
    return size

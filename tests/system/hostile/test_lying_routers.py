"""Neighbours and edge routers that lie at length: nobody but them pays for it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from proton import Message

from tests.support.clients.inter_router_links import open_inter_router
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import Verdict
from tests.support.peer import Net
from tests.support.running import RunningRouter

HELLO, ALL = "amqp:/_local/qdhello", "amqp:/_topo/0/all/qdrouter"
MANY = 1000
VERSION = {"opcode": 1, "version": 1}


def base(name: str) -> dict[str, Any]:
    return {"id": name, "pv": 1, "area": "0", "instance": 1}


def crowds(router: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """One neighbour says that it is a thousand."""
    for number in range(MANY):
        yield HELLO, "HELLO", base(f"l{number}") | {"seen": [router]}


def maps(router: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """A network of more routers than there may be, most of which are neighbours of each other, and of us."""
    yield HELLO, "HELLO", base("liar") | {"seen": [router]}
    peers = {f"m{number}": 1 for number in range(120)} | {router: 1}
    for number in range(MANY):
        name = f"n{number}"
        yield ALL, "LSU", base(name) | {"ls_seq": 1, "ls": {"id": name, "area": "0", "ls_seq": 1, "peers": peers}}


def addresses(router: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Addresses come and go by the thousand, also of routers that nobody knows."""
    yield HELLO, "HELLO", base("liar") | {"seen": [router]}
    state = {"id": "liar", "area": "0", "ls_seq": 1, "peers": {router: 1}}
    yield ALL, "LSU", base("liar") | {"ls_seq": 1, "ls": state}
    for number in range(100):
        said = [f"M0hostile/{number}/{i}" for i in range(500)]
        what: dict[str, Any] = {"mobile_seq": 2 * number + 1, "add": said, "del": []}
        yield f"{ALL}.ma", "MAU", base("liar") | what
        yield f"{ALL}.ma", "MAU", base("liar") | {"mobile_seq": 2 * number + 2, "add": [], "del": said}
        yield f"{ALL}.ma", "MAU", base(f"nobody{number}") | what


def questions(router: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Requests whose answers are long."""
    yield HELLO, "HELLO", base("liar") | {"seen": [router]}
    for number in range(MANY):
        yield ALL, "LSR" if number % 2 else "MAR", base("liar") | {"have_seq": 0}


Lies = Callable[[str], Iterator[tuple[str, str, dict[str, Any]]]]


@pytest.mark.parametrize("lies", [crowds, maps, addresses, questions], ids=lambda lies: str(lies.__name__))
def test_a_neighbour_that_lies(attacked: RunningRouter, target: Target, lies: Lies) -> None:
    with Net(("", 0)) as net, Verdict(attacked):
        peer = net.peer(("127.0.0.1", target.neighbour))
        control, _ = open_inter_router(peer)
        for to, opcode, body in lies(target.router):
            net.until(lambda: control.credit > 0 or peer.closed, "credit for what routers say")
            message = Message(address=to, properties={"opcode": opcode}, body=body)
            net.send(control, message, settled=True)
            net.turn(0.0)
        net.turn(0.5)


def tracking(number: int) -> list[Any]:
    return [f"M0hostile/{number}", number % 2 == 0]


def noise(number: int) -> list[Any]:
    return ["x" * (number % 9)] * 99


EDGE = {"_$qd.edge_addr_tracking": tracking, "_$qd.addr_lookup": noise, "_$qd.edge_heartbeat": noise}


@pytest.mark.parametrize("to", EDGE)
def test_an_edge_router_that_lies(attacked: RunningRouter, target: Target, to: str) -> None:
    """Its addresses come and go, it asks what is no question, and its heartbeats are lists."""
    with Net(("", 0)) as net, Verdict(attacked):
        peer = net.peer(("127.0.0.1", target.edge))
        sender = peer.sender(to)
        for number in range(MANY):
            net.until(lambda: sender.credit > 0 or peer.closed, "credit")
            message = Message(address=to, reply_to=f"amqp:/_edge/x/{number}", properties=VERSION, body=EDGE[to](number))
            net.send(sender, message, settled=True)
            net.turn(0.0)
        net.turn(0.5)

"""What dies in a network while messages cross it: whatever was accepted, a receiver has accepted."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.clients.ledger import Clients, check
from tests.support.routers.network import NetworkRouter, kill
from tests.support.running import roles, until

GET_ON = 20  # messages accepted to each sender before and after what happens


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., NetworkRouter]]:
    """Starts routers, which end with the test."""
    routers: list[NetworkRouter] = []

    def begin(name: str, *others: NetworkRouter) -> NetworkRouter:
        routers.append(NetworkRouter(folder / name, *[one.routers_url for one in others]))
        return routers[-1]

    yield begin
    for router in routers:
        router.kill()


def acquainted(*routers: NetworkRouter) -> None:
    for router in routers:
        router.knows(*(other.id for other in routers))


class Crossing:
    """Senders at one router, receivers at another, on a balanced and a multicast address."""

    def __init__(self, a: NetworkRouter, b: NetworkRouter) -> None:
        self.receivers = Clients(b.url, [["receive=balanced", "receive=multicast"]])
        self.senders = Clients(a.url, [["send=balanced", "send=multicast"]])

    def get_on(self) -> None:
        before = self.senders.accepted()
        while len(before) < 2:
            before = self.senders.accepted()

        def more() -> bool:
            now = self.senders.accepted()
            return all(now.get(name, 0) >= count + GET_ON for name, count in before.items())

        until(more, "more messages accepted")

    def check(self) -> None:
        check(self.senders.finish() + self.receivers.finish(), at_least=2 * GET_ON)

    def __enter__(self) -> "Crossing":
        self.receivers.__enter__()
        self.senders.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.senders.__exit__(*error)
        self.receivers.__exit__(*error)


def core_of(router: NetworkRouter) -> int:
    """Its core's process id; 0 while there is none."""
    core = roles(router.process.pid).get("core")
    return core.pid if core else 0


def inter_routers(router: NetworkRouter) -> list[str]:
    """Numbers of its connections to other routers."""
    rows = router.stat("connections")
    return sorted(row["identity"] for row in rows if row["role"] == "inter-router")


@pytest.mark.parametrize("which", [0, 1])
def test_a_core_dies(start: Callable[..., NetworkRouter], which: int) -> None:
    """Its connections to other routers stay, the network is learned anew, and messages go on."""
    a = start("A")
    b = start("B", a)
    c = start("C", b)
    routers = [a, b, c]
    acquainted(*routers)
    with Crossing(a, c) as crossing:
        crossing.get_on()
        numbers = inter_routers(routers[which])
        old = core_of(routers[which])
        os.kill(old, signal.SIGKILL)
        until(lambda: core_of(routers[which]) not in (0, old), "the next core")
        crossing.get_on()
        until(lambda: inter_routers(routers[which]) == numbers, "the same connections")
        crossing.check()


def test_a_router_on_the_way_dies(start: Callable[..., NetworkRouter]) -> None:
    """There is another way, and it is taken."""
    a = start("A")
    b, d = start("B", a), start("D", a)
    c = start("C", b, d)
    acquainted(a, b, c, d)
    with Crossing(a, c) as crossing:
        crossing.get_on()
        kill(b)
        crossing.get_on()
        crossing.check()

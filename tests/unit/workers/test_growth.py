"""What a login, or a link that waits for its name, costs does not grow with how many others wait."""

from collections.abc import Callable
from typing import Any

import pytest

from shm.contract.payloads import OpenLink, Termini, Terminus
from tests.support.beds.effort import Effort
from workers.control.link_requests import LinkRequests
from workers.control.logins import Asked, Login, Queue

FEW, MANY = 250, 1000
SOME = 20  # operations that are counted
GROWTH = 1.25


class Taken:
    """Stands for the pump: a broker that answers no detach."""

    def taken(self, *_: object) -> bool:
        return True


def asked(number: int, hosts: int) -> Asked:
    return Asked(Login((number, 1), f"10.0.{number % hosts // 250}.{number % hosts % 250}:1", "PLAIN"), b"", 0.0)


def logins(n: int, hosts: int) -> dict[str, int]:
    queue = Queue()
    for number in range(n):
        queue.put(asked(number, hosts))
    with Effort() as put:
        for number in range(SOME):
            queue.put(asked(number, hosts))
    with Effort() as take:
        for _ in range(SOME):
            queue.take()
            queue.answer()
    return {"a question comes": put.lines, "a question is answered": take.lines}


def links(n: int, names: int) -> dict[str, int]:
    peer: Any = Taken()
    requests = LinkRequests(peer, peer, lambda *_: None)

    def wait(first: int, count: int) -> None:
        for number in range(first, first + count):
            termini = Termini(Terminus(), Terminus())
            assert requests.open_link(
                OpenLink(1, 1, number + 1, f"n{number % names}", True, None, None, 7, termini=termini)
            )

    wait(0, n)
    with Effort() as come:
        wait(n, SOME)
    with Effort() as poll:
        requests.step()
    return {"a link waits": come.lines, "a poll": poll.lines}


@pytest.mark.parametrize("waiting", [logins, links], ids=lambda waiting: str(waiting.__name__))
@pytest.mark.parametrize("alone", [False, True], ids=["of many", "of one"])
def test_one_costs_as_much_while_many_wait(waiting: Callable[[int, int], dict[str, int]], alone: bool) -> None:
    """Logins of as many hosts or of one; links of as many names or of one."""
    few, many = waiting(FEW, 1 if alone else FEW), waiting(MANY, 1 if alone else MANY)
    assert {name: (few[name], cost) for name, cost in many.items() if cost > few[name] * GROWTH} == {}

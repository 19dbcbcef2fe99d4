"""What a login, or a link that waits for its name, costs does not grow with how many others wait."""

import os
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from shm.contract.payloads import Endpoint, OpenLink, Termini, Terminus
from shm.contract.security import GroupSetup, PolicySetup, VhostSetup
from tests.support.beds.effort import Effort
from workers.control.link_requests import LinkRequests
from workers.control.logins import Asked, Login, Queue
from workers.control.lookup import POLL_SECONDS
from workers.control.policy import DeniedError, Policy
from workers.rmr.endpoints import LOOKUPS_MOST, PORTION, Endpoints

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


class Peering:
    """Endpoints whose names are found at once, and whose connections begin but do not open."""

    def __init__(self, n: int) -> None:
        self.now = 0.0
        self.endpoints = Endpoints(self.connect, lambda name: None, lambda endpoint: None, lambda: self.now, self.find)
        self.begun: list[Endpoint] = []
        for i in range(n):
            self.endpoints.take(Endpoint("t", f"t/h{i}:1", f"h{i}", 1))
        while len(self.begun) < n:
            before = len(self.begun)
            assert self.endpoints.wait(1.0) == 0.0
            self.endpoints.step()
            assert 0 < len(self.begun) - before <= PORTION

    def connect(self, endpoint: Endpoint, fd: int) -> tuple[int, int]:
        os.close(fd)
        self.begun.append(endpoint)
        return len(self.begun), 1

    def find(self, host: str, port: str) -> Any:
        return SimpleNamespace(done=True, addresses=[(socket.AF_INET, ("127.0.0.1", 9))], error="")


def endpoints(n: int) -> dict[str, int]:
    """One of them is lost, and tried again, while the others stay."""
    peering = Peering(n)
    with Effort() as idle:
        peering.endpoints.step()
        assert peering.endpoints.wait(1.0) == 1.0
    peering.endpoints.ended((n // 2, 1), "lost")
    assert peering.endpoints.wait(60.0) <= 1.0
    peering.now = 2.0
    with Effort() as retry:
        peering.endpoints.step()
    assert len(peering.begun) == n + 1
    return {"a round": idle.lines, "another attempt": retry.lines}


def policies(n: int) -> dict[str, int]:
    """Vhosts, groups of one with users and hosts of their own, and ranges of one group."""
    ranges = [(f"10.{i >> 8}.{i & 255}.1", f"10.{i >> 8}.{i & 255}.9") for i in range(n)]
    groups = [GroupSetup(f"g{i}", users=[f"u{i}"], hosts=ranges[i : i + 1]) for i in range(n)]
    groups += [GroupSetup("$default", hosts=ranges), GroupSetup("$connector")]
    vhosts = [VhostSetup(f"v{i}", aliases=[f"w{i}"]) for i in range(n)]
    vhosts.append(VhostSetup("crowd", allow_unknown_user=True, groups=groups))
    policy = Policy(PolicySetup(enforce=True, default_vhost="", vhosts=vhosts))
    i = n - 2
    found: dict[str, int] = {}
    for who, user in (("of a group", f"u{i}"), ("of none", "stranger")):
        with Effort() as effort:
            granted = policy.grant("crowd", user, f"10.{i >> 8}.{i & 255}.5")
        assert granted.admission is not None
        found[who] = effort.lines
        with Effort() as effort, pytest.raises(DeniedError):
            policy.grant("crowd", user, "10.255.0.0")
        found[f"{who}, elsewhere"] = effort.lines
    with Effort() as effort:
        policy.grant_connector("crowd")
    found["a connector"] = effort.lines
    patterns = [VhostSetup(f"*.v{i}.org", allow_unknown_user=True, groups=[GroupSetup("$default")]) for i in range(n)]
    policy = Policy(PolicySetup(enforce=True, default_vhost="", vhosts=patterns, patterns=True))
    with Effort() as effort:
        granted = policy.grant(f"a.v{i}.org", "", "10.0.0.1")
    assert granted.admission is not None
    found["a pattern"] = effort.lines
    with Effort() as effort, pytest.raises(DeniedError):
        policy.grant("a.b.org", "", "10.0.0.1")
    found["no pattern"] = effort.lines
    return found


@pytest.mark.parametrize("many", [endpoints, policies], ids=lambda many: str(many.__name__))
def test_one_costs_as_much_among_many(many: Callable[[int], dict[str, int]]) -> None:
    """Endpoints of route tables; the groups, hosts and vhosts of a policy."""
    few, more = many(FEW), many(MANY)
    assert {name: (few[name], cost) for name, cost in more.items() if cost > few[name] * GROWTH} == {}


def test_few_names_are_looked_up_at_a_time() -> None:
    """Each lookup takes a thread. The others follow as soon as some are done."""
    asked: list[Any] = []

    def look_up(*_: str) -> Any:
        asked.append(SimpleNamespace(done=False, addresses=[], error="no such host"))
        return asked[-1]

    wanted = Endpoints(lambda *_: None, lambda _: None, lambda _: None, lambda: 0.0, look_up)
    for i in range(2 * LOOKUPS_MOST):
        wanted.take(Endpoint("t", f"t/h{i}:1", f"h{i}", 1))
    for _ in range(4):
        wanted.step()
    assert len(asked) == LOOKUPS_MOST
    assert wanted.wait(1.0) == POLL_SECONDS
    wanted.take(Endpoint("t", "t/127.0.0.1:1", "127.0.0.1", 1))  # it needs no thread, and waits for no name
    wanted.step()
    assert len(asked) == LOOKUPS_MOST + 1
    asked.pop().done = True
    wanted.step()
    asked[3].done = True
    wanted.step()
    assert len(asked) == LOOKUPS_MOST + 1

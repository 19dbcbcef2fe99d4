"""What an event costs a worker's Python does not grow with how many others wait, are connected or are configured."""

import os
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from shm.contract.complaints import bursts
from shm.contract.control import ConnectorSetup, ListenerSetup
from shm.contract.ockam import OckamSetup
from shm.contract.payloads import Attached, Detach, Endpoint, OpenLink, RouteReach, Termini, Terminus
from shm.contract.security import GroupSetup, PolicySetup, VhostSetup
from shm.contract.source_routes import RouteWorkerSetup, SourceRoutesSetup, Stop
from tests.support.beds.effort import Effort
from workers.control.connectors import PORTION as DIALLED
from workers.control.connectors import Connectors
from workers.control.guard import Passed
from workers.control.link_requests import LinkRequests
from workers.control.logins import Asked, Login, Queue
from workers.control.policy import DeniedError, Policy
from workers.framed.framed import NAMES
from workers.ockam.connections import Ockam
from workers.rmr.endpoints import PORTION, Endpoints
from workers.source_routes.senders import Senders

FEW, MANY = 250, 1000
SOME = 20  # operations that are counted
GROWTH = 1.25


class Taken:
    """Stands for the pump: a broker that answers no detach."""

    def taken(self, *_: object) -> bool:
        return True

    def live(self, *_: object) -> bool:
        return False


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
            requests.open_link(OpenLink(1, 1, number + 1, f"n{number % names}", True, None, None, 7, termini=termini))

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

    def find(self, host: str, port: str, family: str) -> Any:
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


class Pumps:
    """Stands for all that connectors, Ockam connections and senders ask of a worker."""

    def __init__(self, setups: int) -> None:
        self.links = self.dialled_sockets = self.presented = 0
        self.now = 100.0
        self.terms = [OckamSetup(Stop(64, b"%d" % i, f"64#{i}")) for i in range(setups)]
        self.listeners = {i: ListenerSetup(f"l{i}", [], i, ockam=one) for i, one in enumerate(self.terms)}
        self.peers: dict[int, str] = {}
        self.numbers: dict[int, int] = {}
        self.passed: dict[int, Any] = {}
        self.dialled_by: dict[int, Any] = {}
        self.lines = bursts()
        self.messages = self.pump = self
        self.reach = b""

    def attach(self, index: int, number: int, which: int) -> tuple[int, int, int]:
        self.links += 1
        return index * len(NAMES) + which, 1, 250

    def number(self, index: int) -> int:
        return self.numbers.setdefault(index, index)

    def listener_of(self, index: int) -> int:
        return index % len(self.listeners)

    def peer(self, index: int) -> str:
        return f"10.0.0.1:{index}"

    def post(self, message: object, **names: int) -> None:
        self.presented += 1

    def add_place(self, *terms: object) -> int:
        return 3

    def dial(self, place: int, fd: int, *how: object) -> tuple[int, int]:
        os.close(fd)
        self.dialled_sockets += 1
        return self.dialled_sockets, 1

    def dialled(self, name: tuple[int, int], *_: object) -> int:
        return name[0]

    def connection_info(self, index: int) -> tuple[str, str, str, str, dict[str, Any], list[str], int]:
        return "c", "h", "", "", {}, [], 0

    def sender(self, *what: Any) -> None:
        self.reach = what[-1]

    def note(self, *_: object) -> None:
        """Another call that these tests do not look at."""

    serve = speak = greet = close = link_open = end_round = opened = set = note
    connector_state = certificates_due = protect = forget_sender = counts = note


def ockam_nodes(n: int) -> dict[str, int]:
    """They connect, at as many listeners, have a message, are presented to a new core, and go."""
    world: Any = Pumps(n)
    ockam = Ockam(world, world, world, world, world)
    world.uplink = world.note
    for place, one in world.listeners.items():
        ockam.listen(place, one)

    def came(connections: range) -> None:
        for index in connections:
            ockam.opened(index, 1)
            for link in (index * len(NAMES) + 1, index * len(NAMES) + 3):
                assert ockam.take(Attached(link, 1))

    came(range(n - SOME))
    found: dict[str, int] = {}
    with Effort() as effort:
        came(range(n - SOME, n))
    found["a node comes"] = effort.lines
    with Effort() as effort:
        for index in range(n - SOME, n):
            ockam.asked(index, index * len(NAMES) + 1, 1)
            assert not ockam.take(Detach(index * len(NAMES), 1)), "a link that is no node's"
    found["a message comes"] = effort.lines
    before = world.presented
    with Effort() as effort:
        for index in range(n - SOME, n):
            ockam.present(index, 1)
            ockam.link_present(index * len(NAMES) + 1, 1)
            ockam.link_present(index * len(NAMES) + 3, 1)
    assert world.presented == before + 3 * SOME
    found["a node is presented"] = effort.lines
    with Effort() as effort:
        for index in range(n - SOME, n):
            ockam.gone(index, 1, True, "")
    found["a node goes"] = effort.lines
    return found


def connectors(n: int) -> dict[str, int]:
    """One of them loses its connection, while the others are connected, and then while the others wait."""
    world: Any = Pumps(1)
    all_of_them = Connectors(world, world, world, world, lambda: world.now)
    all_of_them.change([ConnectorSetup(f"c{i}", i, ["127.0.0.1:9"]) for i in range(n)])
    while world.dialled_sockets < n:
        before = world.dialled_sockets
        assert all_of_them.wait(1.0) == 0.0
        all_of_them.step()
        assert 0 < world.dialled_sockets - before <= DIALLED
    for i in range(n):
        all_of_them.opened(i, (i + 1, 1), {}, "")
    found: dict[str, int] = {}
    name = n
    for others in ("are connected", "wait"):
        with Effort() as effort:
            all_of_them.ended(n - 1, (name, 1), True, None)
            all_of_them.step()
            assert 0.0 < all_of_them.wait(60.0) <= 2.0
        found[f"it is lost while others {others}"] = effort.lines
        world.now += 2.0
        with Effort() as effort:
            all_of_them.step()
        name = world.dialled_sockets
        assert name > n
        found[f"it is dialled while others {others}"] = effort.lines
        world.now += 1.0
        all_of_them.opened(n - 1, (name, 1), {}, "")
        for i in range(n - 1):
            all_of_them.ended(i, (i + 1, 1), True, None)
    return found


def senders(n: int) -> dict[str, int]:
    """Anonymous senders under vhost policy that may reach two of so many route workers."""
    world: Any = Pumps(1)
    world.passed[1] = Passed("u", True, False, "", "", 0, admission=object())  # type: ignore[arg-type]  any policy
    world.accepted = {1: world.listeners[0]}
    all_of_them = Senders(world, world)
    workers = [RouteWorkerSetup(f"w{i}", "forward", Stop(0, b"%d" % i, f"stop.{i}")) for i in range(n)]
    all_of_them.configure(SourceRoutesSetup(on=True, workers=workers))
    for link in range(n):
        all_of_them.reached(RouteReach(link, 1, ["stop.1", "stop.2"]))
    with Effort() as effort:
        for link in range(SOME):
            all_of_them.asked(1, link, 1, False, None)
            assert world.reach == b"\0\1\1".ljust(n, b"\0")
    with Effort() as goes:
        for link in range(SOME):
            all_of_them.gone(link, 1)
    return {"a sender's first message": effort.lines, "a sender goes": goes.lines}


@pytest.mark.parametrize(
    "many", [endpoints, policies, ockam_nodes, connectors, senders], ids=lambda many: str(many.__name__)
)
def test_one_costs_as_much_among_many(many: Callable[[int], dict[str, int]]) -> None:
    """Endpoints of route tables, groups of a policy, Ockam nodes, connectors, senders to route workers."""
    few, more = many(FEW), many(MANY)
    assert {name: (few[name], cost) for name, cost in more.items() if cost > few[name] * GROWTH} == {}

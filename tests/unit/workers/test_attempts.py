"""When attempts to connect begin, and how many names are looked up for them at a time."""

import os
import socket
from dataclasses import dataclass
from typing import Any

import pytest

from shm.contract.control import ConnectorSetup
from shm.contract.payloads import Endpoint
from workers.control.attempts import LOOKUPS_MOST, Attempt, Attempts
from workers.control.connectors import Connectors
from workers.control.lookup import POLL_SECONDS
from workers.rmr.endpoints import Endpoints

PORTION = 4


@dataclass
class Found:
    """A lookup that ends when a test says so."""

    host: str
    port: str
    family: str
    done: bool = False
    error: str = "no such host"
    addresses: tuple[Any, ...] = ()


class To(Attempt):
    """A host."""

    def __init__(self, host: str) -> None:
        self.host = host

    @property
    def asked(self) -> tuple[str, str, str]:
        return self.host, "5672", ""


class World(Attempts[To]):
    """Attempts whose time and lookups are the test's."""

    def __init__(self) -> None:
        super().__init__(lambda: self.now, self.look_up, PORTION)
        self.now = 100.0
        self.lookups: list[Found] = []
        self.found: list[To] = []

    def look_up(self, *asked: str) -> Any:
        self.lookups.append(Found(*asked))
        return self.lookups[-1]

    def _found(self, one: To, lookup: Any) -> None:
        assert lookup.host == one.host
        self.found.append(one)

    def plan(self, host: str, after: float = 0.0) -> To:
        self._plan(one := To(host), self.now + after)
        return one

    give_up = Attempts._give_up


def test_an_attempt_begins_when_it_is_due() -> None:
    """The worker sleeps as long as nothing is."""
    world = World()
    assert world.wait(60.0) == 60.0
    one = world.plan("far", after=3.0)
    assert world.wait(60.0) == 3.0
    world.step()
    assert world.lookups == []
    world.now += 3.0
    assert world.wait(60.0) == 0.0
    world.step()
    assert (world.wait(60.0), one.due) == (POLL_SECONDS, None)
    world.lookups[0].done = True
    world.step()
    assert (world.found, one.lookup, world.wait(60.0)) == ([one], None, 60.0)


def test_lookups_that_nobody_waits_for_have_their_threads() -> None:
    """They count as long as the name service takes: else each change of what is wanted would begin as many anew."""
    world = World()
    for number in range(3 * LOOKUPS_MOST):
        one = world.plan(f"far{number}")
        world.step()
        world.give_up(one)
    assert len(world.lookups) == LOOKUPS_MOST
    world.plan("last")
    world.step()
    assert world.wait(60.0) == POLL_SECONDS
    world.lookups[0].done = True
    world.step()
    assert [lookup.host for lookup in world.lookups[LOOKUPS_MOST:]] == ["last"]
    assert world.found == []


def test_the_last_plan_counts() -> None:
    world = World()
    one = world.plan("far", after=1.0)
    world._plan(one, world.now + 2.0)
    world.now += 1.5
    world.step()
    assert world.lookups == []
    world.now += 0.5
    world.step()
    assert len(world.lookups) == 1


def test_others_have_their_turn_after_a_portion() -> None:
    """Of attempts that begin, and of lookups that have ended."""
    world = World()
    for number in range(3 * PORTION):
        world.plan(f"h{number}")
    for rounds in range(1, 4):
        world.step()
        assert len(world.lookups) == rounds * PORTION
    for lookup in world.lookups:
        lookup.done = True
    for rounds in range(1, 4):
        world.step()
        assert len(world.found) == rounds * PORTION


def test_what_is_given_up_is_not_looked_up_and_not_found() -> None:
    """Whether it waits, waits for a thread, or is looked up."""
    world = World()
    hosts = [world.plan(f"h{number}") for number in range(LOOKUPS_MOST + 2)]
    later = world.plan("later", after=1.0)
    while world.wait(1.0) == 0.0:
        world.step()
    assert len(world.lookups) == LOOKUPS_MOST
    for one in (hosts[0], hosts[-1], later):
        world.give_up(one)
    for lookup in world.lookups[:2]:
        lookup.done = True
    world.now += 1.0
    world.step()
    world.step()
    assert world.found == [hosts[1]]
    assert [lookup.host for lookup in world.lookups[LOOKUPS_MOST:]] == [hosts[-2].host]


def test_none_begins_behind_a_stop() -> None:
    world = World()
    world.plan("far")
    world.stop()
    world.step()
    assert (world.lookups, world.wait(60.0)) == ([], 60.0)


class Owner:
    """All that connectors and endpoints tell is welcome."""

    def __getattr__(self, _: str) -> Any:
        return lambda *_: None


def connectors(look_up: Any) -> Any:
    owner: Any = Owner()
    owner.add_place = lambda *_: 1
    made = Connectors(owner, owner, owner, owner, lambda: 0.0, look_up)
    hosts = [f"h{number}:5672" for number in range(2 * LOOKUPS_MOST)] + ["127.0.0.1:5672"]
    made.change(ConnectorSetup(f"c{number}", number, [host]) for number, host in enumerate(hosts))
    return made


def endpoints(look_up: Any) -> Any:
    owner: Any = Owner()
    made = Endpoints(owner.connect, owner.hang_up, owner.failed, lambda: 0.0, look_up)
    for host in [f"h{number}" for number in range(2 * LOOKUPS_MOST)] + ["127.0.0.1"]:
        made.take(Endpoint("t", f"t/{host}:1", host, 1))
    return made


@pytest.mark.parametrize("many", [connectors, endpoints])
def test_few_names_are_looked_up_at_a_time(many: Any) -> None:
    """Each lookup takes a thread. An address needs none, and the other names follow as soon as some are done."""
    asked: list[Found] = []

    def look_up(*names: str) -> Found:
        asked.append(Found(*names, done=names[0] == "127.0.0.1"))
        return asked[-1]

    made = many(look_up)
    while made.wait(1.0) == 0.0:
        made.step()
    assert len(asked) == LOOKUPS_MOST + 1
    asked[3].done = True
    made.step()
    made.step()
    assert len(asked) == LOOKUPS_MOST + 2


def test_an_endpoint_is_dialled_at_no_other_address_behind_a_stop() -> None:
    """The worker would wait in vain for its last connection to end."""
    dialled: list[int] = []

    def connect(_: Endpoint, fd: int) -> tuple[int, int]:
        os.close(fd)
        dialled.append(fd)
        return len(dialled), 1

    def look_up(host: str, port: str, family: str) -> Any:
        return Found(host, port, family, True, addresses=((socket.AF_INET, ("127.0.0.1", 9)),) * 2)

    owner: Any = Owner()
    made = Endpoints(connect, owner.hang_up, owner.failed, lambda: 0.0, look_up)
    made.take(Endpoint("t", "t/h:1", "h", 1))
    made.step()
    made.stop()
    made.ended((1, 1), "Connection refused")
    assert len(dialled) == 1

"""A link that goes while many texts of its messages wait, or with many deliveries: all are looked up or ended in
portions, and nothing overtakes."""

import struct

import pytest

from bench import contract as n
from bench.contract import C_ATTACH, C_CONNECTION_OPENED, C_DETACH
from core.forwarder.forward import CONTROL, HELD, NOTHING, UNKNOWN
from core.process.router import PORTION
from shm.contract.control import WorkerGone
from shm.contract.payloads import Attach, ConnectionOpened, Detach
from shm.statistics.stats import COUNTERS
from tests.support.beds.control import Bed

TEXTS = 100
HEADER = 128 + 16  # bytes between the map and the first content header of a message without annotations
LINK = 3


class Going(Bed):
    """A core whose one worker has an anonymous link; ``learned`` are the texts that were looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.learned: list[bytes] = []
        learn = self.core.addresses.learn
        self.core.addresses.learn = lambda text, *more: (self.learned.append(text), learn(text, *more))[1]  # type: ignore[method-assign, assign, func-returns-value]  # it is watched
        self.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "c", "h:1"))
        self.say(C_ATTACH, Attach(LINK, 1, 0, "l", False, None))
        self.step()

    def send(self, text: bytes, peer: int) -> None:
        """A presettled message to a text."""
        block = self.arena.write(text)
        assert block is not None
        small, large = self.arena.blocks
        at = 4096 + (small + large + 4095) // 4096 * 4096 + block * 512 + HEADER
        struct.pack_into("=II", self.memory.arenas[0], at + 16, 0, len(text))
        fields = {"flags": n.F_COMPLETE | n.F_SETTLED, "link": LINK, "link_gen": 1, "block": block, "peer": peer}
        self.act(type=n.A_DELIVER, time=1, length=len(text), **fields)

    def goes(self) -> None:
        """It sends much, detaches, and another link takes its place."""
        for number in range(TEXTS):
            self.send(b"new.%d" % number, 0)
        self.say(C_DETACH, Detach(LINK, 1))
        self.say(C_ATTACH, Attach(LINK, 2, 0, "next", False, "a"))


@pytest.fixture
def going() -> Going:
    bed = Going()
    bed.goes()
    return bed


def test_the_texts_of_a_link_that_goes_are_looked_up_in_portions(going: Going) -> None:
    """Other workers have their turns between them; the link that comes next waits for the last one."""
    core = going.core
    while (stop := core.forwarder.step(1)) != CONTROL:
        core._handle(stop)
    portions, before = [], len(going.learned)
    while stop != NOTHING:
        assert stop in (CONTROL, HELD, UNKNOWN)
        core._handle(stop)
        portions.append(len(going.learned) - before)
        before = len(going.learned)
        link = core.links.find(0, LINK, 2)
        assert (link is None) or len(going.learned) == TEXTS
        stop = core.forwarder.step(1)
    assert going.learned == [b"new.%d" % number for number in range(TEXTS)]
    assert max(portions) <= PORTION
    assert core.links.find(0, LINK, 1) is None
    assert core.links.find(0, LINK, 2) is not None
    assert going.stats.get(COUNTERS["dropped_presettled"].place) == TEXTS


def test_a_worker_that_dies_meanwhile_is_reclaimed(going: Going) -> None:
    core = going.core
    while (stop := core.forwarder.step(1)) != HELD:
        core._handle(stop)
    core.worker_gone(WorkerGone(0, 1), 1)
    assert core.forwarder.step(1) == NOTHING
    assert len(going.learned) == TEXTS
    assert core.links.find(0, LINK, 2) is None
    assert core.forwarder.counts()["incoming"] == 0


COPIES = 3000
PORTIONS = [2048, 952]  # of these


@pytest.fixture
def leaving() -> Going:
    """A core whose worker has detached a receiver, and has not answered for messages that were sent to it."""
    bed = Going()
    bed.say(C_ATTACH, Attach(LINK + 1, 1, 0, "receiver", True, "a"))
    bed.say(C_ATTACH, Attach(LINK + 2, 1, 0, "sender", False, "a"))
    bed.step()
    block = bed.arena.write(b"x")  # of all of them: nobody reads it
    for number in range(COPIES):
        fields = {"link": LINK + 2, "link_gen": 1, "block": block, "peer": number + 1}
        bed.act(type=n.A_DELIVER, flags=n.F_COMPLETE, time=1, length=1, **fields)
        if number % 100 == 99:
            assert len(bed.step()) >= 100
    bed.say(C_DETACH, Detach(LINK + 1, 1))
    bed.say(C_ATTACH, Attach(LINK + 1, 2, 0, "next", True, "a"))
    return bed


def test_the_deliveries_of_a_link_that_goes_are_ended_in_portions(leaving: Going) -> None:
    """Nothing is sent to it meanwhile, and the link that comes next waits for the last one."""
    core = leaving.core
    portions, before = [], core.forwarder.counts()["outgoing"]
    assert before == COPIES
    while (stop := core.forwarder.step(1)) != NOTHING:
        assert stop in (CONTROL, HELD)
        core._handle(stop)
        left = core.forwarder.counts()["outgoing"]
        if left != before:
            portions.append(before - left)
        assert core.links.find(0, LINK + 1, 2) is None or left == 0
        before = left
    assert portions == PORTIONS
    assert core.links.find(0, LINK + 1, 1) is None
    assert core.links.find(0, LINK + 1, 2) is not None
    assert sum(r["type"] == n.W_UPDATE and r["state"] == n.S_RELEASED for r in leaving.heard()) == COPIES


def test_a_worker_that_dies_before_its_deliveries_are_ended_is_reclaimed(leaving: Going) -> None:
    core = leaving.core
    while (stop := core.forwarder.step(1)) != HELD:
        assert stop == CONTROL
        core._handle(stop)
    assert 0 < core.forwarder.counts()["outgoing"] < COPIES
    core.worker_gone(WorkerGone(0, 1), 1)
    assert core.forwarder.step(1) == NOTHING
    assert core.links.find(0, LINK + 1, 2) is None
    assert core.forwarder.counts()["outgoing"] == core.forwarder.counts()["incoming"] == 0

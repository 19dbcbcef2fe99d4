"""Deliveries that a worker names by its own handles: a search costs the same however many there are."""

import time

import pytest

from bench import contract as n
from core.forwarder.link_terms import LinkTerms
from shm.statistics.stats import COUNTERS
from tests.support.beds.forwarding import SENDER, Bed

FEW, MANY = 1000, 4000
STALE = COUNTERS["stale_records"][0]


class Crowd(Bed):
    """A sender with credit for thousands, and a receiver that takes as many."""

    def __init__(self) -> None:
        super().__init__()
        self.forwarder.add_link(SENDER, 2, 1, LinkTerms(False, self.address, 10 * MANY))

    def wait(self, number: int) -> None:
        """So many deliveries wait; the worker's handle of each is its number."""
        block = self.arena.write(b"x")
        assert block is not None
        for peer in range(1, number + 1):
            fields = {"link": 2, "link_gen": 1, "priority": 4, "length": 1, "time": 1}
            assert self.actions[SENDER].push(
                n.pack(type=n.A_DELIVER, flags=n.F_COMPLETE, block=block, peer=1 << 32 | peer, **fields)
            )
        self.turn()

    def turn(self) -> None:
        self.actions[SENDER].publish()
        self.step()
        for worker in self.work:
            while worker.pop() is not None:
                pass
            worker.give_back()

    def settle(self, peers: range) -> float:
        """The sender settles them, in this order; the seconds of it."""
        for peer in peers:
            fields = {"flags": n.F_IN | n.F_SETTLED, "link": 2, "link_gen": 1, "peer": 1 << 32 | peer}
            assert self.actions[SENDER].push(n.pack(type=n.A_UPDATE, **fields))
        self.actions[SENDER].publish()
        began = time.process_time()
        self.step()
        took = time.process_time() - began
        self.turn()
        return took


def cost(number: int) -> float:
    """Seconds for each of so many, of three runs the best."""
    took = []
    for _ in range(3):
        bed = Crowd()
        bed.wait(number)
        took.append(bed.settle(range(number, 0, -1)) / number)
        assert bed.stats.get(STALE) == 0
    return min(took)


def test_settling_costs_the_same_among_many() -> None:
    """The newest first, which a list of the oldest ones would find last."""
    assert cost(MANY) < 2 * cost(FEW)


@pytest.mark.parametrize("newest_first", [False, True])
def test_each_is_found_once(newest_first: bool) -> None:
    """Those that were there before the first search, and those that came later in the same places of the worker's."""
    bed = Crowd()
    for _ in range(3):
        bed.wait(10)
        bed.settle(range(10, 0, -1) if newest_first else range(1, 11))
    assert bed.stats.get(STALE) == 0
    bed.settle(range(1, 11))
    assert bed.stats.get(STALE) == 10

"""Deliveries that a worker names by its own handles."""

import pytest

from bench import contract as n
from core.forwarder.link_terms import LinkTerms
from shm.statistics.stats import COUNTERS
from tests.support.beds.forwarding import SENDER, Bed

STALE = COUNTERS["stale_records"][0]


class Crowd(Bed):
    """A sender with credit for more than it sends, and a receiver that takes as many."""

    def __init__(self) -> None:
        super().__init__()
        self.forwarder.add_link(SENDER, 2, 1, LinkTerms(False, self.address, 100))

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

    def settle(self, peers: range) -> None:
        """The sender settles them, in this order."""
        for peer in peers:
            fields = {"flags": n.F_IN | n.F_SETTLED, "link": 2, "link_gen": 1, "peer": 1 << 32 | peer}
            assert self.actions[SENDER].push(n.pack(type=n.A_UPDATE, **fields))
        self.turn()


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

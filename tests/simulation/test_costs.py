"""The cost of a connection between routers: whose counts, and what follows when it changes."""

from typing import Any

import pytest

from bench.contract import C_COST
from core.interior.inter_router import reported_cost
from shm import native as n
from shm.contract.payloads import ConnectionOpened, Cost
from shm.statistics.stats import COUNTERS
from tests.model.internet import join
from tests.model.sites import Packet
from tests.support.beds.internet import check_rest, line, receiver, sender, sent


@pytest.mark.parametrize(
    ("said", "cost"), [(9, 9), (2**31 - 1, 2**31 - 1), (2**31, 0), (0, 0), (-5, 0), ("9", 0), (True, 0), (None, 0)]
)
def test_what_a_peers_open_says(said: Any, cost: int) -> None:
    """Nonsense is no cost."""
    properties = {} if said is None else {"qd.inter-router-cost": said}
    assert reported_cost(ConnectionOpened(1, 1, "P", "host:1", properties=properties)) == cost


def test_another_cost_of_one_end_counts_at_both() -> None:
    """While the connection stays: up and down again."""
    net = line("A", "B", "C")
    ends = join(net["A"], net["C"], cost=5)
    net.run(6)
    far = receiver(net, "C", "closest.x")
    link = sender(net, "A", "closest.x")

    def costs() -> list[int | None]:
        rows = [(net[one].network_adapter.network.nodes(), other) for one, other in ("AC", "CA")]
        return [next(row["cost"] for row in row_of if row["id"] == other) for row_of, other in rows]

    page = n.StatsPage(net["A"].memory.control, n.stats_offset(1))
    changes = page.get(COUNTERS["ways_changed"].place)
    for number, (site, end, cost, way) in enumerate([("A", 0, 1, 2), ("C", 1, 1, 1), ("C", 1, 7, 2), ("C", 1, 1, 1)]):
        net[site].control(C_COST, Cost(ends[end], 1, cost))
        net.settle()
        net.run(1)
        assert costs() == [way, way]
        sent(net, net["A"], link, Packet(number))
        assert far.got[-1].number == number
        assert far.got[-1].trace == (("0/A", "0/B") if way == 2 else ("0/A",))
    changed = page.get(COUNTERS["topology_changed"].place)
    assert changed == net["A"].network_adapter.network.nodes()[0]["lastTopoChange"] > 0
    assert page.get(COUNTERS["ways_changed"].place) >= changes + 3, "all but the first change another way"
    check_rest(net)

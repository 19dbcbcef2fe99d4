"""What an interior router tells many edge routers, and which silent ones it closes, whatever one client does."""

import pytest

from bench.contract import A_DONE, C_DETACH
from core.edge.downlinks import POLL_NS, PORTION, SILENCE_NS, SILENT, Downlinks
from core.links.waiting import WAITING_BYTES
from shm.contract.payloads import Close, Detach
from tests.support.beds.crowd import Crowd
from tests.unit.core.process.test_growth import attach, edge_links, opened, rest, setup

EDGES = PORTION + 16  # a report to all of them takes more than a portion
FLAPPER = 9000  # a connection and links
TURN_NS = POLL_NS // 10
TRACKING_LINK = 1  # of the first edge router
REPORTS = 40


class Flapping(Crowd):
    """Edge routers all send to an address, each to another one, too; the first one's receiver comes or goes each turn.

    The edge routers send no heartbeats.
    """

    def __init__(self) -> None:
        super().__init__(setup("interior"))
        self.downlinks = self.core.plane(Downlinks)
        self.do(opened(i, f"edge{i}", "edge") for i in range(EDGES))
        self.do(event for i in range(EDGES) for event in edge_links(i))
        self.do(attach(4 * EDGES + i, i, False, "hot") for i in range(EDGES))
        self.do([opened(FLAPPER, "flapper")])
        rest(self)
        self.told.clear()
        self._next, self._there = FLAPPER, False

    def flap(self, turns: int) -> None:
        for _ in range(turns):
            self.now += TURN_NS
            if self._there:
                self.do([(C_DETACH, Detach(self._next, 1))])
                self._next += 1
            else:
                self.do([attach(self._next, FLAPPER, True, "hot")])
            self._there = not self._there


@pytest.fixture
def flapping() -> Flapping:
    return Flapping()


def test_silent_edge_routers_are_closed_while_a_receiver_comes_and_goes(flapping: Flapping) -> None:
    flapping.flap((SILENCE_NS + 2 * POLL_NS) // TURN_NS)
    closed = [one.connection for one in flapping.told if isinstance(one, Close) and one.error == SILENT]
    assert sorted(closed) == list(range(EDGES))


def test_each_key_is_polled_while_a_receiver_comes_and_goes(flapping: Flapping) -> None:
    """A subscriber in the core is a receiver of which nobody tells the plane."""
    flapping.flap(1)
    for i in range(EDGES):
        flapping.core.local.listen(f"beyond.{i}", lambda *_: None)
    flapping.flap(3 * EDGES)
    edges = flapping.downlinks._edges
    assert [i for i in range(EDGES) if f"M0beyond.{i}" not in edges[0, i].reported] == []


def test_a_report_that_finds_no_room_is_sent_by_a_later_poll() -> None:
    """A client that takes nothing fills what may wait; an edge router that takes its reports gets each of them."""
    crowd = Crowd(setup("interior"))
    downlinks = crowd.core.plane(Downlinks)
    crowd.do([opened(0, "edge0", "edge"), *edge_links(0), opened(1, "client"), attach(FLAPPER, 1, True, "stuck")])
    crowd.do(attach(100 + i, 0, False, f"a.{i}") for i in range(REPORTS))
    rest(crowd)
    for size in (WAITING_BYTES // 50, 1):
        while crowd.core.local.send("stuck", b"x" * size):
            pass
    crowd.do([])
    crowd.sent.clear()
    for i in range(REPORTS):
        crowd.say(*attach(1000 + i, 1, True, f"a.{i}"))
    got = 0
    for _ in range(REPORTS):
        crowd.now += POLL_NS
        crowd.core.step(crowd.now)
        rest(crowd)
        assert not downlinks.restless  # it waits for the next poll
        crowd._heard()
        for one in crowd.sent:
            if one["link"] == TRACKING_LINK:
                got += 1
                crowd.act(type=A_DONE, delivery=one["peer"])
        crowd.sent.clear()
    assert got == REPORTS

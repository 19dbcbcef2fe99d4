"""What an interior router tells many edge routers, and which silent ones it closes, whatever one client does."""

import pytest

from bench.contract import A_DONE, C_ATTACH, C_DETACH
from core.edge import words
from core.edge.downlinks import POLL_NS, PORTION, SILENCE_NS, SILENT, Downlinks
from core.edge.place import TRACKING
from core.links.local import LENT_TO_ONE
from core.links.waiting import WAITING_BYTES
from shm.contract.failures import failures
from shm.contract.payloads import Attach, Close, Detach
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
    flapping.flap(6 * EDGES)
    edges = flapping.downlinks._edges
    reports = [edges[0, i].reported.get(f"M0beyond.{i}") for i in range(EDGES)]
    assert [i for i, one in enumerate(reports) if one is None or not one.reached] == []


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


class Tracked(Crowd):
    """An edge router with senders to some addresses, to each of which a client has a receiver, or none."""

    def __init__(self) -> None:
        super().__init__(setup("interior"))
        self.do([opened(0, "edge0", "edge"), *edge_links(0), opened(1, "client")])
        self.do(attach(100 + i, 0, False, f"a.{i}") for i in range(REPORTS))
        rest(self)
        self.generation = 1  # of the tracking link
        self.sent.clear()

    def receive(self) -> None:
        self.do(attach(1000 + i, 1, True, f"a.{i}") for i in range(REPORTS))
        rest(self)

    def receive_no_more(self) -> None:
        self.do((C_DETACH, Detach(1000 + i, 1)) for i in range(REPORTS))
        rest(self)

    def track_anew(self) -> None:
        """The edge router's link for reports goes with all that it has not taken, and another one comes."""
        self.do([(C_DETACH, Detach(TRACKING_LINK, self.generation))])
        self.sent.clear()
        self.generation += 1
        self.do([(C_ATTACH, Attach(TRACKING_LINK, self.generation, 0, "again", True, TRACKING))])

    def take(self) -> dict[str, bool]:
        """Let the edge router take all reports, for some seconds; the last one of each key."""
        found: dict[str, bool] = {}
        for _ in range(REPORTS):
            self.now += POLL_NS
            self.core.step(self.now)
            rest(self)
            for one in self.sent:
                if one["link"] == TRACKING_LINK:
                    key, reached = words.tracked(self.core_arena.read(one["block"]))
                    found[key] = reached
                    self.act(type=A_DONE, delivery=one["peer"])
            self.sent.clear()
        return found


@pytest.mark.parametrize("reached", [True, False])
def test_reports_that_were_lost_with_their_link_come_again(reached: bool) -> None:
    """Some were on their way, others waited; whether they said that there are receivers, or that there are none."""
    crowd = Tracked()
    crowd.receive()
    if not reached:
        assert len(crowd.take()) == REPORTS
        crowd.receive_no_more()
    assert len([one for one in crowd.sent if one["link"] == TRACKING_LINK]) == LENT_TO_ONE < REPORTS
    crowd.track_anew()
    assert crowd.take() == {f"M0a.{i}": reached for i in range(REPORTS)}
    assert crowd.take() == {}


def test_a_failed_report_leaves_the_others_and_is_repeated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    crowd, before, tracking = Tracked(), failures.number, words.tracking

    def fail(key: str, *what: bool) -> bytes:
        if key == "M0a.3":
            raise RuntimeError("a fault of ours")
        return tracking(key, *what)

    with monkeypatch.context() as context:
        context.setattr(words, "tracking", fail)
        crowd.receive()
        assert set(crowd.take()) == {f"M0a.{i}" for i in range(REPORTS) if i != 3}
    assert failures.number > before
    assert "reporting to edge router 'edge0' at h0:1 who receives from M0a.3 failed: RuntimeError" in caplog.text
    assert crowd.take() == {"M0a.3": True}

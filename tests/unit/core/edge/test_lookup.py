"""Attaches that wait for an interior router's answer which does not come any more."""

import pytest

from bench.contract import C_ATTACH, C_CONNECTION_OPENED, C_DETACH
from core.edge import lookup, words
from core.edge.lookup import PORTION
from core.edge.place import LOOKUP
from core.links.connections import Hop
from core.process.contained import CLOSED
from shm.contract.payloads import Attach, Attached, Close, ConnectionOpened, Detach
from tests.support.beds.edge_router import UPLINKS, EdgeRouter, client

OTHER = 2  # a connection
WAITING = 4 * PORTION


@pytest.fixture
def edge() -> EdgeRouter:
    """Links of a client wait, the last one is another client's; questions have just ended."""
    edge = EdgeRouter()
    edge.do([edge.open(UPLINKS), (C_CONNECTION_OPENED, ConnectionOpened(OTHER, 1, "other", "h:3", number=OTHER))])
    edge.do(edge.answer())
    edge.do(client(i, True, f"a.{i}") for i in range(WAITING))
    edge.do([(C_ATTACH, Attach(WAITING, 1, OTHER, "last", True, "a.last"))])
    edge.told.clear()
    edge.do([(C_DETACH, Detach(edge.find(LOOKUP), 1))])
    return edge


def accepted(edge: EdgeRouter) -> list[int]:
    while edge.uplink.restless:
        edge.core.step(edge.now)
    edge._heard()
    return [one.link for one in edge.told if isinstance(one, Attached) and one.error is None]


def test_they_are_decided_in_their_order(edge: EdgeRouter) -> None:
    assert accepted(edge) == list(range(WAITING + 1))


def test_a_link_that_goes_meanwhile_is_not_attached(edge: EdgeRouter) -> None:
    edge.do([(C_DETACH, Detach(WAITING - 1, 1))])
    assert accepted(edge) == [*range(WAITING - 1), WAITING]


def test_an_answer_that_comes_late_decides_nothing(edge: EdgeRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next uplink may not have what the former one had."""
    number = next(reversed(edge.uplink.lookup._waiting))
    monkeypatch.setattr(words, "answered", lambda _: words.Answer(number, True, True))
    edge.uplink.lookup._answered(b"", 0)
    assert accepted(edge) == list(range(WAITING + 1))


def test_a_failure_at_one_closes_its_connection_alone(edge: EdgeRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    decide = edge.core.attaches.decide

    def fail(worker: int, attach: Attach, connection: ConnectionOpened, beyond: Hop | None, reached: bool) -> None:
        if attach.link == WAITING:
            raise RuntimeError("a fault of ours")
        decide(worker, attach, connection, beyond, reached)

    monkeypatch.setattr(edge.core.attaches, "decide", fail)
    assert accepted(edge) == list(range(WAITING))
    assert [(one.connection, one.error) for one in edge.told if isinstance(one, Close)] == [(OTHER, CLOSED)]


def test_a_connection_has_a_share_of_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """For further links of it this router decides at once; another one's wait, and each that goes makes room."""
    monkeypatch.setattr(lookup, "MOST_OF_ONE", WAITING)
    edge = EdgeRouter()
    edge.do([edge.open(UPLINKS), (C_CONNECTION_OPENED, ConnectionOpened(OTHER, 1, "other", "h:3", number=OTHER))])
    edge.do(edge.answer())
    edge.do(client(i, True, f"a.{i}") for i in range(WAITING + 5))
    assert edge.lookups() == WAITING
    assert [one.link for one in edge.told if isinstance(one, Attached)] == list(range(WAITING, WAITING + 5))
    edge.do([(C_ATTACH, Attach(1000, 1, OTHER, "last", True, "a.last"))])
    assert edge.lookups() == WAITING + 1
    edge.do([(C_DETACH, Detach(3, 1)), client(2000, True, "a.late"), client(2001, True, "a.later")])
    assert edge.lookups() == WAITING + 1
    edge.do([(C_DETACH, Detach(edge.find(LOOKUP), 1))])
    assert {*accepted(edge)} >= {0, 1, 2, 1000, 2000, 2001}
    assert not edge.uplink.lookup._of_one

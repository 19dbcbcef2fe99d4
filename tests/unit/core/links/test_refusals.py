"""Links that are refused: which reason is counted, and what the log says."""

import logging
from typing import cast

import pytest

from bench.contract import C_ATTACH, C_CONNECTION_CLOSED, C_CONNECTION_OPENED
from core.forwarder.forward import Forwarder
from core.links.refusals import Refusals
from shm.contract.complaints import LINE_BURST
from shm.contract.payloads import Attach, ConnectionClosed, ConnectionOpened, Error
from shm.statistics.stats import COUNTERS
from tests.support.beds.control import Bed


class Counting:
    """What the forwarder was told to count."""

    def __init__(self) -> None:
        self.counted: list[int] = []

    def count(self, index: int) -> None:
        self.counted.append(index)


@pytest.mark.parametrize(
    ("condition", "beyond", "counter", "said"),
    [
        ("amqp:not-found", False, "refused_unavailable", "refused"),
        ("qd:no-route-to-dest", False, "refused_unavailable", "refused"),
        ("qd:connection-role", False, "refused_roles", "refused"),
        ("qd:forbidden", False, "refused_roles", "refused"),
        ("amqp:resource-limit-exceeded", False, "refused_limits", "refused"),
        ("amqp:precondition-failed", False, "refused_termini", "refused"),
        ("amqp:not-found", True, "refused_beyond", "refused beyond this router"),
        ("test:full", True, "refused_beyond", "refused beyond this router"),
    ],
)
def test_each_is_counted_by_its_reason_and_told_with_its_peer(
    caplog: pytest.LogCaptureFixture, condition: str, beyond: bool, counter: str, said: str
) -> None:
    """A broker may say anything, also what we say for another reason."""
    caplog.set_level(logging.INFO, "ROUTER_CORE")
    forwarder = Counting()
    refusals = Refusals(cast(Forwarder, forwarder), lambda *place: {(2, 5): "192.0.2.7:4711"}[place])
    refusals.tell(2, Attach(0, 1, 5, "mine", False, "a"), Error(condition, "no"), beyond=beyond)
    assert forwarder.counted == [COUNTERS[counter].place]
    assert caplog.messages == [f"link 'mine' of 192.0.2.7:4711 {said}: {condition}: no"]


def test_a_flood_of_refusals_makes_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Each is counted; who causes thousands fills no disk."""
    caplog.set_level(logging.INFO, "ROUTER_CORE")
    forwarder = Counting()
    refusals = Refusals(cast(Forwarder, forwarder), lambda *_: "h:1")
    for number in range(2000):
        refusals.tell(0, Attach(0, 1, 5, f"link-{number}", False, "a"), Error("amqp:not-found", "no"))
    assert len(forwarder.counted) == 2000
    assert LINE_BURST <= len(caplog.messages) <= LINE_BURST + 5


def test_a_link_of_a_denied_connection_is_told_with_its_peer(caplog: pytest.LogCaptureFixture) -> None:
    """It comes before the client knows that its connection is closed; another one's may come in its place."""
    bed = Bed()
    bed.core.admissions.set_limit(0)
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(3, 1, "c", "192.0.2.9:1"))
    caplog.set_level(logging.INFO, "ROUTER_CORE")
    told = []
    for what in (C_ATTACH, Attach(0, 1, 3, "mine", False, "a")), (C_CONNECTION_CLOSED, ConnectionClosed(3, 1)):
        bed.say(*what)
        bed.say(C_ATTACH, Attach(1, 1, 3, "other", False, "a"))
        bed.step()
        told.append([line for line in caplog.messages if line.startswith("link 'other'")][-1])
    assert "link 'mine' of 192.0.2.9:1 refused" in next(line for line in caplog.messages if line.startswith("link "))
    assert [line.partition(" refused")[0] for line in told] == [
        "link 'other' of 192.0.2.9:1",
        "link 'other' of worker 0 connection 3",
    ]

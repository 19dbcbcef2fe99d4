"""Route tables that management pushes, whole or in pieces: who may, how much, and what becomes of them."""

from typing import Any

import msgspec
import pytest

from bench.contract import C_CONNECTION_CLOSED, C_CONNECTION_OPENED
from core.management.request import Requester, request_of
from core.rmr.active.intake import Intake
from core.rmr.active.route_tables import RouteTables
from shm.contract.control import SetTables
from shm.contract.payloads import ConnectionClosed, ConnectionOpened
from shm.memory import segment
from tests.support.beds.agent import Bed


def pushed(bed: Bed, connection: int, text: str, last: bool = False) -> tuple[int, str]:
    """Status and text of the answer to a piece of a table."""
    request = request_of({"operation": "PUSH", "type": "routeTable", "name": "t"}, {"text": text, "last": last})
    answer = bed.agent.handle(msgspec.structs.replace(request, requester=Requester(connection)))
    return answer.status, answer.text


def test_a_push_of_a_connection_that_is_gone_is_not_its_successors(segments: segment.Segments) -> None:
    """Whoever has its index by now may be a pusher of the table, and the requester was none."""
    bed = Bed(segments, "routeTable {\n name: t\n address: t\n pushers: alice\n}\n")
    bed.say(C_CONNECTION_CLOSED, ConnectionClosed(0, 1))
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(0, 2, "other", "10.0.0.2:7", number=5, user="alice"))
    bed.core.step(2)

    assert [pushed(bed, 5, "")[0], pushed(bed, 4, "")[0]] == [200, 403]


def test_a_push_whose_table_is_removed_meanwhile_is_answered(
    segments: segment.Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a reload, while the text was read: nobody waits for what will not come."""
    bed = Bed(segments, "routeTable {\n name: t\n}\n")
    tables = bed.core.plane(RouteTables)
    take = tables.take

    def removed(*given: Any) -> None:
        take(*given)
        bed.core.configure(SetTables([]))
        bed.core.step(2)

    monkeypatch.setattr(tables, "take", removed)
    assert pushed(bed, 4, "newrt|start|x\nnewrt|end|0\n", last=True) == (
        404,
        "the route table 't' does not exist any more",
    )


def test_the_pieces_of_pushes_are_bounded(segments: segment.Segments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one, of all that have begun, of which the oldest gives way, and of those that nobody has read yet."""
    monkeypatch.setattr("core.management.route_table.LONGEST_TABLE", 10)
    bed = Bed(segments, "routeTable {\n name: t\n}\n")
    assert pushed(bed, 4, "#" * 11) == (
        400,
        "a push has 10 characters at most; begin again, and push a table at a time",
    )
    assert [pushed(bed, 4, "#" * 6)[0], pushed(bed, 5, "#" * 4)[0]] == [200, 200]
    assert pushed(bed, 4, "#" * 5)[0] == 400
    assert [pushed(bed, 4, "#" * 6)[0], pushed(bed, 5, "#" * 6)[0]] == [200, 200]
    assert pushed(bed, 4, "#" * 6)[0] == 200  # from the beginning
    monkeypatch.setattr(Intake, "queued", 11)
    assert pushed(bed, 6, "#") == (400, "too many characters wait to be read; begin again later")

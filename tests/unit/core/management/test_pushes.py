"""Route tables that management pushes, whole or in pieces: who may, how much, and what becomes of them."""

from typing import Any

import msgspec
import pytest

from bench.contract import C_CONNECTION_CLOSED, C_CONNECTION_OPENED
from core.management.request import Later, Requester, request_of
from core.rmr.active.intake import DROPPED, Intake, Outcome
from core.rmr.active.route_tables import RouteTables
from core.rmr.tables.building import KEPT
from shm.contract.control import SetTables
from shm.contract.payloads import ConnectionClosed, ConnectionOpened
from shm.memory import segment
from tests.support.beds.agent import Bed


def pushed(bed: Bed, connection: int, text: str, last: bool = False) -> tuple[int, str]:
    """Status and text of the answer to a piece of a table."""
    request = request_of({"operation": "PUSH", "type": "routeTable", "name": "t"}, {"text": text, "last": last})
    answer = bed.agent.handle(msgspec.structs.replace(request, requester=Requester(connection)))
    if isinstance(answer, Later):
        ready: list[bool] = []
        answer.then(lambda: ready.append(True))
        bed.core.step(2)
        assert ready == [True]
        answer = answer.finish()
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
    monkeypatch.setattr(Intake, "queued", 11)
    assert pushed(bed, 6, "#") == (400, "too many characters wait to be read; begin again later")


MAP = "meid_map|start|m\n"
OPEN = f"{MAP}mme_ar|a:1|{' '.join(map(str, range(50)))}\n"  # it counts for 50 managed entities, and for its text


def test_what_tables_take_that_have_begun_is_bounded(
    segments: segment.Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their managed entities count besides the text; whose table began first makes room, and learns why."""
    monkeypatch.setattr("core.rmr.active.intake.LONGEST_TABLE", 120 * KEPT)
    bed = Bed(segments, "routeTable {\n name: t\n}\n")
    assert [pushed(bed, connection, OPEN)[0] for connection in (4, 5, 6)] == [200, 200, 200]
    assert pushed(bed, 6, "meid_map|end|1\n", last=True) == (200, "")
    assert pushed(bed, 5, "meid_map|end|1\n", last=True) == (200, "")
    status, text = pushed(bed, 4, "meid_map|end|1\n", last=True)
    assert (status, DROPPED in text) == (400, True)
    assert pushed(bed, 4, f"{MAP}mme_del|{' '.join(map(str, range(130)))}\n")[0] == 200
    status, text = pushed(bed, 4, "meid_map|end|1\n", last=True)
    assert (status, "the table takes more than" in text) == (400, True)


def test_what_grows_in_use_is_bounded(segments: segment.Segments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each map adds managed entities to those in use, and each update entries."""
    monkeypatch.setattr("core.rmr.active.intake.LONGEST_TABLE", 10 * KEPT)
    bed = Bed(segments, "routeTable {\n name: t\n}\n")
    tables = bed.core.plane(RouteTables)

    def said(text: str) -> tuple[bool, str]:
        outcomes: list[Outcome] = []
        tables.take(tables.find("t").feed("here", outcomes.extend), text, last=True)
        bed.core.step(2)
        return outcomes[-1].ok, outcomes[-1].reason

    first, second, third = (" ".join(f"{part}{i}" for i in range(6)) for part in "abc")
    assert said(f"{MAP}mme_ar|a:1|{first}\nmeid_map|end|1\n")[0]
    assert said(f"{MAP}mme_ar|a:1|{second}\nmeid_map|end|1\n") == (
        False,
        "there would be 12 managed entities, and 10 are possible; delete some first",
    )
    assert said(f"{MAP}mme_del|{first}\nmme_ar|a:1|{third}\nmeid_map|end|2\n")[0]
    rows = "".join(f"mse|{i}|-1|a:1\n" for i in range(15))
    assert said(f"newrt|start|t\n{rows}newrt|end|15\n")[0]
    assert said("updatert|start|t\n" + rows.replace("mse|", "mse|1") + "updatert|end|15\n") == (
        False,
        "there would be 30 entries, and 20 are possible; delete some first",
    )
    assert said("updatert|start|t\nmse|70|-1|a:1\nupdatert|end|1\n")[0]

"""The configured entities of a type, which one thread changes while another one reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.management.entities import Entities
from core.rmr.active.route_tables import RouteTables
from shm.contract.control import SetTables
from shm.contract.management import Delta
from shm.memory import segment
from tests.support.beds.agent import Bed


class Row(dict[str, Any]):
    """An entity during whose entry other threads read: each look at it is a READ of all that stay."""

    def __init__(self, entities: Entities, **attributes: str) -> None:
        super().__init__(attributes)
        self.entities = entities

    def __getitem__(self, name: str) -> Any:
        for number in range(3):
            assert self.entities.find(None, str(number)), number
            assert self.entities.find(f"name {number}", None), number
        return super().__getitem__(name)


def test_an_entity_that_stays_is_found_during_a_change() -> None:
    """By identity and by name, as it was or as it is; one that goes is gone afterwards."""
    before = [{"identity": str(number), "name": f"name {number}"} for number in range(5)]
    entities = Entities(before)
    after = [Row(entities, identity=str(number), name=f"name {number}", more="x") for number in (2, 1, 0)]
    entities.change(Delta("listener", 0, 4, [*after]))
    assert [entities.find(None, str(number)) for number in range(5)] == [[one] for one in after[::-1]] + [
        [],
        [before[4]],
    ]
    assert [entities.find(f"name {number}", None) for number in (2, 3)] == [[after[0]], []]
    entities.change(Delta("listener", 0, 1, [{"identity": "2", "name": "other"}]))
    assert entities.find("name 2", None) == []
    assert entities.find("other", None) == [{"identity": "2", "name": "other"}]


def test_what_has_a_slash_in_its_name_is_read(segments: segment.Segments, tmp_path: Path) -> None:
    """Route tables and endpoints may have some."""
    seed = tmp_path / "table"
    seed.write_text("newrt | start | T\nmse | 1 | -1 | one/host:4560\nnewrt | end | 1\n")
    bed = Bed(segments, "".join(f"routeTable {{\n name: {name}\n seed: {seed}\n}}\n" for name in ("t", "t/u")))
    tables = bed.core.plane(RouteTables)
    while not all(active.table for active in tables):
        bed.core.step(1)
    for kind in ("routeTable.entry", "routeTable.endpoint"):
        rows = bed.query(kind, "identity", "name", "table")
        assert [row["table"] for row in rows] == ["t", "t/u"]
        for row in rows:
            for by in ("identity", "name"):
                status, body = bed.crud("READ", type=kind, **{by: row[by]})
                assert (status, body.get("table")) == (200, row["table"]), row


def test_route_tables_go_while_they_are_listed(segments: segment.Segments, tmp_path: Path) -> None:
    """A listing has the entries of the tables that were in use when it began, and a reload ends no listing."""
    seed = tmp_path / "table"
    seed.write_text("newrt | start | T\nmse | 1 | -1 | host:4560\nnewrt | end | 1\n")
    bed = Bed(segments, "".join(f"routeTable {{\n name: {name}\n seed: {seed}\n}}\n" for name in "tu"))
    tables = bed.core.plane(RouteTables)
    while not all(active.table for active in tables):
        bed.core.step(1)
    entries, endpoints = (bed.agent._entity_types[f"routeTable.{kind}"] for kind in ("entry", "endpoint"))
    listed, each = entries.rows(), iter(endpoints.rows())
    assert isinstance(listed, Sequence)
    assert next(each).active.setup.name == "t"
    for active in tables:
        active.table = None
    assert [row.table for row in listed[0:9]] == ["t", "u"]
    bed.core.configure(SetTables([]))
    assert list(each) == []
    assert list(tables) == []

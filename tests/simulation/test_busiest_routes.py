"""Which entries and endpoints of route tables messages went by: what the board shows of them."""

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from core.rmr.active.busiest import BusiestRoutes
from core.rmr.active.compiled import compile_table
from core.rmr.active.route_tables import RouteTables
from core.rmr.tables.parser import Parser
from core.rmr.tables.table import Table
from shm.contract.control import SetTables
from shm.statistics.board import RouteEndpointRow, RouteEntryRow
from tests.model.table_site import TableSite

ROWS = 50


def test_messages_are_counted_by_key_and_by_endpoint() -> None:
    """Those for certain senders with the others of their key; who is not there has missed."""
    site = TableSite()
    site.table("newrt|start\nmse|1000|-1|a:1\nmse|1000,b:1|-1|a:1\nmse|1001|7|a:1;z:1\nnewrt|end|3\n")
    site.receiver("a:1")
    link = site.sender()
    for number, (mt, sid, source) in enumerate([(1000, -1, ""), (1000, 5, "b:1"), (1001, 7, "")]):
        site.give(link, number, mt, sid, "", source)
    counted = BusiestRoutes(site.core.plane(RouteTables))
    assert counted.entries() == [RouteEntryRow("routes", 1000, -1, 2), RouteEntryRow("routes", 1001, 7, 1)]
    missed = RouteEndpointRow("routes", "z:1", 0, 1)
    assert counted.endpoints() == [RouteEndpointRow("routes", "a:1", 3, 0), missed]
    site.core.configure(SetTables([]))
    assert counted.entries() == counted.endpoints() == []


def test_an_entry_that_is_there_twice_is_counted_once() -> None:
    """However often a table replaces another one: only the last of such entries wins."""
    site = TableSite()
    link = site.sender()
    for number in range(3):
        twice = "mse|1000,b:1|-1|a:1\n" * 2
        site.table(f"newrt|start\n{twice}mse|{2000 + number}|-1|a:1\nnewrt|end|3\n")
        if not number:
            site.receiver("a:1")
            site.give(link, 0, 1000, -1, "", "b:1")
    counted = BusiestRoutes(site.core.plane(RouteTables))
    assert counted.entries() == [RouteEntryRow("routes", 1000, -1, 1)]


def test_a_large_table_is_looked_at_in_portions() -> None:
    """What was found stays until the next pass is over."""
    site = TableSite()
    rows = "\n".join(f"mse|{1000 + at}|-1|a:1" for at in range(140_000))
    site.table(f"newrt|start\n{rows}\nnewrt|end|140000\n")
    site.receiver("a:1")
    counted = BusiestRoutes(site.core.plane(RouteTables))
    site.give(site.sender(), 0, 1000)
    shown = [len(counted.entries()) for _ in range(8)]
    assert shown == [0, 0, 0, 1, 1, 1, 1, 1]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=200))
def test_the_busiest_are_those_with_most_messages(counts: list[int]) -> None:
    """Against a sorted list of all."""
    text = "".join(f"mse|{1000 + at}|-1|a:1\n" for at in range(len(counts)))
    (value,) = Parser().feed(f"newrt|start\n{text}newrt|end\n")
    assert isinstance(value, Table)
    native = compile_table(value, 1).native
    keys = array("i", [1000 + at for at, count in enumerate(counts) for _ in range(count)])
    native.probe(keys, array("i", [-1]) * len(keys), 1)
    found = native.busiest()
    assert found is not None
    assert sorted(turns for _, _, turns in found) == sorted(filter(None, counts))[-ROWS:]
    assert all(counts[kind - 1000] == turns for kind, _, turns in found)

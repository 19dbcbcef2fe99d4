"""What the board shows of route tables: the entries and the endpoints that most messages have gone by."""

from heapq import nlargest
from itertools import chain, islice
from typing import Final

from core.process.plane import Plane
from core.rmr.compiled import CompiledTable
from core.rmr.route_tables import Plan, RouteTables
from shm.board import ROUTE_ENDPOINTS, ROUTE_ENTRIES, Board, RouteEndpointRow, RouteEntryRow, short

LOOKED_AT: Final = 256  # endpoints of a table, those first that somebody is at


class Counted(Plane):
    """Looks at a portion of each table whenever it is asked; of entries it tells its last whole pass."""

    def __init__(self, tables: RouteTables) -> None:
        self._tables = tables
        self._rows: dict[str, list[RouteEntryRow]] = {}  # by table

    def show(self, board: Board) -> None:
        """The busiest of both."""
        board.route_entries, board.route_endpoints = self.entries(), self.endpoints()

    def entries(self) -> list[RouteEntryRow]:
        """The busiest entries of all tables."""
        if not self._tables.restless:  # a table that has just come has not got its counts yet
            self._rows = {
                plan.setup.name: self._look(plan, plan.table) for plan in self._tables if plan.table
            }
        rows = (row for rows in self._rows.values() for row in rows)
        return nlargest(ROUTE_ENTRIES, rows, key=lambda row: row.messages)

    def _look(self, plan: Plan, table: CompiledTable) -> list[RouteEntryRow]:
        name = plan.setup.name
        found = table.native.busiest()
        if found is None:
            return self._rows.get(name, [])
        return [RouteEntryRow(short(name), kind, subscription, turns) for kind, subscription, turns in found]

    def endpoints(self) -> list[RouteEndpointRow]:
        """The busiest endpoints of all tables."""
        rows = (row for plan in self._tables for row in _endpoints(plan))
        return nlargest(ROUTE_ENDPOINTS, rows, key=lambda row: row.sent + row.missed)


def _endpoints(plan: Plan) -> list[RouteEndpointRow]:
    live = (name for name in plan.live if max(plan.numbers(name)) >= 0)
    names = dict.fromkeys(islice(chain(live, plan.names()), LOOKED_AT))
    counts = ((name, *plan.native.endpoint(*plan.numbers(name))) for name in names)
    return [
        RouteEndpointRow(short(plan.setup.name), short(name), *both) for name, *both in counts if any(both)
    ]

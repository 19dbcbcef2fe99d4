"""The busiest entries and endpoints of route tables, for the board."""

from heapq import nlargest
from itertools import chain, islice
from typing import Final

from core.links.plane import Plane
from core.rmr.active.compiled import CompiledTable
from core.rmr.active.route_tables import ActiveTable, RouteTables
from shm.statistics.board import ROUTE_ENDPOINTS, ROUTE_ENTRIES, Board, RouteEndpointRow, RouteEntryRow, short

LOOKED_AT: Final = 256  # endpoints per table; those with receivers come first


class BusiestRoutes(Plane):
    """Examines a portion of each table per call, and returns the entries of the last complete pass."""

    def __init__(self, tables: RouteTables) -> None:
        self._tables = tables
        self._rows: dict[str, list[RouteEntryRow]] = {}  # by table

    def show(self, board: Board) -> None:
        """Write the busiest entries and endpoints onto the board."""
        board.route_entries, board.route_endpoints = self.entries(), self.endpoints()

    def entries(self) -> list[RouteEntryRow]:
        """Return the busiest entries of all tables."""
        if not self._tables.restless:  # a new table has not taken over its counts yet
            self._rows = {
                active.setup.name: self._look(active, active.table) for active in self._tables if active.table
            }
        rows = (row for rows in self._rows.values() for row in rows)
        return nlargest(ROUTE_ENTRIES, rows, key=lambda row: row.messages)

    def _look(self, active: ActiveTable, table: CompiledTable) -> list[RouteEntryRow]:
        name = active.setup.name
        found = table.native.busiest()
        if found is None:
            return self._rows.get(name, [])
        return [RouteEntryRow(short(name), kind, subscription, turns) for kind, subscription, turns in found]

    def endpoints(self) -> list[RouteEndpointRow]:
        """Return the busiest endpoints of all tables."""
        rows = (row for active in self._tables for row in _endpoints(active))
        return nlargest(ROUTE_ENDPOINTS, rows, key=lambda row: row.sent + row.missed)


def _endpoints(active: ActiveTable) -> list[RouteEndpointRow]:
    live = (name for name in active.live if max(active.numbers(name)) >= 0)
    names = dict.fromkeys(islice(chain(live, active.names()), LOOKED_AT))
    counts = ((name, *active.native.endpoint(*active.numbers(name))) for name in names)
    return [RouteEndpointRow(short(active.setup.name), short(name), *both) for name, *both in counts if any(both)]

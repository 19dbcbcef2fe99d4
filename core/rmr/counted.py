"""What the board shows of route tables: the entries and the endpoints that most messages have gone by."""

from heapq import nlargest
from itertools import chain, islice
from typing import Final

from core.rmr.compiled import CompiledTable
from core.rmr.route_tables import Plan, Plane
from shm import board
from shm.board import RouteEndpointRow, RouteEntryRow

LOOKED_AT: Final = 256  # endpoints of a table, those first that somebody is at


class Counted:
    """Looks at a portion of each table whenever it is asked; of entries it tells its last whole pass."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._rows: dict[str, list[RouteEntryRow]] = {}  # by table

    def entries(self) -> list[RouteEntryRow]:
        """The busiest entries of all tables."""
        if not self._plane.restless:  # a table that has just come has not got its counts yet
            self._rows = {plan.setup.name: self._look(plan, plan.table) for plan in self._plane if plan.table}
        rows = (row for rows in self._rows.values() for row in rows)
        return nlargest(board.ROUTE_ENTRIES, rows, key=lambda row: row.messages)

    def _look(self, plan: Plan, table: CompiledTable) -> list[RouteEntryRow]:
        name = plan.setup.name
        found = table.native.busiest()
        if found is None:
            return self._rows.get(name, [])
        return [
            RouteEntryRow(board.short(name), kind, subscription, turns) for kind, subscription, turns in found
        ]

    def endpoints(self) -> list[RouteEndpointRow]:
        """The busiest endpoints of all tables."""
        rows = (row for plan in self._plane for row in _endpoints(plan))
        return nlargest(board.ROUTE_ENDPOINTS, rows, key=lambda row: row.sent + row.missed)


def _endpoints(plan: Plan) -> list[RouteEndpointRow]:
    live = (name for name in plan.live if max(plan.numbers(name)) >= 0)
    names = dict.fromkeys(islice(chain(live, plan.names()), LOOKED_AT))
    counts = ((name, *plan.native.endpoint(*plan.numbers(name))) for name in names)
    return [
        RouteEndpointRow(board.short(plan.setup.name), board.short(name), *both)
        for name, *both in counts
        if any(both)
    ]

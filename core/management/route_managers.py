"""Route tables' users: applications that this router serves as Route Manager, and its own Route Managers."""

import time
from collections.abc import Iterator

import msgspec

from core.management.entity_type import Column, Table, type_column
from core.management.view import View
from core.rmr.managers.application import Application
from core.rmr.managers.client import Client
from core.rmr.managers.manager_sessions import ManagerSessions


class ApplicationRow(msgspec.Struct, frozen=True):
    """An application and its route table."""

    table: str
    one: Application
    since: int  # seconds since 1970

    @property
    def identity(self) -> str:
        return f"{self.table}/{self.one.control}/{self.one.endpoint}"


class ManagerRow(msgspec.Struct, frozen=True):
    """A Route Manager that this router asks for a table."""

    table: str
    client: Client
    since: int

    @property
    def identity(self) -> str:
        return f"{self.table}/{self.client.manager}"


class Applications(Table):
    """The entity type `routeTable.application`."""

    NAME = "routeTable.application"
    DESCRIPTION = "An application that has its route table from this router."
    COLUMNS = (
        Column("name", "string", "Table and control port.", lambda r: f"{r.table}/{r.one.control}"),
        Column("identity", "string", "Table, control port and endpoint.", lambda r: r.identity),
        type_column("routeTable.application"),
        Column("table", "string", "Name of the route table.", lambda r: r.table),
        Column("endpoint", "string", "host:port of its messages.", lambda r: r.one.endpoint or None),
        Column("controlIdentity", "string", "host:port of its control port.", lambda r: r.one.control),
        Column("tableId", "string", "Table that it runs.", lambda r: r.one.table.table_id or None),
        Column("mapId", "string", "MEID map that it runs.", lambda r: r.one.map.table_id or None),
        Column("state", "string", "ok, err, pending or unknown.", lambda r: r.one.state),
        Column("reason", "string", "Why, if it is not ok.", lambda r: r.one.reason or None),
        Column("since", "integer", "Since when, seconds since 1970.", lambda r: r.since),
        Column("requestCount", "integer", "Requests for a table by it.", lambda r: r.one.requests),
    )

    def __init__(self, view: View, sessions: ManagerSessions) -> None:
        super().__init__()
        self._view = view
        self._sessions = sessions

    def rows(self) -> Iterator[ApplicationRow]:
        for session in self._sessions:
            for one in session.server or ():
                yield ApplicationRow(session.table, one, _when(self._view, one.since))


class Managers(Table):
    """The entity type `routeTable.manager`."""

    NAME = "routeTable.manager"
    DESCRIPTION = "A Route Manager that this router asks for a table."
    COLUMNS = (
        Column("name", "string", "Table and manager.", lambda r: r.identity),
        Column("identity", "string", "Table and manager.", lambda r: r.identity),
        type_column("routeTable.manager"),
        Column("table", "string", "Name of the route table.", lambda r: r.table),
        Column("manager", "string", "host:port of the manager.", lambda r: r.client.manager),
        Column("state", "string", "away, asking, accepted or refused.", lambda r: r.client.state),
        Column("tableId", "string", "Table that it sent last.", lambda r: r.client.table_id or None),
        Column("reason", "string", "Why that table is not in use.", lambda r: r.client.reason or None),
        Column("since", "integer", "Since when, seconds since 1970.", lambda r: r.since),
        Column("requestCount", "integer", "Requests that were sent to it.", lambda r: r.client.requests),
    )

    def __init__(self, view: View, sessions: ManagerSessions) -> None:
        super().__init__()
        self._view = view
        self._sessions = sessions

    def rows(self) -> Iterator[ManagerRow]:
        for session in self._sessions:
            if (client := session.client) is not None:
                yield ManagerRow(session.table, client, _when(self._view, client.since))


def _when(view: View, then: int) -> int:
    return int(time.time()) - view.seconds_since(then)

"""Route tables' users: applications that this router serves as Route Manager, and its own Route Managers."""

import time
from collections.abc import Iterator
from typing import Final

import msgspec

from core.management.entity_type import Column, Table, key_columns, type_column
from core.management.view import View
from core.rmr.managers.application import Application
from core.rmr.managers.client import Client
from core.rmr.managers.manager_sessions import ManagerSessions

BORDERS: Final = 32  # slashes of an identity behind each of which an endpoint may begin


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


class Applications(Table):
    """The entity type `routeTable.application`."""

    listed = False
    NAME = "routeTable.application"
    DESCRIPTION = "An application that gets its route table from this router."
    COLUMNS = (
        Column("name", "string", "Route table and control port.", lambda r: f"{r.table}/{r.one.control}"),
        Column("identity", "string", "Route table, control port and endpoint.", lambda r: r.identity),
        type_column("routeTable.application"),
        Column("table", "string", "Name of the route table.", lambda r: r.table),
        Column(
            "endpoint", "string", "host:port where the application receives messages.", lambda r: r.one.endpoint or None
        ),
        Column("controlIdentity", "string", "host:port of the application's control port.", lambda r: r.one.control),
        Column(
            "tableId", "string", "Id of the table that the application uses.", lambda r: r.one.table.table_id or None
        ),
        Column(
            "mapId", "string", "Id of the MEID map that the application uses.", lambda r: r.one.map.table_id or None
        ),
        Column("state", "string", "State of the application: ok, err, pending or unknown.", lambda r: r.one.state),
        Column("reason", "string", "Why the state is not ok.", lambda r: r.one.reason or None),
        Column("since", "integer", "When the state changed last, in seconds since 1970.", lambda r: r.since),
        Column("requestCount", "integer", "Requests for a table from the application.", lambda r: r.one.requests),
    )

    def among(self, name: str | None, identity: str | None) -> list[ApplicationRow]:
        """Return the applications whose control port or endpoint a name or an identity says.

        Tables, control ports and endpoints may contain slashes. An application's name lacks its endpoint.
        """
        text = name or "" if identity is None else identity
        found = []
        for session in self._view.core.plane(ManagerSessions):
            if session.server is None or not text.startswith(f"{session.table}/"):
                continue
            rest = text[len(session.table) + 1 :]
            borders = [at for at, one in enumerate(rest) if one == "/"][:BORDERS]
            controls = [rest] if identity is None else [rest[:at] for at in borders]
            for control in dict.fromkeys(controls):
                found += [
                    ApplicationRow(session.table, one, _when(self._view, one.since))
                    for one in session.server.at(control)
                ]
        return found

    def rows(self) -> Iterator[ApplicationRow]:
        for session in self._view.core.plane(ManagerSessions):
            for one in session.server or ():
                yield ApplicationRow(session.table, one, _when(self._view, one.since))


class Managers(Table):
    """The entity type `routeTable.manager`."""

    NAME = "routeTable.manager"
    DESCRIPTION = "A Route Manager from which this router requests a table."
    COLUMNS = (
        *key_columns("routeTable.manager", "Route table and Route Manager.", lambda r: f"{r.table}/{r.client.manager}"),
        Column("table", "string", "Name of the route table.", lambda r: r.table),
        Column("manager", "string", "host:port of the Route Manager.", lambda r: r.client.manager),
        Column(
            "state",
            "string",
            "State of the Route Manager: away, asking, accepted or refused.",
            lambda r: r.client.state,
        ),
        Column(
            "tableId",
            "string",
            "Id of the table that the Route Manager sent last.",
            lambda r: r.client.table_id or None,
        ),
        Column("reason", "string", "Why that table is not in use.", lambda r: r.client.reason or None),
        Column("since", "integer", "When the state changed last, in seconds since 1970.", lambda r: r.since),
        Column("requestCount", "integer", "Requests that the router has sent.", lambda r: r.client.requests),
    )

    def rows(self) -> Iterator[ManagerRow]:
        for session in self._view.core.plane(ManagerSessions):
            if (client := session.client) is not None:
                yield ManagerRow(session.table, client, _when(self._view, client.since))


def _when(view: View, then: int) -> int:
    return int(time.time()) - view.seconds_since(then)

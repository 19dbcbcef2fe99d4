"""The entity type `connection`."""

import logging
from typing import Any

import msgspec

from core.links.link import Edges
from core.management.entity_type import Column, Table, constant, type_column
from core.management.request import BAD_REQUEST, FORBIDDEN, ManagementError, Request, Response
from core.management.view import View
from shm.contract.numbers import whole
from shm.contract.payloads import Close, ConnectionOpened, Error, Trace
from shm.memory.journal import TRACE

LOGGER = logging.getLogger("AGENT")
CLOSED = Error("amqp:connection:forced", "Connection forced-closed by management request")
ROLES_OF_ROUTERS = ("inter-router", "edge")


Entry = tuple[int, ConnectionOpened, int]  # worker, connection, opening time


class ConnectionRow(msgspec.Struct, frozen=True):
    """A connection as a row."""

    worker: int
    opened: ConnectionOpened
    uptime: int  # seconds
    idle: int | None  # seconds since the last delivery arrived or left; None: there was none
    active: bool = True


def _host(opened: ConnectionOpened) -> str:
    """Return the host; a connector's without brackets around an IPv6 address, as qdrouterd shows it."""
    host = opened.host
    return host.replace("[", "", 1).replace("]", "", 1) if opened.connector else host


def _direction(row: ConnectionRow) -> str:
    return "out" if row.opened.connector else "in"


_BOOLEANS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


def boolean(name: str, value: Any) -> bool:
    """Return a boolean, also from a word such as yes. Raises ManagementError."""
    if isinstance(value, str):
        value = _BOOLEANS.get(value.lower(), value)
    if not isinstance(value, bool):
        raise ManagementError(BAD_REQUEST, f"{name}: {value!r} is neither true nor false")
    return value


def _traced(row: ConnectionRow) -> bool:
    asked = row.opened.trace
    return logging.getLogger("PROTOCOL").isEnabledFor(TRACE) if asked is None else asked


class Connections(Table):
    """Open connections. UPDATE closes one (adminStatus deleted) or logs its frames (enableProtocolTrace)."""

    listed = False
    NAME = "connection"
    DESCRIPTION = "A connection to the router."
    OPERATIONS = ("READ", "UPDATE")
    COLUMNS = (
        Column("name", "string", "connection/ and the host.", lambda r: f"connection/{_host(r.opened)}"),
        Column("identity", "string", "Number of the connection in this router.", lambda r: str(r.opened.number)),
        Column("host", "string", "Address and port of the peer.", lambda r: _host(r.opened)),
        Column(
            "role", "string", "Role of the connection, as its listener or connector has it.", lambda r: r.opened.role
        ),
        Column("protocol", "string", "Protocol of the connection.", constant("amqp")),
        Column("dir", "string", "in: the peer has connected; out: the router has.", _direction),
        Column("container", "string", "Container id of the peer.", lambda r: r.opened.container),
        Column("sasl", "string", "SASL mechanism.", lambda r: r.opened.sasl or None),
        Column("isAuthenticated", "boolean", "Whether the peer has authenticated.", lambda r: r.opened.authenticated),
        Column("user", "string", "Name of the user.", lambda r: r.opened.user or None),
        Column("isEncrypted", "boolean", "Whether the connection is encrypted.", lambda r: r.opened.encrypted),
        Column("sslProto", "string", "TLS version.", lambda r: r.opened.tls_protocol or None),
        Column("sslCipher", "string", "TLS cipher.", lambda r: r.opened.tls_cipher or None),
        Column("properties", "map", "Properties in the peer's OPEN.", lambda r: dict(r.opened.properties)),
        Column("sslSsf", "integer", "Strength of the TLS cipher in bits.", lambda r: r.opened.tls_strength),
        Column("tenant", "string", "Tenant, on a listener with `multiTenant`.", lambda r: r.opened.tenant or None),
        type_column("connection"),
        Column("ssl", "boolean", "Whether the connection uses TLS.", lambda r: bool(r.opened.tls_protocol)),
        Column("opened", "boolean", "Whether the peer has opened the connection.", constant(True)),
        Column("active", "boolean", "Whether the connection carries messages.", lambda r: r.active),
        Column("adminStatus", "string", "enabled; deleted closes the connection.", constant("enabled"), update=True),
        Column("operStatus", "string", "up or closing.", constant("up")),
        Column("uptimeSeconds", "integer", "Seconds since the connection was opened.", lambda r: r.uptime),
        Column("lastDlvSeconds", "integer", "Seconds since the last delivery.", lambda r: r.idle),
        Column("enableProtocolTrace", "boolean", "Whether the router logs the frames.", _traced, update=True),
        Column("worker", "integer", "Index of the worker that owns the connection.", lambda r: r.worker),
    )

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.standard.remove("worker")  # qpid-dispatch has no such attribute
        self._closing: set[int] = set()  # numbers

    def rows(self) -> list[Entry]:
        return self._open(self._view.core.connections.entries())

    def among(self, name: str | None, identity: str | None) -> list[Entry]:
        """Return the connection with this number, or those of this host."""
        connections = self._view.core.connections
        if identity is None:
            host = (name or "").removeprefix("connection/")
            text, _, port = host.rpartition(":")
            entries = [*connections.of_host(host), *connections.of_host(f"[{text}]:{port}")]
        else:
            number = whole(identity)
            entry = None if number is None else connections.numbered(number)
            entries = [] if entry is None else [entry]
        return self._open(entries)

    def _open(self, entries: list[Entry]) -> list[Entry]:
        """Return those that no request has closed."""
        return [entry for entry in entries if entry[1].number not in self._closing] if self._closing else entries

    def row(self, entry: Entry) -> ConnectionRow:
        """Return a connection with its times."""
        worker, opened, since = entry
        view, edges = self._view, self._view.core.find(Edges)
        last = _last_delivery(view, worker, opened.connection)
        active = edges is None or opened.role != "edge" or edges.is_active(worker, opened.connection)
        return ConnectionRow(
            worker, opened, view.seconds_since(since), view.seconds_since(last) if last else None, active
        )

    def update(self, request: Request) -> Response:
        """Close the connection, or switch its protocol trace."""
        if request.identity is not None and not request.identity.isdecimal():
            raise ManagementError(BAD_REQUEST, f"the identity {request.identity!r} is no connection's number")
        row = self.find(request.name, request.identity)
        changes = request.attributes
        if "adminStatus" in changes:
            request.requester.check()
        for name, value in changes.items():
            self._check(row, name, value)
        if changes.get("adminStatus") == "deleted":
            self._close(row)
            LOGGER.info("[C%s] connection closed by request of [C%s]", row.opened.number, request.requester.connection)
            return Response(200, self.values(row) | {"adminStatus": "deleted", "operStatus": "closing"})
        if changes.get("enableProtocolTrace") is not None:
            on = boolean("enableProtocolTrace", changes["enableProtocolTrace"])
            self._trace(row, on)
            return Response(200, self.values(row) | {"enableProtocolTrace": on})
        return Response(200, self.values(row))

    def delete(self, request: Request) -> Response:
        raise ManagementError(FORBIDDEN, "a connection is closed by UPDATE of adminStatus to deleted")

    def _check(self, row: ConnectionRow, name: str, value: Any) -> None:
        if name not in self.columns:
            raise ManagementError(BAD_REQUEST, f"connection has no attribute {name!r}")
        if name == "adminStatus":
            if value not in ("enabled", "deleted"):
                raise ManagementError(BAD_REQUEST, f"adminStatus: {value!r} is neither enabled nor deleted")
            if value == "deleted" and row.opened.role in ROLES_OF_ROUTERS:
                raise ManagementError(FORBIDDEN, "a connection to another router cannot be closed")
        elif name == "enableProtocolTrace":
            boolean(name, value)
        elif value != self.columns[name](row):
            raise ManagementError(BAD_REQUEST, f"{name} of a connection cannot be changed")

    def _close(self, row: ConnectionRow) -> None:
        numbered = self._view.core.connections.numbered
        self._closing = {row.opened.number, *(one for one in self._closing if numbered(one) is not None)}
        self._view.post(row.worker, Close(row.opened.connection, row.opened.generation, CLOSED))

    def _trace(self, row: ConnectionRow, on: bool) -> None:
        opened, connections = row.opened, self._view.core.connections
        self._view.command(lambda: connections.traced(row.worker, opened, on))
        self._view.post(row.worker, Trace(opened.connection, opened.generation, on))
        LOGGER.info("[C%d] protocol trace switched %s", opened.number, "on" if on else "off")


def _last_delivery(view: View, worker: int, connection: int) -> int:
    """Return when the links of a connection had their last delivery, in nanoseconds; 0: none has had one."""
    links, forwarder = view.core.links.of_connection(worker, connection), view.core.forwarder
    return max((forwarder.link_last(worker, link.link, link.generation) for link in links), default=0)

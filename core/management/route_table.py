"""Route tables in management: their configuration, state, entries and endpoints, PUSH and EXPLAIN."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from core.management.configured import Configured
from core.management.entity_type import Column, Table, key_columns
from core.management.request import BAD_REQUEST, FORBIDDEN, NOT_FOUND, OK, Later, ManagementError, Request, Response
from core.management.view import View
from core.rmr.active.compiled import CompiledTable, encoded
from core.rmr.active.dialling import Dialling
from core.rmr.active.intake import Feed, Outcome, Unfinished
from core.rmr.active.route_tables import ActiveTable
from core.rmr.active.route_tables import RouteTables as Tables
from core.rmr.tables import decoding
from core.rmr.tables.building import LONGEST_TABLE
from core.rmr.tables.decoding import INT32
from core.rmr.tables.lookup import Question, fate
from core.rmr.tables.table import ANY_SUBSCRIPTION, Entry
from shm.contract.numbers import whole

PUSHES: Final = 16  # most pushes at a time; the oldest is dropped for another
EVERYBODY: Final = "*"


class _Push:
    """A table that arrives in pieces. Each piece gets an answer; what became of them is heard in the core's thread."""

    def __init__(self, active: ActiveTable, origin: str, unfinished: Unfinished) -> None:
        self.active = active
        self.feed: Feed = active.feed(origin, self._heard, unfinished=unfinished)
        self.pieces = 0
        self.size = 0  # characters of the pieces
        self.outcomes: list[Outcome] = []
        self._read = 0  # pieces
        self._ready: Callable[[], None] | None = None

    def _heard(self, outcomes: list[Outcome]) -> None:
        self.outcomes += outcomes
        self._read += 1
        if self._ready is not None:
            self.then(self._ready)

    def then(self, ready: Callable[[], None]) -> None:
        """Call this when all pieces have been read, of which there will be no more."""
        self._ready = ready
        if self._read == self.pieces:
            ready()


class RouteTables(Configured):
    """The entity type `routeTable`.

    PUSH delivers a table or a piece of it; EXPLAIN asks for a message's path.
    """

    def __init__(self, view: View, schema: Any) -> None:
        self._tables = view.core.plane(Tables)
        super().__init__(view, schema)
        self._pushes: dict[tuple[int | None, str], _Push] = {}  # by connection and table
        self._unfinished = Unfinished()

    def rows(self) -> list[dict[str, Any]]:
        return [*self._entities.rows, *self._others()]

    def among(self, name: str | None, identity: str | None) -> list[dict[str, Any]]:
        """Return the table of this identity or name."""
        return super().among(name, identity) or self._others()

    def row(self, entity: dict[str, Any]) -> dict[str, Any]:
        """Return a table's configuration with its state."""
        return entity | self._state(str(entity["name"]))

    def _others(self) -> list[dict[str, Any]]:
        """Return the tables that the environment configures."""
        configured = {row["name"] for row in self._entities.rows}
        return [
            {"name": active.setup.name, "identity": f"{self.schema.name}/{active.setup.name}"}
            | {"address": active.setup.address, "seed": active.setup.seed}
            for active in self._tables
            if active.setup.name not in configured
        ]

    def _state(self, name: str) -> dict[str, Any]:
        active = self._tables.find(name)
        if active is None:
            return {}
        routed, no_entry, no_endpoint, no_owner, refused = active.native.counts()
        history = active.history
        return {
            "tableId": history.table_id or None,
            "mapId": history.map_id or None,
            "origin": history.origin or None,
            "installed": history.installed,
            "entryCount": 0 if active.table is None else active.table.native.entries,
            "endpointCount": sum(1 for _ in active.names()),
            "liveEndpointCount": sum(max(active.numbers(name)) >= 0 for name in list(active.live)),
            "meidCount": 0 if active.owners is None else len(active.owners.value),
            "refusedCount": history.refused,
            "lastError": history.last_error or None,
            "routedCount": routed,
            "noEntryCount": no_entry,
            "noEndpointCount": no_endpoint,
            "noOwnerCount": no_owner,
            "refusedMessageCount": refused,
        }

    def active(self, request: Request) -> ActiveTable:
        """Return the table that a request names. Raises ManagementError."""
        name = self.find(request.name, request.identity)["name"]
        active = self._tables.find(name)
        if active is None:
            raise _gone(name)
        return active

    # ---- PUSH ----

    def push(self, request: Request) -> Response | Later:
        """Take a piece of a table. The answer to the last piece reports what became of each table and map."""
        active = self.active(request)
        user = self._allowed(active)
        given = request.attributes
        text, last = _text(given, "text", None), given.get("last", True)
        if not isinstance(last, bool):
            raise ManagementError(BAD_REQUEST, "last: give a boolean")
        name = active.setup.name
        key = self._view.requester.connection, name
        push = self._pushes.pop(key, None)
        if push is None or given.get("first", False) or push.active is not active:
            push = _Push(active, f"{user} by management", self._unfinished)
        push.pieces += 1
        push.size += len(text)
        self._bound(push)
        if not last:
            self._pushes[key] = push
        feed = push.feed
        self._view.command(lambda: self._tables.take(feed, text, last))
        return Later(push.then, lambda: self._answer(push)) if last else Response(OK, {})

    def _bound(self, push: _Push) -> None:
        """Make room for a push that has got another piece. Raises ManagementError if there is none.

        What unfinished tables take is bounded where they are read.
        """
        if push.size > LONGEST_TABLE:
            text = f"a push has {LONGEST_TABLE} characters at most; begin again, and push a table at a time"
            raise ManagementError(BAD_REQUEST, text)
        if self._tables.intake.queued > LONGEST_TABLE:
            raise ManagementError(BAD_REQUEST, "too many characters wait to be read; begin again later")
        while len(self._pushes) >= PUSHES:
            self._pushes.pop(next(iter(self._pushes)))

    def _allowed(self, active: ActiveTable) -> str:
        """Return who pushes, for the log. Raises ManagementError for a requester without the right."""
        requester, pushers = self._view.requester, active.setup.pushers
        requester.check()
        client = self._view.client(requester)
        user, host = ("", "") if client is None else (client[1].user, client[1].host)
        if EVERYBODY not in pushers and user not in pushers:
            who = f"user {user!r}" if user else "the requester, who is unknown; send the request unsettled"
            text = f"pushers of the route table {active.setup.name!r} do not include {who}"
            raise ManagementError(FORBIDDEN, f"You are not allowed to perform this operation: {text}")
        return f"{user or 'somebody'}@{host}"

    def _answer(self, push: _Push) -> Response:
        if self._tables.find(push.active.setup.name) is not push.active:
            raise _gone(push.active.setup.name)
        bad = [one for one in push.outcomes if not one.ok]
        if bad:
            reasons = "; ".join(f"{one.kind} {one.table_id or '<id-missing>'}: {one.reason}" for one in bad[:10])
            raise ManagementError(BAD_REQUEST, f"{reasons}. The previous table stays in use")
        return Response(OK, {"outcomes": [msgspec.to_builtins(one) for one in push.outcomes]})

    # ---- EXPLAIN ----

    def explain(self, request: Request) -> Response:
        """Return the entry that applies to a message and its destinations: steps, and endpoints by group."""
        active, given = self.active(request), request.attributes
        asked = Question(
            _number(given, "mt", None),
            _number(given, "sid", ANY_SUBSCRIPTION),
            _text(given, "meid", ""),
            _text(given, "from", ""),
        )
        if active.table is None:
            return Response(OK, {"steps": ["no table is in use yet: the message is released"], "groups": []})
        found = fate(active.table.value, {} if active.owners is None else active.owners.value, asked)
        steps = list(found.steps)
        for name in dict.fromkeys(one for group in found.groups for one in group):
            steps.append(f"{name}: {'has a receiver' if name in active.live else 'has no receiver'}")
        return Response(OK, {"steps": steps, "groups": [list(group) for group in found.groups]})


def _gone(name: str) -> ManagementError:
    return ManagementError(NOT_FOUND, f"the route table {name!r} does not exist any more")


def _text(given: dict[str, Any], name: str, otherwise: str | None) -> str:
    """Return a text. Binary is accepted for octets of RMR that are not UTF-8. Raises ManagementError."""
    value = otherwise if given.get(name) is None else given[name]
    if isinstance(value, bytes):
        return decoding.lossless(value)
    if not isinstance(value, str):
        raise ManagementError(BAD_REQUEST, f"{name}: give a string, or binary for what is not UTF-8")
    return value


def _number(given: dict[str, Any], name: str, otherwise: int | None) -> int:
    value = given.get(name, otherwise)
    if not isinstance(value, int) or isinstance(value, bool) or value not in INT32:
        raise ManagementError(BAD_REQUEST, f"{name}: give a whole number of 32 bits")
    return int(value)


def _parts(tables: Tables, name: str | None, identity: str | None) -> Iterator[tuple[ActiveTable, str]]:
    """Yield each table, and what of it, that an identity or an equal name may say: both may contain slashes."""
    text = name or "" if identity is None else identity
    for active in tables:
        if text.startswith(f"{active.setup.name}/"):
            yield active, text[len(active.setup.name) + 1 :]


class EntryRow(NamedTuple):
    """An entry of a table in use."""

    table: str
    number: int
    entry: Entry
    taken: int


Part = tuple[ActiveTable, CompiledTable]  # a table, and what of it is in use: the core may replace it meanwhile


class _Rows(Sequence[Any]):
    """The rows of all tables in sequence, made on access because there may be a million."""

    def __init__(self, parts: list[Part], make: Callable[[ActiveTable, CompiledTable, int], Any]) -> None:
        self._parts = parts
        self._make = make

    def __len__(self) -> int:
        return sum(len(table.value) for _, table in self._parts)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        for active, table in self._parts:
            if at < len(table.value):
                return self._make(active, table, at)
            at -= len(table.value)
        raise IndexError(at)


class RouteTableEntries(Table):
    """The entries of all route tables in use, in the order given. Of equal entries the last one counts."""

    listed = False
    NAME = "routeTable.entry"
    DESCRIPTION = "An entry of a route table in use."
    COLUMNS = (
        *key_columns("routeTable.entry", "Route table and number of the entry.", lambda r: f"{r.table}/{r.number}"),
        Column("table", "string", "Name of the route table.", lambda r: r.table),
        Column("messageType", "integer", "Message type.", lambda r: r.entry.message_type),
        Column("subscriptionId", "integer", "Subscription id; -1: all others.", lambda r: r.entry.subscription),
        Column("senders", "list", "Senders that the entry is for; empty: all.", lambda r: list(r.entry.senders)),
        Column("groups", "string", "Groups of endpoints; empty: deleted.", lambda r: str(r.entry.groups)),
        Column("line", "integer", "Line of the entry in the text of the table.", lambda r: r.entry.line),
        Column("deliveryCount", "integer", "Messages that the entry routed.", lambda r: r.taken),
    )

    def rows(self) -> Sequence[Any]:
        tables = ((active, active.table) for active in self._view.core.plane(Tables))
        return _Rows([(active, table) for active, table in tables if table is not None], self._entry)

    def among(self, name: str | None, identity: str | None) -> list[EntryRow]:
        """Return the entry with this number of its table."""
        return [
            self._entry(active, table, at)
            for active, number in _parts(self._view.core.plane(Tables), name, identity)
            if (table := active.table) is not None and (at := whole(number)) is not None and at < len(table.value)
        ]

    def _entry(self, active: ActiveTable, table: CompiledTable, number: int) -> EntryRow:
        entry = table.value.row(number)
        senders = encoded(sorted(set(entry.senders)))
        taken = table.native.turns(entry.message_type, entry.subscription, senders, active.native.seed)
        return EntryRow(active.setup.name, number, entry, taken)


class EndpointRow(NamedTuple):
    """An endpoint of a table in use."""

    active: ActiveTable
    name: str
    worker: int | None

    @property
    def counts(self) -> tuple[int, int]:
        return self.active.native.endpoint(*self.active.numbers(self.name))


class RouteTableEndpoints(Table):
    """The endpoints of all route tables in use."""

    listed = False
    NAME = "routeTable.endpoint"
    DESCRIPTION = "An endpoint of a route table in use."
    COLUMNS = (
        *key_columns("routeTable.endpoint", "Route table and endpoint.", lambda r: f"{r.active.setup.name}/{r.name}"),
        Column("table", "string", "Name of the route table.", lambda r: r.active.setup.name),
        Column("endpoint", "string", "host:port of the endpoint.", lambda r: r.name),
        Column("address", "string", "Address of the endpoint's receivers.", lambda r: r.active.prefix + r.name),
        Column("live", "boolean", "Whether the endpoint has a receiver.", lambda r: r.name in r.active.live),
        Column("worker", "integer", "Worker that connects to the endpoint.", lambda r: r.worker),
        Column("deliveryCount", "integer", "Messages sent to the endpoint.", lambda r: r.counts[0]),
        Column("missedCount", "integer", "Messages for the endpoint while it had no receiver.", lambda r: r.counts[1]),
    )

    def among(self, name: str | None, identity: str | None) -> list[EndpointRow]:
        """Return the endpoint of this name of its table."""
        return [
            EndpointRow(active, endpoint, self._view.core.plane(Dialling).worker(active.setup.name, endpoint))
            for active, endpoint in _parts(self._view.core.plane(Tables), name, identity)
            if max(active.numbers(endpoint)) >= 0
        ]

    def rows(self) -> Iterator[EndpointRow]:
        dialling = self._view.core.plane(Dialling)
        for active in self._view.core.plane(Tables):
            for name in active.names():
                yield EndpointRow(active, name, dialling.worker(active.setup.name, name))

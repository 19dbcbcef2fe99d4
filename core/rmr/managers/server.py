"""The router as Route Manager: it gives applications their tables and maps, and tracks which they run.

What is in use has a revision, and each application is brought to it (``core.rmr.managers.application``). Applications
that run the former revision get only the change, all others everything.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple, Protocol

from core.rmr.managers import application as a
from core.rmr.managers import messages
from core.rmr.managers.application import Application, Track
from core.rmr.managers.applications import Applications
from core.rmr.managers.changes import Changes
from core.rmr.tables import writing
from core.rmr.tables.state import Installed
from core.rmr.tables.table import MeidMap, Table
from core.rmr.tables.writing import PIECE, Text
from shm.contract.failures import failures
from shm.contract.hosts import host_of

MOST_TEXTS: Final = 16
WRITES: Final = 3  # parts of a text per turn, about 2 ms each
IMPATIENCE: Final = a.SECOND  # a repeated request within it crossed with the answer
POLL: Final = a.SECOND // 10  # interval between checks of all applications
CHECKED: Final = 50  # applications checked in one turn
FORGOTTEN: Final = 24 * 3600 * a.SECOND  # time without a connection after which an application is forgotten
UNANSWERED: Final = "it did not acknowledge {} within {} s"


class Port(Protocol):
    """The connections to the applications."""

    def room(self, connection: str) -> int:
        """Return how many messages may be sent to a connection now; 0 or less: none."""

    def send(self, connection: str, said: messages.Said) -> bool:
        """Send a message. Return False if the connection is gone."""

    def reach(self, place: str, wanted: bool) -> None:
        """Connect to a control port, host:port, and stay connected; or stop."""


class Event(NamedTuple):
    """An event for counters and the log. ``kind`` is request, restart, ok, err or late."""

    kind: str
    application: Application
    about: str


class Limits(NamedTuple):
    """The largest numbers of applications that are not configured: in all, and of one host."""

    all: int = 1000
    of_a_host: int = 100


DEFAULTS: Final = Limits()


class Server:
    """The Route Manager of one table.

    ``instance`` is part of all ids, so that they differ between runs of this router. ``name`` is where
    applications expect the manager; if it is empty, acknowledgements use the same connection.
    """

    def __init__(
        self,
        instance: str,
        name: str,
        port: Port,
        report: Callable[[Event], None],
        limits: Limits = DEFAULTS,
        piece: int = PIECE,
    ) -> None:
        self._instance = instance
        self._name = name
        self._port = port
        self._report = report
        self._limits = limits
        self._piece = piece
        self._messages = self._numbered = 0  # sent messages, and texts made
        self._applications = Applications()
        self._changes = Changes()
        self._texts: dict[tuple[str, int, int], Text] = {}
        self._writing: set[Application] = set()  # applications that are being sent something
        self._poll = 0  # when all are checked next
        self._unchecked: list[Application] = []  # those of this check that have not had their turn
        self.changed = False  # an application has come or gone

    def __iter__(self) -> Iterator[Application]:
        return iter(self._applications)

    def at(self, place: str) -> list[Application]:
        """Return the applications with this endpoint or control port, oldest first."""
        return self._applications.at(place)

    @property
    def busy(self) -> bool:
        """Whether there are applications to check, or tables to write or send."""
        return bool(self._unchecked) or any(self._port.room(one.connection) > 0 for one in self._writing)

    # ---- events ----

    def install(self, use: Installed, value: Table | MeidMap | None) -> None:
        """Record an installation, which led to ``use``. Without a value both table and map may have changed."""
        self._changes.install(use, value)
        self._poll = 0

    def know(self, endpoint: str, control: str, dial: str, *, fixed: bool = False) -> None:
        """Add an application that is configured or was known before, and need not send a request.

        It is gone from the next step on, as long as it is not reached.
        """
        if any(one.control == control for one in self._applications.at(control)):
            return
        one = Application(endpoint, control, dial, fixed)
        self._applications.add(one)
        self._reach(one, True)

    def _reach(self, one: Application, wanted: bool) -> None:
        if one.dial:
            self._port.reach(one.dial, wanted)

    def requested(self, heard: messages.Heard, dial: str, now: int) -> str:
        """Handle an application's request for its table.

        ``dial`` is where the router may connect to it later, empty for nowhere. Return why the request is
        refused, or an empty text.
        """
        endpoint = messages.requester(heard.payload)
        one = self._applications.find(endpoint, heard.source)
        if one is None:
            if self._applications.find("", heard.source) is None and (why := self._full(heard.host)):
                return why
            one = self._adopt(endpoint, heard.source)
        if one.dial != dial and not one.fixed:
            self._reach(one, False)
            self._applications.move(one, dial=dial)
        self._applications.move(one, host=host_of(heard.host))
        self._asked(one, heard, endpoint, now)
        return ""

    def _full(self, peer: str) -> str:
        """Return why a host's new application exceeds a limit, or an empty text.

        An idle application makes room: whoever has never acknowledged anything may not be one at all.
        """
        host, known = host_of(peer), self._applications
        if known.guests(host) >= self._limits.of_a_host and not self._make_room(known.idle(host)):
            return f"its host has {self._limits.of_a_host} applications already (maxApplicationsPerHost)"
        if known.guests() >= self._limits.all and not self._make_room(known.idle()):
            return f"the router knows {self._limits.all} applications already (maxApplications)"
        return ""

    def _make_room(self, idle: Application | None) -> bool:
        if idle is not None:
            self._remove(idle)
        return idle is not None

    def _remove(self, one: Application) -> None:
        self._applications.remove(one)
        self._reach(one, False)
        self.changed = True

    def _asked(self, one: Application, heard: messages.Heard, endpoint: str, now: int) -> None:
        one.requests += 1
        self._report(Event("request", one, endpoint))
        waits = one.sending is not None and one.connection == heard.answer
        if waits and one.requested != a.NOTHING and now - one.requested < IMPATIENCE:
            return
        if one.table.acknowledged != a.NOTHING:
            self._report(Event("restart", one, one.table.table_id))
        one.requested = now
        dialling = one.dialled or not one.connection
        self._applications.move(one, connection=heard.answer)
        one.dialled = False
        if dialling:
            self._reach(one, False)
        one.begin(now)
        self._go_on(one, now)

    def _adopt(self, endpoint: str, control: str) -> Application:
        """Add an application that is new or whose endpoint was unknown."""
        one = self._applications.find("", control)
        if one is None:
            one = Application(endpoint, control, "")
            self._applications.add(one)
        elif endpoint:
            self._applications.locate(one, endpoint)
        self.changed = True
        return one

    def answered(self, heard: messages.Heard, now: int) -> None:
        """Handle a state message. It names its table, or else is matched by its transaction id."""
        state = messages.state_of(heard.payload)
        for one in self._applications.at(heard.source) or self._applications.on(heard.answer):
            track = None if state is None else _meant(one, state, heard.xact)
            if state is None or track is None or track.text is None:
                if state is not None and state.ok and one.sending is None and self.wrote(state.about):
                    one.begin(now)  # a former table, over a slower connection, has replaced the last one
                continue
            if not state.ok:
                reason = state.reason(track.text.table_id)
                one.fail(a.ERR, reason or "the application gave no reason", now)
                self._report(Event("err", one, f"{track.text.table_id} {reason}"))
                return
            self._report(Event("ok", one, track.text.table_id))
            one.acknowledge(track, now)
            self._applications.prove(one)
            if track is one.map and track.sent == self._changes.map:
                one.know(self._changes.use.owners)
            self._go_on(one, now)
            return

    def wrote(self, text: str) -> bool:
        """Whether a text names a table or map that this server has written, or one made of it elsewhere."""
        return f"@{self._instance}." in text

    def reached(self, place: str, connection: str, now: int) -> None:
        """Send everything to the application behind a control connection that this router requested."""
        for one in self._applications.behind(place):
            if not one.connection:
                self._applications.move(one, connection=connection)
                one.dialled = True
                one.begin(now)
                self._serve(self._go_on, one, now)

    def lost(self, connection: str, now: int) -> None:
        """Record a lost connection and connect to the control port, as applications request only once."""
        for one in self._applications.on(connection):
            self._applications.move(one, connection="")
            one.gone = now
            one.fail(a.UNKNOWN, "the connection was lost", now)
            self._reach(one, True)

    # ---- time ----

    def step(self, now: int) -> None:
        """Send what there is room for, and check for missing acknowledgements. ``now`` is in nanoseconds."""
        for one in list(self._writing):
            self._serve(self._send, one, now)
        if now >= self._poll and not self._unchecked:
            self._poll = now + POLL
            self._unchecked = list(self)
        for one in self._unchecked[-CHECKED:]:
            if self._applications.find(one.endpoint, one.control) is one:  # it may have made room meanwhile
                self._serve(self._attend, one, now)
        del self._unchecked[-CHECKED:]

    def _serve(self, act: Callable[[Application, int], None], one: Application, now: int) -> None:
        """Do something for an application. A failure is its own: it gets everything again after a pause."""
        try:
            act(one, now)
        except Exception as error:  # neither the core nor other applications may end of it
            failures.tell(f"sending a route table to {one.control}", error, "it is sent again")
            self._writing.discard(one)
            one.fail(a.UNKNOWN, a.FAILED.format(type(error).__name__), now)

    def _attend(self, one: Application, now: int) -> None:
        if not one.connection:
            if one.gone is None:
                one.gone = one.since = now
            if now - one.gone > FORGOTTEN and not one.fixed:
                self._remove(one)
        elif one.sending is None:
            self._go_on(one, now)
        elif one.deadline and now >= one.deadline:
            what = "" if one.sending.text is None else one.sending.text.table_id
            self._report(Event("late", one, what))
            one.fail(a.UNKNOWN, UNANSWERED.format(what, a.TIMEOUT // a.SECOND), now)

    def _go_on(self, one: Application, now: int) -> None:
        """Send an application what it needs next, unless it is up to date."""
        if now < one.due or not one.connection or one.sending is not None:
            return
        if self._changes.use.table is None:
            one.be(a.PENDING, now, "no table is in use yet")
        elif not self._has_table(one):
            self._begin(one, one.table, self._changes.table, self._table_text(one), now)
        elif not self._has_map(one):
            self._begin(one, one.map, self._changes.map, self._map_text(one), now)
        else:
            one.be(a.OK, now)

    def _has_table(self, one: Application) -> bool:
        return one.table.acknowledged >= self._changes.table

    def _has_map(self, one: Application) -> bool:
        """Whether an application has the map. One that never had any needs no empty one."""
        if one.map.acknowledged == a.NOTHING:
            return not (self._changes.use.owners or one.owners or one.others)
        return one.map.acknowledged >= self._changes.map

    def _begin(self, one: Application, track: Track, revision: int, text: Text, now: int) -> None:
        self._messages += 1
        xact = f"{self._instance[:16]:0>16}{self._messages:016x}".encode()
        one.send(track, revision, text, xact, now)
        self._writing.add(one)
        self._send(one, now)

    def _send(self, one: Application, now: int) -> None:
        """Send more of the current text, piece by piece."""
        text = None if one.sending is None else one.sending.text
        if text is None or one.deadline:
            self._writing.discard(one)
            return
        for _ in range(WRITES):
            if len(text.pieces) <= one.at and not text.complete:
                text.write()
        while one.at < len(text.pieces) and self._port.room(one.connection) > 0:
            said = messages.Said(messages.TABLE, text.pieces[one.at], self._name, xact=one.xact)
            if not self._port.send(one.connection, said):
                self.lost(one.connection, now)
                return
            one.at += 1
        if text.complete and one.at == len(text.pieces):
            one.deadline = now + a.TIMEOUT
            self._writing.discard(one)

    # ---- texts ----

    def _table_text(self, one: Application) -> Text:
        table, since = self._changes.use.table, one.table.acknowledged
        assert table is not None
        changes = self._changes.since(since)
        if changes is None or any(change.entries is None for change in changes):
            return self._text("table", a.NOTHING, lambda name: writing.table_lines(table, name))
        entries = [entry for change in changes for entry in change.entries or ()]
        return self._text("update", since, lambda name: writing.update_lines(entries, name))

    def _map_text(self, one: Application) -> Text:
        """Return the map for an application.

        It loses entities that it may know and that have no owner now.
        """
        since, owners = one.map.acknowledged, self._changes.use.owners
        changes = self._changes.since(since)
        if changes is None or any(change.maps is None for change in changes):
            gone = self._changes.gone(one.owners)
            further = frozenset(meid for meid in one.others if meid not in owners) - gone
            one.know(owners, gone | further if further else gone)
            lines = partial(writing.map_lines, owners, one.others)
            # all that have acknowledged one map have the same ones without an owner
            shared = not further and (since != a.NOTHING or not gone)
            return self._text("map", since, lines) if shared else self._new("map", lines)
        maps = [one_ for change in changes for one_ in change.maps or ()]
        met = {meid for one_ in maps for meid in (*one_.owners, *one_.deleted)}
        some = {meid: owners[meid] for meid in met if meid in owners}
        one.know(one.owners, one.others | some.keys())
        return self._text("map", since, partial(writing.map_lines, some, met - owners.keys()))

    def _text(self, kind: str, since: int, lines: Callable[[str], Iterator[str]]) -> Text:
        """Return the text that leads from a revision to the one in use. All applications share it."""
        key = kind, since, self._changes.revision
        if (text := self._texts.get(key)) is None:
            text = self._texts[key] = self._new(kind, lines)
            if len(self._texts) > MOST_TEXTS:
                del self._texts[next(iter(self._texts))]
        return text

    def _new(self, kind: str, lines: Callable[[str], Iterator[str]]) -> Text:
        self._numbered += 1
        name = "" if self._changes.use.table is None else self._changes.use.table.table_id
        table_id = f"{writing.clean_id(name) or kind}@{self._instance}.{self._numbered}"
        return Text(table_id, lines(table_id), self._piece)


def _meant(one: Application, state: messages.State, xact: bytes) -> Track | None:
    """Return what a state message is about.

    A text that is still being sent was meant in an earlier attempt.
    """
    tracks = [track for track in (one.table, one.map) if track.text is not None and state.names(track.text.table_id)]
    if not tracks and state.about.startswith(messages.NO_ID) and one.sending is not None and xact == one.xact:
        tracks = [one.sending]
    return next((track for track in tracks if track is not one.sending or one.deadline), None)

"""All manager sessions, connected with the core's messages, connections and tables."""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from core.forwarder.forward import Forwarder, Pools
from core.links.links import Links
from core.links.local import Local
from core.links.plane import Plane
from core.links.terminus import RMR
from core.rmr.active.dialling import Dialling
from core.rmr.active.intake import Made
from core.rmr.active.route_tables import ActiveTable, RouteTables
from core.rmr.managers import application
from core.rmr.managers.envelope import LONGEST
from core.rmr.managers.manager_session import ManagerSession, Peer
from core.rmr.managers.remembered import Known, Remembered
from core.rmr.tables.table import MeidMap, Table
from shm.contract.control import SetTables
from shm.contract.payloads import ConnectionOpened
from shm.contract.tables import CONNECTION, TableSetup, connections
from shm.statistics.stats import COUNTERS

CONTROL: Final = "$rm"  # follows a table's address: where its control messages go
REFUSED: Final = COUNTERS["tables_refused"].place
APPLICATIONS: Final = COUNTERS["table_applications"].place
IN_STEP: Final = COUNTERS["table_applications_ok"].place
POLL_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _World:
    """The surroundings of one manager session (``core.rmr.managers.manager_session.World``)."""

    forwarder: Forwarder
    local: Local
    dialling: Dialling
    tables: RouteTables
    active: ActiveTable
    clock: Callable[[], float]
    connections: str

    def seconds(self) -> int:
        """Return UNIX time in seconds."""
        return int(self.clock())

    def _address(self, name: str) -> str:
        if name.startswith(CONNECTION):
            name = self.connections + name.removeprefix(CONNECTION)
        return self.active.prefix + name

    def send(self, address: str, content: bytes) -> bool:
        """Send a message. Return False if nobody receives it."""
        return self.local.send(self._address(address), content)

    def waiting(self, address: str) -> int:
        """Return the number of messages on their way."""
        return self.local.waiting(self._address(address))

    def there(self, address: str) -> bool:
        """Whether an address has a receiver."""
        return self.local.reaches(self._address(address))

    def dial(self, name: str, wanted: bool) -> None:
        """Connect to host:port, or stop."""
        self.dialling.control(self.active, name, wanted)

    def install(self, value: Table | MeidMap, origin: str, done: Callable[[str], None]) -> None:
        """Take a table or map into use. ``done`` gets the reason if that fails, else an empty text."""
        feed = self.active.feed(origin, lambda outcomes: done(outcomes[0].reason))
        self.tables.take(feed, value)

    def origin(self) -> str:
        """Return the origin of the table in use."""
        return self.active.history.origin

    def refused(self, what: str, reason: str) -> None:
        """Record something that was refused before installation."""
        self.forwarder.count(REFUSED)
        self.active.history.refused += 1
        self.active.history.last_error = f"{what}: {reason}"

    def count(self, what: str) -> None:
        """Add one to a counter."""
        self.forwarder.count(COUNTERS[what].place)

    def freed(self) -> None:
        """Let the heap give back what long tables had of it."""
        Pools(self.forwarder).freed()


class ManagerSessions(Plane):
    """The manager sessions, one for each configured table.

    ``seed`` is the core's and differs in each run. ``router_id`` is part of the addresses of this router's
    connections. ``snapshot_store`` maps a name to the file that remembers applications for the next core;
    empty: none.
    """

    def __init__(
        self,
        forwarder: Forwarder,
        local: Local,
        links: Links,
        tables: RouteTables,
        dialling: Dialling,
        *,
        seed: bytes,
        router_id: str,
        snapshot_store: Callable[[str], str] = lambda _: "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._snapshot_store = snapshot_store
        self._forwarder = forwarder
        self._local = local
        self._links = links
        self._clock = clock
        self._connections = connections(router_id)
        self._tables = tables
        self._dialling = dialling
        self._instance = hashlib.blake2b(seed, digest_size=4).hexdigest()
        self._sessions: dict[str, tuple[TableSetup, ManagerSession, Remembered]] = {}  # by name of the table
        self._listening: dict[str, int] = {}  # link by name of the table
        self._peers: dict[tuple[int, int], ConnectionOpened] = {}
        self._polled = 0
        tables.installed.append(self._installed)

    def __iter__(self) -> Iterator[ManagerSession]:
        return (session for _, session, _ in list(self._sessions.values()))

    # ---- configuration ----

    def configure(self, change: msgspec.Struct) -> None:
        """Apply a `SetTables`: begin and end sessions."""
        if not isinstance(change, SetTables):
            return
        known: dict[str, Known] = {}
        for name, (setup, session, _) in list(self._sessions.items()):
            active = self._tables.find(name)
            if active is None or _matters(active.setup) != _matters(setup):
                self._dialling.forget_controls(name)
                self._local.leave(self._listening.pop(name))
                known[name] = _known(session)
                del self._sessions[name]
        for active in self._tables:
            if active.setup.name not in self._sessions:
                self._add(active, known.get(active.setup.name, []))

    def _add(self, active: ActiveTable, known: Known) -> None:
        setup = active.setup
        world = _World(
            self._forwarder, self._local, self._dialling, self._tables, active, self._clock, self._connections
        )
        session = ManagerSession(setup, self._instance, world, active.installed)
        path = setup.applications or self._snapshot_store(f"{setup.name}.applications")
        remembered = Remembered(path if setup.serve else "")
        self._sessions[setup.name] = setup, session, remembered
        if session.server is not None:
            for endpoint, control, dial in [*known, *remembered.load()]:
                session.server.know(endpoint, control, dial)
        for opened in self._peers.values():
            session.opened(_peer(opened))
        self._listening[setup.name] = self._local.listen(
            active.prefix + CONTROL, lambda content, _: self._heard(setup.name, content), LONGEST
        )

    # ---- what happens ----

    def _heard(self, table: str, content: bytes) -> None:
        """Pass a control message to its session. A message of another transport is none."""
        source = self._local.source
        link = None if source is None else self._links.find(*source)
        opened = None if link is None else self._peers.get((link.worker, link.connection))
        found = self._sessions.get(table)
        if opened is not None and found is not None:
            found[1].heard(content, opened.number, self._forwarder.now)

    def opened(self, worker: int, opened: ConnectionOpened) -> None:
        """Enter a connection that speaks RMR."""
        if opened.role == RMR:
            self._peers[worker, opened.connection] = opened
            for session in self:
                session.opened(_peer(opened))

    def closed(self, worker: int, connection: int) -> None:
        """Forget a connection that is gone."""
        if (opened := self._peers.pop((worker, connection), None)) is not None:
            for session in self:
                session.closed(opened.number, self._forwarder.now)

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        """Forget the connections of a dead worker."""
        for key in [one for one in self._peers if one[0] == worker]:
            self.closed(*key)

    def _installed(self, active: ActiveTable, made: Made) -> None:
        if (found := self._sessions.get(active.setup.name)) is not None:
            value = made.values[0] if len(made.values) == 1 else None
            found[1].installed(active.installed, value)

    # ---- what is due ----

    def step(self, now: int) -> None:
        """Do what is due, or a part of it if it is much."""
        for session in self:
            session.step(now)
        if now - self._polled >= POLL_NS:
            self._polled = now
            self._look()

    def _look(self) -> None:
        """Count the applications, and write the files that remember them."""
        known = in_step = 0
        for _, session, remembered in self._sessions.values():
            if session.server is None:
                continue
            applications = list(session.server)
            known += len(applications)
            in_step += sum(one.state == application.OK for one in applications)
            remembered.save(_known(session))
        if self._sessions:
            self._forwarder.gauge(APPLICATIONS, known)
            self._forwarder.gauge(IN_STEP, in_step)

    @property
    def restless(self) -> bool:
        """Whether there is work to do before the core sleeps."""
        return any(session.busy for session in self)


def _matters(setup: TableSetup) -> TableSetup:
    """Return the setup without what a session does not use, because only other changes need another session."""
    return msgspec.structs.replace(
        setup, seed="", stamp=(), skip_dead=True, connect=True, reply="", max_frame_size=0, pushers=(), stash=""
    )


def _known(session: ManagerSession) -> Known:
    """Return the applications that are not configured."""
    return [(one.endpoint, one.control, one.dial) for one in session.server or () if not one.fixed]


def _peer(opened: ConnectionOpened) -> Peer:
    return Peer(opened.number, opened.host, opened.container if opened.connector else "")

"""The route tables of a running router: what is in use, its origin, and the receivers at each endpoint.

    text --Intake--> Made --RouteTables.step--> in use; the former table is freed once its counts have moved

An endpoint's address is the table's, a slash and the endpoint's name. Its receivers are the endpoint.
"""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from core.addresses.addresses import Address, Addresses
from core.forwarder.forward import Forwarder
from core.forwarder.recorded import Routes
from core.links.links import Links
from core.links.plane import Plane
from core.rmr.active.compiled import CompiledOwners, CompiledTable
from core.rmr.active.intake import Feed, Intake, Made, Outcome, Text, Unfinished, Values
from core.rmr.active.snapshot import Kept, Use
from core.rmr.tables.state import Installed
from shm.contract.control import SetTables
from shm.contract.failures import failures
from shm.contract.numbers import counted
from shm.contract.payloads import Detach, Error, record
from shm.contract.tables import TableSetup
from shm.statistics.stats import COUNTERS

LOGGER = logging.getLogger("ROUTER_CORE")

TABLES_CHANGED: Final = Error("amqp:link:detach-forced", "The route tables have changed; attach again")
REMOVED: Final = Outcome("table", "", "its route table does not exist any more")
TABLES_INSTALLED: Final = COUNTERS["tables_installed"].place
TABLES_REFUSED: Final = COUNTERS["tables_refused"].place
TABLE_ENTRIES: Final = COUNTERS["table_entries"].place


class History(msgspec.Struct):
    """What management shows of a table besides its entries. ``installed`` is in seconds since 1970."""

    table_id: str = ""
    map_id: str = ""
    origin: str = ""
    installed: int = 0
    stamp: tuple[int, ...] = ()  # of the seed that is in use unchanged; empty: something else is
    refused: int = 0
    last_error: str = ""


class ActiveTable:
    """One route table."""

    def __init__(self, forwarder: Forwarder, address: Address, setup: TableSetup) -> None:
        self.setup = setup
        self.address = address
        self.closed = True  # senders get no credit yet (opening.py)
        self.begun = False  # its seed or snapshot is in use, or has failed
        self.answered: set[str] = set()  # while closed: endpoints that are connected or have failed
        self.native = Routes(forwarder, address.handle)
        self.native.set_skip_dead(setup.skip_dead)
        self.values = Values(self.native.seed)
        self.table: CompiledTable | None = None
        self.owners: CompiledOwners | None = None
        self.live: dict[str, Address] = {}  # by endpoint
        self.history = History()
        self.waiting: deque[Made] = deque()  # to be taken into use, one after the other
        self.former: list[object] = []  # what was in use before, while its counts move

    @property
    def prefix(self) -> str:
        """The beginning of its endpoints' addresses."""
        return f"{self.setup.address}/"

    @property
    def numberings(self) -> list[dict[str, int]]:
        """The endpoint numbers of the table and of the map in use."""
        return [one.endpoints for one in (self.table, self.owners) if one is not None]

    def names(self) -> Iterator[str]:
        """Yield all endpoints, those of the table first."""
        for at, numbering in enumerate(self.numberings):
            yield from (one for one in numbering if not at or one not in self.numberings[0])

    def endpoint_of(self, address: Address) -> str | None:
        """Return the endpoint with this address in the phase in which its receivers receive, or None."""
        before = f"M{address.rule.egress}{self.prefix}"
        return address.key.removeprefix(before) if address.key.startswith(before) else None

    def numbers(self, name: str) -> tuple[int, int]:
        """Return an endpoint's numbers in the table and among the owners; -1: not there."""
        in_table = -1 if self.table is None else self.table.endpoints.get(name, -1)
        return in_table, -1 if self.owners is None else self.owners.endpoints.get(name, -1)

    def open(self) -> None:
        """Give senders their credit."""
        self.closed = False
        self.answered.clear()
        self.native.open()

    def bind(self, name: str) -> None:
        """Tell the forwarder where an endpoint's messages go."""
        known = self.live.get(name)
        self.native.bind(*self.numbers(name), 0 if known is None else known.handle)

    def feed(
        self,
        origin: str,
        done: Callable[[list[Outcome]], None],
        stamp: tuple[int, ...] = (),
        wanted: Kept | None = None,
        unfinished: Unfinished | None = None,
    ) -> Feed:
        """Return a new source of records, such as its seed or snapshot."""
        return Feed(self.values, origin, self.setup.compatible, done, stamp, wanted, unfinished)

    @property
    def kept(self) -> Use:
        """What is in use, for the snapshot."""
        now = self.history
        about = Kept(self.setup.name, now.table_id, now.map_id, now.origin, now.installed, now.stamp)
        return Use(about, self.installed.table, self.installed.owners)

    @property
    def installed(self) -> Installed:
        """The table and the owners in use."""
        return Installed(
            None if self.table is None else self.table.value, {} if self.owners is None else self.owners.value
        )


class RouteTables(Plane):
    """All route tables of this router. ``changed`` is called when a table's endpoints may have changed.

    ``snapshot_store`` maps the name of a table without `stash` to its snapshot's file; empty: none.
    ``served`` is told of addresses that become (1) or stop being (-1) a table's.
    """

    def __init__(
        self,
        forwarder: Forwarder,
        addresses: Addresses,
        intake: Intake,
        links: Links,
        snapshot_store: Callable[[str], str],
        served: Callable[[Address, int, bool], None],
    ) -> None:
        self._links = links
        self._snapshot_store = snapshot_store
        self._served = served
        self._forwarder = forwarder
        self._addresses = addresses
        self._tables: dict[str, ActiveTable] = {}
        self.intake = intake
        self.changed: Callable[[ActiveTable], None] = lambda _: None
        self.installed: list[Callable[[ActiveTable, Made], None]] = []  # called for each table taken into use
        addresses.watchers.append(self._watch)

    def __iter__(self) -> Iterator[ActiveTable]:
        return iter(list(self._tables.values()))  # the agent lists them while a reload changes them

    def find(self, name: str) -> ActiveTable | None:
        """Return the table of this name, or None."""
        return self._tables.get(name)

    # ---- configuration ----

    def configure(self, change: msgspec.Struct) -> None:
        """Apply a `SetTables`. Senders to addresses that became or stopped being a table's attach again."""
        if not isinstance(change, SetTables):
            return
        touched = {address.handle for address in self._use(change.tables)}
        for link in self._links.entries():
            if link.address is not None and link.address.handle in touched:
                detach = Detach(link.link, link.generation, TABLES_CHANGED)
                self._forwarder.post_control(link.worker, *record(detach))

    def _use(self, setups: Iterable[TableSetup]) -> list[Address]:
        """Use these tables. Return the addresses that became or stopped being a table's."""
        wanted = {one.name: one for one in setups}
        touched: list[Address] = []
        for name, active in list(self._tables.items()):
            if name not in wanted or wanted[name].address != active.setup.address:
                touched.append(self._remove(active))
        for name, setup in wanted.items():
            known = self._tables.get(name)
            active = self._add(setup) if known is None else known
            before = None if known is None else known.setup
            if before is None:
                touched.append(active.address)
            active.setup = setup
            if before is not None and before.stash != setup.stash:
                self._move_stash(active, before)
            active.native.set_skip_dead(setup.skip_dead)
            self.changed(active)
            if before is None and (path := self._stash(active)) and os.path.exists(path):
                self._restore(active, Path(path))
            elif setup.seed and (before is None or (before.seed, before.stamp) != (setup.seed, setup.stamp)):
                self._seed(active)
            elif before is None:
                active.open()
        return touched

    def _add(self, setup: TableSetup) -> ActiveTable:
        address = self._addresses.resolve(setup.address)
        self._addresses.keep(address)
        self._addresses.tables.add(address.key)
        active = self._tables[setup.name] = ActiveTable(self._forwarder, address, setup)
        self._served(address, 1, False)
        for one in self._addresses.entries():
            if (name := active.endpoint_of(one)) is not None:
                active.live[name] = one
        return active

    def _remove(self, active: ActiveTable) -> Address:
        active.native.close()
        self._served(active.address, -1, False)
        del self._tables[active.setup.name]
        self._addresses.tables.discard(active.address.key)
        self._addresses.release(active.address)
        if path := self._stash(active):
            self.intake.keep(path, None)
        LOGGER.info("Route table %s: removed", active.setup.name)
        for made in active.waiting:
            _tell(made.feed, [REMOVED])
        self.changed(active)
        return active.address

    def _seed(self, active: ActiveTable) -> None:
        path = Path(active.setup.seed)
        self.take(active.feed(str(path), lambda _: None, active.setup.stamp), path, last=True)

    def _stash(self, active: ActiveTable) -> str:
        return active.setup.stash or self._snapshot_store(active.setup.name)

    def _move_stash(self, active: ActiveTable, before: TableSetup) -> None:
        """Keep the snapshot in another file from now on."""
        if former := before.stash or self._snapshot_store(before.name):
            self.intake.keep(former, None)
        if (path := self._stash(active)) and (active.table is not None or active.owners is not None):
            self.intake.keep(path, active.kept)

    def _restore(self, active: ActiveTable, path: Path) -> None:
        """Begin with the snapshot, or if that fails with the seed."""
        name = active.setup.name

        def done(outcomes: list[Outcome]) -> None:
            bad = [one.reason for one in outcomes if not one.ok]
            if bad and self.find(name) is active:
                LOGGER.warning("Route table %s: the snapshot in %s is not used: %s", name, path, bad[0])
                if active.setup.seed:
                    self._seed(active)

        self.take(active.feed(f"stash {path}", done, wanted=Kept(name, stamp=active.setup.stamp)), path, last=True)

    # ---- texts ----

    def take(self, feed: Feed, text: Text, last: bool = False) -> None:
        """Take records of a feed. ``last`` means that no more follow. Its ``done`` gets the result."""
        self.intake.put(feed, text, last)

    def step(self, now: int) -> None:
        """Take finished tables into use, and free those that they replace."""
        self.intake.begin()
        self._turn()
        while self.intake.made:  # results of what was just taken into use or refused
            self._turn()

    def _turn(self) -> None:
        while self.intake.made:
            made = self.intake.made.popleft()
            active = next((one for one in self if one.values is made.feed.values), None)
            if active is None:
                _tell(made.feed, [REMOVED])
            else:
                active.waiting.append(made)
        for active in list(self):
            self._settle(active)
            while active.waiting and not active.former:
                self._install(active, active.waiting.popleft())

    def _settle(self, active: ActiveTable) -> None:
        """Free what was in use before once its counts have moved."""
        if active.former and active.native.settle():
            self.intake.forget(active.former)
            active.former = []

    @property
    def restless(self) -> bool:
        """Whether there is work to do before the core sleeps."""
        return bool(self.intake.made) or any(one.former or one.waiting for one in self)

    def close(self) -> None:
        """Write the snapshots for the next core."""
        self.intake.close()

    def _install(self, active: ActiveTable, made: Made) -> None:
        active.former = [active.table, active.owners, made]
        if made.table is not None:
            active.native.use_table(made.table.native, made.moved)
            active.table = made.table
        if made.owners is not None:
            active.native.use_owners(made.owners.native, made.moved_owners)
            active.owners = made.owners
        for name in active.live:
            active.bind(name)
        self._settle(active)
        self._tell(active, made)
        for hear in self.installed if made.values else ():
            hear(active, made)
        if made.values and made.kept is None and (path := self._stash(active)):
            self.intake.keep(path, active.kept)
        seed_next = made.feed.wanted is not None and not made.values and active.setup.seed
        active.begun = active.begun or not seed_next
        if made.table is not None or made.owners is not None:
            self._forwarder.gauge(TABLE_ENTRIES, sum(one.table.native.entries for one in self if one.table))
            self.changed(active)
        elif active.closed:
            self.changed(active)

    def _tell(self, active: ActiveTable, made: Made) -> None:
        """Log one line for each table and map."""
        name, origin, history = active.setup.name, made.feed.origin, active.history
        restored = made.feed.wanted is not None
        for one in made.outcomes:
            if restored and not one.ok:
                continue  # `_restore` logs it
            table_id = one.table_id or "<id-missing>"
            if not one.ok:
                history.refused += 1
                history.last_error = f"{one.kind} {table_id} from {origin}: {one.reason}"
                self._forwarder.count(TABLES_REFUSED)
                LOGGER.warning(
                    "Route table %s: %s %s from %s refused, the former stays in use: %s",
                    name, one.kind, table_id, origin, one.reason,
                )  # fmt: skip
                continue
            self._forwarder.count(TABLES_INSTALLED)
            if one.kind == "map":
                history.map_id = one.table_id
            else:
                history.table_id, history.origin = one.table_id or history.table_id, origin
                history.installed = int(time.time())
            LOGGER.info(
                "Route table %s: %s %s from %s in use, %s",
                name, one.kind, table_id, origin, counted(one.entries, "entry"),
            )  # fmt: skip
        if made.values:
            history.stamp = made.feed.stamp
        if made.values and made.kept is not None:
            _recall(history, made.kept, origin)
        _tell(made.feed, made.outcomes)

    # ---- endpoints ----

    def _watch(self, address: Address, there: bool) -> None:
        """Bind or unbind an endpoint whose address has come or is about to go."""
        for active in self._tables.values():
            name = address.key[2 + len(active.prefix) :]
            if there and active.endpoint_of(address) is not None:
                active.live[name] = address
            elif not there and active.live.get(name) is address:  # its rule may have another phase by now
                del active.live[name]
            else:
                continue
            active.bind(name)


def _tell(feed: Feed, outcomes: list[Outcome]) -> None:
    """Tell who sent a table what became of it."""
    try:
        feed.done(outcomes)
    except Exception as error:  # it must not end the core
        failures.tell(f"telling {feed.origin} what became of its table", error, "it is not told")


def _recall(history: History, kept: Kept, origin: str) -> None:
    """Restore a table's history from its snapshot."""
    history.table_id, history.map_id = kept.table_id, kept.map_id
    history.installed, history.stamp = kept.installed, kept.stamp
    history.origin = kept.origin if kept.stamp else f"{origin}, which had it from {kept.origin}"

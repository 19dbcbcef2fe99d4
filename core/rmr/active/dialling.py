"""Which endpoints of route tables the router connects to, and which worker connects.

An endpoint without an AMQP receiver is reached over RMR's own transport. Its worker follows from its name and
the set of workers, so it keeps its worker while others come and go, and a new core chooses the same.
"""

import logging
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from core.forwarder.forward import Forwarder
from core.links.link import Link
from core.links.links import Links
from core.links.plane import Plane
from core.links.terminus import RMR
from core.rmr.active.route_tables import ActiveTable, RouteTables
from core.rmr.tables.fields import is_endpoint
from shm.contract.payloads import ConnectionOpened, Detach, Endpoint, record

LOGGER = logging.getLogger("ROUTER_CORE")


TO: Final = "$to/"  # precedes the host:port of a control connection
MOST: Final = 1024  # connections per table, one for each endpoint

Key = tuple[int, int, int]  # worker, index and generation of a link
Place = tuple[str, str]  # table and endpoint
Find = Callable[[int, int], ConnectionOpened | None]


class Dialling(Plane):
    """Tells workers what to connect to, and repeats it for the successor of a dead worker.

    ``links`` are all links, and ``find`` returns the connection of a worker and index.
    """

    def __init__(
        self, forwarder: Forwarder, tables: RouteTables, links: Links, find: Find, workers: Iterable[int]
    ) -> None:
        self._links = links
        self._find = find
        self._forwarder = forwarder
        self._tables = tables
        self._workers = set(workers)
        self._orders: dict[Place, tuple[int, Endpoint]] = {}
        self._receivers: dict[Key, Place] = {}
        self._held: Counter[Place] = Counter()  # AMQP receivers at each endpoint
        self._known: dict[str, ActiveTable] = {}  # tables whose AMQP receivers are known
        self._controls: set[Place] = set()  # control connections among the orders

    def worker(self, table: str, name: str) -> int | None:
        """Return the worker that connects to an endpoint, or None."""
        order = self._orders.get((table, name))
        return None if order is None else order[0]

    def ordered(self, active: ActiveTable) -> Iterator[str]:
        """Yield the endpoints of a table that a worker connects to."""
        table = active.setup.name
        return (name for at, name in self._orders.keys() - self._controls if at == table)

    def refresh(self, active: ActiveTable) -> None:
        """Connect to a table's present endpoints and to no others; to none if the table is gone."""
        table = active.setup.name
        there = self._tables.find(table) is active
        if self._known.get(table) is not (active if there else None):
            self._meet(active, there)
        found = active.setup.connect and there
        names = {name for name in islice(active.names(), MOST) if found and is_endpoint(name)}
        if found and sum(map(len, active.numberings)) > MOST:
            LOGGER.warning("Route table %s: the router connects only to the first %d endpoints", table, MOST)
        gone = self._orders.keys() - self._controls
        for place in [one for one in gone if one[0] == table and one[1] not in names]:
            self._withdraw(place)
        for name in names:
            self._want(active, name)

    # ---- control connections to Route Managers and applications ----

    def control(self, active: ActiveTable, name: str, wanted: bool) -> None:
        """Connect to host:port independently of the table, or stop."""
        place = active.setup.name, TO + name
        if wanted and is_endpoint(name) and place not in self._orders:
            self._controls.add(place)
            self._connect(active, place, name)
        elif not wanted:
            self._controls.discard(place)
            self._withdraw(place)

    def forget_controls(self, table: str) -> None:
        """Stop all control connections of a table."""
        for place in [one for one in self._controls if one[0] == table]:
            self._controls.discard(place)
            self._withdraw(place)

    # ---- AMQP clients that are endpoints ----

    def _meet(self, active: ActiveTable, there: bool) -> None:
        """Forget the AMQP receivers at a table's former address, and find those at its present one."""
        table = active.setup.name
        self._receivers = {key: place for key, place in self._receivers.items() if place[0] != table}
        self._held = Counter(self._receivers.values())
        self._known.pop(table, None)
        if there:
            self._known[table] = active
            for link in self._links.entries():
                self._hold(link, [active])

    def attached(self, link: Link) -> None:
        """Disconnect from an endpoint for which an AMQP client receives now."""
        self._hold(link, self._tables)

    def _hold(self, link: Link, tables: Iterable[ActiveTable]) -> None:
        """Count a link among the AMQP receivers at an endpoint of one of these tables, if it is one."""
        if not link.outgoing or link.address is None:
            return
        for active in tables:
            if (name := active.endpoint_of(link.address)) is None:
                continue
            opened = self._find(link.worker, link.connection)
            if opened is not None and opened.role != RMR:
                place = self._receivers[_key(link)] = active.setup.name, name
                self._held[place] += 1
                self._withdraw(place)

    def detached(self, link: Link, detach: Detach | None) -> None:
        """Connect to an endpoint for which the last AMQP client has stopped receiving."""
        place = self._receivers.pop(_key(link), None)
        if place is None:
            return
        self._held[place] -= 1
        if not self._held[place]:
            del self._held[place]
        active = self._tables.find(place[0])
        if active is not None and max(active.numbers(place[1])) >= 0:
            self._want(active, place[1])

    # ---- workers ----

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        """Tell the successor of a dead worker, or with ``removed`` another worker, of its endpoints."""
        if removed:
            self._workers.discard(worker)
        for place, (whose, endpoint) in list(self._orders.items()):
            if whose == worker:
                self._order(place, endpoint)

    def worker_added(self, worker: int) -> None:
        """Add a worker. Existing connections stay."""
        self._workers.add(worker)

    # ---- orders to workers ----

    def _want(self, active: ActiveTable, name: str) -> None:
        place = active.setup.name, name
        if place in self._orders or self._held[place] or not (active.setup.connect and is_endpoint(name)):
            return
        self._connect(active, place, name)

    def _connect(self, active: ActiveTable, place: Place, name: str) -> None:
        host, _, port = name.rpartition(":")
        self._order(place, Endpoint(place[0], active.prefix + place[1], host.strip("[]"), int(port)))

    def _withdraw(self, place: Place) -> None:
        if (order := self._orders.pop(place, None)) is not None:
            self._post(order[0], msgspec.structs.replace(order[1], open=False))

    def _order(self, place: Place, endpoint: Endpoint) -> None:
        if not self._workers:
            return
        worker = max(self._workers, key=lambda one: zlib.crc32(f"{one} {endpoint.address}".encode()))
        self._orders[place] = worker, endpoint
        self._post(worker, endpoint)

    def _post(self, worker: int, endpoint: Endpoint) -> None:
        self._forwarder.post_control(worker, *record(endpoint))


def _key(link: Link) -> Key:
    return link.worker, link.link, link.generation

"""Connections: what the workers have reported of theirs."""

import logging
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import msgspec

from core.forwarder.forward import Forwarder
from core.links.admission import REFUSED_CONNECTIONS, Admissions
from core.links.named import Named
from shm.contract.payloads import Close, ConnectionClosed, ConnectionOpened, Cost, record
from shm.statistics.stats import COUNTERS

LOGGER = logging.getLogger("ROUTER_CORE")
ADMITTED = COUNTERS["connections_admitted"].place


Hop = tuple[int, ConnectionOpened]  # the worker of a connection, and the connection


def client_of(opened: ConnectionOpened) -> int:
    """Return the ``client`` of an OpenLink on behalf of a connection."""
    return opened.number % 2**32


class Connections:
    """All open connections, by worker and index."""

    def __init__(self, forwarder: Forwarder, admissions: Admissions) -> None:
        self._forwarder = forwarder
        self._admissions = admissions
        self._connections: dict[tuple[int, int], ConnectionOpened] = {}
        self._since: dict[tuple[int, int], int] = {}
        self._by_number: dict[int, tuple[int, int]] = {}
        self._by_host = Named[tuple[int, int]]()  # workers and indices
        self.by_listener: Counter[str] = Counter()  # how many came in by the listener of that name

    def __len__(self) -> int:
        return len(self._connections)

    def __contains__(self, key: tuple[int, int]) -> bool:
        return key in self._connections

    def opened(self, worker: int, opened: ConnectionOpened) -> None:
        """Enter a worker's new connection in place of an earlier one at its index, or close it at a limit."""
        self._remove((worker, opened.connection))  # a new connection goes to the end
        self._admissions.leave((worker, opened.connection))
        error = self._admissions.enter((worker, opened.connection), opened, len(self._connections))
        if error is not None:
            self._forwarder.count(REFUSED_CONNECTIONS)
            close = Close(opened.connection, opened.generation, error)
            self._forwarder.post_control(worker, *record(close))
            return
        self._connections[worker, opened.connection] = opened
        self._since[worker, opened.connection] = self._forwarder.now
        self._by_number[opened.number] = (worker, opened.connection)
        self._by_host.add(opened.host, (worker, opened.connection))
        if not opened.connector:
            self.by_listener[opened.listener] += 1
        self._tell()
        peer = opened.container, opened.host
        LOGGER.debug("worker %d connection %d opened: container %s, host %s", worker, opened.connection, *peer)

    def _remove(self, key: tuple[int, int]) -> None:
        known = self._connections.pop(key, None)
        self._since.pop(key, None)
        if known is None:
            return
        self._by_host.remove(known.host, key)
        if not known.connector:
            self._leave(known.listener)
        if self._by_number.get(known.number) == key:
            del self._by_number[known.number]

    def _leave(self, listener: str) -> None:
        self.by_listener[listener] -= 1
        if not self.by_listener[listener]:
            del self.by_listener[listener]

    def _tell(self) -> None:
        """Publish the number of connections, which workers check before they answer an OPEN."""
        self._forwarder.gauge(ADMITTED, len(self._connections))

    def newest(self, limit: int) -> Iterator[tuple[int, ConnectionOpened]]:
        """Return up to ``limit`` connections with their workers, newest first."""
        return ((key[0], one) for key, one in islice(reversed(self._connections.items()), limit))

    def entries(self) -> list[tuple[int, ConnectionOpened, int]]:
        """Return worker, connection and opening time (nanoseconds) of each connection, oldest first."""
        return [(key[0], one, self._since.get(key, 0)) for key, one in list(self._connections.items())]

    def numbered(self, number: int) -> tuple[int, ConnectionOpened, int] | None:
        """Return the connection with this number in the router, as in `entries`, or None."""
        key = self._by_number.get(number)
        known = None if key is None else self._connections.get(key)
        return None if key is None or known is None else (key[0], known, self._since.get(key, 0))

    def of_host(self, host: str) -> list[tuple[int, ConnectionOpened, int]]:
        """Return the connections whose peer has this host and port, as in `entries`."""
        found = [(key, self._connections.get(key)) for key in self._by_host.of(host)]
        return [(key[0], one, self._since.get(key, 0)) for key, one in found if one is not None]

    def find(self, worker: int, connection: int) -> ConnectionOpened | None:
        """Return what a worker reported of a connection, or None."""
        return self._connections.get((worker, connection))

    def host(self, worker: int, connection: int) -> str:
        """Return the peer's host of a connection, also of one that was denied and is closing."""
        key = worker, connection
        known = self._connections.get(key)
        host = self._admissions.denied_host(key) if known is None else known.host
        return host or f"worker {worker} connection {connection}"

    def cost(self, worker: int, cost: Cost) -> None:
        """Change the cost of an inter-router connection."""
        known = self._connections.get((worker, cost.connection))
        if known is None or known.generation != cost.generation:
            self._forwarder.stale()
            return
        self._connections[worker, cost.connection] = msgspec.structs.replace(known, cost=cost.cost)

    def traced(self, worker: int, opened: ConnectionOpened, on: bool) -> None:
        """Record whether frames of this connection are logged."""
        key = (worker, opened.connection)
        known = self._connections.get(key)
        if known is not None and known.generation == opened.generation:
            self._connections[key] = msgspec.structs.replace(known, trace=on)

    def closed(self, worker: int, closed: ConnectionClosed) -> None:
        """Remove a connection that is gone. Its links were detached before."""
        if self._admissions.was_denied((worker, closed.connection), closed.generation):
            return
        known = self._connections.get((worker, closed.connection))
        if known is None or known.generation != closed.generation:
            self._forwarder.stale()
            return
        self._remove((worker, closed.connection))
        self._tell()
        self._admissions.leave((worker, closed.connection))
        LOGGER.debug("worker %d connection %d closed %s", worker, closed.connection, closed.reason)

    def forget_worker(self, worker: int) -> int:
        """Remove all connections of a dead worker. Return their number."""
        gone = [key for key in self._connections if key[0] == worker]
        for key in gone:
            self._remove(key)
        self._admissions.forget_worker(worker)
        self._tell()
        return len(gone)

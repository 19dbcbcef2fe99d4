"""The sources of messages for route workers: what the router knows of a link, never what a message claims.

The pump asks once for each link and table (take.c), and keeps the answer.
"""

import logging
from typing import Final, Protocol, TypeVar

import msgspec

from shm.contract.control import ConnectorSetup, ListenerSetup
from shm.contract.numbers import whole
from shm.contract.payloads import RouteCounts, RouteReach
from shm.contract.source_routes import SourceRoutesSetup
from workers.control.guard import Passed
from workers.control.neighbours import Described
from workers.control.opening import OF_ROUTERS, Terms, tenant_of
from workers.source_routes.table import Scopes, Sources, compiled, entries
from workers.source_routes.transform import Transform

LOGGER = logging.getLogger("ROUTER")

What = TypeVar("What")

LOCAL_TYPE: Final = 0  # the type of an address that is a name in the router


class Peer(msgspec.Struct, frozen=True):
    """The peer of a connection; its own name ``container`` counts only if it is a router."""

    terms: Terms
    connector: bool
    user: str
    container: str
    tenant: str
    policed: bool  # vhost policy limits its addresses

    @property
    def inter_router(self) -> bool:
        return self.terms.role in OF_ROUTERS

    @property
    def foreign(self) -> bool:
        """Whether the peer is another router or a connector's peer."""
        return self.inter_router or self.connector

    def names(self, target: str | None) -> list[str]:
        """Return all names of the peer as a source (docs/source-routes.md, Who may send where)."""
        if self.foreign:
            return [f"uplink:{self.terms.name}", *([f"uplink:{self.container}"] if self.inter_router else [])]
        known = [f"listener:{self.terms.name}"]
        known += [f"user:{self.user}"] if self.user else []
        return known + ([f"link:{target}"] if target else [])


class Connections(Protocol):
    """The part of workers.control.handler.Handler that senders use."""

    accepted: dict[int, ListenerSetup]
    passed: dict[int, Passed]
    dialled_by: dict[int, ConnectorSetup]

    @property
    def pump(self) -> Described: ...
    def post(self, message: msgspec.Struct) -> None: ...


def peer_of(connections: Connections, index: int) -> Peer | None:
    """Return the peer of a connection; None if the connection was denied."""
    passed, connector = connections.passed.get(index), connections.dialled_by.get(index)
    if passed is None:
        return None
    container, hostname, *_ = connections.pump.connection_info(index)
    terms: Terms = connector or connections.accepted[index]
    tenant = tenant_of(terms, hostname, passed)
    policed = passed.admission is not None
    return Peer(terms, connector is not None, passed.user, container, tenant, policed)


class Engine(Protocol):
    """The part of workers.loop.pump.Routes that senders use."""

    def set(self, table: bytes | None) -> None: ...
    def sender(
        self,
        index: int,
        generation: int,
        inter_router: bool,
        target: tuple[int, bytes] | None,
        names: list[int],
        foreign: bool,
        reach: bytes | None,
    ) -> None: ...
    def forget_sender(self, index: int, generation: int) -> None: ...
    def counts(self) -> dict[int, tuple[int, int, list[int]]]: ...


class Senders:
    """The route workers of one worker process, and the senders of messages to them."""

    def __init__(self, engine: Engine, connections: Connections) -> None:
        self._engine = engine
        self._connections = connections
        self._setup = SourceRoutesSetup()
        self._sources = Sources(())
        self.scope = Scopes(())  # finds the scope of an address by a route worker's pattern
        # By link, with its generation: what the core says of a link may come after its end, so the next one takes it.
        self._reach: dict[int, tuple[int, frozenset[str]]] = {}
        self._entries: dict[str, list[int]] = {}  # places in the table, by address
        self._count = 0  # of these places
        self._fed: dict[int, tuple[int, str]] = {}  # targets of router-initiated links
        self._changes: dict[int, Transform] = {}

    def configure(self, setup: SourceRoutesSetup) -> None:
        """Replace the route workers."""
        self.report()
        sources = Sources(setup.workers)
        self._engine.set(compiled(setup, sources) if setup.on else None)
        self._setup, self._sources = setup, sources
        stops = entries(setup)
        self._entries, self._count = {}, len(stops)
        for place, stop in enumerate(stops):
            self._entries.setdefault(stop.text, []).append(place)
        self._changes = {i: Transform(one.use) for i, one in enumerate(setup.workers) if one.use}
        self.scope = Scopes(setup.workers)

    def asked(self, connection: int, link: int, generation: int, ours: bool, target: str | None) -> None:
        """Tell the pump who sends on a link, on which a message has come, if route workers may serve it."""
        peer = peer_of(self._connections, connection)
        if peer is None or peer.tenant:
            return
        if ours and (target := _said(self._fed, link, generation)) is None and not peer.inter_router:
            return
        reach = None
        if peer.policed and target is None:
            reach = self._within_reach(_said(self._reach, link, generation) or frozenset())
        names = self._sources.numbers(peer.names(target))
        self._engine.sender(link, generation, peer.inter_router, _address(target), names, peer.foreign, reach)

    def _within_reach(self, addresses: frozenset[str]) -> bytes:
        """Return a byte for each route worker's address, 1 if it is one of these."""
        reach = bytearray(self._count)
        for address in addresses:
            for place in self._entries.get(address, ()):
                reach[place] = 1
        return bytes(reach)

    def uplink(self, link: int, generation: int, name: str) -> None:
        """Tell the pump that a link brings messages from an uplink: a listener or connector of that name."""
        names = self._sources.numbers([f"uplink:{name}"])
        self._engine.sender(link, generation, False, None, names, True, None)

    def reached(self, message: RouteReach) -> None:
        """Take the core's list of route workers that a link may send to, or the target of a router's link."""
        if message.target:
            self._fed[message.link] = message.generation, message.target
        else:
            self._reach[message.link] = message.generation, frozenset(message.addresses)
        self._engine.forget_sender(message.link, message.generation)

    def gone(self, link: int, generation: int) -> None:
        """Forget a link that has ended."""
        if _said(self._reach, link, generation) is not None:
            del self._reach[link]
        if _said(self._fed, link, generation) is not None:
            del self._fed[link]

    def change(self, worker: int, data: bytes) -> bytes | None:
        """Return the result of a transform for a message's data; None if it fails."""
        return self._changes[worker](data)

    def report(self) -> None:
        """Tell the core the counts since the last report."""
        if counts := self._engine.counts():
            workers = self._setup.workers
            report = RouteCounts({workers[i].identity: count for i, count in counts.items()})
            self._connections.post(report)


def _said(told: dict[int, tuple[int, What]], link: int, generation: int) -> What | None:
    """Return what the core has said of a link; None if nothing."""
    known, what = told.get(link, (None, None))
    return what if known == generation else None


def _address(target: str | None) -> tuple[int, bytes] | None:
    """Return type and octets of a target's address; `64#name` has type 64."""
    if target is None:
        return None
    kind, _, name = target.partition("#")
    number = whole(kind)
    if name and number is not None and number <= 255:
        return number, name.encode("utf-8", "surrogateescape")
    return LOCAL_TYPE, target.encode("utf-8", "surrogateescape")

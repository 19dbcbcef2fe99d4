"""Trunks: the connections to neighbouring routers, and the links each consists of.

Whoever dialled opens all links: a control link in each direction, then a pair for each of ten priorities.
Nothing on the wire says which priority a link is for: it is the order in which they come.
A trunk is up, and its neighbour can be greeted, when both control links are there.
"""

import logging
from typing import Final, Protocol

import msgspec

from core.addresses.names import Names
from core.forwarder.forward import CONTROL_LINK, DATA_LINK, ROUTED_LINK, STREAM_LINK, Forwarder, Nodes
from core.links.streams import Streams
from shm.contract.complaints import Complaints
from shm.contract.payloads import (
    C_CLOSE,
    C_OPEN_LINK,
    Attach,
    Close,
    ConnectionOpened,
    Error,
    LinkRefused,
    OpenLink,
)

LOGGER = logging.getLogger("ROUTER_CORE")

ROLE: Final = "inter-router"
CONTROL: Final = "qd.router"
DATA: Final = "qd.router-data"
PRIORITIES: Final = 10
CONTROL_PRIORITY: Final = 9
SET_UP_NS: Final = 3_000_000_000  # a trunk that is not complete by then is given up, and dialled anew

FORBIDDEN: Final = Error("qd:forbidden", "Connection is not a router connection")
TOO_MANY: Final = Error(
    "amqp:resource-limit-exceeded", "The router has no place for another router connection"
)
INCOMPLETE: Final = Error("amqp:connection:forced", "The links between the routers were not set up in time")
NO_CONTROL_LINK: Final = Error(
    "amqp:connection:forced",
    "A connection to an inter-router listener opened no control link: is its connector's role inter-router?",
)
SILENT: Final = "opened no control link: its connection is closed; is its connector's role inter-router?"
PARTIAL: Final = "does not set up all links: its connection is closed"
NOT_FOR_ROUTERS: Final = " (is the role of its listener inter-router?)"

KINDS: Final = {CONTROL: CONTROL_LINK, DATA: DATA_LINK}
TYPES: Final = {
    0: "endpoint",
    CONTROL_LINK: "router-control",
    DATA_LINK: "inter-router",
    STREAM_LINK: "inter-router",
    ROUTED_LINK: "endpoint",
}
SKUPPER: Final = 3  # enum content_annotations

Key = tuple[int, int]  # worker, index of the connection in it


class Listener(Protocol):
    """Who wants to know of neighbours: the router protocol."""

    def neighbour_up(self, neighbour: int, cost: int, dialect: str, told: int) -> None: ...
    def neighbour_cost(self, neighbour: int, cost: int) -> None: ...
    def neighbour_lost(self, neighbour: int) -> None: ...


class Trunk(msgspec.Struct):
    """A connection to a router. ``number`` is never used again, ``place`` is the forwarder's."""

    number: int
    place: int
    worker: int
    opened: ConnectionOpened
    since: int  # nanoseconds
    dials: bool  # we open the links
    streams: int  # handle of its links for streams; 0: the peer knows none
    control: set[bool] = msgspec.field(default_factory=set)  # directions of its control links; True: outgoing
    data: dict[bool, set[int]] = msgspec.field(default_factory=lambda: {True: set(), False: set()})
    asked: set[int] = msgspec.field(default_factory=set)  # requests under way
    up: bool = False

    @property
    def whole(self) -> bool:
        """Whether all its links are there."""
        return len(self.control) == 2 and all(len(one) == PRIORITIES for one in self.data.values())

    @property
    def peer(self) -> str:
        """For the log."""
        return f"{self.opened.container} at {self.opened.host}"


def dialect(opened: ConnectionOpened) -> str:
    """What the peer speaks, by how it wants messages annotated and by what it calls itself."""
    if opened.annotations == SKUPPER or opened.product == "skupper-router":
        return "skupper"
    return "routerd" if opened.product == "routerd" else "dispatch"


def told_cost(opened: ConnectionOpened) -> int:
    """What the peer's OPEN says that the way costs; 0: nothing, or nothing that makes sense."""
    value = opened.properties.get("qd.inter-router-cost")
    return value if type(value) is int and 0 < value < 2**31 else 0


def kind_of(attach: Attach) -> int | None:
    """What a link is for if it is one between routers."""
    return next((KINDS[one] for one in attach.capabilities if one in KINDS), None)


class Trunks:
    """All trunks of this router."""

    def __init__(
        self, forwarder: Forwarder, nodes: Nodes, names: Names, streams: Streams, listener: Listener
    ) -> None:
        self._forwarder = forwarder
        self._nodes = nodes
        self._names = names
        self._streams = streams
        self._listener = listener
        self._trunks: dict[Key, Trunk] = {}
        self._by_place: dict[int, Trunk] = {}
        self._by_request: dict[int, tuple[Trunk, int]] = {}  # with the kind of link
        self._encode = msgspec.msgpack.Encoder().encode
        self._complaints = Complaints()
        self._number = 0

    def greeted(self, worker: int, opened: ConnectionOpened) -> bool:
        """Whether a connection has a control link by now."""
        trunk = self.find(worker, opened.connection)
        return trunk is not None and bool(trunk.control)

    def find(self, worker: int, connection: int) -> Trunk | None:
        """The trunk that a connection is."""
        return self._trunks.get((worker, connection))

    def at(self, place: int) -> Trunk | None:
        """The trunk in a place of the forwarder's."""
        return self._by_place.get(place)

    def numbered(self, number: int) -> Trunk | None:
        """The trunk that the router protocol calls so."""
        return next((one for one in self._trunks.values() if one.number == number), None)

    # ---- connections ----

    def opened(self, worker: int, opened: ConnectionOpened) -> None:
        """A connection to a router is open; we set up its links if we dialled."""
        if opened.role != ROLE:
            return
        self.closed(worker, opened.connection)
        key = worker, opened.connection
        streams = self._streams.begin(worker, opened, [DATA], lambda: self._trunks[key].whole)
        place = self._nodes.take_neighbour(streams, dialect(opened) == "skupper")
        if place < 0:
            self._streams.end(streams)
            self._close(worker, opened, TOO_MANY)
            return
        self._number += 1
        trunk = Trunk(
            self._number, place, worker, opened, self._forwarder.now, opened.connector != "", streams
        )
        self._trunks[key] = self._by_place[place] = trunk
        if trunk.dials and not opened.restored:
            self._open(trunk, CONTROL, 0, CONTROL_PRIORITY)
            for priority in range(PRIORITIES):
                self._open(trunk, DATA, 1 + priority, priority)

    def closed(self, worker: int, connection: int) -> None:
        """A connection is gone; its links were detached before."""
        trunk = self._trunks.pop((worker, connection), None)
        if trunk is None:
            return
        self._lost(trunk)
        del self._by_place[trunk.place]
        for request in trunk.asked:
            del self._by_request[request]
        self._streams.end(trunk.streams)
        self._nodes.give_neighbour(trunk.place)

    def cost(self, worker: int, opened: ConnectionOpened) -> None:
        """Our end's cost of a connection is another one."""
        trunk = self._trunks.get((worker, opened.connection))
        if trunk is None or trunk.opened.generation != opened.generation:
            return
        trunk.opened = opened
        if trunk.up:
            LOGGER.info("router connection to %s: its cost is configured as %d now", trunk.peer, opened.cost)
            self._listener.neighbour_cost(trunk.number, opened.cost)

    def forget_worker(self, worker: int) -> None:
        """A worker is dead, and its connections with it."""
        for key in [key for key in self._trunks if key[0] == worker]:
            self.closed(*key)

    def _open(self, trunk: Trunk, capability: str, session: int, priority: int) -> None:
        """Ask the worker for a pair of links."""
        for outgoing in (True, False):
            request = self._names.request()
            trunk.asked.add(request)
            self._by_request[request] = trunk, KINDS[capability]
            link = OpenLink(
                trunk.opened.connection,
                trunk.opened.generation,
                request,
                f"qdlink.{self._names.discriminator()}",
                outgoing,
                None,
                None,
                session,
                [capability],
                [capability],
                priority=priority,
            )
            self._forwarder.post_control(trunk.worker, C_OPEN_LINK, self._encode(link))

    def refused(self, refused: LinkRefused) -> None:
        """The peer would not have a link, or the connection is gone."""
        trunk, _ = self._by_request.pop(refused.request, (None, 0))
        if trunk is None:
            return
        trunk.asked.discard(refused.request)
        error = refused.error
        if error is not None:
            hint = NOT_FOR_ROUTERS if error.condition == FORBIDDEN.condition else ""
            self._complain(trunk, "refused a link: ", f"{error.condition}: {error.description}{hint}")

    def _complain(self, trunk: Trunk, what: str, detail: str = "") -> None:
        now = self._forwarder.now / 1e9
        who = f"router {trunk.opened.container}"  # which may have another port the next time
        self._complaints.tell(now, LOGGER, logging.WARNING, "%s %s%s", who, what, detail, key=(who, what))

    # ---- links ----

    def kind(self, attach: Attach) -> int | None:
        """What a link is for if it is one between routers; a peer need not repeat what we have asked for."""
        asked = self._by_request.get(attach.request)
        return kind_of(attach) if asked is None else asked[1]

    def attach(self, worker: int, attach: Attach, kind: int) -> Trunk | Error:
        """Whether a link between routers may be; it still has to be added."""
        trunk = self._trunks.get((worker, attach.connection))
        if trunk is None:
            return FORBIDDEN
        if attach.request:
            self._by_request.pop(attach.request, None)
            trunk.asked.discard(attach.request)
        if kind == CONTROL_LINK and attach.outgoing in trunk.control:
            return FORBIDDEN
        return trunk

    def add_link(
        self, trunk: Trunk, attach: Attach, kind: int, capacity: int, granted: int
    ) -> tuple[int, int] | None:
        """Put a link into the forwarder's table; its kind and priority, or None: there is no place for it."""
        priority = CONTROL_PRIORITY
        taken = trunk.data[attach.outgoing]
        if kind == DATA_LINK:
            free = [p for p in range(PRIORITIES) if p not in taken]
            kind, priority = (DATA_LINK, free[0]) if free else (STREAM_LINK, 0)
        if not self._nodes.add_link(
            trunk.worker,
            attach.link,
            attach.generation,
            attach.outgoing,
            trunk.place,
            kind,
            priority,
            capacity,
            granted,
        ):
            return None
        if kind == CONTROL_LINK:
            trunk.control.add(attach.outgoing)
            self._check_up(trunk)
        elif kind == DATA_LINK:
            taken.add(priority)
        return kind, priority

    def drop_link(self, worker: int, connection: int, kind: int, outgoing: bool, priority: int) -> None:
        """A link between routers is gone."""
        trunk = self._trunks.get((worker, connection))
        if trunk is None:
            return
        if kind == CONTROL_LINK:
            trunk.control.discard(outgoing)
            self._lost(trunk)
        elif kind == DATA_LINK:
            trunk.data[outgoing].discard(priority)

    def _check_up(self, trunk: Trunk) -> None:
        if trunk.up or len(trunk.control) < 2:
            return
        trunk.up = True
        cost, told = trunk.opened.cost, told_cost(trunk.opened)
        LOGGER.info("router connection to %s is up, cost %d", trunk.peer, max(cost, told))
        self._listener.neighbour_up(trunk.number, cost, dialect(trunk.opened), told)

    def _lost(self, trunk: Trunk) -> None:
        if trunk.up:
            trunk.up = False
            LOGGER.info("router connection to %s is lost", trunk.peer)
            self._listener.neighbour_lost(trunk.number)

    # ---- time ----

    def step(self, now: int) -> None:
        """Give up what was not set up in time."""
        for trunk in list(self._trunks.values()):
            if trunk.whole or now - trunk.since <= SET_UP_NS:
                continue
            trunk.since = now
            if trunk.dials:
                self._complain(trunk, PARTIAL)
                self._close(trunk.worker, trunk.opened, INCOMPLETE)
            elif not (trunk.control or self._has_another(trunk)):
                self._complain(trunk, SILENT)
                self._close(trunk.worker, trunk.opened, NO_CONTROL_LINK)

    def _has_another(self, trunk: Trunk) -> bool:
        """Whether the peer has another connection that is up: skupper-router dials some for streams alone."""
        router = trunk.opened.container
        return any(one.up and one.opened.container == router for one in self._trunks.values())

    def _close(self, worker: int, opened: ConnectionOpened, error: Error) -> None:
        close = Close(opened.connection, opened.generation, error)
        self._forwarder.post_control(worker, C_CLOSE, self._encode(close))

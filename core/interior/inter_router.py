"""Inter-router connections and the links of each.

The end that dialled opens all links: a control link in each direction, then a pair for each of ten
priorities. Nothing on the wire says which priority a link has; it follows from the order of the attaches. The
connection is up, and its neighbour can be greeted, when both control links are attached.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from core.forwarder.forward import CONTROL_LINK, DATA_LINK, STREAM_LINK
from core.forwarder.link_terms import LinkTerms
from core.forwarder.recorded import Nodes
from core.links.base import Base
from core.links.link import Link
from core.links.plane import Plane
from core.links.streams import Streams
from core.links.terminus import INTER_ROUTER, Credit
from shm.contract.complaints import bursts
from shm.contract.payloads import Attach, ConnectionOpened, Detach, Error, LinkRefused

if TYPE_CHECKING:
    from core.interior.network import Network

LOGGER = logging.getLogger("ROUTER_CORE")

CONTROL: Final = "qd.router"
DATA: Final = "qd.router-data"
PRIORITIES: Final = 10
CONTROL_PRIORITY: Final = 9
SET_UP_NS: Final = 3_000_000_000  # a connection that is incomplete by then is closed and dialled again
UNHEARD_NS: Final = 5_000_000_000  # of a connection whose routers do not hear each other by then there is a complaint

FORBIDDEN: Final = Error("qd:forbidden", "Connection is not a router connection")
TOO_MANY: Final = Error("amqp:resource-limit-exceeded", "The router accepts no further router connections")
INCOMPLETE: Final = Error("amqp:connection:forced", "The links between the routers were not set up in time")
NO_CONTROL_LINK: Final = Error(
    "amqp:connection:forced",
    "A connection to an inter-router listener opened no control link: is its connector's role inter-router?",
)
SILENT: Final = "opened no control link; its connection is closed; is its connector's role inter-router?"
PARTIAL: Final = "did not set up all links; its connection is closed"
UNHEARD: Final = (
    "is connected over %s, and the two routers do not hear each other, so neither uses the other: is `annotations` the "
    "same at both ends (here: %s)? Leave it out at both, and each writes the form that the other one reads"
)
NOT_FOR_ROUTERS: Final = " (is the role of its listener inter-router?)"

KINDS: Final = {CONTROL: CONTROL_LINK, DATA: DATA_LINK}
FORMS: Final = ("none", "map", "section", "skupper")  # enum content_annotations
SKUPPER: Final = FORMS.index("skupper")

Key = tuple[int, int]  # worker, index of the connection in it


class InterRouter(msgspec.Struct):
    """An inter-router connection. ``number`` is never reused; ``place`` is its place in the forwarder."""

    number: int
    place: int
    worker: int
    opened: ConnectionOpened
    since: int  # nanoseconds
    dials: bool  # this end opens the links
    streams: int  # the handle of its streaming links; 0: the peer offers none
    control: set[bool] = msgspec.field(default_factory=set)  # directions of its control links; True: outgoing
    data: dict[bool, set[int]] = msgspec.field(default_factory=lambda: {True: set(), False: set()})
    own: dict[tuple[bool, int, int], Link] = msgspec.field(default_factory=dict)  # by direction, kind and priority
    asked: set[int] = msgspec.field(default_factory=set)  # pending link requests
    up: bool = False
    up_since: int = 0  # nanoseconds

    @property
    def whole(self) -> bool:
        """Whether all its links are attached."""
        return len(self.control) == 2 and all(len(one) == PRIORITIES for one in self.data.values())


def is_skupper(opened: ConnectionOpened) -> bool:
    """Whether the peer speaks skupper-router's dialect, by the router annotations it asks for and its product."""
    return opened.annotations == SKUPPER or opened.product == "skupper-router"


def dialect(opened: ConnectionOpened) -> str:
    """Return the peer's dialect."""
    if is_skupper(opened):
        return "skupper"
    return "routerd" if opened.product == "routerd" else "dispatch"


def reported_cost(opened: ConnectionOpened) -> int:
    """Return the cost in the peer's OPEN, or 0 if it is missing or invalid."""
    value = opened.properties.get("qd.inter-router-cost")
    return value if type(value) is int and 0 < value < 2**31 else 0


def kind_of(attach: Attach) -> int | None:
    """Return the kind of a link between routers, or None for any other link."""
    return next((KINDS[one] for one in attach.capabilities if one in KINDS), None)


class InterRouters(Plane):
    """All inter-router connections of this router. ``network`` returns the router protocol."""

    def __init__(self, base: Base, nodes: Nodes, streams: Streams, network: "Callable[[], Network]") -> None:
        self._base = base
        self._nodes = nodes
        self._streams = streams
        self._network = network
        self._inter_routers: dict[Key, InterRouter] = {}
        self._by_place: dict[int, InterRouter] = {}
        self._by_number: dict[int, InterRouter] = {}
        self._up: Counter[str] = Counter()  # connections that are up, by container
        self._by_request: dict[int, tuple[InterRouter, int]] = {}  # with the kind of link
        self._number = 0
        self._lines = bursts()

    def greeted(self, worker: int, opened: ConnectionOpened) -> bool:
        """Whether a connection already has a control link."""
        inter_router = self.find(worker, opened.connection)
        return inter_router is not None and bool(inter_router.control)

    def find(self, worker: int, connection: int) -> InterRouter | None:
        """Return the inter-router connection of a worker's connection, or None."""
        return self._inter_routers.get((worker, connection))

    def at(self, place: int) -> InterRouter | None:
        """Return the inter-router connection at a place of the forwarder, or None."""
        return self._by_place.get(place)

    def numbered(self, number: int) -> InterRouter | None:
        """Return the inter-router connection with a number of the router protocol, or None."""
        return self._by_number.get(number)

    # ---- connections ----

    def opened(self, worker: int, opened: ConnectionOpened) -> None:
        """Enter a new connection to a router, and open its links if this end dialled."""
        if opened.role != INTER_ROUTER:
            return
        self.closed(worker, opened.connection)
        key = worker, opened.connection
        streams = self._streams.begin(worker, opened, [DATA], lambda: self._inter_routers[key].whole)
        place = self._nodes.take_neighbour(streams, is_skupper(opened))
        if place < 0:
            self._streams.end(streams)
            self._base.close_connection(worker, opened, TOO_MANY)
            return
        self._number += 1
        inter_router = InterRouter(
            self._number, place, worker, opened, self._base.forwarder.now, opened.connector != "", streams
        )
        self._inter_routers[key] = self._by_place[place] = self._by_number[inter_router.number] = inter_router
        if inter_router.dials and not opened.restored:
            self._open(inter_router, CONTROL, 0, CONTROL_PRIORITY)
            for priority in range(PRIORITIES):
                self._open(inter_router, DATA, 1 + priority, priority)

    def closed(self, worker: int, connection: int) -> None:
        inter_router = self._inter_routers.pop((worker, connection), None)
        if inter_router is None:
            return
        self._lost(inter_router)
        del self._by_place[inter_router.place], self._by_number[inter_router.number]
        for request in inter_router.asked:
            del self._by_request[request]
        self._streams.end(inter_router.streams)
        self._nodes.give_neighbour(inter_router.place)

    def cost(self, worker: int, opened: ConnectionOpened) -> None:
        inter_router = self._inter_routers.get((worker, opened.connection))
        if inter_router is None or inter_router.opened.generation != opened.generation:
            return
        inter_router.opened = opened
        if inter_router.up:
            self._say("router connection to %s now has cost %d at this end", inter_router.opened.peer, opened.cost)
            self._network().neighbour_cost(inter_router.number, opened.cost)

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        for key in [key for key in self._inter_routers if key[0] == worker]:
            self.closed(*key)

    def _open(self, inter_router: InterRouter, capability: str, session: int, priority: int) -> None:
        """Request a pair of links."""
        for outgoing in (True, False):
            request = self._base.names.request()
            inter_router.asked.add(request)
            self._by_request[request] = inter_router, KINDS[capability]
            terms = {"source_capabilities": [capability], "target_capabilities": [capability], "priority": priority}
            opened = inter_router.opened
            self._base.open_link(inter_router.worker, opened, request, outgoing, session=session, **terms)

    def refused(self, refused: LinkRefused) -> None:
        """Forget a requested link that the peer refused or whose connection is gone."""
        inter_router, _ = self._by_request.pop(refused.request, (None, 0))
        if inter_router is None:
            return
        inter_router.asked.discard(refused.request)
        error = refused.error
        if error is not None:
            hint = NOT_FOR_ROUTERS if error.condition == FORBIDDEN.condition else ""
            self._complain(inter_router, "refused a link: ", f"{error.condition}: {error.description}{hint}")

    def _complain(self, inter_router: InterRouter, what: str, detail: str = "") -> None:
        who = f"router {inter_router.opened.container}"  # without the port, which may differ the next time
        self._base.complain(who, what, detail)

    # ---- links ----

    def kind(self, attach: Attach) -> int | None:
        """Return the kind of a link between routers, or None.

        A peer need not repeat the requested capability.
        """
        asked = self._by_request.get(attach.request)
        return kind_of(attach) if asked is None else asked[1]

    def attach(self, worker: int, attach: Attach, kind: int) -> InterRouter | Error:
        """Return the connection that a link between routers may join, or why it is refused.

        Call `add_link` next.
        """
        inter_router = self._inter_routers.get((worker, attach.connection))
        if inter_router is None:
            return FORBIDDEN
        if attach.request:
            self._by_request.pop(attach.request, None)
            inter_router.asked.discard(attach.request)
        if kind == CONTROL_LINK and attach.outgoing in inter_router.control:
            return FORBIDDEN
        return inter_router

    def add_link(self, inter_router: InterRouter, attach: Attach, kind: int, credit: Credit) -> tuple[int, int] | None:
        """Enter a link in the forwarder's table.

        Return its kind and priority, or None if the table is full.
        """
        priority = CONTROL_PRIORITY
        taken = inter_router.data[attach.outgoing]
        if kind == DATA_LINK:
            free = [p for p in range(PRIORITIES) if p not in taken]
            kind, priority = (DATA_LINK, free[0]) if free else (STREAM_LINK, 0)
        if not self._nodes.add_link(
            inter_router.worker,
            attach.link,
            attach.generation,
            inter_router.place,
            kind,
            priority,
            LinkTerms(attach.outgoing, capacity=credit.capacity, grows=credit.grows, granted=credit.granted),
        ):
            return None
        if kind == CONTROL_LINK:
            inter_router.control.add(attach.outgoing)
            self._check_up(inter_router)
        elif kind == DATA_LINK:
            taken.add(priority)
        return kind, priority

    def attached(self, link: Link) -> None:
        """Note a control link or data link, of which a connection has a bounded number."""
        inter_router = self._inter_routers.get((link.worker, link.connection))
        if inter_router is not None and link.kind in (CONTROL_LINK, DATA_LINK):
            inter_router.own[link.outgoing, link.kind, link.priority] = link

    def detached(self, link: Link, detach: Detach | None) -> None:
        """Forget a link between routers that is gone."""
        inter_router = self._inter_routers.get((link.worker, link.connection))
        if inter_router is None:
            return
        inter_router.own.pop((link.outgoing, link.kind, link.priority), None)
        if link.kind == CONTROL_LINK:
            inter_router.control.discard(link.outgoing)
            self._lost(inter_router)
        elif link.kind == DATA_LINK:
            inter_router.data[link.outgoing].discard(link.priority)

    def _check_up(self, inter_router: InterRouter) -> None:
        if inter_router.up or len(inter_router.control) < 2:
            return
        inter_router.up, inter_router.up_since = True, self._base.forwarder.now
        self._up[inter_router.opened.container] += 1
        cost, reported = inter_router.opened.cost, reported_cost(inter_router.opened)
        self._say("router connection to %s is up, cost %d", inter_router.opened.peer, max(cost, reported))
        self._network().neighbour_up(inter_router.number, cost, dialect(inter_router.opened), reported)

    def _lost(self, inter_router: InterRouter) -> None:
        if inter_router.up:
            inter_router.up = False
            self._up[inter_router.opened.container] -= 1
            if not self._up[inter_router.opened.container]:
                del self._up[inter_router.opened.container]
            self._say("router connection to %s is lost", inter_router.opened.peer)
            self._network().neighbour_lost(inter_router.number)

    def _say(self, text: str, *what: object) -> None:
        """Log a line that a neighbour can cause as often as it connects."""
        self._lines.tell(self._base.forwarder.now / 1e9, LOGGER, logging.INFO, text, *what)

    # ---- time ----

    def check(self, now: int) -> None:
        """Close connections whose links were not set up in time, and complain of routers that stay unheard.

        ``now`` is in nanoseconds.
        """
        for inter_router in list(self._inter_routers.values()):
            self._check_heard(inter_router, now)
            if inter_router.whole or now - inter_router.since <= SET_UP_NS:
                continue
            inter_router.since = now
            if inter_router.dials:
                self._complain(inter_router, PARTIAL)
                self._base.close_connection(inter_router.worker, inter_router.opened, INCOMPLETE)
            elif not (inter_router.control or self._has_another(inter_router)):
                self._complain(inter_router, SILENT)
                self._base.close_connection(inter_router.worker, inter_router.opened, NO_CONTROL_LINK)

    def _check_heard(self, inter_router: InterRouter, now: int) -> None:
        """Complain, again each minute, of a router that does not say that it hears this one, or says it in vain."""
        if not inter_router.up or now - inter_router.up_since <= UNHEARD_NS:
            return
        if self._network().hears(inter_router.number):
            return
        opened = inter_router.opened
        over = f"connector {opened.connector}" if opened.connector else f"listener {opened.listener or '(no name)'}"
        self._complain(inter_router, UNHEARD % (over, FORMS[opened.annotations]))

    def _has_another(self, inter_router: InterRouter) -> bool:
        """Whether another connection to this peer is up: skupper-router dials some for streams alone."""
        return bool(self._up[inter_router.opened.container])

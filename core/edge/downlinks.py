"""The interior router's side of edge connections: what it tells edge routers, and when it drops them."""

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import msgspec

from core.edge import words
from core.edge.place import DOWNLINK, HEARTBEAT, LOOKUP, TRACKING, Key
from core.interior.inter_router import is_skupper
from core.interior.message import BadMessageError
from core.link_routes.routes import Routes
from core.links.base import Base
from core.links.link import Edges, Link
from core.links.local import RefusedError
from core.links.rights import Rights
from core.links.streams import Streams
from core.links.terminus import EDGE, MAX_CAPACITY, Place, shared
from shm.contract.failures import failures
from shm.contract.patterns import SearchTooLongError
from shm.contract.payloads import Attach, ConnectionOpened, Detach, Error
from shm.contract.spelling import strip_spelling

LOGGER = logging.getLogger("ROUTER_CORE")

SILENCE_NS: Final = 8_000_000_000
POLL_NS: Final = 1_000_000_000
PORTION: Final = 8  # reports, and heartbeats, that are looked at before others have their turn: some 0.1 ms
AGAIN: Final = Error("amqp:connection:forced", "The router's core has restarted; connect again")
SILENT: Final = Error("amqp:connection:forced", "The heartbeat on this connection has stopped")
ONE_WAY: Final = Error("amqp:not-allowed", "The services for edge routers have no receivers")
NO_EDGE: Final = Error("amqp:not-allowed", "Only edge routers may ask about addresses, on connections with role edge")
NOT_ITS_OWN: Final = Error("amqp:not-allowed", "The source of an edge downlink must be the edge router's container id")
NOT_LISTED: Final = Error(
    "amqp:unauthorized-access", "The user group's sources do not list _edge/ with the edge router's id"
)
RIVAL: Final = Error("amqp:not-allowed", "Another user has connected an edge router with this id")
INVALID: Final = Error("amqp:invalid-field", "An edge downlink needs the router's id as its source")
# So few that credit returns message by message: qdrouterd takes the credit of each FLOW for its total.
BEATS: Final = 2
QUESTIONS: Final = 3
BEATEN_AT: Final = f"_local/{HEARTBEAT}"
ASKED_AT: Final = f"_local/{LOOKUP}"


class Report(msgspec.Struct, frozen=True):
    """A report that an address has receivers beyond, or none."""

    reached: bool
    tracked: int  # the number of the link that it went to


class Edge(msgspec.Struct):
    """A connection of an edge router."""

    number: int
    worker: int
    opened: ConnectionOpened
    streams: int = 0  # the handle of its streaming links; 0: it offers none
    tracked_at: str = ""  # the address for news of receivers beyond
    tracked: int = 0  # links for such news so far: what went to an earlier one may have been lost
    reported: dict[str, Report] = {}  # by key the last report; without one the edge router knows of no receivers
    senders: Counter[str] = msgspec.field(default_factory=Counter)  # by key
    receivers: Counter[str] = msgspec.field(default_factory=Counter)


class Heart(msgspec.Struct):
    """A link whose peer sends heartbeats."""

    link: Link
    heard: int  # nanoseconds


class Downlinks(Edges):
    """All connections of edge routers to this router."""

    def __init__(self, base: Base, streams: Streams, link_routes: Routes, network: Callable[[], int]) -> None:
        self._base = base
        self._forwarder = base.forwarder
        self._opened = base.connections.find
        self._network = network  # returns another number whenever the network has changed
        self._addresses = base.addresses
        self._local = base.local
        self._streams = streams
        self._link_routes = link_routes
        self._edges: dict[Key, Edge] = {}
        self._by_number: dict[int, Edge] = {}
        self._by_container: dict[str, dict[int, Edge]] = {}  # by number
        self._senders: dict[str, dict[int, Edge]] = {}  # by key those that have senders to it, by number
        self._hearts: dict[Key, Heart] = {}  # by worker and index of the link
        self._asking: dict[Key, Link] = {}  # links for questions, likewise
        self._number = 0
        self._changed: OrderedDict[str, None] = OrderedDict()  # keys whose receivers came or went, and edge routers ask
        self._unpolled: list[str] = []  # keys that are looked at once a second, as others do not tell of all changes
        self._unheard: list[Heart] = []  # hearts that are listened to once a second, whatever reports are left
        self._reports = self._report()
        self._reporting = False  # whether a step has left reports to the next one
        self._polled = self._listened = self._routes = 0
        base.local.listen(BEATEN_AT, lambda *_: None)
        base.local.listen(ASKED_AT, self._asked)

    # ---- connections ----

    def opened(self, worker: int, opened: ConnectionOpened) -> None:
        """Enter the connection of an edge router, or close it."""
        if opened.role != EDGE:
            return
        self.closed(worker, opened.connection)
        if opened.restored:  # its links would have to be told apart; new ones need not
            self._base.close_connection(worker, opened, AGAIN)
        elif (other := self._rival(opened)) is not None:
            what = "was refused because another user has connected an edge router with its id: "
            self._complain(opened, what, f"{opened.container!r}, user {other.user!r} at {other.host}")
            self._base.close_connection(worker, opened, RIVAL)
            return
        self._number += 1
        edge = Edge(self._number, worker, opened, self._streams.begin(worker, opened, [], lambda: True))
        self._edges[worker, opened.connection] = self._by_number[edge.number] = edge
        self._by_container.setdefault(opened.container, {})[edge.number] = edge

    def _rival(self, opened: ConnectionOpened) -> ConnectionOpened | None:
        """Return a connection of another user with the same router id, or None.

        One user may connect the same edge router twice, by two connectors or for a while after a reconnect.
        """
        there = (edge.opened for edge in self._by_container.get(opened.container, {}).values())
        return next((other for other in there if other.user != opened.user), None)

    def closed(self, worker: int, connection: int) -> None:
        edge = self._edges.pop((worker, connection), None)
        if edge is not None:
            del self._by_number[edge.number]
            _remove(self._by_container, edge.opened.container, edge)
            for key in edge.senders:
                _remove(self._senders, key, edge)
            self._streams.end(edge.streams)

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        for key in [key for key in self._edges if key[0] == worker]:
            self.closed(*key)

    def find(self, worker: int, connection: int) -> int:
        """Return the number of an edge connection, or 0 for any other connection."""
        edge = self._edges.get((worker, connection))
        return 0 if edge is None else edge.number

    def is_active(self, worker: int, connection: int) -> bool:
        """Whether this is an edge connection.

        Only the edge router knows which of its connections is active.
        """
        return (worker, connection) in self._edges

    # ---- links ----

    def place(self, worker: int, attach: Attach) -> Place | Error | None:
        """Return where a link of an edge connection leads, or None if it is treated as a client's."""
        edge = self._edges[worker, attach.connection]
        if attach.restored:
            return AGAIN
        name = strip_spelling(attach.address or "")
        if attach.outgoing and DOWNLINK in attach.capabilities:
            return self._downlink(edge, name)
        if attach.outgoing and name == TRACKING:
            return self._at(f"L{TRACKING}.{edge.number}")
        if name == LOOKUP and not attach.outgoing:
            return self._at(f"L{LOOKUP}", capacity=QUESTIONS)
        return self.serves(attach)

    def _downlink(self, edge: Edge, name: str) -> Place | Error:
        """Return the place of a downlink, which carries all messages to one edge router, or an error."""
        if not name or "/" in name:
            return INVALID
        rights = None if edge.opened.admission is None else Rights(edge.opened.admission).sources
        if name != edge.opened.container:
            what, error = "requested the messages for another edge router: ", NOT_ITS_OWN
        elif rights is not None and not (rights.allow(f"_edge/{name}") or rights.allow(name)):
            what, error = "connected an edge router that its user group does not list: ", NOT_LISTED
        else:
            return self._at(f"H{name}", wants_override=True)
        self._complain(edge.opened, what, repr(name))
        return error

    def _complain(self, opened: ConnectionOpened, what: str, detail: str) -> None:
        self._base.complain(f"user {opened.user!r} at {opened.host.rpartition(':')[0]}", what, detail)

    def serves(self, attach: Attach) -> Place | Error | None:
        """Return where a link on any connection leads that uses a service for edge routers, or None."""
        name = strip_spelling(attach.address or "")
        if name not in (HEARTBEAT, LOOKUP):
            return None
        if attach.outgoing:
            return ONE_WAY
        return NO_EDGE if name == LOOKUP else self._at(f"L{HEARTBEAT}", capacity=BEATS)

    def _at(self, key: str, wants_override: bool = False, capacity: int = MAX_CAPACITY) -> Place:
        address = self._addresses.of_key(key)
        return Place(address, address.handle, wants_override, capacity)

    def attached(self, link: Link) -> None:
        """Count a link of an edge router or of another peer."""
        edge = self._by_number.get(link.edge)
        if link.address is None:
            return
        key = link.address.key
        if edge is not None:
            self._streams.serve(edge.streams, link)
        if key == f"L{HEARTBEAT}" and not link.outgoing:
            self._hearts[link.worker, link.link] = Heart(link, self._forwarder.now)
        elif key == f"L{LOOKUP}" and not link.outgoing:
            self._asking[link.worker, link.link] = link
        elif edge is not None and link.outgoing and key == f"L{TRACKING}.{edge.number}":
            edge.tracked_at = f"_local/{TRACKING}.{edge.number}"
            edge.tracked += 1
            self._changed.update(dict.fromkeys(edge.senders))
        self._count(edge, link, 1)

    def detached(self, link: Link, detach: Detach | None) -> None:
        self._hearts.pop((link.worker, link.link), None)
        self._asking.pop((link.worker, link.link), None)
        self._count(self._by_number.get(link.edge), link, -1)

    def _count(self, edge: Edge | None, link: Link, number: int) -> None:
        if link.address is None or not shared(link.address.key):
            return
        key = link.address.key
        if edge is not None:
            self._count_edge(edge, link, key, number)
        if key in self._senders:
            self._changed[key] = None

    def _count_edge(self, edge: Edge, link: Link, key: str, number: int) -> None:
        counter = edge.receivers if link.outgoing else edge.senders
        counter[key] += number
        if not link.outgoing:
            self._senders.setdefault(key, {})[edge.number] = edge
        if not counter[key]:
            del counter[key]
            if not link.outgoing:
                edge.reported.pop(key, None)
                _remove(self._senders, key, edge)

    # ---- reports to edge routers ----

    def _beyond(self, edge: Edge, key: str) -> bool:
        """Whether an address has receivers other than those of this edge router."""
        address = self._addresses.known(key)
        if address is None:
            return False
        info = self._forwarder.address_info(address.handle)
        exchanged = info["redirects"] and not address.rule.fallback  # a fallback has an address of its own
        return info["outgoing"] > edge.receivers[key] or bool(info["reached"] or exchanged)

    def _report(self) -> Iterator[None]:
        """Tell edge routers of each change, and look for changes that nobody told of, one edge router at a time.

        The two have their turns alternately, so that a receiver that comes and goes keeps no other key waiting.
        """
        polls = False
        while self._changed or self._unpolled:
            polls = bool(self._unpolled) and not (polls and self._changed)
            key = self._unpolled.pop() if polls else self._changed.popitem(last=False)[0]
            yield
            for edge in list(self._senders.get(key, {}).values()):
                if edge.tracked_at and key in edge.senders:
                    self._contain(edge, key)
                yield

    def _contain(self, edge: Edge, key: str) -> None:
        try:
            self._tell(edge, key)
        except Exception as error:  # one report must not end everybody's messages
            who = f"edge router {edge.opened.container!r} at {edge.opened.host}"
            failures.tell(f"reporting to {who} who receives from {key}", error, "the next poll repeats it")

    def _tell(self, edge: Edge, key: str) -> None:
        """Report whether an address has receivers beyond, if the edge router may not know.

        The next poll repeats a report for which there was no room. What was reported to an earlier link may have been
        lost with it, so it is reported again.
        """
        report, last = Report(self._beyond(edge, key), edge.tracked), edge.reported.get(key)
        if report == last or (last is None and not report.reached):
            return
        if self._local.send(edge.tracked_at, words.tracking(key, report.reached, is_skupper(edge.opened))):
            edge.reported[key] = report

    def _asked(self, content: bytes, _: int) -> None:
        try:
            question = words.question(content)
        except BadMessageError as error:
            source = self._local.source
            link = None if source is None else self._asking.get(source[:2])
            edge = None if link is None else self._by_number.get(link.edge)
            who = "an edge router" if edge is None else f"edge router {edge.opened.container}"
            what = f"sent an unreadable question about an address: {error}"
            self._base.complain(who, what)
            raise RefusedError(what) from error
        try:
            route = self._link_routes.find(question.address, question.receives)
        except SearchTooLongError:  # the edge router decides, and its link to here is refused
            route = None
        reached = route is not None and bool(route.hosts or route.remotes)
        self._local.send(question.reply_to, words.answer(question, route is not None, reached))

    def _peer(self, link: Link | None) -> str:
        """Return the peer of a link for the log."""
        opened = None if link is None else self._opened(link.worker, link.connection)
        return "an edge router" if opened is None else opened.peer

    @property
    def restless(self) -> bool:
        """Whether an edge router may be waiting for a report on receivers."""
        return bool(self._reporting or self._changed or self._unheard)

    def step(self, now: int) -> None:
        """Report changes of receivers, and close connections whose heartbeat has stopped, a portion of each.

        ``now`` is in nanoseconds.
        """
        routes = self._network()
        if not self._unpolled and (routes != self._routes or now - self._polled >= POLL_NS):
            self._routes, self._polled = routes, now
            self._unpolled = list(self._senders)
        if not self._unheard and now - self._listened >= POLL_NS:
            self._listened = now
            self._unheard = list(self._hearts.values())
        for heart in self._unheard[-PORTION:]:
            self._listen(heart, now)
        del self._unheard[-PORTION:]
        told = sum(1 for _ in islice(self._reports, PORTION))
        self._reporting = told == PORTION
        if not self._reporting:
            self._reports = self._report()
        if told:
            self._forwarder.publish()

    def _listen(self, heart: Heart, now: int) -> None:
        """Close the connection if its heartbeat has stopped."""
        link = heart.link
        if self._hearts.get((link.worker, link.link)) is not heart:
            return
        heart.heard = max(heart.heard, self._forwarder.link_last(link.worker, link.link, link.generation))
        if now - heart.heard <= SILENCE_NS:
            return
        heart.heard = now
        LOGGER.warning("the heartbeat of %s has stopped; its connection is closed", self._peer(link))
        if (opened := self._opened(link.worker, link.connection)) is not None:
            self._base.close_connection(link.worker, opened, SILENT)


def _remove(edges: dict[str, dict[int, Edge]], name: str, edge: Edge) -> None:
    """Remove an edge connection from those of a name."""
    of_name = edges[name]
    del of_name[edge.number]
    if not of_name:
        del edges[name]

"""The interior router's side of edge connections: what an edge router is told, and when it is given up."""

import logging
from collections import Counter
from typing import Final

import msgspec

from core.addresses import Addresses, strip_spelling
from core.edge import words
from core.edge.place import DOWNLINK, HEARTBEAT, LOOKUP, TRACKING, Key, Place, shared
from core.forward import Forwarder
from core.link import Link
from core.linkroutes.routes import Routes
from core.local import Local
from core.network.message import BadMessageError
from shm.payloads import C_CLOSE, Attach, Close, ConnectionOpened, Detach, Error, LinkRefused

LOGGER = logging.getLogger("ROUTER_CORE")

SILENCE_NS: Final = 8_000_000_000
LOOK_NS: Final = 1_000_000_000
AGAIN: Final = Error("amqp:connection:forced", "The router's core was restarted; connect again")
SILENT: Final = Error("amqp:connection:forced", "The edge router's heartbeat has stopped")
INVALID: Final = Error("amqp:invalid-field", "An edge downlink needs the router's id as its source")
# So little that it comes back message by message: qdrouterd takes the credit in a flow for all that it has.
OWN_CREDIT: Final = {HEARTBEAT: 2, LOOKUP: 3}
BEATEN_AT: Final = f"_local/{HEARTBEAT}"
ASKED_AT: Final = f"_local/{LOOKUP}"


class Edge(msgspec.Struct):
    """A connection of an edge router."""

    number: int
    worker: int
    opened: ConnectionOpened
    heart: Link | None = None
    heard: int = 0  # nanoseconds
    tracked_at: str = ""  # where it wants to hear of addresses
    told: set[str] = msgspec.field(default_factory=set)  # keys with receivers beyond it
    senders: Counter[str] = msgspec.field(default_factory=Counter)  # its links, by key
    receivers: Counter[str] = msgspec.field(default_factory=Counter)

    @property
    def peer(self) -> str:
        """For the log."""
        return f"{self.opened.container} at {self.opened.host}"


class Downlinks:
    """All connections of edge routers to this one."""

    def __init__(self, forwarder: Forwarder, addresses: Addresses, local: Local, link_routes: Routes) -> None:
        self._forwarder = forwarder
        self._addresses = addresses
        self._local = local
        self._link_routes = link_routes
        self._encode = msgspec.msgpack.Encoder().encode
        self._edges: dict[Key, Edge] = {}
        self._by_number: dict[int, Edge] = {}
        self._number = 0
        self._changed: set[str] = set()  # keys whose receivers came or went
        self._looked = self._routes = 0
        local.listen(BEATEN_AT, lambda *_: None)
        local.listen(ASKED_AT, self._asked)

    # ---- connections ----

    def opened(self, worker: int, opened: ConnectionOpened) -> None:
        """An edge router has connected."""
        self.closed(worker, opened.connection)
        if opened.restored:  # its links would have to be told apart: made anew they need not
            self._close(worker, opened, AGAIN)
        self._number += 1
        edge = Edge(self._number, worker, opened)
        self._edges[worker, opened.connection] = self._by_number[edge.number] = edge

    def closed(self, worker: int, connection: int, generation: int | None = None) -> None:
        """A connection is gone; its links were detached before."""
        edge = self._edges.get((worker, connection))
        if edge is not None and generation in (None, edge.opened.generation):
            del self._edges[worker, connection], self._by_number[edge.number]

    def forget_worker(self, worker: int) -> None:
        """A worker is dead, and its connections with it."""
        for key in [key for key in self._edges if key[0] == worker]:
            self.closed(*key)

    def find(self, worker: int, connection: int) -> int:
        """The number of an edge connection; 0: it is none."""
        edge = self._edges.get((worker, connection))
        return 0 if edge is None else edge.number

    def is_active(self, worker: int, connection: int) -> bool:
        """Whether it carries messages: only its edge router knows."""
        return (worker, connection) in self._edges

    def refused(self, refused: LinkRefused) -> None:
        """It is the edge router that opens links."""

    def _close(self, worker: int, opened: ConnectionOpened, error: Error) -> None:
        close = Close(opened.connection, opened.generation, error)
        self._forwarder.post_control(worker, C_CLOSE, self._encode(close))

    # ---- links ----

    def place(self, worker: int, attach: Attach) -> Place | Error | None:
        """Where a link of an edge connection leads; None: as that of any client."""
        edge = self._edges[worker, attach.connection]
        if attach.restored:
            return AGAIN
        name = strip_spelling(attach.address or "")
        if attach.outgoing and DOWNLINK in attach.capabilities:
            if not name or "/" in name:
                return INVALID
            return self._at(f"H{name}", through=True)
        if attach.outgoing and name == TRACKING:
            return self._at(f"L{TRACKING}.{edge.number}")
        if not attach.outgoing and name in OWN_CREDIT:
            return self._at(f"L{name}", capacity=OWN_CREDIT[name])
        return None

    def _at(self, key: str, through: bool = False, capacity: int = 250) -> Place:
        address = self._addresses.of_key(key)
        return Place(address, address.handle, through, capacity)

    def attached(self, link: Link) -> None:
        """A link has come, of an edge router or another one's."""
        edge = self._by_number.get(link.edge)
        if link.address is None:
            return
        key = link.address.key
        if edge is not None and key.startswith("L"):
            if link.outgoing and key == f"L{TRACKING}.{edge.number}":
                edge.tracked_at = f"_local/{TRACKING}.{edge.number}"
                self._changed.update(edge.senders)
            elif key == f"L{HEARTBEAT}":
                edge.heart, edge.heard = link, self._forwarder.now
        self._count(edge, link, 1)

    def detached(self, link: Link) -> None:
        """A link has gone."""
        edge = self._by_number.get(link.edge)
        if edge is not None and edge.heart is link:
            edge.heart = None
        self._count(edge, link, -1)

    def _count(self, edge: Edge | None, link: Link, number: int) -> None:
        if link.address is None or not shared(link.address.key):
            return
        key = link.address.key
        self._changed.add(key)
        if edge is None:
            return
        counter = edge.receivers if link.outgoing else edge.senders
        counter[key] += number
        if not counter[key]:
            del counter[key]
            if not link.outgoing:
                edge.told.discard(key)

    def asks(self, _worker: int, _attach: Attach, _connection: ConnectionOpened, _address: str) -> bool:
        """An interior router asks nobody."""
        return False

    def cancel(self, _worker: int, _detach: Detach) -> bool:
        """So no link waits for an answer."""
        return False

    # ---- what edge routers are told ----

    def _beyond(self, edge: Edge, key: str) -> bool:
        """Whether an address has receivers that this edge router does not know itself."""
        address = self._addresses.known(key)
        if address is None:
            return False
        info = self._forwarder.address_info(address.handle)
        exchanged = (
            info["elsewhere"] and not address.rule.fallback
        )  # what falls back has an address of its own
        return info["outgoing"] > edge.receivers[key] or bool(info["reached"] or exchanged)

    def _tell(self, edge: Edge) -> None:
        for key in edge.senders.keys() & self._changed:
            reached = self._beyond(edge, key)
            if reached == (key in edge.told):
                continue
            (edge.told.add if reached else edge.told.discard)(key)
            self._local.send(edge.tracked_at, words.tracking(key, reached))

    def _asked(self, content: bytes, _: int) -> None:
        try:
            question = words.question(content)
        except BadMessageError as error:
            LOGGER.warning("an edge router's question about an address cannot be answered: %s", error)
            return
        route = None
        if question.status == words.OK:
            route = self._link_routes.find(question.address, question.receives)
            if route is None:
                question = msgspec.structs.replace(question, status=words.NOT_FOUND)
        reached = route is not None and bool(route.hosts or route.remotes)
        self._local.send(question.reply_to, words.answer(question, route is not None, reached))

    def step(self, now: int, routes: int) -> None:
        """What is due. ``routes``: another number whenever the network has changed."""
        if not self._edges:
            self._changed.clear()
            return
        if routes != self._routes or now - self._looked >= LOOK_NS:
            self._routes, self._looked = routes, now
            for edge in self._edges.values():
                self._changed.update(edge.senders)
            self._listen(now)
        if not self._changed:
            return
        for edge in self._edges.values():
            if edge.tracked_at:
                self._tell(edge)
        self._changed.clear()
        self._forwarder.publish()

    def _listen(self, now: int) -> None:
        """Give up edge routers that have fallen silent."""
        for edge in self._edges.values():
            if (heart := edge.heart) is None:
                continue
            last = self._forwarder.link_last(heart.worker, heart.link, heart.generation)
            edge.heard = max(edge.heard, last)
            if now - edge.heard > SILENCE_NS:
                edge.heard = now
                LOGGER.warning("edge router %s has fallen silent: its connection is closed", edge.peer)
                self._close(edge.worker, edge.opened, SILENT)

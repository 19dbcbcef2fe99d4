"""The edge router's side: one connection to an interior router is active, others stand by.

    anonymous, outgoing         everything without a receiver or route here: the address L_edge
    downlink, incoming          everything for this router and its dynamic addresses
    tracking, incoming          reports which addresses have receivers beyond
    a proxy for each address    incoming if it has receivers here; outgoing if it has senders here, and used
                                only while it has receivers beyond
    heartbeat, outgoing
    questions, outgoing         asks whether links to an address are routed beyond (lookup.py)
    management, outgoing        requests link routes to the brokers here (route_proxies.py)

When the active connection is lost, another takes over and opens its own links.
"""

import logging
from collections import Counter
from itertools import islice
from typing import Final

import msgspec

from core.addresses.addresses import BEYOND, TREATMENTS, Address
from core.addresses.addresses import FALLBACK as FALLBACK_PHASE
from core.edge import words
from core.edge.lookup import ASKED_AT, Decide, Lookup
from core.edge.place import DOWNLINK, HEARTBEAT, LOOKUP, MANAGEMENT, TRACKING, Key, capabilities
from core.edge.route_proxies import ORDERED_AT, RouteProxies
from core.interior.inter_router import is_skupper
from core.interior.message import BadMessageError
from core.links.base import Base
from core.links.connections import client_of
from core.links.link import Edges, Link
from core.links.streams import Streams
from core.links.terminus import EDGE, NO_ROOM, Place, shared
from shm.contract.complaints import bursts
from shm.contract.failures import failures
from shm.contract.payloads import Attach, ConnectionOpened, Detach, Error, LinkRefused

LOGGER = logging.getLogger("ROUTER_CORE")

BEAT_NS: Final = 2_000_000_000
TRACKING_CREDIT: Final = 32
SHOWN: Final = 200  # characters of an address in the log
BEATS_UNSENT: Final = 2  # with so many waiting for credit no further one is sent
PORTION: Final = 2  # addresses whose proxies are requested before others have their turn: some 0.1 ms
AGAIN: Final = Error("amqp:connection:forced", "The router's core has restarted; connect again")
HEARD_AT: Final = f"_local/{TRACKING}"
BEATEN_AT: Final = f"_local/{HEARTBEAT}"

AGAIN_MOST: Final = 16  # addresses without room for a proxy that are tried again at once
REFUSED: Final = "%s refused a link%s: %s"
CROWDED: Final = "gets no link for some addresses, which only clients of this router reach until there is room: "

Side = tuple[str, bool]  # key of an address, and whether the proxy is outgoing


class Interior(msgspec.Struct):
    """A connection to an interior router."""

    number: int
    worker: int
    opened: ConnectionOpened
    streams: int = 0  # the handle of its streaming links; 0: it offers none


class Proxy(msgspec.Struct):
    """A link that stands for the receivers or senders of an address here."""

    side: Side
    name: str = ""
    request: int = 0
    link: Link | None = None
    leaving: bool = False


class Uplink(Edges):
    """All connections of this edge router to interior routers."""

    def __init__(self, base: Base, streams: Streams, decide: Decide) -> None:
        self._base = base
        self._forwarder = base.forwarder
        self._addresses = base.addresses
        self._local = base.local
        self._me = base.me
        self._streams = streams
        self._interiors: dict[Key, Interior] = {}
        self.active: Interior | None = None
        self._requested: dict[int, Place | Proxy] = {}  # links requested, by request
        self._proxies: dict[Side, Proxy] = {}
        self._by_name: dict[str, Proxy] = {}
        self._here: Counter[Side] = Counter()  # receivers here (incoming proxy) or senders here
        self._asks: dict[Side, int] = {}  # the client that a proxy is requested for
        self._crowded: dict[Side, None] = {}  # those for whose proxies there was no room, who waits longest first
        self._unchecked: list[Side] = []  # those whose proxies a new active connection does not have yet
        self._beyond: set[str] = set()  # keys with receivers beyond the uplink
        self.lookup = Lookup(base, decide, self._complain)
        self.route_proxies = RouteProxies(base, self._complain)
        self._number = self._beats = 0
        self._beaten = 0
        self._lines = bursts()
        self._exit = base.addresses.of_key(BEYOND)
        base.addresses.keep(self._exit)
        base.forwarder.set_exit(self._exit.handle)
        self._parked = base.forwarder.add_address(TREATMENTS.index("control"), listed=False)
        base.local.listen(HEARD_AT, self._heard)

    # ---- connections ----

    def opened(self, worker: int, opened: ConnectionOpened) -> None:
        """Enter a connection to an interior router, active or as a standby."""
        if opened.role != EDGE:
            return
        if opened.restored:  # its links would have to be told apart; new ones need not
            self._base.close_connection(worker, opened, AGAIN)
        self._number += 1
        interior = self._interiors[worker, opened.connection] = Interior(self._number, worker, opened)
        if opened.restored:
            return
        interior.streams = self._streams.begin(worker, opened, [], lambda: True)
        if self.active is None:
            self._activate(interior)
        else:
            LOGGER.info("edge connection to %s is on standby", interior.opened.peer)

    def closed(self, worker: int, connection: int) -> None:
        interior = self._interiors.pop((worker, connection), None)
        if interior is None:
            return
        self._streams.end(interior.streams)
        if interior is not self.active:
            return
        LOGGER.info("edge connection to %s was lost", interior.opened.peer)
        self.active = None
        self.lookup.end()
        self.route_proxies.end()
        self._requested.clear()
        self._proxies.clear()
        self._by_name.clear()
        self._beyond.clear()
        self._unchecked.clear()
        self._crowded.clear()
        successor = next((one for one in self._interiors.values() if not one.opened.restored), None)
        if successor is not None:
            self._activate(successor)

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        self.lookup.forget_worker(worker)
        for key in [key for key in self._interiors if key[0] == worker]:
            self.closed(*key)

    def find(self, worker: int, connection: int) -> int:
        """Return the number of an edge connection, or 0 for any other connection."""
        interior = self._interiors.get((worker, connection))
        return 0 if interior is None else interior.number

    def is_active(self, worker: int, connection: int) -> bool:
        """Whether this is the active connection, which carries messages."""
        return self.active is not None and self._interiors.get((worker, connection)) is self.active

    def _activate(self, interior: Interior) -> None:
        self.active = interior
        LOGGER.info("edge connection to %s is active", interior.opened.peer)
        heard = self._addresses.resolve(HEARD_AT)
        beaten = self._addresses.resolve(BEATEN_AT)
        self._open(True, None, Place(self._exit, self._exit.handle, wants_override=True))
        self._open(False, self._me.router_id, Place(), [DOWNLINK])
        self._open(False, TRACKING, Place(heard, heard.handle), capacity=TRACKING_CREDIT)
        self._open(True, HEARTBEAT, Place(beaten, beaten.handle))
        if not is_skupper(interior.opened):  # skupper-router answers neither questions nor requests for link routes
            asked, ordered = self._addresses.resolve(ASKED_AT), self._addresses.resolve(ORDERED_AT)
            self._open(True, LOOKUP, Place(asked, asked.handle))
            self._open(True, "$management", Place(ordered, ordered.handle))
        self._unchecked = list(self._here)

    # ---- links ----

    def _open(
        self, outgoing: bool, address: str | None, what: Place | Proxy, said: list[str] | None = None, **terms: int
    ) -> tuple[int, str]:
        """Request a link on the active connection, with more fields of OpenLink. Return its request number and name."""
        assert self.active is not None, "only on the active connection"
        request = self._base.names.request()
        end = {"target" if outgoing else "source": address}
        ends = {"source_capabilities": said or [], "target_capabilities": said or [], **end}
        name = self._base.open_link(self.active.worker, self.active.opened, request, outgoing, **ends, **terms)
        self._requested[request] = what
        return request, name

    def place(self, worker: int, attach: Attach) -> Place | Error | None:
        """Return where a link of an edge connection leads, or None if it is treated as a client's."""
        what = self._requested.pop(attach.request, None) if attach.request else None
        if attach.restored or (attach.request and what is None):
            return AGAIN
        if not isinstance(what, Proxy):
            return what
        key, outgoing = what.side
        address = self._addresses.of_key(key)
        beyond = not outgoing or key in self._beyond
        return Place(address, address.handle if beyond else self._parked)

    def refused(self, refused: LinkRefused) -> None:
        """Forget a requested link that the interior router refused or whose connection is gone."""
        what = self._requested.pop(refused.request, None)
        if what is None or self.active is None:
            return
        error = refused.error
        if isinstance(what, Proxy):
            self._forget(what)
            if error is not None and error.condition == NO_ROOM.condition and self._needed(what.side):
                self._crowded[what.side] = None
                self._complain(CROWDED, f"{error.description} (now{_link(what)})")
                return
        if error is not None:
            said = f"{error.condition}: {error.description}"
            self._lines.tell(self._forwarder.now / 1e9, LOGGER, logging.WARNING, REFUSED, self._peer, _link(what), said)

    def attached(self, link: Link) -> None:
        """Count a new link of the uplink or of a client."""
        if link.edge:
            if (proxy := self._by_name.get(link.name)) is not None:
                proxy.link = link
                self._check(proxy.side)
                self._again(1)
            self._service(link, True)
            if self.active is not None:
                self._streams.serve(self.active.streams, link)
        elif link.address is not None:
            opened = self._base.connections.find(link.worker, link.connection)
            self._count((link.address.key, not link.outgoing), 1, 0 if opened is None else client_of(opened))

    def detached(self, link: Link, detach: Detach | None) -> None:
        if link.edge:
            if (proxy := self._by_name.get(link.name)) is not None:
                self._forget(proxy)
                self._check(proxy.side)
            self._service(link, False)
        elif link.address is not None:
            self._count((link.address.key, not link.outgoing), -1)

    def served(self, address: Address, number: int, sends: bool) -> None:
        """Count this router's own receivers and senders like those of its clients."""
        self._count((address.key, sends), number)

    def _count(self, side: Side, number: int, client: int = 0) -> None:
        if not shared(side[0]):
            return
        if number > 0 and (not self._here[side] or side in self._crowded):
            self._asks[side] = client
        self._here[side] += number
        if not self._here[side]:
            del self._here[side]
            self._asks.pop(side, None)
            self._crowded.pop(side, None)
        self._check_all(side)

    def _again(self, most: int) -> None:
        """Let the coming steps request some of the proxies for which there was no room."""
        for side in list(islice(self._crowded, most)):
            del self._crowded[side]
            self._unchecked.append(side)

    def _service(self, link: Link, there: bool) -> None:
        """Start or stop a service whose link to the interior router was attached or detached."""
        key = "" if link.address is None else link.address.key
        if key == f"L{LOOKUP}":
            if there and self.active is not None:
                self.lookup.begin((self.active.worker, self.active.opened))
            else:
                self.lookup.end()
        elif key == f"L{MANAGEMENT}":
            if there:
                self.route_proxies.begin()
            else:
                self.route_proxies.end()

    def _forget(self, proxy: Proxy) -> None:
        self._proxies.pop(proxy.side, None)
        self._by_name.pop(proxy.name, None)
        if proxy.side[1]:
            self._beyond.discard(proxy.side[0])

    def _check_all(self, side: Side) -> None:
        """Update the proxies of a side. Senders also need the fallback destination's proxy."""
        self._check(side)
        key, outgoing = side
        if outgoing and key[1] == "0":
            self._check((f"M{FALLBACK_PHASE}{key[2:]}", True))

    def _needed(self, side: Side) -> bool:
        key, outgoing = side
        if self._here[side] or not outgoing or key[1] != FALLBACK_PHASE:
            return self._here[side] > 0
        primary = f"M0{key[2:]}"
        return self._here[primary, True] > 0 and self._addresses.rule(primary).fallback

    def _check(self, side: Side) -> None:
        """Open the proxy of a side if it is needed, and close it otherwise."""
        if self.active is None:
            return
        proxy = self._proxies.get(side)
        if proxy is None and self._needed(side):
            key, outgoing = side
            proxy = Proxy(side)
            said = capabilities(key, outgoing, self._addresses.rule(key).egress)
            client = self._asks.get(side) or self._asks.get((f"M0{key[2:]}", True), 0)
            proxy.request, proxy.name = self._open(outgoing, key[2:], proxy, list(said), client=client)
            self._crowded.pop(side, None)
            self._proxies[side] = self._by_name[proxy.name] = proxy
        elif proxy is not None and not self._needed(side) and proxy.link is not None and not proxy.leaving:
            proxy.leaving = True
            link = proxy.link
            self._base.post(link.worker, Detach(link.link, link.generation))

    def asks(self, worker: int, attach: Attach, connection: ConnectionOpened, address: str) -> bool:
        """Ask whether a client's link is routed beyond. Return False to decide here."""
        return self.lookup.ask(worker, attach, connection, address)

    def cancel(self, worker: int, detach: Detach) -> bool:
        """Cancel the question of a client's link that is gone. Return False if there was none."""
        return self.lookup.cancel(worker, detach)

    @property
    def _peer(self) -> str:
        return "the interior router" if self.active is None else f"router {self.active.opened.peer}"

    def _complain(self, what: str, detail: str = "", level: int = logging.WARNING) -> None:
        self._base.complain(self._peer, what, detail, level)

    # ---- receivers beyond the uplink ----

    def _heard(self, content: bytes, _: int) -> None:
        try:
            skupper = self.active is not None and is_skupper(self.active.opened)
            key, reached = words.tracked(content, skupper)
        except BadMessageError as error:
            self._complain("sent an unreadable report on an address: ", str(error))
            return
        LOGGER.debug("address %s has %s beyond the uplink", key, "receivers" if reached else "no receivers")
        proxy = self._proxies.get((key, True))
        if proxy is None:
            return
        (self._beyond.add if reached else self._beyond.discard)(key)
        if (link := proxy.link) is not None:
            address = self._addresses.of_key(key)
            link.address = address
            self._forwarder.move_link(
                link.worker, link.link, link.generation, address.handle if reached else self._parked
            )

    @property
    def restless(self) -> bool:
        """Whether a step has left links or addresses to the next one."""
        return bool(self._unchecked) or self.lookup.restless or self.route_proxies.restless

    def step(self, now: int) -> None:
        """Do what is due at ``now``, in nanoseconds: proxies, questions, requests for link routes, the heartbeat."""
        for _ in range(min(PORTION, len(self._unchecked))):
            key, outgoing = side = self._unchecked.pop()
            try:
                self._check_all(side)
            except Exception as error:  # one address must not end everybody's messages
                who = "senders" if outgoing else "receivers"
                then = f"its {who} have no link until one more attaches or one detaches"
                failures.tell(f"requesting an uplink's link for {key}", error, then)
        self.lookup.step(now)
        self.route_proxies.step(now)
        if self.active is None or now - self._beaten < BEAT_NS:
            return
        self._beaten = now
        self._beats += 1
        self._again(AGAIN_MOST)
        if self._local.waiting(BEATEN_AT) < BEATS_UNSENT:
            self._local.send(BEATEN_AT, words.heartbeat(self._beats))
        self._forwarder.publish()


def _link(what: Place | Proxy) -> str:
    """Return which way a link leads, and the beginning of its address; empty for one of the router's own."""
    if not isinstance(what, Proxy):
        return ""
    key, outgoing = what.side
    return f" {'to' if outgoing else 'from'} {key[2 : 2 + SHOWN]!r}"

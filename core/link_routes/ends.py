"""Both ends of link routes' links: an attach goes on to a broker or the next router, whose answer comes back.

    first end attached    request the far end (OpenLink)
    far end answered      pair both in the forwarder; answer the first end as the far end did
    far end refused       refuse the first end with the far end's error
    either end gone       detach the other end with the peer's error, or because the path was lost

An end that outlived its core is closed, because the core does not know what was on its way between the two.
"""

import zlib
from collections.abc import Callable
from typing import Final

import msgspec

from core.forwarder.recorded import LinkRoutePairs
from core.link_routes.requests import WEIGHT_OCTETS, Beyond, Name, Pending, Requests
from core.link_routes.routes import Host, Route, Routes
from core.links.base import Base
from core.links.connections import Hop, client_of
from core.links.link import Link
from core.links.plane import Plane
from core.links.termini import COORDINATOR, address_of, changed, counting, node_address, placed, unplaced
from core.links.terminus import EDGE, INTER_ROUTER, LONG_SEARCH, NO_ROOM
from shm.contract.patterns import SearchTooLongError
from shm.contract.payloads import Attach, Attached, ConnectionOpened, Detach, Error, LinkRefused, OpenLink, record
from shm.native import ROUTED_SESSIONS

FIRST_REQUEST: Final = 1 << 31  # requests of other parts have lower numbers

NO_ROUTE: Final = Error("qd:no-route-to-dest", "No route to the destination node")
LOST: Final = Error("qd:routed-link-lost", "Connectivity to the peer container was lost")
EXPIRATION: Final = Error("qd:link-expiration", "Requested link expiration not allowed")


# Enters a worker's link in the table of all links, with the link route's address.
Enter = Callable[[int, Attach, str], None]
# Finds the next hop on the path to a router.
FindPath = Callable[[int], Hop | None]


class Ends(Plane):
    """The plane of all link-route pairs."""

    def __init__(self, base: Base, routes: Routes, path_to: FindPath | None) -> None:
        self._base = base
        self._forwarder = base.forwarder
        self._pairs = LinkRoutePairs(base.forwarder)
        self.routes = routes
        self._find = base.connections.find
        self._path_to = path_to
        self._request = FIRST_REQUEST
        self._requests = Requests(base)
        self._pending: dict[int, Pending] = {}
        self._waiting: dict[Name, Pending] = {}  # the same by first end, without those that are cancelled
        # The other end of each, and whether the terminus is to outlive its connection.
        self._partners: dict[Name, tuple[Name, bool]] = {}

    # ---- attaches ----

    def route(self, attach: Attach, tenant: str) -> Route | Error | None:
        """Return the link route for an attach, an error if it takes too long to find, or None."""
        text = address_of(attach, tenant)
        try:
            return self.routes.find(text, attach.outgoing) if text else None
        except SearchTooLongError:
            return LONG_SEARCH

    def wanted(self, attach: Attach, tenant: str) -> str:
        """Return the address of an attach that no broker here serves, or an empty text.

        It is empty if one does, or if that takes too long to find.
        """
        route = self.route(attach, tenant)
        here = isinstance(route, Error) or (route is not None and any(self._find(*host) for host in route.hosts))
        return "" if here else address_of(attach, tenant)

    def attach(self, worker: int, attach: Attach, connection: ConnectionOpened, route: Route) -> Error | None:
        """Send an attach on. Return an error if that is impossible."""
        if (error := self._forbidden(attach)) is not None:
            return error
        chosen = self._choose(route, (worker, attach.connection))
        if chosen is None:
            return NO_ROUTE
        far, opened, here = chosen
        served, beyond = (route, None) if here else (None, route.key)
        return self._open(worker, attach, connection, (far, opened), served, beyond)

    def attach_beyond(
        self, worker: int, attach: Attach, connection: ConnectionOpened, path: Hop, reached: bool
    ) -> Error | None:
        """Send the attach of an edge router's client to the interior router.

        ``reached`` tells whether a broker is connected there. Return an error without one.
        """
        error = self._forbidden(attach)
        if error is None and not reached:
            error = NO_ROUTE
        client = worker, connection.connection, connection.generation
        return self._open(worker, attach, connection, path, None, client) if error is None else error

    def _forbidden(self, attach: Attach) -> Error | None:
        if attach.termini is None:
            return NO_ROUTE
        return EXPIRATION if lasts(attach) and not self._base.setup.resumable_link_routes else None

    def _open(
        self, worker: int, attach: Attach, connection: ConnectionOpened, path: Hop, route: Route | None, beyond: Beyond
    ) -> Error | None:
        """Request the far end, or return an error if too many others wait for it. ``route`` is the broker's, or None if
        the far end is a router. ``beyond`` says who has to answer then."""
        assert attach.termini is not None, "forbidden without"
        self._request = self._request + 1 if self._request < 0xFFFFFFFF else FIRST_REQUEST
        whole = placed(attach.termini, attach.outgoing, connection.tenant)
        link = OpenLink(
            path[1].connection,
            path[1].generation,
            self._request,
            _far_name(attach, connection),
            not attach.outgoing,
            None,
            None,
            _session(worker, attach),
            termini=changed(whole, attach.outgoing, None if route is None else route.outward),
            client=client_of(connection),
            neighbour=connection.role in (INTER_ROUTER, EDGE),
        )
        kind, octets = record(link)
        pending = Pending(
            self._request,
            worker,
            msgspec.structs.replace(attach, termini=None),
            _owning(attach),
            route,
            connection.tenant,
            lasts(attach),
            (kind, octets),
            1 + len(octets) // WEIGHT_OCTETS,
            self._requests.near(worker, connection, path, beyond),
        )
        if (error := self._requests.add(pending)) is None:
            self._pending[pending.request] = self._waiting[pending.name] = pending
            self._base.admissions.waits(worker, attach, 1)
        return error

    def _choose(self, route: Route, origin: Host) -> tuple[int, ConnectionOpened, bool] | None:
        """Return the next broker here, or the next router with one. True marks a broker here."""
        for at in range(len(route.turns)):
            host = route.turns[(route.turn + at) % len(route.turns)]
            opened = self._find(*host)
            if opened is not None:
                route.turn += at + 1
                return host[0], opened, True
        remotes = sorted(route.remotes) if self._path_to is not None else []
        for at in range(len(remotes)):
            path = self._path_to(remotes[(route.turn + at) % len(remotes)]) if self._path_to else None
            if path is not None and (path[0], path[1].connection) != origin:
                route.turn += at + 1
                return *path, False
        return None

    def is_answer(self, attach: Attach) -> bool:
        """Whether an attach answers a request for a far end."""
        return attach.request in self._pending

    def answered(self, worker: int, attach: Attach, enter: Enter) -> None:
        """Pair an open far end with its first end."""
        pending = self._pending.pop(attach.request)
        self._requests.over(pending)
        self._waits_no_more(pending.name)
        near, far = pending.name, (worker, attach.link, attach.generation)
        if pending.cancelled or attach.termini is None:
            self._detach(far, Detach(attach.link, attach.generation, closed=pending.closes))
            return
        added = self._pairs.add(*far, attach.outgoing, self._at_router(*pending.far))
        added = added and self._pairs.add(
            *near, pending.attach.outgoing, self._at_router(pending.worker, pending.attach.connection)
        )
        if not added or not self._pairs.pair(*near, *far):
            self._forwarder.remove_link(*far)
            self._forwarder.bad()
            self._detach(far, Detach(attach.link, attach.generation, NO_ROOM, closed=not pending.lasts))
            self._refuse(pending, NO_ROOM)
            return
        self._partners[near], self._partners[far] = (far, pending.lasts), (near, pending.lasts)
        change = None if pending.route is None else pending.route.inward
        termini = changed(attach.termini, pending.attach.outgoing, change)
        termini = unplaced(termini, pending.attach.outgoing, pending.tenant)
        answer = Attached(near[1], near[2], termini=termini)
        self._base.post(near[0], answer)
        enter(pending.worker, pending.attach, pending.address)
        enter(worker, attach, pending.address)

    def _at_router(self, worker: int, connection: int) -> bool:
        opened = self._find(worker, connection)
        return opened is not None and opened.role == INTER_ROUTER

    def refused(self, refused: LinkRefused) -> None:
        """Refuse the first end whose far end was refused or lost its connection."""
        pending = self._pending.get(refused.request)
        if pending is not None:
            self._requests.over(pending)
            self._end(pending, refused.error or LOST)

    def _end(self, pending: Pending, error: Error = LOST) -> None:
        """Refuse a first end, unless it is gone."""
        del self._pending[pending.request]
        if self._waits_no_more(pending.name) is not None:
            self._refuse(pending, error)

    def _waits_no_more(self, name: Name) -> Pending | None:
        """Return what a first end has waited for, which is over, or None."""
        pending = self._waiting.pop(name, None)
        if pending is not None:
            self._base.admissions.waits(pending.worker, pending.attach, -1)
        return pending

    # ---- detaches ----

    def cancel(self, worker: int, detach: Detach) -> bool:
        """Cancel a first end that is gone before its answer. Return False if it did not wait here."""
        pending = self._waits_no_more((worker, detach.link, detach.generation))
        if pending is None:
            return False
        self._cancel(pending, not pending.lasts if detach.lost else detach.closed)
        return True

    def _cancel(self, pending: Pending, closes: bool) -> None:
        pending.cancelled, pending.closes = True, closes
        if not pending.sent:
            self._requests.over(pending)
            del self._pending[pending.request]

    def detached(self, link: Link, detach: Detach | None) -> None:
        """Detach the other end of a pair, unless no peer is left to tell."""
        other, lasts = self._partners.pop((link.worker, link.link, link.generation), (None, False))
        if other is None:
            return
        del self._partners[other]
        if detach is not None and not detach.lost:
            self._detach(other, Detach(other[1], other[2], detach.error, detach.closed))
        elif detach is not None or other[0] != link.worker:
            error = LOST if detach is None else detach.error or LOST
            self._detach(other, Detach(other[1], other[2], error, closed=not lasts))

    # ---- far ends that are lost ----

    def opened(self, worker: int, opened: ConnectionOpened) -> None:
        """Forget an earlier connection in the place of a new one."""
        self._requests.closed(worker, opened.connection)

    def closed(self, worker: int, connection: int) -> None:
        """Refuse, in the coming steps, the attaches that wait for a connection that is gone."""
        self._requests.closed(worker, connection)

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        """Drop the pending attaches of a dead worker, and refuse, in the coming steps, those whose far end it had."""
        for pending in [one for one in self._pending.values() if one.worker == worker]:
            self._waits_no_more(pending.name)
            self._cancel(pending, not pending.lasts)
        self._requests.forget_worker(worker, self._pending.values())

    @property
    def restless(self) -> bool:
        """Whether attaches that wait for lost connections are still to be refused."""
        return self._requests.restless

    def step(self, now: int) -> None:
        """Refuse a portion of the attaches that wait for lost connections."""
        for pending in self._requests.lost():
            self._end(pending)

    def _detach(self, name: Name, detach: Detach) -> None:
        self._base.post(name[0], detach)

    def _refuse(self, pending: Pending, error: Error) -> None:
        self._base.refusals.tell(pending.worker, pending.attach, error, beyond=True)
        self._base.post(pending.worker, Attached(pending.name[1], pending.name[2], None, error))


def _session(worker: int, attach: Attach) -> int:
    """Return the far end's session, one for each session here, because its end closes all of its links."""
    place = worker.to_bytes(4, "big") + attach.connection.to_bytes(4, "big")
    return ROUTED_SESSIONS + zlib.crc32(place + attach.session.to_bytes(8, "big")) % ROUTED_SESSIONS


def _owning(attach: Attach) -> str:
    """Return a link's address as management shows it."""
    return COORDINATOR if attach.coordinator else attach.address or node_address(attach)


def lasts(attach: Attach) -> bool:
    """Whether an attach wants a terminus that outlives its connection."""
    outgoing = attach.outgoing != attach.router_initiated  # of the first end
    return attach.termini is not None and counting(attach.termini, outgoing).lasts


def _far_name(attach: Attach, connection: ConnectionOpened) -> str:
    """Return the name of a far end: the same when the same client comes again, and another one for each tenant."""
    if connection.role == INTER_ROUTER:
        return attach.name
    name = f"{attach.name}@{connection.container}"
    return f"{connection.tenant}/{name}" if connection.tenant else name

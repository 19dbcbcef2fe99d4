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
from core.link_routes.routes import Host, Route, Routes
from core.links.base import Base
from core.links.connections import Hop
from core.links.link import Link
from core.links.plane import Plane
from core.links.termini import COORDINATOR, address_of, changed, node_address, placed, unplaced
from core.links.terminus import INTER_ROUTER, LONG_SEARCH, NO_ROOM
from shm.contract.patterns import SearchTooLongError
from shm.contract.payloads import Attach, Attached, ConnectionOpened, Detach, Error, LinkRefused, OpenLink

NEVER: Final = 3  # pn_expiry_policy_t of the engine
FIRST_REQUEST: Final = 1 << 31  # requests of other parts have lower numbers
ROUTED_SESSIONS: Final = 1 << 30  # sessions of link routes have numbers from here on

NO_ROUTE: Final = Error("qd:no-route-to-dest", "No route to the destination node")
LOST: Final = Error("qd:routed-link-lost", "Connectivity to the peer container was lost")
EXPIRATION: Final = Error("qd:link-expiration", "Requested link expiration not allowed")

Name = tuple[int, int, int]  # worker, index and generation of a link


# Enters a worker's link in the table of all links, with the link route's address.
Enter = Callable[[int, Attach, str], None]
# Finds the next hop on the path to a router.
FindPath = Callable[[int], Hop | None]


class Pending(msgspec.Struct):
    """An attach that waits for its far end."""

    worker: int
    attach: Attach
    route: Route | None  # of the broker at the far end; None: the far end is a router
    far: Host
    tenant: str = ""  # of the first end's addresses
    cancelled: bool = False  # the first end is gone

    @property
    def name(self) -> Name:
        return self.worker, self.attach.link, self.attach.generation


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
        self._pending: dict[int, Pending] = {}
        self._waiting: dict[Name, Pending] = {}  # the same by first end, without those that are cancelled
        self._partners: dict[Name, Name] = {}

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
        self._open(worker, attach, connection, (far, opened), route if here else None)
        return None

    def attach_beyond(
        self, worker: int, attach: Attach, connection: ConnectionOpened, path: Hop, reached: bool
    ) -> Error | None:
        """Send the attach of an edge router's client to the interior router.

        ``reached`` tells whether a broker is connected there. Return an error without one.
        """
        error = self._forbidden(attach)
        if error is None and not reached:
            error = NO_ROUTE
        if error is None:
            self._open(worker, attach, connection, path, None)
        return error

    def _forbidden(self, attach: Attach) -> Error | None:
        if attach.termini is None:
            return NO_ROUTE
        terminus = attach.termini.source if attach.outgoing else attach.termini.target
        if not self._base.setup.resumable_link_routes and (
            terminus.timeout > 0 or (terminus.expires and terminus.expiry == NEVER)
        ):
            return EXPIRATION
        return None

    def _open(self, worker: int, attach: Attach, connection: ConnectionOpened, path: Hop, route: Route | None) -> None:
        """Request the far end. ``route`` is the broker's, or None if the far end is a router."""
        assert attach.termini is not None, "forbidden without"
        far, opened = path
        self._request = self._request + 1 if self._request < 0xFFFFFFFF else FIRST_REQUEST
        pending = Pending(worker, attach, route, (far, opened.connection), connection.tenant)
        self._pending[self._request] = self._waiting[pending.name] = pending
        self._base.admissions.waits(worker, attach, 1)
        name = attach.name if connection.role == INTER_ROUTER else f"{attach.name}@{connection.container}"
        whole = placed(attach.termini, attach.outgoing, connection.tenant)
        link = OpenLink(
            opened.connection,
            opened.generation,
            self._request,
            name,
            not attach.outgoing,
            None,
            None,
            _session(worker, attach),
            termini=changed(whole, attach.outgoing, None if route is None else route.outward),
        )
        self._base.post(far, link)

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
        self._waits_no_more(pending.name)
        near, far = pending.name, (worker, attach.link, attach.generation)
        if pending.cancelled or attach.termini is None:
            self._detach(far, Detach(attach.link, attach.generation))
            return
        added = self._pairs.add(*far, attach.outgoing, self._at_router(*pending.far))
        added = added and self._pairs.add(
            *near, pending.attach.outgoing, self._at_router(pending.worker, pending.attach.connection)
        )
        if not added or not self._pairs.pair(*near, *far):
            self._forwarder.remove_link(*far)
            self._forwarder.bad()
            self._detach(far, Detach(attach.link, attach.generation, NO_ROOM))
            self._refuse(pending, NO_ROOM)
            return
        self._partners[near], self._partners[far] = far, near
        change = None if pending.route is None else pending.route.inward
        termini = changed(attach.termini, pending.attach.outgoing, change)
        termini = unplaced(termini, pending.attach.outgoing, pending.tenant)
        answer = Attached(near[1], near[2], termini=termini)
        self._base.post(near[0], answer)
        address = _owning(pending.attach)
        enter(pending.worker, pending.attach, address)
        enter(worker, attach, address)

    def _at_router(self, worker: int, connection: int) -> bool:
        opened = self._find(worker, connection)
        return opened is not None and opened.role == INTER_ROUTER

    def refused(self, refused: LinkRefused) -> None:
        """Refuse the first end whose far end was refused or lost its connection."""
        pending = self._pending.pop(refused.request, None)
        if pending is not None and self._waits_no_more(pending.name) is not None:
            self._refuse(pending, refused.error or LOST)

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
        pending.cancelled = True
        return True

    def detached(self, link: Link, detach: Detach | None) -> None:
        """Detach the other end of a pair, unless no peer is left to tell."""
        other = self._partners.pop((link.worker, link.link, link.generation), None)
        if other is None:
            return
        del self._partners[other]
        if detach is not None and not detach.lost:
            self._detach(other, Detach(other[1], other[2], detach.error, detach.closed))
        elif detach is not None or other[0] != link.worker:
            self._detach(other, Detach(other[1], other[2], LOST, closed=True))

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        """Drop the pending attaches of a dead worker, and refuse those whose far end it had."""
        for request, pending in list(self._pending.items()):
            if pending.worker == worker:
                pending.cancelled = True
            if pending.cancelled or pending.far[0] == worker:
                self._waits_no_more(pending.name)
            if pending.far[0] == worker:
                del self._pending[request]
                if not pending.cancelled:
                    self._refuse(pending, LOST)

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

"""The table of attached links, in step with the forwarder's."""

import logging
from collections.abc import Sequence

from core.addresses.addresses import Address, Addresses
from core.forwarder.forward import Forwarder
from core.links.admission import Admissions, Guarded
from core.links.link import TYPES, Link
from core.links.named import Named
from core.links.plane import Plane, each
from shm.contract.chunked import Chunked, Rows
from shm.contract.payloads import Attach, Detach
from shm.contract.sparse import thinned

LOGGER = logging.getLogger("ROUTER_CORE")


class Links:
    """All attached links. ``planes`` see each link."""

    def __init__(
        self, forwarder: Forwarder, addresses: Addresses, admissions: Admissions, planes: Sequence[Plane]
    ) -> None:
        self._forwarder = forwarder
        self._addresses = addresses
        self._admissions = admissions
        self._planes = planes
        self._links: dict[tuple[int, int], Link] = {}  # by worker and index
        self._by_identity = Chunked[Link]()
        self._named = Named[int]()  # identities
        self._by_connection: dict[tuple[int, int], dict[int, Link]] = {}  # by index, of each connection that has some
        self._identity = 0

    def __len__(self) -> int:
        return len(self._links)

    def entries(self) -> Rows[Link]:
        """Return all present links, oldest first. Those that go meanwhile are left out."""
        return self._by_identity.rows()

    def find(self, worker: int, link: int, generation: int) -> Link | None:
        """Return a worker's link of this index and generation, or None."""
        found = self._links.get((worker, link))
        return found if found is not None and found.generation == generation else None

    def identified(self, identity: int) -> Link | None:
        """Return the link with this number in the router, or None."""
        return self._by_identity.get(identity)

    def named(self, name: str) -> list[Link]:
        """Return the links of this name, oldest first."""
        found = (self._by_identity.get(identity) for identity in self._named.of(name))
        return [link for link in found if link is not None]

    def of_connection(self, worker: int, connection: int) -> list[Link]:
        """Return the links of a worker's connection."""
        return list(self._by_connection.get((worker, connection), {}).values())

    def enter(
        self,
        worker: int,
        attach: Attach,
        address: Address | None = None,
        *,
        guarded: Guarded | None = None,
        scope: int = 0,
        kind: int = 0,
        priority: int = 0,
        edge: int = 0,
        routed: str = "",
    ) -> Link:
        """Enter a link that the forwarder has, and tell the planes of it."""
        if guarded is not None:
            guarded.attached(attach.outgoing, 1)
        self._identity += 1
        if (former := self._links.get((worker, attach.link))) is not None:
            self._remove(former)
        link = Link(
            worker,
            attach.link,
            attach.generation,
            attach.connection,
            attach.name,
            attach.outgoing,
            address,
            identity=self._identity,
            guarded=guarded,
            scope=scope,
            kind=kind,
            priority=priority,
            edge=edge,
            router_initiated=attach.router_initiated,
            routed=routed,
        )
        self._links[worker, link.link] = link
        self._by_identity[link.identity] = link
        self._named.add(link.name, link.identity)
        self._by_connection.setdefault((worker, link.connection), {})[link.link] = link
        how = "restored" if attach.restored else "attached", "from" if attach.outgoing else "to"
        what = TYPES[kind] if kind else "anonymous" if address is None else address.key
        where = worker, attach.connection
        LOGGER.debug("link %r of worker %d connection %d %s: %s %s", attach.name, *where, *how, what)
        each(self._planes, lambda plane: plane.attached(link))
        return link

    def detach(self, worker: int, detach: Detach) -> bool:
        """Remove a link after its peer's detach or the loss of its connection. Return False if it is unknown."""
        link = self.find(worker, detach.link, detach.generation)
        if link is None:
            return False
        self._forwarder.remove_link(worker, link.link, link.generation)
        self._forget(link, detach)
        return True

    def forget_worker(self, worker: int) -> int:
        """Forget a dead worker's links, which the forwarder has reclaimed. Return their number."""
        gone = [link for link in self._links.values() if link.worker == worker]
        for link in gone:
            self._forget(link, None)
        return len(gone)

    def _remove(self, link: Link) -> None:
        del self._links[link.worker, link.link]
        self._by_identity.remove(link.identity)
        self._named.remove(link.name, link.identity)
        self._links = thinned(self._links)
        of_connection = self._by_connection[link.worker, link.connection]
        del of_connection[link.link]
        if not of_connection:
            del self._by_connection[link.worker, link.connection]

    def _forget(self, link: Link, detach: Detach | None) -> None:
        self._remove(link)
        if link.guarded is not None:
            link.guarded.attached(link.outgoing, -1)
        if link.scope:
            self._admissions.scopes.leave(link.scope)
        try:
            each(self._planes, lambda plane: plane.detached(link, detach))
        finally:
            if link.address is not None:
                self._addresses.forget_idle(link.address)
        LOGGER.debug("link %r of worker %d connection %d detached", link.name, link.worker, link.connection)

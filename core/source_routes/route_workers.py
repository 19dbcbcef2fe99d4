"""Route workers in the core: addresses that lead to them, and their counts.

A message passes its route workers in the process where it arrives, before the core sees it; the core sees its
next address. The core gives senders to a route worker's address credit, announces the address to other
routers, and says which route workers an anonymous sender under vhost policy may reach. A message that gets to
such an address only inside the core, by an exchange or a fallback, is released.
"""

from typing import Final

import msgspec

from core.addresses.addresses import Address
from core.links.base import Base
from core.links.link import Link
from core.links.plane import Plane
from core.links.rights import AddressRights
from shm.contract.control import SetSourceRoutes
from shm.contract.payloads import RouteCounts, RouteReach
from shm.contract.source_routes import REASONS, RouteWorkerSetup
from shm.statistics.board import ROUTE_WORKERS, Board, RouteWorkerRow, short

RightsKey = tuple[tuple[str, ...], tuple[str, ...]]  # names and patterns
MOST_RIGHTS: Final = 256  # whose addresses are kept: clients of a group have the same, unless it names each user's


class Count(msgspec.Struct):
    """The message counts of one route worker, totalled over all workers."""

    came: int = 0
    went: int = 0
    refused: dict[str, int] = {}


class RouteWorkers(Plane):
    """All route workers."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._held: dict[str, tuple[Address, int]] = {}  # by address text: the core's link there
        self._texts: dict[int, list[str]] = {}  # by the address's id() in Python
        self._reach: dict[RightsKey, list[str]] = {}  # what rights allow of these texts
        self._counts: dict[str, Count] = {}
        self._workers: list[RouteWorkerSetup] = []

    def configure(self, change: msgspec.Struct) -> None:
        """Replace the route workers. Links to an address without one stay and lead nowhere."""
        if not isinstance(change, SetSourceRoutes):
            return
        setup = change.source_routes
        wanted = dict.fromkeys(text for worker in setup.workers for text in _texts(worker))
        for text in [text for text in self._held if text not in wanted]:
            address, link = self._held.pop(text)
            self._base.local.leave(link)
            self._base.served(address, -1, False)
            self._base.addresses.forget_idle(address)
        new = [text for text in wanted if text not in self._held]
        for text in new:
            address = self._base.addresses.resolve(text)
            self._held[text] = address, self._base.local.refuse(address)
        self._texts, self._reach = {}, {}
        for text, (address, _) in self._held.items():
            self._texts.setdefault(id(address), []).append(text)
        self._workers = setup.workers
        known = {worker.identity for worker in setup.workers}
        self._counts = {key: count for key, count in self._counts.items() if key in known}
        for one in self._base.links.entries():
            self.attached(one)
        for text in new:  # senders get credit only after their worker knows where they lead
            self._base.served(self._held[text][0], 1, False)

    def attached(self, link: Link) -> None:
        """Tell a link's worker which addresses the link's messages may reach, if policy limits them.

        The worker also learns the route worker's address of an auto link that brings messages.
        """
        if link.feeds:
            for text in self._texts.get(id(link.address), ()):
                self._base.post(link.worker, RouteReach(link.link, link.generation, [], text))
        if not link.scope or link.guarded is None:
            return
        addresses = self._reached(link.guarded.rights.targets)
        self._base.post(link.worker, RouteReach(link.link, link.generation, addresses))

    def _reached(self, rights: AddressRights) -> list[str]:
        """Return the addresses of route workers that rights allow."""
        found = self._reach.get(rights.key)
        if found is None:
            if len(self._reach) >= MOST_RIGHTS:
                self._reach.clear()
            found = self._reach[rights.key] = [text for text in self._held if rights.allow(text)]
        return found

    def heard(self, worker: int, message: msgspec.Struct) -> bool:
        """Add what a worker has counted since its last report."""
        if not isinstance(message, RouteCounts):
            return False
        for identity, (came, went, refused) in message.workers.items():
            count = self._counts.setdefault(identity, Count())
            count.came += came
            count.went += went
            for reason, number in zip(REASONS, refused, strict=False):
                if number:
                    count.refused[reason] = count.refused.get(reason, 0) + number
        return True

    def show(self, board: Board) -> None:
        """Write the busiest route workers onto the board."""
        board.route_workers = self.rows()

    def rows(self) -> list[RouteWorkerRow]:
        """Return the rows of the busiest route workers for the board."""
        found = [(self.count(one.identity), one) for one in self._workers]
        found.sort(key=lambda pair: -pair[0].came)
        return [
            RouteWorkerRow(short(one.address.text), one.kind, count.came, count.went, count.refused)
            for count, one in found[:ROUTE_WORKERS]
        ]

    def count(self, identity: str) -> Count:
        """Return the counts of a route worker by its management identity."""
        return self._counts.get(identity, Count())


def _texts(worker: RouteWorkerSetup) -> list[str]:
    return [worker.address.text, *([worker.inner.text] if worker.inner is not None else [])]

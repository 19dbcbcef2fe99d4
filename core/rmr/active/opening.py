"""When senders to a route table get their first credit: not before its endpoints are connected.

    closed --first table, or none--> connecting --all endpoints connected or failed--> open
                                               '---- after LONGEST_NS --------------------->

The router reads an RMR application's messages once there is credit, and cannot tell it that an endpoint was
not connected yet. After a core's death applications are there before the endpoints, and have gone on writing.
A table that begins empty is open from the start.
"""

from typing import Final

import msgspec

from core.links.link import Link
from core.links.plane import Plane
from core.rmr.active.dialling import Dialling
from core.rmr.active.route_tables import ActiveTable, RouteTables
from shm.contract.payloads import Endpoint

LONGEST_NS: Final = 3_000_000_000  # for a host that does not answer


class Openings(Plane):
    """Opens tables. Times are in nanoseconds."""

    def __init__(self, tables: RouteTables, dialling: Dialling) -> None:
        self._tables = tables
        self._dialling = dialling
        self._since: dict[ActiveTable, int] = {}
        tables.changed = self._changed

    def attached(self, link: Link) -> None:
        """Record an endpoint whose receiver is attached."""
        if not link.outgoing or link.address is None:
            return
        for active in self._tables:
            if active.closed and (name := active.endpoint_of(link.address)) is not None:
                self._answered(active, name)

    def heard(self, worker: int, message: msgspec.Struct) -> bool:
        """Record an endpoint that a worker could not connect to."""
        if not isinstance(message, Endpoint) or message.open:
            return False
        active = self._tables.find(message.table)
        if active is not None and active.closed:
            self._answered(active, message.address.removeprefix(active.prefix))
        return True

    def step(self, now: int) -> None:
        """Open tables whose endpoints have not answered in time."""
        self._since = {
            active: self._since.get(active, now) for active in self._tables if active.closed and active.begun
        }
        for active, since in self._since.items():
            if now - since >= LONGEST_NS:
                active.open()

    def _answered(self, active: ActiveTable, name: str) -> None:
        active.answered.add(name)
        self._try(active)

    def _changed(self, active: ActiveTable) -> None:
        self._dialling.refresh(active)
        self._try(active)

    def _try(self, active: ActiveTable) -> None:
        if not active.closed or not active.begun or self._tables.find(active.setup.name) is not active:
            return
        if all(name in active.answered for name in self._dialling.ordered(active)):
            active.open()

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
from core.rmr.active.route_tables import Plan, RouteTables
from shm.contract.payloads import Endpoint

LONGEST_NS: Final = 3_000_000_000  # for a host that does not answer


class Openings(Plane):
    """Opens tables. Times are in nanoseconds."""

    def __init__(self, tables: RouteTables, dialling: Dialling) -> None:
        self._tables = tables
        self._dialling = dialling
        self._since: dict[Plan, int] = {}
        tables.changed = self._changed

    def attached(self, link: Link) -> None:
        """Record an endpoint whose receiver is attached."""
        if not link.outgoing or link.address is None:
            return
        for plan in self._tables:
            if plan.closed and (name := plan.endpoint_of(link.address)) is not None:
                self._answered(plan, name)

    def heard(self, worker: int, message: msgspec.Struct) -> bool:
        """Record an endpoint that a worker could not connect to."""
        if not isinstance(message, Endpoint) or message.open:
            return False
        plan = self._tables.find(message.table)
        if plan is not None and plan.closed:
            self._answered(plan, message.address.removeprefix(plan.prefix))
        return True

    def step(self, now: int) -> None:
        """Open tables whose endpoints have not answered in time."""
        self._since = {plan: self._since.get(plan, now) for plan in self._tables if plan.closed and plan.begun}
        for plan, since in self._since.items():
            if now - since >= LONGEST_NS:
                plan.open()

    def _answered(self, plan: Plan, name: str) -> None:
        plan.answered.add(name)
        self._try(plan)

    def _changed(self, plan: Plan) -> None:
        self._dialling.refresh(plan)
        self._try(plan)

    def _try(self, plan: Plan) -> None:
        if plan.closed and plan.begun and all(name in plan.answered for name in self._dialling.told(plan)):
            plan.open()

"""When senders to a route table get their first credit: not before its endpoints are there.

    closed --it begins with a table, or cannot--> connecting --each endpoint is there, or cannot be--> open
                                                      '------ after LONGEST ----------------------->

What an RMR application sends is read as soon as there is credit, and nobody can tell it that an endpoint was
not connected yet. After an earlier core's death the applications are there before the endpoints are, and have
been writing all the time. A table that begins with nothing is open from the start.
"""

from typing import Final

from core.addresses.addresses import Address
from core.rmr.dialling import Dialling
from core.rmr.route_tables import Plan, Plane
from shm.contract.payloads import Endpoint

LONGEST_NS: Final = 3_000_000_000  # for a host that does not answer at all


class Openings:
    """Opens tables. Time is an argument, nanoseconds."""

    def __init__(self, plane: Plane, dialling: Dialling) -> None:
        self._plane = plane
        self._dialling = dialling
        self._since: dict[Plan, int] = {}
        plane.changed = self._changed

    def reached(self, address: Address) -> None:
        """Somebody receives from an address."""
        for plan in self._plane:
            if plan.closed and (name := plan.endpoint_of(address)) is not None:
                self._answered(plan, name)

    def failed(self, message: Endpoint) -> None:
        """A worker could not connect to an endpoint."""
        plan = self._plane.find(message.table)
        if plan is not None and plan.closed:
            self._answered(plan, message.address.removeprefix(plan.prefix))

    def step(self, now: int) -> None:
        """Wait no longer for those that do not answer."""
        self._since = {plan: self._since.get(plan, now) for plan in self._plane if plan.closed and plan.begun}
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

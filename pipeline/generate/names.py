"""Names in a generated log: containers, users and hosts of clients and routers, and source routes."""

from itertools import chain
from typing import Any, Final

import numpy as np

from pipeline.generate.clients import Clients, Ints
from pipeline.generate.messages import NOBODY, Hour
from pipeline.generate.rows import NOTHING, Rows
from pipeline.generate.scenario import Scenario
from shm.contract.flow_log.schema import ROUTE_STATES

USERS: Final = 5  # of all senders
PER_ROUTER: Final = 3  # senders of a router that are one client
ROUTED: Final = 9  # each of so many ordinary addresses is reached by a source route


class Names:
    """Who the senders and consumers of a scenario are. ``words`` are those of each column."""

    def __init__(self, scenario: Scenario, clients: Clients) -> None:
        routers = [scenario.router(at) for at in range(scenario.places)]
        senders = list(chain.from_iterable(flow.senders for flow in clients.flows))
        self._consumers, self._senders = len(clients.consumers), len(senders)
        sent_from = [f"{scenario.router(router)}-client{at % PER_ROUTER}" for at, router in enumerate(senders)]
        sent_by = [f"user{at % USERS}" for at in range(len(senders))]
        received_by = [one.container for one in clients.consumers]
        addresses = [f"10.0.{router}.{at % 250 + 1}" for at, router in enumerate(senders)]
        own = [f"10.255.0.{at + 1}" for at in range(scenario.places)]
        self._routed = np.array(
            [flow.mtype < 0 and not flow.hot and at % ROUTED == 0 for at, flow in enumerate(clients.flows)]
        ) & np.array([(flow.address or "").startswith("service") for flow in clients.flows])
        names = [flow.address or "" for flow in clients.flows]
        self.words: dict[str, list[str]] = {
            "peer_container": [*received_by, *routers],
            "egress_user": [f"consumer{at % USERS}" for at in range(len(received_by))],
            "egress_host": [*(f"10.1.{one.router}.{at % 250 + 1}" for at, one in enumerate(clients.consumers)), *own],
            "ingress_container": [*sent_from, *routers],
            "ingress_user": sent_by,
            "ingress_host": [*addresses, *own],
            "onward_route": names,
            "return_route": [f"F=>{name}/replies" for name in names],
            "route_state": list(ROUTE_STATES),
        }

    def columns(self, hour: Hour, rows: Rows) -> dict[str, Any]:
        """Return indices into the words for the records of an hour; null is a negative number."""
        d = rows.delivery
        flow, consumer, sender = hour.flow[d], hour.consumer[d], hour.sender[d]
        receiver = np.where(rows.last, consumer, self._consumers + rows.onward)
        first, before = rows.hop == 0, np.roll(rows.router, 1)  # a record follows that of the router before it
        sent = np.where(first, sender, self._senders + before)
        routed = self._routed[flow]
        return {
            "peer_container": _unless(rows.gone, receiver),
            "egress_user": _unless(rows.gone | ~rows.last | (consumer == NOBODY), consumer),
            "egress_host": _unless(rows.gone, receiver),
            "ingress_container": sent,
            "ingress_user": _unless(~first, sender),
            "ingress_host": sent,
            "onward_route": _unless(~routed, flow),
            "return_route": _unless(~routed, flow),
            "route_state": _unless(~routed, sender % 2),
        }


def _unless(null: Any, index: Ints) -> Ints:
    return np.where(null, NOTHING, index)

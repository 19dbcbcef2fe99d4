"""Links that wait for somebody's answer count among those that the policy allows a connection."""

from collections.abc import Callable

import pytest

from bench.contract import C_ATTACH, C_CONNECTION_OPENED, C_DETACH, C_LINK_REFUSED
from shm.contract.control import LinkRouteSetup, Setup
from shm.contract.payloads import (
    Attach,
    Attached,
    ConnectionOpened,
    Detach,
    Error,
    LinkRefused,
    OpenLink,
    Termini,
    Terminus,
)
from shm.contract.security import Admission
from tests.support.beds.crowd import Crowd
from tests.support.beds.edge_router import UPLINKS, EdgeRouter

BOUND, BROKER, FAR = 7, 3, 100  # connections, and the first link of the broker
MOST = 2
TOO_MANY = "amqp:resource-limit-exceeded"


def bound_client() -> tuple[int, ConnectionOpened]:
    """A client that may have two receivers and two senders."""
    limits = dict.fromkeys(("max_connections", "max_connections_per_user", "max_connections_per_host"), 100)
    flags = dict.fromkeys((name for name in Admission.__struct_fields__ if name.startswith("allow_")), False)
    names: dict[str, object] = {
        "vhost": "v",
        "group": "g",
        "user": "u",
        "host": "h",
        "sources": ["*"],
        "targets": ["*"],
    }
    links = {"max_senders": MOST, "max_receivers": MOST, "source_patterns": [], "target_patterns": []}
    admission = Admission(**limits, **flags, **names, **links)  # type: ignore[arg-type]  # from keyword to field
    return C_CONNECTION_OPENED, ConnectionOpened(BOUND, 1, "c", "h:9", number=BOUND, admission=admission)


def attach(link: int, outgoing: bool) -> tuple[int, Attach]:
    termini = Termini(Terminus(address="queue.a"), Terminus(address="queue.a"))
    return C_ATTACH, Attach(link, 1, BOUND, f"l{link}", outgoing, "queue.a", termini=termini)


class Routed(Crowd):
    """A router with a broker that is slow to answer."""

    def __init__(self) -> None:
        routes = [LinkRouteSetup(way, prefix="queue", container="broker") for way in (True, False)]
        super().__init__(Setup("core", 1, 1, "/none", "me", "0", 1, [-1], link_routes=routes))
        opened = ConnectionOpened(BROKER, 1, "broker", "h:4", role="route-container", number=BROKER)
        self.do([(C_CONNECTION_OPENED, opened), bound_client()])
        self.told.clear()


def edge_router() -> EdgeRouter:
    """An edge router whose interior router is slow to answer."""
    edge = EdgeRouter()
    edge.do([edge.open(UPLINKS)])
    edge.do(edge.answer())
    edge.do([bound_client()])
    edge.told.clear()
    return edge


def refused(bed: Crowd) -> list[int]:
    """The links that were refused for their number since somebody asked."""
    found = [one for one in bed.told if isinstance(one, Attached) and one.error and one.error.condition == TOO_MANY]
    bed.told.clear()
    return [one.link for one in found]


@pytest.mark.parametrize("outgoing", [True, False])
@pytest.mark.parametrize("make", [Routed, edge_router])
def test_links_that_wait_count(make: Callable[[], Crowd], outgoing: bool) -> None:
    """A client that does not wait for answers gets no more links; one that gives up makes room for another."""
    bed = make()
    bed.do(attach(link, outgoing) for link in range(4))
    assert refused(bed) == [2, 3]
    bed.do([(C_DETACH, Detach(0, 1)), attach(4, outgoing), attach(5, outgoing)])
    assert refused(bed) == [5]


@pytest.mark.parametrize("outgoing", [True, False])
def test_links_are_counted_once(outgoing: bool) -> None:
    """Whether the broker takes a link or refuses it."""
    bed = Routed()
    bed.do(attach(link, outgoing) for link in range(MOST))
    first, second = (one.request for one in bed.told if isinstance(one, OpenLink))
    termini = Termini(Terminus(address="queue.a"), Terminus(address="queue.a"))
    far = Attach(FAR, 1, BROKER, "l0@c", not outgoing, "queue.a", request=first, router_initiated=True, termini=termini)
    bed.do([(C_ATTACH, far), (C_LINK_REFUSED, LinkRefused(second, Error("amqp:not-found", "no")))])
    bed.do(attach(link, outgoing) for link in range(10, 13))
    assert refused(bed) == [11, 12]


@pytest.mark.parametrize("outgoing", [True, False])
def test_the_edge_routers_own_decision_counts_a_link_once(outgoing: bool) -> None:
    """Its uplink ends, so that it decides itself about those that wait."""
    edge = edge_router()
    edge.do(attach(link, outgoing) for link in range(MOST))
    edge.uplink.lookup.end()
    edge.do([attach(10, outgoing)])
    edge.now += 1
    edge.do([(C_DETACH, Detach(0, 1)), attach(11, outgoing), attach(12, outgoing)])
    assert refused(edge) == [10, 12]

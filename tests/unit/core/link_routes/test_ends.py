"""What a broker sees of links of link routes: their names, and how they end (core.link_routes.ends)."""

import pytest

from bench.contract import C_ATTACH, C_CONNECTION_OPENED, C_DETACH
from core.forwarder.recorded import LinkRoutePairs
from shm.contract.control import LinkRouteSetup, Setup
from shm.contract.payloads import NEVER, Attach, Attached, ConnectionOpened, Detach, Error, OpenLink, Termini, Terminus
from tests.support.beds.crowd import Crowd

BROKER, CLIENT, NEAR, FAR = 3, 7, 20, 100  # connections, and links at them
LASTING = [Terminus(2, "queue.a", expires=True, expiry=NEVER), Terminus(2, "queue.a", timeout=1)]
BRIEF = [Terminus(2, "queue.a", durability=2), Terminus(2, "queue.a", expires=True, expiry=1)]
LOST = "qd:routed-link-lost"


def routed(role: str = "normal", tenant: str = "") -> Crowd:
    """A router with a broker for the queues of all, and a client, or a router, with this role or tenant."""
    routes = [LinkRouteSetup(way, prefix=p, container="broker") for p in ("queue", "a.org") for way in (True, False)]
    bed = Crowd(Setup("core", 1, 1, "/none", "me", "0", 1, [-1], link_routes=routes))
    opened = ConnectionOpened(BROKER, 1, "broker", "h:4", role="route-container", number=BROKER)
    client = ConnectionOpened(CLIENT, 1, "c", "h:9", role=role, tenant=tenant, number=CLIENT)
    bed.do([(C_CONNECTION_OPENED, one) for one in (opened, client)])
    bed.told.clear()
    return bed


def attach(bed: Crowd, terminus: Terminus, outgoing: bool = False) -> OpenLink:
    """A client's link, for which the broker is asked."""
    ends = {"source": terminus, "target": BRIEF[0]} if outgoing else {"source": BRIEF[0], "target": terminus}
    bed.do([(C_ATTACH, Attach(NEAR, 1, CLIENT, "l", outgoing, "queue.a", termini=Termini(**ends)))])
    (asked,) = [one for one in bed.told if isinstance(one, OpenLink)]
    bed.told.clear()
    return asked


def answer(asked: OpenLink) -> Attach:
    """The broker's."""
    termini = asked.termini
    return Attach(FAR, 1, BROKER, asked.name, asked.outgoing, "queue.a", request=asked.request, termini=termini)


def paired(terminus: Terminus, outgoing: bool) -> Crowd:
    bed = routed()
    asked = attach(bed, terminus, outgoing)
    bed.do([(C_ATTACH, answer(asked))])
    assert [one.link for one in bed.told if isinstance(one, Attached)] == [NEAR]
    bed.told.clear()
    return bed


def test_a_name_tells_clients_apart_but_not_when_they_come_again() -> None:
    assert [attach(routed(), BRIEF[0]).name for _ in range(2)] == ["l@c"] * 2


def test_a_tenants_name_is_in_its_space_as_its_addresses_are() -> None:
    """No other tenant's client, whatever it calls itself, takes the name from this one."""
    asked = attach(routed(tenant="a.org"), BRIEF[0])
    assert asked.name == "a.org/l@c"
    assert asked.termini is not None
    assert asked.termini.target.address == "a.org/queue.a"


@pytest.mark.parametrize("outgoing", [True, False])
@pytest.mark.parametrize("lost_end", [NEAR, FAR])
@pytest.mark.parametrize("terminus", [*LASTING, *BRIEF])
def test_a_terminus_that_is_to_last_outlives_a_lost_connection(
    terminus: Terminus, lost_end: int, outgoing: bool
) -> None:
    """The broker would drop a durable subscription whose link is closed."""
    bed = paired(terminus, outgoing)
    bed.do([(C_DETACH, Detach(lost_end, 1, lost=True))])
    (told,) = [one for one in bed.told if isinstance(one, Detach)]
    assert (told.link, told.closed) == (NEAR + FAR - lost_end, terminus in BRIEF)
    assert told.error is not None
    assert told.error.condition == LOST


@pytest.mark.parametrize("terminus", [LASTING[0], BRIEF[0]])
def test_it_outlives_a_client_that_can_take_no_answer(terminus: Terminus) -> None:
    """The worker ends such a link; the broker learns why, and keeps what the client has not given up."""
    bed, why = paired(terminus, True), Error("amqp:frame-size-too-small", "raise it")
    bed.do([(C_DETACH, Detach(NEAR, 1, why, lost=True))])
    assert [one for one in bed.told if isinstance(one, Detach)] == [Detach(FAR, 1, why, terminus in BRIEF)]


@pytest.mark.parametrize("terminus", [LASTING[0], BRIEF[0]])
def test_it_outlives_a_core_without_room(terminus: Terminus, monkeypatch: pytest.MonkeyPatch) -> None:
    bed = routed()
    asked = attach(bed, terminus)
    monkeypatch.setattr(LinkRoutePairs, "add", lambda *_: False)
    bed.do([(C_ATTACH, answer(asked))])
    (told,) = [one for one in bed.told if isinstance(one, Detach)]
    assert (told.link, told.closed) == (FAR, terminus in BRIEF)


@pytest.mark.parametrize("terminus", [LASTING[0], BRIEF[0]])
@pytest.mark.parametrize("gone", [Detach(NEAR, 1, lost=True), Detach(NEAR, 1), Detach(NEAR, 1, closed=False)])
def test_it_outlives_a_connection_that_is_lost_before_the_broker_answers(terminus: Terminus, gone: Detach) -> None:
    bed = routed()
    asked = attach(bed, terminus)
    bed.do([(C_DETACH, gone), (C_ATTACH, answer(asked))])
    closed = terminus in BRIEF if gone.lost else gone.closed
    assert bed.told == [Detach(FAR, 1, closed=closed)]


@pytest.mark.parametrize("closed", [True, False])
def test_a_terminus_that_is_to_last_ends_when_its_client_closes_it(closed: bool) -> None:
    bed = paired(LASTING[0], True)
    bed.do([(C_DETACH, Detach(NEAR, 1, Error("x:y", "z"), closed))])
    assert [one for one in bed.told if isinstance(one, Detach)] == [Detach(FAR, 1, Error("x:y", "z"), closed)]


@pytest.mark.parametrize("outgoing", [True, False])
@pytest.mark.parametrize("at_broker", [True, False])
@pytest.mark.parametrize("terminus", [LASTING[0], BRIEF[0]])
def test_a_terminus_that_is_to_last_outlives_the_core(terminus: Terminus, at_broker: bool, outgoing: bool) -> None:
    """The worker tells of both ends, the client's and the broker's."""
    bed = routed()
    termini = Termini(terminus, BRIEF[0]) if outgoing != at_broker else Termini(BRIEF[0], terminus)
    on = BROKER if at_broker else CLIENT
    said = {"restored": True, "routed": True, "router_initiated": at_broker}
    bed.do([(C_ATTACH, Attach(NEAR, 1, on, "l", outgoing, "queue.a", termini=termini, **said))])
    (told,) = bed.told
    closed = terminus in BRIEF
    error = Error(LOST, "Connectivity to the peer container was lost")
    if at_broker:
        assert told == Detach(NEAR, 1, closed=closed)
    else:
        assert told == (Attached(NEAR, 1, None, error) if closed else Detach(NEAR, 1, error, closed=False))

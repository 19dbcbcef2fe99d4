"""Attaches that wait for a broker that answers late, or never (core.link_routes.requests)."""

import pytest

from bench.contract import C_CONNECTION_CLOSED, C_CONNECTION_OPENED, C_LINK_REFUSED
from core.link_routes import requests
from core.link_routes.requests import PORTION, ROUTERS_SHARE, SHARE, WEIGHT_OCTETS, WINDOW
from core.link_routes.routes import Route
from shm.contract.payloads import (
    Attach,
    Attached,
    ConnectionClosed,
    ConnectionOpened,
    Detach,
    Error,
    LinkRefused,
    OpenLink,
    Termini,
    Terminus,
)
from tests.support.beds.attaches import BROKER, FAR, FIRST, SECOND, Bed

TOO_MANY = "amqp:resource-limit-exceeded"


def names(asked: list[OpenLink]) -> list[str]:
    return [one.name for one in asked]


def test_whoever_attaches_and_detaches_again_and_again_adds_no_more_than_a_share() -> None:
    """The broker answers nothing; what it has not been asked for yet is forgotten."""
    bed = Bed()
    for _ in range(3 * SHARE):
        bed.detach(bed.attach(1))
    assert len(bed.asked()) == SHARE
    assert len(bed.ends._pending) == SHARE
    assert names_of(bed.attach(1, SECOND)) == names(bed.asked())  # another client has a share of its own
    bed.do([(C_CONNECTION_CLOSED, ConnectionClosed(FIRST, 1))])
    assert len(bed.ends._pending) == SHARE + 1


def names_of(links: list[int]) -> list[str]:
    return [f"l{link}@client" for link in links]


def test_all_come_through_in_their_order_when_the_broker_answers() -> None:
    bed = Bed()
    wanted = names_of(bed.attach(3 * SHARE))
    sent = bed.asked()
    assert len(sent) == SHARE
    got: list[str] = []
    while sent:
        one = sent.pop(0)
        got.append(one.name)
        if len(got) % 2:
            bed.answer(one)
        else:
            bed.do([(C_LINK_REFUSED, LinkRefused(one.request, Error("amqp:not-found", "no")))])
        sent += bed.asked()
    assert got == wanted
    assert not bed.ends._pending
    assert not bed.ends._requests._peers


def test_connections_take_turns() -> None:
    """While their requests wait for an answer, whoever has most of them gets no more than others."""
    bed = Bed()
    clients = [FIRST, SECOND, *range(10, 12)]
    for client in clients[2:]:
        bed.connect(client)
    for client in clients:
        bed.attach(SHARE, client)
    sent = bed.asked()
    assert len(sent) == WINDOW
    many = names_of(bed.attach(5))
    few = names_of(bed.attach(2, SECOND))
    assert bed.asked() == []
    got: list[str] = []
    for one in sent[:3]:
        bed.answer(one)  # of the first client, which gets as many others for them
        got += names(bed.asked())
    assert got == many[:3]
    for one in (sent[SHARE], sent[SHARE + 1], sent[3]):
        bed.answer(one)
    assert names(bed.asked()) == [*few, many[3]]


@pytest.mark.parametrize("outcome", ["answered", "refused"])
def test_a_first_end_that_goes_counts_until_the_broker_answers(outcome: str) -> None:
    bed = Bed()
    links = bed.attach(SHARE + 2)
    sent = bed.asked()
    bed.detach([*links[:2], links[-1]])
    assert bed.asked() == []
    assert len(bed.ends._pending) == SHARE + 1  # the last one was not sent
    if outcome == "answered":
        bed.answer(sent[0])
        assert [one for one in bed.told if isinstance(one, Detach)] == [Detach(FAR + sent[0].request % FAR, 1)]
    else:
        bed.do([(C_LINK_REFUSED, LinkRefused(sent[0].request))])
    assert names(bed.asked()) == names_of([links[-2]])
    bed.do([(C_LINK_REFUSED, LinkRefused(sent[1].request))])
    assert bed.refused() == []
    assert len(bed.ends._pending) == SHARE - 1


def test_a_router_has_a_larger_share_as_its_clients_have_theirs() -> None:
    bed = Bed()
    bed.connect(20, "edge", "edge1")
    bed.attach(ROUTERS_SHARE + 1, 20)
    assert len(bed.asked()) == ROUTERS_SHARE


def test_a_long_attach_counts_as_several_but_one_of_them_always_goes() -> None:
    bed = Bed()
    long = bytes(SHARE // 4 * WEIGHT_OCTETS)
    bed.attach(6, properties=long)
    assert len(bed.asked()) == 4
    bed.attach(2, SECOND, bytes(2 * SHARE * WEIGHT_OCTETS))
    assert len(bed.asked()) == 1


def test_beyond_the_bound_an_attach_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection leaves others as much as it has."""
    monkeypatch.setattr(requests, "MOST", 4 * SHARE)
    bed = Bed()
    links = bed.attach(2 * SHARE + 1)
    (refusal,) = [one.error for one in bed.told if isinstance(one, Attached)]
    assert refusal is not None
    assert refusal.condition == TOO_MANY
    said = "broker answers too slowly: attaches of 512 KiB wait for it, 512 KiB of this connection (each "
    assert refusal.description.startswith(said)
    assert bed.refused() == [(links[-1], TOO_MANY)]
    assert len(bed.attach(1, SECOND)) == len(bed.asked())
    bed.detach([links[-2]])
    bed.attach(1)
    assert bed.refused() == []


def test_all_brokers_together_have_a_bound_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client leaves others as much of it as the client has, however many brokers there are to attach at."""
    monkeypatch.setattr(requests, "MOST", 4 * SHARE)
    monkeypatch.setattr(requests, "MOST_IN_ALL", 5 * SHARE)
    bed = Bed()
    bed.connect(4, "route-container", "elsewhere")
    links = bed.attach(2 * SHARE) + bed.attach(SHARE // 2 + 1, address="slow.a")
    (refusal,) = [one.error for one in bed.told if isinstance(one, Attached)]
    assert refusal is not None
    said = "brokers answer too slowly: attaches of 640 KiB wait for all of them, 640 KiB of this connection (each "
    assert refusal.description.startswith(said)
    assert bed.refused() == [(links[-1], TOO_MANY)]
    assert len(bed.attach(SHARE, SECOND, address="good.a")) == len(bed.asked())
    bed.detach(links)
    bed.do((C_LINK_REFUSED, LinkRefused(request)) for request in list(bed.ends._pending))
    assert not bed.ends._requests._counts
    assert not bed.ends._requests._count


def test_brokers_that_answer_nothing_leave_room_for_the_links_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many clients attach at them: each such broker has half of what the others have left."""
    monkeypatch.setattr(requests, "MOST", 4 * SHARE)
    monkeypatch.setattr(requests, "MOST_IN_ALL", 8 * SHARE)
    bed = Bed()
    bed.connect(4, "route-container", "elsewhere")
    bed.connect(5, "route-container", "third")
    clients = list(range(30, 60))
    for client in clients:
        bed.connect(client)
    for address, name, most in (("queue.a", "broker", 4 * SHARE), ("slow.a", "elsewhere", 2 * SHARE)):
        for client in clients:
            bed.attach(SHARE, client, address=address)
        waits = {peer.name: peer.count for peer in bed.ends._requests._peers.values()}
        assert 0.9 * most < waits[name] <= most
    errors = [one.error for one in bed.told if isinstance(one, Attached) and one.error]
    count = bed.ends._requests._count
    said = f"attaches of {count} KiB wait for all of them, {waits['elsewhere']} KiB for elsewhere (each rounded up)"
    assert f"brokers answer too slowly: {said}; attach again later" in {error.description for error in errors}
    bed.told.clear()
    assert len(bed.attach(SHARE, SECOND, address="third.a")) == len(bed.asked())


def test_a_router_may_bring_the_links_of_three_brokers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clients come back together after a restart. Another client has its part nevertheless."""
    monkeypatch.setattr(requests, "MOST", 65_536 // 64)
    monkeypatch.setattr(requests, "MOST_IN_ALL", 2 * 65_536 // 64)
    bed = Bed()
    bed.connect(4, "route-container", "elsewhere")
    bed.connect(5, "route-container", "third")
    bed.connect(20, "edge", "edge1")
    for address in ("queue.a", "slow.a", "third.a"):
        bed.attach(30_000 // 64, 20, address=address)
    bed.attach(1)
    assert bed.refused() == []


def lost_at_once(number: int, waits: int) -> Bed:
    """So many clients, for each of whom so many attaches wait; the broker's connection has gone."""
    bed = Bed()
    clients = list(range(100, 100 + number))
    for client in clients:
        bed.connect(client)
    for client in clients:
        bed.attach(SHARE + waits, client)
    bed.told.clear()
    bed.count("broker goes", [(C_CONNECTION_CLOSED, ConnectionClosed(BROKER, 1))])
    return bed


def test_a_broker_that_goes_costs_one_turn_no_more_than_others() -> None:
    """However many clients wait for it, and however many attaches of each."""
    few = lost_at_once(4, 4).costs["broker goes"]
    assert lost_at_once(4, 400).costs["broker goes"] < 1.5 * few
    bed = lost_at_once(40, 4)
    assert bed.costs["broker goes"] < 1.5 * few
    links, refused = bed.links, 0
    while bed.ends.restless:
        turn = len(bed.refused())
        assert turn <= PORTION
        refused += turn
        bed.core.step(bed.now)
        bed._heard()
    refused += len(bed.refused())
    assert refused == links - WINDOW  # its worker tells of those that were sent


def test_what_waits_for_a_broker_that_goes_is_refused_in_portions() -> None:
    bed = Bed()
    links = bed.attach(SHARE + 3 * PORTION)
    sent = bed.asked()
    bed.detach([links[-1]])
    turns: list[int] = []
    bed.do([(C_CONNECTION_CLOSED, ConnectionClosed(BROKER, 1))])
    while bed.ends.restless:
        turns.append(len(bed.refused()))
        bed.core.step(bed.now)
        bed._heard()
    turns.append(len(bed.refused()))
    assert max(turns) == PORTION
    assert sum(turns) == 3 * PORTION - 1
    assert len(bed.ends._pending) == SHARE  # its worker tells of these
    bed.do((C_LINK_REFUSED, LinkRefused(one.request)) for one in sent)
    assert bed.refused() == [(link, "qd:routed-link-lost") for link in links[:SHARE]]
    assert not bed.ends._pending


def again(bed: Bed) -> None:
    opened = ConnectionOpened(BROKER, 2, "broker", "h:3", role="route-container", number=99)
    bed.do([(C_CONNECTION_CLOSED, ConnectionClosed(BROKER, 1)), (C_CONNECTION_OPENED, opened)])


def test_a_new_connection_of_the_broker_has_nothing_to_answer() -> None:
    """The worker has still to tell of the requests to the former one; what waited for it is refused."""
    bed = Bed()
    links = bed.attach(SHARE + 1)
    sent = bed.asked()
    again(bed)
    assert bed.refused() == [(links[-1], "qd:routed-link-lost")]
    assert len(bed.attach(1)) == len(bed.asked())
    bed.do((C_LINK_REFUSED, LinkRefused(one.request)) for one in sent)
    assert len(bed.ends._pending) == 1


def beyond(number: int) -> tuple[Bed, list[int]]:
    """A router that the slow and the good broker are beyond, by the broker's connection, and so many clients."""
    bed = Bed()
    far = bed.ends._find(0, BROKER)
    assert far is not None
    bed.ends._path_to = lambda router: (0, far)
    for prefix in ("slow", "good"):
        route = bed.ends.route(Attach(0, 1, FIRST, "l", False, f"{prefix}.a"), "")
        assert isinstance(route, Route)
        route.remotes.add(1)
    clients = list(range(30, 30 + number))
    for client in clients:
        bed.connect(client)
    bed.told.clear()
    return bed, clients


def test_a_slow_broker_beyond_a_router_holds_up_no_other_one() -> None:
    bed, clients = beyond(6)
    for client in clients[:5]:
        bed.attach(SHARE, client, address="slow.a")
    sent = bed.asked()
    assert len(sent) == WINDOW
    good = bed.attach(1, clients[5], address="good.a")
    assert names(bed.asked()) == names_of(good)
    last = bed.links
    bed.attach(1, clients[5], address="slow.a")
    bed.answer(sent[0])
    bed.answer(sent[SHARE])
    assert names(bed.asked()) == [f"l{4 * SHARE}@client", f"l{last}@client"]  # of those who have their turns
    bed.do((C_LINK_REFUSED, LinkRefused(request)) for request in list(bed.ends._pending))
    assert not bed.ends._pending
    assert not bed.ends._requests._peers


def test_all_that_waits_beyond_a_router_counts_for_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST", 4 * SHARE)
    bed, (client, *_) = beyond(1)
    bed.attach(SHARE, client, address="slow.a")
    links = bed.attach(SHARE + 1, client, address="good.a")
    assert bed.refused() == [(links[-1], TOO_MANY)]


def test_all_that_waits_beyond_a_lost_router_is_refused() -> None:
    bed, clients = beyond(2)
    slow = [link for client in clients for link in bed.attach(SHARE + 1, client, address="slow.a")]
    good = bed.attach(SHARE + 1, clients[0], address="good.a")
    sent = bed.asked()
    assert len(sent) == 3 * SHARE
    bed.do([(C_CONNECTION_CLOSED, ConnectionClosed(BROKER, 1))])
    while bed.ends.restless:
        bed.core.tick(bed.now)
    bed._heard()
    bed.do((C_LINK_REFUSED, LinkRefused(one.request)) for one in sent)
    assert sorted(link for link, _ in bed.refused()) == slow + good
    assert not bed.ends._pending
    assert not bed.ends._requests._peers


def test_no_client_of_an_edge_router_holds_up_another_ones_links_beyond_the_uplink() -> None:
    """The edge router does not know which broker is to answer."""
    bed, clients = beyond(6)
    uplink = bed.ends._find(0, BROKER)
    assert uplink is not None
    termini = Termini(Terminus(2, "any.a"), Terminus(2, "any.a"))
    for client in clients:
        opened = bed.ends._find(0, client)
        assert opened is not None
        for _ in range(SHARE + 1):
            bed.links += 1
            attach = Attach(bed.links, 1, client, f"l{bed.links}", False, "any.a", termini=termini)
            assert bed.ends.attach_beyond(0, attach, opened, (0, uplink), True) is None
        bed.core.step(bed.now)
        bed._heard()
    assert len(bed.asked()) == 6 * SHARE


def dead(bed: Bed) -> None:
    bed.ends.forget_worker(0)


@pytest.mark.parametrize("detaches", [True, False])
def test_what_a_dead_worker_was_asked_for_is_refused(detaches: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    bed = Bed()
    peer = bed.ends._requests
    links = bed.attach(SHARE + 1)
    for one in bed.ends._pending.values():  # as if they came from another worker, which is alive
        one.worker = 1
    bed.ends._waiting = {(1, *name[1:]): one for name, one in bed.ends._waiting.items()}
    if detaches:
        for link in links:
            assert bed.ends.cancel(1, Detach(link, 1))
        assert len(bed.ends._pending) == SHARE
    dead(bed)
    refused: list[int] = []
    monkeypatch.setattr(bed.ends, "_refuse", lambda pending, error: refused.append(pending.attach.link))
    while bed.ends.restless:
        bed.core.tick(bed.now)
    assert sorted(refused) == ([] if detaches else links)
    assert not bed.ends._pending
    assert not peer._peers
    assert not peer._lost


def test_requests_of_a_dead_worker_count_until_they_are_answered() -> None:
    bed = Bed()
    bed.attach(SHARE + 1)
    sent = bed.asked()
    for near in bed.ends._requests._peers.values():
        near.host = 1, BROKER  # as if the broker were at another worker, which is alive
    dead(bed)
    assert len(bed.ends._pending) == SHARE
    bed.do((C_LINK_REFUSED, LinkRefused(one.request)) for one in sent)
    assert bed.refused() == []
    assert not bed.ends._pending


@pytest.mark.parametrize("silent", [True, False])
def test_the_log_names_a_broker_that_answers_nothing_while_others_wait(
    silent: bool, caplog: pytest.LogCaptureFixture
) -> None:
    bed = Bed()
    bed.attach(SHARE)
    (first, *_) = bed.asked()
    bed.now += 11_000_000_000
    if not silent:
        bed.answer(first)
        bed.attach(1)
    bed.attach(1)
    assert ("broker answers no attaches" in caplog.text) == silent

"""Neighbours: who is one, over which connection, and what happens to messages that nobody should send."""

import logging

import pytest

from core.interior.advertisement import Advertisement
from core.interior.hello import Hello, greeting
from core.interior.linkstate import LinkStateRequest, LinkStateUpdate
from core.interior.message import ALL_MOBILE
from core.interior.mobile import MobileRequest, MobileUpdate
from tests.support.beds.neighbourhood import ME, Alone, body


def test_every_neighbour_is_greeted_on_its_own_link_every_interval() -> None:
    """At once when its link opens, then once per interval, with the names heard."""
    alone = Alone()
    alone.network.neighbour_up(1, 1, "dispatch")
    alone.network.neighbour_up(2, 1, "dispatch")
    assert [to for _, to in alone.port.take("HELLO")] == [1, 2]
    alone.tick()
    alone.port.take()
    alone.hello("B", "C")
    alone.port.take()
    for _ in range(5):
        alone.tick(1)
        sent = alone.port.take("HELLO")
        assert [to for _, to in sent] == [1, 2]
    alone.hello("B", "C")
    alone.tick(1)
    assert Hello.read(body(alone.port.take("HELLO")[0][0])).seen == {"B"}


def test_the_first_greeting_is_answered_at_once() -> None:
    """So that a link is up after one round trip and not after an interval."""
    alone = Alone()
    alone.network.neighbour_up(1, 1, "dispatch")
    alone.tick()
    alone.port.take()
    alone.hello("B", "X")
    ((hello, neighbour),) = alone.port.take("HELLO")
    assert (Hello.read(body(hello)).seen, neighbour) == ({"B"}, 1)
    alone.hello("B", "X")
    assert not alone.port.take("HELLO")


def test_a_neighbour_is_up_when_it_has_seen_us() -> None:
    """One that only we hear is none."""
    alone = Alone()
    alone.network.neighbour_up(1, 7, "dispatch")
    alone.hello("B", "C")
    assert not alone.port.links
    alone.hello("B", "A")
    assert alone.port.links == {alone.bit("B"): 1}
    assert alone.way("B") == ("B", 7)


def test_a_silent_neighbour_is_lost() -> None:
    """After helloMaxAge, and not before."""
    alone = Alone()
    alone.meet()
    alone.tick(3)
    assert alone.way("B") == ("B", 1)
    alone.tick(1)
    assert alone.way("B") == ("", 0)
    assert not alone.port.links
    alone.hello()
    assert alone.way("B") == ("B", 1)


def test_a_neighbour_that_hears_us_no_more_is_lost() -> None:
    """Its own greetings keep coming."""
    alone = Alone()
    alone.meet()
    for _ in range(5):
        alone.hello("B", "C")
        alone.tick(1)
    assert alone.way("B") == ("", 0)


def test_a_lost_connection_is_acted_on_at_once() -> None:
    """No waiting for the age; the other routers are told."""
    alone = Alone()
    alone.meet()
    alone.network.neighbour_lost(1)
    alone.tick()
    assert alone.way("B") == ("", 0)
    ((ra, _),) = alone.port.take("RA")
    assert Advertisement.read(body(ra)).ls_seq == 2


def test_the_cheapest_of_two_connections_is_used() -> None:
    """And the other one when it is gone."""
    alone = Alone()
    alone.meet(cost=5)
    alone.network.neighbour_up(2, 3, "routerd")
    alone.hello(neighbour=2)
    assert (alone.port.links[alone.bit("B")], alone.way("B")) == (2, ("B", 3))
    alone.network.neighbour_lost(2)
    alone.tick()
    assert (alone.port.links[alone.bit("B")], alone.way("B")) == (1, ("B", 5))


def test_a_changed_cost_is_told() -> None:
    """As a new link state."""
    alone = Alone()
    alone.meet()
    alone.network.neighbour_cost(1, 9)
    alone.network.neighbour_cost(8, 9)
    alone.tick()
    assert alone.way("B") == ("B", 9)
    assert alone.port.take("RA")
    alone.say(LinkStateRequest("B").encode("A"))
    ((lsu, _),) = alone.port.take("LSU")
    update = LinkStateUpdate.read(body(lsu))
    assert (update.ls_seq, update.peers) == (2, {"B": 9})


def told(alone: Alone) -> list[int]:
    """The costs of the greetings to each neighbour, 0 where there is none."""
    return [Hello.read(body(hello)).cost for hello, _ in alone.port.take("HELLO")]


def test_both_ends_use_the_larger_cost() -> None:
    """What the peer's OPEN says, until its greetings say something else, at any time."""
    alone = Alone()
    alone.network.neighbour_up(1, 3, "routerd", 7)
    alone.hello()
    assert alone.way("B") == ("B", 7)
    for cost, way in ((9, 9), (2, 3), (0, 3), (4, 4)):
        alone.say(greeting("B", ME, ["A"], cost))
        assert alone.way("B") == ("B", way)
    assert set(told(alone)) == {3}
    alone.network.neighbour_cost(1, 5)
    assert told(alone) == [5]
    alone.tick()
    assert alone.way("B") == ("B", 5)


@pytest.mark.parametrize("dialect", ["dispatch", "skupper"])
def test_routers_of_another_make_are_told_no_cost_and_tell_none(dialect: str) -> None:
    """They go by what is said in OPEN."""
    alone = Alone()
    alone.network.neighbour_up(1, 3, dialect, 7)
    alone.say(greeting("B", ME, ["A"], 9))
    assert alone.way("B") == ("B", 7)
    alone.network.neighbour_cost(1, 8)
    alone.tick(1)
    assert alone.way("B") == ("B", 8)
    assert set(told(alone)) == {0}


def test_a_cost_beyond_all_measure_is_none(caplog: pytest.LogCaptureFixture) -> None:
    """The greeting is ignored."""
    alone = Alone()
    alone.meet(cost=2)
    alone.say(greeting("B", ME, ["A"], 2**31))
    assert alone.way("B") == ("B", 2)
    assert "sent HELLO that is ignored: its cost is too large" in caplog.text


def test_our_own_name_at_a_neighbour_is_critical(caplog: pytest.LogCaptureFixture) -> None:
    """Said once per minute; a connection to ourselves is only ignored."""
    alone = Alone()
    alone.network.neighbour_up(1, 1, "routerd")
    alone.hello("A", "A")
    assert not caplog.records
    for _ in range(10):
        alone.hello("A", "A", instance=ME + 1)
        alone.ra("A", 1, instance=ME + 1)
    assert [record.levelno for record in caplog.records] == [logging.CRITICAL]
    assert "A is the id of two routers" in caplog.text
    assert not alone.port.routers


def test_two_neighbours_of_one_name_are_critical(caplog: pytest.LogCaptureFixture) -> None:
    """The younger one is believed, and the other one's messages harm nobody."""
    alone = Alone()
    alone.meet(cost=4)
    alone.network.neighbour_up(2, 1, "routerd")
    alone.hello(neighbour=2, instance=ME + 5)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    for _ in range(5):
        alone.hello(neighbour=1)
        alone.ra("B", 9, 9, neighbour=1)
        alone.hello(neighbour=2, instance=ME + 5)
        alone.tick(1)
    told = {record.levelno for record in caplog.records}
    assert told - {logging.INFO} == {logging.CRITICAL}
    assert alone.port.links == {alone.bit("B"): 2}


def test_a_connection_keeps_its_router(caplog: pytest.LogCaptureFixture) -> None:
    """Another name on it is a lie."""
    alone = Alone()
    alone.meet()
    alone.hello("C")
    assert "router B sent HELLO that is ignored: its id has changed" in caplog.text
    assert list(alone.port.routers.values()) == ["B"]


def test_complaints_name_the_neighbour_once_per_minute(caplog: pytest.LogCaptureFixture) -> None:
    """And count what they did not say."""
    alone = Alone()
    alone.meet()
    for _ in range(90):
        alone.hello()
        alone.say(b"rubbish")
        alone.tick(1)
    lines = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 2
    assert lines[0].startswith("router B sent a control message that is ignored: ")
    assert lines[1].endswith("(and 59 more since the last such line)")


def test_newer_protocol_versions_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    """With the reason."""
    alone = Alone()
    alone.meet()
    alone.say(Advertisement("B", ME, 5, 5, 2).encode())
    alone.say(MobileRequest("B", 0, 3).encode("A"))
    assert caplog.text.count("its protocol version is newer than this router's") == 2
    assert not alone.port.take()


def test_unknown_connections_and_opcodes() -> None:
    """Nothing comes of either."""
    alone = Alone()
    alone.meet()
    alone.hello("C", neighbour=9)
    alone.say(bytes(LinkStateRequest("B").encode("A")).replace(b"LSR", b"LSX"))
    assert not alone.port.take()
    alone.network.neighbour_lost(9)


def test_our_own_messages_that_come_back() -> None:
    """A flood may pass by its origin."""
    alone = Alone()
    alone.meet()
    alone.ra("A", 50, 50)
    alone.lsu("A", 50, {"Z": 1})
    alone.say(MobileUpdate("A", 50, {"M0a": 3}).encode(ALL_MOBILE))
    alone.say(LinkStateRequest("A").encode("A"))
    assert not alone.port.take()
    assert set(alone.port.routers.values()) == {"B"}


def test_nodes_for_management() -> None:
    """This router first, then those that are known."""
    alone = Alone()
    alone.meet(cost=2)
    alone.lsu("B", 2, {"A": 2, "C": 3})
    alone.tick(1)
    me, b, c = alone.network.nodes()
    assert (me["id"], me["index"], me["nextHop"], me["linkState"], me["lastTopoChange"]) == (
        "A",
        0,
        "(self)",
        ["B"],
        1000,
    )
    assert alone.network.last_change == 1000
    assert (b["id"], b["cost"], b["nextHop"], b["routerLink"], b["linkState"]) == ("B", 2, "B", 1, ["A", "C"])
    assert (b["instance"], b["protocolVersion"], b["address"]) == (ME, 1, "amqp:/_topo/0/B")
    assert (c["id"], c["cost"], c["nextHop"], c["routerLink"], c["instance"]) == ("C", 5, "B", None, None)

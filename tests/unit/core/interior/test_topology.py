"""Link states: asked for, told, aged, and turned into ways."""

import logging

import pytest

from core.interior.advertisement import Advertisement
from core.interior.linkstate import LinkStateRequest, LinkStateUpdate
from core.interior.message import ALL_MOBILE
from core.interior.mobile import MobileUpdate
from core.interior.nodes import MOST_ROUTERS
from shm.contract.routing import NetworkSetup
from tests.support.beds.neighbourhood import ME, Alone, body


def test_a_new_neighbour_is_asked_for_its_links() -> None:
    """And everybody is told of the change."""
    alone = Alone()
    alone.network.neighbour_up(1, 1, "dispatch")
    alone.port.take()
    alone.hello()
    sent = [(control.opcode, control.to) for control, _ in alone.port.take()]
    assert ("LSR", "amqp:/_topo/0/B/qdrouter") in sent
    assert ("RA", "amqp:/_topo/0/all/qdrouter") in sent


def test_a_request_that_is_not_answered_is_repeated() -> None:
    """Not at every tick, and no more once it is."""
    alone = Alone()
    alone.network.neighbour_up(1, 1, "dispatch")
    alone.hello()
    alone.port.take()
    for _ in range(6):
        alone.hello()
        alone.tick(1)
    assert len(alone.port.take("LSR")) == 3
    alone.lsu("B", 1, {"A": 1})
    for _ in range(6):
        alone.hello()
        alone.tick(1)
    assert not alone.port.take("LSR")


def test_routers_behind_a_neighbour() -> None:
    """Known from its link state, asked for theirs, reached through it."""
    alone = Alone()
    alone.meet(cost=2)
    alone.lsu("B", 2, {"A": 2, "C": 3})
    assert alone.way("C") == ("B", 5)
    assert [control.to for control, _ in alone.port.take("LSR")] == ["amqp:/_topo/0/C/qdrouter"]
    alone.lsu("C", 1, {"B": 3, "D": 1})
    assert alone.way("D") == ("B", 6)
    assert alone.port.radius == 3


def test_each_change_of_the_ways_is_one_line_that_says_why(caplog: pytest.LogCaptureFixture) -> None:
    """Another next hop, another cost, no way at all."""
    caplog.set_level(logging.INFO, "ROUTER_LS")
    alone = Alone()
    alone.meet("B")
    alone.meet("C", neighbour=2, cost=5)
    alone.lsu("B", 2, {"A": 1, "C": 1})
    alone.lsu("C", 2, {"A": 5, "B": 1})
    alone.lsu("B", 3, {"A": 1})
    alone.lsu("C", 3, {"A": 5})
    alone.network.neighbour_cost(2, 7)
    alone.tick()
    alone.network.neighbour_lost(2)
    alone.tick()
    said = [record.getMessage() for record in caplog.records if "paths changed" in record.message]
    assert said == [
        "paths changed: B by B at cost 1 (neighbours are now B)",
        "paths changed: C by C at cost 5 (neighbours are now B, C at cost 5)",
        "paths changed: C by B at cost 2 (router B has other links)",
        "paths changed: C by C at cost 5 (router B has other links)",
        "paths changed: C by C at cost 7 (neighbours are now B, C at cost 7)",
        "paths changed: C not at all (neighbours are now B)",
    ]


def test_valid_origins_are_pushed() -> None:
    """In a line C - A - B messages from C to B are ours to send on."""
    alone = Alone()
    alone.meet("B")
    alone.meet("C", neighbour=2)
    alone.tick(1)
    c, b = alone.bit("C"), alone.bit("B")
    assert alone.port.paths[b] == (b, 1, frozenset({c}))
    assert alone.port.paths[c] == (c, 1, frozenset({b}))


def test_newer_links_are_passed_on_to_neighbours_of_our_kind() -> None:
    """Once, not back to where they came from, and not to others, who ask for them."""
    alone = Alone()
    alone.meet("B")
    alone.meet("C", neighbour=2)
    alone.meet("Q", neighbour=3, dialect="dispatch")
    for _ in range(2):
        alone.lsu("X", 4, {"B": 1})
    sent = alone.port.take("LSU")
    assert [(lsu.to, neighbour) for lsu, neighbour in sent] == [("amqp:/_local/qdrouter", 2)]
    assert LinkStateUpdate.read(body(sent[0][0])) == LinkStateUpdate("X", ME, 4, {"B": 1})
    alone.network.neighbour_cost(1, 5)
    alone.tick()
    sent = alone.port.take("LSU")
    assert [neighbour for _, neighbour in sent] == [1, 2]
    assert LinkStateUpdate.read(body(sent[0][0])).peers == {"B": 5, "C": 1, "Q": 1}


def test_a_new_neighbour_of_our_kind_is_told_all_links() -> None:
    """Theirs is what a part of the network that was cut off needs."""
    alone = Alone()
    alone.meet("B")
    alone.lsu("X", 4, {"B": 1})
    alone.port.take()
    alone.network.neighbour_up(2, 1, "routerd")
    alone.hello("C", neighbour=2)
    sent = alone.port.take("LSU")
    told = [LinkStateUpdate.read(body(lsu)).router for lsu, neighbour in sent if neighbour == 2]
    assert told[:3] == ["B", "X", "A"]
    alone.hello("C", neighbour=2)
    assert not alone.port.take("LSU")


def test_only_a_greater_sequence_counts() -> None:
    """An old copy changes nothing."""
    alone = Alone()
    alone.meet()
    alone.lsu("B", 5, {"A": 1, "C": 1})
    alone.lsu("B", 5, {"A": 1})
    alone.lsu("B", 4, {"A": 1})
    assert alone.way("C") == ("B", 2)


def test_a_greater_number_in_an_advertisement_is_asked_for_once() -> None:
    """However many copies of it arrive."""
    alone = Alone()
    alone.meet()
    for _ in range(4):
        alone.ra("B", 2)
    assert len(alone.port.take("LSR")) == 1
    alone.lsu("B", 2, {"A": 1})
    alone.ra("B", 2)
    assert not alone.port.take("LSR")


def test_silent_routers_lose_their_links_and_are_forgotten() -> None:
    """After remoteLsMaxAge without an advertisement."""
    alone = Alone()
    alone.meet()
    alone.lsu("B", 2, {"A": 1, "C": 1})
    alone.lsu("C", 1, {"B": 1, "D": 1})
    for _ in range(59):
        alone.hello()
        alone.ra("B", 2)
        alone.tick(1)
    assert alone.way("D") == ("B", 3)
    for _ in range(10):
        alone.hello()
        alone.ra("B", 2)
        alone.tick(1)
    assert set(alone.port.routers.values()) == {"B", "C"}


@pytest.mark.parametrize("holdoff", [0, 5])
def test_addresses_of_a_router_without_a_way_are_kept_for_a_while(holdoff: int) -> None:
    """`unreachableHoldoffSeconds`: it may be back before they would have to be told again."""
    alone = Alone(NetworkSetup(unreachable_holdoff_seconds=holdoff))
    alone.meet()
    alone.say(MobileUpdate("B", 1, {"M0q": 3}).encode(ALL_MOBILE))
    alone.lsu("B", 2, {"A": 1, "C": 1})
    alone.lsu("C", 1, {"B": 1})
    alone.ra("C", 1, 1)
    alone.say(MobileUpdate("C", 1, {"M0q": 3}).encode(ALL_MOBILE))
    alone.lsu("B", 3, {"A": 1})
    for _ in range(holdoff):
        assert alone.keys("C") == {"M0q": 3}
        alone.hello()
        alone.tick(1)
    alone.hello()
    alone.tick(2)
    assert (alone.keys("B"), alone.keys("C")) == ({"M0q": 3}, {})


def test_a_restarted_router_begins_anew() -> None:
    """Its addresses are gone, its links are asked for, its low sequence numbers count."""
    alone = Alone()
    alone.meet()
    alone.lsu("B", 9, {"A": 1, "C": 1})
    alone.say(MobileUpdate("B", 1, {"M0q": 3}).encode(ALL_MOBILE))
    assert alone.keys("B") == {"M0q": 3}
    alone.port.take()
    alone.hello(instance=ME + 60)
    assert alone.keys("B") == {}
    assert alone.port.take("LSR")
    alone.lsu("B", 1, {"A": 1}, instance=ME + 60)
    alone.say(MobileUpdate("B", 1, {"M0r": 3}).encode(ALL_MOBILE))
    assert alone.keys("B") == {"M0r": 3}


def test_two_routers_far_away_that_share_a_name(caplog: pytest.LogCaptureFixture) -> None:
    """Both advertise: an earlier life that comes back is none."""
    alone = Alone()
    alone.meet()
    alone.lsu("B", 2, {"A": 1, "X": 1})
    for instance in (5, 6, 5, 6, 5):
        alone.ra("X", 1, instance=instance)
        for _ in range(5):
            alone.hello()
            alone.tick(1)
    loud = [record.message for record in caplog.records if record.levelno > logging.INFO]
    assert loud == ["X is the id of two routers: give one of them another id"]


def test_messages_of_an_earlier_life_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """For a moment they are still on their way: nobody's twin, and no second restart."""
    alone = Alone()
    alone.meet()
    alone.ra("X", 7, instance=5)
    alone.ra("X", 1, instance=6)
    alone.ra("X", 7, instance=5)
    alone.lsu("X", 7, {"B": 1}, instance=5)
    x = next(node for node in alone.network.nodes() if node["id"] == "X")
    assert (x["instance"], x["linkState"]) == (6, [])
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_requests_are_answered_to_the_asker() -> None:
    """By the way that the request came, if there is no other yet."""
    alone = Alone()
    alone.meet()
    alone.say(LinkStateRequest("Z").encode("A"))
    ((lsu, neighbour),) = alone.port.take("LSU")
    assert (lsu.to, neighbour) == ("amqp:/_topo/0/Z/qdrouter", 1)
    alone.say(LinkStateRequest("B").encode("A"))
    ((lsu, neighbour),) = alone.port.take("LSU")
    assert (lsu.to, neighbour) == ("amqp:/_topo/0/B/qdrouter", None)
    assert LinkStateUpdate.read(body(lsu)) == LinkStateUpdate("A", ME, 1, {"B": 1})


def test_who_asks_for_links_is_told_the_number_of_our_addresses() -> None:
    """It has none of them either, and need not wait for the next advertisement."""
    alone = Alone()
    alone.meet()
    alone.network.local_address("M0a", 3)
    alone.tick(1)
    alone.port.take()
    alone.say(LinkStateRequest("B").encode("A"))
    ((ra, _),) = alone.port.take("RA")
    assert ra.to == "amqp:/_topo/0/B/qdrouter"
    assert Advertisement.read(body(ra)) == Advertisement("A", ME, 1, 1)


def test_advertisements_come_faster_in_flux() -> None:
    """Every raIntervalFlux for twice that, then every raInterval; news is told once more a second later."""
    alone = Alone()
    alone.meet()
    began = alone.now
    times = []
    for _ in range(80):
        alone.hello()
        alone.ra("B", 1)
        alone.tick(1)
        times += [alone.now - began] * len(alone.port.take("RA"))
    assert times == [1, 5, 35, 65]


def test_more_routers_than_bits(caplog: pytest.LogCaptureFixture) -> None:
    """Said once; those that are known go on."""
    alone = Alone()
    alone.meet()
    for number in range(140):
        alone.ra(f"R{number}", 1)
    assert len(alone.port.routers) == 127
    assert caplog.text.count("more than 127 other interior routers") == 1


def test_invented_peers_give_way_to_real_routers() -> None:
    """A neighbour that lists 127 names keeps nobody out."""
    alone = Alone()
    alone.meet()
    alone.lsu("B", 2, {f"fake-{number}": 1 for number in range(127)})
    assert len(alone.port.routers) == 127
    alone.network.neighbour_up(2, 1, "routerd")
    alone.hello("C", neighbour=2)
    assert alone.way("C") == ("C", 1)
    alone.lsu("B", 3, {"A": 1})
    for _ in range(5):
        alone.hello()
        alone.hello("C", neighbour=2)
        alone.tick(1)
    assert set(alone.port.routers.values()) == {"B", "C"}


def crowded() -> tuple[Alone, dict[str, int]]:
    """A router that knows as many as it may, and has no room for X; and those behind its neighbour."""
    alone = Alone()
    alone.meet()
    others = {f"R{number}": 1 for number in range(MOST_ROUTERS - 1)}
    alone.lsu("B", 2, {"A": 1, **others})
    alone.lsu("R0", 1, {"B": 1, "X": 1})
    assert "X" not in alone.port.routers.values()
    return alone, others


@pytest.mark.parametrize("leaves", [True, False])
def test_a_router_that_finds_room_later_is_reached_at_once(leaves: bool) -> None:
    """Its links were known before: a router leaves, or gives way because nobody has heard it."""
    alone, others = crowded()
    if leaves:
        del others["R1"]
        alone.lsu("B", 3, {"A": 1, **others})
        for _ in range(6):
            alone.tick(1)
            alone.hello()
    alone.ra("X", 1)
    assert alone.way("X") == ("B", 3)


def test_a_router_that_finds_room_by_hearsay_is_reached_at_once() -> None:
    """A link state tells of it again, with the links as they were."""
    alone, others = crowded()
    del others["R1"]
    alone.lsu("B", 3, {"A": 1, **others})
    for _ in range(6):
        alone.tick(1)
        alone.hello()
    alone.lsu("R0", 2, {"B": 1, "X": 1})
    assert alone.way("X") == ("B", 3)

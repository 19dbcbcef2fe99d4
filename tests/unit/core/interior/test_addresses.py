"""Addresses of this router told to others, and theirs mapped."""

import pytest

from core.interior.advertisement import Advertisement
from core.interior.message import ALL_MOBILE
from core.interior.mobile import MobileRequest, MobileUpdate
from core.interior.sync import BURST, RATE
from tests.support.beds.neighbourhood import ME, Alone, body


def test_changes_are_told_at_once_and_before_the_advertisement() -> None:
    """All together, and nothing that came and went since."""
    alone = Alone()
    alone.meet()
    alone.network.local_address("M0a", 3)
    alone.tick()
    mau, ra = (control for control, _ in alone.port.take())
    assert (mau.opcode, ra.opcode) == ("MAU", "RA")
    assert MobileUpdate.read(body(mau)) == MobileUpdate("A", 1, {"M0a": 3}, instance=ME)
    assert Advertisement.read(body(ra)).mobile_seq == 1
    alone.network.local_address("M0b", 1)
    alone.network.local_address("M0c", 1)
    alone.network.local_address("M0c", None)
    alone.network.local_address("M0a", None)
    alone.tick()
    ((mau, _),) = alone.port.take("MAU")
    assert MobileUpdate.read(body(mau)) == MobileUpdate("A", 2, {"M0b": 1}, ("M0a",), instance=ME)
    alone.network.local_address("M0b", 1)
    alone.tick()
    assert not alone.port.take("MAU")


def test_a_storm_of_changes_is_few_updates_and_none_waits_long() -> None:
    """10,000 receivers attach in two seconds; the router ticks after each, and when it says that it has to."""
    alone, told, seen = Alone(), 0, 0
    alone.meet()
    alone.port.take()
    for number in range(10_000):
        alone.network.local_address(f"M0.{number}", 3)
        alone.tick(2 / 10_000)
        for update, _ in alone.port.take("MAU"):
            told, seen = told + 1, seen + len(MobileUpdate.read(body(update)).present)
    assert told <= BURST + 2 * RATE + 1
    assert seen > 10_000 - 10_000 / 2 / RATE - 2
    wait = alone.network.due(alone.now)
    assert wait is not None
    assert 0 < wait <= 1 / RATE
    alone.tick(wait + 1e-9)
    ((update, _),) = alone.port.take("MAU")
    assert seen + len(MobileUpdate.read(body(update)).present) == 10_000
    assert alone.network.due(alone.now) is None


def test_all_addresses_are_told_to_who_is_behind() -> None:
    """Nothing to who has them, or asks in what is not spoken on its side of the border."""
    alone = Alone()
    alone.meet()
    alone.network.local_address("M0a", 3)
    alone.network.local_address("Cb", 4)
    alone.tick()
    alone.port.take()
    alone.say(MobileRequest("B", 1).encode("A"))
    assert not alone.port.take("MAU")
    alone.say(MobileRequest("B", 0).encode("A"))
    ((mau, neighbour),) = alone.port.take("MAU")
    assert (mau.to, neighbour) == ("amqp:/_topo/0/B/qdrouter.ma", None)
    assert MobileUpdate.read(body(mau)) == MobileUpdate("A", 1, {"M0a": 3, "Cb": 4}, absolute=True, instance=ME)
    alone.say(MobileRequest("B", 0, 2).encode("A"))
    assert not alone.port.take("MAU")


def test_a_skupper_router_is_told_all_addresses_in_its_dialect() -> None:
    """Those that it has words for."""
    alone = Alone()
    alone.meet("S", dialect="skupper")
    alone.network.local_address("M0a", 3)
    alone.network.local_address("Cb", 4)
    alone.tick(1)
    alone.port.take()
    alone.say(MobileRequest("S", 0, 2).encode("A"))
    ((mau, _),) = alone.port.take("MAU")
    assert MobileUpdate.read(body(mau)) == MobileUpdate("A", 1, {"M0a": 3}, absolute=True, version=2, instance=ME)


@pytest.mark.parametrize("dialect", ["skupper", "dispatch"])
def test_another_make_hears_of_this_life_before_it_hears_of_addresses(dialect: str) -> None:
    """One that knew an earlier life of this router throws its addresses away when it hears of the new one."""
    alone = Alone()
    alone.network.local_address("M0a", 3)
    alone.network.neighbour_up(1, 1, dialect)
    alone.hello("S")
    ((ra, _),) = alone.port.take("RA")
    assert Advertisement.read(body(ra)).mobile_seq == 0
    alone.tick()
    assert not alone.port.take("MAU")
    alone.tick(1)
    said = [control for control, _ in alone.port.take() if control.opcode in ("MAU", "RA")]
    assert [control.opcode for control in said] == ["MAU", "RA"]
    assert Advertisement.read(body(said[1])).mobile_seq == 1


def test_addresses_of_others_are_mapped() -> None:
    """Changes one after the other, copies without effect, everything at once."""
    alone = Alone()
    alone.meet()
    alone.say(MobileUpdate("B", 1, {"M0a": 3, "M0b": 2}).encode(ALL_MOBILE))
    alone.say(MobileUpdate("B", 2, {"M0c": 1}, ("M0a", "M0x")).encode(ALL_MOBILE))
    alone.say(MobileUpdate("B", 2, {"M0d": 1}).encode(ALL_MOBILE))
    assert alone.keys("B") == {"M0b": 2, "M0c": 1}
    alone.say(MobileUpdate("B", 7, {"M0c": 1, "M0e": 3}, absolute=True).encode("amqp:/_topo/0/A/qdrouter.ma"))
    assert alone.keys("B") == {"M0c": 1, "M0e": 3}
    assert not alone.port.take("MAR")


def test_a_gap_is_asked_for() -> None:
    """The change behind it is not applied, since it may build on what is missing."""
    alone = Alone()
    alone.meet()
    alone.say(MobileUpdate("B", 3, {"M0a": 3}).encode(ALL_MOBILE))
    assert alone.keys("B") == {}
    ((mar, _),) = alone.port.take("MAR")
    assert (mar.to, MobileRequest.read(body(mar))) == ("amqp:/_topo/0/B/qdrouter.ma", MobileRequest("A", 0))


def test_a_number_in_an_advertisement_is_asked_for_when_the_router_can_be_reached() -> None:
    """And again after a while, until it is answered."""
    alone = Alone()
    alone.meet()
    alone.ra("C", 1, 4)
    assert not alone.port.take("MAR")
    alone.lsu("B", 2, {"A": 1, "C": 1})
    assert len(alone.port.take("MAR")) == 1
    alone.ra("C", 1, 4)
    assert not alone.port.take("MAR")
    alone.tick(2)
    assert len(alone.port.take("MAR")) == 1
    alone.say(MobileUpdate("C", 4, {"M0a": 3}, absolute=True).encode("amqp:/_topo/0/A/qdrouter.ma"))
    alone.tick(3)
    assert not alone.port.take("MAR")


def test_a_number_that_counts_backwards() -> None:
    """The router has begun anew without another instance: all of it is asked for."""
    alone = Alone()
    alone.meet()
    alone.say(MobileUpdate("B", 7, {"M0a": 3}, absolute=True).encode("amqp:/_topo/0/A/qdrouter.ma"))
    alone.ra("B", 1, 2)
    ((mar, _),) = alone.port.take("MAR")
    assert MobileRequest.read(body(mar)).have_seq == 0
    alone.ra("B", 1, 0)
    assert alone.keys("B") == {}


def test_addresses_of_an_earlier_run_that_come_late() -> None:
    """They take no number of the new run, whose own update of that number would be missed for good."""
    alone = Alone()
    alone.meet()
    alone.say(MobileUpdate("B", 1, {"M0a": 3}, instance=ME).encode(ALL_MOBILE))
    alone.hello(instance=ME + 60)
    alone.lsu("B", 1, {"A": 1}, instance=ME + 60)
    alone.say(MobileUpdate("B", 1, {"M0c": 3}, instance=ME + 60).encode(ALL_MOBILE))
    alone.say(MobileUpdate("B", 2, {"M0b": 3}, instance=ME).encode(ALL_MOBILE))
    assert alone.keys("B") == {"M0c": 3}
    alone.say(MobileUpdate("B", 2, {"M0d": 3}, instance=ME + 60).encode(ALL_MOBILE))
    assert alone.keys("B") == {"M0c": 3, "M0d": 3}


def test_addresses_outlast_a_short_loss_and_no_longer_one() -> None:
    """The hold-off is a second."""
    alone = Alone()
    alone.meet()
    alone.lsu("B", 2, {"A": 1, "C": 1})
    alone.say(MobileUpdate("C", 1, {"M0a": 3}).encode(ALL_MOBILE))
    alone.lsu("B", 3, {"A": 1})
    assert alone.keys("C") == {"M0a": 3}
    alone.lsu("B", 4, {"A": 1, "C": 1})
    alone.hello()
    alone.tick(2)
    assert alone.keys("C") == {"M0a": 3}
    alone.lsu("B", 5, {"A": 1})
    alone.hello()
    alone.tick(2)
    assert not alone.port.addresses


def test_addresses_that_a_new_neighbour_must_not_hear_yet_are_due_when_it_may() -> None:
    """The core wakes at the end of the introduction, and not at the next second."""
    alone = Alone()
    alone.meet("Q", dialect="dispatch")
    alone.network.local_address("M0a", 3)
    alone.tick()
    assert not alone.port.take("MAU")
    wait = alone.network.due(alone.now)
    assert wait is not None
    assert 0 < wait <= 1
    alone.tick(wait)
    assert alone.port.take("MAU")


@pytest.mark.parametrize(
    ("most", "most_of_all"), [((20, 1000), (99, 999)), ((99, 100), (99, 999)), ((20, 999), (20, 999))]
)
def test_of_a_router_so_many_addresses_are_kept(
    most: tuple[int, int],
    most_of_all: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says that there are more. Once there is room the router is asked for all of them, and no earlier."""
    monkeypatch.setattr("core.interior.sync.MOST", most)
    monkeypatch.setattr("core.interior.sync.MOST_OF_ALL", most_of_all)
    alone, keys = Alone(), [f"M0.{number}" for number in range(10, 40)]
    alone.meet()
    alone.say(MobileUpdate("B", 1, dict.fromkeys(keys[:10], 3)).encode(ALL_MOBILE))
    assert "announces more addresses" not in caplog.text
    for seq, key in enumerate(keys[10:], 2):
        alone.say(MobileUpdate("B", seq, {key: 3}).encode(ALL_MOBILE))
    assert list(alone.keys("B")) == keys[:20]
    assert "router B announces more addresses" in caplog.text
    alone.tick(2.5)
    assert not alone.port.take("MAR")
    alone.hello()
    alone.say(MobileUpdate("B", 22, {}, tuple(keys[:15])).encode(ALL_MOBILE))
    ((request, _),) = alone.port.take("MAR")
    assert MobileRequest.read(body(request)).have_seq == 0
    alone.say(MobileUpdate("B", 22, dict.fromkeys(keys[15:], 3), absolute=True).encode(ALL_MOBILE))
    assert list(alone.keys("B")) == keys[15:]
    alone.hello()
    alone.tick(2.5)
    assert not alone.port.take("MAR")
    alone.ra("B", 1, 0)
    alone.say(MobileUpdate("B", 1, dict.fromkeys(keys[:20], 1)).encode(ALL_MOBILE))
    assert list(alone.keys("B")) == keys[:20]

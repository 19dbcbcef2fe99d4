"""More addresses of one router than a message holds: they are told in portions, each a message of its own."""

import msgspec
import pytest

from core.interior.message import ALL_MOBILE
from core.interior.mobile import MobileRequest, MobileUpdate
from core.interior.sync import BURST, GAP, RATE, _all_of
from tests.support.beds.neighbourhood import Alone, body

MANY = {f"M0{number:06d}{'.orders' * 30}": 3 for number in range(6_000)}
LONG = {f"M0{number:04d}{'x' * 16_000}": 1 for number in range(150)}


def announce(alone: Alone, keys: dict[str, int]) -> list[MobileUpdate]:
    """Receivers of all of them come; what is told of them."""
    for key, treatment in keys.items():
        alone.network.local_address(key, treatment)
    return until_told(alone, "B")


def until_told(alone: Alone, *neighbours: str) -> list[MobileUpdate]:
    """The updates until nothing is due."""
    told = alone.port.take("MAU")
    while (wait := alone.network.due(alone.now)) is not None:
        alone.now += wait + 1e-9
        for number, neighbour in enumerate(neighbours, 1):  # it is not silent
            alone.hello(neighbour, neighbour=number)
        told += alone.port.take("MAU")
    return [MobileUpdate.read(body(control)) for control, _ in told]


def after(updates: list[MobileUpdate], known: dict[str, int], number: int) -> tuple[dict[str, int], int]:
    """What a router knows that hears updates, and takes none that does not follow; with the newest number."""
    for update in updates:
        if update.absolute:
            known = dict(update.present)
        elif update.mobile_seq == number + 1:
            known = {key: value for key, value in known.items() if key not in update.gone} | dict(update.present)
        else:
            continue
        number = update.mobile_seq
    return known, number


@pytest.mark.parametrize("keys", [MANY, LONG], ids=["many", "long"])
def test_changes_go_in_portions(keys: dict[str, int]) -> None:
    """Each is the next one; they keep to the rate of updates."""
    alone = Alone()
    alone.meet()
    began = alone.now
    told = announce(alone, keys)
    assert after(told, {}, 0) == (keys, len(told))
    assert alone.now - began <= max(0, len(told) - BURST) / RATE + 0.01
    gone = dict.fromkeys(keys)
    for key in gone:
        alone.network.local_address(key, None)
    assert after(until_told(alone, "B"), keys, len(told))[0] == {}


@pytest.mark.parametrize("keys", [MANY, LONG], ids=["many", "long"])
@pytest.mark.parametrize("version", [1, 2])
def test_who_asks_for_all_gets_portions(keys: dict[str, int], version: int) -> None:
    """One after the other, the last of them with the newest number; a request meanwhile changes nothing."""
    alone = Alone()
    alone.meet("B", dialect="skupper" if version == 2 else "routerd")
    alone.tick(2)
    newest = announce(alone, keys)[-1].mobile_seq
    alone.say(MobileRequest("B", newest - 1, version).encode("A"))
    alone.say(MobileRequest("B", 0, version).encode("A"))
    began = alone.now
    first = [MobileUpdate.read(body(control)) for control, _ in alone.port.take("MAU")]
    told = first + until_told(alone, "B")
    assert len(first) == 1
    assert [update.mobile_seq for update in told] == list(range(newest + 1 - len(told), newest + 1))
    assert after(told, {}, 0) == (keys, newest)
    assert alone.now - began <= len(told) * (GAP + 0.001)
    assert {update.version for update in told} == {version}


def test_what_changes_meanwhile_follows_the_answer() -> None:
    """Also the others get it, at once; whoever is being answered takes no notice of that, and needs not ask again."""
    alone = Alone()
    alone.meet()
    newest = announce(alone, MANY)[-1].mobile_seq
    alone.now += 1
    alone.hello()
    alone.port.take()
    alone.say(MobileRequest("B", 0).encode("A"))
    gone = next(iter(MANY))
    alone.network.local_address(gone, None)
    alone.network.local_address("M0new", 2)
    alone.tick()
    heard = alone.port.take("MAU")
    assert [control.to for control, _ in heard if control.to == ALL_MOBILE] == [ALL_MOBILE]
    told = [MobileUpdate.read(body(control)) for control, _ in heard] + until_told(alone, "B")
    expected = {key: value for key, value in MANY.items() if key != gone} | {"M0new": 2}
    assert after(told, {}, 0) == (expected, newest + 1)


def test_a_router_that_went_within_its_answer_gets_another_one() -> None:
    """From the beginning."""
    alone = Alone()
    alone.meet()
    announce(alone, MANY)
    alone.say(MobileRequest("B", 0).encode("A"))
    alone.port.take()
    alone.network.neighbour_lost(1)
    alone.tick(60)
    alone.meet()
    alone.say(MobileRequest("B", 0).encode("A"))
    ((begun, _),) = alone.port.take("MAU")
    assert MobileUpdate.read(body(begun)).absolute


def test_a_router_of_the_other_dialect_is_answered_for_in_portions() -> None:
    """Here, with what it has said in one update, which had the first number."""
    alone = Alone()
    alone.meet("B", neighbour=1)
    alone.meet("S", neighbour=2, dialect="skupper")
    some = dict(list(MANY.items())[:4_000])
    alone.say(MobileUpdate("S", 5, some, absolute=True, version=2).encode("amqp:/_topo/0/A/qdrouter.ma"), neighbour=2)
    assert len(alone.keys("S")) == len(some)
    alone.port.take()
    alone.say(MobileRequest("B", 0).encode("S"), neighbour=1)
    told = [MobileUpdate.read(body(control)) for control, _ in alone.port.take("MAU")] + until_told(alone, "B", "S")
    assert len(told) > 1
    assert after(told, {}, 0) == (some, 5)


def test_an_answer_in_portions_takes_no_address_away_before_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages to addresses of later portions would be released meanwhile, after each update that was missed."""
    alone = Alone()
    alone.meet()
    keys = dict(list(MANY.items())[:4_000])
    old = {"M0old": 3, "M0older": 3}
    alone.say(MobileUpdate("B", 50, keys | old, absolute=True).encode(ALL_MOBILE))
    taken: list[str] = []
    unmap = alone.port.unmap_destination
    monkeypatch.setattr(alone.port, "unmap_destination", lambda key, bit: (taken.append(key), unmap(key, bit)))
    portions = _all_of("B", 0, 60, keys | {"M0new": 3})
    assert len(portions) > 2
    for update in portions[:-1]:
        alone.say(update.encode(ALL_MOBILE))
        assert taken == []
    alone.say(portions[-1].encode(ALL_MOBILE))
    assert sorted(taken) == ["M0old", "M0older"]
    assert set(alone.keys("B")) == {*keys, "M0new"}


@pytest.mark.parametrize("sizes", [False, True])
def test_an_answer_with_other_addresses_has_the_room_of_those_before(
    sizes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both together are more than are kept of one router: what the answer has not named yet gives way."""
    most = (99_999, 500_000) if sizes else (5_000, 4 << 20)
    monkeypatch.setattr("core.interior.sync.MOST", most)
    alone, keys = Alone(), list(MANY)
    alone.meet()
    alone.say(MobileUpdate("B", 50, dict.fromkeys(keys[:1_700], 3), absolute=True).encode(ALL_MOBILE))
    other = dict.fromkeys([keys[0], *(f"{key}.new" for key in keys[:1_900]), keys[1]], 3)
    if not sizes:
        other |= dict.fromkeys(keys[1_700:4_500], 3)
    portions = _all_of("B", 0, 60, other)
    assert len(portions) > 2
    for update in portions:
        alone.say(update.encode(ALL_MOBILE))
    assert alone.keys("B") == other
    alone.tick(2.5)
    assert not alone.port.take("MAR")


@pytest.mark.parametrize("dialect", ["skupper", "dispatch"])
def test_portions_of_an_answer_are_no_changes_across_a_border(dialect: str) -> None:
    """They tell nobody what is gone: a router there gets the whole, once it is known here, and what changes later."""
    alone = Alone()
    alone.meet("B", neighbour=1, dialect="dispatch" if dialect == "skupper" else "skupper")
    alone.meet("S", neighbour=2, dialect=dialect)
    version = 2 if dialect == "skupper" else 1
    some, more = dict(list(MANY.items())[:4_000]), {"M0more": 3}
    alone.port.take()
    portions = [msgspec.structs.replace(one, version=3 - version) for one in _all_of("B", 0, 60, some)]
    assert len(portions) > 2
    alone.say(MobileRequest("S", 0, version).encode("B"), neighbour=2)
    for update in portions[:-1]:
        alone.say(update.encode(ALL_MOBILE))
        assert not alone.port.take("MAU")
    alone.say(portions[-1].encode(ALL_MOBILE))
    told = [MobileUpdate.read(body(control)) for control, _ in alone.port.take("MAU")] + until_told(alone, "B", "S")
    assert {update.version for update in told} == {version}
    assert after(told, {}, 0) == (some, 60)
    alone.say(MobileUpdate("B", 61, more, version=3 - version).encode(ALL_MOBILE))
    assert [MobileUpdate.read(body(control)).present for control, _ in alone.port.take("MAU")] == [more]

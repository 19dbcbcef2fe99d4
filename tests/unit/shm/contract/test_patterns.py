"""The search for an address among patterns: its cost grows with the address alone, and has a limit."""

import random

import pytest

from bench.contract import C_ATTACH, C_CONNECTION_OPENED
from core.addresses.addresses import Rules
from core.link_routes.routes import Routes
from core.links.rights import AddressRights
from shm.contract.control import AddressSetup, LinkRouteSetup, SetLinkRoutes
from shm.contract.patterns import MOST_STEPS, Patterns, SearchTooLongError
from shm.contract.payloads import Attach, ConnectionOpened, Error
from tests.support.beds.control import Bed
from tests.support.beds.effort import Effort

LONG = ".".join(["a"] * 7_900)  # as many tokens as fit into a frame of 16 KiB
LINES = 30  # of Python for one step, at most
# What makes a search that goes back for each `#` take the power of their number.
PATTERNS = ["#.a.#.a", "#.a.#.a.#.a.#.b", "#.*.#.*.#.b", "#.#.#.#.b", "#.a.*.a.#.b.#", "*.#.*.#.c", "#." * 30 + "b"]


def grown(pattern: str, tokens: int) -> float:
    """Lines of Python to search for an address of so many tokens that the pattern nearly matches."""
    patterns: Patterns[int] = Patterns()
    patterns.insert(pattern.split("."), 1)
    address = ["a"] * (tokens - 1) + ["z"]
    with Effort() as effort:
        assert patterns.find(address) is None
    return effort.lines


@pytest.mark.parametrize("pattern", PATTERNS)
def test_twice_as_many_tokens_take_twice_as_long(pattern: str) -> None:
    """Whatever the pattern is."""
    assert grown(pattern, 120) < 2.2 * grown(pattern, 60)


@pytest.mark.parametrize("number", [1, 10_000])
def test_a_search_has_a_limit(number: int) -> None:
    """Also among many patterns of which each may still match."""
    chance = random.Random(5)  # noqa: S311  a seed
    patterns: Patterns[int] = Patterns()
    for _ in range(number):
        patterns.insert(["#", "a", "#", "a", *chance.choices("ab#", k=8), "z"], 1)
    with Effort() as effort, pytest.raises(SearchTooLongError, match=f"{MOST_STEPS} steps"):
        patterns.find(LONG.split("."))
    assert effort.lines < MOST_STEPS * LINES


def test_many_tokens_are_found() -> None:
    """A limit for searches is none for addresses: a last `#` takes the rest at once."""
    patterns: Patterns[int] = Patterns()
    patterns.insert(["a", "#"], 1)
    assert patterns.find(LONG.split(".")) == 1
    assert patterns.steps < 10


def test_an_address_that_takes_too_long_has_no_rights() -> None:
    assert AddressRights([], ["#.a.#.a"]).allow("x.a.a")
    assert not AddressRights([], ["#.a.#.a"]).allow(LONG + ".b")


def test_looking_rules_up_again_counts_steps() -> None:
    """So that a change of rules with many such addresses in use is applied in short steps."""
    rules = Rules([AddressSetup(pattern="#.a.#.a")], "balanced")
    rules.find("a.b")
    few = rules.effort
    rules.find(LONG + ".b")
    assert rules.effort > 50 * few


def attach(number: int, address: str | None) -> Attach:
    return Attach(number, 1, 0, f"l{number}", False, address)


@pytest.fixture
def bed() -> Bed:
    bed = Bed()
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "c", "h:1"))
    bed.step()
    return bed


def refusal(bed: Bed, address: str) -> Error | None:
    bed.say(C_ATTACH, attach(1, address))
    (answer,) = bed.answers()
    return answer.error


def test_an_attach_is_refused(bed: Bed) -> None:
    bed.core.addresses.set_rules(Rules([AddressSetup(pattern="#.a.#.a")], "balanced"))
    assert (error := refusal(bed, LONG + ".b")) is not None
    assert error.condition == "amqp:resource-limit-exceeded"
    assert "use fewer tokens" in error.description
    assert bed.core.addresses.known(f"M0{LONG}.b") is None


def test_an_attach_among_link_routes_is_refused(bed: Bed) -> None:
    bed.core.plane(Routes).configure(SetLinkRoutes([LinkRouteSetup(False, pattern="#.a.#.a", container="b")]))
    assert (error := refusal(bed, LONG + ".b")) is not None
    assert error.condition == "amqp:resource-limit-exceeded"


def test_an_anonymous_sender_finds_the_address_unavailable(bed: Bed) -> None:
    bed.core.addresses.set_rules(Rules([AddressSetup(pattern="#.a.#.a")], "balanced"))
    bed.core.addresses.learn(f"{LONG}.b".encode())
    assert bed.core.addresses.resolve(LONG + ".b").rule.distribution == "unavailable"
    assert bed.core.addresses.resolve("x").rule.distribution == "balanced"

"""Rules for addresses that change while the router runs."""

import random

import pytest

from core.addresses.addresses import TREATMENTS, Addresses, Identity, Rule, Rules
from routerd.translate.delta import changes
from shm.contract.control import AddressSetup


class Tables:
    """A forwarder's table of addresses as far as treatments go."""

    def __init__(self) -> None:
        self.treatments: dict[int, tuple[str, int]] = {}

    def add_address(self, treatment: int, priority: int = -1, listed: bool = True, phase: int = 0) -> int:
        handle = len(self.treatments) + 1
        self.set_treatment(handle, treatment, priority)
        return handle

    def set_treatment(self, handle: int, treatment: int, priority: int = -1) -> None:
        self.treatments[handle] = (TREATMENTS[treatment], priority)

    def set_fallback(self, handle: int, fallback: int = 0) -> None:
        pass

    def remove_address(self, handle: int) -> bool:
        return False

    def add_alias(self, text: bytes, handle: int) -> int:
        return 0


def test_addresses_in_use_follow_the_new_rules() -> None:
    """Those that the rules name change; others, and those that rules never touch, stay."""
    tables = Tables()
    addresses = Addresses(tables, Identity("me"), Rules([AddressSetup(prefix="a")], "closest"))
    texts = ("a.x", "b.x", "_local/l", "_topo/0/all/t")
    handles = {text: addresses.resolve(text).handle for text in texts}
    addresses.set_rules(Rules([AddressSetup(pattern="a.*", distribution="multicast", priority=7)], "balanced"))
    assert addresses.unsettled
    addresses.settle()
    assert not addresses.unsettled
    assert {text: tables.treatments[handle] for text, handle in handles.items()} == {
        "a.x": ("multicast", 7),
        "b.x": ("balanced", -1),
        "_local/l": ("balanced", -1),
        "_topo/0/all/t": ("multicast", -1),
    }
    assert addresses.resolve("a.y").rule.distribution == "multicast"


def test_what_another_router_announced_holds_until_a_rule_is_configured() -> None:
    """Neither rules that do not concern the address nor another default change it; without its rule it is back."""
    tables, private = Tables(), AddressSetup(pattern="*.private", distribution="closest")
    addresses = Addresses(tables, Identity("me"), Rules([], "balanced"))
    news = addresses.of_key("M0news", Rule("multicast"))

    def now() -> str:
        while addresses.unsettled:
            addresses.settle()
        return tables.treatments[news.handle][0]

    addresses.change_rules([], [private])
    assert now() == "multicast"
    addresses.set_rules(Rules([private], "closest"))
    assert now() == "multicast"
    ours = AddressSetup(prefix="news", distribution="balanced")
    addresses.change_rules([], [ours])
    assert now() == "balanced"
    addresses.of_key("M0news", Rule("closest"))
    assert now() == "balanced"
    addresses.change_rules([ours], [])
    assert now() == "closest"
    assert addresses.of_key("M0news", Rule("multicast")).rule.distribution == now() == "multicast"
    addresses.of_key("M0news")
    assert now() == "multicast"


def test_a_rule_more_and_a_rule_less() -> None:
    """Whatever comes and goes, addresses are treated as by rules made anew."""
    chance = random.Random(8)  # noqa: S311  a seed
    patterns = ["a", "a.b", "a/*", "a.#", "#", "*.b", "b.#.c", "b", "a.b.c"]
    texts = ["a", "a.b", "a/x", "a.b.c", "b.c", "b.x.y.c", "c", "x.b", "ab"]
    tables = Tables()
    addresses = Addresses(tables, Identity("me"), Rules([], "closest"))
    handles = {text: addresses.resolve(text).handle for text in texts}
    there: list[AddressSetup] = []
    for _ in range(300):
        after = [
            AddressSetup(pattern=pattern, distribution=chance.choice(("multicast", "balanced")))
            for pattern in chance.sample(patterns, chance.randrange(len(patterns)))
        ]
        addresses.change_rules(*changes(there, after))
        there = after
        while addresses.unsettled:
            addresses.settle(chance.randrange(1, 40))
        fresh = Rules(there, "closest")
        for text, handle in handles.items():
            expected = fresh.find(text).distribution
            assert tables.treatments.get(handle, ("closest",))[0] == expected, (text, there)
            assert addresses.resolve(text).rule.distribution == expected


@pytest.mark.parametrize("other", [{"pattern": "a.b.#"}, {"prefix": "a/b"}, {"prefix": "amqp:/a.b"}])
def test_a_rule_stays_that_another_entity_has_too(other: dict[str, str]) -> None:
    """A prefix and a pattern, or two spellings, may mean the same addresses. Either may go, whichever came last."""
    same = [AddressSetup(prefix="a.b", distribution="multicast"), AddressSetup(distribution="multicast", **other)]
    for left in same:
        for begin in (same, same[::-1]):
            tables = Tables()
            addresses = Addresses(tables, Identity("me"), Rules(begin, "closest"))
            addresses.change_rules(*changes(begin, [left]))
            assert addresses.resolve("a.b.x").rule.distribution == "multicast"
            addresses.change_rules(*changes([left], []))
            assert addresses.resolve("a.b.y").rule.distribution == "closest"


def test_a_change_among_ten_thousand_touches_what_it_names() -> None:
    """No others are told to the forwarder or looked up, and never many at once."""
    setups = [AddressSetup(prefix=f"a.{i}") for i in range(10_000)]
    tables = Tables()
    rules = Counting(setups, "closest")
    addresses = Addresses(tables, Identity("me"), rules)
    for i in range(10_000):
        addresses.resolve(f"a.{i}.x")
    tables.treatments.clear()
    rules.found = 0
    addresses.change_rules([setups[77]], [AddressSetup(prefix="a.78", distribution="multicast")])
    steps = 0
    while addresses.unsettled:
        addresses.settle()
        steps += 1
    assert steps >= 10
    assert set(tables.treatments.values()) == {("closest", -1), ("multicast", -1)}
    assert len(tables.treatments) == 2
    assert rules.found < 300


class Counting(Rules):
    """Rules that count how often one is looked for."""

    found = 0

    def find(self, text: str) -> Rule:
        self.found += 1
        return super().find(text)

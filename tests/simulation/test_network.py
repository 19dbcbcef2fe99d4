"""Many routers without processes: whatever happens to their connections, all end up with the same tables."""

import pytest

from bench.network import phases, wrong
from bench.network_world import Message, Router, World
from core.interior.message import Fields, decode


def test_many_routers_agree_after_flaps_partitions_and_restarts() -> None:
    """Next hops, costs and addresses are those of the true topology, and lead nowhere in a circle."""
    world = World(seed=7)
    names = [phase.name for phase in phases(world, 16)]
    assert names == ["start", "flaps", "partition", "heal", "silent cut", "mended", "restarts"]


@pytest.mark.parametrize("seed", range(2))
def test_small_networks_with_floods_like_qpid_dispatch(seed: int) -> None:
    """A forwarder that floods by traces alone makes many copies; they change nothing."""
    world = World(seed=seed, by_origin=False)
    assert len(list(phases(world, 8))) == 7


class Mixed:
    """A network with routers of three kinds, which notes what a router got that it does not understand."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed=seed)
        self.world.taken = self.taken
        self.misread: list[str] = []

    def taken(self, router: Router, message: Message) -> None:
        control = decode(message.content)
        version = Fields(control.body).number("pv")
        # qdrouterd ignores newer versions; skrouterd takes an older update's addresses for lists.
        if router.kind == "dispatch" and version > 1:
            self.misread.append(f"{router.name}: {control.opcode} of version {version}")
        if router.kind == "skupper" and control.opcode == "MAU" and version != 2:
            self.misread.append(f"{router.name}: {control.opcode} of version {version}")

    def build(self, kinds: dict[str, str], links: str) -> None:
        for name, kind in kinds.items():
            self.world.add(name, kind)
        for link in links.split():
            one, other, cost = link.split("-")
            self.world.connect(one, other, int(cost))

    def receives(self, name: str, key: str) -> None:
        self.world.routers[name].listen(key, 3)

    def settled(self) -> list[str]:
        """What is wrong or was misread."""
        self.world.run(15)
        return wrong(self.world) + self.misread


KINDS = {"Q1": "dispatch", "Q2": "dispatch", "A": "routerd", "B": "routerd", "S1": "skupper", "S2": "skupper"}
LINE = "Q1-Q2-1 Q2-A-1 A-B-1 B-S1-1 S1-S2-1"
RING = f"{LINE} S2-C-1 C-Q1-1"
SHORT = "Q1-Q2-1 Q2-A-1 A-S1-1 S1-S2-1 Q1-B-2 B-S2-2"


@pytest.mark.parametrize("links", [LINE, RING, SHORT, f"{SHORT} A-B-1"])
@pytest.mark.parametrize("seed", range(2))
def test_addresses_cross_the_border_between_dialects(links: str, seed: int) -> None:
    """Every router learns all addresses in its dialect, also later ones and after a restart at the border."""
    mixed = Mixed(seed)
    mixed.build(KINDS | ({"C": "routerd"} if "C" in links else {}), links)
    for name in mixed.world.routers:
        mixed.receives(name, f"M0at.{name}")
        mixed.receives(name, "M0shared")
    assert not mixed.settled()
    mixed.receives("Q1", "M0late")
    mixed.receives("S2", "Hlate")
    mixed.world.routers["S1"].ignore("M0shared")
    assert not mixed.settled()
    mixed.world.routers["A"].restart()
    assert not mixed.settled()
    mixed.world.routers["S2"].restart()
    mixed.world.routers["Q1"].ignore("M0late")
    assert not mixed.settled()


def test_two_islands_of_one_dialect_behind_the_other() -> None:
    """What crosses two borders is what it was."""
    mixed = Mixed(1)
    mixed.build(
        {"Q1": "dispatch", "A": "routerd", "S1": "skupper", "B": "routerd", "Q2": "dispatch"},
        "Q1-A-1 A-S1-1 S1-B-1 B-Q2-1",
    )
    for name in mixed.world.routers:
        mixed.receives(name, f"M0at.{name}")
    assert not mixed.settled()
    mixed.receives("Q2", "M0late")
    mixed.receives("A", "M0later")
    assert not mixed.settled()


def test_what_the_other_dialect_has_no_words_for_stays_on_its_side() -> None:
    """A link route and a second phase are not told to skupper routers, and do not hold up the rest."""
    mixed = Mixed(2)
    mixed.build({"Q": "dispatch", "A": "routerd", "S": "skupper"}, "Q-A-1 A-S-1")
    for key in ("Clink.route", "M1phase", "M0plain"):
        mixed.receives("Q", key)
    mixed.world.run(15)
    assert set(mixed.world.routers["S"].table.destinations) == {"M0plain"}
    assert set(mixed.world.routers["A"].table.destinations) == {"Clink.route", "M1phase", "M0plain"}
    assert not mixed.misread

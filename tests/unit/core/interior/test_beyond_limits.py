"""What other routers may say, and the forwarder's tables cannot hold or the protocol fails at, ends no core."""

import pytest

from core.addresses.addresses import Identity
from core.interior import paths
from core.interior.hello import greeting
from core.interior.linkstate import LARGEST_COST, LinkStateUpdate
from core.interior.message import NEXT_ROUTER
from core.interior.network import Network
from core.interior.network_adapter import TICK_NS, NetworkAdapter
from core.interior.nodes import MOST_ROUTERS
from core.link_routes.routes import Routes
from shm.contract.failures import failures
from shm.contract.routing import NetworkSetup
from tests.support.beds.control import Bed


@pytest.fixture
def bed() -> Bed:
    """A core of an interior router, with the forwarder's tables behind the router protocol, and a neighbour B."""
    made = Bed(mode="interior")
    adapter = made.core.plane(NetworkAdapter)
    adapter.start(lambda port: Network(Identity("A"), 1, NetworkSetup(), port))
    adapter.network.neighbour_up(1, 1, "routerd")
    say(made, greeting("B", 1, ["A"]))
    return made


def say(bed: Bed, content: bytes) -> None:
    """B says something, and the network ticks."""
    bed.now += TICK_NS
    bed.core.plane(NetworkAdapter).network.received(1, content, bed.now / TICK_NS)
    bed.core.plane(NetworkAdapter).network.tick(bed.now / TICK_NS)


def lsu(router: str, peers: dict[str, int]) -> bytes:
    """A router's links, as B passes them on."""
    return LinkStateUpdate(router, 1, 1, peers).encode(NEXT_ROUTER)


def test_a_path_costs_more_than_the_table_has_octets_for(bed: Bed) -> None:
    """Three links at the largest cost that a link may have: the path is used, and shown with its cost."""
    say(bed, lsu("B", {"A": 1, "C": LARGEST_COST}))
    say(bed, lsu("C", {"B": LARGEST_COST, "D": LARGEST_COST}))
    say(bed, lsu("D", {"C": LARGEST_COST, "E": LARGEST_COST}))
    shown = {row["id"]: row.get("cost") for row in bed.core.plane(NetworkAdapter).network.nodes()}
    assert shown["E"] == 1 + 3 * LARGEST_COST


def test_routers_that_find_no_room_are_in_no_computation(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each link state names up to 127 routers, and each router there is costs a tree of all of them."""
    sizes: list[int] = []
    graph = paths.Graph

    def counted(states: paths.LinkStates) -> paths.Graph:
        made = graph(states)
        sizes.append(len(made.names))
        return made

    monkeypatch.setattr(paths, "Graph", counted)
    names = [f"R{number}" for number in range(MOST_ROUTERS - 1)]
    say(bed, lsu("B", {"A": 1} | dict.fromkeys(names, 1)))
    for name in names[:4]:
        say(bed, lsu(name, {"B": 1} | {f"{name}.{number}": 1 for number in range(100)}))
    assert max(sizes) == 1 + MOST_ROUTERS


@pytest.mark.parametrize("letter", ["R", "ß", "路", "\N{SNAKE}"])
def test_a_router_id_is_as_long_as_the_table_has_octets_for(bed: Bed, letter: str) -> None:
    """127 octets, however many characters they are; a link state that names a longer id is ignored."""
    longest = letter * (127 // len(letter.encode()))
    say(bed, lsu("B", {"A": 1, longest: 1, longest + letter: 1}))
    network = bed.core.plane(NetworkAdapter).network
    assert [row["id"] for row in network.nodes()] == ["A", "B"]
    say(bed, lsu("B", {"A": 1, longest: 1}))
    assert [row["id"] for row in network.nodes()] == ["A", "B", longest]


def test_a_step_that_fails_costs_the_step_and_not_the_core(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol goes on with the next one."""
    network, before, ticks = bed.core.plane(NetworkAdapter).network, failures.number, []

    def tick(now: float) -> None:
        ticks.append(now)
        if len(ticks) == 1:
            raise OverflowError("a fault of the protocol")

    monkeypatch.setattr(network, "tick", tick)
    for second in (1, 2):
        bed.core.tick(bed.now + second * TICK_NS)
        assert (len(ticks), failures.number) == (second, before + 1)


@pytest.mark.parametrize("letter", ["M0", "D"], ids=["addresses", "link routes"])
def test_what_comes_and_goes_while_it_waits_takes_no_room(bed: Bed, letter: str) -> None:
    """A router announces other destinations again and again, faster than they get into the tables."""
    adapter, keys = bed.core.plane(NetworkAdapter), [f"{letter}{number}" for number in range(1000)]
    (bit,) = (row["index"] for row in adapter.network.nodes() if row["id"] == "B")
    for key in (*keys[:500], keys[0], *keys[500:]):
        adapter.map_destination(key, bit, 3)
        if key != keys[0]:
            adapter.unmap_destination(key, bit)
    steps = 0
    while adapter.restless:
        bed.core.tick(bed.now + TICK_NS)
        steps += 1
    assert steps <= 3
    there = [key for key in keys if known(bed, key) is not None]
    assert there == keys[:1]


def known(bed: Bed, key: str) -> object:
    """What the tables have of a destination."""
    return bed.core.addresses.known(key) or bed.core.plane(Routes).known(key)

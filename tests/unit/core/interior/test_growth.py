"""What a router says costs no more the more addresses are known, its own and this one's."""

from collections.abc import Callable

from bench.contract import C_ATTACH, C_CONNECTION_OPENED
from core.interior.advertisement import Advertisement
from core.interior.hello import greeting
from core.interior.inter_router import SET_UP_NS, InterRouters
from core.interior.linkstate import LinkStateUpdate
from core.interior.message import ALL_MOBILE, ALL_ROUTERS
from core.interior.mobile import MobileRequest, MobileUpdate
from core.interior.network import Network
from core.interior.network_adapter import NetworkAdapter
from shm.contract.payloads import Attach, ConnectionOpened
from shm.contract.routing import NetworkSetup
from tests.support.beds.control import ME, Bed
from tests.support.beds.effort import Effort
from tests.support.beds.neighbourhood import Alone

FEW, MANY = 250, 1000  # addresses of both
CONNECTIONS = 40  # to routers; four times as many are fewer than a router takes
SOME = 10
GROWTH = 1.25
TREATMENT = 4


class Known(Alone):
    """A router and its neighbour B, each with so many addresses. ``costs``: of one event (effort.py)."""

    def __init__(self, addresses: int) -> None:
        super().__init__()
        self.costs: dict[str, float] = {}
        self.seq = 1
        self.network.neighbour_up(1, 1, "routerd")
        self.say(greeting("B", 1, ["A"]))
        self.say(LinkStateUpdate("B", 1, 1, {"A": 1}).encode(ALL_ROUTERS))
        present = {f"Mb.{i}": TREATMENT for i in range(addresses)}
        self.say(MobileUpdate("B", self.seq, present, absolute=True).encode(ALL_MOBILE))
        for i in range(addresses):
            self.network.local_address(f"Ma.{i}", TREATMENT)
        self.tick(3)
        assert len(self.port.addresses) == addresses

    def count(self, name: str, event: Callable[[int], None]) -> None:
        cost = 0.0
        for i in range(SOME):
            self.now += 1
            with Effort() as effort:
                event(i)
                self.network.tick(self.now)
                self.port.sent.clear()
            cost += effort.count
            self.say(greeting("B", 1, ["A"]))
        self.costs[name] = cost / SOME

    def update(self, present: dict[str, int], gone: tuple[str, ...] = ()) -> None:
        self.seq += 1
        self.say(MobileUpdate("B", self.seq, present, gone).encode(ALL_MOBILE))


def costs(addresses: int) -> dict[str, float]:
    known = Known(addresses)
    known.count("second", lambda _: None)
    known.count("one more there", lambda i: known.update({f"Mmore.{i}": TREATMENT}))
    known.count("one less there", lambda i: known.update({}, (f"Mmore.{i}",)))
    known.count("one more here", lambda i: known.network.local_address(f"Mmore.{i}", TREATMENT))
    known.count("one less here", lambda i: known.network.local_address(f"Mmore.{i}", None))
    known.count("advertisement", lambda _: known.say(Advertisement("B", 1, 1, known.seq).encode()))
    return known.costs


def test_events_cost_as_much_among_many_addresses() -> None:
    """An address here or there, an advertisement, a second in which nothing happens."""
    few, many = costs(FEW), costs(MANY)
    assert {name: (few[name], cost) for name, cost in many.items() if cost > few[name] * GROWTH} == {}


def test_all_addresses_are_told_once_in_a_second() -> None:
    """A router that asks again and again makes this one encode them no more often; one that restarted gets them."""
    known = Known(FEW)
    known.port.sent.clear()
    for _ in range(SOME):
        known.say(MobileRequest("B", 0).encode("A"))
    assert len(known.port.take("MAU")) == 1
    known.now += 1
    known.say(MobileRequest("B", 0).encode("A"))
    assert len(known.port.take("MAU")) == 1
    known.say(greeting("B", 2, ["A"]))
    known.say(MobileRequest("B", 0).encode("A"))
    assert len(known.port.take("MAU")) == 1


def connected(number: int) -> Bed:
    """A router with so many connections of others, of which the last one is whole and the first has no links."""
    bed = Bed(mode="interior")
    bed.core.plane(NetworkAdapter).start(lambda port: Network(ME, 1, NetworkSetup(), port))
    for i in range(number):
        bed.say(C_CONNECTION_OPENED, ConnectionOpened(i, 1, f"r{i}", f"h:{i}", role="inter-router", number=i + 1))
        for outgoing in (False, True) if i == number - 1 else ():
            bed.say(C_ATTACH, Attach(i, 1, i, f"l{outgoing}", outgoing, None, capabilities=["qd.router"]))
    bed.step()
    return bed


def test_a_connection_costs_as_much_among_many_connections() -> None:
    """It is found by its number, and each second's look at one that has no links."""
    few, many = {}, {}
    for number, costs in ((CONNECTIONS, few), (4 * CONNECTIONS, many)):
        bed = connected(number)
        known = bed.core.plane(InterRouters)
        with Effort() as effort:
            assert known.numbered(number) is known.find(0, number - 1)
        costs["found"] = effort.count
        with Effort() as effort:
            known.check(bed.now + 2 * SET_UP_NS)
        costs["looked at"] = effort.lines / number
    assert {name: (few[name], cost) for name, cost in many.items() if cost > few[name] * GROWTH} == {}

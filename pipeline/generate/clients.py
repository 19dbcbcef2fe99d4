"""Who sends and receives in a generated log: addresses, message types, and their clients with their routers."""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pipeline.generate.scenario import Scenario

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

FIRST_TYPE: Final = 12000  # of the message types
FIRST_OWNER_PORT: Final = 38000
ENDPOINTS: Final = 4  # endpoints that own managed entities
HOT_ADDRESSES: Final = 4  # of the hot receiver
LINKED: Final = 0.01  # share of the messages over a link route


@dataclass(slots=True)
class Flow:
    """Messages to one address or of one type; a consumer of each of the ``groups`` receives a copy."""

    address: str | None
    share: float
    senders: list[int]
    groups: list[list[int]]  # numbers of consumers
    mtype: int = -1
    by_meid: bool = False
    weight: int = 1
    presettled: bool = False
    hot: bool = False  # its share is one of the hot messages
    linked: bool = False  # over a link route


@dataclass(slots=True)
class Consumer:
    """A receiver: its router and its container."""

    router: int
    container: str


@dataclass(slots=True)
class Clients:
    """All clients; ``owner`` has the consumer of each managed entity, ``special`` the flow of each fault."""

    flows: list[Flow] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)
    special: dict[str, int] = field(default_factory=dict)
    owner: list[int] = field(default_factory=list)
    meid_share: Floats = field(default_factory=lambda: np.empty(0))

    def consumer(self, router: int, container: str) -> int:
        """Add a consumer and return its number."""
        self.consumers.append(Consumer(router, container))
        return len(self.consumers) - 1


def build(scenario: Scenario, random: np.random.Generator) -> Clients:
    """Return the clients of a scenario; the shares of flows add up to 1, and those of the hot flows by themselves."""
    clients = Clients()
    for fault in scenario.faults:
        if fault != "asymmetric pair":
            _special(scenario, clients, fault)
    if "asymmetric pair" in scenario.faults:
        half = scenario.routers // 2
        for name, sender, receiver in (("there", 0, half), ("back", half, 0)):
            consumer = clients.consumer(receiver, f"pair-{name}-consumer")
            clients.flows.append(Flow(f"pair/{name}", scenario.special, [sender], [[consumer]]))
    _linked(scenario, clients)
    rest = 1.0 - sum(flow.share for flow in clients.flows)
    _types(scenario, clients, random, rest * 0.25)
    _ordinary(scenario, clients, random, rest * (0.75 if scenario.types else 1.0))
    _hot(scenario, clients)
    return clients


def _special(scenario: Scenario, clients: Clients, fault: str) -> None:
    """Add an address for a fault, with a sender at the first router and two consumers at the second.

    A slow consumer, and the sender to nobody, are at an edge router, if there is one.
    """
    name, nobody = fault.replace(" ", "-"), fault == "no consumers"
    edge = scenario.places - 1 if scenario.edges else None
    place = edge if edge is not None and fault == "slow consumer" else 1
    consumers = [] if nobody else [clients.consumer(place, f"{name}-{at}") for at in range(2)]
    clients.special[fault] = len(clients.flows)
    sender = edge if edge is not None and nobody else 0
    clients.flows.append(Flow(f"special/{name}", scenario.special, [sender], [consumers]))


def _linked(scenario: Scenario, clients: Clients) -> None:
    """Add an address of a link route, with a client and a broker at each of two routers."""
    places = [0, scenario.routers // 2]
    brokers = [clients.consumer(place, f"broker-{scenario.router(place)}") for place in places]
    clients.flows.append(Flow("linked/orders", LINKED, places, [brokers], linked=True))


def _types(scenario: Scenario, clients: Clients, random: np.random.Generator, share: float) -> None:
    """Add message types: every other one goes to the owner of its managed entity, the others to two groups."""
    if not scenario.types:
        return
    owners = [clients.consumer(at % scenario.routers, f"owner{at}:{FIRST_OWNER_PORT + at}") for at in range(ENDPOINTS)]
    # Few endpoints own the busy entities, so that the planner has work.
    clients.owner = [owners[int(at)] for at in np.minimum(random.geometric(0.55, scenario.meids) - 1, ENDPOINTS - 1)]
    clients.meid_share = zipf(scenario.meids, 0.9)
    apps = [clients.consumer(at % scenario.routers, f"app{at}:4560") for at in range(3)]
    groups = [apps[:2], apps[2:]]
    for at in range(scenario.types):
        by_meid = at % 2 == 0
        flow = Flow(
            None,
            share / scenario.types,
            [at % scenario.routers],
            [owners] if by_meid else groups,
            mtype=FIRST_TYPE + 10 * at,
            by_meid=by_meid,
        )
        clients.flows.append(flow)


def _ordinary(scenario: Scenario, clients: Clients, random: np.random.Generator, share: float) -> None:
    """Add addresses with a few senders and consumers each, few of them busy; some are sampled, some presettled."""
    shares = zipf(scenario.clients, 1.1) * share
    for at in range(scenario.clients):
        consumers = [
            clients.consumer(int(random.integers(scenario.places)), f"service{at}-{number}")
            for number in range(1 + at % 3)
        ]
        senders = [int(one) for one in random.integers(scenario.places, size=1 + at % 2)]
        weight, presettled = (8 if at % 10 == 3 else 1), at % 7 == 4
        clients.flows.append(
            Flow(f"service{at}/requests", float(shares[at]), senders, [consumers], -1, False, weight, presettled)
        )


def _hot(scenario: Scenario, clients: Clients) -> None:
    """Add what is hot: an address of clients everywhere, a receiver of several addresses, an address over one path."""
    routers, half = list(range(scenario.routers)), scenario.routers // 2
    whole = scenario.hot or 1.0

    def add(address: str, share: float, senders: list[int], consumers: list[int]) -> None:
        clients.flows.append(Flow(address, share / whole, senders, [consumers], hot=True))

    if scenario.hot_address:
        consumers = [clients.consumer(router, f"hot-address-{router}") for router in routers]
        add("hot/address", scenario.hot_address, routers, consumers)
    if scenario.hot_receiver:
        receiver = clients.consumer(1, "hot-receiver")
        for at in range(HOT_ADDRESSES):
            add(f"hot/receiver/{at}", scenario.hot_receiver / HOT_ADDRESSES, routers, [receiver])
    if scenario.hot_path:
        add("hot/path", scenario.hot_path, [0], [clients.consumer(half, "hot-path")])


def zipf(number: int, exponent: float) -> Floats:
    """Return shares by rank, which add up to 1."""
    shares = np.arange(1, number + 1, dtype=np.float64) ** -exponent
    whole: Floats = np.asarray(shares / shares.sum())
    return whole

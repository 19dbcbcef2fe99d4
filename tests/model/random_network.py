"""A random life of a network of whole routers, and what must hold whenever it has come to rest.

Up to two of the routers are edge routers. Each router's core works, and its worker reads, a few records at a time in
any order. Clients come, send and go, connections are lost and made, routers restart, and time jumps. Then the network
rests, and every interior router must know the cheapest path to each other one and where each address has receivers;
messages reach whom they should, each sender has heard of each message once, and nothing is outstanding.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from bench import contract as n
from core.interior import paths
from tests.model.internet import Internet, cut, join
from tests.model.sites import Packet, Site, SiteLink
from tests.support.beds.internet import check_rest, numbers

ADDRESSES: Final = ["closest.x", "q", "multicast.x", "high.z"]
MANY: Final = [f"many.{number}" for number in range(120)]  # more than a router maps in one turn
COSTS: Final = [1, 1, 2, 5]
PRODUCTS: Final = ["routerd", "routerd", "routerd", "qpid-dispatch-router"]
NANOSECONDS: Final = [1_000, 100_000, 3_000_000, 100_000_000, 1_000_000_000]
SECONDS: Final = [3, 10, 70]  # until links are not set up in time, a router is forgotten, its link state is too old
REST: Final = 24  # seconds until all know of all
MOST_RECEIVERS, MOST_SENDERS, MOST_WIRES = 150, 12, 8

Client = tuple[str, SiteLink]  # at the router of this name


class Wire:
    """A connection between two routers, the first of which may be an edge router; ``ends``: its number at each."""

    def __init__(self, net: Internet, one: str, other: str, cost: int, product: str) -> None:
        self.one, self.other, self.cost = one, other, cost
        self.product = product  # that each takes the other for
        role = "edge" if is_edge(one) else "inter-router"
        self.ends = join(net[one], net[other], cost=cost, role=role, product=product)

    def cut(self, net: Internet) -> None:
        cut(net[self.one], net[self.other], self.ends)

    def at(self, name: str) -> int:
        """Return its number at a router; 0: it does not end there."""
        return {self.one: self.ends[0], self.other: self.ends[1]}.get(name, 0)


def is_edge(name: str) -> bool:
    return name.startswith("edge")


class RandomNetwork:
    """What happens is a function of the seed. A broken promise raises ``AssertionError``."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a schedule, no secret
        self.interiors = list("ABCDE"[: self.chance.randint(2, 5)])
        self.names = [*self.interiors, *["edge1", "edge2"][: self.chance.randint(0, 2)]]
        self.net = Internet(*self.names, seed=seed)
        self.wires: list[Wire] = []
        self.receivers: list[Client] = []
        self.senders: list[Client] = []
        self.reached: set[int] = set()  # messages that receivers who have left since had
        self.sent: dict[int, str] = {}  # router of its sender, by the message's number
        self.number = 0
        self.instance = 1000
        self.steps = 0
        for at, name in enumerate(self.names[1:], 1):
            one, other = (name, self._interior()) if is_edge(name) else (self.chance.choice(self.names[:at]), name)
            self._wire(one, other, "routerd")

    def live(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            acts: dict[Callable[[], None], float] = {
                self._work: 20,
                self._time: 10,
                self._sleep: 0.3,
                self.net.settle: 1,
                self._attach: 5,
                self._detach: 4,
                self._crowd: 0.4,
                self._leave: 0.4,
                self._send: 15,
                self._rewire: 1.5,
                self._restart: 0.25,
            }
            for act in self.chance.choices(list(acts), list(acts.values()), k=self.chance.randint(20, 200)):
                act()
                self.steps += 1
            self._rest()
            self._check_tables()
            self._check_sent()
            self._check_forwarding()

    # ---- what happens ----

    def _interior(self) -> str:
        return self.chance.choice(self.interiors)

    def _site(self) -> tuple[str, Site]:
        name = self.chance.choice(self.names)
        return name, self.net[name]

    def _work(self) -> None:
        for _ in range(self.chance.randint(1, 12)):
            _, site = self._site()
            if self.chance.random() < 0.5:
                site.core.step(self.net.now)
            else:
                site.read(self.chance.choice([1, 2, 5, 50]))

    def _time(self) -> None:
        self.net.now += self.chance.choice(NANOSECONDS)
        self._work()

    def _sleep(self) -> None:
        self.net.now += self.chance.choice(SECONDS) * NANOSECONDS[-1]
        self._work()

    def _attach(self) -> None:
        self._receive(self._site()[0], self.chance.choice(ADDRESSES))

    def _receive(self, name: str, address: str) -> None:
        if len(self.receivers) < MOST_RECEIVERS:
            self.receivers.append((name, self.net[name].attach(True, address)))

    def _detach(self) -> None:
        if self.receivers:
            name, link = self.receivers.pop(self.chance.randrange(len(self.receivers)))
            self.reached.update(numbers(link))
            self.net[name].detach(link)

    def _crowd(self) -> None:
        name, _ = self._site()
        for address in self.chance.sample(MANY, self.chance.randint(10, 60)):
            self._receive(name, address)

    def _leave(self) -> None:
        for _ in range(self.chance.randint(5, 60)):
            self._detach()

    def _send(self) -> None:
        if not self.senders or (self.chance.random() < 0.4 and len(self.senders) < MOST_SENDERS):
            name, site = self._site()
            self.senders.append((name, site.attach(False, self.chance.choice(ADDRESSES))))
            return
        for _ in range(self.chance.randint(1, 8)):
            name, link = self.chance.choice(self.senders)
            if link.open and link.credit > 0 and self.net[name].arena.free[0] > 64:
                self._say(name, link)

    def _say(self, name: str, link: SiteLink) -> int:
        self.number += 1
        self.sent[self.number] = name
        self.net[name].send(link, Packet(self.number, priority=self.chance.randrange(10)))
        return self.number

    def _wire(self, one: str, other: str, product: str) -> None:
        self.wires.append(Wire(self.net, one, other, self.chance.choice(COSTS), product))

    def _rewire(self) -> None:
        if self.wires and self.chance.random() < 0.5:
            self.wires.pop(self.chance.randrange(len(self.wires))).cut(self.net)
            return
        name, _ = self._site()
        if is_edge(name):  # it has one uplink
            if not any(wire.at(name) for wire in self.wires):
                self._wire(name, self._interior(), "routerd")
        elif len(self.wires) < MOST_WIRES:
            one, other = self.chance.sample(self.interiors, 2)
            self._wire(one, other, self.chance.choice(PRODUCTS))

    def _again(self, wires: list[Wire]) -> None:
        """Dial connections again that have been cut."""
        for wire in wires:
            self.wires[self.wires.index(wire)] = Wire(self.net, wire.one, wire.other, wire.cost, wire.product)

    def _restart(self) -> None:
        """A router begins anew; its clients are gone with it, and its connections are dialled again."""
        name, _ = self._site()
        lost = [wire for wire in self.wires if wire.at(name)]
        for wire in lost:
            wire.cut(self.net)
        self.instance += 1
        self.net.sites[name] = Site(name, self.instance, self.net[name].mode, self.instance)
        self.receivers = [one for one in self.receivers if one[0] != name]
        self.senders = [one for one in self.senders if one[0] != name]
        self.sent = {number: at for number, at in self.sent.items() if at != name}
        self.reached.update(self.sent)  # who knows what its receivers have had
        self._again(lost)

    # ---- what must hold ----

    def _rest(self) -> None:
        """Let time pass until all know of all. What a core closes meanwhile is dialled again."""
        for _ in range(3):
            self.net.settle()
            self.net.run(6)
            closed = [one for one in self.wires if any(one.at(s.name) in s.closing for s in self.net.sites.values())]
            for site in self.net.sites.values():
                site.closing.clear()
            for wire in closed:
                wire.cut(self.net)
            self._again(closed)
        self.net.run(REST)
        assert not [(site.name, site.closing) for site in self.net.sites.values() if site.closing]

    def _host(self, name: str) -> str:
        """Return the interior router of a router: itself, or that of its uplink; empty: it has none."""
        if not is_edge(name):
            return name
        return next((wire.other for wire in self.wires if wire.one == name), "")

    def _reached(self, name: str) -> set[str]:
        """Return the routers that messages from a router reach, itself among them."""
        host = self._host(name)
        ways = {host, *self._paths(host)} if host else set()
        return {name, *(one for one in self.names if self._host(one) in ways)}

    def _paths(self, name: str) -> dict[str, tuple[str, int]]:
        """Return the next hop and the cost to each router that can be reached."""
        states: dict[str, dict[str, int]] = {one: {} for one in self.interiors}
        for wire in self.wires:
            if is_edge(wire.one):
                continue
            cost = min(wire.cost, states[wire.one].get(wire.other, wire.cost))
            states[wire.one][wire.other] = states[wire.other][wire.one] = cost
        found = paths.routes(paths.Graph(states), name).paths
        return {other: (route.next_hop, route.cost) for other, route in found.items()}

    def _check_tables(self) -> None:
        for name in self.interiors:
            site, ways = self.net[name], self._paths(name)
            rows = [row for row in site.network.nodes() if row["id"] != name and row["cost"]]
            assert {row["id"]: (row["nextHop"] or row["id"], row["cost"]) for row in rows} == ways, name
            there: dict[str, set[str]] = {}
            for other, link in self.receivers:
                if (host := self._host(other)) in ways:
                    there.setdefault(str(link.address), set()).add(host)
            for address in (*ADDRESSES, *MANY):
                handle = site.core.addresses.resolve(address).handle
                assert set(site.network_adapter.router_ids(handle)) == there.get(address, set()), (name, address)

    def _check_sent(self) -> None:
        """Each sender has heard of each message once, and what was accepted has reached somebody."""
        for _, link in self.receivers:
            self.reached.update(numbers(link))
            link.got.clear()
        for number, name in self.sent.items():
            outcomes = self.net[name].outcomes.get(number, [])
            assert len(outcomes) == 1, (number, name, outcomes)
            assert outcomes != [n.S_ACCEPTED] or number in self.reached, (number, name)
        self.sent.clear()
        self.reached.clear()
        check_rest(self.net)

    def _check_forwarding(self) -> None:
        """Messages go to all receivers of a multicast address, and to one of any other."""
        expected: Counter[int] = Counter()
        for _ in range(10):
            (name, site), address = self._site(), self.chance.choice(ADDRESSES)
            ways = self._reached(name)
            receivers = sum(link.address == address and other in ways for other, link in self.receivers)
            if not receivers:
                continue
            link = site.attach(False, address)
            self.net.settle()
            assert link.credit > 0, (name, address)
            expected[self._say(name, link)] = receivers if address.startswith("multicast") else 1
            self.net.settle()
            site.detach(link)
        self.net.settle()
        assert Counter(number for _, link in self.receivers for number in numbers(link)) == expected
        outcomes = {number: self.net[self.sent[number]].outcomes.get(number) for number in expected}
        assert all(one == [n.S_ACCEPTED] for one in outcomes.values()), outcomes
        self._check_sent()

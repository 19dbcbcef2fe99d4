"""A network of routers in one process: the real protocol, a model of everything else, time made of events.

A router here is its `Network` and a forwarder of a few lines, with the tables of the real one: control messages follow
them, with delays, and are lost where the tables are wrong. Everything random comes from the seed.
"""

import heapq
import random
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec

from core.addresses.addresses import Identity
from core.interior.message import addressee
from core.interior.network import Network
from shm.contract.routing import NetworkSetup

TICK: Final = 1.0
DELAYS: Final = (0.001, 0.005)
DISPATCH, SKUPPER, OURS = "dispatch", "skupper", "routerd"


class Message(msgspec.Struct, frozen=True):
    """A control message on its way: address, bytes, and the routers that it has passed."""

    to: str
    content: bytes
    trace: tuple[str, ...]


class Link:
    """A connection between two routers; a severed one carries nothing, and neither end notices."""

    def __init__(self, one: "Router", other: "Router", cost: int, number: int) -> None:
        self.ends = (one, other)
        self.cost = cost
        self.number = number
        self.open = False
        self.severed = False
        self.opened = 0  # how often; what was on its way before is lost
        self.delay = 0.0

    def peer(self, router: "Router") -> "Router":
        return self.ends[1] if router is self.ends[0] else self.ends[0]


class Table:
    """A model of the forwarder's tables and how it uses them."""

    def __init__(self, router: "Router") -> None:
        self.router = router
        self.names: dict[int, str] = {}
        self.bits: dict[str, int] = {}
        self.links: dict[int, int] = {}
        self.paths: dict[int, tuple[int, int, frozenset[int]]] = {}
        self.destinations: dict[str, dict[int, int]] = {}
        self.radius = 0

    def send(self, to: str, content: bytes, neighbour: int | None) -> None:
        message = Message(to, content, ())
        if neighbour is None:
            self.router.forward(message, None)
        else:
            self.router.transmit(message, neighbour)

    def _changed(self) -> None:
        self.router.world.changed_at = self.router.world.now

    def add_router(self, bit: int, router_id: str) -> None:
        assert bit in range(1, 128)
        assert bit not in self.names
        self.names[bit] = router_id
        self.bits[router_id] = bit

    def remove_router(self, bit: int) -> None:
        del self.bits[self.names.pop(bit)]
        self.paths.pop(bit, None)
        self.links.pop(bit, None)
        assert not any(bit in routers for routers in self.destinations.values())

    def clear(self, bit: int) -> bool:
        return True

    def set_link(self, bit: int, neighbour: int) -> None:
        assert bit in self.names
        self.links[bit] = neighbour

    def remove_link(self, bit: int) -> None:
        del self.links[bit]

    def set_path(self, bit: int, next_hop: int, cost: int, valid_origins: frozenset[int]) -> None:
        assert bit in self.names
        assert next_hop == -1 or next_hop in self.links, (self.router.name, bit, next_hop)
        self.paths[bit] = (next_hop, cost, valid_origins)
        self._changed()

    def set_radius(self, radius: int) -> None:
        self.radius = radius

    def map_destination(self, key: str, bit: int, treatment: int) -> None:
        assert bit in self.names
        self.destinations.setdefault(key, {})[bit] = treatment
        self._changed()

    def unmap_destination(self, key: str, bit: int) -> None:
        del self.destinations[key][bit]
        if not self.destinations[key]:
            del self.destinations[key]
        self._changed()

    def next_link(self, router: str) -> int | None:
        """Return the connection towards a router."""
        next_hop = self.paths.get(self.bits.get(router, 0), (-1, 0, frozenset()))[0]
        return self.links.get(next_hop)

    def flood_links(self, trace: tuple[str, ...], by_origin: bool) -> list[int]:
        """Return the connections for a flood: one copy each, and never back where it has been."""
        origin = self.bits.get(trace[0], 0) if trace else 0
        hops = {
            next_hop
            for next_hop, _, origins in self.paths.values()
            if next_hop in self.links and (not origin or not by_origin or origin in origins)
        }
        return [self.links[hop] for hop in sorted(hops) if self.names[hop] not in trace]


class Router:
    """One router; ``kind`` is its dialect."""

    def __init__(self, world: "World", name: str, kind: str = OURS) -> None:
        self.world = world
        self.name = name
        self.kind = kind
        self.addresses: dict[str, int] = {}
        self.links: dict[int, Link] = {}
        self.received = 0
        self.sent = 0
        self.looped = 0
        self.seconds = 0.0
        self.life = world.instance()
        self.table = Table(self)
        self.network = self._network()

    def _network(self) -> Network:
        return Network(Identity(self.name), self.life, self.world.settings, self.table)

    def restart(self) -> None:
        """Lose all state, and start again with the same connections."""
        links = [link for link in self.links.values() if link.open]
        for link in links:
            self.world.close(link)
        self.life = self.world.instance()
        self.table = Table(self)
        self.network = self._network()
        for key, treatment in self.addresses.items():
            self.network.local_address(key, treatment)
        for link in links:
            self.world.open(link)

    def listen(self, key: str, treatment: int) -> None:
        self.addresses[key] = treatment
        self.network.local_address(key, treatment)

    def ignore(self, key: str) -> None:
        del self.addresses[key]
        self.network.local_address(key, None)

    def dialect_of(self, peer: "Router") -> str:
        """Return the dialect it assumes of a neighbour; only routerds know that there are two."""
        return peer.kind if self.kind == OURS else self.kind

    def timed(self, call: Callable[[], None]) -> None:
        began = time.process_time()
        call()
        self.network.tick(self.world.now)
        self.seconds += time.process_time() - began

    def tick(self) -> None:
        self.timed(lambda: None)

    def transmit(self, message: Message, number: int) -> None:
        link = self.links.get(number)
        if link is None or not link.open:
            return
        self.sent += 1
        self.world.messages += 1
        copy = Message(message.to, message.content, (*message.trace, self.name))
        peer = link.peer(self)
        if not link.severed and not self.world.loses():
            opened = link.opened
            self.world.after(link.delay, lambda: peer.arrived(copy, link, opened))

    def arrived(self, message: Message, link: Link, opened: int) -> None:
        if not link.open or link.severed or link.opened != opened:
            return
        self.received += 1
        if len(message.trace) > self.table.radius + 1 and not message.to.startswith("amqp:/_local/"):
            self.looped += 1
            return
        target = addressee(message.to)
        if target in ("", "all", self.name):
            self.take(message, link)
        if target not in ("", self.name):
            self.forward(message, link)

    def take(self, message: Message, link: Link) -> None:
        self.world.taken(self, message)
        self.timed(lambda: self.network.received(link.number, message.content, self.world.now))

    def forward(self, message: Message, link: Link | None) -> None:
        """Forward a message by the tables, unless it would cross a border, where a routerd translates it."""
        target = addressee(message.to)
        if target == "all":
            numbers = self.table.flood_links(message.trace, self.world.by_origin)
        else:
            number = self.table.next_link(target)
            numbers = [] if number is None else [number]
        for number in numbers:
            if not self._crosses(message, link, self.links[number]):
                self.transmit(message, number)
            elif target != "all" and link is not None:
                self.take(message, link)

    def _crosses(self, message: Message, link: Link | None, out: Link) -> bool:
        if link is None or self.kind != OURS or not message.to.endswith(".ma"):
            return False
        return (link.peer(self).kind == SKUPPER) != (out.peer(self).kind == SKUPPER)


class World:
    """All routers, all connections, and the clock."""

    def __init__(self, seed: int, settings: NetworkSetup | None = None, by_origin: bool = True) -> None:
        self.random = random.Random(seed)  # noqa: S311  repeatable, and keeps no secret
        self.settings = settings or NetworkSetup()
        self.by_origin = by_origin
        self.loss = 0.0  # the share of messages that get lost
        self.now = 0.0
        self.messages = 0
        self.changed_at = 0.0
        self.routers: dict[str, Router] = {}
        self.links: list[Link] = []
        self.taken: Callable[[Router, Message], None] = lambda router, message: None
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._instances = 1_700_000_000

    def instance(self) -> int:
        self._instances += 1
        return self._instances

    def loses(self) -> bool:
        """Whether the next message gets lost."""
        return self.loss > 0 and self.random.random() < self.loss

    def after(self, delay: float, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, call))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, call = heapq.heappop(self._events)
            call()
        self.now = end

    def add(self, name: str, kind: str = OURS) -> Router:
        router = self.routers[name] = Router(self, name, kind)
        self._tick(router, self.random.random() * TICK)
        return router

    def _tick(self, router: Router, delay: float) -> None:
        def tick() -> None:
            router.tick()
            self._tick(router, TICK)

        self.after(delay, tick)

    def connect(self, one: str, other: str, cost: int = 1) -> Link:
        link = Link(self.routers[one], self.routers[other], cost, len(self.links) + 1)
        link.delay = self.random.uniform(*DELAYS)
        self.links.append(link)
        self.open(link)
        return link

    def open(self, link: Link) -> None:
        if link.open:
            return
        link.open, link.severed, link.opened = True, False, link.opened + 1
        for router in link.ends:
            router.links[link.number] = link
        for router in link.ends:
            dialect = router.dialect_of(link.peer(router))
            router.timed(partial(router.network.neighbour_up, link.number, link.cost, dialect))

    def close(self, link: Link) -> None:
        if not link.open:
            return
        link.open = False
        for router in link.ends:
            router.timed(partial(router.network.neighbour_lost, link.number))

    def sever(self, link: Link) -> None:
        """Make a connection carry nothing, without notice to its ends."""
        link.severed = True

    def mend(self, link: Link) -> None:
        link.severed = False

    # -- what the tables should say -----------------------------------------------------------------------

    def states(self) -> dict[str, dict[str, int]]:
        """Return the true link states of the routers."""
        states: dict[str, dict[str, int]] = {name: {} for name in self.routers}
        for link in self.links:
            if link.open and not link.severed:
                one, other = (router.name for router in link.ends)
                cost = min(link.cost, states[one].get(other, link.cost))
                states[one][other] = states[other][one] = cost
        return states

    def wrong(self, paths: Callable[[str], dict[str, tuple[str, int]]]) -> list[str]:
        """Return the errors in all routers' tables; ``paths`` has the next hop and cost from a router."""
        return [
            f"{router.name}: {what}" for router in self.routers.values() for what in _wrong(router, paths(router.name))
        ]


def _wrong(router: Router, paths: dict[str, tuple[str, int]]) -> Iterable[str]:
    table = router.table
    found = {
        table.names[bit]: (table.names[next_hop], cost)
        for bit, (next_hop, cost, _) in table.paths.items()
        if next_hop != -1
    }
    if found != paths:
        yield f"ways {sorted(found.items() ^ paths.items())[:6]}"
    expected = {
        (key, name, treatment) for name in paths for key, treatment in router.world.routers[name].addresses.items()
    }
    mapped = {
        (key, table.names[bit], treatment)
        for key, bits in table.destinations.items()
        for bit, treatment in bits.items()
    }
    if mapped != expected:
        yield f"addresses {sorted(mapped ^ expected)[:6]}"

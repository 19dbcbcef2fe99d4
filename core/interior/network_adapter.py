"""Connects the router protocol with the forwarder's tables.

``NetworkAdapter`` is the protocol's port. It sends the protocol's messages, passes on those from control
links with their neighbour, gives the time, and reports which addresses have receivers here.
"""

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from itertools import islice
from math import ceil
from typing import TYPE_CHECKING, Final

from core.addresses.addresses import Address, Rule, mobile_text
from core.forwarder.recorded import Nodes
from core.interior.inter_router import InterRouters
from core.link_routes.routes import CLASSES, LINK_BALANCED, Routes
from core.link_routes.routes import PORTION as ROUTES
from core.links.base import Base
from core.links.connections import Hop
from core.links.plane import Plane
from core.links.streams import Streams
from shm.contract.failures import failures
from shm.statistics.board import EDGES, Board, EdgeRow, RouterRow, short
from shm.statistics.stats import COUNTERS

if TYPE_CHECKING:
    from core.interior.network import Network
    from core.links.link import Link
    from shm.contract.payloads import Detach

LOGGER = logging.getLogger("ROUTER")

PATHS_CHANGED: Final = COUNTERS["ways_changed"].place
TOPOLOGY_CHANGED: Final = COUNTERS["topology_changed"].place
TICK_NS: Final = 1_000_000_000
LARGEST_COST: Final = 2**32 - 1  # of a path, in the forwarder's table
PORTION: Final = 16  # destinations of routers that change before others have their turn: some 0.1 ms
ROUTE: Final = PORTION // ROUTES  # so many of them a link route counts for
FLOOD: Final = Rule("flood")
CONTROL: Final = Rule("control")
EVERYWHERE: Final = {"Tqdrouter": FLOOD, "Tqdrouter.ma": CONTROL}
HEARD: Final = {
    "_local/qdhello": FLOOD,
    "_local/qdrouter": FLOOD,
    "_local/qdrouter.ma": CONTROL,
    "_topo/{area}/all/qdrouter": FLOOD,
    "_topo/{area}/all/qdrouter.ma": CONTROL,
}
LONGEST: Final = 4 << 20  # octets of a message: routers of another make tell all their addresses in one
ADVERTISED: Final = "MH"  # classes of keys that are announced to other routers
MAPPED: Final = "MH"  # classes of keys by which messages go to other routers

# How MAU numbers treatments, as in qpid-dispatch.
NUMBERS: Final = {"multicast": 1, "closest": 2, "balanced": 3, "unavailable": 5}
TREATMENTS: Final = {number: name for name, number in NUMBERS.items() if name != "unavailable"}


class NetworkAdapter(Plane):
    """One router's part of the network. A standalone router has none."""

    def __init__(self, base: Base, streams: Streams) -> None:
        self._forwarder = base.forwarder
        self._addresses = base.addresses
        self._local = base.local
        self._me = base.me
        self.nodes = Nodes(base.forwarder)
        self.nodes.add_router(0, self._text(base.me.router_id))
        self.inter_routers = InterRouters(base, self.nodes, streams, self._event)
        self._network: Network | None = None
        self._routers: dict[int, str] = {}  # by bit
        self._consumers: Counter[str] = Counter()  # receivers here, by key
        self._hops: dict[int, int] = {}  # the next hop's bit, by bit
        self._neighbours: dict[int, int] = {}  # number of the connection to a neighbour, by bit
        self._routes: Routes | None = None
        self._ticked = 0
        self.routes = 0  # changes whenever the network has changed
        self._changed = True  # the protocol may have something to send
        self._left = PORTION  # of this turn
        self._waiting: dict[int, OrderedDict[str, int | None]] = {}  # by bit and key: the treatment; None: unmapped

    def start(self, network: Callable[["NetworkAdapter"], "Network"]) -> None:
        """Start the protocol, which ``network`` builds with this adapter as its port."""
        for spelling, rule in HEARD.items():
            text = spelling.format(area=self._me.area)
            self._addresses.fix(text, rule)
            self._local.listen(text, self._heard, LONGEST)
        self._addresses.changed = self._treated
        self.nodes.set_border(self._addresses.resolve("_local/qdrouter.ma").handle)
        self._network = network(self)
        for key in self._consumers:
            if (address := self._addresses.known(key)) is not None:
                self._network.local_address(key, NUMBERS[address.rule.distribution])

    def share(self, routes: Routes) -> None:
        """Exchange link routes with other routers."""
        self._routes = routes
        routes.advertise = self._advertise

    def _advertise(self, key: str, there: bool) -> None:
        self._changed = True
        if self._network is not None:
            self._network.local_address(key, LINK_BALANCED if there else None)

    def path_to(self, router: int) -> Hop | None:
        """Return the connection to the next hop on the path to a router, with its worker, or None."""
        hop = self._hops.get(router, -1)
        inter_router = self.inter_routers.numbered(self._neighbours[hop]) if hop in self._neighbours else None
        return None if inter_router is None or not inter_router.up else (inter_router.worker, inter_router.opened)

    def __len__(self) -> int:
        """Return the number of other known routers."""
        return len(self._routers)

    @property
    def network(self) -> "Network":
        """The router protocol. `start` comes first."""
        assert self._network is not None, "start comes first"
        return self._network

    def _text(self, router_id: str) -> bytes:
        return f"{self._me.area}/{router_id}".encode()

    # ---- events of planes ----

    @property
    def restless(self) -> bool:
        """Whether the protocol may have something to send, or destinations wait."""
        return self._changed or bool(self._waiting)

    def pause(self, now: int) -> int | None:
        """See `Plane`: changed addresses wait for their turn."""
        wait = None if self._network is None else self._network.due(now / TICK_NS)
        return None if wait is None else ceil(wait * TICK_NS)

    def attached(self, link: "Link") -> None:
        """Count a receiver's new link."""
        if link.outgoing and link.address is not None:
            self._consumer(link.address, 1)

    def detached(self, link: "Link", detach: "Detach | None") -> None:
        """Forget a receiver's link that is gone."""
        if link.outgoing and link.address is not None:
            self._consumer(link.address, -1)

    def served(self, address: Address, number: int, sends: bool) -> None:
        """Announce what this router itself receives, as for its clients' receivers."""
        if not sends:
            self._consumer(address, number)

    # ---- events for the protocol ----

    def _event(self) -> "Network":
        """Return the router protocol for an event, after which it may have something to send."""
        self._changed = True
        return self.network

    def _heard(self, content: bytes, place: int) -> None:
        inter_router = self.inter_routers.at(place)
        if inter_router is not None and inter_router.up:
            self._event().received(inter_router.number, content, self._forwarder.now / TICK_NS)

    def _consumer(self, address: Address, number: int) -> None:
        """Count a receiver of an address that came (1) or went (-1)."""
        key = address.key
        if key[0] not in ADVERTISED:
            return
        self._consumers[key] += number
        if self._network is None:
            return  # `start` announces it
        if self._consumers[key] == number == 1:
            self._event().local_address(key, NUMBERS[address.rule.distribution])
        elif not self._consumers[key]:
            del self._consumers[key]
            self._event().local_address(key, None)

    def _treated(self, address: Address) -> None:
        """Announce the other treatment of an address that has receivers here."""
        if address.key in self._consumers:
            self._event().local_address(address.key, NUMBERS[address.rule.distribution])

    def step(self, now: int) -> None:
        """Run the protocol once per second, after every change and when addresses are due. ``now`` is in ns."""
        try:
            self._step(now)
        except Exception as error:  # other routers' input must not end this core, nor the next one, which gets it again
            failures.tell("the router protocol", error, "it goes on within a second")

    def _step(self, now: int) -> None:
        self._go_on()
        if not self._changed and now - self._ticked < TICK_NS and self.pause(now) != 0:
            return
        if now - self._ticked >= TICK_NS:
            self._ticked = now
            self.inter_routers.check(now)
        self._changed = False
        self.network.tick(now / TICK_NS)
        self._forwarder.gauge(TOPOLOGY_CHANGED, self.network.last_change)
        self._forwarder.publish()

    # ---- the protocol's port ----

    def send(self, to: str, content: bytes, neighbour: int | None) -> None:
        """Send a message to other routers. It may be lost, like every message of the protocol."""
        if neighbour is None:
            self._local.tell_routers(to, content)
        elif (inter_router := self.inter_routers.numbered(neighbour)) is not None:
            self._local.tell_neighbour(inter_router.place, content)

    def add_router(self, bit: int, router_id: str) -> None:
        """Enter a router that has become known, by a clear bit."""
        self.nodes.add_router(bit, self._text(router_id))
        self._routers[bit] = router_id
        self._remote(f"R{router_id}", bit, Rule("closest"))
        for key, rule in EVERYWHERE.items():
            self._remote(key, bit, rule)

    def remove_router(self, bit: int) -> None:
        """Forget a router of which all destinations have been unmapped."""
        router_id = self._routers.pop(bit)
        self._hops.pop(bit, None)
        self._neighbours.pop(bit, None)
        for key in (f"R{router_id}", *EVERYWHERE):
            self._drop(key, bit)
        self.nodes.remove_router(bit)

    def clear(self, bit: int) -> bool:
        """Whether no destination of the former router of a bit waits for its turn to go."""
        return bit not in self._waiting

    def set_link(self, bit: int, neighbour: int) -> None:
        """Set the connection to a neighbour."""
        self.routes += 1
        inter_router = self.inter_routers.numbered(neighbour)
        self._neighbours[bit] = neighbour
        self.nodes.set_neighbour(bit, -1 if inter_router is None else inter_router.place)

    def remove_link(self, bit: int) -> None:
        """Mark a router as no neighbour."""
        self.routes += 1
        self._neighbours.pop(bit, None)
        self.nodes.set_neighbour(bit, -1)

    def set_path(self, bit: int, next_hop: int, cost: int, valid_origins: frozenset[int]) -> None:
        """Set the path to a router; ``next_hop`` -1 means that there is none.

        Paths that cost more than the forwarder's table can hold cost the same.
        """
        self._forwarder.count(PATHS_CHANGED)
        self.routes += 1
        self._hops[bit] = next_hop
        self.nodes.set_path(bit, next_hop, min(cost, LARGEST_COST), valid_origins)

    def set_radius(self, radius: int) -> None:
        """Set the number of hops to the farthest router."""
        self.nodes.set_radius(radius)

    def map_destination(self, key: str, bit: int, treatment: int) -> None:
        """Record that a router has receivers of an address, in one of the next turns if there are many."""
        self._change(key, bit, treatment)

    def unmap_destination(self, key: str, bit: int) -> None:
        """Record that a router has no more receivers of an address, likewise."""
        self._change(key, bit, None)

    def _change(self, key: str, bit: int, treatment: int | None) -> None:
        if self._left > 0 and bit not in self._waiting:
            self._map(key, bit, treatment)
            return
        waiting = self._waiting.setdefault(bit, OrderedDict())
        if treatment is None and waiting.get(key) is not None and not self._mapped(key, bit):
            del waiting[key]  # it has come and gone while it waited
        else:
            waiting[key] = treatment

    def _mapped(self, key: str, bit: int) -> bool:
        """Whether a router's destination is in the tables."""
        if key and key[0] in CLASSES and self._routes is not None:
            route = self._routes.known(key)
            return route is not None and bit in route.remotes
        address = self._addresses.known(key)
        return address is not None and self.nodes.has_remote(address.handle, bit)

    def _go_on(self) -> None:
        """Change a portion of the destinations that wait, one router after the other."""
        self._left = PORTION
        if not self._waiting:
            return
        for bit, waiting in list(self._waiting.items()):
            while waiting and self._left > 0:
                key, treatment = waiting.popitem(last=False)
                self._map(key, bit, treatment)
            if not waiting:
                del self._waiting[bit]
        self._forwarder.publish()

    def _map(self, key: str, bit: int, treatment: int | None) -> None:
        there = treatment is not None
        if key and key[0] in CLASSES and self._routes is not None:
            self._left -= ROUTE
            (self._routes.map if there else self._routes.unmap)(key, bit)
        elif key and key[0] in MAPPED:
            self._left -= 1
            hint = None if treatment is None else TREATMENTS.get(treatment)
            if there:
                self._remote(key, bit, None if hint is None else Rule(hint))
            else:
                self._drop(key, bit)

    def _remote(self, key: str, bit: int, hint: Rule | None) -> None:
        self.routes += 1
        address = self._addresses.of_key(key, hint)
        if key[0] == "M":
            self._forwarder.set_text(address.handle, mobile_text(key).encode("utf-8", "surrogateescape"))
        self.nodes.add_remote(address.handle, bit)

    def _drop(self, key: str, bit: int) -> None:
        self.routes += 1
        address = self._addresses.known(key)
        if address is not None:
            self.nodes.drop_remote(address.handle, bit)
            self._addresses.forget_idle(address)

    def show(self, board: Board) -> None:
        """Write the other routers, and the connections between routers, onto the board."""
        if self._network is None:
            return
        rows = self._network.nodes()
        board.routers = [
            RouterRow(short(row["id"]), short(row["nextHop"] or ""), row["cost"], *self._traffic(row["index"]))
            for row in rows[1:]
        ]
        place = {row["id"]: number for number, row in enumerate(rows)}
        edges: dict[tuple[int, int], int] = {}
        for one, row in enumerate(rows):
            for peer, cost in row["costs"].items():
                if (other := place.get(peer)) is not None:
                    edge = min(one, other), max(one, other)
                    edges[edge] = max(cost, edges.get(edge, 0))
        board.edges = [EdgeRow(*edge, cost) for edge, cost in islice(edges.items(), EDGES)]

    def _traffic(self, bit: int) -> tuple[int, int]:
        """Return how many deliveries came from a neighbour and went to it; 0 of any other router.

        Links of link routes and streaming links, of which there may be very many, are not counted.
        """
        number = self._neighbours.get(bit)
        found = None if number is None else self.inter_routers.numbered(number)
        if found is None:
            return 0, 0
        counts = [0, 0]
        for link in found.own.values():
            info = self._forwarder.link_info(found.worker, link.link, link.generation)
            counts[link.outgoing] += info["deliveries"] if info else 0
        return counts[False], counts[True]

    # ---- for management ----

    def router_ids(self, handle: int) -> list[str]:
        """Return the ids of the routers that have receivers of an address, by its handle."""
        return self.names(self.nodes.remotes(handle))

    def names(self, bits: Iterable[int]) -> list[str]:
        """Return the ids of routers, by their bits."""
        return [self._routers[bit] for bit in bits if bit in self._routers]

"""The network and the forwarder, joined: what the router protocol decides is written into the tables here.

``NetworkAdapter`` is the port of the protocol. It sends its messages, hands it those that came over control
links with the neighbour they came from, gives it the time, and tells it which addresses have receivers here.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from core.addresses.addresses import Address, Addresses, Identity, Rule, mobile_text
from core.addresses.names import Names
from core.forwarder.forward import ROUTED_LINK, Forwarder, Nodes
from core.interior.inter_router import InterRouters
from core.link_routes.routes import CLASSES, LINK_BALANCED, Routes
from core.links.local import Local
from core.links.streams import Streams
from core.process.plane import Plane
from shm.stats import COUNTERS

if TYPE_CHECKING:
    from core.interior.nodes import NodeView
    from core.links.link import Link
    from shm.contract.payloads import ConnectionOpened, Detach, LinkRefused

LOGGER = logging.getLogger("ROUTER")

WAYS_CHANGED: Final = COUNTERS["ways_changed"].place
TOPOLOGY_CHANGED: Final = COUNTERS["topology_changed"].place
TICK_NS: Final = 1_000_000_000
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
ADVERTISED: Final = "MH"  # classes of keys that other routers are told of
MAPPED: Final = "MH"  # classes that messages are sent to other routers by

# How the protocol numbers treatments (facts of the protocol, MAU).
NUMBERS: Final = {"multicast": 1, "closest": 2, "balanced": 3, "unavailable": 5}
TREATMENTS: Final = {number: name for name, number in NUMBERS.items() if name != "unavailable"}


class Network(Protocol):
    """The router protocol, as far as it is driven from here."""

    def neighbour_up(self, neighbour: int, cost: int, dialect: str, told: int) -> None: ...
    def neighbour_cost(self, neighbour: int, cost: int) -> None: ...
    def neighbour_lost(self, neighbour: int) -> None: ...
    def received(self, neighbour: int, content: bytes, now: float) -> None: ...
    def local_address(self, key: str, treatment: int) -> None: ...
    def local_address_gone(self, key: str) -> None: ...
    def tick(self, now: float) -> None: ...
    def nodes(self) -> "list[NodeView]": ...
    @property
    def last_change(self) -> int: ...


class NetworkAdapter(Plane):
    """One router's part of the network; nothing of it is there in a router that stands alone."""

    def __init__(
        self,
        forwarder: Forwarder,
        addresses: Addresses,
        local: Local,
        me: Identity,
        names: Names,
        streams: Streams,
    ) -> None:
        self._forwarder = forwarder
        self._addresses = addresses
        self._local = local
        self._me = me
        self.nodes = Nodes(forwarder)
        self.nodes.add_router(0, self._text(me.router_id))
        self.inter_routers = InterRouters(forwarder, self.nodes, names, streams, self)
        self._network: Network | None = None
        self._routers: dict[int, str] = {}  # by bit
        self._consumers: Counter[str] = Counter()  # receivers here, by key
        self._hops: dict[int, int] = {}  # the bit of the next hop, by bit
        self._neighbours: dict[int, int] = {}  # number of the trunk to a neighbour, by bit
        self._routes: Routes | None = None
        self._ticked = 0
        self.routes = 0  # another number whenever the network has changed
        self._changed = True  # the protocol has heard something, and may have something to say

    def start(self, network: Callable[["NetworkAdapter"], Network]) -> None:
        """Join: ``network`` makes the protocol with this as its outlet."""
        for spelling, rule in HEARD.items():
            text = spelling.format(area=self._me.area)
            self._addresses.fix(text, rule)
            self._local.listen(text, self._heard)
        self.nodes.set_border(self._addresses.resolve("_local/qdrouter.ma").handle)
        self._network = network(self)
        for key in self._consumers:
            if (address := self._addresses.known(key)) is not None:
                self._network.local_address(key, NUMBERS[address.rule.distribution])

    def share(self, routes: Routes) -> None:
        """Tell other routers of our link routes, and hear of theirs."""
        self._routes = routes
        routes.advertise = self._advertise

    def _advertise(self, key: str, there: bool) -> None:
        self._changed = True
        if self._network is None:
            return
        if there:
            self._network.local_address(key, LINK_BALANCED)
        else:
            self._network.local_address_gone(key)

    def way_to(self, router: int) -> "tuple[int, ConnectionOpened] | None":
        """The connection to the next hop on the way to a router, and its worker."""
        hop = self._hops.get(router, -1)
        inter_router = self.inter_routers.numbered(self._neighbours[hop]) if hop in self._neighbours else None
        return (
            None
            if inter_router is None or not inter_router.up
            else (inter_router.worker, inter_router.opened)
        )

    def __len__(self) -> int:
        """Other routers that are known."""
        return len(self._routers)

    @property
    def network(self) -> Network:
        """The protocol."""
        assert self._network is not None, "start comes first"
        return self._network

    def _text(self, router_id: str) -> bytes:
        return f"{self._me.area}/{router_id}".encode()

    # ---- what planes hear ----

    @property
    def restless(self) -> bool:
        """Whether the protocol may have something to say."""
        return self._changed

    def opened(self, worker: int, opened: "ConnectionOpened") -> None:
        """A connection is open, perhaps to a neighbour."""
        self.inter_routers.opened(worker, opened)

    def cost(self, worker: int, opened: "ConnectionOpened") -> None:
        """Our end's cost of a connection is another one."""
        self.inter_routers.cost(worker, opened)

    def closed(self, worker: int, connection: int) -> None:
        """A connection is gone."""
        self.inter_routers.closed(worker, connection)

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        """A worker is dead, and its connections with it."""
        self.inter_routers.forget_worker(worker)

    def refused(self, refused: "LinkRefused") -> None:
        """The peer would not have a link."""
        self.inter_routers.refused(refused)

    def attached(self, link: "Link") -> None:
        """A link has come: receivers are told of."""
        if link.outgoing and link.address is not None:
            self._consumer(link.address, 1)

    def detached(self, link: "Link", detach: "Detach | None") -> None:
        """A link is gone, of a client or between routers."""
        if link.kind and link.kind != ROUTED_LINK:
            self.inter_routers.drop_link(
                link.worker, link.connection, link.kind, link.outgoing, link.priority
            )
        elif link.outgoing and link.address is not None:
            self._consumer(link.address, -1)

    def served(self, address: Address, number: int, sends: bool) -> None:
        """Other routers are told of what this one does itself, as of receivers."""
        if not sends:
            self._consumer(address, number)

    # ---- what the protocol is told ----

    def neighbour_up(self, neighbour: int, cost: int, dialect: str, told: int) -> None:
        """The control links to a neighbour are open."""
        self._changed = True
        self.network.neighbour_up(neighbour, cost, dialect, told)

    def neighbour_cost(self, neighbour: int, cost: int) -> None:
        """Our end's cost of the way to a neighbour is another one."""
        self._changed = True
        self.network.neighbour_cost(neighbour, cost)

    def neighbour_lost(self, neighbour: int) -> None:
        """A control link, or its connection, is gone."""
        self._changed = True
        self.network.neighbour_lost(neighbour)

    def _heard(self, content: bytes, place: int) -> None:
        inter_router = self.inter_routers.at(place)
        if inter_router is not None and inter_router.up:
            self._changed = True
            self.network.received(inter_router.number, content, self._forwarder.now / TICK_NS)

    def _consumer(self, address: Address, number: int) -> None:
        """A receiver of an address has come (1) or gone (-1) here."""
        key = address.key
        if key[0] not in ADVERTISED:
            return
        self._consumers[key] += number
        if self._network is None:
            return  # told when it begins
        if self._consumers[key] == number == 1:
            self._network.local_address(key, NUMBERS[address.rule.distribution])
        elif not self._consumers[key]:
            del self._consumers[key]
            self._network.local_address_gone(key)

    def step(self, now: int) -> None:
        """Once per second, and after every change."""
        if not self._changed and now - self._ticked < TICK_NS:
            return
        if now - self._ticked >= TICK_NS:
            self._ticked = now
            self.inter_routers.step(now)
        self._changed = False
        self.network.tick(now / TICK_NS)
        self._forwarder.gauge(TOPOLOGY_CHANGED, self.network.last_change)
        self._forwarder.publish()

    # ---- what the protocol says (its Outlet) ----

    def send(self, to: str, content: bytes, neighbour: int | None) -> None:
        """A message to other routers; it may be lost, as everything that they say to each other."""
        if neighbour is None:
            self._local.tell_routers(to, content)
        elif (inter_router := self.inter_routers.numbered(neighbour)) is not None:
            self._local.tell_neighbour(inter_router.place, content)

    def add_router(self, bit: int, router_id: str) -> None:
        """A router has become known."""
        self.nodes.add_router(bit, self._text(router_id))
        self._routers[bit] = router_id
        self._remote(f"R{router_id}", bit, Rule("closest"))
        for key, rule in EVERYWHERE.items():
            self._remote(key, bit, rule)

    def remove_router(self, bit: int) -> None:
        """It is forgotten, and what it had receivers for."""
        self.routes += 1
        del self._routers[bit]
        self._hops.pop(bit, None)
        self._neighbours.pop(bit, None)
        if self._routes is not None:
            self._routes.forget_router(bit)
        for address in self._addresses.entries():
            if self.nodes.has_remote(address.handle, bit):
                self._drop(address.key, bit)
        self.nodes.remove_router(bit)

    def set_link(self, bit: int, neighbour: int) -> None:
        """A router is the peer of a connection."""
        self.routes += 1
        inter_router = self.inter_routers.numbered(neighbour)
        self._neighbours[bit] = neighbour
        self.nodes.set_neighbour(bit, -1 if inter_router is None else inter_router.place)

    def remove_link(self, bit: int) -> None:
        """It is no neighbour any more."""
        self.routes += 1
        self._neighbours.pop(bit, None)
        self.nodes.set_neighbour(bit, -1)

    def set_path(self, bit: int, next_hop: int, cost: int, valid_origins: frozenset[int]) -> None:
        """The way to a router; ``next_hop`` -1: there is none."""
        self._forwarder.count(WAYS_CHANGED)
        self.routes += 1
        self._hops[bit] = next_hop
        self.nodes.set_path(bit, next_hop, cost, valid_origins)

    def set_radius(self, radius: int) -> None:
        """Hops to the farthest router."""
        self.nodes.set_radius(radius)

    def map_destination(self, key: str, bit: int, treatment: int) -> None:
        """A router has receivers of an address."""
        if key and key[0] in CLASSES and self._routes is not None:
            self._routes.map(key, bit)
        elif key and key[0] in MAPPED:
            hint = TREATMENTS.get(treatment)
            self._remote(key, bit, None if hint is None else Rule(hint))

    def unmap_destination(self, key: str, bit: int) -> None:
        """It has no more of them."""
        if key and key[0] in CLASSES and self._routes is not None:
            self._routes.unmap(key, bit)
        elif key and key[0] in MAPPED:
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

    # ---- what management is told ----

    def router_ids(self, handle: int) -> list[str]:
        """The routers that have receivers of an address, by its handle."""
        return self.names(self.nodes.remotes(handle))

    def names(self, bits: Iterable[int]) -> list[str]:
        """Ids of routers."""
        return [self._routers[bit] for bit in bits if bit in self._routers]

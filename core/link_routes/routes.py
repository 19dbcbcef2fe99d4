"""Link routes: which addresses have one, and which brokers serve it here or at other routers.

A route's key follows the tables and tools of qpid-dispatch: C and E take senders in, D and F receivers out; C
and D are prefixes, E and F patterns. A route exists while it is configured, offered by a connection or served
at another router. Other routers are told of it while a broker for it is connected here.
"""

import logging
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import msgspec

from core.addresses.addresses import tokens
from core.addresses.agent_address import is_own
from core.links.brokers import ByBroker
from core.links.named import Named
from core.links.plane import Plane
from core.links.termini import Change
from core.links.terminus import ROUTE_CONTAINER
from shm.contract.complaints import bursts
from shm.contract.control import LinkRouteSetup, SetLinkRoutes
from shm.contract.patterns import Patterns
from shm.contract.payloads import ConnectionOpened

LOGGER = logging.getLogger("ROUTER_CORE")

CLASSES: Final = "CDEF"
OUTWARD: Final = "DF"
PORTION: Final = 1  # routes that are forgotten before others have their turn: 0.25 ms of a pattern as long as can be
LINK_BALANCED: Final = 4  # as the router protocol numbers treatments

Host = tuple[int, int]  # worker, index of the connection in it


def route_key(outgoing: bool, prefix: str | None, pattern: str | None) -> str:
    """Return the key of a prefix's or pattern's route; `a.b.#` is the prefix `a.b`."""
    if prefix is None and pattern is not None and pattern.endswith("#"):
        head = pattern[:-1]
        if head.endswith((".", "/")) and head.strip("./") and not set(head) & {"*", "#"}:
            prefix = head[:-1]
    if prefix is not None:
        return f"{'D' if outgoing else 'C'}{prefix}"
    return f"{'F' if outgoing else 'E'}{pattern}"


class Route(msgspec.Struct):
    """A link route. ``hosts`` are connections here that serve it, ``remotes`` routers with others that do."""

    key: str
    add_prefix: str = ""
    remove_prefix: str = ""
    hosts: dict[Host, set[str]] = {}  # with the identities of the entities that ask for each
    turns: list[Host] = []  # the same in the order of their turns, which is that of their numbers
    remotes: set[int] = msgspec.field(default_factory=set)
    wanted: set[str] = msgspec.field(default_factory=set)  # identities of the entities that ask for it
    turn: int = 0
    deliveries: int = 0

    @property
    def outgoing(self) -> bool:
        """Whether it is for receivers."""
        return self.key[0] in OUTWARD

    @property
    def pattern(self) -> str:
        """The pattern of its addresses."""
        return f"{self.key[1:]}.#" if self.key[0] in "CD" else self.key[1:]

    @property
    def outward(self) -> Change:
        """The change of an address on its way to a broker."""
        return self.remove_prefix, self.add_prefix

    @property
    def inward(self) -> Change:
        """The change of an address on its way back."""
        return self.add_prefix, self.remove_prefix


class Offer(msgspec.Struct, frozen=True):
    """A route that a connection requests for its own lifetime."""

    identity: str
    host: Host
    name: str | None
    pattern: str
    outgoing: bool
    container: str


class Routes(Plane):
    """All link routes of this router.

    ``advertise`` tells other routers that a key is (True) or is not served.
    """

    def __init__(self) -> None:
        self.advertise: Callable[[str, bool], None] = lambda key, there: None
        self._routes: dict[str, Route] = {}
        self._patterns: dict[bool, Patterns[Route]] = {True: Patterns(), False: Patterns()}
        # Keys by tokens: a prefix and a pattern, or two spellings, may mean the same addresses. The last one has them.
        self._alike: dict[bool, Named[str]] = {True: Named(), False: Named()}
        self._setups: dict[str, LinkRouteSetup] = {}
        self._by_broker = ByBroker[LinkRouteSetup]()
        self._connections: dict[Host, ConnectionOpened] = {}
        self._served: dict[Host, dict[tuple[str, str], Route]] = {}  # by key and the identity that asks for it
        self._offers: dict[str, Offer] = {}
        self._offered_by: dict[Host, dict[str, Offer]] = {}
        self._offers_named: dict[Host, Named[str]] = {}  # identities
        self._offered = 0
        # Connections that are gone, of which routes are still to be forgotten.
        self._going: dict[Host, Iterator[None]] = {}
        self._lines = bursts()

    def entries(self) -> list[Route]:
        """Return all present routes."""
        return list(self._routes.values())

    def known(self, key: str) -> Route | None:
        """Return the route of this key, or None."""
        return self._routes.get(key)

    def find(self, address: str, outgoing: bool) -> Route | None:
        """Return the link route of an address, or None. A router's own addresses never have one.

        Raises SearchTooLongError for an address that takes too many steps to find.
        """
        if is_own(address):
            return None
        return self._patterns[outgoing].find(tokens(address))

    def active(self, setup: LinkRouteSetup) -> bool:
        """Whether a broker is connected for a configured route."""
        route = self._routes.get(_key(setup))
        return route is not None and any(setup.identity in wants for wants in list(route.hosts.values()))

    # ---- configuration ----

    def configure(self, change: msgspec.Struct) -> None:
        """Replace the routes by those of a `SetLinkRoutes`. Connected links stay."""
        if not isinstance(change, SetLinkRoutes):
            return
        wanted = {setup.identity: setup for setup in change.link_routes}
        for identity in [one for one, setup in self._setups.items() if wanted.get(one) != setup]:
            setup = self._setups.pop(identity)
            self._by_broker.remove(identity, setup.container, setup.connection)
            self._drop_setup(setup)
        for identity, setup in wanted.items():
            if identity not in self._setups:
                self._setups[identity] = setup
                self._by_broker.add(identity, setup.container, setup.connection, setup)
                self._add_setup(setup)

    def _add_setup(self, setup: LinkRouteSetup) -> None:
        route = self._route(_key(setup))
        route.add_prefix, route.remove_prefix = setup.add_prefix, setup.remove_prefix
        route.wanted.add(setup.identity)
        for host, opened in self._connections.items():
            if _serves(opened, setup):
                self._add_host(route, host, setup.identity)

    def _drop_setup(self, setup: LinkRouteSetup) -> None:
        route = self._route(_key(setup))
        for host in list(route.hosts):
            self._drop_host(route, host, setup.identity)
        route.wanted.discard(setup.identity)
        other = self._setups.get(min(route.wanted, default=""))
        route.add_prefix, route.remove_prefix = (other.add_prefix, other.remove_prefix) if other else ("", "")
        self._forget_idle(route)

    # ---- connections ----

    def opened(self, worker: int, opened: ConnectionOpened) -> None:
        """Let a new connection serve the routes that name it."""
        host = worker, opened.connection
        self.closed(*host)
        # An earlier connection in its place had other routes: they go at once, which takes as long as there are many.
        for _ in self._going.pop(host, ()):
            continue
        if opened.role != ROUTE_CONTAINER:
            return
        self._connections[host] = opened
        for setup in self._by_broker.of(opened):
            if _serves(opened, setup):
                self._add_host(self._route(_key(setup)), host, setup.identity)

    def closed(self, worker: int, connection: int) -> None:
        """Forget a connection that is gone, with its offers, in the coming steps."""
        host = worker, connection
        self._connections.pop(host, None)
        if host in self._served:
            self._going.setdefault(host, self._end(host))

    def _end(self, host: Host) -> Iterator[None]:
        """Forget what a connection that is gone offered and served, one route at a time."""
        for offer in self.offers(host):
            self.withdraw(offer)
            yield
        for (_, identity), route in list(self._served.get(host, {}).items()):
            self._drop_host(route, host, identity)
            yield

    @property
    def restless(self) -> bool:
        """Whether routes of connections that are gone are still to be forgotten."""
        return bool(self._going)

    def step(self, now: int) -> None:
        """Forget a portion of the routes of connections that are gone."""
        left = PORTION
        for host, end in list(self._going.items()):
            left -= sum(1 for _ in islice(end, left))
            if not left:
                return
            del self._going[host]

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        for host in set(self._served) | set(self._connections):
            if host[0] == worker:
                self.closed(*host)

    def offered(self, host: Host) -> int:
        """Return the number of routes that a connection requests."""
        return len(self._offered_by.get(host, ()))

    def offers(self, host: Host | None) -> list[Offer]:
        """Return the routes that a connection requests."""
        return [] if host is None else list(self._offered_by.get(host, {}).values())

    def identified(self, host: Host | None, identity: str) -> list[Offer]:
        """Return the route that a connection requests with this identity."""
        offer = None if host is None else self._offered_by.get(host, {}).get(identity)
        return [] if offer is None else [offer]

    def named(self, host: Host | None, name: str) -> list[Offer]:
        """Return the routes that a connection requests under this name."""
        named = None if host is None else self._offers_named.get(host)
        found = [] if named is None else [self._offers.get(identity) for identity in named.of(name)]
        return [offer for offer in found if offer is not None]

    def offer(self, host: Host, name: str | None, pattern: str, outgoing: bool, container: str) -> Offer:
        """Add a route that a connection requests for its own lifetime."""
        self._offered += 1
        offer = Offer(f"offer/{self._offered}", host, name, pattern, outgoing, container)
        self._offers[offer.identity] = self._offered_by.setdefault(host, {})[offer.identity] = offer
        if name is not None:
            self._offers_named.setdefault(host, Named()).add(name, offer.identity)
        self._add_host(self._route(route_key(outgoing, None, pattern)), host, offer.identity)
        return offer

    def withdraw(self, offer: Offer) -> None:
        """Remove a requested route; no-op if absent."""
        if self._offers.pop(offer.identity, None) is not None:
            of_host = self._offered_by[offer.host]
            del of_host[offer.identity]
            if offer.name is not None:
                self._offers_named[offer.host].remove(offer.name, offer.identity)
            if not of_host:
                del self._offered_by[offer.host]
                self._offers_named.pop(offer.host, None)
            route = self._route(route_key(offer.outgoing, None, offer.pattern))
            self._drop_host(route, offer.host, offer.identity)
            self._forget_idle(route)

    # ---- other routers ----

    def map(self, key: str, router: int) -> None:
        """Record that another router has brokers for a route."""
        self._route(key).remotes.add(router)

    def unmap(self, key: str, router: int) -> None:
        """Record that another router has no more brokers for a route."""
        route = self._routes.get(key)
        if route is not None:
            route.remotes.discard(router)
            self._forget_idle(route)

    # ---- the table of routes ----

    def _route(self, key: str) -> Route:
        route = self._routes.get(key)
        if route is None:
            route = self._routes[key] = Route(key, hosts={})
            found = tokens(route.pattern)
            self._alike[route.outgoing].add(".".join(found), key)
            self._patterns[route.outgoing].insert(found, route)
        return route

    def _add_host(self, route: Route, host: Host, identity: str) -> None:
        if host not in route.hosts:
            route.hosts[host] = set()
            insort(route.turns, host)
        route.hosts[host].add(identity)
        self._served.setdefault(host, {})[route.key, identity] = route
        if len(route.hosts) == 1 and len(route.hosts[host]) == 1:
            self._say("link route %s %s is active", route)
            self.advertise(route.key, True)

    def _drop_host(self, route: Route, host: Host, identity: str) -> None:
        wants = route.hosts.get(host)
        if wants is None:
            return
        wants.discard(identity)
        served = self._served[host]
        served.pop((route.key, identity), None)
        if not served:
            del self._served[host]
        if wants:
            return
        del route.hosts[host], route.turns[bisect_left(route.turns, host)]
        if not route.hosts:
            self._say("link route %s %s is inactive: its brokers are gone", route)
            self.advertise(route.key, False)
            self._forget_idle(route)

    def _say(self, text: str, route: Route) -> None:
        way = "out" if route.outgoing else "in"
        self._lines.tell(time.monotonic(), LOGGER, logging.INFO, text, route.pattern, way, key=(text, route.key))

    def _forget_idle(self, route: Route) -> None:
        if not route.hosts and not route.remotes and not route.wanted and self._routes.get(route.key) is route:
            del self._routes[route.key]
            patterns, alike, found = self._patterns[route.outgoing], self._alike[route.outgoing], tokens(route.pattern)
            alike.remove(text := ".".join(found), route.key)
            if others := alike.of(text):
                patterns.insert(found, self._routes[others[-1]])
            else:
                patterns.remove(found)


def _key(setup: LinkRouteSetup) -> str:
    return route_key(setup.outgoing, setup.prefix, setup.pattern)


def _serves(opened: ConnectionOpened, setup: LinkRouteSetup) -> bool:
    if setup.container is not None:
        return opened.container == setup.container
    return setup.connection is not None and setup.connection in (opened.connector, opened.listener)

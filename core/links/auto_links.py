"""Auto links, which the router attaches by itself to each connection that they are configured for.

inactive --connection--> attaching --the peer's attach--> active
attaching, active --refused or detached--> failed --after a pause--> attaching
any --the connection is gone--> inactive
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec

from core.addresses.addresses import FALLBACK as FALLBACK_PHASE
from core.addresses.phases import FALLBACK
from core.links.base import Base
from core.links.brokers import ByBroker
from core.links.link import Link
from core.links.plane import Plane
from core.links.terminus import ROUTE_CONTAINER
from shm.contract.complaints import bursts
from shm.contract.control import SetRouting
from shm.contract.payloads import Attach, ConnectionOpened, Detach, Error, LinkRefused
from shm.contract.routing import AutoLinkSetup

LOGGER = logging.getLogger("ROUTER_CORE")

FIRST_RETRY_NS: Final = 2_000_000_000
RETRY_NS: Final = 5_000_000_000
PORTION: Final = 16  # links that are requested before others have their turn: about half a millisecond
STATES: Final = ("active", "attaching", "failed")  # the best first

Key = tuple[int, int]  # worker, index of the link or connection in it


class Leg(msgspec.Struct):
    """An auto link on one connection: one leg."""

    auto: "AutoLink"
    worker: int
    opened: ConnectionOpened
    state: str = "inactive"  # or attaching, active, failed
    error: str = ""
    request: int = 0  # the pending link request, or 0
    link: tuple[int, int, int] | None = None  # worker, index, generation
    reference: int = 0  # the identity of the link
    tries: int = 0  # failures since the link was last active
    pause: int | None = None  # before the leg is tried again, nanoseconds; None: the leg does not wait
    due: int = 0  # when the pause is over

    @property
    def key(self) -> "Key":
        """Its connection."""
        return self.worker, self.opened.connection


class AutoLink(msgspec.Struct):
    """An auto link and the state of its legs. The agent's thread reads it, too."""

    setup: AutoLinkSetup
    legs: dict[Key, Leg] = msgspec.field(default_factory=dict)  # by connection

    @property
    def state(self) -> str:
        """The state of the leg that does best."""
        states = {leg.state for leg in list(self.legs.values())}
        return next((one for one in STATES if one in states), "inactive")

    @property
    def error(self) -> str:
        """The error of the first failed leg, or an empty text."""
        return next((leg.error for leg in list(self.legs.values()) if leg.error), "")

    @property
    def reference(self) -> int | None:
        """The identity of the link, or None without one."""
        return next((leg.reference for leg in list(self.legs.values()) if leg.link is not None), None)

    @property
    def phase(self) -> str:
        """The phase of the address."""
        fallback = self.setup.fallback and not self.setup.incoming
        return FALLBACK_PHASE if fallback else str(self.setup.phase)

    @property
    def peer_address(self) -> str:
        """The address that the peer knows the link by."""
        return self.setup.external or self.setup.address

    @property
    def broker(self) -> str:
        """The container or connection of its entity."""
        return self.setup.container or self.setup.connection

    @property
    def label(self) -> str:
        """The link's description for the log."""
        return f"auto link {self.setup.name or self.setup.address} {'in' if self.setup.incoming else 'out'}"


class AutoLinks(Plane):
    """All auto links of this router."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._links: dict[str, AutoLink] = {}  # by identity
        self._by_broker = ByBroker[AutoLink]()
        self._by_connection: dict[Key, dict[str, Leg]] = {}  # by identity
        self._by_address: dict[tuple[Key, bool, str], dict[str, Leg]] = {}  # incoming, the peer's address; by identity
        self._new: OrderedDict[Key, tuple[ConnectionOpened, list[AutoLink]]] = OrderedDict()  # last first
        # legs that are tried again later, by their pause: in each table they become due in its order
        self._paused: dict[int, OrderedDict[tuple[str, Key], Leg]] = {
            pause: OrderedDict() for pause in (FIRST_RETRY_NS, RETRY_NS)
        }
        self._by_request: dict[int, Leg] = {}
        self._by_link: dict[tuple[int, int, int], Leg] = {}
        self._lines = bursts()

    def find(self, identity: str) -> AutoLink | None:
        """Return the auto link with this management identity, or None."""
        return self._links.get(identity)

    def configure(self, change: msgspec.Struct) -> None:
        """Replace the auto links by those of a `SetRouting`. Unchanged ones keep their links."""
        if not isinstance(change, SetRouting):
            return
        wanted = {one.identity: one for one in change.routing.auto_links}
        for identity, auto in list(self._links.items()):
            if wanted.get(identity) != auto.setup:
                del self._links[identity]
                self._by_broker.remove(identity, auto.setup.container or None, auto.setup.connection)
                for leg in list(auto.legs.values()):
                    self._end(leg)
        new = {identity: AutoLink(setup) for identity, setup in wanted.items() if identity not in self._links}
        self._links |= new
        for identity, auto in new.items():
            self._by_broker.add(identity, auto.setup.container or None, auto.setup.connection, auto)
        for worker, opened, _ in self._base.connections.entries() if new else ():
            if opened.role == ROUTE_CONTAINER:
                self._begin(worker, opened, [auto for auto in self._by_broker.of(opened) if auto.setup.identity in new])

    # ---- connections ----

    def opened(self, worker: int, opened: ConnectionOpened) -> None:
        """Attach the auto links that match an open connection."""
        self.closed(worker, opened.connection)
        if opened.role != ROUTE_CONTAINER:
            return
        autos = self._by_broker.of(opened)
        if not opened.restored:
            self._begin(worker, opened, autos)
            return
        for auto in autos:  # the link may have outlived the core and is presented next
            if _matches(auto.setup, opened):
                self._pause(self._leg(auto, worker, opened), FIRST_RETRY_NS)

    def _begin(self, worker: int, opened: ConnectionOpened, autos: list[AutoLink]) -> None:
        """Let the coming steps attach auto links to a connection, those that match it."""
        if autos:
            autos.reverse()
            autos += self._new.get((worker, opened.connection), (opened, []))[1]
            self._new[worker, opened.connection] = opened, autos

    def closed(self, worker: int, connection: int) -> None:
        """Forget the legs of a connection that is gone. Their links went before it."""
        self._new.pop((worker, connection), None)
        for leg in list(self._by_connection.get((worker, connection), {}).values()):
            self._forget(leg)

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        """Forget the legs of a dead worker's connections."""
        for key in {*self._by_connection, *self._new}:
            if key[0] == worker:
                self.closed(*key)

    def _leg(self, auto: AutoLink, worker: int, opened: ConnectionOpened) -> Leg:
        key, identity = (worker, opened.connection), auto.setup.identity
        leg = auto.legs[key] = self._by_connection.setdefault(key, {})[identity] = Leg(auto, worker, opened)
        self._by_address.setdefault(_address(leg), {})[identity] = leg
        return leg

    def _pause(self, leg: Leg, pause: int) -> None:
        """Let a leg be tried again after one of the pauses of ``_paused``."""
        self._resume(leg)
        leg.pause, leg.due = pause, self._base.forwarder.now + pause
        self._paused[pause][leg.auto.setup.identity, leg.key] = leg

    def _resume(self, leg: Leg) -> None:
        if leg.pause is not None:
            del self._paused[leg.pause][leg.auto.setup.identity, leg.key]
            leg.pause = None

    def _forget(self, leg: Leg) -> None:
        self._by_request.pop(leg.request, None)
        if leg.link is not None:
            self._by_link.pop(leg.link, None)
        self._resume(leg)
        identity = leg.auto.setup.identity
        of_connection, of_address = self._by_connection[leg.key], self._by_address[_address(leg)]
        del leg.auto.legs[leg.key], of_connection[identity], of_address[identity]
        if not of_connection:
            del self._by_connection[leg.key]
        if not of_address:
            del self._by_address[_address(leg)]

    def _end(self, leg: Leg) -> None:
        """Detach a leg that the configuration no longer has."""
        if leg.link is not None:
            worker, link, generation = leg.link
            self._base.post(worker, Detach(link, generation))
        self._forget(leg)

    # ---- links ----

    def _open(self, leg: Leg) -> None:
        setup = leg.auto.setup
        address = leg.auto.peer_address
        self._resume(leg)
        leg.state = "attaching"
        leg.request = self._base.names.request()
        self._by_request[leg.request] = leg
        capabilities = [FALLBACK] if setup.fallback else []
        end = "source" if setup.incoming else "target"
        terms = {end: address, f"{end}_capabilities": capabilities}
        self._base.open_link(leg.worker, leg.opened, leg.request, not setup.incoming, **terms)

    def claim(self, worker: int, attach: Attach) -> Leg | None:
        """Return the leg that an attach belongs to, or None.

        A leg is found by the number of the link request, or for a link from before the core's restart by its
        address.
        """
        if attach.request or not attach.restored:
            return self._by_request.get(attach.request)
        legs = self._by_address.get(((worker, attach.connection), not attach.outgoing, attach.address or ""), {})
        return next((leg for leg in legs.values() if leg.link is None), None)

    def answered(self, leg: Leg, attach: Attach, reference: int) -> None:
        """Mark a leg active: the peer has answered its attach."""
        self._by_request.pop(leg.request, None)
        self._resume(leg)
        leg.request = leg.tries = 0
        leg.link = leg.worker, attach.link, attach.generation
        leg.reference = reference
        leg.state, leg.error = "active", ""
        self._by_link[leg.link] = leg
        self._say(logging.INFO, "%s is attached to %s", leg)

    def refused(self, refused: LinkRefused) -> None:
        """Mark a leg failed: the peer refused the link, or its connection is gone."""
        leg = self._by_request.pop(refused.request, None)
        if leg is not None:
            leg.request = 0
            self._fail(leg, refused.error, "the peer refused the link, or its connection is gone")

    def detached(self, link: Link, detach: Detach | None) -> None:
        """Mark the leg of a detached link failed. ``detach`` is None for a dead worker."""
        leg = self._by_link.pop((link.worker, link.link, link.generation), None)
        if leg is not None:
            leg.link = None
            if detach is not None:
                why = "the connection or session of the link is gone" if detach.lost else "the peer detached the link"
                self._fail(leg, detach.error, why)

    def _fail(self, leg: Leg, error: Error | None, why: str) -> None:
        """Mark a leg failed, by ``why`` if the peer gave no error."""
        leg.state = "failed"
        leg.error = why if error is None else error.description or error.condition
        self._pause(leg, RETRY_NS if leg.tries else FIRST_RETRY_NS)
        leg.tries += 1
        self._say(logging.WARNING, "%s to %s failed: %s; the router retries", leg, leg.error)

    def _say(self, level: int, text: str, leg: Leg, *what: str) -> None:
        """Log a line about a leg, within the limit of its auto link."""
        label = leg.auto.label
        self._lines.tell(time.monotonic(), LOGGER, level, text, label, leg.auto.broker, *what, key=(text, label))

    @property
    def restless(self) -> bool:
        """Whether links are due that a step has left to the next one."""
        now = self._base.forwarder.now
        return bool(self._new) or any(legs and next(iter(legs.values())).due <= now for legs in self._paused.values())

    def step(self, now: int) -> None:
        """Attach a portion of the new links, and of the failed ones whose pause is over. ``now`` is in nanoseconds.

        Connections take turns.
        """
        left = PORTION
        while self._new and left > 0:
            (worker, connection), (opened, autos) = next(iter(self._new.items()))
            portion = autos[-left:]
            del autos[-left:]
            left -= len(portion)
            self._attach_new(worker, opened, reversed(portion))
            if autos:
                self._new.move_to_end((worker, connection))
            else:
                del self._new[worker, connection]
        for legs in self._paused.values():
            for _ in range(PORTION):
                if not legs or (leg := next(iter(legs.values()))).due > now:
                    break
                self._open(leg)

    def _attach_new(self, worker: int, opened: ConnectionOpened, autos: Iterable[AutoLink]) -> None:
        for auto in autos:
            if self._links.get(auto.setup.identity) is auto and _matches(auto.setup, opened):
                self._open(self._leg(auto, worker, opened))


def _address(leg: Leg) -> tuple[Key, bool, str]:
    return leg.key, leg.auto.setup.incoming, leg.auto.peer_address


def _matches(setup: AutoLinkSetup, opened: ConnectionOpened) -> bool:
    if opened.role != ROUTE_CONTAINER:
        return False
    if setup.container:
        return opened.container == setup.container
    return bool(setup.connection) and setup.connection in (opened.connector, opened.listener)

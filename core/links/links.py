"""Links: which attaches the core accepts, where they lead, and the table of attached links."""

import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from core.addresses.addresses import Address, Addresses, Identity
from core.addresses.names import Names
from core.addresses.phases import requested_phase
from core.edge.place import Place
from core.forwarder.forward import ROUTED_LINK, STREAM_LINK, Forwarder
from core.forwarder.link_terms import LinkTerms
from core.interior.inter_router import FORBIDDEN, ROLE, TYPES, kind_of
from core.interior.network_adapter import NetworkAdapter
from core.link_routes.ends import LOST, NO_ROUTE, Ends
from core.links.administration import Administration
from core.links.admission import Admissions, Guarded, Refusal
from core.links.auto_links import ROLE as CONTAINER_ROLE
from core.links.auto_links import AutoLinks
from core.links.link import Edges, Link
from core.links.refusals import Refusals
from core.links.streams import Streams
from core.links.terminus import (
    MAX_CAPACITY,
    NO_CONNECTION,
    NO_CONTROL,
    NO_ROOM,
    Terminus,
    decide,
    denied,
    granted_credit,
    told_text,
)
from core.links.terminus import granted as granted_to
from core.process.plane import Plane, each
from shm.contract.payloads import C_ATTACHED, C_DETACH, Attach, Attached, ConnectionOpened, Detach, Error

LOGGER = logging.getLogger("ROUTER_CORE")

SETTLED: Final = 1  # snd-settle-mode (AMQP 1.0 part 2.8.2)

Key = tuple[int, int]  # worker, index of the link or connection in it


class _Lead(msgspec.Struct, frozen=True):
    """Where an accepted link leads; ``place`` is that of a link to or from an edge router."""

    address: Address | None
    terminus: Terminus
    fallback: bool = False
    edge: int = 0
    place: Place | None = None


class Links:
    """All attached links, in step with the forwarder's table. ``planes`` see each link.

    An attach belongs to exactly one part of the core. `attach` and `_special` ask the parts by name, and the
    first that claims the attach has it.
    """

    def __init__(
        self,
        forwarder: Forwarder,
        addresses: Addresses,
        me: Identity,
        names: Names,
        *,
        admissions: Admissions,
        auto_links: AutoLinks,
        streams: Streams,
        refusals: Refusals,
        planes: Sequence[Plane],
        network_adapter: NetworkAdapter | None = None,
        edges: Edges | None = None,
        ends: Ends | None = None,
    ) -> None:
        self._network_adapter = network_adapter
        self._edges = edges
        self._auto_links = auto_links
        self._ends = ends
        self._streams = streams
        self._refusals = refusals
        self._forwarder = forwarder
        self._addresses = addresses
        self._me = me
        self._names = names
        self._admissions = admissions
        self._links: dict[Key, Link] = {}
        self._identity = 0
        self.administration = Administration(forwarder, me, refusals.find)
        self._planes = planes
        self._encode = msgspec.msgpack.Encoder().encode

    def __len__(self) -> int:
        return len(self._links)

    def entries(self) -> list[Link]:
        """Return all present links, oldest first."""
        return list(self._links.values())

    def find(self, worker: int, link: int, generation: int) -> Link | None:
        """Return a worker's link of this index and generation, or None."""
        found = self._links.get((worker, link))
        return found if found is not None and found.generation == generation else None

    def attach(self, worker: int, attach: Attach, connection: ConnectionOpened | None) -> None:
        """Answer a first attach, or enter a link that this router began or that outlived the last core."""
        edge = 0 if self._edges is None else self._edges.find(worker, attach.connection)
        if self._special(worker, attach, connection, edge):
            return
        if attach.router_initiated and connection is not None and not edge:
            self._attach_auto(worker, attach, connection)
            return
        guarded = self._admissions.guarded((worker, attach.connection))
        if refusal := self._admissions.refusal(guarded, attach, connection):
            self._deny(worker, attach, guarded, refusal)
            return
        if not edge and self._served(worker, attach, guarded):
            return
        if not edge and connection is not None and self._asked(worker, attach, connection):
            return  # `decide` follows when the interior router has answered
        self._decide(worker, attach, connection)

    def _asked(self, worker: int, attach: Attach, connection: ConnectionOpened) -> bool:
        """Whether this edge router, which knows no broker for a link, asks its interior router first."""
        if self._edges is None or self._ends is None:
            return False
        wanted = self._ends.wanted(attach, connection.tenant)
        return bool(wanted) and self._edges.asks(worker, attach, connection, wanted)

    def decide(
        self,
        worker: int,
        attach: Attach,
        connection: ConnectionOpened,
        beyond: tuple[int, ConnectionOpened] | None,
        reached: bool,
    ) -> None:
        """Decide after the interior router's answer: via ``beyond`` if ``reached``; if None, locally."""
        if beyond is None or self._ends is None:
            self._decide(worker, attach, connection)
        elif (error := self._ends.attach_beyond(worker, attach, connection, beyond, reached)) is not None:
            self._refuse(worker, attach, error)

    def _decide(self, worker: int, attach: Attach, connection: ConnectionOpened | None) -> None:
        """Answer an attach, or send it on to a broker."""
        edge = 0 if self._edges is None else self._edges.find(worker, attach.connection)
        guarded = self._admissions.guarded((worker, attach.connection))
        attach, refusal = self.administration.judge(worker, attach, connection)
        if refusal is not None or connection is None:
            terminus: Terminus | Error = refusal or NO_CONNECTION
        elif connection.role == ROLE and not self._greeted(worker, connection):
            terminus = NO_CONTROL
        elif attach.routed:
            terminus = LOST
        elif self._routed(worker, attach, connection):
            return
        elif attach.address and (connection.role == ROLE or (edge and self._me.edge)):
            terminus = NO_ROUTE  # a router attaches here only by a link route, which is gone now
        elif attach.restored:
            terminus = Terminus(attach.address or None)
        else:
            terminus = decide(attach, self._me, self._names)
        if isinstance(terminus, Error):
            self._refuse(worker, attach, terminus)
            return
        phase = requested_phase(attach.capabilities, outgoing=attach.outgoing, edge=edge != 0)
        tenant, role = (connection.tenant, connection.role) if connection else ("", "")
        address = None
        if terminus.text is not None:
            address = self._addresses.terminus(terminus.text, tenant, outgoing=attach.outgoing, phase=phase.phase)
        tables, counts = self._addresses.tables, self._forwarder.address_info
        if address is not None and (error := denied(address, attach, tables, role, counts)):
            self._refuse(worker, attach, error)
            self._addresses.forget_idle(address)
            return
        self._accept(worker, attach, _Lead(address, terminus, phase.fallback, edge), guarded, connection)

    def _special(self, worker: int, attach: Attach, connection: ConnectionOpened | None, edge: int) -> bool:
        """Enter a link that no client began: between routers, of an edge router or a link route's far end."""
        kind = kind_of(attach) if self._network_adapter is None else self._network_adapter.inter_routers.kind(attach)
        if self._streams.asked(attach):
            if self._streams.add(worker, attach):
                self._enter(worker, attach, None, kind=STREAM_LINK, edge=edge)
        elif kind is not None and connection is not None:
            self._attach_inter_router(worker, attach, kind)
        elif self._ends is not None and self._ends.is_answer(attach):
            self._ends.answered(worker, attach, self._enter_routed)
        elif edge and self._edges is not None and (place := self._edges.place(worker, attach)) is not None:
            self._attach_edge(worker, attach, place, edge)
        else:
            return False
        return True

    def _served(self, worker: int, attach: Attach, guarded: Guarded | None) -> bool:
        """Whether a link on an ordinary connection leads to a service for edge routers."""
        place = None if self._edges is None else self._edges.serves(attach)
        if place is not None:
            self._attach_edge(worker, attach, place, 0, guarded)
        return place is not None

    def _attach_edge(
        self, worker: int, attach: Attach, place: Place | Error, edge: int, guarded: Guarded | None = None
    ) -> None:
        """Attach a link of an edge connection, or one to a service for edge routers."""
        if isinstance(place, Error):
            self._refuse(worker, attach, place)
            return
        lead = _Lead(place.address, Terminus(None), edge=edge, place=place)
        self._accept(worker, attach, lead, guarded, None)

    def _routed(self, worker: int, attach: Attach, connection: ConnectionOpened) -> bool:
        """Whether an attach goes on to a broker, whose answer is then passed back."""
        route = None if self._ends is None else self._ends.route(attach, connection.tenant)
        if route is None or self._ends is None:
            return False
        if (error := self._ends.attach(worker, attach, connection, route)) is not None:
            self._refuse(worker, attach, error)
        return True

    def _enter_routed(self, worker: int, attach: Attach, address: str) -> None:
        guarded = self._admissions.guarded((worker, attach.connection))
        self._enter(worker, attach, None, guarded=guarded, kind=ROUTED_LINK)
        self._links[worker, attach.link].routed = address

    def _greeted(self, worker: int, connection: ConnectionOpened) -> bool:
        return self._network_adapter is not None and self._network_adapter.inter_routers.greeted(worker, connection)

    def _attach_auto(self, worker: int, attach: Attach, connection: ConnectionOpened) -> None:
        """Attach an auto link. Policy limits only what peers request."""
        leg = self._auto_links.claim(worker, attach)
        if leg is None:
            self._post(worker, C_DETACH, Detach(attach.link, attach.generation))
            return
        setup = leg.auto.setup
        address = self._addresses.terminus(setup.address, outgoing=attach.outgoing, phase=leg.auto.phase)
        lead = _Lead(address, Terminus(setup.address), setup.fallback)
        if self._accept(worker, attach, lead, None, connection):
            link = self._links[worker, attach.link]
            self._auto_links.answered(leg, attach, link.identity)

    def _attach_inter_router(self, worker: int, attach: Attach, kind: int) -> None:
        """Attach a link between routers."""
        inter_routers = None if self._network_adapter is None else self._network_adapter.inter_routers
        inter_router = FORBIDDEN if inter_routers is None else inter_routers.attach(worker, attach, kind)
        if inter_routers is None or isinstance(inter_router, Error):
            self._refuse(worker, attach, inter_router if isinstance(inter_router, Error) else FORBIDDEN)
            return
        if not (attach.restored or attach.request):
            self._post(worker, C_ATTACHED, Attached(attach.link, attach.generation))
        capacity = max(1, min(attach.capacity, MAX_CAPACITY))
        granted = granted_to(attach, capacity)
        if (added := inter_routers.add_link(inter_router, attach, kind, capacity, granted)) is None:
            self._forwarder.bad()
            self._post(worker, C_DETACH, Detach(attach.link, attach.generation, NO_ROOM))
            return
        self._enter(worker, attach, None, kind=added[0], priority=added[1])

    def _accept(
        self, worker: int, attach: Attach, lead: _Lead, guarded: Guarded | None, connection: ConnectionOpened | None
    ) -> bool:
        address, terminus, place = lead.address, lead.terminus, lead.place
        # a link that this router began gets no answer, so its worker looks for no keys
        to_table = address is not None and address.key in self._addresses.tables and not attach.router_initiated
        capacity, told = granted_credit(attach, address, MAX_CAPACITY if place is None else place.capacity)
        # The answer goes first, so the link is open before credit or messages reach it.
        if not (attach.restored or attach.request):
            generated = terminus.text if terminus.generated else None
            answer = Attached(attach.link, attach.generation, generated, to_table=to_table, capacity=told)
            self._post(worker, C_ATTACHED, answer)
        scope = 0
        tenant = connection.tenant if connection and not attach.router_initiated else ""
        if address is None and (guarded is not None or tenant):
            scope = self._admissions.scopes.enter(guarded.rights.targets if guarded else None, tenant)
        handle = 0 if address is None else address.handle
        terms = LinkTerms(
            attach.outgoing,
            handle if place is None else place.handle,
            capacity,
            granted=granted_to(attach, capacity),
            settles=attach.outgoing and attach.snd_settle_mode == SETTLED,
            scope=scope,
            annotated=place is not None or (connection is not None and connection.annotations != 0),
            text=told_text(attach, address, terminus),
            edge=lead.edge,
            wants_override=place is not None and place.wants_override,
            fallback=lead.fallback,
            container=connection is not None and connection.role == CONTAINER_ROLE,
            to_table=to_table,
        )
        if not self._forwarder.add_link(worker, attach.link, attach.generation, terms):
            if scope:
                self._admissions.scopes.leave(scope)
            self._forwarder.bad()
            self._post(worker, C_DETACH, Detach(attach.link, attach.generation, NO_ROOM))
            if address is not None:
                self._addresses.forget_idle(address)
            return False
        self._enter(worker, attach, address, guarded=guarded, scope=scope, edge=lead.edge)
        return True

    def _enter(
        self,
        worker: int,
        attach: Attach,
        address: Address | None,
        *,
        guarded: Guarded | None = None,
        scope: int = 0,
        kind: int = 0,
        priority: int = 0,
        edge: int = 0,
    ) -> None:
        if guarded is not None:
            guarded.attached(attach.outgoing, 1)
        self._identity += 1
        link = self._links[worker, attach.link] = Link(
            worker,
            attach.link,
            attach.generation,
            attach.connection,
            attach.name,
            attach.outgoing,
            address,
            identity=self._identity,
            guarded=guarded,
            scope=scope,
            kind=kind,
            priority=priority,
            edge=edge,
            router_initiated=attach.router_initiated,
        )
        how = "restored" if attach.restored else "attached", "from" if attach.outgoing else "to"
        what = TYPES[kind] if kind else "anonymous" if address is None else address.key
        where = worker, attach.connection
        LOGGER.debug("link %r of worker %d connection %d %s: %s %s", attach.name, *where, *how, what)
        self.administration.attached(link)
        each(self._planes, lambda plane: plane.attached(link))

    def _deny(self, worker: int, attach: Attach, guarded: Guarded | None, refusal: Refusal) -> None:
        """Refuse a link that the policy does not allow."""
        self._forwarder.count(refusal[1])
        if guarded is None:
            self._refuse(worker, attach, refusal[0])
            return
        guarded.denied(attach.outgoing)
        guarded.say(attach.name, refusal[0])
        self._post(worker, C_ATTACHED, Attached(attach.link, attach.generation, None, refusal[0]))

    def _refuse(self, worker: int, attach: Attach, error: Error) -> None:
        self._refusals.tell(worker, attach, error)
        self._post(worker, C_ATTACHED, Attached(attach.link, attach.generation, None, error))

    def _post(self, worker: int, kind: int, payload: msgspec.Struct) -> None:
        self._forwarder.post_control(worker, kind, self._encode(payload))

    def detach(self, worker: int, detach: Detach) -> None:
        """Remove a link after its peer's detach or the loss of its connection."""
        link = self._links.get((worker, detach.link))
        if link is None or link.generation != detach.generation:
            if not self._cancelled(worker, detach):
                self._forwarder.stale()
            return
        self._forwarder.remove_link(worker, link.link, link.generation)
        self._forget(link, detach)

    def _cancelled(self, worker: int, detach: Detach) -> bool:
        """Cancel a link that still waited for an answer. Return whether there was one."""
        return any(one is not None and one.cancel(worker, detach) for one in (self._edges, self._ends))

    def forget_worker(self, worker: int) -> int:
        """Forget a dead worker's links, which the forwarder has reclaimed. Return their number."""
        gone = [link for link in self._links.values() if link.worker == worker]
        for link in gone:
            self._forget(link, None)
        return len(gone)

    def _forget(self, link: Link, detach: Detach | None) -> None:
        del self._links[link.worker, link.link]
        if link.guarded is not None:
            link.guarded.attached(link.outgoing, -1)
        if link.scope:
            self._admissions.scopes.leave(link.scope)
        self.administration.detached(link)
        try:
            each(self._planes, lambda plane: plane.detached(link, detach))
        finally:
            if link.address is not None:
                self._addresses.forget_idle(link.address)
        LOGGER.debug("link %r of worker %d connection %d detached", link.name, link.worker, link.connection)

"""Decides about attaches: which links the core accepts, and where they lead."""

from typing import Final

import msgspec

from core.addresses.addresses import Address
from core.addresses.phases import requested_phase
from core.forwarder.forward import ROUTED_LINK, STREAM_LINK
from core.forwarder.link_terms import LinkTerms
from core.interior.inter_router import FORBIDDEN, kind_of
from core.interior.network_adapter import NetworkAdapter
from core.link_routes.ends import LOST, NO_ROUTE, Ends, lasts
from core.links.administration import Administration
from core.links.admission import Guarded, Refusal
from core.links.auto_links import AutoLinks
from core.links.base import Base
from core.links.connections import Hop
from core.links.link import Edges, Link
from core.links.streams import Streams
from core.links.terminus import (
    INTER_ROUTER,
    NO_CONNECTION,
    NO_CONTROL,
    NO_ROOM,
    ROUTE_CONTAINER,
    Place,
    Terminus,
    credit_of,
    decide,
    denied,
    reported_text,
)
from shm.contract.payloads import Attach, Attached, ConnectionOpened, Detach, Error, LinkRefused

SETTLED: Final = 1  # snd-settle-mode (AMQP 1.0 part 2.8.2)


class _Lead(msgspec.Struct, frozen=True):
    """Where an accepted link leads; ``place`` is that of a link to or from an edge router."""

    address: Address | None
    terminus: Terminus
    fallback: bool = False
    edge: int = 0
    place: Place | None = None


class Attaches:
    """Answers each attach.

    An attach belongs to exactly one part of the core. `attach` and `_special` ask the parts by name, and the
    first that claims the attach has it. ``base`` already has its planes.
    """

    def __init__(self, base: Base) -> None:
        self._base = base
        self._links = base.links
        self._refusals = base.refusals
        self._admissions = base.admissions
        self._administration = base.plane(Administration)
        self._auto_links = base.plane(AutoLinks)
        self._streams = base.plane(Streams)
        self._ends = base.plane(Ends)
        self._network_adapter = base.find(NetworkAdapter)
        self._edges = base.find(Edges)

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
        if self._edges is None:
            return False
        wanted = self._ends.wanted(attach, connection.tenant)
        return bool(wanted) and self._edges.asks(worker, attach, connection, wanted)

    def decide(
        self, worker: int, attach: Attach, connection: ConnectionOpened, beyond: Hop | None, reached: bool
    ) -> None:
        """Decide after the interior router's answer: via ``beyond`` if ``reached``; if None, locally."""
        if beyond is None:
            self._decide(worker, attach, connection)
        elif (error := self._ends.attach_beyond(worker, attach, connection, beyond, reached)) is not None:
            self._refuse(worker, attach, error)

    def _decide(self, worker: int, attach: Attach, connection: ConnectionOpened | None) -> None:
        """Answer an attach, or send it on to a broker."""
        edge = 0 if self._edges is None else self._edges.find(worker, attach.connection)
        guarded = self._admissions.guarded((worker, attach.connection))
        attach, refusal = self._administration.judge(worker, attach, connection)
        if refusal is not None or connection is None:
            terminus: Terminus | Error = refusal or NO_CONNECTION
        elif connection.role == INTER_ROUTER and not self._greeted(worker, connection):
            terminus = NO_CONTROL
        elif attach.routed:
            if lasts(attach):
                self._base.post(worker, Detach(attach.link, attach.generation, LOST, closed=False))
                return
            terminus = LOST
        elif self._routed(worker, attach, connection):
            return
        elif attach.address and (connection.role == INTER_ROUTER or (edge and self._base.me.edge)):
            terminus = NO_ROUTE  # a router attaches here only by a link route, which is gone now
        elif attach.restored:
            terminus = Terminus(attach.address or None)
        else:
            terminus = decide(attach, self._base.me, self._base.names)
        if isinstance(terminus, Error):
            self._refuse(worker, attach, terminus)
            return
        phase = requested_phase(attach.capabilities, outgoing=attach.outgoing, edge=edge != 0)
        tenant, role = (connection.tenant, connection.role) if connection else ("", "")
        address = None
        if terminus.text is not None:
            address = self._base.addresses.terminus(terminus.text, tenant, outgoing=attach.outgoing, phase=phase.phase)
        tables, counts = self._base.addresses.tables, self._base.forwarder.address_info
        if address is not None and (error := denied(address, attach, tables, role, counts)):
            self._refuse(worker, attach, error)
            self._base.addresses.forget_idle(address)
            return
        self._accept(worker, attach, _Lead(address, terminus, phase.fallback, edge), guarded, connection)

    def _special(self, worker: int, attach: Attach, connection: ConnectionOpened | None, edge: int) -> bool:
        """Enter a link that no client began: between routers, of an edge router or a link route's far end."""
        kind = kind_of(attach) if self._network_adapter is None else self._network_adapter.inter_routers.kind(attach)
        if self._streams.asked(attach):
            if self._streams.add(worker, attach):
                self._links.enter(worker, attach, kind=STREAM_LINK, edge=edge)
        elif kind is not None and connection is not None:
            self._attach_inter_router(worker, attach, kind)
        elif self._ends.is_answer(attach):
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
        route = self._ends.route(attach, connection.tenant)
        if route is None:
            return False
        error = route if isinstance(route, Error) else self._ends.attach(worker, attach, connection, route)
        if error is not None:
            self._refuse(worker, attach, error)
        return True

    def _enter_routed(self, worker: int, attach: Attach, address: str) -> None:
        guarded = self._admissions.guarded((worker, attach.connection))
        self._links.enter(worker, attach, guarded=guarded, kind=ROUTED_LINK, routed=address)

    def _greeted(self, worker: int, connection: ConnectionOpened) -> bool:
        return self._network_adapter is not None and self._network_adapter.inter_routers.greeted(worker, connection)

    def _attach_auto(self, worker: int, attach: Attach, connection: ConnectionOpened) -> None:
        """Attach an auto link. Policy limits only what peers request."""
        leg = self._auto_links.claim(worker, attach)
        if leg is None:
            self._base.post(worker, Detach(attach.link, attach.generation, closed=not lasts(attach)))
            return
        setup = leg.auto.setup
        address = self._base.addresses.terminus(setup.address, outgoing=attach.outgoing, phase=leg.auto.phase)
        lead = _Lead(address, Terminus(setup.address), setup.fallback)
        if (link := self._accept(worker, attach, lead, None, connection)) is not None:
            self._auto_links.answered(leg, attach, link.identity)
        else:
            self._auto_links.refused(LinkRefused(attach.request, NO_ROOM))

    def _attach_inter_router(self, worker: int, attach: Attach, kind: int) -> None:
        """Attach a link between routers."""
        inter_routers = None if self._network_adapter is None else self._network_adapter.inter_routers
        inter_router = FORBIDDEN if inter_routers is None else inter_routers.attach(worker, attach, kind)
        if inter_routers is None or isinstance(inter_router, Error):
            self._refuse(worker, attach, inter_router if isinstance(inter_router, Error) else FORBIDDEN)
            return
        if not (attach.restored or attach.request):
            self._base.post(worker, Attached(attach.link, attach.generation))
        if (added := inter_routers.add_link(inter_router, attach, kind, credit_of(attach))) is None:
            self._base.forwarder.bad()
            self._base.post(worker, Detach(attach.link, attach.generation, NO_ROOM))
            return
        self._links.enter(worker, attach, kind=added[0], priority=added[1])

    def _accept(
        self, worker: int, attach: Attach, lead: _Lead, guarded: Guarded | None, connection: ConnectionOpened | None
    ) -> Link | None:
        """Enter an ordinary link. Return None if the forwarder's table is full."""
        address, terminus, place = lead.address, lead.terminus, lead.place
        # a link that this router began gets no answer, so its worker looks for no keys; nor does that of a restored
        # link whose address has become a table's since: the core reads these keys itself
        asked = attach.to_table if attach.restored else not attach.router_initiated
        to_table = asked and address is not None and address.key in self._base.addresses.tables
        credit = credit_of(attach, address, place)
        # The answer goes first, so the link is open before credit or messages reach it.
        if not (attach.restored or attach.request):
            generated = terminus.text if terminus.generated else None
            answer = Attached(attach.link, attach.generation, generated, to_table=to_table, capacity=credit.reported)
            self._base.post(worker, answer)
        scope = 0
        tenant = connection.tenant if connection and not attach.router_initiated else ""
        if address is None and (guarded is not None or tenant):
            scope = self._admissions.scopes.enter(guarded.rights.targets if guarded else None, tenant)
        handle = 0 if address is None else address.handle
        terms = LinkTerms(
            attach.outgoing,
            handle if place is None else place.handle,
            credit.capacity,
            grows=credit.grows,
            granted=credit.granted,
            settles=attach.outgoing and attach.snd_settle_mode == SETTLED,
            connection=attach.connection,
            scope=scope,
            annotated=place is not None or (connection is not None and connection.annotations != 0),
            text=reported_text(attach, address, terminus),
            edge=lead.edge,
            wants_override=place is not None and place.wants_override,
            fallback=lead.fallback,
            container=connection is not None and connection.role == ROUTE_CONTAINER,
            to_table=to_table,
        )
        if not self._base.forwarder.add_link(worker, attach.link, attach.generation, terms):
            if scope:
                self._admissions.scopes.leave(scope)
            self._base.forwarder.bad()
            self._base.post(worker, Detach(attach.link, attach.generation, NO_ROOM))
            if address is not None:
                self._base.addresses.forget_idle(address)
            return None
        return self._links.enter(worker, attach, address, guarded=guarded, scope=scope, edge=lead.edge)

    def _deny(self, worker: int, attach: Attach, guarded: Guarded | None, refusal: Refusal) -> None:
        """Refuse a link that the policy does not allow."""
        self._base.forwarder.count(refusal[1])
        if guarded is None:
            self._refuse(worker, attach, refusal[0])
            return
        guarded.denied(attach.outgoing)
        guarded.say(attach.name, refusal[0])
        self._base.post(worker, Attached(attach.link, attach.generation, None, refusal[0]))

    def _refuse(self, worker: int, attach: Attach, error: Error) -> None:
        self._refusals.tell(worker, attach, error)
        self._base.post(worker, Attached(attach.link, attach.generation, None, error))

    def detach(self, worker: int, detach: Detach) -> None:
        """Remove a link, or cancel one that still waits for an answer."""
        if self._links.detach(worker, detach):
            return
        if not any(one is not None and one.cancel(worker, detach) for one in (self._edges, self._ends)):
            self._base.forwarder.stale()

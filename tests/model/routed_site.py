"""Routers of a simulated network with brokers beside them: links that are routed through, but no messages.

A broker is a connection that answers every attach as it was asked, and closes what is closed. The agent of
each router knows one thing: link routes to the connection that asks for them.
"""

import msgspec

from bench.contract import C_ATTACH, C_ATTACHED, C_CONNECTION_CLOSED, C_DETACH, C_LINK_REFUSED, C_OPEN_LINK
from core.amqp import codec as wire
from core.interior.message import sections
from core.link_routes.routes import Routes
from core.process.router import Core
from shm.contract.control import LinkRouteSetup, SetLinkRoutes
from shm.contract.payloads import Attach, Attached, ConnectionClosed, Detach, LinkRefused, OpenLink, Termini, Terminus
from tests.model.sites import Site, SiteLink


def termini(address: str) -> Termini:
    return Termini(Terminus(1, address), Terminus(2, address))


class RoutedSite(Site):
    """One router, its clients and its brokers."""

    def __init__(self, name: str, seed: int = 0, mode: str = "interior") -> None:
        super().__init__(name, seed, mode)
        self.brokers: dict[int, list[SiteLink]] = {}  # their links, by connection
        self.asked, self.refuses = 0, False  # requests for link routes, and whether they are refused
        self.silent: list[OpenLink] | None = None  # what its brokers do not answer; None: they answer all
        self.core.local.subscribe("$management", self._manage)

    # ---- brokers and clients ----

    def route(self, *prefixes: str) -> None:
        """Links to what begins so are routed to whoever is connected as `broker`."""
        setups = [
            LinkRouteSetup(outgoing, prefix, None, None, "broker") for prefix in prefixes for outgoing in (True, False)
        ]
        self.core.configure(SetLinkRoutes(setups))

    def broker(self) -> int:
        connection = self.connect(role="route-container", connector="broker")
        self.brokers[connection] = []
        return connection

    def client(self, outgoing: bool, address: str) -> SiteLink:
        return self.attach(outgoing, address, termini=termini(address))

    # ---- the wire ----

    def _told(self, kind: int, payload: bytes) -> None:
        if kind == C_OPEN_LINK:
            asked = msgspec.msgpack.decode(payload, type=OpenLink)
            if asked.termini is not None:
                self._open_routed(asked, asked.termini)
                return
        if kind == C_ATTACHED:
            answer = msgspec.msgpack.decode(payload, type=Attached)
            peer = self.links[answer.link].peer
            if peer is not None and (answer.termini is not None or answer.error is not None):
                self._answer_routed(self.links[answer.link], answer)
                return
        if kind == C_DETACH:
            self._end(msgspec.msgpack.decode(payload, type=Detach))
            return
        super()._told(kind, payload)

    def _end(self, detach: Detach) -> None:
        """The core closes a link: its peer does, too, and is told why."""
        link = self.links.pop(detach.link)
        link.open = False
        link.error = "" if detach.error is None else detach.error.condition
        self.control(C_DETACH, Detach(link.index, 1))
        if link.peer is None:
            return
        other, theirs = link.peer
        link.peer = None
        del other.links[theirs.index]
        for site, one in ((self, link), (other, theirs)):
            site.incoming = {h: d for h, d in site.incoming.items() if d.link is not one}
        other.control(C_DETACH, Detach(theirs.index, 1, detach.error, detach.closed))

    def lose_broker(self, connection: int) -> None:
        """Its connection is gone."""
        for link in self.brokers.pop(connection):
            del self.links[link.index]
            self.control(C_DETACH, Detach(link.index, 1, lost=True))
        self.control(C_CONNECTION_CLOSED, ConnectionClosed(connection, 1))

    def _open_routed(self, asked: OpenLink, said: Termini) -> None:
        """A far end: at a broker, which takes it, or at the next router."""
        if asked.connection in self.brokers and self.silent is not None:
            self.silent.append(asked)
            return
        if asked.connection in self.brokers:
            link = self._new_link(asked.connection, asked.outgoing, said.target.address)
            link.name, link.open = asked.name, True
            self.brokers[asked.connection].append(link)
            self.control(C_ATTACH, self._attach(link, asked.request, said))
            return
        if asked.connection not in self.sites:
            self.control(C_LINK_REFUSED, LinkRefused(asked.request))
            return
        other, connection = self.sites[asked.connection]
        mine = self._new_link(asked.connection, asked.outgoing, said.target.address)
        theirs = other._new_link(connection, not asked.outgoing, said.target.address)
        mine.request, mine.name, theirs.name = asked.request, asked.name, asked.name
        mine.peer, theirs.peer = (other, theirs), (self, mine)
        other.control(C_ATTACH, self._attach(theirs, 0, said))

    def _attach(self, link: SiteLink, request: int, said: Termini) -> Attach:
        terminus = said.source if link.outgoing else said.target
        return Attach(
            link.index,
            1,
            link.connection,
            link.name,
            link.outgoing,
            terminus.address,
            request=request,
            router_initiated=request != 0,
            termini=said,
        )

    def _answer_routed(self, link: SiteLink, answer: Attached) -> None:
        """What came from the next hop goes back to the router before."""
        assert link.peer is not None
        site, other = link.peer
        link.open = other.open = answer.error is None
        if answer.error is not None:
            del self.links[link.index], site.links[other.index]
            site.control(C_LINK_REFUSED, LinkRefused(other.request, answer.error))
        elif answer.termini is not None:
            site.control(C_ATTACH, self._attach(other, other.request, answer.termini))

    # ---- the agent ----

    def _manage(self, content: bytes) -> None:
        parts = sections(content)
        properties, said, body = parts[0x73], parts[0x74], parts[0x77]
        core: Core = self.core
        assert core.local.source is not None
        source = core.links.find(*core.local.source)
        assert source is not None
        host = source.worker, source.connection
        self.asked += 1
        if self.refuses:
            status, identity = 403, ""
        elif said["operation"] == "CREATE":
            outgoing = body["direction"] == "out"
            offer = core.plane(Routes).offer(host, said["name"], body["pattern"], outgoing, "")
            status, identity = 201, offer.identity
        else:
            [offer] = [one for one in core.plane(Routes).offers(host) if one.identity == said["identity"]]
            core.plane(Routes).withdraw(offer)
            status, identity = 204, ""
        correlation = [wire.NULL] * 5 + [wire.string(properties[5])]
        reply = {"identity": identity} if identity else {}
        core.local.send(
            properties[4],
            wire.section(0x73, wire.sequence([*correlation[:2], wire.string(properties[4]), *correlation[3:]]))
            + wire.section(0x74, wire.mapping([(wire.string("statusCode"), wire.integer(status))]))
            + wire.section(0x77, wire.mapping((wire.string(name), wire.string(text)) for name, text in reply.items())),
        )

"""The router protocol of one interior router: messages and time go in, messages and tables come out.

Each kind of message has a module. This one has what all share (envelope, versions, complaints about false
messages) and the order of what is sent: addresses before the advertisement of their number.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from core.addresses.addresses import Identity
from core.interior import advertisement, dispatch, hello, linkstate, mobile, skupper
from core.interior.advertisement import Advertisement, Schedule
from core.interior.duplicate_id import DuplicateIds
from core.interior.hello import Greeter, Hello
from core.interior.linkstate import LinkStateRequest, LinkStateUpdate
from core.interior.message import (
    ALL_MOBILE,
    ALL_ROUTERS,
    HELLO_ADDRESS,
    NEXT_ROUTER,
    BadMessageError,
    Control,
    Fields,
    addressee,
    decode,
    mobile_address,
    router_address,
)
from core.interior.mobile import MobileRequest, MobileUpdate
from core.interior.neighbours import Neighbour, Neighbours
from core.interior.nodes import Node
from core.interior.port import Port
from core.interior.sync import MobileSync
from core.interior.topology import Topology
from core.interior.view import views
from shm.contract.complaints import Complaints
from shm.contract.routing import NetworkSetup

HELLO_LOG = logging.getLogger("ROUTER_HELLO")
LS_LOG = logging.getLogger("ROUTER_LS")
MA_LOG = logging.getLogger("ROUTER_MA")

# seconds that a router has to answer a request for its link state
PATIENCE: Final = 2.0
# Seconds after which a neighbour that is no routerd learns addresses. It reads advertisements elsewhere, and
# addresses that precede the news of a restart may be lost with it.
INTRODUCTION: Final = 1.0

_VERSIONS: Final = {
    hello.OPCODE: hello.VERSION,
    advertisement.OPCODE: advertisement.VERSION,
    linkstate.REQUEST: linkstate.VERSION,
    linkstate.UPDATE: linkstate.VERSION,
    mobile.REQUEST: dispatch.VERSION,
    mobile.UPDATE: dispatch.VERSION,
}
_LOGS: Final = {hello.OPCODE: HELLO_LOG, mobile.REQUEST: MA_LOG, mobile.UPDATE: MA_LOG}


class Network:
    """This router among the others.

    ``instance`` identifies this run of the router (``duplicate_id.instance``). Call `tick` once per second
    and after every other call.
    """

    def __init__(self, me: Identity, instance: int, settings: NetworkSetup, port: Port) -> None:
        self._me = me.router_id
        self._instance = instance
        self._settings = settings
        self._port = port
        self._complaints = Complaints()
        self._duplicate_ids = DuplicateIds(self._me, instance, self._complaints)
        self._neighbours = Neighbours()
        self._topology = Topology(self._me, settings, port, self._complaints)
        self._sync = MobileSync(self._me, instance, port)
        self._topology.on_flush = self._sync.flush
        self._greeter = Greeter(self._me, instance, settings.hello_interval_seconds, settings.hello_max_age_seconds)
        self._schedule = Schedule(settings.ra_interval_seconds, settings.ra_interval_flux_seconds)
        self._handlers: dict[str, Callable[[Neighbour, Fields, float], None]] = {
            hello.OPCODE: self._hello,
            advertisement.OPCODE: self._advertisement,
            linkstate.REQUEST: self._link_state_request,
            linkstate.UPDATE: self._link_state_update,
            mobile.REQUEST: self._mobile_request,
            mobile.UPDATE: self._mobile_update,
        }

    # -- events of this router -----------------------------------------------------------------------------

    def neighbour_up(self, neighbour: int, cost: int, dialect: str, reported: int = 0) -> None:
        """The control links to a neighbour are open. ``cost`` is this end's, ``reported`` the peer's or 0."""
        known = Neighbour(neighbour, cost, dialect, reported)
        self._neighbours.add(known)
        self._greet(known)

    def neighbour_cost(self, neighbour: int, cost: int) -> None:
        """Set this end's cost of a connection, and tell its peer at once."""
        known = self._neighbours.get(neighbour)
        if known is not None:
            known.own_cost = cost
            self._greet(known)
            self._choose_link(known.router)

    def _greet(self, one: Neighbour) -> None:
        self._port.send(HELLO_ADDRESS, self._greeter.message(one.own_cost if one.is_routerd else 0), one.number)

    def hears(self, neighbour: int) -> bool:
        """Whether a neighbour is up, or was, or it is said already why it is not."""
        known = self._neighbours.get(neighbour)
        return known is not None and (known.was_up or known.namesake)

    def neighbour_lost(self, neighbour: int) -> None:
        """Forget a connection whose control link is gone."""
        known = self._neighbours.pop(neighbour)
        if known is None or not known.router:
            return
        LS_LOG.info("the link to %s is lost", known.name)
        if not any(other.router == known.router for other in self._neighbours):
            self._greeter.forget(known.router)
        self._choose_link(known.router)

    def local_address(self, key: str, treatment: int | None) -> None:
        """This router has receivers of an address, or another treatment, or if None no receivers any more."""
        self._sync.local_address(key, treatment)

    def _choose_link(self, router: str) -> None:
        node = self._topology.nodes.get(router)
        if node is not None:
            self._topology.set_link(node, self._neighbours.best(router))

    # -- messages ----------------------------------------------------------------------------------------

    def received(self, neighbour: int, content: bytes, now: float) -> None:
        """Handle a message from a neighbour's control link to `qdhello`, `qdrouter` or `qdrouter.ma`.

        A message for another router's `qdrouter.ma` comes here if its next hop speaks the other dialect. An
        invalid message is dropped and logged.
        """
        known = self._neighbours.get(neighbour)
        if known is None:
            return
        what, log = "a control message", LS_LOG
        try:
            control = decode(content)
            handler = self._handlers.get(control.opcode)
            if handler is None:
                raise BadMessageError("its opcode is unknown")
            what = control.opcode
            log = _LOGS.get(what, LS_LOG)
            fields = Fields(control.body)
            if fields.number("pv", 0) > self._newest(what, known):
                raise BadMessageError("its protocol version is newer than this router's")
            if addressee(control.to) in ("", "all", self._me):
                handler(known, fields, now)
            else:
                self._across(known, control, fields, content, now)
        except BadMessageError as error:
            which = (known.name, what, str(error))
            text = "%s sent %s that is ignored: %s"
            self._complaints.tell(now, log, logging.WARNING, text, *which, key=which)

    @staticmethod
    def _newest(what: str, neighbour: Neighbour) -> int:
        """Return the newest version of a message in a neighbour's dialect."""
        theirs = neighbour.skupper and what in (mobile.REQUEST, mobile.UPDATE)
        return skupper.VERSION if theirs else _VERSIONS[what]

    def _hello(self, neighbour: Neighbour, fields: Fields, now: float) -> None:
        message = Hello.read(fields)
        if message.router == self._me:
            where = f"the neighbour on connection {neighbour.number}"
            self._duplicate_ids.of_this(HELLO_LOG, message.instance, now, where)
            neighbour.namesake = True
            return
        if neighbour.router not in ("", message.router):
            raise BadMessageError("its id has changed")
        if self._duplicate_ids.of_neighbour(self._neighbours, neighbour, message, now):
            neighbour.namesake = True
            return
        first = not neighbour.router
        neighbour.router, neighbour.instance = message.router, message.instance
        if neighbour.is_routerd and message.cost:
            neighbour.reported_cost = message.cost
        self._greeter.heard(message.router, now)
        if first:
            # A greeting at once saves the neighbour an interval until it knows that this router hears it.
            self._greet(neighbour)
        if self._me not in message.seen:
            return
        node = self._topology.learn(message.router, now)
        if node is None:
            return
        node.version = message.version
        self._topology.restarted(node, message.instance, now)
        new = not neighbour.up
        if new:
            neighbour.since = now
        neighbour.confirmed = now
        self._choose_link(message.router)
        if new and neighbour.is_routerd:
            for update in self._topology.states(self._instance):
                self._port.send(NEXT_ROUTER, update.encode(NEXT_ROUTER), neighbour.number)

    def _advertisement(self, neighbour: Neighbour, fields: Fields, now: float) -> None:
        message = Advertisement.read(fields)
        node = self._speaker(message.router, message.instance, message.version, now)
        if node is None:
            return
        node.seen = now
        if message.ls_seq > node.ls_seq:
            self._topology.wanted.add(node.router)
            if message.ls_seq > node.ls_asked:
                node.ls_asked = message.ls_seq
                node.asked = float("-inf")
        self._sync.advertised(node, message.mobile_seq)

    def _speaker(self, router: str, instance: int, version: int, now: float) -> Node | None:
        """Return the node that sent a flooded message, or None if the message is not to be believed."""
        if router == self._me:
            self._duplicate_ids.of_this(LS_LOG, instance, now, "one somewhere in the network")
            return None
        node = self._topology.learn(router, now)
        if node is None or self._duplicate_ids.disbelieved(node, instance, now):
            return None
        node.version = version
        self._topology.restarted(node, instance, now)
        return node

    def _link_state_request(self, neighbour: Neighbour, fields: Fields, now: float) -> None:
        message = LinkStateRequest.read(fields)
        if message.router == self._me:
            return
        node = self._topology.learn(message.router, now)
        # A router to which no path is known yet gets its answer by the link of its request.
        via = None if node is not None and node.reachable else neighbour.number
        to = router_address(message.router)
        self._port.send(to, self._topology.own_state(self._instance).encode(to), via)
        if self._sync.seq:
            # A router without our link state lacks our addresses, too, and need not wait for the next RA.
            self._port.send(to, self._numbers().encode(to), via)

    def _link_state_update(self, neighbour: Neighbour, fields: Fields, now: float) -> None:
        message = LinkStateUpdate.read(fields)
        known = self._topology.nodes.get(message.router)
        if known is not None and message.instance < (known.instance or 0):
            # The sender has not heard yet that the router restarted.
            return
        node = self._speaker(message.router, message.instance, message.version, now)
        if node is None:
            return
        if message.ls_seq >= node.ls_asked:
            self._topology.wanted.discard(node.router)
        if message.ls_seq > node.ls_seq:
            self._topology.set_state(node, message.ls_seq, message.peers, now)
            self._relay(message, neighbour)

    def _relay(self, update: LinkStateUpdate, source: Neighbour | None) -> None:
        """Send newer link states to every routerd neighbour, which works while paths are wrong.

        Others request them when they see the number in an advertisement.
        """
        content = update.encode(NEXT_ROUTER)
        for neighbour in self._neighbours:
            if neighbour.is_routerd and neighbour.up and neighbour is not source:
                self._port.send(NEXT_ROUTER, content, neighbour.number)

    def _mobile_request(self, neighbour: Neighbour, fields: Fields, now: float) -> None:
        message = MobileRequest.read(fields)
        node = self._topology.nodes.get(message.router)
        if node is not None:
            self._sync.asked(message, node, now, None if node.reachable else neighbour.number)
            self._answer(now)

    def _mobile_update(self, neighbour: Neighbour, fields: Fields, now: float) -> None:
        message = MobileUpdate.read(fields)
        if message.router == self._me:
            return
        node = self._topology.nodes.get(message.router)
        if node is None:
            # Its run is unknown; the advertisement will bring it.
            return
        if message.instance not in (0, node.instance):
            # A copy from before the router's restart came by a longer path, or one from after it by a shorter one.
            return
        changed = self._sync.updated(node, message)
        self._answer(now)
        if self._sync.lacks(node.router):
            text = "router %s announces more addresses than are kept of one router, or of all: some get no messages %s"
            which = node.router, "from here, until there is room (docs/network.md)"
            self._complaints.tell(now, MA_LOG, logging.ERROR, text, *which, key=which)
        if changed:
            self._translate(message, neighbour)

    def _translate(self, update: MobileUpdate, source: Neighbour) -> None:
        """Repeat changes from one side of the border to all routers on the other, along the paths to them.

        A router that learns an address may send at once, so those in between have to know the address before.
        """
        version = dispatch.VERSION if source.skupper else skupper.VERSION
        other = msgspec.structs.replace(update, version=version)
        content = None
        for link in self._next_hop_links():
            if link.skupper != source.skupper:
                content = content or other.encode(ALL_MOBILE)
                self._port.send(ALL_MOBILE, content, link.number)

    def _across(self, neighbour: Neighbour, control: Control, fields: Fields, content: bytes, now: float) -> None:
        """Handle a message across a border. Only requests need an answer in the other dialect."""
        node = self._topology.nodes.get(addressee(control.to))
        if control.opcode != mobile.REQUEST:
            self._port.send(control.to, content, None)
            return
        request = MobileRequest.read(fields)
        if node is not None and self._topology.nodes.get(request.router) is not None:
            self._sync.asked_for(node, request, neighbour.number)
            self._answer(now)

    def _answer(self, now: float) -> None:
        for answer in self._sync.answers(now):
            self._port.send(answer.to, answer.update.encode(answer.to), answer.neighbour)

    # -- time ----------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Apply the time and all calls since the last tick. ``now`` is in seconds."""
        self._greeter.expire(now)
        for neighbour in self._neighbours.expire(now - self._settings.hello_max_age_seconds):
            HELLO_LOG.info("%s is silent: its greetings no longer name this router", neighbour.name)
            self._choose_link(neighbour.router)
        own_changed = self._topology.tick(now)
        if own_changed:
            self._relay(self._topology.own_state(self._instance), None)
        if self._topology.changed_at == now:
            self._schedule.topology_changed(now)
        if self._greeter.due(now):
            for neighbour in self._neighbours:
                self._greet(neighbour)
        self._ask(now)
        self._answer(now)
        news = None if self._introducing(now) else self._sync.news(now)
        if news is not None:
            self._flood(news)
        changed = own_changed or news is not None
        if changed or (self._neighbours and self._schedule.due(now)):
            self._advertise(now, changed)

    def due(self, now: float) -> float | None:
        """Return in how many seconds a tick has changed addresses to send that the last one could not, or None."""
        due = self._sync.due(now)
        return None if due is None else max(due, self._introducing(now))

    def _introducing(self, now: float) -> float:
        """Return for how many seconds a neighbour that is no routerd is still new; 0: none is."""
        return max(
            (
                neighbour.since + INTRODUCTION - now
                for neighbour in self._neighbours
                if neighbour.up and not neighbour.is_routerd and now - neighbour.since < INTRODUCTION
            ),
            default=0.0,
        )

    def _ask(self, now: float) -> None:
        nodes = self._topology.nodes
        for router in sorted(self._topology.wanted):
            node = nodes.get(router)
            if node is not None and node.reachable and now - node.asked >= PATIENCE:
                node.asked = now
                request = LinkStateRequest(self._me).encode(node.router)
                self._port.send(router_address(node.router), request, None)
        for node, have_seq in self._sync.requests(nodes, now):
            version = skupper.VERSION if self._by_skupper(node) else dispatch.VERSION
            request_ = MobileRequest(self._me, have_seq, version)
            self._port.send(mobile_address(node.router), request_.encode(node.router), None)

    def _by_skupper(self, node: Node) -> bool:
        hop = self._topology.nodes.get(node.next_hop)
        return hop is not None and hop.link is not None and hop.link.skupper

    def _flood(self, update: MobileUpdate) -> None:
        """Send to all routers, in the dialect of each neighbour."""
        links = self._next_hop_links()
        if not links:
            return
        if not any(link.skupper for link in links):
            self._port.send(ALL_MOBILE, update.encode(ALL_MOBILE), None)
            return
        other = msgspec.structs.replace(update, version=skupper.VERSION)
        plain, translated = update.encode(ALL_MOBILE), other.encode(ALL_MOBILE)
        for link in links:
            self._port.send(ALL_MOBILE, translated if link.skupper else plain, link.number)

    def _next_hop_links(self) -> list[Neighbour]:
        nodes = self._topology.nodes
        hops = {node.next_hop for node in nodes if node.reachable}
        return [hop.link for name in sorted(hops) if (hop := nodes.get(name)) and hop.link]

    def _advertise(self, now: float, news: bool) -> None:
        self._schedule.sent(now, news)
        self._port.send(ALL_ROUTERS, self._numbers().encode(), None)

    def _numbers(self) -> Advertisement:
        return Advertisement(self._me, self._instance, self._topology.ls_seq, self._sync.seq)

    # -- for management --------------------------------------------------------------------------------------

    @property
    def last_change(self) -> int:
        """When the network changed last, in seconds of `tick`; 0: never."""
        return self._topology.last_change

    def nodes(self) -> list[dict[str, Any]]:
        """Return all routers, this one first."""
        return views(self._me, self._instance, self._topology)

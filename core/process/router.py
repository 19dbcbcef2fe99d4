"""The core as a state machine: a function of the actions it is given, the time it is told, and its seed.

No sockets, no clock, no processes: tests drive it by ``step``; recorded actions replay to the same work.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from core.addresses.addresses import Address, Addresses, Identity, Rules
from core.addresses.exchanges import Exchanges
from core.addresses.names import Names
from core.flow_log.names import FlowLog
from core.forwarder.forward import CONTROL, LOCAL, NOTHING, UNKNOWN, Forwarder
from core.interior.inter_router import ROLE
from core.interior.network_adapter import Fabric, Network
from core.link_routes.ends import Ends
from core.link_routes.routes import Routes
from core.links.admission import Admissions
from core.links.auto_links import AutoLinks
from core.links.connections import Connections
from core.links.connectors import Connectors
from core.links.links import Links
from core.links.local import Local
from core.links.refusals import Refusals
from core.links.streams import Streams
from core.links.terminus import RMR
from core.process.contained import Contained
from core.process.memory import Memory
from core.process.recovery import Recovery
from core.rmr.dialling import Dialling
from core.rmr.intake import Intake
from core.rmr.manager_sessions import Liaisons
from core.rmr.opening import Openings
from core.rmr.route_tables import Plane
from core.source_routes.route_workers import Stations
from shm.contract.control import (
    ChangeAddresses,
    SetAddresses,
    Setup,
    WorkerAdded,
    WorkerGone,
    WorkerReclaimed,
)
from shm.contract.payloads import (
    C_DETACH,
    PAYLOADS,
    Attach,
    ConnectionClosed,
    ConnectionOpened,
    ConnectorState,
    Cost,
    Denied,
    Detach,
    Endpoint,
    Error,
    LinkRefused,
    Presented,
    RouteCounts,
    Seen,
)
from shm.contract.routing import Routing
from shm.contract.tables import TableSetup

if TYPE_CHECKING:
    from core.edge.downlinks import Downlinks
    from core.edge.uplink import Uplink

TABLES_CHANGED: Final = Error("amqp:link:detach-forced", "The route tables have changed; attach again")

LOGGER = logging.getLogger("ROUTER_CORE")


class Core:
    """The forwarder with the control plane around it.

    ``semaphore`` names what ``run`` sleeps on; without one the core is driven by ``step`` alone.
    """

    def __init__(
        self,
        setup: Setup,
        memory: Memory,
        seed: bytes,
        semaphore: str | None = None,
        intake: Intake | None = None,
        shelf: Callable[[str], str] = lambda _: "",
    ) -> None:
        me = Identity(setup.router_id, setup.area, setup.mode == "edge")
        names = Names(seed)
        self.forwarder = Forwarder(
            setup.places,
            memory.control,
            memory.rings,
            memory.arenas,
            setup.doorbells,
            semaphore,
            names.hash_seed(),
            setup.workers,
        )
        self.admissions = Admissions(setup.policy.max_connections, me)
        self.addresses = Addresses(self.forwarder, me, Rules(setup.addresses, setup.default_distribution))
        self.connectors = Connectors()
        self.local = Local(self.forwarder, self.addresses, setup.places, memory.arenas)
        self.streams = Streams(self.forwarder, names)
        self.fabric: Fabric | None = None
        if setup.mode == "interior":
            self.fabric = Fabric(self.forwarder, self.addresses, self.local, me, names, self.streams)
        self.routes = Routes()
        self.connections = Connections(self.forwarder, self.admissions)
        self._beyond: Callable[[Address, int, bool], None] = lambda *_: None  # an uplink: as ``_served``
        self.edges = self._edges(setup.mode, me, names)
        refusals = Refusals(self.forwarder, self.connections.find)
        self.ends = Ends(self.forwarder, self.routes, refusals, self.fabric, setup.resumable_link_routes)
        self.auto_links = AutoLinks(self.forwarder, self.connections, names)
        self.links = Links(
            self.forwarder,
            self.addresses,
            me,
            names,
            self.admissions,
            self.auto_links,
            self.streams,
            refusals,
            self.fabric,
            self.edges,
            self.ends,
        )
        self._contained = Contained(self.forwarder, self.connections, self.links)
        self.local.contained = self._contained.receive
        self.plane = Plane(self.forwarder, self.addresses, intake or Intake(), shelf, self._served)
        self.exchanges = Exchanges(self.forwarder, self.addresses, self._served)
        self.stations = Stations(
            self.addresses, self.local, self.links, self._served, self.forwarder.post_control
        )
        self.links.watchers.append(self.stations)
        self.stations.configure(setup.source_routes)
        self.flow = FlowLog(self.forwarder, self.addresses, self.connections, memory.flow, setup, names)
        self.addresses.watcher = self.flow
        self.links.watchers.append(self.flow)
        self.set_routing(setup.routing)
        self.routes.configure(setup.link_routes)
        self.dialling = Dialling(self.forwarder, self.plane, range(setup.workers))
        self.openings = Openings(self.plane, self.dialling)
        self.liaisons = Liaisons(
            self.forwarder, self.local, self.links, self.plane, self.dialling, seed, setup.router_id, shelf
        )
        self.set_tables(setup.tables)
        if self.fabric is not None:
            self.fabric.share(self.routes)
        self.errands: list[Callable[[], None]] = []  # of others, in the core's thread between turns
        self.seen: Callable[[Seen], None] = lambda _: None  # who asked the workers for a look
        self._recovery = Recovery(self.forwarder, self.links, self.connections, setup.presenting)
        self._decoders = {kind: msgspec.msgpack.Decoder(payload) for kind, payload in PAYLOADS.items()}

    def _edges(self, mode: str, me: Identity, names: Names) -> "Uplink | Downlinks | None":
        if mode == "edge":
            from core.edge.uplink import Uplink  # noqa: PLC0415  a router that stands alone does without

            uplink = Uplink(
                self.forwarder, self.addresses, self.local, me, names, self.streams, self._decided
            )
            self.routes.advertise = uplink.route_proxies.offer
            self._beyond = uplink.stands
            return uplink
        if mode == "interior":
            from core.edge.downlinks import Downlinks  # noqa: PLC0415  as above

            return Downlinks(
                self.forwarder, self.addresses, self.local, self.streams, self.routes, self.connections.find
            )
        return None

    def _decided(
        self,
        worker: int,
        attach: Attach,
        connection: ConnectionOpened,
        beyond: tuple[int, ConnectionOpened] | None,
        reached: bool,
    ) -> None:
        """What an edge router's uplink says of an attach; the links are made after it."""
        self.links.decide(worker, attach, connection, beyond, reached)

    def step(self, now: int) -> None:
        """Handle every action there is, at ``now`` nanoseconds."""
        self.plane.step()
        while self.plane.intake.made:
            self.plane.step()
        while self.addresses.unsettled:
            self.addresses.settle()
        self._settle(now)
        if self.fabric is not None or self.edges is not None:
            self.tick(now)
            self._settle(now)
        self.forwarder.publish()

    def _settle(self, now: int) -> None:
        while (stop := self.forwarder.step(now)) != NOTHING:
            self._handle(stop)

    def run(self, timeout: int, busy: int = 0) -> bool:
        """Forward until nothing has happened for ``timeout`` nanoseconds or Python is needed.

        True when that was for a record, and more may follow; False: look at the supervisor's socket.
        """
        stop = self.forwarder.run(timeout, busy)
        if stop == NOTHING:
            return False
        self._handle(stop)
        return True

    def join(self, network: Callable[[Fabric], Network]) -> None:
        """Be part of a network, by a protocol that is given its outlet; one that stands alone does not."""
        if self.fabric is not None:
            self.fabric.start(network)

    @property
    def restless(self) -> bool:
        """Whether there is something to do before anybody sleeps."""
        changed = self.fabric is not None and self.fabric.changed
        changed = changed or (self.edges is not None and self.edges.restless)
        return changed or self.addresses.unsettled or self.plane.restless or self.liaisons.busy

    def tick(self, now: int) -> None:
        """What is due at a time; of a lot of work, a part."""
        self._recovery.step(now)
        self.addresses.settle()
        self.plane.step()
        self.liaisons.step(now)
        self.openings.step(now)
        self.auto_links.step(now)
        self.streams.step(now)
        if self.fabric is not None:
            self.fabric.step(now)
        if self.edges is not None:
            self.edges.step(now, 0 if self.fabric is None else self.fabric.routes)

    def set_addresses(self, treatment: SetAddresses | ChangeAddresses) -> None:
        """Other rules for addresses; links stay attached whatever they are."""
        if isinstance(treatment, ChangeAddresses):
            self.addresses.change_rules(treatment.gone, treatment.new)
            return
        self.addresses.set_rules(Rules(treatment.addresses, treatment.default_distribution))

    def set_routing(self, routing: Routing) -> None:
        """Other auto links and exchanges from now on."""
        self.auto_links.configure(routing.auto_links)
        self.exchanges.configure(routing.exchanges)

    def set_tables(self, setups: Sequence[TableSetup]) -> None:
        """Other route tables from now on. Senders to what became one, or is none any more, attach again."""
        touched = [address.handle for address in self.plane.configure(setups)]
        self.liaisons.configure()
        for link in self.links.entries():
            if link.address is not None and link.address.handle in touched:
                detach = Detach(link.link, link.generation, TABLES_CHANGED)
                self.forwarder.post_control(link.worker, C_DETACH, msgspec.msgpack.encode(detach))

    def _served(self, address: Address, number: int, sends: bool = False) -> None:
        """Something here takes the messages of an address (1), or no longer (-1), or sends some."""
        if self.fabric is not None and not sends:
            self.fabric.consumer(address, number)
        self._beyond(address, number, sends)

    def worker_gone(self, gone: WorkerGone, now: int) -> WorkerReclaimed:
        """A worker has died: take back what it held. The answer is for the supervisor."""

        def drain(worker: int) -> None:
            while (stop := self.forwarder.drain(worker, now)) != NOTHING:
                self._handle(stop)

        reclaimed = self._recovery.worker_gone(gone, drain)
        self.connectors.forget_worker(gone.index)
        self.liaisons.forget_worker(gone.index)
        self.dialling.worker_gone(gone.index, gone.removed)
        self.auto_links.forget_worker(gone.index)
        if self.fabric is not None:
            self.fabric.trunks.forget_worker(gone.index)
        if self.edges is not None:
            self.edges.forget_worker(gone.index)
        self.forwarder.publish()
        return reclaimed

    def worker_changed(self, change: WorkerGone | WorkerAdded, now: int) -> WorkerReclaimed:
        """There is a worker less, for a while or for good, or there will be one more. As ``worker_gone``."""
        if isinstance(change, WorkerGone):
            return self.worker_gone(change, now)
        reclaimed = self._recovery.worker_added(change)
        self.dialling.worker_added(change.index)
        return reclaimed

    def _handle(self, stop: int) -> None:
        if stop == UNKNOWN:
            text, scope = self.forwarder.unknown()
            self.addresses.learn(text, scope, self.admissions.scopes)
        elif stop == CONTROL:
            self._control(*self.forwarder.control())
        elif stop == LOCAL:
            self.local.work()
            self.streams.quench()

    def _control(self, worker: int, kind: int, payload: bytes | None) -> None:
        decoder = self._decoders.get(kind)
        if decoder is None or payload is None:
            self._nonsense(worker, f"kind {kind}")
            return
        try:
            message = decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._nonsense(worker, f"kind {kind}: {error}")
            return
        self._contained.hear((self._take, self._ours, self._dialled, self._edge), worker, message)

    def _take(self, worker: int, message: msgspec.Struct) -> None:
        """What a worker says."""
        match message:
            case Attach():
                self.links.attach(worker, message, self.connections.find(worker, message.connection))
            case Detach():
                self.links.detach(worker, message)
            case ConnectionOpened() | ConnectionClosed():
                self._connection(worker, message)
            case Cost():
                self.connections.cost(worker, message)
            case LinkRefused():
                self.ends.refused(message)
            case Denied():
                self.admissions.denied(message)
            case Presented():
                self._recovery.presented(worker)
            case RouteCounts():
                self.stations.counted(message)
            case Seen():
                self.seen(message)
            case Endpoint(open=False):
                self.openings.failed(message)
            case ConnectorState():
                self.connectors.told(worker, message)
            case _:
                self._nonsense(worker, f"{type(message).__name__} is the core's to say")

    def _connection(self, worker: int, message: ConnectionOpened | ConnectionClosed) -> None:
        key = (worker, message.connection)
        if isinstance(message, ConnectionOpened):
            self.connections.opened(worker, message)
            if key in self.connections:
                self.routes.opened(key, message)
                self.liaisons.opened(worker, message)
        else:
            self.connections.closed(worker, message)
            if key not in self.connections:
                self.routes.closed(key)
                self.liaisons.closed(*key)

    def _ours(self, worker: int, message: msgspec.Struct) -> None:
        """What it means for the links that we begin."""
        trunks = None if self.fabric is None else self.fabric.trunks
        match message:
            case ConnectionOpened(role=role) if (worker, message.connection) in self.connections:
                self.auto_links.opened(worker, message)
                if trunks is not None and role == ROLE:
                    trunks.opened(worker, message)
            case ConnectionClosed():
                self.auto_links.closed(worker, message.connection)
                if trunks is not None:
                    trunks.closed(worker, message.connection, message.generation)
            case Cost() if trunks is not None:
                if (opened := self.connections.find(worker, message.connection)) is not None:
                    trunks.costs(worker, opened)
            case LinkRefused():
                self.streams.refused(message)
                self.auto_links.refused(message)
                if trunks is not None:
                    trunks.refused(message)

    def _edge(self, worker: int, message: msgspec.Struct) -> None:
        if (edges := self.edges) is None:
            return
        match message:
            case ConnectionOpened(role="edge"):
                if (worker, message.connection) in self.connections:
                    edges.opened(worker, message)
            case ConnectionClosed():
                edges.closed(worker, message.connection, message.generation)
            case LinkRefused():
                edges.refused(message)

    def _dialled(self, worker: int, message: msgspec.Struct) -> None:
        """What a link that comes or goes means for the connections to endpoints of route tables."""
        if not isinstance(message, Attach | Detach):
            return
        key = worker, message.link, message.generation
        if isinstance(message, Detach):
            self.dialling.detached(key)
        elif message.outgoing and (link := self.links.find(*key)) is not None and link.address is not None:
            opened = self.connections.find(worker, message.connection)
            if opened is not None and opened.role != RMR:
                self.dialling.attached(key, link.address)
            self.openings.reached(link.address)

    def _nonsense(self, worker: int, what: str) -> None:
        self.forwarder.bad()
        LOGGER.warning("worker %d: a control record made no sense and was dropped: %s", worker, what)

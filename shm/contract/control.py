"""The packets between the supervisor and a child: one MessagePack structure per packet of a socket pair."""

from typing import Any

import msgspec

from shm.contract.flow_log.setup import FlowLogSetup, SetFlowLog
from shm.contract.management import Delta, Management
from shm.contract.ockam import OckamSetup
from shm.contract.roles import Role
from shm.contract.routing import NetworkSetup, Routing
from shm.contract.security import PolicySetup, ServiceSetup, TlsSetup
from shm.contract.source_routes import SourceRoutesSetup
from shm.contract.tables import TableSetup
from shm.contract.tracing import SetTracing, TracingSetup

# --- configuration that travels to the children ------------------------------------------------------------


class LogSetup(msgspec.Struct, frozen=True):
    """One ``log`` entity of qpid-dispatch; an attribute that is None follows the DEFAULT module."""

    module: str = "DEFAULT"
    enable: str | None = None
    include_timestamp: bool | None = None
    include_source: bool | None = None
    output_file: str | None = None
    format: str | None = None


class TransportSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that listeners and connectors share.

    ``annotations`` is auto, section, map, skupper or none. OPEN tells peers ``open_properties``.
    """

    role: str = "normal"
    max_frame_size: int = 16384
    max_sessions: int = 32768
    max_session_frames: int = 0  # 0: the worker's default
    idle_timeout_seconds: int = 16
    link_capacity: int = 0  # 0: the default, with which a fast sender gets more
    strip_annotations: str = "both"
    tls: TlsSetup | None = None
    policy_vhost: str = ""
    cost: int = 1
    annotations: str = "auto"
    open_properties: dict[str, Any] = {}
    logged_parts: list[str] = []  # the parts of messages that the message log shows
    ockam: OckamSetup | None = None  # set: connections speak Ockam's TCP transport, not AMQP
    management: str = ""  # management right: none, read or all; empty: the peer decides it


class ListenerSetup(TransportSetup, frozen=True):
    """One ``listener`` entity as a worker or the exporter needs it; ``fds`` are its inherited sockets.

    ``number`` is unique among all listeners and connectors, those of earlier configurations included.
    ``sasl_mechanisms`` are separated by spaces; the empty text allows every mechanism of the engine. OPEN also tells
    clients ``failover``, the hosts to connect to when this router is gone.
    """

    name: str
    fds: list[int]
    number: int = 0
    initial_handshake_timeout_seconds: int = 0
    sasl_mechanisms: str = "ANONYMOUS"
    authenticate_peer: bool = False
    metrics: bool = True
    healthz: bool = True
    require_encryption: bool = False
    service: ServiceSetup | None = None  # the authentication service
    multi_tenant: bool = False
    http_root_dir: str = ""
    allowed_hosts: list[str] = []  # host names that HTTP requests may use besides the machine's own
    allowed_origins: list[str] = []  # web origins that may open WebSockets, besides the listener's own
    failover: list[dict[str, str]] = []
    table: str = ""  # the route table of an RMR listener; empty: the listener speaks AMQP
    advertised: str = ""  # host:port at which RMR applications reach it; a lone host gets the listener's port
    replies: bool = False  # the listener accepts only replies to messages of this router
    websockets: bool = False  # the last of fds is the socket pair's end that brings WebSocket connections
    url: str = ""  # where clients reach its first socket

    @property
    def shown(self) -> str:
        """Its name in the log."""
        return self.name or self.url or str(self.number)


class ConnectorSetup(TransportSetup, frozen=True):
    """One ``connector`` entity as the worker that makes its connection needs it.

    ``number`` is unique among all listeners and connectors. The worker tries ``hosts`` ([scheme://]host:port) in turn:
    the configured one first, then its failover list. ``family`` is IPv4, IPv6 or empty, ``sasl_password`` is the
    configured text.
    """

    name: str
    number: int
    hosts: list[str]
    family: str = ""
    sasl_mechanisms: str = ""
    sasl_username: str = ""
    sasl_password: str = ""
    verify_hostname: bool = True

    def __repr__(self) -> str:
        return f"ConnectorSetup({self.name!r})"  # a password must not show


class AddressSetup(msgspec.Struct, frozen=True):
    """One ``address`` entity; exactly one of ``prefix`` and ``pattern`` is set."""

    prefix: str | None = None
    pattern: str | None = None
    distribution: str = "balanced"
    priority: int | None = None
    name: str | None = None
    ingress_phase: int = 0  # the phase of senders
    egress_phase: int = 0  # the phase of receivers
    fallback: bool = False
    max_senders: int = 0  # 0: any number
    max_receivers: int = 0
    link_capacity: int = 0  # 0: the listener's


class LinkRouteSetup(msgspec.Struct, frozen=True):
    """One ``linkRoute`` entity; it has either ``prefix`` or ``pattern``, and ``container`` or ``connection``.

    ``outgoing`` is true for direction out, the links of receivers. ``add_prefix`` and ``remove_prefix``
    change the address at the broker.
    """

    outgoing: bool
    prefix: str | None = None
    pattern: str | None = None
    container: str | None = None
    connection: str | None = None
    add_prefix: str = ""
    remove_prefix: str = ""

    @property
    def identity(self) -> str:
        """The key of the entity; link routes with equal keys are one."""
        return "|".join(str(one) for one in (self.outgoing, self.prefix, self.pattern, self.container, self.connection))


# --- supervisor -> child -----------------------------------------------------------------------------------


class FlightSetup(msgspec.Struct, frozen=True):
    """What the flight recorder may hold beside numbers."""

    addresses: bool = False


class Setup(msgspec.Struct, tag=True, frozen=True):
    """The first packet to a child: its role and configuration.

    ``index`` counts workers from 0; the core's is the number of places, which is also its arena's number.
    ``segments`` is the common prefix of the shared-memory names. ``doorbells`` has each place's eventfd; a
    worker gets only its own and -1 for the others. ``room`` is the number of places; 0: ``workers``.
    """

    role: Role
    index: int
    generation: int
    segments: str
    router_id: str
    version: str
    workers: int
    doorbells: list[int]
    area: str = "0"
    mode: str = "standalone"  # or interior, edge
    network: NetworkSetup = NetworkSetup()
    cpus: list[int] = []
    listeners: list[ListenerSetup] = []
    connectors: list[ConnectorSetup] = []  # those of this worker
    addresses: list[AddressSetup] = []
    logs: list[LogSetup] = []
    default_distribution: str = "balanced"
    link_capacity: int = 0  # of connections that route tables ask for; 0: the default
    busy_poll_us: int = 0
    accepting: bool = True
    management: Management | None = None  # for the core: what its management agent serves
    policy: PolicySetup = PolicySetup()
    sasl_config_dir: str = ""
    sasl_config_name: str = "qdrouterd"
    room: int = 0
    huge_pages: bool = False
    routing: Routing = Routing()  # for the core
    link_routes: list[LinkRouteSetup] = []
    source_routes: SourceRoutesSetup = SourceRoutesSetup()
    resumable_link_routes: bool = True
    flow: FlowLogSetup = FlowLogSetup()
    tracing: TracingSetup = TracingSetup()
    flight: FlightSetup = FlightSetup()
    tables: list[TableSetup] = []  # for core and workers
    presenting: list[int] = []  # for the core: workers that outlived the core before and will resync
    known_failures: list[str] = []  # kinds of death that the log has shown in full already
    started: int = 0  # when the router started, in nanoseconds of CLOCK_MONOTONIC; 0: as the process reads this
    secret: bytes = b""  # for workers: the key with which they sign, new at each start of the router

    @property
    def places(self) -> int:
        """The number of places for workers in shared memory, empty ones included."""
        return self.room or self.workers


class StopAccepting(msgspec.Struct, tag=True, frozen=True):
    """To workers: refuse new connections and links, and answer ``Drained`` once no delivery is unsettled."""


class CloseConnections(msgspec.Struct, tag=True, frozen=True):
    """To workers: close every connection with amqp:connection:forced; answer ``Closed`` when none is left."""

    why: str = "the router is shutting down"


class SetLogs(msgspec.Struct, tag=True, frozen=True):
    """To every child: replace the log configuration."""

    logs: list[LogSetup]


class SetListeners(msgspec.Struct, tag=True, frozen=True):
    """To workers: replace the listeners. A removed listener accepts no more but keeps its connections.

    The packet carries the sockets of all listeners; only the length of each ``fds`` counts.
    """

    listeners: list[ListenerSetup]


class SetConnectors(msgspec.Struct, tag=True, frozen=True):
    """To a worker: replace its connectors; it closes the connections of all others."""

    connectors: list[ConnectorSetup]


class SetPolicy(msgspec.Struct, tag=True, frozen=True):
    """To workers and core: replace the policy for connections that open from now on."""

    policy: PolicySetup


class SetAddresses(msgspec.Struct, tag=True, frozen=True):
    """To the core: replace the treatments of addresses, also of those in use."""

    addresses: list[AddressSetup]
    default_distribution: str = "balanced"


class ChangeAddresses(msgspec.Struct, tag=True, frozen=True):
    """To the core: remove the ``gone`` address entities, then add the ``new`` ones; all others stay."""

    gone: list[AddressSetup]
    new: list[AddressSetup]


class SetRouting(msgspec.Struct, tag=True, frozen=True):
    """To the core: replace auto links and exchanges."""

    routing: Routing


class SetSourceRoutes(msgspec.Struct, tag=True, frozen=True):
    """To workers and core: replace the route workers; links stay."""

    source_routes: SourceRoutesSetup


class SetLinkRoutes(msgspec.Struct, tag=True, frozen=True):
    """To the core: replace the link routes; link-route pairs that exist stay."""

    link_routes: list[LinkRouteSetup]


class SetTables(msgspec.Struct, tag=True, frozen=True):
    """To core and workers: replace the route tables."""

    tables: list[TableSetup]


class SetManagement(msgspec.Struct, tag=True, frozen=True):
    """To the core: replace the configuration that its management agent shows."""

    management: Management


class ChangeManagement(msgspec.Struct, tag=True, frozen=True):
    """To the core: change the configuration that its management agent shows."""

    deltas: list[Delta]


class ChangeReply(msgspec.Struct, tag=True, frozen=True):
    """To the core: the result of its ``ChangeRequest`` of that number.

    ``status`` is that of AMQP Management: 201, 200 and 204 report success. ``text`` gives the reason of a
    failure, or a remark. A ``ChangeManagement`` with the new entities comes before, in which the entity has
    this ``identity``. If ``awaited``, a worker waits for ``Answered`` before it leaves.
    """

    number: int
    status: int
    text: str = ""
    identity: str = ""
    awaited: bool = False


class Exit(msgspec.Struct, tag=True, frozen=True):
    """Leave the main loop and exit with status 0."""


class CoreGone(msgspec.Struct, tag=True, frozen=True):
    """To a worker: the core is gone. End all deliveries, touch no ring and no block, answer ``Quiesced``.

    ``died``: it had not been told to go.
    """

    generation: int
    died: bool = True


class CoreBack(msgspec.Struct, tag=True, frozen=True):
    """To a worker that has quiesced: a new core serves with empty rings and arenas; present your links."""


class WorkerGone(msgspec.Struct, tag=True, frozen=True):
    """To the core: a worker is dead. Settle its deliveries, mark its blocks, and answer ``WorkerReclaimed``.

    A worker that is ``removed`` has no successor.
    """

    index: int
    generation: int
    removed: bool = False


class WorkerAdded(msgspec.Struct, tag=True, frozen=True):
    """To the core: a worker is to start in an empty place; answer ``WorkerReclaimed`` when it may."""

    index: int
    generation: int


# --- child -> supervisor -----------------------------------------------------------------------------------


class Ready(msgspec.Struct, tag=True, frozen=True):
    """From every child: it has attached to shared memory and serves."""

    pid: int


class Alive(msgspec.Struct, tag=True, frozen=True):
    """From the exporter once a second: its loop runs. Core and workers use their statistics pages instead."""


class WorkerReclaimed(msgspec.Struct, tag=True, frozen=True):
    """From the core: the next generation of this worker may start."""

    index: int
    generation: int


class Drained(msgspec.Struct, tag=True, frozen=True):
    """From a worker after ``StopAccepting``: its connections have no unsettled deliveries."""


class Closed(msgspec.Struct, tag=True, frozen=True):
    """From a worker after ``CloseConnections``: it has no connection left."""


class Quiesced(msgspec.Struct, tag=True, frozen=True):
    """From a worker after ``CoreGone``: it has dropped all that the core of that generation knew."""

    generation: int


class ChangeRequest(msgspec.Struct, tag=True, frozen=True):
    """From the core: change the configuration of the running router; answered by ``ChangeReply``.

    ``operation`` is CREATE, UPDATE or DELETE. ``kind`` is the entity type without the common prefix.
    ``identity`` names the entity of an UPDATE or DELETE as ``SetManagement`` does. The value None resets an
    attribute to its default.
    """

    number: int
    operation: str
    kind: str
    identity: str = ""
    attributes: dict[str, Any] = {}


class Answered(msgspec.Struct, tag=True, frozen=True):
    """From the core, after a ``ChangeReply`` that is awaited: the client's worker has sent it the answer."""

    number: int


class Fatal(msgspec.Struct, tag=True, frozen=True):
    """From a child that cannot serve: what happened and what to do; the supervisor logs it as the reason."""

    text: str


ToChild = (
    Setup | StopAccepting | CloseConnections | Exit
    | SetLogs | SetListeners | SetConnectors | SetPolicy | SetFlowLog
    | SetAddresses | ChangeAddresses | SetRouting | SetLinkRoutes | SetSourceRoutes | SetTables | SetTracing
    | SetManagement | ChangeManagement | ChangeReply
    | WorkerGone | WorkerAdded | CoreGone | CoreBack
)  # fmt: skip
FromChild = Ready | Alive | WorkerReclaimed | Drained | Closed | Quiesced | ChangeRequest | Answered | Fatal

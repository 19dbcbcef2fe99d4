"""The supervisor's packets: MessagePack structures, one per packet on its socket pair with each child."""

from typing import Any

import msgspec

from shm.contract.flow_setup import FlowSetup, SetFlow
from shm.contract.management import Delta, Management
from shm.contract.ockam import OckamSetup
from shm.contract.roles import Role
from shm.contract.routing import NetworkSetup, Routing
from shm.contract.security import PolicySetup, ServiceSetup, TlsSetup
from shm.contract.source_routes import SourceRoutesSetup
from shm.contract.tables import TableSetup

# --- configuration that travels to the children ------------------------------------------------------------


class LogSetup(msgspec.Struct, frozen=True):
    """One ``log`` entity (facts: qdrouterd's log entity)."""

    module: str = "DEFAULT"
    enable: str | None = None
    include_timestamp: bool | None = None
    include_source: bool | None = None
    output_file: str | None = None
    format: str | None = None


class ListenerSetup(msgspec.Struct, frozen=True):
    """One ``listener`` entity as a worker or the exporter needs it; ``fds`` are its sockets, inherited.

    ``number`` tells listeners apart that may share everything else, also from those of former configurations.
    ``sasl_mechanisms`` are separated by blanks; empty: all that the engine has. ``open_properties`` and
    ``failover``, the places to go to when this router is gone, are told to clients in OPEN.
    """

    name: str
    fds: list[int]
    number: int = 0
    role: str = "normal"
    max_frame_size: int = 16384
    max_sessions: int = 32768
    max_session_frames: int = 0  # 0: the worker's own bound
    idle_timeout_seconds: int = 16
    initial_handshake_timeout_seconds: int = 0
    link_capacity: int = 250
    sasl_mechanisms: str = "ANONYMOUS"
    authenticate_peer: bool = False
    strip_annotations: str = "both"
    metrics: bool = True
    healthz: bool = True
    require_encryption: bool = False
    tls: TlsSetup | None = None
    service: ServiceSetup | None = None  # that says who may come in
    policy_vhost: str = ""
    cost: int = 1
    annotations: str = "auto"
    multi_tenant: bool = False
    http_root_dir: str = ""
    allowed_hosts: list[str] = []  # names that HTTP requests may be for, beside the machine's own
    allowed_origins: list[str] = []  # of pages that may open WebSockets, beside the listener's own
    open_properties: dict[str, Any] = {}
    failover: list[dict[str, str]] = []
    logged_parts: list[str] = []  # of its connections' messages
    table: str = ""  # RMR is spoken here, and this route table has the messages; empty: AMQP
    advertised: str = ""  # host:port that RMR applications reach it by; host alone: with the port that it has
    replies: bool = False  # only what replies to messages of this router comes here
    ockam: OckamSetup | None = None  # Ockam's TCP transport is spoken here
    management: str = ""  # right to it: none, read or all; empty: by what is known of the peer
    websockets: bool = False  # the last of fds is an end of the pair by which connections are handed over


class ConnectorSetup(msgspec.Struct, frozen=True):
    """One ``connector`` entity as the worker that makes its connection needs it.

    ``number`` tells connectors apart as a listener's does, and never equals a listener's. ``hosts``, as
    [scheme://]host:port, are tried in turn: the configured one first, then its failover list. ``family`` is
    IPv4, IPv6 or empty, ``annotations`` auto, section, map, skupper or none, ``sasl_password`` as configured.
    """

    name: str
    number: int
    hosts: list[str]
    family: str = ""
    role: str = "normal"
    cost: int = 1
    annotations: str = "auto"
    max_frame_size: int = 16384
    max_sessions: int = 32768
    max_session_frames: int = 0  # 0: the worker's own bound
    idle_timeout_seconds: int = 16
    link_capacity: int = 250
    sasl_mechanisms: str = ""
    sasl_username: str = ""
    sasl_password: str = ""
    strip_annotations: str = "both"
    verify_hostname: bool = True
    tls: TlsSetup | None = None
    policy_vhost: str = ""
    open_properties: dict[str, Any] = {}
    logged_parts: list[str] = []
    ockam: OckamSetup | None = None  # Ockam's TCP transport is spoken, not AMQP
    management: str = ""  # as a listener's

    def __repr__(self) -> str:
        return f"ConnectorSetup({self.name!r})"  # a password is never shown


class AddressSetup(msgspec.Struct, frozen=True):
    """One ``address`` entity: exactly one of prefix and pattern is set."""

    prefix: str | None = None
    pattern: str | None = None
    distribution: str = "balanced"
    priority: int | None = None
    name: str | None = None
    ingress_phase: int = 0  # in which senders send
    egress_phase: int = 0
    fallback: bool = False
    max_senders: int = 0  # 0: any number
    max_receivers: int = 0
    link_capacity: int = 0  # 0: as the listener says


class LinkRouteSetup(msgspec.Struct, frozen=True):
    """One ``linkRoute`` entity: one of prefix and pattern is set, and one of container and connection.

    ``outgoing``: direction out, for receivers. ``add_prefix`` and ``remove_prefix`` change the address at the
    broker.
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
        """What tells it apart from others; two that say the same are one."""
        return "|".join(
            str(one) for one in (self.outgoing, self.prefix, self.pattern, self.container, self.connection)
        )


# --- supervisor -> child -----------------------------------------------------------------------------------


class Setup(msgspec.Struct, tag=True, frozen=True):
    """The first packet a child gets: everything it needs to know.

    ``index`` counts workers from 0 and is the number of places for the core (its arena's number too).
    ``segments`` is the common prefix of the shared-memory names. ``doorbells`` are all places' eventfds;
    a worker has only its own, -1 elsewhere. ``room`` is how many workers there may ever be; 0: ``workers``.
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
    connectors: list[ConnectorSetup] = []  # a worker's own
    addresses: list[AddressSetup] = []
    logs: list[LogSetup] = []
    default_distribution: str = "balanced"
    link_capacity: int = 250
    busy_poll_us: int = 0
    accepting: bool = True
    management: Management | None = None  # the core's: what its management agent serves
    policy: PolicySetup = PolicySetup()
    sasl_config_dir: str = ""
    sasl_config_name: str = "qdrouterd"
    room: int = 0
    huge_pages: bool = False
    routing: Routing = Routing()  # the core's
    link_routes: list[LinkRouteSetup] = []
    source_routes: SourceRoutesSetup = SourceRoutesSetup()
    resumable_link_routes: bool = True
    flow: FlowSetup = FlowSetup()
    tables: list[TableSetup] = []  # the core's and the workers'
    presenting: list[
        int
    ] = []  # the core's: workers that have outlived the one before, and tell of their links
    known_failures: list[str] = []  # kinds of death, told in full already, that need not be told so again
    secret: bytes = b""  # the workers': of what only they can have made, in one life of the router

    @property
    def places(self) -> int:
        """For workers in shared memory, filled or not."""
        return self.room or self.workers


class StopAccepting(msgspec.Struct, tag=True, frozen=True):
    """Workers: take no new connections and no new links; answer ``Drained`` when no delivery is unsettled."""


class CloseConnections(msgspec.Struct, tag=True, frozen=True):
    """Workers: close every connection with amqp:connection:forced, answer ``Closed`` when all are gone."""

    why: str = "the router is shutting down"


class SetLogs(msgspec.Struct, tag=True, frozen=True):
    """To every child: its log from now on."""

    logs: list[LogSetup]


class SetListeners(msgspec.Struct, tag=True, frozen=True):
    """To workers: all listeners from now on. Those not named take no new connections, and keep theirs.

    The packet carries the listening sockets of all of them; ``fds`` only says how many each listener has.
    """

    listeners: list[ListenerSetup]


class SetConnectors(msgspec.Struct, tag=True, frozen=True):
    """To a worker: the connectors whose connections it makes from now on; those of others it closes."""

    connectors: list[ConnectorSetup]


class SetPolicy(msgspec.Struct, tag=True, frozen=True):
    """To workers and core: the policy from now on, for connections that open."""

    policy: PolicySetup


class SetAddresses(msgspec.Struct, tag=True, frozen=True):
    """To the core: how addresses are treated from now on, also those that are in use."""

    addresses: list[AddressSetup]
    default_distribution: str = "balanced"


class ChangeAddresses(msgspec.Struct, tag=True, frozen=True):
    """To the core: these are ``gone``, and then these are new; all others are treated as before."""

    gone: list[AddressSetup]
    new: list[AddressSetup]


class SetRouting(msgspec.Struct, tag=True, frozen=True):
    """To the core: auto links and exchanges from now on."""

    routing: Routing


class SetSourceRoutes(msgspec.Struct, tag=True, frozen=True):
    """To workers and core: the workers of source routes from now on; links stay as they are."""

    source_routes: SourceRoutesSetup


class SetLinkRoutes(msgspec.Struct, tag=True, frozen=True):
    """To the core: which links are routed through from now on; those that are stay."""

    link_routes: list[LinkRouteSetup]


class SetTables(msgspec.Struct, tag=True, frozen=True):
    """To core and workers: the route tables from now on."""

    tables: list[TableSetup]


class SetManagement(msgspec.Struct, tag=True, frozen=True):
    """To the core: what its management agent says of the configuration from now on."""

    management: Management


class ChangeManagement(msgspec.Struct, tag=True, frozen=True):
    """To the core: what is different in that; all else stays."""

    deltas: list[Delta]


class ChangeReply(msgspec.Struct, tag=True, frozen=True):
    """To the core: what became of its ``ChangeRequest`` of that number.

    ``status`` as of the management protocol, 201, 200 and 204 for what was done; ``text``, if there is one,
    says why not, or what is to be known about it. The new entities have gone before; in it the entity
    has the ``identity``.
    """

    number: int
    status: int
    text: str = ""
    identity: str = ""


class Exit(msgspec.Struct, tag=True, frozen=True):
    """Leave the main loop and exit with status 0."""


class CoreGone(msgspec.Struct, tag=True, frozen=True):
    """To a worker: the core is dead. End what was on its way, touch no ring and no block, and answer
    ``Quiesced``."""

    generation: int


class CoreBack(msgspec.Struct, tag=True, frozen=True):
    """To a worker that has quiesced: a new core serves, rings and arenas are empty. Tell it of your links."""


class WorkerGone(msgspec.Struct, tag=True, frozen=True):
    """To the core: this worker is dead. Settle what it owed, mark its blocks, answer ``WorkerReclaimed``.

    With ``removed`` it has no successor.
    """

    index: int
    generation: int
    removed: bool = False


class WorkerAdded(msgspec.Struct, tag=True, frozen=True):
    """To the core: a worker is to start in an empty place. Answer ``WorkerReclaimed`` when it may."""

    index: int
    generation: int


# --- child -> supervisor -----------------------------------------------------------------------------------


class Ready(msgspec.Struct, tag=True, frozen=True):
    """The child has attached to shared memory and serves."""

    pid: int


class Alive(msgspec.Struct, tag=True, frozen=True):
    """From the exporter, once a second: its loop turns. (Core and workers beat on their statistics pages.)"""


class WorkerReclaimed(msgspec.Struct, tag=True, frozen=True):
    """From the core: the next generation of this worker may start."""

    index: int
    generation: int


class Drained(msgspec.Struct, tag=True, frozen=True):
    """From a worker after ``StopAccepting``: nothing of its connections is unsettled."""


class Closed(msgspec.Struct, tag=True, frozen=True):
    """From a worker after ``CloseConnections``: no connection is left."""


class Quiesced(msgspec.Struct, tag=True, frozen=True):
    """From a worker after ``CoreGone``: it has let go of everything that the core of that generation knew."""

    generation: int


class ChangeRequest(msgspec.Struct, tag=True, frozen=True):
    """From the core: change the configuration of the running router; answered by ``ChangeReply``.

    ``operation`` is CREATE, UPDATE or DELETE; ``kind``, the entity type, has no common prefix; ``identity``
    names the entity of an UPDATE or DELETE as ``SetManagement`` does. A value None takes an attribute back to
    its default.
    """

    number: int
    operation: str
    kind: str
    identity: str = ""
    attributes: dict[str, Any] = {}


class Fatal(msgspec.Struct, tag=True, frozen=True):
    """The child cannot serve: what happened and what to do. The supervisor logs it as the exit's reason."""

    text: str


ToChild = (
    Setup | StopAccepting | CloseConnections | Exit
    | SetLogs | SetListeners | SetConnectors | SetPolicy | SetFlow
    | SetAddresses | ChangeAddresses | SetRouting | SetLinkRoutes | SetSourceRoutes | SetTables
    | SetManagement | ChangeManagement | ChangeReply
    | WorkerGone | WorkerAdded | CoreGone | CoreBack
)  # fmt: skip
FromChild = Ready | Alive | WorkerReclaimed | Drained | Closed | Quiesced | ChangeRequest | Fatal

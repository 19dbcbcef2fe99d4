"""What is said beside the rings: the supervisor's packets and the payloads of control records.

Two sets of structures, both MessagePack, both the whole contract between their two ends:

* packets on the supervisor's socket pair with each child (one structure per SOCK_SEQPACKET packet);
* payloads of ``A_CONTROL`` / ``W_CONTROL`` records between a worker and the core, stored in blocks that the
  record names (record.h, ``routerd_control_kind``).
"""

from typing import Final

import msgspec

from shm.management import Management
from shm.security import Admission, PolicySetup, TlsSetup

# --- configuration that travels to the children ------------------------------------------------------------


class LogSetup(msgspec.Struct, frozen=True):
    """One ``log`` entity (facts: qdrouterd's log entity)."""

    module: str = "DEFAULT"
    enable: str | None = None
    include_timestamp: bool | None = None
    include_source: bool | None = None
    output_file: str | None = None


class ListenerSetup(msgspec.Struct, frozen=True):
    """One ``listener`` entity as a worker or the exporter needs it; ``fds`` are its sockets, inherited.

    ``number`` tells listeners apart that may share everything else, also from those of former configurations.
    ``sasl_mechanisms`` are separated by blanks; empty: all that the engine has.
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
    policy_vhost: str = ""


class AddressSetup(msgspec.Struct, frozen=True):
    """One ``address`` entity: exactly one of prefix and pattern is set."""

    prefix: str | None = None
    pattern: str | None = None
    distribution: str = "balanced"
    priority: int | None = None
    name: str | None = None


# --- supervisor -> child -----------------------------------------------------------------------------------


class Setup(msgspec.Struct, tag=True, frozen=True):
    """The first packet a child gets: everything it needs to know.

    ``role`` is ``core``, ``worker`` or ``exporter``; ``index`` counts workers from 0 and is the number of
    workers for the core (its arena's number too). ``segments`` is the common prefix of the shared-memory
    names. ``doorbells`` are the workers' eventfds by index; a worker has only its own, -1 elsewhere.
    """

    role: str
    index: int
    generation: int
    segments: str
    router_id: str
    version: str
    workers: int
    doorbells: list[int]
    area: str = "0"
    cpus: list[int] = []
    listeners: list[ListenerSetup] = []
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


class StopAccepting(msgspec.Struct, tag=True, frozen=True):
    """Workers: take no new connections and no new links; answer ``Drained`` when no delivery is unsettled."""


class CloseConnections(msgspec.Struct, tag=True, frozen=True):
    """Workers: close every connection with amqp:connection:forced, answer ``Closed`` when all are gone."""


class SetLogs(msgspec.Struct, tag=True, frozen=True):
    """To every child: its log from now on."""

    logs: list[LogSetup]


class SetListeners(msgspec.Struct, tag=True, frozen=True):
    """To workers: all listeners from now on. Those not named take no new connections, and keep theirs.

    The packet carries the listening sockets of all of them; ``fds`` only says how many each listener has.
    """

    listeners: list[ListenerSetup]


class SetPolicy(msgspec.Struct, tag=True, frozen=True):
    """To workers and core: the policy from now on, for connections that open."""

    policy: PolicySetup


class SetAddresses(msgspec.Struct, tag=True, frozen=True):
    """To the core: how addresses are treated from now on, also those that are in use."""

    addresses: list[AddressSetup]
    default_distribution: str = "balanced"


class SetManagement(msgspec.Struct, tag=True, frozen=True):
    """To the core: what its management agent says of the configuration from now on."""

    management: Management


class Exit(msgspec.Struct, tag=True, frozen=True):
    """Leave the main loop and exit with status 0."""


class CoreGone(msgspec.Struct, tag=True, frozen=True):
    """To a worker: the core is dead. End what was on its way, touch no ring and no block, and answer
    ``Quiesced``."""

    generation: int


class CoreBack(msgspec.Struct, tag=True, frozen=True):
    """To a worker that has quiesced: a new core serves, rings and arenas are empty. Tell it of your links."""


class WorkerGone(msgspec.Struct, tag=True, frozen=True):
    """To the core: this worker is dead. Settle what it owed, mark its blocks, answer ``WorkerReclaimed``."""

    index: int
    generation: int


# --- child -> supervisor -----------------------------------------------------------------------------------


class Ready(msgspec.Struct, tag=True, frozen=True):
    """The child has attached to shared memory and serves."""

    pid: int


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


class Fatal(msgspec.Struct, tag=True, frozen=True):
    """The child cannot serve: what happened and what to do. The supervisor logs it as the exit's reason."""

    text: str


ToChild = (
    Setup
    | StopAccepting
    | CloseConnections
    | SetLogs
    | SetListeners
    | SetAddresses
    | SetManagement
    | SetPolicy
    | Exit
    | WorkerGone
    | CoreGone
    | CoreBack
)
FromChild = Ready | WorkerReclaimed | Drained | Closed | Quiesced | Fatal

# --- payloads of control records ---------------------------------------------------------------------------


class Error(msgspec.Struct, array_like=True, frozen=True):
    """An AMQP error (AMQP 2.8.14): condition symbol and description."""

    condition: str
    description: str = ""


class ConnectionOpened(msgspec.Struct, array_like=True, frozen=True):
    """C_CONNECTION_OPENED. ``connection`` and ``generation`` name it in its worker.

    ``host`` is the peer's address:port, ``hostname`` what the peer's open frame said. ``tls_…`` are empty
    without TLS, ``tls_strength`` is in bits. Without ``admission`` the connection is free of vhost policy.
    """

    connection: int
    generation: int
    container: str
    host: str
    hostname: str = ""
    role: str = "normal"
    listener: str = ""
    user: str = ""
    sasl: str = ""
    product: str = ""
    product_version: str = ""
    number: int = 0  # unique in the router, as in the log's [C…] and the property qd.conn-id
    properties: dict[str, str | int] = {}  # of the peer's open frame
    authenticated: bool = False
    encrypted: bool = False
    tls_protocol: str = ""
    tls_cipher: str = ""
    tls_strength: int = 0
    admission: Admission | None = None


class ConnectionClosed(msgspec.Struct, array_like=True, frozen=True):
    """C_CONNECTION_CLOSED: all its links are gone already (each had its own C_DETACH)."""

    connection: int
    generation: int
    reason: str = ""


class Attach(msgspec.Struct, array_like=True, frozen=True):
    """C_ATTACH: a peer attached (first attach), or ``restored``: a link that is open already, for a new core.

    ``outgoing`` is the router's view: true for a link whose peer is the receiver. ``address`` is the source's
    (outgoing) or target's (incoming) address, None for null. Settle modes as in AMQP 2.8.2 and 2.8.3.
    ``capacity`` is the listener's linkCapacity. A restored link is answered only if it is refused; its
    ``address`` is the one it has, generated or not, and ``granted`` the credit that its sender still has
    (below 0: it overran).
    """

    link: int
    generation: int
    connection: int
    name: str
    outgoing: bool
    address: str | None
    dynamic: bool = False
    coordinator: bool = False
    capabilities: list[str] = []
    snd_settle_mode: int = 2
    rcv_settle_mode: int = 0
    capacity: int = 250
    restored: bool = False
    granted: int = 0


class Attached(msgspec.Struct, array_like=True, frozen=True):
    """C_ATTACHED: the core's answer. With ``error`` the link is refused: attach with a null terminus, detach.

    ``address`` is set for a dynamic terminus only: the generated address to answer with.
    """

    link: int
    generation: int
    address: str | None = None
    error: Error | None = None


class Detach(msgspec.Struct, array_like=True, frozen=True):
    """C_DETACH, worker -> core: the peer (or its connection) is gone; every delivery of an outgoing link has
    been answered by A_UPDATE before. core -> worker: detach this link with ``error``."""

    link: int
    generation: int
    error: Error | None = None


class Close(msgspec.Struct, array_like=True, frozen=True):
    """C_CLOSE, core -> worker: close a connection with ``error``."""

    connection: int
    generation: int
    error: Error


C_CONNECTION_OPENED: Final = 1
C_CONNECTION_CLOSED: Final = 2
C_ATTACH: Final = 3
C_ATTACHED: Final = 4
C_DETACH: Final = 5
C_CLOSE: Final = 6

PAYLOADS: Final[dict[int, type[msgspec.Struct]]] = {
    C_CONNECTION_OPENED: ConnectionOpened,
    C_CONNECTION_CLOSED: ConnectionClosed,
    C_ATTACH: Attach,
    C_ATTACHED: Attached,
    C_DETACH: Detach,
    C_CLOSE: Close,
}

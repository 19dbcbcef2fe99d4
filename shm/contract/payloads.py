"""The payloads of ``A_CONTROL`` and ``W_CONTROL`` records between a worker and the core.

A payload is a MessagePack structure in the blocks that a record names (record.h, ``routerd_control_kind``).
"""

from struct import Struct
from typing import Any, Final

import msgspec

from shm.contract.security import Admission

LONGEST: Final = 1 << 20  # octets of a payload; the core drops a longer one (access.h, CONTENT_CONTROL_MAX)


class Error(msgspec.Struct, array_like=True, frozen=True):
    """An AMQP error (AMQP 1.0 part 2.8.14): its condition symbol and description."""

    condition: str
    description: str = ""


class ConnectionOpened(msgspec.Struct, array_like=True, frozen=True):
    """C_CONNECTION_OPENED, worker -> core: a connection is open.

    ``connection`` and ``generation`` are its handle in the worker. ``host`` is the peer's address:port,
    ``hostname`` is the hostname in the peer's open frame. ``tls_…`` are empty without TLS; ``tls_strength``
    is in bits. Vhost policy does not apply to a connection without ``admission``.
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
    number: int = 0  # unique in the router: the log's [C…] and the property qd.conn-id
    properties: dict[str, Any] = {}  # those of the peer's open frame, as JSON values
    authenticated: bool = False
    encrypted: bool = False
    tls_protocol: str = ""
    tls_cipher: str = ""
    tls_strength: int = 0
    admission: Admission | None = None
    tenant: str = ""  # the tenant whose addresses it uses; empty: none
    connector: str = ""  # the name of the connector that made it; empty: the peer connected to a listener
    cost: int = 1  # the configured cost of the connection to another router
    annotations: int = 0  # enum content_annotations of content.h: the form of router annotations on it
    trace: bool | None = None  # whether the log shows its frames; None: the log's level decides
    restored: bool = False  # it was open before this core started; its links follow
    offered: list[str] = []  # the offered capabilities of the peer's open frame
    management: str = "all"  # its management right: shm/contract/administering.py
    login: str = ""  # the user that the peer has proved to be (workers/control/guard.py); empty: a stranger

    @property
    def peer(self) -> str:
        """The peer's name for the log."""
        return f"{self.container} at {self.host}"


class ConnectionClosed(msgspec.Struct, array_like=True, frozen=True):
    """C_CONNECTION_CLOSED, worker -> core: a connection is gone, after a C_DETACH for each of its links."""

    connection: int
    generation: int
    reason: str = ""


NEVER: Final = 3  # pn_expiry_policy_t of the engine


class Terminus(msgspec.Struct, array_like=True, frozen=True):
    """A complete source or target (AMQP 1.0 part 3.5.3, 3.5.4).

    ``kind``, ``durability``, ``expiry`` and ``distribution`` are the engine's numbers. The bytes are AMQP
    encodings, empty for absent fields. ``timeout`` is in seconds.
    """

    kind: int = 0  # none, source, target, coordinator (AMQP 1.0 part 4.5.1)
    address: str | None = None
    durability: int = 0
    expiry: int = 0
    expires: bool = False  # whether `expiry` was given
    timeout: int = 0
    dynamic: bool = False
    distribution: int = 0
    properties: bytes = b""
    capabilities: bytes = b""
    outcomes: bytes = b""
    filters: bytes = b""

    @property
    def lasts(self) -> bool:
        """Whether it is to outlive its connection, such as a durable subscription."""
        return self.timeout > 0 or (self.expires and self.expiry == NEVER)


class Termini(msgspec.Struct, array_like=True, frozen=True):
    """The attach of one end of a link-route pair, which the router repeats at the other end."""

    source: Terminus
    target: Terminus
    properties: bytes = b""
    max_message_size: int = 0
    snd_settle_mode: int = 2
    rcv_settle_mode: int = 0


class Attach(msgspec.Struct, array_like=True, frozen=True):
    """C_ATTACH, worker -> core: a peer attached, or an open link is ``restored`` in a new core.

    ``outgoing`` is the router's view: the peer of an outgoing link is its receiver. ``address`` is the
    source's address of an outgoing link and the target's of an incoming one; None is null. The settle modes
    are those of AMQP 1.0 part 2.8.2 and 2.8.3. ``capacity`` is the configured linkCapacity, in deliveries; 0: none is.

    The core answers a restored link only to refuse it. A restored link's ``address`` may be generated, and
    ``granted`` is the credit that its sender still has; it is negative if the sender has overrun it.
    ``to_table``: its worker reports route keys, because the former core wanted them.
    ``request`` is that of the ``OpenLink`` that the peer's attach answers, or 0. The router has initiated a
    link with ``router_initiated``; its ``address`` and ``capabilities`` are those of the terminus at the peer.
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
    capacity: int = 0
    restored: bool = False
    granted: int = 0
    request: int = 0
    router_initiated: bool = False
    routed: bool = False  # it belongs to a link-route pair
    termini: Termini | None = None
    session: int = 0  # the session's number, unique in the connection
    to_table: bool = False


class Attached(msgspec.Struct, array_like=True, frozen=True):
    """C_ATTACHED, core -> worker: the answer to C_ATTACH. With ``error``, attach a null terminus and detach.

    ``address`` is the generated address of a dynamic terminus. ``termini`` is the far end's answer for a link
    of a link-route pair. ``to_table``: the link's sender sends to a route table, so the worker reports the route
    key of each message (record.h, ``deliver_key``). ``capacity`` is the sender's credit in deliveries, if its
    address grants less than its listener; 0: the listener's.
    """

    link: int
    generation: int
    address: str | None = None
    error: Error | None = None
    termini: Termini | None = None
    to_table: bool = False
    capacity: int = 0


class Detach(msgspec.Struct, array_like=True, frozen=True):
    """C_DETACH, worker -> core: a link is gone. core -> worker: detach a link with ``error``.

    The worker has answered every delivery of an outgoing link by A_UPDATE before. A ``closed`` link cannot
    resume. A link is ``lost`` if it ended without its peer's detach: its session or connection is gone, or no frame of
    the peer has room for the router's answer.
    """

    link: int
    generation: int
    error: Error | None = None
    closed: bool = True
    lost: bool = False


class OpenLink(msgspec.Struct, array_like=True, frozen=True):
    """C_OPEN_LINK, core -> worker: attach a link to this connection's peer.

    The router sends on an ``outgoing`` link. Links with the same ``session`` number share a session. The
    worker writes one capability as a bare symbol and several as an array (AMQP 1.0 part 1.4). ``capacity`` is
    in deliveries; 0: that of the connection. A link of a link-route pair has ``termini``, which are its whole
    attach. ``client`` is the number of the connection on whose behalf the link is requested, modulo 2³², or 0
    for the router itself; a ``neighbour`` is a router, which brings what many clients want.

    The worker answers by an ``Attach`` with the same ``request`` when the peer has attached, and by
    ``LinkRefused`` when the peer refuses or the connection is lost before.
    """

    connection: int
    generation: int
    request: int
    name: str
    outgoing: bool
    source: str | None = None
    target: str | None = None
    session: int = 0
    source_capabilities: list[str] = []
    target_capabilities: list[str] = []
    dynamic_source: bool = False
    snd_settle_mode: int = 2
    rcv_settle_mode: int = 0
    capacity: int = 0
    priority: int = 4
    termini: Termini | None = None
    client: int = 0
    neighbour: bool = False


class LinkRefused(msgspec.Struct, array_like=True, frozen=True):
    """C_LINK_REFUSED, worker -> core: the link of an ``OpenLink`` cannot be opened."""

    request: int
    error: Error | None = None


class Close(msgspec.Struct, array_like=True, frozen=True):
    """C_CLOSE, core -> worker: close a connection with ``error``."""

    connection: int
    generation: int
    error: Error


# A link's index and generation; native code writes and reads thousands of them at once.
POLL_LINK: Final = Struct("=II")
# Unsent deliveries; credit, or -1 for a lost link; ns of CLOCK_MONOTONIC since when it has no credit, or 0; 1 if its
# session's window holds it up. A sender's link has the last one only.
SEEN_LINK: Final = Struct("=IiQQ")
SeenLink = tuple[int, int, int, int]


class Poll(msgspec.Struct, array_like=True, frozen=True):
    """C_POLL, core -> worker: a poll of links, a POLL_LINK each; ``Seen`` answers it."""

    number: int
    links: bytes


class Seen(msgspec.Struct, array_like=True, frozen=True):
    """C_SEEN, worker -> core: the answer to the ``Poll`` of that number, a SEEN_LINK for each link."""

    number: int
    links: bytes


class Denied(msgspec.Struct, array_like=True, frozen=True):
    """C_DENIED, worker -> core: a vhost's policy denied ``what``: a connection, session or message."""

    vhost: str
    what: str


class Trace(msgspec.Struct, array_like=True, frozen=True):
    """C_TRACE, core -> worker: log the frames of a connection or do not, regardless of the log's level."""

    connection: int
    generation: int
    on: bool


class ConnectorState(msgspec.Struct, array_like=True, frozen=True):
    """C_CONNECTOR, worker -> core: the state of the connector of that name, for management.

    ``status`` is CONNECTING, SUCCESS, FAILED, or GONE when the configuration has no such connector any more.
    ``message`` tells the last event. ``hosts`` lists the hosts to connect to, the current one first.
    """

    name: str
    status: str
    message: str = ""
    hosts: list[str] = []


class Served(msgspec.Struct, array_like=True, frozen=True):
    """C_SERVED, worker -> core: all listeners by name, and whether the worker accepts on each of their sockets."""

    listeners: dict[str, bool]


class Cost(msgspec.Struct, array_like=True, frozen=True):
    """C_COST, worker -> core: the new cost of an open connection to another router."""

    connection: int
    generation: int
    cost: int


class Endpoint(msgspec.Struct, array_like=True, frozen=True):
    """C_ENDPOINT, core -> worker: keep a connection to ``host``:``port``, or end it if not ``open``.

    Its link receives from ``address``, which stands for the endpoint in the route table ``table``.
    Worker -> core: the first attempt has failed (``open`` is false); the worker goes on trying.
    """

    table: str
    address: str
    host: str
    port: int
    open: bool = True


class RouteReach(msgspec.Struct, array_like=True, frozen=True):
    """C_ROUTE_REACH, core -> worker: the route workers that a link may send to.

    ``addresses`` are those that messages of an anonymous link under vhost policy may be sent to, in their
    text form. ``target`` is the one to which a router-initiated link leads.
    """

    link: int
    generation: int
    addresses: list[str]
    target: str = ""


class RouteCounts(msgspec.Struct, array_like=True, frozen=True):
    """C_ROUTE_COUNTS, worker -> core: the increments since the last such payload, by route worker's identity.

    Each entry counts messages in, out, and refused by reason (`shm.contract.source_routes.REASONS`).
    """

    workers: dict[str, tuple[int, int, list[int]]]


class Presented(msgspec.Struct, array_like=True, frozen=True):
    """C_PRESENTED, worker -> core: all connections and links have been presented to the new core.

    core -> worker: every worker has presented its own, so messages may flow.
    """


# By enum routerd_control_kind of record.h, whose names the docstrings begin with.
PAYLOADS: Final[dict[int, type[msgspec.Struct]]] = {
    1: ConnectionOpened, 2: ConnectionClosed, 3: Attach, 4: Attached, 5: Detach, 6: Close, 7: OpenLink,
    8: LinkRefused, 9: Poll, 10: Seen, 11: Denied, 12: Trace, 13: ConnectorState, 14: Cost, 15: Served,
    16: Endpoint, 24: RouteReach, 25: RouteCounts, 29: Presented,
}  # fmt: skip
_KINDS: Final = {payload: kind for kind, payload in PAYLOADS.items()}


def record(message: msgspec.Struct) -> tuple[int, bytes]:
    """Return the kind of a control record and its payload."""
    return _KINDS[type(message)], msgspec.msgpack.encode(message)

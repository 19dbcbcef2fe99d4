"""Payloads of ``A_CONTROL`` and ``W_CONTROL`` records between a worker and the core.

MessagePack structures in the blocks that the records name (record.h, ``routerd_control_kind``).
"""

from struct import Struct
from typing import Any, Final

import msgspec

from shm.contract.security import Admission


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
    properties: dict[str, Any] = {}  # of the peer's open frame, as JSON has them
    authenticated: bool = False
    encrypted: bool = False
    tls_protocol: str = ""
    tls_cipher: str = ""
    tls_strength: int = 0
    admission: Admission | None = None
    tenant: str = ""  # in whose space its addresses lie; empty: in everybody's
    connector: str = ""  # name of the connector that made it; empty: the peer connected to a listener
    cost: int = 1  # of the way to another router, as this end's configuration has it
    annotations: int = (
        0  # enum content_annotations of arena.h: the form in which messages carry router annotations there
    )
    trace: bool | None = None  # whether its frames are logged; None: as the log's level says
    restored: bool = False  # told to a new core: its links follow
    offered: list[str] = []  # capabilities of the peer's open frame
    management: str = "all"  # what it may do at the management agent: shm/contract/administering.py


class ConnectionClosed(msgspec.Struct, array_like=True, frozen=True):
    """C_CONNECTION_CLOSED: all its links are gone already (each had its own C_DETACH)."""

    connection: int
    generation: int
    reason: str = ""


class Terminus(msgspec.Struct, array_like=True, frozen=True):
    """A source or target (AMQP 3.5.3, 3.5.4), whole. ``kind``, ``durability``, ``expiry`` and
    ``distribution`` are the engine's numbers; the rest is as AMQP encodes it, empty where there is nothing.
    """

    kind: int = 0  # none, source, target, coordinator (AMQP 4.5.1)
    address: str | None = None
    durability: int = 0
    expiry: int = 0
    expires: bool = False  # `expiry` was said
    timeout: int = 0
    dynamic: bool = False
    distribution: int = 0
    properties: bytes = b""
    capabilities: bytes = b""
    outcomes: bytes = b""
    filters: bytes = b""


class Termini(msgspec.Struct, array_like=True, frozen=True):
    """What one end of a link that is routed through says in its attach: it is said again at the other end."""

    source: Terminus
    target: Terminus
    properties: bytes = b""
    max_message_size: int = 0
    snd_settle_mode: int = 2
    rcv_settle_mode: int = 0


class Attach(msgspec.Struct, array_like=True, frozen=True):
    """C_ATTACH: a peer attached (first attach), or ``restored``: a link that is open already, for a new core.

    ``outgoing`` is the router's view: true for a link whose peer is the receiver. ``address`` is the source's
    (outgoing) or target's (incoming) address, None for null. Settle modes as in AMQP 2.8.2 and 2.8.3.
    ``capacity`` is the listener's linkCapacity. A restored link is answered only if it is refused; its
    ``address`` is the one it has, generated or not, and ``granted`` the credit that its sender still has
    (below 0: it overran). ``request`` is that of the ``OpenLink`` which the peer's attach answers, else 0.
    ``ours``: the router began; ``address`` and ``capabilities`` are then those at the peer, the target's of
    an outgoing link and the source's of an incoming one.
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
    request: int = 0
    ours: bool = False
    routed: bool = False  # it is one end of a link that is routed through
    termini: Termini | None = None
    session: int = 0  # tells the sessions of a connection apart


class Attached(msgspec.Struct, array_like=True, frozen=True):
    """C_ATTACHED: the core's answer. With ``error`` the link is refused: attach with a null terminus, detach.

    ``address`` is set for a dynamic terminus only: the generated address to answer with. With ``termini`` the
    link is routed through, and this is what the far end has answered. ``keyed``: of a sender to a route
    table, so its messages' route keys are told with them (record.h, ``deliver_key``). ``capacity``: of a
    sender, where its address gives it less credit than its listener; 0: as that says.
    """

    link: int
    generation: int
    address: str | None = None
    error: Error | None = None
    termini: Termini | None = None
    keyed: bool = False
    capacity: int = 0


class Detach(msgspec.Struct, array_like=True, frozen=True):
    """C_DETACH, worker -> core: the peer (or its connection) is gone; every delivery of an outgoing link has
    been answered by A_UPDATE before. core -> worker: detach this link with ``error``. ``closed``: for good;
    ``lost``: the peer did not say so, its session or connection has ended."""

    link: int
    generation: int
    error: Error | None = None
    closed: bool = True
    lost: bool = False


class OpenLink(msgspec.Struct, array_like=True, frozen=True):
    """C_OPEN_LINK, core -> worker: attach a link to this connection's peer.

    ``outgoing``: we send. Links of one ``session`` number share a session, each number has its own. One
    capability is written as a bare symbol, several as an array (facts 2). ``capacity`` 0: as configured for
    the connection. With ``termini`` the link is routed through, and they are all that is said. The peer's
    attach comes back as
    ``Attach`` with the same ``request``, and the link is open then; its refusal, or the loss of the
    connection before, as ``LinkRefused``.
    """

    connection: int
    generation: int
    request: int
    name: str
    outgoing: bool
    source: str | None
    target: str | None
    session: int = 0
    source_capabilities: list[str] = []
    target_capabilities: list[str] = []
    dynamic_source: bool = False
    snd_settle_mode: int = 2
    rcv_settle_mode: int = 0
    capacity: int = 0
    priority: int = 4
    termini: Termini | None = None


class LinkRefused(msgspec.Struct, array_like=True, frozen=True):
    """C_LINK_REFUSED, worker -> core: what ``OpenLink`` asked for will not be."""

    request: int
    error: Error | None = None


class Close(msgspec.Struct, array_like=True, frozen=True):
    """C_CLOSE, core -> worker: close a connection with ``error``."""

    connection: int
    generation: int
    error: Error


# Thousands at once, read and written natively: index and generation.
LOOK_LINK: Final = Struct("=II")
# Deliveries not sent yet; credit, or -1: it is gone; since when (ns of CLOCK_MONOTONIC) there is none, or 0.
SEEN_LINK: Final = Struct("=IiQ")


class Look(msgspec.Struct, array_like=True, frozen=True):
    """C_LOOK, core -> worker: how are these receivers' links? ``Seen`` answers. Of each a LOOK_LINK."""

    number: int
    links: bytes


class Seen(msgspec.Struct, array_like=True, frozen=True):
    """C_SEEN, worker -> core: answer to the ``Look`` of that number: a SEEN_LINK for each of its links."""

    number: int
    links: bytes


class Denied(msgspec.Struct, array_like=True, frozen=True):
    """C_DENIED, worker -> core: the policy of a vhost denied a ``connection``, ``session`` or ``message``."""

    vhost: str
    what: str


class Trace(msgspec.Struct, array_like=True, frozen=True):
    """C_TRACE, core -> worker: log the frames of a connection, or not, whatever the log's level says."""

    connection: int
    generation: int
    on: bool


class ConnectorState(msgspec.Struct, array_like=True, frozen=True):
    """C_CONNECTOR, worker -> core: how the connector of that name does, for management.

    ``status`` is CONNECTING, SUCCESS or FAILED; ``message`` says what happened last; ``hosts`` are where it
    leads and will lead, the present one first.
    """

    name: str
    status: str
    message: str = ""
    hosts: list[str] = []


class Cost(msgspec.Struct, array_like=True, frozen=True):
    """C_COST, worker -> core: as ``ConnectionOpened.cost``, for a connection that is open."""

    connection: int
    generation: int
    cost: int


class Endpoint(msgspec.Struct, array_like=True, frozen=True):
    """C_ENDPOINT, core -> worker: keep a connection to ``host``:``port``, or (not ``open``) do so no longer.

    Its link receives from ``address``, which names the endpoint in the route table of that name.
    Worker -> core: the first attempt has failed (not ``open``); it goes on trying.
    """

    table: str
    address: str
    host: str
    port: int
    open: bool = True


class RouteReach(msgspec.Struct, array_like=True, frozen=True):
    """C_ROUTE_REACH, core -> worker: the addresses of workers of source routes that messages of an anonymous
    link under vhost policy may be sent to, as they are written; or the one that a link leads to which this
    router has begun."""

    link: int
    generation: int
    addresses: list[str]
    target: str = ""


class RouteCounts(msgspec.Struct, array_like=True, frozen=True):
    """C_ROUTE_COUNTS, worker -> core: what is new since the last, for each worker of source routes by its
    identity: messages in, out, and refused by reason (shm/contract/source_routes.py, REASONS)."""

    workers: dict[str, tuple[int, int, list[int]]]


class Presented(msgspec.Struct, array_like=True, frozen=True):
    """C_PRESENTED. Of a worker: the new core has been told of all its connections and links. Of the core: it
    has heard of those of every worker, and messages may be passed on."""


C_CONNECTION_OPENED: Final = 1
C_CONNECTION_CLOSED: Final = 2
C_ATTACH: Final = 3
C_ATTACHED: Final = 4
C_DETACH: Final = 5
C_CLOSE: Final = 6
C_OPEN_LINK: Final = 7
C_LINK_REFUSED: Final = 8
C_LOOK: Final = 9
C_SEEN: Final = 10
C_DENIED: Final = 11
C_TRACE: Final = 12
C_CONNECTOR: Final = 13
C_COST: Final = 14
C_ENDPOINT: Final = 16
C_ROUTE_REACH: Final = 24
C_ROUTE_COUNTS: Final = 25
C_PRESENTED: Final = 29

PAYLOADS: Final[dict[int, type[msgspec.Struct]]] = {
    C_CONNECTION_OPENED: ConnectionOpened, C_CONNECTION_CLOSED: ConnectionClosed, C_ATTACH: Attach,
    C_ATTACHED: Attached, C_DETACH: Detach, C_CLOSE: Close, C_OPEN_LINK: OpenLink,
    C_LINK_REFUSED: LinkRefused, C_LOOK: Look, C_SEEN: Seen, C_DENIED: Denied, C_TRACE: Trace,
    C_CONNECTOR: ConnectorState, C_COST: Cost, C_ROUTE_REACH: RouteReach, C_ROUTE_COUNTS: RouteCounts,
    C_PRESENTED: Presented, C_ENDPOINT: Endpoint,
}  # fmt: skip

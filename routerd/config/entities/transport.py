"""Entities of connections: listeners, connectors, TLS and authentication (qpid-dispatch 1.19 schema)."""

import re
import socket
from typing import Annotated, Final, Literal

import msgspec

from routerd.config.entities.attribute import MAX_SECONDS, UINT, Entity, State, about
from routerd.config.formats.source import listed, shown, words
from shm.contract.security import MODERN_TLS, TlsSetup
from shm.contract.structs import same

Family = Literal["IPv4", "IPv6"]
Role = Literal["normal", "inter-router", "route-container", "edge"]
Strip = Literal["in", "out", "both", "no"]
Form = Literal["auto", "section", "map", "skupper", "none"]
Protocol = Literal["amqp", "rmr", "ockam"]
Out = Literal["amqp", "ockam"]
Framing = Literal["cbor", "bare"]
Right = Literal["none", "read", "all"]

MIN_FRAME_SIZE: Final = 512  # AMQP 2.3.2: every peer takes such frames
MAX_SESSIONS: Final = 32768

# Attributes that listeners and connectors share.
MaxFrameSize = Annotated[int, about("Largest AMQP frame in bytes, at least 512.", ge=0, le=UINT)]
MaxSessions = Annotated[int, about("Sessions at once per connection, at most 32768; 0 means 32768.", ge=0, le=UINT)]
MaxSessionFrames = Annotated[
    int,
    about(
        "Incoming frames at once per session.",
        ge=1,
        le=UINT >> 1,
        default="as many as hold 8 MiB, in the first session 64 MiB",
    ),
]
IdleTimeout = Annotated[
    int, about("Seconds of the peer's silence that end a connection; 0: never.", ge=0, le=MAX_SECONDS)
]
StripAnnotations = Annotated[Strip, about("Direction in which router annotations are removed from messages.")]
Annotations = Annotated[Form, about(
    "Form of router annotations on messages: by the peer's product, or one that is forced.")]  # fmt: skip
MessageLogging = Annotated[str, about("Message parts written to the log.", old="logMessage")]
OckamFraming = Annotated[Framing, about(
    "With `protocol: ockam`: framing of messages, that of today or of before June 2024.")]  # fmt: skip
Reach = Annotated[str, about(
    "With `protocol: ockam`: addresses that its nodes may reach, besides route workers that allow it; commas "
    "between, a star at the end for all that begin so.", default="none")]  # fmt: skip
MaxMessageSize = Annotated[
    int, about("With `protocol: ockam`: longest frame in bytes; BARE has 65535 at most.", ge=1, le=16777216)
]
Management = Annotated[Right, about(
    "What the peer may do at the management address: nothing, ask, or ask and change.",
    default="all for a peer that has authenticated or comes from a loopback address, else read")]  # fmt: skip
OpenProperties = Annotated[dict[str, object], about("Properties added to OPEN.", kind="map")]

_PLACE = re.compile(
    r"(?:(?P<scheme>amqps?)://)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]@]+)(?::(?P<port>[\w-]+))?", re.ASCII
)
_DEFAULT_PORT = "5672"
SERVICE_PORTS = {"amqp": 5672, "amqps": 5671}
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not listened on
MAX_COST = 2**31 - 1  # routers exchange it as an int


class Listener(Entity, frozen=True, kw_only=True, tag="listener"):
    """A listener is an address and port to which clients and routers connect."""

    host: Annotated[str, about("Address or name to listen on.", default="all interfaces, IPv4 and IPv6")] = ""
    port: Annotated[str, about("Port number or service name; 0 takes any free port.", kind="port")] = "amqp"
    socket_address_family: Annotated[Family, about("Only address family to use.", old="protocolFamily")] | None = None
    role: Annotated[Role, about("Kind of peer that connects to this listener: client, router or broker.")] = "normal"
    protocol: Annotated[
        Protocol, about("Protocol of this listener: AMQP, RMR's own transport, or Ockam's TCP transport.")
    ] = "amqp"
    framing: OckamFraming = "cbor"
    route_address: Annotated[
        str, about("With `protocol: ockam`: beginning of the connections' addresses in source routes.")
    ] = "ockam"
    reach: Reach | None = None
    max_message_size: MaxMessageSize = 16777216
    table: Annotated[str, about(
        "With `protocol: rmr`: name of the routeTable that routes this listener's messages."
    )] | None = None  # fmt: skip
    advertised: Annotated[str, about(
        "With `protocol: rmr`: host:port, at most 63 bytes, by which applications reach this listener; for replies.",
        default="its own host, or the machine's name, and port")] | None = None  # fmt: skip
    replies: Annotated[
        bool, about("With `protocol: rmr`: whether this listener takes only replies to messages of this router.")
    ] = False
    cost: Annotated[int, about("Cost of links to routers that connect to this listener.", ge=1, le=MAX_COST)] = 1
    ssl_profile: Annotated[str, about("Name of the sslProfile for TLS.")] | None = None
    sasl_mechanisms: (
        Annotated[str, about("SASL mechanisms offered, separated by blanks.", default="ANONYMOUS")] | None
    ) = None
    authenticate_peer: Annotated[bool, about("Whether a peer must authenticate itself.")] = False
    sasl_plugin: Annotated[str, about("Name of the authServicePlugin that authenticates peers.")] | None = None
    require_encryption: Annotated[bool, about("Whether the connection must be encrypted.")] = False
    require_ssl: Annotated[bool, about("Whether the connection must use TLS.")] = False
    trusted_certs_file: Annotated[str, about(
        "Certificates that clients may present.", kind="path", old="trustedCerts")] | None = None  # fmt: skip
    max_frame_size: MaxFrameSize = 16384
    max_sessions: MaxSessions = 32768
    max_session_frames: MaxSessionFrames | None = None
    idle_timeout_seconds: IdleTimeout = 16
    initial_handshake_timeout_seconds: Annotated[
        int, about("Seconds within which a new connection must open; 0: idleTimeoutSeconds.", ge=0, le=MAX_SECONDS)
    ] = 0
    strip_annotations: StripAnnotations = "both"
    annotations: Annotations = "auto"
    link_capacity: Annotated[int, about(
        "Credit of a sending client per link.", ge=1, le=1_000_000, default="linkCapacity of the router"
    )] | None = None  # fmt: skip
    multi_tenant: Annotated[bool, about("Whether the client's virtual host is put before addresses.")] = False
    failover_urls: Annotated[str, about(
        "Other routers that clients may fail over to, separated by commas.", old="failoverList"
    )] | None = None  # fmt: skip
    healthz: Annotated[bool, about("Whether an HTTP listener serves /healthz.")] = True
    metrics: Annotated[bool, about("Whether an HTTP listener serves /metrics.")] = True
    websockets: Annotated[bool, about("Whether an HTTP listener serves AMQP over WebSockets.")] = True
    http: Annotated[bool, about("Whether the port speaks HTTP.")] = False
    http_root_dir: (
        Annotated[str, about("Directory of files that an HTTP listener serves.", kind="path", old="httpRoot")] | None
    ) = None
    allowed_hosts: Annotated[str, about(
        "Host names to which an HTTP listener answers, commas between; `*.example.com`: all below it, `*`: "
        "any.", default="addresses, `localhost`, the machine's name, `host`")] | None = None  # fmt: skip
    allowed_origins: Annotated[str, about(
        "Origins, as `https://app.example.com`, of pages that may open WebSockets; `*` for any.",
        default="the listener's own")] | None = None  # fmt: skip
    message_logging_components: MessageLogging = "none"
    policy_vhost: Annotated[str, about("Virtual host whose policy applies to this listener's connections.")] | None = (
        None
    )
    management: Management | None = None
    open_properties: OpenProperties | None = None

    def __post_init__(self) -> None:
        if self.http_root_dir:  # only HTTP serves files, so httpRootDir implies http
            msgspec.structs.force_setattr(self, "http", True)

    @property
    def mechanisms(self) -> str:
        """The SASL mechanisms to offer, separated by blanks.

        Empty offers all of Cyrus SASL if peers must authenticate, or all of an authServicePlugin.
        """
        if self.sasl_mechanisms is None:
            return "" if self.authenticate_peer or self.sasl_plugin else "ANONYMOUS"
        return " ".join(words(self.sasl_mechanisms))

    @property
    def for_clients(self) -> bool:
        """Whether clients connect to it, and so those that manage the router."""
        return not self.http and self.role == "normal"

    @property
    def port_number(self) -> int:
        """The port as a number, 0 to 65535."""
        return port_number(self.port)


class Connector(Entity, frozen=True, kw_only=True, tag="connector"):
    """A connector is a connection that the router makes."""

    host: Annotated[str, about("Address or name to connect to.")] = "127.0.0.1"
    port: Annotated[str, about("Port number or service name.", kind="port")] = "amqp"
    protocol_family: Annotated[Family, about("Only address family to use.")] | None = None
    role: Annotated[Role, about("Kind of peer to which the router connects: client, router or broker.")] = "normal"
    protocol: Annotated[Out, about("Protocol of the connection: AMQP, or Ockam's TCP transport.")] = "amqp"
    framing: OckamFraming = "cbor"
    route_address: (
        Annotated[str, about("With `protocol: ockam`: address of the connection in source routes.")] | None
    ) = None
    reach: Reach | None = None
    max_message_size: MaxMessageSize = 16777216
    cost: Annotated[int, about("Cost of links to that router.", ge=1, le=MAX_COST, update=True)] = 1
    ssl_profile: Annotated[str, about("Name of the sslProfile for TLS.")] | None = None
    sasl_mechanisms: Annotated[str, about("SASL mechanisms accepted, separated by blanks.")] | None = None
    allow_redirect: Annotated[bool, about("Read and ignored: the router follows no redirect.")] = True
    max_frame_size: MaxFrameSize = 16384
    max_sessions: MaxSessions = 32768
    max_session_frames: MaxSessionFrames | None = None
    idle_timeout_seconds: IdleTimeout = 16
    strip_annotations: StripAnnotations = "both"
    annotations: Annotations = "auto"
    link_capacity: Annotated[int, about(
        "Credit of a sending peer per link.", ge=1, le=1_000_000, default="linkCapacity of the router"
    )] | None = None  # fmt: skip
    verify_hostname: Annotated[
        bool, about("Whether the peer's certificate must name the host.", old="verifyHostName")
    ] = True
    sasl_username: Annotated[str, about("User for SASL.")] | None = None
    sasl_password: Annotated[str, about("Password for SASL.", secret=True)] | None = None
    message_logging_components: MessageLogging = "none"
    failover_urls: Annotated[str, about(
        "Other addresses to connect to, separated by commas.", old="failoverList")] | None = None  # fmt: skip
    policy_vhost: Annotated[str, about("Virtual host whose policy applies to this connection.")] | None = None
    management: Management | None = None
    open_properties: OpenProperties | None = None

    @property
    def mechanisms(self) -> str:
        """The SASL mechanisms to accept, separated by blanks; empty accepts all."""
        return " ".join(words(self.sasl_mechanisms))


class ConnectorState(State, frozen=True, kw_only=True):
    connection_status: Annotated[str, about("State of the connection.")] = ""
    connection_msg: Annotated[str, about("The last thing that happened to it.")] = ""


class SslProfile(Entity, frozen=True, kw_only=True, tag="sslProfile"):
    """An sslProfile holds certificates and settings for TLS; others refer to it by name."""

    ciphers: Annotated[str, about("Cipher suites, as OpenSSL lists them.", update=True)] | None = None
    protocols: Annotated[str, about("TLS versions, separated by blanks.", default=MODERN_TLS, update=True)] | None = (
        None
    )
    ca_cert_file: (
        Annotated[str, about("File of trusted certificates.", update=True, kind="path", old="certDb")] | None
    ) = None
    cert_file: Annotated[str, about("Certificate of the router.", update=True, kind="path")] | None = None
    private_key_file: (
        Annotated[str, about("Private key of the certificate.", update=True, kind="path", old="keyFile")] | None
    ) = None
    password_file: Annotated[str, about(
        "File with the password of the key; use password.", update=True, kind="path", deprecated=True
    )] | None = None  # fmt: skip
    password: (
        Annotated[str, about("Password of the key, or `env:NAME`, `file:PATH`, `pass:TEXT`.", update=True, secret=True)]
        | None
    ) = None
    uid_format: (
        Annotated[str, about("Parts of a client's certificate that make its user name.", update=True)] | None
    ) = None
    uid_name_mapping_file: Annotated[str, about(
        "File that maps those user names to others.", update=True, kind="path", old="displayNameFile"
    )] | None = None  # fmt: skip

    @property
    def tls(self) -> TlsSetup:
        """The TLS set-up of the profile alone."""
        password = self.password or (f"file:{self.password_file}" if self.password_file else "")
        protocols = self.protocols or MODERN_TLS
        return same(self, TlsSetup, profile=self.name or "", password=password, protocols=protocols)


class AuthServicePlugin(Entity, frozen=True, kw_only=True, tag="authServicePlugin"):
    """An authServicePlugin is a remote service that authenticates clients."""

    auth_service: Annotated[str, about("Address and port in one; use host and port.", deprecated=True)] | None = None
    host: Annotated[str, about("Address or name of the service.")] = ""
    port: Annotated[str, about("Port number or service name.", kind="port")] = "amqp"
    realm: Annotated[str, about("Host name for SASL.", old="saslInitHostname")] | None = None
    ssl_profile: Annotated[str, about("Name of the sslProfile for TLS.", old="authSslProfile")] | None = None

    @property
    def place(self) -> tuple[str, str]:
        """Return host and port of the service; an empty host means that none is given."""
        if self.host or not self.auth_service:
            return self.host, self.port
        bracketed, _, rest = self.auth_service.rpartition("]")
        host, _, port = (bracketed[1:], "", rest[1:]) if bracketed else self.auth_service.partition(":")
        return host, port or "amqp"


def failover_places(text: str) -> list[dict[str, str]]:
    """Return OPEN's failover-server-list for a failoverUrls text. Raises ValueError for a bad place."""
    places = []
    for word in listed(text):
        match = _PLACE.fullmatch(word)
        if match is None:
            raise ValueError(f"{shown(word)} is not an address of a router; give host:port or amqps://host:port")
        port = match["port"] or _DEFAULT_PORT
        if not _is_port(port):
            raise ValueError(f"{shown(word)} names no port; give one from 1 to 65535, or a service name such as amqp")
        place = {"scheme": match["scheme"]} if match["scheme"] else {}
        places.append({**place, "network-host": match["host"].strip("[]"), "port": port})
    return places


def _is_port(text: str) -> bool:
    try:
        return 0 < port_number(text) < 65536
    except ValueError:
        return False


def port_number(port: str) -> int:
    """Return the number of a port given as number or service name. Raises ValueError for an unknown name."""
    if port.isascii() and port.isdigit():
        return int(port) if len(port) <= 5 else 65536
    if port in SERVICE_PORTS:
        return SERVICE_PORTS[port]
    try:
        return socket.getservbyname(port, "tcp")
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{port!r} is not a service name") from error

"""The configuration of TLS and vhost policy for workers, and what the policy grants a connection."""

from typing import Final

import msgspec

MODERN_TLS: Final = "TLSv1.2 TLSv1.3"  # RFC 8996 deprecates older ones; a profile has to name them


class TlsSetup(msgspec.Struct, frozen=True):
    """An ``sslProfile`` as one listener or connector uses it; an absent attribute is empty.

    ``password`` is the configured text (``env:NAME``, ``file:PATH``, ``pass:TEXT``, ``literal:TEXT``, bare);
    the process that reads the key resolves it. With ``verify``, a client must show a certificate that
    ``trusted_certs_file`` vouches for, or else ``ca_cert_file``. A ``client`` (connector) needs no
    certificate of its own, trusts the machine's authorities without ``ca_cert_file``, and compares host names
    with ``verify``.
    """

    profile: str
    cert_file: str = ""
    private_key_file: str = ""
    password: str = ""
    ca_cert_file: str = ""
    trusted_certs_file: str = ""
    protocols: str = MODERN_TLS
    ciphers: str = ""
    uid_format: str = ""
    uid_name_mapping_file: str = ""
    required: bool = False
    verify: bool = False
    client: bool = False

    def __repr__(self) -> str:
        return f"TlsSetup({self.profile!r})"  # a password must not show


class ServiceSetup(msgspec.Struct, frozen=True):
    """An ``authServicePlugin``, which authenticates clients; ``realm`` is the hostname in sasl-init."""

    name: str
    host: str
    port: str
    realm: str = ""
    tls: TlsSetup | None = None


class GroupSetup(msgspec.Struct, frozen=True):
    """A user group of a vhost, inherited attributes included; 0 in a max_… means no limit.

    Sizes are in bytes. ``hosts`` are address ranges, first and last; None permits all. ``sources`` and
    ``targets`` are names; a final ``*`` matches any rest. In patterns ``*`` matches one token and ``#`` any
    number of tokens. ``${user}`` stands for the user's name in all four.
    """

    name: str
    users: list[str] = []
    hosts: list[tuple[str, str]] | None = None
    max_connections_per_user: int = 65535
    max_connections_per_host: int = 65535
    max_message_size: int = 0
    max_frame_size: int = 0
    max_session_window: int = 0
    max_sessions: int = 0
    max_senders: int = 2147483647
    max_receivers: int = 2147483647
    allow_dynamic_source: bool = False
    allow_anonymous_sender: bool = False
    allow_user_id_proxy: bool = False
    allow_waypoint_links: bool = True
    allow_dynamic_link_routes: bool = True
    allow_admin_status_update: bool = True
    allow_fallback_links: bool = True
    management: str = ""  # none, read or all; empty: listener and peer decide
    sources: list[str] = []
    targets: list[str] = []
    source_patterns: list[str] = []
    target_patterns: list[str] = []


class VhostSetup(msgspec.Struct, frozen=True):
    """A ``vhost`` entity; ``aliases`` are its further host names."""

    hostname: str
    aliases: list[str] = []
    max_connections: int = 65535
    allow_unknown_user: bool = False
    groups: list[GroupSetup] = []


class PolicySetup(msgspec.Struct, frozen=True):
    """The ``policy`` entity with all vhosts; without ``enforce`` the router ignores the vhosts."""

    enforce: bool = False
    patterns: bool = False
    default_vhost: str = "$default"
    max_connections: int = 65535
    max_message_size: int = 0
    vhosts: list[VhostSetup] = []


class Admission(msgspec.Struct, array_like=True, frozen=True):
    """The vhost policy's grants to a connection, as far as the core enforces them: counts and addresses.

    The limits count connections of ``user`` and ``host`` (without port). Names and patterns of addresses are
    those of GroupSetup with the user's name inserted.
    """

    vhost: str
    group: str
    user: str
    host: str
    max_connections: int
    max_connections_per_user: int
    max_connections_per_host: int
    max_senders: int
    max_receivers: int
    allow_dynamic_source: bool
    allow_anonymous_sender: bool
    allow_waypoint_links: bool
    allow_dynamic_link_routes: bool
    allow_admin_status_update: bool
    allow_fallback_links: bool
    sources: list[str]
    targets: list[str]
    source_patterns: list[str]
    target_patterns: list[str]
    management: str = ""  # as in GroupSetup

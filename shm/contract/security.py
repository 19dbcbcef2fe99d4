"""TLS, vhost policy and what it grants: as the supervisor tells workers, and workers tell the core."""

from typing import Final

import msgspec

MODERN_TLS: Final = "TLSv1.2 TLSv1.3"  # older versions are spoken only where a profile names them (RFC 8996)


class TlsSetup(msgspec.Struct, frozen=True):
    """An ``sslProfile`` as one listener or connector uses it; empty: not given.

    ``password`` is as configured (``env:NAME``, ``file:PATH``, ``pass:TEXT``, ``literal:TEXT``, bare): it is
    found out where the key is read. ``verify``: a client must show a certificate that ``ca_cert_file``, or
    ``trusted_certs_file`` instead of it, vouches for. A ``client`` (connector) needs no certificate of its
    own, trusts what the machine trusts without ``ca_cert_file``, and with ``verify`` compares host names.
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
        return f"TlsSetup({self.profile!r})"  # a password is never shown


class ServiceSetup(msgspec.Struct, frozen=True):
    """An ``authServicePlugin`` that judges a listener's clients; ``realm`` is the host name in sasl-init."""

    name: str
    host: str
    port: str
    realm: str = ""
    tls: TlsSetup | None = None


class GroupSetup(msgspec.Struct, frozen=True):
    """A user group of a vhost with everything filled in that it inherits; 0 of a max_…: no limit.

    ``hosts`` are ranges of addresses, first and last; None: from anywhere. ``sources`` and ``targets`` are
    names (``*`` at the end: anything may follow), the patterns have ``*`` for one token and ``#`` for any
    number; in all of them ``${user}`` stands for the user's name.
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
    management: str = ""  # none, read or all; empty: by listener and peer
    sources: list[str] = []
    targets: list[str] = []
    source_patterns: list[str] = []
    target_patterns: list[str] = []


class VhostSetup(msgspec.Struct, frozen=True):
    """A ``vhost`` entity; ``aliases`` are further host names of it."""

    hostname: str
    aliases: list[str] = []
    max_connections: int = 65535
    allow_unknown_user: bool = False
    groups: list[GroupSetup] = []


class PolicySetup(msgspec.Struct, frozen=True):
    """The ``policy`` entity with all vhosts; they count only if ``enforce``."""

    enforce: bool = False
    patterns: bool = False
    default_vhost: str = "$default"
    max_connections: int = 65535
    max_message_size: int = 0
    vhosts: list[VhostSetup] = []


class Admission(msgspec.Struct, array_like=True, frozen=True):
    """What the vhost policy grants a connection: the core counts and looks at addresses, the worker does the
    rest. ``user`` and ``host`` (without port) are whom the limits are counted for; names and patterns of
    addresses as in GroupSetup, with the user's name put in.
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

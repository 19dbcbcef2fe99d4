"""Translates TLS, SASL and vhost policy into workers' set-ups; it also looks up host names."""

import logging
import re
import socket
from collections.abc import Sequence
from functools import cache

import msgspec

from routerd.config.entities.policy import Policy, UserGroup, Vhost
from routerd.config.entities.transport import AuthServicePlugin, Connector, Listener, SslProfile, port_number
from routerd.machine.confidential import told
from shm.contract.security import MODERN_TLS, GroupSetup, PolicySetup, ServiceSetup, TlsSetup, VhostSetup
from workers.control.lookup import is_address

LOGGER = logging.getLogger("POLICY")

NO_USER = ("ANONYMOUS",)  # mechanisms that say nothing about the peer


def mechanisms(listener: Listener) -> str:
    """Return the SASL mechanisms to offer, separated by blanks.

    Empty offers all of Cyrus SASL if peers must authenticate, or all of an authServicePlugin.
    """
    if listener.sasl_mechanisms is None:
        return "" if listener.authenticate_peer or listener.sasl_plugin else "ANONYMOUS"
    return " ".join(listener.sasl_mechanisms.replace(",", " ").split())


def tls_setup(listener: Listener, profiles: Sequence[SslProfile]) -> TlsSetup | None:
    """Return the TLS set-up of a listener; None if it has no sslProfile."""
    if listener.ssl_profile is None:
        return None
    profile = next(one for one in profiles if one.name == listener.ssl_profile)
    tls = profile_setup(profile)
    return msgspec.structs.replace(
        tls,
        trusted_certs_file=listener.trusted_certs_file or "",
        required=listener.require_ssl,
        verify=listener.authenticate_peer if listener.http else "EXTERNAL" in mechanisms(listener).split(),
    )


def client_tls_setup(connector: Connector, profiles: Sequence[SslProfile]) -> TlsSetup | None:
    """Return the TLS set-up of a connector; None if it has no sslProfile."""
    if connector.ssl_profile is None:
        return None
    profile = next(one for one in profiles if one.name == connector.ssl_profile)
    return msgspec.structs.replace(profile_setup(profile), required=True, verify=connector.verify_hostname, client=True)


def service_setup(
    listener: Listener, plugins: Sequence[AuthServicePlugin], profiles: Sequence[SslProfile]
) -> ServiceSetup | None:
    """Return the set-up of the service that authenticates a listener's clients; None if there is none."""
    if listener.sasl_plugin is None:
        return None
    plugin = next(one for one in plugins if one.name == listener.sasl_plugin)
    profile = next((one for one in profiles if one.name == plugin.ssl_profile), None)
    host, port = plugin.place
    return ServiceSetup(
        name=plugin.name or "",
        host=host,
        port=str(port_number(port)),
        realm=plugin.realm or "",
        tls=None
        if profile is None
        else msgspec.structs.replace(profile_setup(profile), required=True, verify=True, client=True),
    )


def profile_setup(profile: SslProfile) -> TlsSetup:
    """Return the TLS set-up of an sslProfile alone."""
    password = profile.password or (f"file:{profile.password_file}" if profile.password_file else "")
    return TlsSetup(
        profile=profile.name or "",
        cert_file=profile.cert_file or "",
        private_key_file=profile.private_key_file or "",
        password=told(password),
        ca_cert_file=profile.ca_cert_file or "",
        protocols=profile.protocols or MODERN_TLS,
        ciphers=profile.ciphers or "",
        uid_format=profile.uid_format or "",
        uid_name_mapping_file=profile.uid_name_mapping_file or "",
    )


def policy_setup(policy: Policy, vhosts: Sequence[Vhost]) -> PolicySetup:
    """Return the policy's set-up; without enableVhostPolicy it has no vhosts."""
    return PolicySetup(
        enforce=policy.enable_vhost_policy,
        patterns=policy.enable_vhost_name_patterns,
        default_vhost=policy.default_vhost,
        max_connections=policy.max_connections,
        max_message_size=policy.max_message_size,
        vhosts=[_vhost(vhost, policy) for vhost in vhosts] if policy.enable_vhost_policy else [],
    )


def user_groups(vhost: Vhost) -> dict[str, UserGroup]:
    """Return the groups of a vhost by name."""
    return msgspec.convert(vhost.groups or {}, dict[str, UserGroup])


def words(text: str | None) -> list[str]:
    """Return the words between commas or blanks."""
    return re.split(r"[,\s]+", text.strip(" ,")) if text and text.strip(" ,") else []


def _vhost(vhost: Vhost, policy: Policy) -> VhostSetup:
    return VhostSetup(
        hostname=vhost.hostname,
        aliases=words(vhost.aliases),
        max_connections=vhost.max_connections,
        allow_unknown_user=vhost.allow_unknown_user,
        groups=[_group(name, group, vhost, policy) for name, group in user_groups(vhost).items()],
    )


def _group(name: str, group: UserGroup, vhost: Vhost, policy: Policy) -> GroupSetup:
    return GroupSetup(
        name=name,
        users=words(group.users),
        hosts=_hosts(group.remote_hosts),
        max_connections_per_user=_first(group.max_connections_per_user, vhost.max_connections_per_user),
        max_connections_per_host=_first(group.max_connections_per_host, vhost.max_connections_per_host),
        max_message_size=_first(group.max_message_size, vhost.max_message_size, policy.max_message_size),
        max_frame_size=group.max_frame_size or 0,
        max_session_window=group.max_session_window or 0,
        max_sessions=group.max_sessions or 0,
        max_senders=group.max_senders,
        max_receivers=group.max_receivers,
        allow_dynamic_source=group.allow_dynamic_source,
        allow_anonymous_sender=group.allow_anonymous_sender,
        allow_user_id_proxy=group.allow_user_id_proxy,
        allow_waypoint_links=group.allow_waypoint_links,
        allow_dynamic_link_routes=group.allow_dynamic_link_routes,
        allow_admin_status_update=group.allow_admin_status_update,
        allow_fallback_links=group.allow_fallback_links,
        management=group.management or "",
        sources=words(group.sources),
        targets=words(group.targets),
        source_patterns=words(group.source_pattern),
        target_patterns=words(group.target_pattern),
    )


def _first(*values: int | None) -> int:
    return next((value for value in values if value is not None), 0)


def _hosts(text: str | None) -> list[tuple[str, str]] | None:
    """Return ranges of addresses; None if ``*`` allows all."""
    ranges: list[tuple[str, str]] = []
    for word in words(text):
        if word == "*":
            return None
        ranges += host_ranges(word)
    return ranges


@cache
def host_ranges(word: str) -> tuple[tuple[str, str], ...]:
    """Return the ranges of an address, of ``first-last``, or of a name (looked up once); empty if unknown."""
    first, dash, last = word.partition("-")
    if dash and is_address(first) and is_address(last):
        return ((first, last),)
    if is_address(word):
        return ((word, word),)
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(word, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        LOGGER.warning("remoteHosts: nobody knows the host %r (%s): it lets nobody in", word, error)
        return ()
    return tuple((address, address) for address in sorted(found))

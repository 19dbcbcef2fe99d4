"""Translates TLS, SASL and vhost policy into workers' set-ups."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from routerd.config.entities.policy import Policy, UserGroup, Vhost
from routerd.config.entities.transport import AuthServicePlugin, Connector, Listener, SslProfile, port_number
from routerd.config.formats.source import words
from routerd.translate.remote_hosts import Found, look_up
from shm.contract.security import GroupSetup, PolicySetup, ServiceSetup, TlsSetup, VhostSetup
from shm.contract.structs import same
from workers.control.tls import explain

LOGGER = logging.getLogger("POLICY")


def tls_setup(listener: Listener, profiles: Sequence[SslProfile]) -> TlsSetup | None:
    """Return the TLS set-up of a listener; None if it has no sslProfile."""
    return _tls(
        listener.ssl_profile,
        profiles,
        trusted_certs_file=listener.trusted_certs_file or "",
        required=listener.require_ssl,
        verify=listener.authenticate_peer if listener.http else "EXTERNAL" in listener.mechanisms.split(),
    )


def unusable(listeners: Iterable[Listener], profiles: Sequence[SslProfile]) -> str:
    """Return why a worker that starts now could not serve one of these listeners; empty if it could serve all."""
    for one in listeners:
        tls = None if one.http else tls_setup(one, profiles)
        if tls is not None and (fault := explain(tls)):
            return f"sslProfile {tls.profile}: {': '.join(fault)}"
    return ""


def client_tls_setup(connector: Connector, profiles: Sequence[SslProfile]) -> TlsSetup | None:
    """Return the TLS set-up of a connector; None if it has no sslProfile."""
    return _tls(connector.ssl_profile, profiles, required=True, verify=connector.verify_hostname, client=True)


def service_setup(
    listener: Listener, plugins: Sequence[AuthServicePlugin], profiles: Sequence[SslProfile]
) -> ServiceSetup | None:
    """Return the set-up of the service that authenticates a listener's clients; None if there is none."""
    if listener.sasl_plugin is None:
        return None
    plugin = next(one for one in plugins if one.name == listener.sasl_plugin)
    host, port = plugin.place
    return ServiceSetup(
        name=plugin.name or "",
        host=host,
        port=str(port_number(port)),
        realm=plugin.realm or "",
        tls=_tls(plugin.ssl_profile, profiles, required=True, verify=True, client=True),
    )


def _tls(name: str | None, profiles: Sequence[SslProfile], **others: Any) -> TlsSetup | None:
    if not name:
        return None
    profile = next(one for one in profiles if one.name == name)  # the rules refuse a name that no profile has
    return msgspec.structs.replace(profile.tls, **others)


def policy_setup(policy: Policy, vhosts: Sequence[Vhost]) -> PolicySetup:
    """Return the policy's set-up; without enableVhostPolicy it has no vhosts."""
    return same(
        policy,
        PolicySetup,
        enforce=policy.enable_vhost_policy,
        patterns=policy.enable_vhost_name_patterns,
        vhosts=_vhosts(vhosts, policy) if policy.enable_vhost_policy else [],
    )


def _vhosts(vhosts: Sequence[Vhost], policy: Policy) -> list[VhostSetup]:
    groups = [group for vhost in vhosts for group in vhost.user_groups.values() if not _anywhere(group)]
    known = look_up(host for group in groups for host in words(group.remote_hosts))
    return [_vhost(vhost, policy, known) for vhost in vhosts]


def _vhost(vhost: Vhost, policy: Policy, known: Mapping[str, Found]) -> VhostSetup:
    groups = [_group(name, group, vhost, policy, known) for name, group in vhost.user_groups.items()]
    return same(vhost, VhostSetup, aliases=words(vhost.aliases), groups=groups)


def _group(name: str, group: UserGroup, vhost: Vhost, policy: Policy, known: Mapping[str, Found]) -> GroupSetup:
    return same(
        group,
        GroupSetup,
        name=name,
        users=words(group.users),
        hosts=_hosts(name, group, vhost, known),
        max_connections_per_user=_first(group.max_connections_per_user, vhost.max_connections_per_user),
        max_connections_per_host=_first(group.max_connections_per_host, vhost.max_connections_per_host),
        max_message_size=_first(group.max_message_size, vhost.max_message_size, policy.max_message_size),
        sources=words(group.sources),
        targets=words(group.targets),
        source_patterns=words(group.source_pattern),
        target_patterns=words(group.target_pattern),
    )


def _first(*values: int | None) -> int:
    return next((value for value in values if value is not None), 0)


def _anywhere(group: UserGroup) -> bool:
    return "*" in words(group.remote_hosts)


def _hosts(name: str, group: UserGroup, vhost: Vhost, known: Mapping[str, Found]) -> list[tuple[str, str]] | None:
    """Return ranges of addresses; None if ``*`` allows all."""
    if _anywhere(group):
        return None
    hosts: list[tuple[str, str]] = []
    for host in words(group.remote_hosts):
        hosts += known[host].ranges
        if why := known[host].why:
            where = f"vhost {vhost.hostname!r} group {name!r}" + (f" (line {group.line})" if group.line else "")
            what = "it lets nobody in: give an address, or mend the name"
            if known[host].ranges:
                what = "the addresses that it had before stay allowed"
            LOGGER.warning("%s remoteHosts: %s; %s", where, why, what)
    return hosts

"""A worker's part of vhost policy: the vhost and user group of a connection, and their grants.

The result depends only on the configuration and the peer's OPEN (docs/security.md, Vhost policy). The core
enforces addresses and the limits that count over all workers; it gets them as an Admission.
"""

import ipaddress
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

import msgspec

from shm.contract.patterns import MOST_STEPS, WILD, Patterns, SearchTooLongError
from shm.contract.security import Admission, GroupSetup, PolicySetup, VhostSetup
from shm.contract.spelling import strip_spelling
from shm.contract.structs import same

DENIED: Final = ("amqp:resource-limit-exceeded", "connection disallowed by local policy")
DEFAULT_GROUP: Final = "$default"
CONNECTOR_GROUP: Final = "$connector"
USER: Final = "${user}"
_HIGHEST: Final = 1 << 128  # above all addresses
_NO_LIMIT: Final = 2**31 - 1
_ANY_VHOST: Final = VhostSetup("", max_connections=_NO_LIMIT)
_UNBOUNDED: Final = GroupSetup("", max_connections_per_user=_NO_LIMIT, max_connections_per_host=_NO_LIMIT)

Range = tuple[int, int, int]  # version, first, last


class DeniedError(Exception):
    """The policy denies a connection; the text says why, ``vhost`` is its vhost or empty."""

    def __init__(self, why: str, vhost: str = "") -> None:
        super().__init__(why)
        self.vhost = vhost


class Grant(msgspec.Struct, frozen=True):
    """The rights and limits of a connection; 0 means no limit, no ``admission`` means no vhost policy.

    ``max_message_size``, ``max_frame_size`` and ``max_session_window`` are in bytes.
    """

    admission: Admission | None = None
    max_message_size: int = 0
    max_frame_size: int = 0
    max_sessions: int = 0
    max_session_window: int = 0
    user_id: str | None = None  # the only user-id that messages may have; None: any


class Rights(msgspec.Struct, frozen=True):
    """The names, as in GroupSetup, that an authentication service lets a client receive from and send to."""

    sources: list[str]
    targets: list[str]


class Policy:
    """The vhosts of one configuration."""

    def __init__(self, setup: PolicySetup) -> None:
        self._setup = setup
        self._vhosts = {vhost.hostname: vhost for vhost in setup.vhosts}
        for vhost in setup.vhosts:
            for alias in vhost.aliases:
                self._vhosts.setdefault(alias, vhost)
        self._groups = {
            vhost.hostname: {user: group for group in vhost.groups for user in group.users} for vhost in setup.vhosts
        }
        self._named = {(vhost.hostname, group.name): group for vhost in setup.vhosts for group in vhost.groups}
        self._hosts = {
            (vhost.hostname, group.name): None if group.hosts is None else _joined(group.hosts)
            for vhost in setup.vhosts
            for group in vhost.groups
        }
        self._patterns = Patterns[VhostSetup]()
        if setup.patterns:
            for name, vhost in self._vhosts.items():
                self._patterns.insert(name.split("."), vhost)

    def grant(self, hostname: str, user: str, host: str, *, known: bool = True) -> Grant:
        """Return the grant for a peer at address ``host`` whose OPEN names ``hostname``. Raises DeniedError.

        An unauthenticated peer (not ``known``) belongs to the group of its user name, but ``${user}`` does
        not stand for that name.
        """
        if not self._setup.enforce:
            return Grant(max_message_size=self._setup.max_message_size)
        vhost = self._vhost(hostname)
        group = self._group(vhost, user)
        if not _within(host, self._hosts[vhost.hostname, group.name]):
            raise DeniedError(
                f"group {group.name} of vhost {vhost.hostname} is not allowed from this host", vhost.hostname
            )
        return _granted(vhost, group, user, host, user if known else "")

    def grant_connector(self, hostname: str) -> Grant:
        """Return the grant for a connection of a connector with this policyVhost. Raises DeniedError."""
        if not self._setup.enforce:
            return Grant(max_message_size=self._setup.max_message_size)
        vhost = self._vhosts.get(hostname)
        group = self._named.get((vhost.hostname, CONNECTOR_GROUP)) if vhost else None
        if vhost is None or group is None:
            raise DeniedError(f"policyVhost {hostname} has no group {CONNECTOR_GROUP} for connectors", hostname)
        granted = _granted(vhost, group, CONNECTOR_GROUP, "", CONNECTOR_GROUP)
        return msgspec.structs.replace(granted, user_id=None)  # messages from a connector have many users

    def _vhost(self, hostname: str) -> VhostSetup:
        found = self._vhosts.get(hostname)
        if found is None:
            try:
                found = self._patterns.find(hostname.split("."))
            except SearchTooLongError:
                raise DeniedError(f"finding the vhost for {hostname!r} takes more than {MOST_STEPS} steps") from None
        if found is None:
            found = self._vhosts.get(self._setup.default_vhost) if self._setup.default_vhost else None
        if found is None:
            raise DeniedError(f"there is no vhost for {hostname!r}, and no {self._setup.default_vhost!r}")
        return found

    def _group(self, vhost: VhostSetup, user: str) -> GroupSetup:
        group = self._groups[vhost.hostname].get(user)
        if group is not None:
            return group
        if not vhost.allow_unknown_user:
            raise DeniedError(f"user {user!r} is in no group of vhost {vhost.hostname}", vhost.hostname)
        group = self._named.get((vhost.hostname, DEFAULT_GROUP))
        if group is not None:
            return group
        raise DeniedError(f"vhost {vhost.hostname} has no group {DEFAULT_GROUP} for user {user!r}", vhost.hostname)


def with_rights(grant: Grant, rights: Rights, user: str, host: str) -> Grant:
    """Return a grant in which an authentication service's addresses replace those of the vhost."""
    admission = msgspec.structs.replace(
        grant.admission or _admission(_ANY_VHOST, _UNBOUNDED, user, host, ""),
        allow_dynamic_source=True,
        allow_anonymous_sender=True,
        sources=personal(rights.sources, user),
        targets=personal(rights.targets, user),
        source_patterns=[],
        target_patterns=[],
    )
    return msgspec.structs.replace(grant, admission=admission)


def _granted(vhost: VhostSetup, group: GroupSetup, user: str, host: str, owner: str) -> Grant:
    """Return a group's grant; ``owner`` replaces ``${user}`` if it is not empty."""
    admission = _admission(vhost, group, user, host, owner)
    return same(group, Grant, admission=admission, user_id=None if group.allow_user_id_proxy else user)


def _admission(vhost: VhostSetup, group: GroupSetup, user: str, host: str, owner: str) -> Admission:
    names = ("sources", "targets", "source_patterns", "target_patterns")
    return same(
        group,
        Admission,
        vhost=vhost.hostname,
        group=group.name,
        user=user,
        host=host,
        max_connections=vhost.max_connections,
        **{name: personal(getattr(group, name), owner) for name in names},
    )


def personal(names: Iterable[str], user: str) -> list[str]:
    """Return the names with the leftmost ``${user}`` replaced, without those that need an unusable user name.

    An empty name, and one that would act as a wildcard, is unusable. So is one that would be read as a spelling of the
    address and not as a part of it: `q.${user}` for `bob.` would be bob's address, `${user}/*` for `amqp:` everybody's.
    """
    return [name.replace(USER, user, 1) for name in names if USER not in name or _is_usable(user, name)]


def _is_usable(user: str, name: str) -> bool:
    wild = not user or any(character in user for character in WILD)
    whole = strip_spelling(name.replace(USER, user, 1)) == strip_spelling(name).replace(USER, user, 1)
    return whole and not wild


def _range(first: str, last: str) -> Range:
    low, high = ipaddress.ip_address(first), ipaddress.ip_address(last)
    return low.version, int(low), int(high)


def _joined(hosts: Iterable[tuple[str, str]]) -> list[Range]:
    """Return the ranges in order, those that overlap as one."""
    found: list[Range] = []
    for version, low, high in sorted(_range(*one) for one in hosts):
        if found and found[-1][0] == version and found[-1][2] >= low:
            found[-1] = version, found[-1][1], max(high, found[-1][2])
        else:
            found.append((version, low, high))
    return found


def _within(host: str, ranges: list[Range] | None) -> bool:
    if ranges is None:
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    number = int(address)
    at = bisect_right(ranges, (address.version, number, _HIGHEST)) - 1
    return at >= 0 and ranges[at][0] == address.version and ranges[at][2] >= number

"""The schedule of a connector's attempts: which host is tried, and how long after the one before."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from shm.contract.numbers import whole

AFTER_FAILURE: Final = 5.0  # seconds after an attempt that failed before OPEN
AFTER_LOSS: Final = 2.0  # seconds after the loss of an open connection
TO_THE_NEXT: Final = 1.0  # seconds before an attempt with another host

MOST_HOSTS: Final = 64  # that a peer may list: their names go to the core with each state of the connector
LONGEST_NAME: Final = 255  # octets of a host's name (RFC 1035 section 2.3.4)

_PORTS: Final = {"amqp": "5672", "amqps": "5671"}


class Schedule:
    """The hosts of one connector, ``[SCHEME://]HOST:PORT``."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = list(hosts)
        self._place = 0
        self._open = False

    @property
    def host(self) -> str:
        return self._hosts[self._place]

    @property
    def urls(self) -> list[str]:
        """All hosts in the order of attempts, the current one first."""
        turned = self._hosts[self._place :] + self._hosts[: self._place]
        return [host if "://" in host else f"amqp://{host}" for host in turned]

    def opened(self, others: Sequence[str] | None = None) -> None:
        """Note that the connection is open.

        ``others``, the peer's failover list if it sends one, replaces all hosts but the first and the current
        one.
        """
        self._open = True
        if others is not None:
            present, first = self.host, self._hosts[0]
            listed = any(bare(host) == bare(present) for host in (first, *others))
            self._hosts = list(dict.fromkeys([first, *([] if listed else [present]), *others]))
            self._place = next(i for i, host in enumerate(self._hosts) if bare(host) == bare(present))

    def ended(self) -> float:
        """Note that an attempt has failed or its connection is lost; return the seconds until the next."""
        delay = AFTER_LOSS if self._open else AFTER_FAILURE
        if len(self._hosts) > 1:
            self._place = (self._place + 1) % len(self._hosts)
            delay = TO_THE_NEXT
        self._open = False
        return delay


def bare(host: str) -> str:
    """Return HOST:PORT without the scheme."""
    return host.rpartition("://")[2]


def split(host: str) -> tuple[str, str]:
    """Return name and port; an IPv6 address loses its brackets."""
    name, _, port = bare(host).rpartition(":")
    return name.strip("[]"), port


def failover_hosts(properties: Mapping[str, Any]) -> list[str] | None:
    """Return the first MOST_HOSTS of a peer's ``failover-server-list`` in OPEN, without malformed entries.

    The result is None if the peer sends no list. qpid-dispatch defines the property.
    """
    listed = properties.get("failover-server-list")
    if not isinstance(listed, list):
        return None
    hosts: list[str] = []
    for one in listed:
        if len(hosts) == MOST_HOSTS:
            break
        name = one.get("network-host") if isinstance(one, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            continue
        scheme = one.get("scheme")
        scheme = scheme if scheme in _PORTS else "amqp"
        port = whole(str(one.get("port") or _PORTS[scheme]))
        if port is not None and 0 < port < 65536:
            hosts.append(f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}")
    return hosts

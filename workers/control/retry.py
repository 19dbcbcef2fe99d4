"""When a connector tries which of its hosts: a function of what happened, with the time as an argument."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

AFTER_FAILURE: Final = 5.0  # seconds, after an attempt that opened nothing (facts 1)
AFTER_LOSS: Final = 2.0  # after a connection that had been open
TO_THE_NEXT: Final = 1.0  # to another host of several

_PORTS: Final = {"amqp": "5672", "amqps": "5671"}


class Schedule:
    """The hosts of one connector, ``[SCHEME://]HOST:PORT``, and when to try the present one.

    ``due`` is a time of the caller's clock; None while an attempt, or its connection, lasts.
    """

    def __init__(self, hosts: Sequence[str], now: float) -> None:
        self._hosts = list(hosts)
        self._place = 0
        self._open = False
        self.due: float | None = now

    @property
    def host(self) -> str:
        return self._hosts[self._place]

    @property
    def urls(self) -> list[str]:
        """All hosts in the order in which they will be tried, the present one first."""
        turned = self._hosts[self._place :] + self._hosts[: self._place]
        return [host if "://" in host else f"amqp://{host}" for host in turned]

    def begun(self) -> None:
        """An attempt is going on."""
        self.due = None

    def opened(self, others: Sequence[str] | None = None) -> None:
        """The connection is open. ``others``, the peer's list if it sends one, replace all hosts but
        the first and the present one."""
        self._open = True
        if others is not None:
            present, first = self.host, self._hosts[0]
            listed = any(bare(host) == bare(present) for host in (first, *others))
            self._hosts = list(dict.fromkeys([first, *([] if listed else [present]), *others]))
            self._place = next(i for i, host in enumerate(self._hosts) if bare(host) == bare(present))

    def ended(self, now: float) -> float:
        """The attempt has failed, or the connection is gone. Returns the seconds until the next attempt."""
        delay = AFTER_LOSS if self._open else AFTER_FAILURE
        if len(self._hosts) > 1:
            self._place = (self._place + 1) % len(self._hosts)
            delay = TO_THE_NEXT
        self._open = False
        self.due = now + delay
        return delay


def bare(host: str) -> str:
    """HOST:PORT without a scheme."""
    return host.rpartition("://")[2]


def split(host: str) -> tuple[str, str]:
    """Name and port; an address of IPv6 without its brackets."""
    name, _, port = bare(host).rpartition(":")
    return name.strip("[]"), port


def failover_hosts(properties: Mapping[str, Any]) -> list[str] | None:
    """The hosts of a peer's ``failover-server-list`` (facts 1); what makes no sense in it is left out. None:
    it sends none."""
    listed = properties.get("failover-server-list")
    if not isinstance(listed, list):
        return None
    hosts = []
    for one in listed:
        name = one.get("network-host") if isinstance(one, dict) else None
        if not isinstance(name, str) or not name:
            continue
        scheme = one.get("scheme")
        scheme = scheme if scheme in _PORTS else "amqp"
        port = str(one.get("port") or _PORTS[scheme])
        if port.isascii() and port.isdigit() and 0 < int(port) < 65536:
            hosts.append(f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}")
    return hosts

"""Names of links and addresses in the flow log and in spans, kept in step with them while either is on."""

import logging
import time
from typing import Final

import msgspec

from core.addresses.addresses import Address, spelling
from core.forwarder.forward import Telemetry
from core.links.base import Base
from core.links.link import Link
from core.links.plane import Plane
from shm.contract.complaints import Complaints
from shm.contract.flow_log.schema import LINK_KINDS
from shm.contract.flow_log.setup import SetFlowLog
from shm.contract.hosts import host_of
from shm.contract.payloads import ConnectionOpened, Detach
from shm.contract.text import printable
from shm.contract.tracing import SetTracing

LOGGER = logging.getLogger("ROUTER_CORE")
MOST_CHARACTERS: Final = 100  # of a name in the log
PORTION: Final = 32  # links that are named anew before others have their turn: some 0.2 ms
_KINDS: Final = {role: LINK_KINDS.index(role.replace("-", "_")) for role in ("inter-router", "edge", "route-container")}


class FlowLog(Plane):
    """The core's part of flow log and tracing. Recorder and exporter read the records from ``base.memory.flow``."""

    def __init__(self, base: Base) -> None:
        self._telemetry = Telemetry(
            base.forwarder, base.memory.flow, base.me.router_id.encode(), base.setup.generation, base.names.hash_seed()
        )
        self._base = base
        self._every = 0
        self._traces = 0
        self._on = False
        self._clients = False  # users and hosts are recorded
        self._stale: list[Link] = []  # links that were named under the other value of it
        self._complaints = Complaints()
        self._links: dict[int, tuple[int, list[int]]] = {}  # by identity: number, and names to forget
        self._named: dict[str, int] = {}  # addresses by key
        base.addresses.watchers.append(self._watch)

    def configure(self, change: msgspec.Struct) -> None:
        """Record one of ``sampling`` deliveries, make spans of one of ``sampling`` traces; 0: of none."""
        match change:
            case SetFlowLog(flow):
                self._every = flow.sampling
                self._tell_clients(flow.clients)
            case SetTracing(tracing):
                self._traces = tracing.low
                self._telemetry.trace(tracing.low, tracing.sampled_only)
            case _:
                return
        before, self._on = self._on, bool(self._every or self._traces)
        if self._on and not before:
            for address in self._base.addresses.entries():
                self._watch(address, True)
            for link in self._base.links.entries():
                self.attached(link)
        self._telemetry.record(self._every)

    def close(self) -> None:
        """Publish the last records."""
        self._telemetry.publish()

    def attached(self, link: Link) -> None:
        """Name a link."""
        if not self._on or link.identity in self._links:
            return
        connection = self._base.connections.find(link.worker, link.connection)
        names = [self._name(text) for text in (link.routed, *self._who(connection))]
        number = self._telemetry.add_link(
            link.worker,
            link.link,
            link.generation,
            connection=connection.number if connection else 0,
            number=link.identity,
            kind=_KINDS.get(connection.role, 0) if connection else 0,
            address=names[0],
            container=names[1],
            user=names[2],
            host=names[3],
        )
        self._links[link.identity] = number, names

    def _who(self, connection: ConnectionOpened | None) -> tuple[str, str, str]:
        """Return container, user and host of a connection's peer; empty texts are not recorded."""
        if connection is None:
            return "", "", ""
        if not self._clients:
            return connection.container, "", ""
        return connection.container, connection.user, host_of(connection.host)

    def _tell_clients(self, clients: bool) -> None:
        """Record users and hosts from now on, or do not; the coming steps name the links that are there anew."""
        before, self._clients = self._clients, clients
        if before != clients:
            self._stale = [link for link in self._base.links.entries() if link.identity in self._links]

    @property
    def restless(self) -> bool:
        """Whether links are still to be named anew."""
        return bool(self._stale)

    def step(self, now: int) -> None:
        """Name a portion of the stale links anew."""
        for _ in range(min(PORTION, len(self._stale))):
            link = self._stale.pop()
            if link.identity in self._links:
                self.detached(link, None)
                self.attached(link)

    def detached(self, link: Link, detach: Detach | None) -> None:
        number, names = self._links.pop(link.identity, (0, []))
        self._telemetry.drop_link(number)
        for name in names:
            self._telemetry.forget(name)

    def _watch(self, address: Address, there: bool) -> None:
        """Name a new address, and forget one that is gone."""
        if not there:
            self._telemetry.forget(self._named.pop(address.key, 0))
        elif self._on and address.key not in self._named:
            name = self._named[address.key] = self._name(spelling(address.key))
            self._telemetry.name_address(address.handle, name)

    def _name(self, text: str) -> int:
        number = self._telemetry.name(text.encode("utf-8", "surrogateescape")) if text else 0
        if text and not number:
            self._complaints.tell(
                time.monotonic(), LOGGER, logging.WARNING,
                "The flow log has no room for more names of addresses, containers, users and hosts: %s is missing in "
                "its rows, as are others until connections end", printable(text, MOST_CHARACTERS),
                key="names",
            )  # fmt: skip
        return number

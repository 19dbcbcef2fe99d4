"""A worker's connectors: the connections that it opens and reopens.

    waiting --due--> looking up --addresses--> connecting --peer's OPEN--> open
       ^                 |                         |                        |
       +-----------------+-------- after a while --+------------------------+

retry.py says when and where the next attempt takes place, attempts.py begins it. Nothing here blocks: threads look
up names, the pump connects sockets.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from shm.contract.complaints import Complaints
from shm.contract.control import ConnectorSetup
from shm.contract.payloads import ConnectorState
from shm.contract.peer_address import out_of_time
from workers.control.attempts import Attempt, Attempts
from workers.control.listeners import terms
from workers.control.lookup import Address, Lookup, begin, is_address
from workers.control.neighbours import AmqpError, Name, Places, Protection
from workers.control.retry import Schedule, failover_hosts, split
from workers.control.tls import CertificateError, PasswordError, password_of

SERVER = logging.getLogger("SERVER")
MANAGER = logging.getLogger("CONN_MGR")

PORTION: Final = 8  # attempts that begin before messages have their turn: about a millisecond
TOLD: Final = 2000  # characters of the last event, in which peers may have their words
CONNECTING: Final = "CONNECTING"
SUCCESS: Final = "SUCCESS"
FAILED: Final = "FAILED"
GONE: Final = "GONE"
UNVERIFIED: Final = "certificate verify failed"  # OpenSSL's words
REMOVED: Final = ("amqp:connection:forced", "the connector was removed or changed")


class Dialler(Places, Protocol):
    """The part of workers.loop.pump.Dialler that connectors use."""

    def dial(self, place: int, fd: int, hostname: str, user: str, password: str) -> Name | None: ...


class Owner(Protocol):
    """The part of workers.control.registry.Registry that connectors use."""

    def dialled(self, name: Name, connector: ConnectorSetup, host: str) -> int: ...
    def hang_up(self, name: Name, error: AmqpError) -> None: ...
    def connector_state(self, state: ConnectorState) -> None: ...
    def connector_cost(self, name: Name, connector: ConnectorSetup) -> None: ...


class Others(Protocol):
    """The part of workers.ockam.connections.Ockam that connectors use: it makes framed connections."""

    def speak(self, place: int, one: ConnectorSetup) -> None: ...
    def dial(self, place: int, fd: int, setup: ConnectorSetup, host: str, connectors: "Connectors") -> Name | None: ...
    def number(self, name: Name) -> int: ...


class Connector(Attempt):
    """One connector and its connection, if there is one."""

    def __init__(self, setup: ConnectorSetup, place: int) -> None:
        self.setup = setup
        self.place = place
        self.schedule = Schedule(setup.hosts)
        self.addresses: list[Address] = []
        self.connection: Name | None = None
        self.number = 0
        self.state = ConnectorState(setup.name, CONNECTING, hosts=self.schedule.urls)
        self.failures = Complaints()  # since the last open connection

    @property
    def asked(self) -> tuple[str, str, str]:
        return *split(self.schedule.host), self.setup.family


class Connectors(Attempts[Connector]):
    """All connectors of this worker; ``clock`` returns monotonic seconds, ``others`` makes framed ones."""

    def __init__(
        self,
        dialler: Dialler,
        owner: Owner,
        guard: Protection,
        others: Others,
        clock: Callable[[], float] = time.monotonic,
        look_up: Callable[[str, str, str], Lookup] = Lookup,
    ) -> None:
        super().__init__(clock, look_up, PORTION)
        self._dialler = dialler
        self._owner = owner
        self._guard = guard
        self._others = others
        self._connectors: dict[int, Connector] = {}
        self._refused: dict[int, ConnectorState] = {}  # those that make no connection

    def change(self, wanted: Iterable[ConnectorSetup]) -> None:
        """Replace the connectors. A changed connector reconnects, unless only its cost has changed."""
        setups = {one.number: one for one in wanted}
        refused, self._refused = self._refused, {}
        for number, state in refused.items():
            if number not in setups:
                self._owner.connector_state(ConnectorState(state.name, GONE))
        for number, connector in list(self._connectors.items()):
            wanted_now = setups.get(number)
            if wanted_now is not None and _same_but_cost(wanted_now, connector.setup):
                del setups[number]
                self._keep(connector, wanted_now)
                continue
            del self._connectors[number]
            self._give_up(connector)
            self._dialler.remove_place(connector.place)
            if connector.connection is not None:
                self._owner.hang_up(connector.connection, REMOVED)
            self._owner.connector_state(ConnectorState(connector.setup.name, GONE))
        for setup in setups.values():
            self._add(setup)

    def _keep(self, connector: Connector, setup: ConnectorSetup) -> None:
        """Take over a connector whose cost may have changed; its connection stays open."""
        changed, connector.setup = connector.setup != setup, setup
        if changed and connector.connection is not None and setup.ockam is None:
            self._owner.connector_cost(connector.connection, setup)

    def _add(self, setup: ConnectorSetup) -> None:
        try:
            place = self._dialler.add_place(*terms(setup))
        except ValueError as error:
            SERVER.error("connector %s makes no connection: %s", setup.name, error)
            state = self._refused[setup.number] = ConnectorState(setup.name, FAILED, str(error), setup.hosts)
            self._owner.connector_state(state)
            return
        connector = self._connectors[setup.number] = Connector(setup, place)
        self._plan(connector, self._clock())
        try:
            self._guard.protect(place, setup)
            if setup.ockam is not None:
                self._others.speak(place, setup)
        except CertificateError as error:
            self._unprotected(connector, str(error))
        else:
            self._owner.connector_state(connector.state)

    def tell(self) -> None:
        """Tell a new core the states of all connectors."""
        for state in [*self._refused.values(), *(connector.state for connector in self._connectors.values())]:
            self._owner.connector_state(state)

    def _found(self, connector: Connector, lookup: Lookup) -> None:
        connector.addresses = list(lookup.addresses)
        if lookup.addresses:
            self._connect(connector)
        else:
            self._failed(connector, lookup.error)

    def _connect(self, connector: Connector) -> None:
        """Start a connection to the next address of the current host."""
        setup, host = connector.setup, connector.schedule.host
        try:
            if setup.tls is not None:
                self._guard.protect(connector.place, setup)
                self._guard.certificates_due(connector.place)
            password = _password(setup)
            fd = begin(connector.addresses)
        except CertificateError as error:
            self._unprotected(connector, str(error))
            return
        except (OSError, PasswordError) as error:
            self._failed(connector, str(error))
            return
        shown = ":".join(_shown(host))
        if setup.ockam is not None:
            name = self._others.dial(connector.place, fd, setup, shown, self)
        else:
            name = self._dialler.dial(connector.place, fd, split(host)[0], setup.sasl_username, password)
        if name is None:
            os.close(fd)
            self._failed(connector, "this worker has no room for another connection")
            return
        connector.connection = name
        ockam = setup.ockam is not None
        connector.number = self._others.number(name) if ockam else self._owner.dialled(name, setup, shown)

    # ---- what becomes of a connection ----

    def opened(self, number: int, name: Name, properties: Mapping[str, Any], text: str) -> None:
        """Note that the peer has opened a connection, which ``text`` describes."""
        connector = self._connectors.get(number)
        if connector is None or connector.connection != name:
            return
        connector.schedule.opened(failover_hosts(properties))
        connector.failures = Complaints()
        self._now(connector, SUCCESS, f"[C{connector.number}] Connection Opened: dir=out {text}")

    def ended(self, number: int, name: Name, opened: bool, error: AmqpError | None) -> None:
        """Note that a connection is lost, or that an attempt has failed."""
        connector = self._connectors.get(number)
        if connector is None or connector.connection != name:
            return
        connector.connection = None
        broken = error is not None and error[0] == "proton:io"
        if not opened and connector.addresses and broken and not self._stopped:
            self._connect(connector)
            return
        self._dialler.end_round()
        why = " ".join(error) if error else "no answer in time" if not opened else "closed by the peer"
        self._failed(connector, why + _advice(connector.setup, connector.schedule.host, why))

    def _unprotected(self, connector: Connector, why: str) -> None:
        """Report that a connector's TLS cannot be set up, in the words of qdrouterd's log."""
        what, host = "CA" if ": caCertFile: " in why else "local", ":".join(_shown(connector.schedule.host))
        SERVER.error("SSL %s configuration failed for connector %s to %s", what, connector.setup.name, host)
        self._failed(connector, why)

    def _failed(self, connector: Connector, why: str) -> None:
        host = ":".join(_shown(connector.schedule.host))
        text = f"Connection to {host} failed: {why}"
        now = self._clock()
        delay = connector.schedule.ended()
        self._plan(connector, now + delay)
        number = f"[C{connector.number}] " if connector.number else ""
        SERVER.info("%s%s", number, text)  # each attempt, in the words of qdrouterd's log
        name, line = connector.setup.name, "connector %s: %s; next attempt in %g s"
        connector.failures.tell(now, SERVER, logging.WARNING, line, name, text, delay, key=text)
        self._now(connector, CONNECTING, number + text)

    def _now(self, connector: Connector, status: str, message: str) -> None:
        hosts = connector.schedule.urls
        connector.state = ConnectorState(connector.setup.name, status, message[:TOLD], hosts)
        self._owner.connector_state(connector.state)


def _advice(setup: ConnectorSetup, host: str, why: str) -> str:
    """Return advice that the engine's error lacks: what the peer's certificate must have."""
    if setup.tls is None or UNVERIFIED not in why:
        return ""
    name = split(host)[0]
    if late := out_of_time(name):
        how = "compare the clocks of both machines" if "is not valid before" in late else "renew it there"
        return f"; {late}: {how}"
    has = f", and have {name} as {'an address' if is_address(name) else 'a name'}" if setup.tls.verify else ""
    return f"; the peer's certificate must be valid, of an authority that sslProfile {setup.tls.profile} trusts{has}"


def _password(setup: ConnectorSetup) -> str:
    """Return the connector's password. Raises PasswordError."""
    try:
        return password_of(setup.sasl_password, of_key=False)
    except PasswordError as error:
        MANAGER.error("connector %s: %s", setup.name, error)
        raise


def _same_but_cost(one: ConnectorSetup, other: ConnectorSetup) -> bool:
    return msgspec.structs.replace(one, cost=other.cost) == other


def _shown(host: str) -> tuple[str, str]:
    name, port = split(host)
    return (f"[{name}]" if ":" in name else name), port

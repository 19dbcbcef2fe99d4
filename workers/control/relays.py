"""Clients that an authentication service authenticates (docs/security.md, Authentication service).

    wanted --name looked up--> connecting --mechanisms, …, the service's OPEN--> let in
       |             |              |                                    |
       +-------------+--------------+-- anything else, or SERVICE_SECONDS +--> refused

Each client has its own connection to the service during its SASL exchange; all who wait for the service's name share
one lookup. Nothing here blocks: threads look up names, and the pump relays SASL frames in both directions. The router
refuses every client that the service does not explicitly accept.
"""

import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from shm.contract.complaints import bursts
from shm.contract.control import ConnectorSetup, ListenerSetup
from shm.contract.security import ServiceSetup
from workers.control.attempts import Attempt, Attempts
from workers.control.listeners import terms
from workers.control.logins import crowd, less, network
from workers.control.lookup import Address, Lookup, begin
from workers.control.neighbours import AmqpError, Name, Places, Protection
from workers.control.policy import Rights
from workers.control.tls import CertificateError

LOGGER = logging.getLogger("AUTHSERVICE")

SERVICE_SECONDS: Final = 10  # timeout of one client's exchange
PORTION: Final = 8  # connections to services that begin before messages have their turn: about a millisecond
OPEN_BYTES: Final = 65536  # size limit of the service's OPEN, which has a client's permissions
CAPABILITY: Final = "ADDRESS-AUTHZ"
IDENTITY: Final = "authenticated-identity"
PERMISSIONS: Final = "address-authz"
UNUSABLE: Final = "its sslProfile cannot be used, or it was removed"


class Relayer(Protocol):
    """The part of workers.loop.pump.Relayer that relays use."""

    def serve(self, handler: "Relays") -> None: ...
    def relay(self, place: int, on: bool) -> None: ...
    def waiting(self, index: int, generation: int) -> bool: ...
    def dial(
        self, place: int, fd: int, client: Name, service: ServiceSetup, container: str, properties: dict[str, Any]
    ) -> Name | None: ...
    def admit(self, index: int, generation: int, user: str) -> None: ...
    def refuse(self, index: int, generation: int, for_now: bool) -> None: ...
    def hang_up(self, index: int, generation: int) -> None: ...


class Guard(Protection, Protocol):
    """The part of workers.control.guard.Guard that relays use.

    ``service_rights`` has clients' rights by connection, ``denied`` the connections with a logged refusal.
    """

    service_rights: dict[int, Rights]
    denied: set[int]

    def peer(self, index: int) -> str: ...
    def count(self, name: str) -> None: ...


class Logins(Protocol):
    """The part of workers.control.logins.Logins to which relays pass events of clients."""

    def said(self, client: Name, mechanism: str, said: bytes) -> None: ...
    def left(self, client: Name) -> None: ...


class WordError(ValueError):
    """An authentication service has sent a malformed identity or malformed permissions."""


class _Service(Attempt):
    """A listener's authentication service, and the place in the pump of connections to it."""

    def __init__(self, setup: ServiceSetup, place: int | None, terms: ConnectorSetup) -> None:
        self.setup, self.place, self.terms = setup, place, terms

    @property
    def asked(self) -> tuple[str, str, str]:
        return self.setup.host, self.setup.port, ""


class _Exchange:
    """The SASL exchange between one client and a service."""

    def __init__(self, client: Name, peer: str, service: _Service, now: float) -> None:
        self.client, self.peer, self.service, self.began = client, peer, service, now
        self.host = network(peer)
        self.addresses: list[Address] = []  # of the service, not tried yet
        self.unknown = ""  # why there are none
        self.over = False  # the client was let in or refused
        self.dialled = False  # it has a connection to the service


class Relays(Attempts[_Service]):
    """All exchanges of one worker's clients with authentication services.

    ``identity`` is the router's id and version; ``numbers`` are connections' numbers (registry.py).
    """

    def __init__(
        self,
        dialler: Places,
        relayer: Relayer,
        guard: Guard,
        logins: Logins,
        identity: tuple[str, str],
        numbers: dict[int, int],
        *,
        clock: Callable[[], float] = time.monotonic,
        look_up: Callable[[str, str, str], Lookup] = Lookup,
    ) -> None:
        super().__init__(clock, look_up, PORTION)
        self._relayer = relayer
        self.logins = logins
        self._dialler = dialler
        self._guard = guard
        self._identity = identity
        self._numbers = numbers
        self._services: dict[int, _Service] = {}  # by listener
        self._unknown: list[_Exchange] = []  # those whose service is being looked up
        self._ready: deque[_Exchange] = deque()  # those whose service has been looked up
        self._refusals: list[Callable[[], None]] = []  # for `step`: `wanted` runs while the engine reads SASL's header
        self._by_name: dict[Name, _Exchange] = {}
        self._begun: Counter[str] = Counter()  # exchanges that have begun and hold something, by host
        self._lines = bursts()
        relayer.serve(self)

    # ---- services ----

    def change(self, listeners: Iterable[ListenerSetup]) -> None:
        """Replace the services by those of these listeners; exchanges under way continue."""
        wanted = {one.number: one for one in listeners if one.service is not None}
        for number, service in list(self._services.items()):
            if number in wanted and _as_connector(wanted[number]) == service.terms:
                del wanted[number]
                continue
            del self._services[number]
            if service.place is not None:
                self._dialler.remove_place(service.place)
                service.place = None
        for listener in wanted.values():
            self._add(listener)

    def _add(self, listener: ListenerSetup) -> None:
        assert listener.service is not None
        connector = _as_connector(listener)
        service = self._services[listener.number] = _Service(listener.service, None, connector)
        try:
            service.place = self._dialler.add_place(*terms(connector))
            self._guard.protect(service.place, connector)
        except (ValueError, CertificateError) as error:
            LOGGER.error("%s cannot be used, so it accepts nobody: %s", _named(service.setup), error)

    def serve(self, place: int, listener: ListenerSetup) -> None:
        """Tell the pump whether a service authenticates the clients of a listener's place."""
        self._relayer.relay(place, listener.service is not None)

    # ---- clients ----

    def wanted(self, client: Name, listener: int) -> None:
        """Start the exchange of a client that speaks SASL on a listener with a service."""
        service = self._services.get(listener)
        self._dialler.end_round()
        if service is None:  # its listener has another one since it came, or none
            self._refusals.append(partial(self._strand, client))
            return
        exchange = _Exchange(client, self._guard.peer(client[0]), service, self._clock())
        if why := crowd(self._begun[exchange.host], self._begun.total()):
            self._refusals.append(partial(self._fail, exchange, why))
            return
        self._begun[exchange.host] += 1
        self._unknown.append(exchange)
        if service.due is None and service.lookup is None:
            self._plan(service, self._clock())

    def left(self, client: Name) -> None:
        """Forget a client that has left."""
        self._guard.service_rights.pop(client[0], None)
        self.logins.left(client)

    def wait(self, at_most: float) -> float:
        """Return the seconds until `step` has something to do, at most ``at_most``."""
        if self._refusals or self._ready:
            return 0.0
        return super().wait(at_most) if self._unknown else at_most

    def step(self) -> None:
        """Connect to services that have been looked up, a portion, and refuse whom `wanted` has turned away."""
        refusals, self._refusals = self._refusals, []
        for refuse in refusals:
            refuse()
        unknown, self._unknown = self._unknown, []
        for exchange in unknown:
            if self._relayer.waiting(*exchange.client):
                self._unknown.append(exchange)
            else:
                self._release(exchange)
        super().step()
        for _ in range(min(PORTION, len(self._ready))):
            exchange = self._ready.popleft()
            if self._relayer.waiting(*exchange.client):
                self._connect(exchange, exchange.unknown)
            self._release(exchange)

    def _found(self, one: _Service, lookup: Lookup) -> None:
        """Let all who wait for a service go on."""
        unknown, self._unknown = self._unknown, []
        for exchange in unknown:
            if exchange.service is one:
                exchange.addresses, exchange.unknown = list(lookup.addresses), lookup.error
                self._ready.append(exchange)
            else:
                self._unknown.append(exchange)

    def _release(self, exchange: _Exchange) -> None:
        """Let another login begin, unless a connection to the service is there or begins for this one."""
        if not exchange.dialled:
            less(self._begun, exchange.host)

    def _connect(self, exchange: _Exchange, why: str) -> None:
        """Connect to the service's next address; ``why`` tells the failure of the previous one."""
        service = exchange.service
        place = service.place
        if place is None:
            self._fail(exchange, UNUSABLE, for_now=False)
            return
        try:
            if service.setup.tls is not None:
                self._guard.protect(place, service.terms)
                self._guard.certificates_due(place)
            if exchange.addresses:
                self._dial(exchange, place, begin(exchange.addresses))
                return
        except (OSError, CertificateError) as error:
            why = str(error)
        self._fail(exchange, why)

    def _dial(self, exchange: _Exchange, place: int, fd: int) -> None:
        router, version = self._identity
        properties = {"product": "routerd", "version": version}
        name = self._relayer.dial(place, fd, exchange.client, exchange.service.setup, router, properties)
        if name is None:
            os.close(fd)
            self._fail(exchange, "this worker has no room for another connection")
            return
        self._by_name[name] = exchange
        exchange.dialled = True

    # ---- what the service says ----

    def opened(self, name: Name, fault: str, properties: Mapping[str, Any], offered: list[str]) -> None:
        """Admit a client that the service has accepted, with the user and rights from the service's OPEN.

        ``fault`` says what is malformed in OPEN, in which case the client is refused.
        """
        exchange = self._by_name[name]
        self._relayer.hang_up(*name)
        if fault:
            self._fail(exchange, fault)
            return
        try:
            user, rights = identity(properties), permissions(properties, offered)
        except WordError as error:
            self._fail(exchange, str(error))
            return
        if not self._relayer.waiting(*exchange.client):
            return
        exchange.over = True
        if rights is not None:
            self._guard.service_rights[exchange.client[0]] = rights
        self._relayer.admit(*exchange.client, user)
        self._guard.count("auth_service_accepted")
        self._say(exchange, logging.INFO, "%s has let %s in as %r", exchange.peer, user)

    def ended(self, name: Name, decided: bool, faulty: bool, why: str, error: AmqpError | None) -> None:
        """Refuse a client whose connection to the service ended.

        The service itself has refused it if ``decided`` is true and ``why`` is empty.
        """
        exchange = self._by_name.pop(name)
        exchange.dialled = False
        self._numbers.pop(name[0], None)
        if not exchange.over:
            self._decide(exchange, decided, faulty, why, error)
        self._release(exchange)

    def _decide(self, exchange: _Exchange, decided: bool, faulty: bool, why: str, error: AmqpError | None) -> None:
        if decided and (faulty or not why):
            self._guard.count("auth_service_refused")
            said = f"{exchange.peer}: {why}" if why else exchange.peer
            self._say(exchange, logging.INFO, "%s has refused %s", said)
        elif decided:
            self._fail(exchange, why)
        elif not self._relayer.waiting(*exchange.client):
            LOGGER.debug("%s went before %s had an answer", exchange.peer, _named(exchange.service.setup))
        elif self._clock() - exchange.began >= SERVICE_SECONDS:
            self._fail(exchange, f"no answer within {SERVICE_SECONDS} s")
        elif exchange.addresses and error is not None and error[0] == "proton:io":
            self._connect(exchange, error[1])
        else:
            self._fail(exchange, ": ".join(error) if error else "it has closed the connection")

    def _fail(self, exchange: _Exchange, why: str, *, for_now: bool = True) -> None:
        """Refuse a client about whom the service has not decided."""
        exchange.over = True
        self._deny(exchange.client)
        self._say(exchange, logging.WARNING, "%s: %s; %s is refused", why, exchange.peer)
        self._relayer.refuse(*exchange.client, for_now=for_now)

    def _strand(self, client: Name) -> None:
        """Refuse a client whose listener has lost its service."""
        self._deny(client)
        text = "the listener of %s has another authentication service since it came, or none; it is refused"
        self._lines.tell(self._clock(), LOGGER, logging.WARNING, text, self._guard.peer(client[0]), key=text)
        self._relayer.refuse(*client, for_now=True)

    def _deny(self, client: Name) -> None:
        """Count the refusal of a client that still waits."""
        self._guard.count("auth_service_failed")
        if self._relayer.waiting(*client):
            self._guard.count("refused_authentication")
            self._guard.denied.add(client[0])

    def _say(self, exchange: _Exchange, level: int, text: str, *what: object) -> None:
        """Log a line about a client, within the limit of its service."""
        name = _named(exchange.service.setup)
        self._lines.tell(self._clock(), LOGGER, level, text, name, *what, key=(text, name))


def identity(properties: Mapping[str, Any]) -> str:
    """Return the user in the properties of a service's OPEN: a map with `sub`, or a text. Raises WordError.

    The text is empty if the service names no user. A value that is no JSON is None here, and refused like others.
    """
    if IDENTITY not in properties:
        return ""
    said = properties[IDENTITY]
    if isinstance(said, dict):
        said = said.get("sub")
    if not isinstance(said, str):
        raise WordError(f"its {IDENTITY} is neither text nor a map with sub")
    if "\0" in said:
        raise WordError(f"its {IDENTITY} has a NUL, at which the engine would cut it")
    return said


def permissions(properties: Mapping[str, Any], offered: Iterable[str]) -> Rights | None:
    """Return a client's rights by address from a service's OPEN, None if there are none. Raises WordError."""
    said = properties.get(PERMISSIONS)
    if said is None and PERMISSIONS not in properties and CAPABILITY not in offered:
        return None
    if not isinstance(said, dict) or not all(isinstance(words, list) for words in said.values()):
        raise WordError(f"its {PERMISSIONS} is no map from addresses to arrays of send and recv")
    return Rights(
        sources=[address for address, words in said.items() if "recv" in words],
        targets=[address for address, words in said.items() if "send" in words],
    )


def _as_connector(listener: ListenerSetup) -> ConnectorSetup:
    """Return a connector for connections to a listener's service."""
    service = listener.service
    assert service is not None
    return ConnectorSetup(
        name=f"{service.name}@{service.host}:{service.port}/{service.realm}",
        number=listener.number,
        hosts=[],
        max_frame_size=OPEN_BYTES,
        idle_timeout_seconds=SERVICE_SECONDS,
        sasl_mechanisms=listener.sasl_mechanisms,
        tls=service.tls,
    )


def _named(service: ServiceSetup) -> str:
    host = f"[{service.host}]" if ":" in service.host else service.host
    return f"authentication service {service.name} ({host}:{service.port})"

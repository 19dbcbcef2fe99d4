"""The guard of a worker's connections: TLS, the peer's user, vhost policy, and refusals.

The guard counts each refusal (shm/statistics/counters.h) and logs one line that names the peer.
"""

import logging
import time
from typing import Final, Protocol

import msgspec

from shm.contract.administering import READ, granted
from shm.contract.complaints import Complaints, bursts
from shm.contract.control import ConnectorSetup, ListenerSetup
from shm.contract.hosts import host_of
from shm.contract.security import Admission, PolicySetup
from shm.statistics.stats import COUNTERS
from workers.control.neighbours import Ends
from workers.control.policy import DeniedError, Grant, Policy, Rights, with_rights
from workers.control.tls import CertificateError, Certificates, Engine, unknown_protocols

SERVER = logging.getLogger("SERVER")
POLICY = logging.getLogger("POLICY")

INTER_ROUTER: Final = "inter-router"  # messages there come from users whom other routers have judged
EXTERNAL: Final = "EXTERNAL"  # the mechanism by which a certificate is the user
STRANGERS: Final = ("", "ANONYMOUS")  # mechanisms that authenticate nobody
UNPROTECTED: Final = "amqp:connection:policy-error"  # the engine's: no TLS, or no SASL, where it is required
ADMITTED: Final = COUNTERS["connections_admitted"].place
NO_USERS: Final = ("", "anonymous")  # an authentication service's names for an unknown client
UNOPENED: Final = "connection of %s ended before it was opened"  # once a minute: a scan must not fill the log
REFUSED: Final = "connection of %s refused: %s"
LOGIN_SECONDS: Final = 0.5  # interval of lines about failed logins
TLS_FAILURE: Final = "SSL Failure"  # the engine's description of a failed handshake begins so
TLS_LEFT: Final = "unexpected eof"  # the peer left without an alert; one that mistrusts us sends one


class Connections(Engine, Ends, Protocol):
    """The part of workers.loop.pump.Security that the guard uses."""

    def require_encryption(self, number: int, required: bool) -> None: ...
    def protection(self, index: int) -> tuple[bool, bool, str, str, int]: ...
    def sasl_refused(self, index: int) -> bool: ...
    def limit(
        self, index: int, user: str | None, max_message: int, max_frame: int, max_sessions: int, window: int
    ) -> None: ...


class Counters(Protocol):
    """The worker's statistics page."""

    def add(self, which: int, n: int = 1) -> None: ...
    def get(self, which: int) -> int: ...


class Passed(msgspec.Struct, frozen=True):
    """An accepted connection: its user, protection and rights; ``tls_strength`` is in bits.

    ``login`` is the user that a client has proved to be; empty for a stranger, whom the engine authenticates, too.
    """

    user: str
    authenticated: bool
    encrypted: bool
    tls_protocol: str
    tls_cipher: str
    tls_strength: int
    admission: Admission | None
    management: str = READ  # shm.contract.administering
    max_message: int = 0  # octets; 0: any
    login: str = ""


class Guard:
    """The guard of one worker's listeners and connectors."""

    def __init__(
        self, policy: PolicySetup, engine: Connections, counters: Counters, core: Counters | None = None
    ) -> None:
        self._engine = engine
        self._counters = counters
        self._core = core  # the core's statistics page
        self._max_connections = policy.max_connections
        self._policy = Policy(policy)
        self._certificates = Certificates(engine)
        self._rare = Complaints()
        self._bursts = bursts()
        self._logins = Complaints(LOGIN_SECONDS)
        self.denied: set[int] = set()  # connections whose refusal is logged and counted already (logins.py)
        self.service_rights: dict[int, Rights] = {}  # by connection: the rights from an authentication service

    def set_policy(self, policy: PolicySetup) -> None:
        """Replace the policy for connections that open from now on."""
        self._policy = Policy(policy)
        self._max_connections = policy.max_connections

    def full(self) -> bool:
        """Return whether the router has reached its maximum number of connections.

        The core counts and decides a moment later; this early check puts the refusal next to the OPEN.
        """
        return self._core is not None and self._core.get(ADMITTED) >= self._max_connections

    def protect(self, number: int, terms: ListenerSetup | ConnectorSetup) -> None:
        """Set up the TLS of a listening socket or connector, by the pump's number. Raises CertificateError.

        A profile with an unknown TLS version disables TLS; its listener then refuses all clients, its
        connector does not connect.
        """
        shut = terms.tls is not None and bool(unknown_protocols(terms.tls.protocols))
        if isinstance(terms, ListenerSetup):
            self._engine.require_encryption(number, terms.require_encryption or shut)
        elif shut:
            raise CertificateError("its sslProfile names protocols that are no versions of TLS")
        self._certificates.set(number, None if shut else terms.tls)

    def certificates_due(self, number: int) -> None:
        """Load changed certificates before a new connection uses them."""
        why = self._certificates.refresh(number)
        if why is None:
            return
        if why:
            self.count("certificates_failed")
            SERVER.error("%s; new connections use the previous certificates", why)
        else:
            self.count("certificates_loaded")
            SERVER.info("new connections use the changed certificates")

    def enter(self, index: int, listener: ListenerSetup, hostname: str, user: str, mechanism: str, peer: str) -> Passed:
        """Judge a peer whose OPEN is not answered yet. Raises DeniedError, after counting the refusal.

        ``mechanism`` is the SASL mechanism that has authenticated ``user``, ``peer`` is its address:port. The
        certificate decides the user only with EXTERNAL; a password decides it regardless of a certificate.
        """
        mechanism = mechanism.upper()  # the engine accepts a mechanism in upper or lower case
        if mechanism == EXTERNAL and listener.tls is not None and listener.service is None:
            user = self._certified(index) or user
        known = listener.service is not None or mechanism not in STRANGERS
        proved = known if listener.service is None else user not in NO_USERS
        if listener.authenticate_peer and not known:  # it came before a reload that asks for a login
            self.count("refused_authentication")
            raise DeniedError("its listener takes only clients that have logged in")
        if listener.role == INTER_ROUTER:
            return self._passed(index, user, Grant(), listener, peer, proved)
        try:
            grant = self._policy.grant(listener.policy_vhost or hostname, user, host_of(peer), known=proved)
        except DeniedError:
            self.count("refused_vhost")
            raise
        if index in self.service_rights:
            grant = with_rights(grant, self.service_rights[index], user, host_of(peer))
        return self._passed(index, user, grant, listener, peer, proved)

    def _certified(self, index: int) -> str:
        """Return the user that a client's certificate names, or "". Raises DeniedError, after counting the refusal."""
        try:
            return self._certificates.user(self._engine.listener_of(index), index)
        except CertificateError as error:
            self.count("refused_authentication")
            raise DeniedError(str(error)) from None

    def leave(self, index: int, connector: ConnectorSetup, user: str, peer: str) -> Passed:
        """Judge the peer of a connector, which has opened its connection. Raises DeniedError."""
        grant = self._policy.grant_connector(connector.policy_vhost) if connector.policy_vhost else Grant()
        proved = connector.tls is not None  # the engine requires a valid certificate
        return self._passed(index, user, grant, connector, peer, proved)

    def _passed(
        self, index: int, user: str, grant: Grant, terms: ListenerSetup | ConnectorSetup, peer: str, proved: bool
    ) -> Passed:
        protection = self._engine.protection(index)
        limits = (grant.max_message_size, grant.max_frame_size, grant.max_sessions, grant.max_session_window)
        if any(limits) or grant.user_id is not None:
            self._engine.limit(index, grant.user_id, *limits)
        configured = [terms.management, grant.admission.management if grant.admission else ""]
        right = granted(configured, known=proved, host=host_of(peer))
        login = user if proved and isinstance(terms, ListenerSetup) else ""
        return Passed(user, *protection, grant.admission, right, grant.max_message_size, login)

    def peer(self, index: int) -> str:
        """Return the peer's address:port, also for a lost connection."""
        return self._engine.peer(index)

    def place(self, index: int) -> int:
        """Return the place in the pump of a connection's listener or connector."""
        return self._engine.listener_of(index)

    def refused(self, index: int, peer: str, error: tuple[str, str] | None) -> bool:
        """Count and log a connection that ends before its OPEN; return False if the caller has to log it."""
        name, description = error or ("", "")
        if index in self.denied:
            self.denied.discard(index)
            return True
        if self._engine.sasl_refused(index):
            self.count("refused_authentication")
            why = description or "authentication failed"
            self._logins.tell(time.monotonic(), SERVER, logging.WARNING, REFUSED, peer, why)
        elif TLS_FAILURE in description and TLS_LEFT in description and self._agreed(index):
            self.unopened(peer)
        elif TLS_FAILURE in description:
            self.count("refused_tls")
            why = f"the TLS handshake failed: {description}"
            self._bursts.tell(time.monotonic(), SERVER, logging.INFO, REFUSED, peer, why)
        elif name == UNPROTECTED:
            self.count("refused_unprotected")
            self._bursts.tell(time.monotonic(), SERVER, logging.INFO, REFUSED, peer, description)
        else:
            return False
        return True

    def _agreed(self, index: int) -> bool:
        """Return whether TLS had agreed on a cipher."""
        _, _, _, cipher, _ = self._engine.protection(index)
        return bool(cipher)

    def unopened(self, peer: str, error: tuple[str, str] | None = None) -> None:
        """Log a connection that ended before its OPEN, silently or with an error."""
        if error is None:
            self._rare.tell(time.monotonic(), SERVER, logging.INFO, UNOPENED, peer)
        else:
            self._bursts.tell(time.monotonic(), SERVER, logging.INFO, f"{UNOPENED}: %s: %s", peer, *error)

    def without_room(self, peer: str, link: str) -> None:
        """Count and log a link refused because the worker's table of links is full."""
        self.count("refused_room")
        text = "link %r of %s refused: this worker has no room for another link"
        self._rare.tell(time.monotonic(), SERVER, logging.INFO, text, link, peer)

    def count(self, name: str) -> None:
        """Increment a counter of the worker's statistics page."""
        self._counters.add(COUNTERS[name].place)

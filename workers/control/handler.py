"""The Python half of a worker's pump: connections, attaches and detaches, but no messages.

The pump calls a method for each such event (pump.pyx). Questions go to the core as control actions
(shm/contract/payloads.py), and the core's answers come back through ``control``.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from shm.contract.complaints import Complaints
from shm.contract.payloads import (
    PAYLOADS,
    Attach,
    Attached,
    Close,
    ConnectionClosed,
    ConnectionOpened,
    Denied,
    Detach,
    Error,
    OpenLink,
    Poll,
    Presented,
    RouteReach,
    Seen,
    Trace,
)
from workers.control.guard import Guard, Passed
from workers.control.link_requests import GONE, LinkRequests
from workers.control.neighbours import AmqpError, Connectors, Framed
from workers.control.opening import (
    ACCEPTING,
    CAPABILITIES,
    NO_DESCRIPTORS,
    OF_ROUTERS,
    Terms,
    described,
    form_of,
    introduced,
    open_properties,
    plainly,
    tenant_of,
)
from workers.control.policy import DENIED, DeniedError
from workers.control.registry import Registry, TooLongError
from workers.control.trace import Tracing, line
from workers.source_routes.senders import Senders

SERVER = logging.getLogger("SERVER")
POLICY = logging.getLogger("POLICY")
ROUTER = logging.getLogger("ROUTER")
ACCEPT_TELL_SECONDS = 10.0
NAMED = 200  # characters of a long name in the log
TOO_LARGE = ("amqp:connection:forced", "Message size exceeded")
LONG_ATTACH = (
    "amqp:resource-limit-exceeded",
    "The router reads no ATTACH of more than 1 MiB: shorten the link's name, addresses, filters or properties",
)
LONG_OPEN = (
    "amqp:resource-limit-exceeded",
    "The router reads no OPEN of more than 1 MiB: shorten its container-id, hostname or properties",
)
LONG_CLOSED = "[C%d] connection of %s closed: its OPEN has more than 1 MiB"
FATAL = ("amqp:internal-error", "The router core died twice before it answered this ATTACH")
FATAL_ATTACH = "[C%d] ATTACH of link %r refused: the core died twice before it answered; it may be the cause"
TOO_MANY_SESSIONS = ("amqp:resource-limit-exceeded", "session disallowed by local policy")


class Handler:
    """Handles the events of one worker's pump.

    The ``framed`` protocols are offered each control message of the core first; the handler takes the others.
    """

    def __init__(
        self,
        registry: Registry,
        guard: Guard,
        tracing: Tracing,
        link_requests: LinkRequests,
        connectors: Connectors,
        senders: Senders,
        framed: Sequence[Framed],
    ) -> None:
        self.guard, self.tracing, self.senders = guard, tracing, senders
        self._link_requests, self._connectors, self._framed = link_requests, connectors, framed
        self._registry, self._pump, self._setup = registry, registry.pump, registry.setup
        self.peers, self._passed = registry.peers, registry.passed
        self._listeners, self._accepted, self._dialled_by = registry.listeners, registry.accepted, registry.dialled_by
        self._forced: dict[int, tuple[int, AmqpError]] = {}  # connections that the core has closed: generation, reason
        self._decoders = {kind: msgspec.msgpack.Decoder(payload).decode for kind, payload in PAYLOADS.items()}
        self._control: dict[type, Callable[[Any], None]] = {
            Attached: self._attached,
            Detach: self._detach,
            Close: self._close,
            Poll: self._poll,
            Trace: self._trace,
            OpenLink: self._open_link,
            Presented: lambda _: self._pump.go_on(),
            RouteReach: senders.reached,
        }
        self._trace_settings: dict[int, bool] = {}  # by connection: its own setting, if it has one
        self._complaints = Complaints(ACCEPT_TELL_SECONDS)

    # ---- connections ----

    def connection_open(self, index: int, generation: int) -> None:
        """Judge a peer that has sent OPEN, answer unless it is an answer itself, and tell the core."""
        _, hostname, user, mechanism, _, _, config = self._pump.connection_info(index)
        connector = self._dialled_by.get(index)
        denied = ""
        try:
            if connector is not None:
                self._passed[index] = self.guard.leave(index, connector, user, self.peers[index])
            else:
                peer = self.peers[index] = self.guard.peer(index)
                listener = self._accepted[index] = self._listeners[config]
                self._passed[index] = self.guard.enter(index, listener, hostname, user, mechanism, peer)
        except DeniedError as error:
            denied = str(error)
            self._denied(error.vhost, "connection")
        number = self._registry.number(index)
        if connector is None:
            properties = open_properties(self._accepted[index], self._setup.version, number)
            self._pump.connection_open(index, self._setup.router_id, CAPABILITIES, properties)
        if denied:
            text = "[C%d] connection of %s denied: %s"
            self._say(index, POLICY, text, number, self.peers[index], denied)
            self._pump.connection_close(index, generation, DENIED)
            return
        full = connector is None and self.guard.full()
        opened = self._present(index, generation, self._passed[index])
        if opened is None:
            return
        if full:
            self._pump.connection_close(index, generation, DENIED)
        terms: Terms = connector or self._accepted[index]
        if terms.logged_parts:
            self.tracing.messages.opened(index, generation, terms.logged_parts)
        form = form_of(terms, opened.properties)
        self._pump.connection_annotations(index, form.form, form.strip_in, form.strip_out)
        if opened.role in OF_ROUTERS:
            said = opened.properties.get("qd.annotations-version", 0)
            ROUTER.debug("Remote router annotations version: %s; [C%d] has form %d", said, number, form.form)
        way = "from" if connector is None else "to"
        text = "[C%d] connection %s %s opened, container %r%s"
        self._say(index, SERVER, text, number, way, opened.host, opened.container, introduced(opened, terms))
        if connector is not None:
            name = (index, generation)
            self._connectors.opened(connector.number, name, opened.properties, described(opened))

    def trace(self, index: int, text: str, asked: bool) -> None:
        """Log a frame of a traced connection."""
        line(self._registry.number(index), text, asked)

    def _trace(self, message: Trace) -> None:
        if message.connection in self._passed:
            self._trace_settings[message.connection] = message.on
        self.tracing.set(message.connection, message.generation, message.on)

    def connection_present(self, index: int, generation: int) -> None:
        """Present an open connection to a new core, unless the connection was denied and is closing."""
        if index in self._passed:
            self._present(index, generation, self._passed[index], restored=True)

    def _present(
        self, index: int, generation: int, passed: Passed, *, restored: bool = False
    ) -> ConnectionOpened | None:
        """Tell the core of an open connection. Close one whose OPEN is too long for that, and return None."""
        container, hostname, _, mechanism, properties, offered, _ = self._pump.connection_info(index)
        connector = self._dialled_by.get(index)
        terms: Terms = connector or self._accepted[index]
        form = form_of(terms, properties)
        opened = ConnectionOpened(
            connection=index,
            generation=generation,
            container=container,
            host=self.peers[index],
            hostname=hostname,
            role=terms.role,
            listener="" if connector else terms.name,
            user=passed.user,
            sasl=mechanism,
            product=str(properties.get("product", "")),
            product_version=str(properties.get("version", "")),
            number=self._registry.numbers[index],
            properties=properties,
            authenticated=passed.authenticated,
            encrypted=passed.encrypted,
            tls_protocol=passed.tls_protocol,
            tls_cipher=passed.tls_cipher,
            tls_strength=passed.tls_strength,
            admission=passed.admission,
            trace=self._trace_settings.get(index),
            tenant=tenant_of(terms, hostname, passed),
            connector=connector.name if connector else "",
            cost=terms.cost,
            annotations=form.form,
            restored=restored,
            offered=offered,
            management=passed.management,
            login=passed.login,
        )
        try:
            self._registry.post(opened, connection=index, connection_generation=generation)
        except TooLongError:
            del self._passed[index]
            self._say(index, SERVER, LONG_CLOSED, self._registry.number(index), self.peers[index])
            self._pump.connection_close(index, generation, LONG_OPEN)
            return None
        return opened

    def connection_close(self, index: int, generation: int, error: AmqpError | None) -> None:
        """Answer the peer's CLOSE."""
        if error is not None:
            who = self._registry.number(index), self.peers.get(index, "?")
            self._say(index, SERVER, "[C%d] connection of %s closed by its peer: %s: %s", *who, *error)
        self._pump.connection_close(index, generation)

    def connection_gone(self, index: int, generation: int, opened: bool, error: AmqpError | None) -> None:
        """Forget a connection whose socket is closed and whose links have been reported lost."""
        number = self._registry.number(index)
        del self._registry.numbers[index]
        self._trace_settings.pop(index, None)
        error = plainly(self._reason(index, generation, error))
        host = self.peers.pop(index, None) or self.guard.peer(index)
        known = self._passed.pop(index, None) is not None
        self._accepted.pop(index, None)
        connector = self._dialled_by.pop(index, None)
        if connector is not None:
            self._connectors.ended(connector.number, (index, generation), opened, error)
        elif not opened and self.guard.refused(index, host, error):
            return
        elif not opened:
            self.guard.unopened(host, error)
        elif error is not None:
            self._say(index, SERVER, "[C%d] connection of %s ended: %s: %s", number, host, *error)
        else:
            self._say(index, SERVER, "[C%d] connection of %s closed", number, host)
        if opened and known:
            closed = ConnectionClosed(index, generation, reason=error[1] if error else "")
            name = {"connection": index, "connection_generation": generation}
            self._registry.post(closed, **name)

    def _reason(self, index: int, generation: int, error: AmqpError | None) -> AmqpError | None:
        """Return why a connection has ended: the core's reason, if it had the connection closed, or the engine's.

        A peer that cuts the connection after our CLOSE would otherwise be said to have broken the protocol.
        """
        named, forced = self._forced.pop(index, (generation, error))
        return forced if named == generation else error

    def _say(self, index: int, logger: logging.Logger, text: str, *what: object) -> None:
        """Log a line about a connection, within the limit of its listener or connector."""
        lines, key = self._registry.lines, (text, self.guard.place(index))
        lines.tell(time.monotonic(), logger, logging.INFO, text, *what, key=key)

    def certificates_due(self, number: int) -> None:
        """Load changed certificates: a client connects to a listening socket with TLS."""
        self.guard.certificates_due(number)

    def session_denied(self, index: int, generation: int) -> None:
        """Close a connection whose peer began one session too many: no channel is left for an answer."""
        self._denied(self._vhost(index), "session")
        text = "session of %s denied: it has as many as its vhost allows"
        self._say(index, POLICY, text, self.peers.get(index, "?"))
        self._pump.connection_close(index, generation, TOO_MANY_SESSIONS)

    def message_denied(self, index: int, generation: int) -> None:
        """Close a connection after the pump has rejected a message larger than the policy allows."""
        self._denied(self._vhost(index), "message")
        passed = self._passed.get(index)
        text = "message of %s (user %r, vhost %s) denied: larger than maxMessageSize of the policy, %d bytes"
        who = (passed.user, self._vhost(index) or "-", passed.max_message) if passed else ("", "-", 0)
        self._say(index, POLICY, text, self.peers.get(index, "?"), *who)
        self._pump.connection_close(index, generation, TOO_LARGE)

    def _vhost(self, index: int) -> str:
        passed = self._passed.get(index)
        return passed.admission.vhost if passed and passed.admission else ""

    def _denied(self, vhost: str, what: str) -> None:
        """Tell the core of a denial, because it counts those of all workers."""
        if vhost:
            self._registry.post(Denied(vhost, what))

    def message_refused(self, index: int, why: str) -> None:
        """Log the rejection of a malformed message; the pump calls this once a minute for each kind."""
        SERVER.warning("message of %s rejected: %s", self.peers.get(index, "?"), why)

    def accept_failed(self, config: int) -> None:
        """Log that accept() fails for lack of descriptors or memory; the pump retries ten times a second."""
        name = self._listeners[config].shown
        self._complaints.tell(time.monotonic(), SERVER, logging.ERROR, NO_DESCRIPTORS, name)

    def accept_again(self) -> None:
        """Log that no accept() has failed any more for a second."""
        SERVER.info(ACCEPTING)

    # ---- links ----

    def attach(self, message: Attach) -> None:
        """Ask the core about a peer's attach, or present a ``restored`` link with its sender's credit."""
        if message.connection not in self._passed:
            self._pump.link_refuse(message.link, message.generation, *DENIED)
            return
        try:
            self._registry.post(message, link=message.link, link_generation=message.generation)
        except TooLongError:
            self._refused(message.connection, message.name, LONG_ATTACH)
            if message.routed:
                self._link_requests.give_up(message.link, message.generation, LONG_ATTACH)
            elif message.request or message.restored:
                self._pump.link_close(message.link, message.generation, LONG_ATTACH)
            else:
                self._pump.link_refuse(message.link, message.generation, *LONG_ATTACH)

    def unanswerable(self, link: int, generation: int, connection: int, name: str, error: AmqpError) -> None:
        """Tell the core that a link is refused which it has accepted: no frame of its peer has room for the answer."""
        self._refused(connection, name, error)
        self.link_lost(link, generation, error, closed=False, lost=True)

    def _refused(self, connection: int, name: str, error: AmqpError) -> None:
        who = self._registry.number(connection), name[:NAMED], self.peers.get(connection, "?")
        self._say(connection, SERVER, "[C%d] link %r of %s refused: %s: %s", *who, *error)

    def attach_fatal(self, link: int, generation: int, connection: int, name: str) -> None:
        """Refuse an attach that has met two cores which died: it may be what they died of."""
        number = self._registry.number(connection)
        self._complaints.tell(time.monotonic(), SERVER, logging.ERROR, FATAL_ATTACH, number, name)
        self._pump.link_refuse(link, generation, *FATAL)

    def link_lost(
        self, link: int, generation: int, error: AmqpError | None, closed: bool = True, lost: bool = False
    ) -> None:
        """Tell the core that a link is gone, after its deliveries have been settled."""
        self.senders.gone(link, generation)
        message = Detach(link, generation, Error(*error) if error else None, bool(closed), bool(lost))
        self._registry.post(message, link=link, link_generation=generation)

    def link_refused(self, request: int, error: AmqpError | None) -> None:
        """Tell the core that a link it wanted was refused."""
        self._registry.link_refused(request, error)

    # ---- the core's answers and orders ----

    def control(self, kind: int, payload: bytes) -> bool:
        """Take a control record of the core; return False for a malformed one, which is dropped."""
        try:
            message = self._decoders[kind](payload)
            if not any(one.take(message) for one in self._framed):
                self._control[type(message)](message)
        except (KeyError, OverflowError, UnicodeDecodeError, msgspec.DecodeError) as error:
            SERVER.error("dropped a control record of the core that made no sense: kind %d, %r", kind, error)
            return False
        return True

    def _attached(self, message: Attached) -> None:
        if message.termini is not None:
            self._link_requests.answer(message, message.termini)
        elif message.error is None:
            where = message.link, message.generation
            self._pump.link_open(*where, message.address, message.to_table, message.capacity)
        else:
            error = message.error
            self._pump.link_refuse(message.link, message.generation, error.condition, error.description)

    def _detach(self, message: Detach) -> None:
        error = (message.error.condition, message.error.description) if message.error else None
        if message.closed:
            self._pump.link_close(message.link, message.generation, error)
        else:
            self._link_requests.detach(message, error)

    def _close(self, message: Close) -> None:
        why = message.error.condition, message.error.description
        self._forced[message.connection] = message.generation, why
        self._pump.connection_close(message.connection, message.generation, why)

    def _poll(self, message: Poll) -> None:
        seen = self._pump.links_seen(message.links, time.monotonic_ns())
        self._registry.post(Seen(message.number, seen))

    def _open_link(self, opening: OpenLink) -> None:
        if opening.connection in self._passed:
            self._link_requests.open_link(opening)
        else:
            self._registry.link_refused(opening.request, GONE)

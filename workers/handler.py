"""What a worker does that is not per message: connections, attaches, detaches - the pump's Python half.

The pump calls a method here for each such event (pump.pyx); what the core must decide goes to it as a control
action (shm/payloads.py), and what it decided comes back through ``control``.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from shm.control import ListenerSetup, Setup
from shm.payloads import (
    C_ATTACH,
    C_CONNECTION_CLOSED,
    C_CONNECTION_OPENED,
    C_DENIED,
    C_DETACH,
    C_SEEN,
    PAYLOADS,
    Attach,
    Attached,
    Close,
    ConnectionClosed,
    ConnectionOpened,
    Denied,
    Detach,
    Error,
    Look,
    Seen,
    Trace,
)
from workers.guard import Guard, Passed
from workers.policy import DENIED, DeniedError
from workers.trace import Tracing, line

SERVER = logging.getLogger("SERVER")
POLICY = logging.getLogger("POLICY")
PRODUCT = "routerd"
ACCEPT_TELL_SECONDS = 10.0
TOO_LARGE = ("amqp:connection:forced", "a message is larger than the policy allows")
# Senders without a target address are served, and messages of any length arrive on links of their own kind.
ANNOTATIONS_MAP = 1  # content.h: what clients that are to see router annotations get
CAPABILITIES = ["ANONYMOUS-RELAY", "qd.streaming-links"]

AmqpError = tuple[str, str]


class Pump(Protocol):
    """What the handler asks of workers.pump.Pump."""

    def next_connection(self) -> int: ...
    def connection_info(self, index: int) -> tuple[str, str, str, str, dict[str, Any], int, int]: ...
    def connection_open(
        self, index: int, container: str, capabilities: list[str], properties: dict[str, Any]
    ) -> None: ...
    def connection_annotations(self, index: int, form: int, strip_in: bool, strip_out: bool) -> None: ...
    def connection_close(self, index: int, generation: int, error: AmqpError | None = None) -> None: ...
    def link_open(self, index: int, generation: int, address: str | None) -> bool: ...
    def link_seen(self, link: int, generation: int, now: int) -> tuple[int, int, int] | None: ...
    def link_refuse(self, index: int, generation: int, name: str, description: str) -> None: ...
    def link_close(self, index: int, generation: int, error: AmqpError | None = None) -> None: ...
    def post(
        self,
        kind: int,
        payload: bytes,
        link: int = ...,
        link_generation: int = 0,
        connection: int = 0,
        connection_generation: int = 0,
    ) -> None: ...


class Handler:
    """Events of one worker's pump; ``pump``, ``guard`` and ``tracing`` are set when they exist."""

    pump: Pump
    guard: Guard
    tracing: Tracing

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.listeners: dict[int, ListenerSetup] = {one.number: one for one in setup.listeners}
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoders = {kind: msgspec.msgpack.Decoder(payload).decode for kind, payload in PAYLOADS.items()}
        self._control: dict[type, Callable[[Any], None]] = {
            Attached: self._attached,
            Detach: self._detach,
            Close: self._close,
            Look: self._look,
            Trace: self._trace,
        }
        self.numbers: dict[int, int] = {}  # by connection; unique in the router, for logs and qd.conn-id
        self.wishes: dict[int, bool] = {}  # by connection: whether it is traced, where somebody has said so
        self.peers: dict[int, str] = {}
        self._accept_told = -ACCEPT_TELL_SECONDS
        self._passed: dict[int, Passed] = {}  # connections that the core knows

    # ---- connections ----

    def connection_open(self, index: int, generation: int) -> None:
        """The peer's OPEN has come: answer it and tell the core."""
        number = self.number(index)
        _, hostname, user, _, _, config, _ = self.pump.connection_info(index)
        self.peers[index] = self.guard.peer(index)
        denied = ""
        try:
            self._passed[index] = self.guard.enter(
                index, self.listeners[config], hostname, user, self.peers[index]
            )
        except DeniedError as error:
            denied = str(error)
            self._denied(error.vhost, "connection")
        self.pump.connection_open(
            index,
            self.setup.router_id,
            CAPABILITIES,
            self._properties(self.listeners[config], number),
        )
        if denied:
            POLICY.info("[C%d] connection from %s denied: %s", number, self.peers[index], denied)
            self.pump.connection_close(index, generation, DENIED)
            return
        opened = self._present(index, generation, self._passed[index])
        strip = self.listeners[config].strip_annotations
        self.pump.connection_annotations(
            index, ANNOTATIONS_MAP, strip in ("in", "both"), strip in ("out", "both")
        )
        SERVER.info(
            "[C%d] connection from %s opened, container %r", opened.number, opened.host, opened.container
        )

    def number(self, index: int) -> int:
        """Of a connection: unique in the router, in logs and as qd.conn-id. Its first use gives it one."""
        if index not in self.numbers:
            self.numbers[index] = self.pump.next_connection()
        return self.numbers[index]

    def trace(self, index: int, text: str, asked: bool) -> None:
        """A frame of a traced connection has come or goes."""
        line(self.number(index), text, asked)

    def _trace(self, message: Trace) -> None:
        if message.connection in self._passed:
            self.wishes[message.connection] = message.on
        self.tracing.wish(message.connection, message.generation, message.on)

    def _properties(self, listener: ListenerSetup, number: int) -> dict[str, Any]:
        """Of our OPEN: what every router says, and what the listener adds."""
        properties = {
            "product": PRODUCT,
            "version": self.setup.version,
            "qd.conn-id": number,
            **listener.open_properties,
        }
        if listener.failover:
            properties["failover-server-list"] = listener.failover
        return properties

    def connection_present(self, index: int, generation: int) -> None:
        """Tell a new core of an open connection; one that was denied is on its way out and none of its."""
        if index in self._passed:
            self._present(index, generation, self._passed[index])

    def _present(self, index: int, generation: int, passed: Passed) -> ConnectionOpened:
        container, hostname, _, mechanism, properties, config, _ = self.pump.connection_info(index)
        listener = self.listeners[config]
        opened = ConnectionOpened(
            connection=index,
            generation=generation,
            container=container,
            host=self.peers[index],
            hostname=hostname,
            role=listener.role,
            listener=listener.name,
            user=passed.user,
            sasl=mechanism,
            product=str(properties.get("product", "")),
            product_version=str(properties.get("version", "")),
            number=self.numbers[index],
            properties=properties,
            authenticated=passed.authenticated,
            encrypted=passed.encrypted,
            tls_protocol=passed.tls_protocol,
            tls_cipher=passed.tls_cipher,
            tls_strength=passed.tls_strength,
            admission=passed.admission,
            tenant=_tenant(listener, hostname, passed) if listener.multi_tenant else "",
            trace=self.wishes.get(index),
        )
        self._post(C_CONNECTION_OPENED, opened, connection=index, connection_generation=generation)
        return opened

    def connection_close(self, index: int, generation: int, error: AmqpError | None) -> None:
        """The peer's CLOSE has come: follow."""
        if error is not None:
            SERVER.info(
                "[C%d] connection of %s closed by its peer: %s: %s",
                self.number(index),
                self.peers.get(index, "?"),
                *error,
            )
        self.pump.connection_close(index, generation)

    def connection_gone(
        self, index: int, generation: int, opened: bool, error: AmqpError | None, fd: int
    ) -> None:
        """The socket is closed and every link has been reported lost."""
        number = self.numbers.pop(index, 0)
        self.wishes.pop(index, None)
        host = self.peers.pop(index, None) or self.guard.peer(index)
        known = self._passed.pop(index, None) is not None
        if not opened and self.guard.refused(index, host, error):
            return
        if error is not None:
            SERVER.info("[C%d] connection of %s ended: %s: %s", number, host, *error)
        elif opened:
            SERVER.info("[C%d] connection of %s closed", number, host)
        else:
            SERVER.debug("connection of %s ended before it was opened", host)  # a scan must not fill the log
        if opened and known:
            closed = ConnectionClosed(index, generation, reason=error[1] if error else "")
            self._post(C_CONNECTION_CLOSED, closed, connection=index, connection_generation=generation)

    def certificates_due(self, number: int) -> None:
        """Somebody connects to a listening socket with TLS."""
        self.guard.certificates_due(number)

    def session_denied(self, index: int) -> None:
        """A session beyond the limit of its connection was ended."""
        self._denied(self._vhost(index), "session")
        POLICY.info("session of %s denied: it has as many as its vhost allows", self.peers.get(index, "?"))

    def message_denied(self, index: int, generation: int) -> None:
        """A message too large was rejected and its link closed; the connection follows (facts 7)."""
        self._denied(self._vhost(index), "message")
        POLICY.info("message of %s denied: larger than the policy allows", self.peers.get(index, "?"))
        self.pump.connection_close(index, generation, TOO_LARGE)

    def _vhost(self, index: int) -> str:
        passed = self._passed.get(index)
        return passed.admission.vhost if passed and passed.admission else ""

    def _denied(self, vhost: str, what: str) -> None:
        """Tell the core, which counts for all workers."""
        if vhost:
            self._post(C_DENIED, Denied(vhost, what))

    def accept_failed(self, config: int) -> None:
        """accept() failed for want of descriptors or memory; it is tried again ten times a second."""
        now = time.monotonic()
        if now < self._accept_told + ACCEPT_TELL_SECONDS:
            return
        self._accept_told = now
        SERVER.error(
            "listener %s: cannot accept connections: out of file descriptors or memory; raise LimitNOFILE "
            "(ulimit -n) or lower the number of clients",
            self.listeners[config].name or config,
        )

    # ---- links ----

    def attach(
        self,
        connection: int,
        link: int,
        generation: int,
        name: str,
        outgoing: bool,
        address: str | None,
        dynamic: bool,
        coordinator: bool,
        capabilities: list[str],
        snd_settle_mode: int,
        rcv_settle_mode: int,
        capacity: int,
        restored: bool,
        granted: int,
    ) -> None:
        """A peer attaches: the core decides (the link is not opened before it did). Or, ``restored``: a link
        that an earlier core has let in, with the credit that its sender has."""
        if connection not in self._passed:
            self.pump.link_refuse(link, generation, *DENIED)
            return
        message = Attach(
            link=link,
            generation=generation,
            connection=connection,
            name=name,
            outgoing=bool(outgoing),
            address=address,
            dynamic=bool(dynamic),
            coordinator=bool(coordinator),
            capabilities=capabilities,
            snd_settle_mode=snd_settle_mode,
            rcv_settle_mode=rcv_settle_mode,
            capacity=capacity,
            restored=bool(restored),
            granted=granted,
        )
        self._post(C_ATTACH, message, link=link, link_generation=generation)

    def link_lost(self, link: int, generation: int, error: AmqpError | None) -> None:
        """A link is gone; its deliveries have been answered for."""
        message = Detach(link=link, generation=generation, error=Error(*error) if error else None)
        self._post(C_DETACH, message, link=link, link_generation=generation)

    # ---- the core's answers ----

    def control(self, kind: int, payload: bytes) -> bool:
        """A control record of the core. False: it made no sense and was dropped."""
        try:
            message = self._decoders[kind](payload)
            self._control[type(message)](message)
        except (KeyError, OverflowError, UnicodeDecodeError, msgspec.DecodeError) as error:
            SERVER.error("dropped a control record of the core that made no sense: kind %d, %r", kind, error)
            return False
        return True

    def _attached(self, message: Attached) -> None:
        if message.error is None:
            self.pump.link_open(message.link, message.generation, message.address)
        else:
            self.pump.link_refuse(
                message.link, message.generation, message.error.condition, message.error.description
            )

    def _detach(self, message: Detach) -> None:
        error = (message.error.condition, message.error.description) if message.error else None
        self.pump.link_close(message.link, message.generation, error)

    def _close(self, message: Close) -> None:
        error = (message.error.condition, message.error.description)
        self.pump.connection_close(message.connection, message.generation, error)

    def _look(self, message: Look) -> None:
        now = time.monotonic_ns()
        links = [self.pump.link_seen(link, generation, now) for link, generation in message.links]
        self._post(C_SEEN, Seen(message.number, links))

    def _post(self, kind: int, message: msgspec.Struct, **names: int) -> None:
        self.pump.post(kind, self._encode(message), **names)


def _tenant(listener: ListenerSetup, hostname: str, passed: Passed) -> str:
    """The vhost by which a client of a multi-tenant listener shares its addresses."""
    return passed.admission.vhost if passed.admission else listener.policy_vhost or hostname

"""Framed connections, RMR's and Ockam's: what the core knows of each connection and its links.

    open --its links are attached--> served --lost--> gone

The protocol decides which links a connection has and which addresses they have.
"""

import logging
import time
from typing import Protocol

import msgspec

from shm.contract.complaints import Complaints, bursts
from shm.contract.control import ListenerSetup
from shm.contract.payloads import Attach, Attached, Close, ConnectionClosed, ConnectionOpened, Detach, Trace
from workers.control.neighbours import Ends, Name
from workers.control.trace import Tracing, line, quoted

SERVER = logging.getLogger("SERVER")

DATA, OTHER, OUT, BACK = range(4)  # the links of a connection
NAMES = ("data", "other", "endpoint", "back")


class Transport(Protocol):
    """The part of workers.loop.pump.FramedTransport that framed connections use."""

    def serve(self, handler: "FramedConnections") -> None: ...
    def dial(self, place: int, fd: int) -> Name | None: ...
    def attach(self, index: int, number: int, which: int) -> tuple[int, int, int] | None: ...
    def link_open(self, index: int, generation: int, to_table: bool) -> None: ...
    def close(self, index: int, generation: int) -> None: ...
    def end_round(self) -> None: ...


class Owner(Protocol):
    """The part of workers.control.handler.Handler that framed connections use."""

    peers: dict[int, str]
    numbers: dict[int, int]
    listeners: dict[int, ListenerSetup]
    lines: Complaints

    def number(self, index: int) -> int: ...
    def post(self, message: msgspec.Struct, **names: int) -> None: ...


class Peer(msgspec.Struct):
    """A framed connection; ``addresses`` has its links' addresses by DATA, OTHER, OUT or BACK."""

    opened: ConnectionOpened
    addresses: dict[int, str | None]
    links: dict[int, Attach] = {}
    accepted: set[int] = set()  # those that a core has accepted

    @property
    def number(self) -> int:
        return self.opened.number

    @property
    def host(self) -> str:
        return self.opened.host


class FramedConnections:
    """All connections of this worker that speak one protocol; ``role`` is its name."""

    role = ""

    def __init__(self, transport: Transport, security: Ends, owner: Owner, tracing: Tracing) -> None:
        self._peers: dict[int, Peer] = {}  # by connection
        self._links: dict[tuple[int, int], int] = {}  # by index and generation of the link -> connection
        self._transport = transport
        self._security = security
        self._owner = owner
        self._tracing = tracing
        self._refusals = bursts()
        transport.serve(self)

    # ---- the worker ----

    def listen(self, place: int, one: ListenerSetup) -> None:
        """Serve a listener's place in the pump, if the listener is for this protocol. Raises ValueError."""

    def configure(self, change: msgspec.Struct) -> None:
        """Take a change of the configuration (``shm.contract.control``), if it is for this protocol."""

    def wait(self, at_most: float) -> float:
        """Return the seconds until `step` has something to do, at most ``at_most``."""
        return at_most

    def step(self) -> None:
        """Start the connections that are due."""

    def stop(self) -> None:
        """Start no more connections; open ones stay."""

    def forget(self) -> None:
        """Drop the orders of a dead core."""

    # ---- connections ----

    def opened(self, index: int, generation: int) -> None:
        """Take a connection that is open."""
        raise NotImplementedError

    def ended(self, name: Name, opened: bool, why: str) -> None:
        """Note that a connection is lost or an attempt has failed, so that it can be retried."""

    def begin(self, peer: Peer) -> None:
        """Tell the core of an open connection, and attach its links."""
        index, generation = peer.opened.connection, peer.opened.generation
        self._peers[index] = peer
        self._owner.peers[index] = peer.host
        self._present(peer.opened)
        for which in peer.addresses:
            if not self._attach(index, peer, which):
                text = "[C%d] closed: this worker has no room for its links"
                self._refusals.tell(time.monotonic(), SERVER, logging.ERROR, text, peer.number)
                self._transport.close(index, generation)
                return

    def _present(self, opened: ConnectionOpened) -> None:
        names = {"connection": opened.connection, "connection_generation": opened.generation}
        self._owner.post(opened, **names)

    def _attach(self, index: int, peer: Peer, which: int) -> bool:
        made = self._transport.attach(index, peer.number, which)
        if made is None:
            return False
        link, generation, capacity = made
        name, address = f"{self.role}-{NAMES[which]}", peer.addresses[which]
        attach = Attach(link, generation, index, name, which >= OUT, address, capacity=capacity)
        peer.links[link] = attach
        self._links[link, generation] = index
        self._owner.post(attach, link=link, link_generation=generation)
        return True

    def present(self, index: int, generation: int) -> None:
        """Present a connection to a new core."""
        if index in self._peers:
            self._present(msgspec.structs.replace(self._peers[index].opened, restored=True))
        else:
            self.opened(index, generation)

    def link_present(self, link: int, generation: int) -> None:
        """Present a link to a new core, or attach one that the earlier core did not live to accept."""
        if (index := self._links.get((link, generation))) is not None:
            peer = self._peers[index]
            attach = msgspec.structs.replace(peer.links[link], restored=link in peer.accepted)
            self._owner.post(attach, link=link, link_generation=generation)

    def gone(self, index: int, generation: int, opened: bool, why: str) -> None:
        """Forget a connection that is lost or has failed; its links have been reported lost."""
        self._transport.end_round()
        self.ended((index, generation), opened, why)
        peer = self._peers.pop(index, None)
        self._owner.numbers.pop(index, None)
        self._owner.peers.pop(index, None)
        if peer is None:
            return
        for link, attach in peer.links.items():
            self._links.pop((link, attach.generation), None)
        if why:
            self.say(index, "[C%d] connection of %s ended: %s", peer.number, peer.host, why)
        else:
            self.say(index, "[C%d] connection of %s closed", peer.number, peer.host)
        closed = ConnectionClosed(index, generation, why)
        self._owner.post(closed, connection=index, connection_generation=generation)

    # ---- the log ----

    def say(self, index: int, text: str, *what: object) -> None:
        """Log a line about a connection, within the limit of its listener or connector."""
        key = text, self._security.listener_of(index)
        self._owner.lines.tell(time.monotonic(), SERVER, logging.INFO, text, *what, key=key)

    def log_messages(self, peer: Peer, parts: list[str]) -> None:
        """Log these parts of a connection's messages, if there are any."""
        if parts:
            self._tracing.messages.opened(peer.opened.connection, peer.opened.generation, parts)

    def message(self, index: int, link: int, sent: bool, beginning: bytes) -> None:
        """Log a received or sent message from its first bytes."""
        peer = self._peers.get(index)
        if peer and link in peer.links:
            self._tracing.messages.seen(index, peer.links[link].name, sent, beginning)

    def frame(self, index: int, sent: bool, length: int, head: bytes, payload: bytes, asked: bool) -> None:
        """Log a frame of a traced connection; ``payload`` is only the beginning of the frame's payload."""
        line(self._owner.number(index), self.described(sent, length, head, payload), asked)

    def described(self, sent: bool, length: int, head: bytes, payload: bytes) -> str:
        """Return the text of a frame for the trace."""
        return f"{self.role.upper()}: {'->' if sent else '<-'} ({length}) {quoted(head + payload)}"

    # ---- orders of the core ----

    def take(self, message: msgspec.Struct) -> bool:
        """Take a control message of the core; return False if it concerns none of these connections."""
        match message:
            case Attached() if (message.link, message.generation) in self._links:
                self._attached(message)
            case Detach() if (message.link, message.generation) in self._links:
                self._refused(message, message.error.description if message.error else "it is not wanted")
            case Trace() if self._generation(message.connection) == message.generation:
                self._trace(message)
            case Close() if self._generation(message.connection) == message.generation:
                self._refused_connection(message.connection, message.error.description)
            case _:
                return False
        return True

    def _generation(self, connection: int) -> int | None:
        peer = self._peers.get(connection)
        return None if peer is None else peer.opened.generation

    def _trace(self, message: Trace) -> None:
        peer = self._peers[message.connection]
        peer.opened = msgspec.structs.replace(peer.opened, trace=message.on)
        self._tracing.set(message.connection, message.generation, message.on)

    def _attached(self, message: Attached) -> None:
        if message.error is None:
            peer = self._peers[self._links[message.link, message.generation]]
            peer.accepted.add(message.link)
            peer.links[message.link] = msgspec.structs.replace(peer.links[message.link], to_table=message.to_table)
            self._transport.link_open(message.link, message.generation, message.to_table)
        else:
            self._refused(message, message.error.description or message.error.condition)

    def _refused(self, message: Attached | Detach, why: str) -> None:
        self._refused_connection(self._links[message.link, message.generation], why)

    def _refused_connection(self, index: int, why: str) -> None:
        peer = self._peers[index]
        text = "[C%d] connection of %s closed: %s"
        self._refusals.tell(time.monotonic(), SERVER, logging.WARNING, text, peer.number, peer.host, why)
        self._transport.close(index, peer.opened.generation)

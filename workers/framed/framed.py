"""Connections without an engine (plain.h): what each has told the core of itself, and of its links.

    open --its links are attached--> served --lost--> gone

A protocol says which links a connection has, and where they lead.
"""

import logging
from typing import Protocol

import msgspec

from shm.contract.payloads import (
    C_ATTACH,
    C_CONNECTION_CLOSED,
    C_CONNECTION_OPENED,
    Attach,
    Attached,
    Close,
    ConnectionClosed,
    ConnectionOpened,
    Detach,
    Trace,
)
from workers.control.neighbours import Ends, Name
from workers.control.trace import Tracing, line, quoted

SERVER = logging.getLogger("SERVER")

DATA, OTHER, OUT, BACK = range(4)  # the links of a connection
NAMES = ("data", "other", "endpoint", "back")


class Transport(Protocol):
    """What is asked of workers.loop.pump.PlainTransport."""

    def dial(self, place: int, fd: int) -> Name | None: ...
    def attach(self, index: int, number: int, which: int) -> tuple[int, int, int] | None: ...
    def link_open(self, index: int, generation: int, keyed: bool) -> None: ...
    def close(self, index: int, generation: int) -> None: ...
    def end_round(self) -> None: ...


class Owner(Protocol):
    """What is asked of workers.control.handler.Handler."""

    peers: dict[int, str]
    numbers: dict[int, int]
    tracing: Tracing

    def number(self, index: int) -> int: ...
    def post(self, kind: int, message: msgspec.Struct, **names: int) -> None: ...


class Peer(msgspec.Struct):
    """A connection. ``addresses`` are those that its links lead to, by which of them it is."""

    opened: ConnectionOpened
    addresses: dict[int, str | None]
    links: dict[int, Attach] = {}

    @property
    def number(self) -> int:
        return self.opened.number

    @property
    def host(self) -> str:
        return self.opened.host


class PlainConnections:
    """All connections of one protocol, called ``role``, of this worker."""

    role = ""

    def __init__(self) -> None:
        self._peers: dict[int, Peer] = {}  # by connection
        self._links: dict[tuple[int, int], int] = {}  # by index and generation of the link -> connection

    def serve(self, transport: Transport, security: Ends, owner: Owner) -> None:
        """Whom this works with, once they are there."""
        self._transport = transport
        self._security = security
        self._owner = owner

    # ---- connections ----

    def opened(self, index: int, generation: int) -> None:
        """A connection is open."""
        raise NotImplementedError

    def ended(self, name: Name, opened: bool, why: str) -> None:
        """A connection is lost, or was never there: who wanted it may try again."""

    def begin(self, peer: Peer) -> None:
        """Tell the core of an open connection, and attach its links."""
        index, generation = peer.opened.connection, peer.opened.generation
        self._peers[index] = peer
        self._owner.peers[index] = peer.host
        self._present(peer.opened)
        for which in peer.addresses:
            if not self._attach(index, peer, which):
                SERVER.error("[C%d] closed: this worker has no room for its links", peer.number)
                self._transport.close(index, generation)
                return

    def _present(self, opened: ConnectionOpened) -> None:
        names = {"connection": opened.connection, "connection_generation": opened.generation}
        self._owner.post(C_CONNECTION_OPENED, opened, **names)

    def _attach(self, index: int, peer: Peer, which: int) -> bool:
        made = self._transport.attach(index, peer.number, which)
        if made is None:
            return False
        link, generation, capacity = made
        name, address = f"{self.role}-{NAMES[which]}", peer.addresses[which]
        attach = Attach(link, generation, index, name, which >= OUT, address, capacity=capacity)
        peer.links[link] = attach
        self._links[link, generation] = index
        self._owner.post(C_ATTACH, attach, link=link, link_generation=generation)
        return True

    def present(self, index: int, generation: int) -> None:
        """Tell a new core of a connection."""
        if index in self._peers:
            self._present(msgspec.structs.replace(self._peers[index].opened, restored=True))
        else:
            self.opened(index, generation)

    def link_present(self, link: int) -> None:
        """Tell a new core of a link that an earlier one has let in."""
        for peer in self._peers.values():
            if link in peer.links:
                attach = msgspec.structs.replace(peer.links[link], restored=True)
                self._owner.post(C_ATTACH, attach, link=link, link_generation=attach.generation)

    def gone(self, index: int, generation: int, opened: bool, why: str) -> None:
        """A connection is lost, or was never there; its links have been reported lost."""
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
            SERVER.info("[C%d] connection of %s ended: %s", peer.number, peer.host, why)
        else:
            SERVER.info("[C%d] connection of %s closed", peer.number, peer.host)
        closed = ConnectionClosed(index, generation, why)
        self._owner.post(C_CONNECTION_CLOSED, closed, connection=index, connection_generation=generation)

    # ---- what the log wants ----

    def log_messages(self, peer: Peer, parts: list[str]) -> None:
        """These parts of a connection's messages are to be logged."""
        if parts:
            self._owner.tracing.messages.opened(peer.opened.connection, peer.opened.generation, parts)

    def message(self, index: int, link: int, sent: bool, beginning: bytes) -> None:
        """A message has come, or is being sent."""
        peer = self._peers.get(index)
        if peer and link in peer.links:
            self._owner.tracing.messages.seen(index, peer.links[link].name, sent, beginning)

    def frame(self, index: int, sent: bool, length: int, head: bytes, payload: bytes, asked: bool) -> None:
        """A frame of a traced connection has come or goes: of its payload only the beginning is there."""
        line(self._owner.number(index), self.described(sent, length, head, payload), asked)

    def described(self, sent: bool, length: int, head: bytes, payload: bytes) -> str:
        """A frame, for the trace."""
        return f"{self.role.upper()}: {'->' if sent else '<-'} ({length}) {quoted(head + payload)}"

    # ---- what the core wants ----

    def take(self, message: msgspec.Struct) -> bool:
        """A control message of the core. False: it is about none of these connections."""
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
        self._owner.tracing.wish(message.connection, message.generation, message.on)

    def _attached(self, message: Attached) -> None:
        if message.error is None:
            self._transport.link_open(message.link, message.generation, message.keyed)
        else:
            self._refused(message, message.error.description or message.error.condition)

    def _refused(self, message: Attached | Detach, why: str) -> None:
        self._refused_connection(self._links[message.link, message.generation], why)

    def _refused_connection(self, index: int, why: str) -> None:
        peer = self._peers[index]
        SERVER.warning("[C%d] connection of %s closed: %s", peer.number, peer.host, why)
        self._transport.close(index, peer.opened.generation)

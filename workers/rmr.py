"""Connections of RMR applications: which links each has, where they lead, and who is connected to.

    accepted --------------------------------> open --lost--> gone
    waiting --due--> looking up --> connecting --^                \\
       ^----------------- after a while, while the core wants it --+

Frames never come here: rmr.h and rmr_out.h have them.
"""

import hashlib
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from shm.control import ListenerSetup
from shm.payloads import (
    C_ATTACH,
    C_CONNECTION_CLOSED,
    C_CONNECTION_OPENED,
    C_ENDPOINT,
    Attach,
    Attached,
    Close,
    ConnectionClosed,
    ConnectionOpened,
    Detach,
    Endpoint,
)
from shm.tables import TableSetup
from workers.endpoints import Endpoints
from workers.neighbours import Ends, Name

SERVER = logging.getLogger("SERVER")

ROLE: Final = "rmr"
CONTROL: Final = "$rm"  # where messages about tables go, behind the table's address
CONNECTIONS: Final = "$conn"
REPLIES: Final = {"transparent": 0, "proxied": 1, "sameConnection": 2}
DATA, OTHER, OUT, BACK = range(4)  # the links of a connection
NAMES: Final = ("data", "other", "endpoint", "back")


class Transport(Protocol):
    """What is asked of workers.pump.RmrTransport."""

    def add_place(self, capacity: int) -> int: ...
    def speak(
        self,
        place: int,
        address: str,
        control: str,
        back: str,
        source: str,
        nonce: int,
        most: int,
        reply: int,
        replies: bool,
    ) -> None: ...
    def dial(self, place: int, fd: int) -> Name | None: ...
    def attach(self, index: int, number: int, which: int) -> tuple[int, int, int] | None: ...
    def link_open(self, index: int, generation: int, keyed: bool) -> None: ...
    def close(self, index: int, generation: int) -> None: ...
    def end_round(self) -> None: ...


class Owner(Protocol):
    """What is asked of workers.handler.Handler."""

    peers: dict[int, str]
    numbers: dict[int, int]

    def number(self, index: int) -> int: ...
    def post(self, kind: int, message: msgspec.Struct, **names: int) -> None: ...


class Peer(msgspec.Struct):
    """A connection. ``endpoint`` is its address in the table, empty if it was accepted; ``name`` is the
    host:port that it was asked for by, or the peer's."""

    generation: int
    number: int
    host: str
    table: str
    listener: str
    endpoint: str
    name: str
    links: dict[int, Attach] = {}


class Rmr:
    """All RMR connections of this worker. ``listeners`` are the router's by number, as they are now."""

    def __init__(
        self,
        instance: str,
        tables: Iterable[TableSetup],
        listeners: Mapping[int, ListenerSetup],
        capacity: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._instance = instance
        self._tables = {one.name: one for one in tables}
        self._listeners = listeners
        self._capacity = capacity
        self._clock = clock
        self._places: dict[
            int, tuple[str, int]
        ] = {}  # in the pump -> table, number of the listener; -1: none
        self._dialled: dict[str, int] = {}  # table -> place of the connections that are made for it
        self._ports: dict[int, int] = {}  # listener -> the port that it really has
        self._peers: dict[int, Peer] = {}  # by connection
        self._links: dict[tuple[int, int], int] = {}  # by index and generation of the link -> connection
        self.endpoints = Endpoints(self._connect, self._hang_up, self._not_there, clock)

    def serve(self, transport: Transport, security: Ends, owner: Owner) -> None:
        """Whom this works with, once they are there."""
        self._transport = transport
        self._security = security
        self._owner = owner

    # ---- listeners and tables ----

    def listen(self, place: int, one: ListenerSetup) -> None:
        """A listener has this place in the pump. Raises ValueError."""
        self._places[place] = one.table, one.number
        if not one.table:
            return
        if one.fds:
            with suppress(OSError), socket.socket(fileno=os.dup(one.fds[0])) as listening:
                self._ports[one.number] = listening.getsockname()[1]
        for other, (table, _) in self._places.items():  # their sources may name this one
            if table == one.table:
                self._speak(other)

    def change_tables(self, tables: Iterable[TableSetup]) -> None:
        """The tables from now on."""
        self._tables = {one.name: one for one in tables}
        for place, (table, _) in self._places.items():
            if table in self._tables:
                self._speak(place)

    def _speak(self, place: int) -> None:
        name, number = self._places[place]
        table = self._tables.get(name)
        if table is None:
            raise ValueError(f"there is no route table {name}")
        mine = [one for one in self._listeners.values() if one.table == name]
        replies = [one for one in mine if one.replies]
        at = self._listeners.get(number)
        proxied = table.reply == "proxied"
        self._transport.speak(
            place,
            table.address,
            f"{table.address}/{CONTROL}",
            f"{table.address}/{CONNECTIONS}/",
            self._advertised((replies or mine)[0]) if mine else "",
            nonce_of(self._instance, table.address),
            table.max_frame_size,
            REPLIES[table.reply],
            at is None or (proxied and (at.replies or not replies)),
        )

    def _advertised(self, one: ListenerSetup) -> str:
        """What applications reach a listener by."""
        if one.advertised.rpartition(":")[2].isdigit():
            return one.advertised
        return f"{one.advertised}:{self._ports.get(one.number, 0)}"

    # ---- connections ----

    def opened(self, index: int, generation: int) -> None:
        """A connection is open: attach its links."""
        table, number = self._places[self._security.listener_of(index)]
        endpoint = self.endpoints.opened((index, generation))
        listener = self._listeners.get(number)
        peer = self._peers[index] = Peer(
            generation,
            self._owner.number(index),
            self._security.peer(index),
            table,
            listener.name if listener else "",
            endpoint.address if endpoint else "",
            endpoint.host_port if endpoint else self._security.peer(index),
        )
        self._owner.peers[index] = peer.host
        SERVER.info(
            "[C%d] connection %s %s opened, RMR", peer.number, "to" if endpoint else "from", peer.name
        )
        self._present(index, peer)
        for which in (DATA, OTHER, OUT, BACK) if endpoint else (DATA, OTHER, BACK):
            if not self._attach(index, peer, which):
                SERVER.error("[C%d] closed: this worker has no room for its links", peer.number)
                self._transport.close(index, generation)
                return

    def _present(self, index: int, peer: Peer, restored: bool = False) -> None:
        opened = ConnectionOpened(
            index,
            peer.generation,
            peer.name,
            peer.host,
            role=ROLE,
            listener=peer.listener,
            connector=peer.endpoint,
            number=peer.number,
            restored=restored,
        )
        self._owner.post(C_CONNECTION_OPENED, opened, connection=index, connection_generation=peer.generation)

    def _attach(self, index: int, peer: Peer, which: int) -> bool:
        table = self._tables.get(peer.table)
        made = self._transport.attach(index, peer.number, which)
        if made is None or table is None:
            return False
        link, generation, capacity = made
        back = f"{table.address}/{CONNECTIONS}/{peer.number}"
        address = (table.address, None, peer.endpoint, back)[which]
        attach = Attach(
            link, generation, index, f"rmr-{NAMES[which]}", which >= OUT, address, capacity=capacity
        )
        peer.links[link] = attach
        self._links[link, generation] = index
        self._owner.post(C_ATTACH, attach, link=link, link_generation=generation)
        return True

    def present(self, index: int, generation: int) -> None:
        """Tell a new core of a connection."""
        if index in self._peers:
            self._present(index, self._peers[index], restored=True)
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
        self.endpoints.ended((index, generation), why)
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

    # ---- what the core wants ----

    def take(self, message: msgspec.Struct) -> bool:
        """A control message of the core. False: it is not about RMR."""
        match message:
            case Endpoint():
                self.endpoints.wish(message)
                self._transport.end_round()
            case Attached() if (message.link, message.generation) in self._links:
                self._attached(message)
            case Detach() if (message.link, message.generation) in self._links:
                self._refused(message, message.error.description if message.error else "it is not wanted")
            case Close() if self._generation(message.connection) == message.generation:
                self._refused_connection(message.connection, message.error.description)
            case _:
                return False
        return True

    def _generation(self, connection: int) -> int | None:
        peer = self._peers.get(connection)
        return None if peer is None else peer.generation

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
        self._transport.close(index, peer.generation)

    # ---- connections that are made ----

    def _connect(self, endpoint: Endpoint, fd: int) -> Name | None:
        """Begin a connection on a socket that is being connected. None: there is no room."""
        if endpoint.table not in self._dialled:
            try:
                place = self._transport.add_place(self._capacity)
                self._places[place] = endpoint.table, -1
                self._speak(place)
            except ValueError as error:
                SERVER.error("no connection to %s: %s", endpoint.address, error)
                return None
            self._dialled[endpoint.table] = place
        return self._transport.dial(self._dialled[endpoint.table], fd)

    def _not_there(self, endpoint: Endpoint) -> None:
        self._owner.post(C_ENDPOINT, msgspec.structs.replace(endpoint, open=False))

    def _hang_up(self, name: Name) -> None:
        self._transport.close(*name)


def nonce_of(instance: str, address: str) -> int:
    """What tells tokens of this run of the router, for this table, from all others."""
    digest = hashlib.blake2b(f"{instance} {address}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")

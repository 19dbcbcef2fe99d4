"""Connections of RMR applications: their links, the links' addresses, and connections to endpoints.

    accepted --------------------------------> open --lost--> gone
    waiting --due--> looking up --> connecting --^                \\
       ^----------------- after a while, while the core wants it --+

Only native code handles frames (rmr.c, out.c).
"""

import hashlib
import logging
import os
import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from shm.contract.administering import granted
from shm.contract.control import ListenerSetup, SetListeners, SetTables, Setup
from shm.contract.hosts import host_of
from shm.contract.payloads import ConnectionOpened, Endpoint
from shm.contract.tables import connections
from workers.control.neighbours import Ends, Name
from workers.control.trace import Tracing
from workers.framed import framed
from workers.framed.framed import BACK, DATA, OTHER, OUT, FramedConnections, Peer
from workers.rmr.endpoints import Endpoints
from workers.rmr.trace import described

SERVER = logging.getLogger("SERVER")

ROLE: Final = "rmr"
CONTROL: Final = "$rm"  # follows the table's address in the address of messages about tables
REPLIES: Final = {"transparent": 0, "proxied": 1, "sameConnection": 2}


class Terms(msgspec.Struct, frozen=True):
    """The terms of the RMR connections of one place in the pump.

    ``address`` is the route table's, ``control`` the address of messages about tables, ``back`` the prefix of
    connections' addresses, ``source`` the host:port for replies. ``key`` (16 octets) and ``nonce`` create and
    verify tokens. ``max_frame_size`` is in bytes, ``reply`` a value of REPLIES. A place with ``replies``
    accepts replies.
    """

    address: str
    control: str
    back: str
    source: str
    nonce: int
    key: bytes
    max_frame_size: int
    reply: int
    replies: bool


class Transport(framed.Transport, Protocol):
    """The part of workers.loop.pump.RmrTransport that RMR connections use."""

    def add_place(self, capacity: int) -> int: ...
    def remove_place(self, place: int) -> None: ...
    def speaks(self, place: int) -> bool: ...
    def speak(self, place: int, terms: Terms) -> None: ...


class Rmr(FramedConnections):
    """All RMR connections of this worker."""

    role = ROLE
    _transport: Transport

    def __init__(
        self,
        transport: Transport,
        security: Ends,
        owner: framed.Owner,
        tracing: Tracing,
        setup: Setup,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(transport, security, owner, tracing)
        self._secret = setup.secret
        self._connections = connections(setup.router_id)
        self._tables = {one.name: one for one in setup.tables}
        self._listeners = owner.listeners
        self._doors: set[int] = set()  # numbers of the listeners that are not removed
        self._capacity = setup.link_capacity
        self._clock = clock
        self._places: dict[int, tuple[str, int]] = {}  # in the pump -> table, number of the listener; -1: none
        self._dialled: dict[str, int] = {}  # table -> place of the connections to its endpoints
        self._ports: dict[int, int] = {}  # listener -> its actual port
        self.endpoints = Endpoints(self._connect, self._hang_up, self._not_there, clock)

    def wait(self, at_most: float) -> float:
        return self.endpoints.wait(at_most)

    def step(self) -> None:
        self.endpoints.step()

    def stop(self) -> None:
        self.endpoints.stop()

    def forget(self) -> None:
        self.endpoints.forget()

    # ---- listeners and tables ----

    def listen(self, place: int, one: ListenerSetup) -> None:
        """Serve a listener's place in the pump. Raises ValueError."""
        if not one.table:
            return
        self._places[place] = one.table, one.number
        self._doors.add(one.number)
        if one.fds:
            with suppress(OSError), socket.socket(fileno=os.dup(one.fds[0])) as listening:
                self._ports[one.number] = listening.getsockname()[1]
        self._speak(place)
        self._speak_again({one.table})  # their sources may name this one

    def configure(self, change: msgspec.Struct) -> None:
        """Replace the route tables, or forget listeners that are removed."""
        match change:
            case SetListeners(listeners):
                self._doors &= {one.number for one in listeners}
            case SetTables(tables):
                self._tables = {one.name: one for one in tables}
                for name in self._dialled.keys() - self._tables.keys():
                    self._transport.remove_place(self._dialled.pop(name))
            case _:
                return
        self._speak_again(self._tables.keys())

    def _speak_again(self, tables: Collection[str]) -> None:
        """Renew the terms of all places of these tables.

        The place of a removed listener is RMR's until its last connection has ended and another one takes it.
        """
        self._places = {place: one for place, one in self._places.items() if self._transport.speaks(place)}
        for place, (table, _) in self._places.items():
            if table not in tables:
                continue
            try:
                self._speak(place)
            except ValueError as error:
                SERVER.error("RMR connections of route table %s keep their former settings: %s", table, error)

    def _speak(self, place: int) -> None:
        name, number = self._places[place]
        table = self._tables.get(name)
        if table is None:
            raise ValueError(f"there is no route table {name}")
        mine = self._of(name)
        replies = [one for one in mine if one.replies]
        at = self._listeners.get(number)
        proxied = table.reply == "proxied"
        nonce, key = tokens(self._secret, table.address)
        terms = Terms(
            address=table.address,
            control=f"{table.address}/{CONTROL}",
            back=f"{table.address}/{self._connections}",
            source=self._advertised((replies or mine)[0]) if mine else "",
            nonce=nonce,
            key=key,
            max_frame_size=table.max_frame_size,
            reply=REPLIES[table.reply],
            replies=at is None or (proxied and (at.replies or not replies)),
        )
        self._transport.speak(place, terms)

    def _advertised(self, one: ListenerSetup) -> str:
        """Return the host:port at which applications reach a listener."""
        if one.advertised.rpartition(":")[2].isdigit():
            return one.advertised
        return f"{one.advertised}:{self._ports.get(one.number, 0)}"

    # ---- connections ----

    def opened(self, index: int, generation: int) -> None:
        """Tell the core of an open connection and attach its links."""
        name, number = self._places[self._security.listener_of(index)]
        table, listener = self._tables.get(name), self._listeners.get(number)
        endpoint = self.endpoints.opened((index, generation))
        if table is None:
            SERVER.error("connection closed: route table %s no longer exists", name)
            self._transport.close(index, generation)
            return
        host = self._security.peer(index)
        opened = ConnectionOpened(
            index,
            generation,
            endpoint.host_port if endpoint else host,
            host,
            role=ROLE,
            listener=listener.name if listener else "",
            connector=endpoint.address if endpoint else "",
            number=self._owner.number(index),
            management=granted([listener.management if listener else ""], known=False, host=host_of(host)),
        )
        way = "to" if endpoint else "from"
        self.say(index, "[C%d] connection %s %s opened, RMR", opened.number, way, opened.container)
        leads: dict[int, str | None] = {DATA: table.address, OTHER: None}
        if endpoint:
            leads[OUT] = endpoint.address
        leads[BACK] = f"{table.address}/{self._connections}{opened.number}"
        peer = Peer(opened, leads)
        self.begin(peer)
        self.log_messages(peer, listener.logged_parts if listener else self._logged(name))

    def _logged(self, table: str) -> list[str]:
        """Return the logged parts of the table's first listener, which count for endpoints too."""
        return next((one.logged_parts for one in self._of(table)), [])

    def _of(self, table: str) -> list[ListenerSetup]:
        """Return the table's listeners, oldest first."""
        return [one for one in self._listeners.values() if one.table == table and one.number in self._doors]

    def described(self, sent: bool, length: int, head: bytes, payload: bytes) -> str:
        return described(sent, head, payload)

    def ended(self, name: Name, opened: bool, why: str) -> None:
        self.endpoints.ended(name, why)

    # ---- what the core wants ----

    def take(self, message: msgspec.Struct) -> bool:
        if not isinstance(message, Endpoint):
            return super().take(message)
        self.endpoints.take(message)
        self._transport.end_round()
        return True

    # ---- connections that are made ----

    def _connect(self, endpoint: Endpoint, fd: int) -> Name | None:
        """Start a connection on a connecting socket; return None if there is no room. Raises ValueError."""
        if endpoint.table not in self._dialled:
            self._dialled[endpoint.table] = self._add_place(endpoint.table)
        return self._transport.dial(self._dialled[endpoint.table], fd)

    def _add_place(self, table: str) -> int:
        place = self._transport.add_place(self._capacity)
        self._places[place] = table, -1
        try:
            self._speak(place)
        except ValueError:
            self._transport.remove_place(place)
            raise
        return place

    def _not_there(self, endpoint: Endpoint) -> None:
        self._owner.post(msgspec.structs.replace(endpoint, open=False))

    def _hang_up(self, name: Name) -> None:
        self._transport.close(*name)


def tokens(secret: bytes, address: str) -> tuple[int, bytes]:
    """Return nonce and key (16 octets) of the tokens of this run of the router for one table.

    Tokens contain the nonce; only this router has the key.
    """
    digest = hashlib.blake2b(address.encode("utf-8", "surrogateescape"), key=secret, digest_size=24).digest()
    return int.from_bytes(digest[:8], "little"), digest[8:]

"""Connections of Ockam nodes: each has an address in source routes, where messages leave and replies come.

Frames never come here: ockam.h and ockam_out.h have them.
"""

import logging
from typing import Final, Protocol

from shm.contract.administering import granted
from shm.contract.control import ConnectorSetup, ListenerSetup
from shm.contract.hosts import host_of
from shm.contract.ockam import OckamSetup
from shm.contract.payloads import ConnectionOpened
from shm.contract.source_routes import Stop
from workers.control.neighbours import AmqpError, Name
from workers.framed import framed as plain
from workers.framed.framed import BACK, OTHER, Peer, PlainConnections

SERVER = logging.getLogger("SERVER")

ROLE: Final = "ockam"


class Transport(plain.Transport, Protocol):
    """What is asked of workers.loop.pump.OckamTransport."""

    def speak(self, place: int, bare: bool, most: int, reach: list[tuple[int, bytes, bool]]) -> None: ...
    def greet(self, index: int, kind: int, name: bytes) -> None: ...


class Senders(Protocol):
    """What is asked of workers.source_routes.senders.Senders."""

    def uplink(self, link: int, generation: int, name: str) -> None: ...


class Connectors(Protocol):
    """What is told to workers.control.connectors.Connectors."""

    def opened(self, number: int, name: Name, properties: dict[str, object], text: str) -> None: ...
    def ended(self, number: int, name: Name, opened: bool, error: AmqpError | None) -> None: ...


class Ockam(PlainConnections):
    """All Ockam connections of this worker. ``senders`` and ``connectors`` are set when they exist."""

    role = ROLE
    senders: Senders
    connectors: Connectors
    _transport: Transport

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[int, ListenerSetup | ConnectorSetup] = {}  # in the pump
        self._dialled: dict[Name, tuple[ConnectorSetup, str]] = {}  # and the host

    def speak(self, place: int, one: ListenerSetup | ConnectorSetup) -> None:
        """A listener or connector has this place in the pump."""
        if one.ockam is None:
            return
        self._places[place] = one
        self._transport.speak(place, one.ockam.bare, one.ockam.most, one.ockam.reach)

    def dial(self, place: int, fd: int, setup: ConnectorSetup, host: str) -> Name | None:
        """Begin a connection on a socket that is being connected. None: there is no room."""
        name = self._transport.dial(place, fd)
        if name is not None:
            self._dialled[name] = setup, host
        return name

    def number(self, name: Name) -> int:
        """Of a connection that has begun."""
        return self._owner.number(name[0])

    def opened(self, index: int, generation: int) -> None:
        """A connection is open: it gets its address, and its links are attached."""
        one = self._places[self._security.listener_of(index)]
        dialled = self._dialled.get((index, generation))
        host = self._security.peer(index)
        assert one.ockam is not None, "only such places are asked to speak"
        number = self._owner.number(index)
        address = _address(one.ockam, number, whole=dialled is not None)
        opened = ConnectionOpened(
            index,
            generation,
            dialled[1] if dialled else host,
            host,
            role=ROLE,
            listener="" if dialled else one.name,
            connector=one.name if dialled else "",
            number=number,
            management=granted([one.management], known=False, host=host_of(host)),
        )
        way = "to" if dialled else "from"
        SERVER.info(
            "[C%d] connection %s %s opened, Ockam, address %s", number, way, opened.container, address.text
        )
        self._transport.greet(index, address.type, address.name)
        peer = Peer(opened, {OTHER: None, BACK: address.text})
        self.begin(peer)
        self.log_messages(peer, one.logged_parts)
        if dialled:
            text = f"address {address.text}"
            self.connectors.opened(dialled[0].number, (index, generation), {}, text)

    def asked(self, index: int, link: int, generation: int) -> None:
        """A message has come on a link: who sends there?"""
        one = self._places[self._security.listener_of(index)]
        self.senders.uplink(link, generation, one.name)

    def ended(self, name: Name, opened: bool, why: str) -> None:
        dialled = self._dialled.pop(name, None)
        if dialled:
            self.connectors.ended(dialled[0].number, name, opened, ("proton:io", why) if why else None)


def _address(setup: OckamSetup, number: int, *, whole: bool) -> Stop:
    """Of a connection: the connector's own, or one of its own below the listener's."""
    address = setup.address
    if whole:
        return address
    below = f"/{number}"
    return Stop(address.type, address.name + below.encode(), address.text + below)

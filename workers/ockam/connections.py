"""Connections of Ockam nodes, each of which has an address in source routes (docs/source-routes.md).

Only native code handles frames (ockam.c, out.c).
"""

from typing import Final, Protocol

from shm.contract.administering import granted
from shm.contract.control import ConnectorSetup, ListenerSetup
from shm.contract.hosts import host_of
from shm.contract.ockam import OckamSetup
from shm.contract.payloads import ConnectionOpened
from shm.contract.source_routes import Stop
from workers.control.neighbours import Connectors, Ends, Name
from workers.control.trace import Tracing
from workers.framed import framed
from workers.framed.framed import BACK, OTHER, FramedConnections, Peer

ROLE: Final = "ockam"


class Transport(framed.Transport, Protocol):
    """The part of workers.loop.pump.OckamTransport that Ockam connections use."""

    def speak(self, place: int, bare: bool, most: int, reach: list[tuple[int, bytes, bool]]) -> None: ...
    def greet(self, index: int, kind: int, name: bytes) -> None: ...


class Senders(Protocol):
    """The part of workers.source_routes.senders.Senders that Ockam connections use."""

    def uplink(self, link: int, generation: int, name: str) -> None: ...


class Ockam(FramedConnections):
    """All Ockam connections of this worker."""

    role = ROLE
    _transport: Transport

    def __init__(
        self, transport: Transport, security: Ends, owner: framed.Owner, tracing: Tracing, senders: Senders
    ) -> None:
        super().__init__(transport, security, owner, tracing)
        self._senders = senders
        self._places: dict[int, ListenerSetup | ConnectorSetup] = {}  # in the pump
        self._dialled: dict[Name, tuple[ConnectorSetup, str, Connectors]] = {}  # the host, who wants it

    def listen(self, place: int, one: ListenerSetup) -> None:
        self.speak(place, one)

    def speak(self, place: int, one: ListenerSetup | ConnectorSetup) -> None:
        """Serve the place of a listener or connector in the pump, if it speaks Ockam."""
        if one.ockam is None:
            return
        self._places[place] = one
        self._transport.speak(place, one.ockam.bare, one.ockam.most, one.ockam.reach)

    def dial(self, place: int, fd: int, setup: ConnectorSetup, host: str, connectors: Connectors) -> Name | None:
        """Start a connection on a connecting socket; return None if there is no room."""
        name = self._transport.dial(place, fd)
        if name is not None:
            self._dialled[name] = setup, host, connectors
        return name

    def number(self, name: Name) -> int:
        """Return a connection's number in the router."""
        return self._owner.number(name[0])

    def opened(self, index: int, generation: int) -> None:
        """Tell the core of an open connection, give it its address, and attach its links."""
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
        text = "[C%d] connection %s %s opened, Ockam, address %s"
        self.say(index, text, number, way, opened.container, address.text)
        self._transport.greet(index, address.type, address.name)
        peer = Peer(opened, {OTHER: None, BACK: address.text})
        self.begin(peer)
        self.log_messages(peer, one.logged_parts)
        if dialled:
            text = f"address {address.text}"
            dialled[2].opened(dialled[0].number, (index, generation), {}, text)

    def asked(self, index: int, link: int, generation: int) -> None:
        """Tell the pump who sends on a link, on which a message has come."""
        one = self._places[self._security.listener_of(index)]
        self._senders.uplink(link, generation, one.name)

    def ended(self, name: Name, opened: bool, why: str) -> None:
        dialled = self._dialled.pop(name, None)
        if dialled:
            dialled[2].ended(dialled[0].number, name, opened, ("proton:io", why) if why else None)


def _address(setup: OckamSetup, number: int, *, whole: bool) -> Stop:
    """Return a connection's address: the connector's if ``whole``, or else one below the listener's."""
    address = setup.address
    if whole:
        return address
    below = f"/{number}"
    return Stop(address.type, address.name + below.encode(), address.text + below)

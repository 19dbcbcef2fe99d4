"""The other side by hand: what a connector connects to, driven by python-qpid-proton's engine."""

import socket
from typing import Any, Self

from proton import Endpoint, Event, Link, Terminus, Transport

from tests.support.peer import Net, Peer
from tests.support.running import LONG


class Acceptor:
    """A listening socket; ``accept`` gives the next connection as a peer that is served by a net."""

    def __init__(self, net: Net, port: int = 0) -> None:
        self.net = net
        self.port = port
        self.listening: socket.socket | None = None
        self.listen()

    def listen(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self.listening.settimeout(LONG)
        self.port = self.listening.getsockname()[1]

    def close(self) -> None:
        """Nobody is served here any more."""
        assert self.listening is not None
        self.listening.close()

    def begin(self) -> "Accepted":
        """The next connection; nothing is said on it yet."""
        assert self.listening is not None
        sock, _ = self.listening.accept()
        peer = Accepted(self.net, sock)
        self.net.peers.append(peer)
        return peer

    def accept(self, properties: dict[str, Any] | None = None, container: str = "broker") -> "Accepted":
        """The next connection, open on both sides."""
        peer = self.begin()
        self.net.until(lambda: peer.connection.state & Endpoint.REMOTE_ACTIVE, "OPEN of the router")
        peer.connection.container = container
        peer.connection.properties = properties
        return peer.open()


class Accepted(Peer):
    """A connection that the router has begun. Links that it attaches stand in ``attached`` by name."""

    def __init__(self, net: Net, sock: socket.socket) -> None:
        super().__init__(net, sock)
        self.attached: dict[str, Link] = {}

    def begin_transport(self, sasl: bool) -> Transport:
        transport = Transport(Transport.SERVER)
        if sasl:
            transport.sasl().allowed_mechs("ANONYMOUS")
        return transport

    def open(self) -> Self:
        self.connection.open()
        self.net.turn(0)
        return self

    def event(self, event: Event) -> None:
        if event.type == Event.SESSION_REMOTE_OPEN:
            event.session.open()
        elif event.type == Event.LINK_REMOTE_OPEN:
            self.attached[event.link.name] = event.link

    def link(self, name: str) -> Link:
        """The link of that name that the router attaches; not answered yet."""
        self.net.until(lambda: name in self.attached, f"attach of {name}")
        return self.attached[name]

    def answer(self, name: str) -> Link:
        """Answer its attach with the same termini."""
        link = self.link(name)
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        if link.source.dynamic:
            link.source.address = "made-here"
        link.open()
        return link

    def refuse(self, name: str, condition: Any) -> None:
        """Answer with a null terminus, and detach (AMQP 2.6.3)."""
        link = self.link(name)
        terminus = link.target if link.is_receiver else link.source
        terminus.type = Terminus.UNSPECIFIED
        link.open()
        link.condition = condition
        link.close()

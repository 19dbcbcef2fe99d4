"""Clients driven by hand: python-qpid-proton's engine on a socket, doing only what the test asks for.

A ``Net`` holds the peers of one test. Whatever is waited for, all of them are served meanwhile.
"""

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from proton import (
    Collector,
    Connection,
    Delivery,
    Endpoint,
    Event,
    Link,
    Message,
    Receiver,
    Sender,
    Session,
    Terminus,
    Transport,
)

from tests.support.clients.arrival import Arrived
from tests.support.running import LONG

CHUNK = 200_000  # bytes of a long message at once
CREDIT = 250  # linkCapacity when nothing else is configured

ACCEPTED, REJECTED, RELEASED, MODIFIED = (Delivery.ACCEPTED, Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED)


class Peer:
    """One connection. Nothing is read or written except in ``Net.until``."""

    def __init__(
        self,
        net: "Net",
        address: tuple[str, int] | socket.socket,
        sasl: bool = True,
        idle_timeout: float | None = None,
        hostname: str | None = None,
        **limits: int,
    ) -> None:
        self.net = net
        known = isinstance(address, socket.socket)
        self.socket = address if known else socket.create_connection(address, timeout=LONG)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection, self.collector = Connection(), Collector()
        self.transport = self.begin_transport(sasl)
        self.connection.container = f"peer-{id(self)}"
        self.connection.hostname = hostname
        self.connection.collect(self.collector)
        if idle_timeout is not None:
            self.transport.idle_timeout = idle_timeout
        self.window = limits.pop("window", 0)  # bytes of a session; 0: no limit
        for name, value in limits.items():
            setattr(self.transport, name, value)
        self.transport.bind(self.connection)
        self.inboxes: dict[str, list[Arrived]] = {}
        self.incoming: dict[str, Arrived] = {}
        self.arrivals: list[Arrived] = []  # complete ones of all links, in the order they came
        self.deaf = False  # leave what comes in the socket
        self.frozen = False  # leave messages in the engine: their session's window closes
        self.free: set[str] = set()  # links that this does not concern
        self.expect_error = False
        self.default_session: Session | None = None
        self.names = 0

    def begin_transport(self, sasl: bool) -> Transport:
        transport = Transport()
        if sasl:
            transport.sasl().allowed_mechs("ANONYMOUS")
        return transport

    # ---- the wire ----

    def flush(self) -> None:
        """Write what the engine has, as far as the socket takes it."""
        self.transport.tick(time.monotonic())
        try:
            while (pending := self.transport.pending()) > 0:
                self.transport.pop(self.socket.send(self.transport.peek(pending) or b""))
        except BlockingIOError:
            pass
        except OSError:
            self.transport.close_head()
        if pending < 0:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)

    def read(self) -> None:
        """Feed the engine what has come."""
        capacity = self.transport.capacity()
        try:
            data = self.socket.recv(capacity if capacity > 0 else 4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if capacity <= 0 and data:
            return
        if data:
            self.transport.push(data)
        elif capacity >= 0:
            self.transport.close_tail()
        else:
            self.deaf = True
        self.handle()

    def handle(self) -> None:
        while (event := self.collector.peek()) is not None:
            if event.type == Event.DELIVERY and isinstance(event.link, Receiver):
                self.arrive(event.link)
            self.event(event)
            self.collector.pop()

    def event(self, event: Event) -> None:
        """What happened besides deliveries."""

    def thaw(self) -> None:
        """Take what was left in the engine, and go on."""
        self.frozen = False
        link = self.connection.link_head(0)
        while link is not None:
            if isinstance(link, Receiver):
                self.arrive(link)
            link = link.next(0)

    def arrive(self, link: Receiver) -> None:
        """Take all bytes there are into the link's inbox."""
        if self.frozen and link.name not in self.free:
            return
        while (delivery := link.current) is not None and delivery.readable:
            arrived = self.incoming.get(link.name)
            if arrived is None or arrived.abandoned:
                arrived = self.incoming[link.name] = Arrived(delivery)
                self.inboxes.setdefault(link.name, []).append(arrived)
            if delivery.aborted:
                arrived.aborted = True
                del self.incoming[link.name]
                delivery.settle()  # moves the link on
                continue
            while pending := delivery.pending:
                arrived.data += link.recv(pending) or b""
            if delivery.partial:
                return
            del self.incoming[link.name]
            arrived.complete = True
            self.arrivals.append(arrived)
            link.advance()

    @property
    def closed(self) -> bool:
        """Is there nothing more to read or write?"""
        return bool(self.transport.closed)

    # ---- what tests do ----

    def open(self) -> Self:
        self.connection.open()
        self.net.until(lambda: self.connection.state & Endpoint.REMOTE_ACTIVE, "OPEN")
        self.default_session = self.session()
        return self

    def session(self) -> Session:
        session = self.connection.session()
        session.incoming_capacity = self.window
        session.open()
        return session

    def name(self) -> str:
        self.names += 1
        return f"link-{self.names}"

    def begin_sender(self, address: str | None, session: Session | None = None, **modes: Any) -> Sender:
        """Attach without waiting for the answer."""
        link = self._session(session).sender(self.name())
        link.target.address = address or ""
        link.source.address = f"{link.name}-source"
        self._attach(link, modes)
        return link

    def begin_receiver(self, address: str | None, session: Session | None = None, **modes: Any) -> Receiver:
        """Attach without waiting for the answer; no credit is given."""
        link = self._session(session).receiver(self.name())
        self.inboxes[link.name] = []
        if address is None:
            link.source.dynamic = True
        else:
            link.source.address = address
        link.target.address = f"{link.name}-target"
        self._attach(link, modes)
        return link

    def _session(self, session: Session | None) -> Session:
        session = session or self.default_session
        assert session is not None, "the connection is not open"
        return session

    def _attach(self, link: Link, modes: dict[str, Any]) -> None:
        for name, value in modes.items():
            setattr(link, name, value)
        link.open()

    def sender(self, address: str | None, session: Session | None = None, **modes: Any) -> Sender:
        """An attached sender; ``address`` None: anonymous."""
        link = self.begin_sender(address, session, **modes)
        self.net.until(lambda: is_open(link), f"attach of a sender to {address}")
        return link

    def ready_sender(self, address: str | None, session: Session | None = None, **modes: Any) -> Sender:
        """An attached sender with credit."""
        link = self.sender(address, session, **modes)
        self.net.until(lambda: link.credit > 0, f"credit for {address}")
        return link

    def dynamic_sender(self) -> Sender:
        """A sender whose target the router makes."""
        link = self._session(None).sender(self.name())
        link.target.dynamic = True
        link.open()
        self.net.until(lambda: is_open(link), "attach of a sender to a dynamic target")
        return link

    def coordinator(self) -> Sender:
        """A sender to the transaction coordinator, on its way."""
        link = self._session(None).sender(self.name())
        link.target.type = Terminus.COORDINATOR
        link.open()
        return link

    def receiver(self, address: str | None, credit: int = 0, session: Session | None = None, **modes: Any) -> Receiver:
        """An attached receiver; ``address`` None: dynamic."""
        link = self.begin_receiver(address, session, **modes)
        if credit:
            link.flow(credit)
        self.net.until(lambda: is_open(link), f"attach of a receiver from {address}")
        return link

    def inbox(self, link: Receiver) -> list[Arrived]:
        return self.inboxes[link.name]

    def take(self, link: Receiver, number: int = 1) -> list[Arrived]:
        """Wait for complete deliveries, and take them out of the inbox."""
        inbox = self.inbox(link)
        self.net.until(lambda: sum(a.complete for a in inbox) >= number, f"{number} deliveries")
        taken, inbox[:number] = inbox[:number], []
        return taken

    def round_trip(self) -> None:
        """Now the core has handled all that this peer said, and what it said to this peer by then is here."""
        self.net.until(lambda: self.transport.pending() <= 0, "all is written")  # else ATTACH comes first
        link = self.sender(None)
        link.close()
        self.net.until(lambda: is_closed(link), "detach")

    def close_link(self, link: Link) -> None:
        """Detach; the core knows it, too."""
        link.close()
        self.net.until(lambda: is_closed(link), "detach")
        self.round_trip()

    def drop(self) -> None:
        """Lose the connection without a word."""
        self.flush()
        self.expect_error = True
        self.socket.close()
        self.net.peers.remove(self)


class Net:
    """The hand-driven clients of a test."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.peers: list[Peer] = []
        self.tags = 0

    def peer(self, address: tuple[str, int] | None = None, **limits: Any) -> Peer:
        """A new connection, open."""
        return self.begin_peer(address, **limits).open()

    def begin_peer(self, address: tuple[str, int] | None = None, **limits: Any) -> Peer:
        """A new connection that has said nothing."""
        peer = Peer(self, address or self.address, **limits)
        self.peers.append(peer)
        return peer

    def turn(self, seconds: float) -> None:
        """Serve all peers once; wait for the first of them to have something, up to that long."""
        for peer in self.peers:
            peer.flush()
            peer.handle()
        poller = select.poll()  # select() knows no descriptor beyond 1023
        for peer in self.peers:
            wanted = (0 if peer.deaf else select.POLLIN) | (select.POLLOUT if peer.transport.pending() > 0 else 0)
            if wanted and not peer.closed:
                poller.register(peer.socket, wanted)
        ready = {number for number, seen in poller.poll(1000 * seconds) if seen & ~select.POLLOUT}
        for peer in self.peers:
            if not peer.deaf and not peer.closed and peer.socket.fileno() in ready:
                peer.read()

    def until(self, condition: Callable[[], object], what: str, seconds: float = LONG) -> None:
        """Serve all peers until the condition holds."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"{what}: not within {seconds:g} s; {list(self.errors())}"
            self.turn(0.05)

    def errors(self) -> Iterator[str]:
        """What connections died of."""
        for peer in self.peers:
            if (condition := peer.transport.condition) is not None:
                yield f"{condition.name}: {condition.description}"

    def round_trips(self, *peers: Peer) -> None:
        """Of each peer; what the first caused has then reached the others."""
        for peer in peers:
            peer.round_trip()

    def send(self, link: Sender, message: bytes | Message, settled: bool = False) -> Delivery:
        """A whole message, on its way with the next turn."""
        delivery = self.begin(link, message.encode() if isinstance(message, Message) else message)
        link.advance()
        if settled:
            delivery.settle()
        return delivery

    def begin(self, link: Sender, data: bytes) -> Delivery:
        """A message that goes on."""
        self.tags += 1
        delivery = link.delivery(f"tag-{self.tags}")
        link.stream(data)
        return delivery

    def stream(self, link: Sender, data: bytes) -> Delivery:
        """A whole long message, given to the engine as the router takes it."""
        delivery = self.begin(link, data[:CHUNK])
        for start in range(CHUNK, len(data), CHUNK):
            self.until(lambda: link.session.outgoing_bytes < CHUNK, "the router's readiness for more")
            link.stream(data[start : start + CHUNK])
        link.advance()
        return delivery

    def settled(self, *deliveries: Delivery) -> list[int]:
        """Wait until the router has settled them; their outcomes."""
        self.until(lambda: all(d.settled for d in deliveries), "settlement")
        return [d.remote_state for d in deliveries]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Close all connections; one that died of an error nobody expected is a failure."""
        try:
            if kind is None:
                wrong = [e for p in self.peers if not p.expect_error for e in errors_of(p)]
                assert not wrong, wrong
                for peer in self.peers:
                    peer.deaf = peer.deaf and peer.closed
                    peer.connection.close()
                self.until(lambda: all(p.closed or p.expect_error for p in self.peers), "CLOSE")
        finally:
            for peer in self.peers:
                peer.socket.close()


def errors_of(peer: Peer) -> list[str]:
    """What the connection died of, seen by the engine or told by the router."""
    conditions = (peer.transport.condition, peer.connection.remote_condition)
    return [f"{c.name}: {c.description}" for c in conditions if c is not None]


def error_of(thing: Delivery | Link) -> tuple[str, str | None]:
    """Condition and description that the router told of a delivery or a link."""
    condition = thing.remote.condition if isinstance(thing, Delivery) else thing.remote_condition
    assert condition is not None
    return condition.name, condition.description


def is_open(link: Link) -> bool:
    return bool(link.state & Endpoint.REMOTE_ACTIVE)


def is_closed(link: Any) -> bool:
    return bool(link.state & Endpoint.REMOTE_CLOSED)

"""One table's dialogue with Route Managers and applications: control messages and their connections.

Messages arrive at `<table>/$rm`. Answers go to `<table>/$conn/<router>/<number>`, the address of a
connection. A connection that the router makes is requested as `<table>/$to/<host:port>`.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_network
from typing import Final, Protocol

import msgspec

from core.rmr.managers import application as a
from core.rmr.managers import messages
from core.rmr.managers.client import Client
from core.rmr.managers.envelope import EnvelopeError, opened, sealed
from core.rmr.managers.server import Event, Limits, Server
from core.rmr.managers.stream import Held, Stream
from core.rmr.tables.decoding import DecodingError
from core.rmr.tables.fields import is_endpoint
from core.rmr.tables.state import Installed
from core.rmr.tables.table import MeidMap, Table
from shm.contract.complaints import Complaints, bursts
from shm.contract.failures import failures
from shm.contract.hosts import address_of, host_of
from shm.contract.tables import CONNECTION, TableSetup

LOGGER = logging.getLogger("ROUTER_CORE")

MOST_ON_THEIR_WAY: Final = 4  # messages on their way to one connection
POLL: Final = a.SECOND // 10  # interval between checks whether connections can be sent to
NOT_SERVED: Final = "serveTo of the route table does not include its address"
OURS: Final = "this router listens there itself"
OUR_TABLE: Final = "it is made of a table that this router has sent"
NOT_ALLOWED: Final = "this sender may not send tables to this router"


class Peer(msgspec.Struct):
    """A connection that speaks RMR.

    ``host`` is its ip:port; ``reached`` where this router connected to, if it did.
    """

    number: int
    host: str
    reached: str = ""
    up: bool = False  # messages can be sent to it


class World(Protocol):
    """The surroundings of a session. Addresses are what follows `<table>/`."""

    def send(self, address: str, content: bytes) -> bool: ...
    def waiting(self, address: str) -> int: ...
    def there(self, address: str) -> bool: ...
    def dial(self, name: str, wanted: bool) -> None: ...
    def install(self, value: Table | MeidMap, origin: str, done: Callable[[str], None]) -> None: ...
    def origin(self) -> str: ...
    def refused(self, what: str, reason: str) -> None: ...
    def count(self, what: str) -> None: ...
    def freed(self) -> None: ...
    def seconds(self) -> int: ...


class ManagerSession:
    """The session of a table. ``instance`` differs in each run of the core.

    Without `serve_to`, applications at all addresses that are not global may request the table.
    """

    def __init__(self, setup: TableSetup, instance: str, world: World, use: Installed) -> None:
        self.table = setup.name
        self.setup = setup
        self._world = world
        self._now = 0
        self._polled = 0
        self._peers: dict[int, Peer] = {}
        self._dialled: dict[int, Peer] = {}  # those that this router connected to: as many as are configured
        self._streams: dict[int, Stream] = {}
        self._held = Held(world.freed)
        self._left: list[Stream] = []  # of connections that are gone
        self._networks = [ip_network(one, strict=False) for one in setup.push_from]
        self._served = [ip_network(one, strict=False) for one in setup.serve_to]
        self._manager_hosts: set[str] = set()  # addresses of its latest connection
        self._complaints = Complaints()
        self._lines = bursts()
        self.client: Client | None = None
        self.server: Server | None = None
        if setup.manager:
            self.client = Client(setup.manager, setup.source, setup.request_interval, self._ask, world.seconds)
            world.dial(setup.manager, True)
        if setup.serve:
            limits = Limits(setup.most_applications, setup.most_of_a_host)
            self.server = Server(instance, setup.served_as, self, self._report, limits)
            if use.table is not None:
                self.server.install(use, None)
            for control in setup.push_to:
                self.server.know("", control, control, fixed=True)

    # ---- events ----

    def opened(self, peer: Peer) -> None:
        """Enter a connection. Its links follow."""
        self._peers[peer.number] = peer
        if peer.reached:
            self._dialled[peer.number] = peer
            self._polled = -POLL

    def closed(self, number: int, now: int) -> None:
        """Forget a connection that is gone."""
        self._now = now
        peer = self._peers.pop(number, None)
        self._dialled.pop(number, None)
        stream = self._streams.pop(number, None)
        if stream is not None:
            stream.lost()
            if not stream.finished:
                self._left.append(stream)
        if peer is None:
            return
        if self.client is not None and peer.reached == self.client.manager and peer.up:
            self.client.lost(now)
        if self.server is not None:
            self.server.lost(_address(peer.number), now)

    def installed(self, use: Installed, value: Table | MeidMap | None) -> None:
        """Pass a new table or map on to applications."""
        if self.server is not None:
            self.server.install(use, value)

    def heard(self, content: bytes, number: int, now: int) -> None:
        """Handle a control message from a connection."""
        self._now = now
        peer = self._peers.get(number)
        if peer is None:
            return
        try:
            self._act(opened(content, _address(number), peer.host), peer, now)
        except (EnvelopeError, DecodingError) as error:
            who = f"Route table {self.table}: a control message from {host_of(peer.host)}"
            why, text = f"{error} (the connection's peer is {peer.host})", "%s was dropped: %s"
            self._complaints.tell(now / a.SECOND, LOGGER, logging.WARNING, text, who, why, key=(text, who))

    def _act(self, heard: messages.Heard, peer: Peer, now: int) -> None:
        """Do what a control message requests. Raises DecodingError."""
        match heard.kind:
            case messages.TABLE:
                self._take(heard, peer)
            case _ if heard.fault:
                raise DecodingError(heard.fault)
            case messages.REQUEST if self.server is not None:
                self._world.count("table_requests")
                host = host_of(peer.host)
                dial = _dial(self.setup.dial_back, host, heard.source)
                if not self._may_ask(host):
                    why = NOT_SERVED
                else:
                    why = OURS if self._is_own(heard.source, host) else self.server.requested(heard, dial, now)
                if why:
                    who = f"Route table {self.table}: {host}"  # not the name that it gives itself
                    text = "%s requested a table and gets none: %s; it is %s"
                    self._complaints.tell(
                        now / a.SECOND, LOGGER, logging.WARNING, text, who, why, heard.source, key=(text, who)
                    )
            case messages.STATE if self.server is not None:
                self.server.answered(heard, now)
            case _:
                text = "Route table %s: dropped a message of type %d from %s: this router is no Route Manager"
                self._say(logging.INFO, text, heard.kind, peer.host)

    def step(self, now: int) -> None:
        """Do what is due. ``now`` is in nanoseconds."""
        self._now = now
        if now - self._polled >= POLL:
            self._polled = now
            for peer in list(self._dialled.values()):
                try:
                    self._use(peer)
                except Exception as error:  # no application or manager must end the core
                    failures.tell(f"using the connection to {peer.reached}", error, "it waits for what follows there")
        for stream in [*self._streams.values(), *self._left]:
            try:
                stream.step()
            except Exception as error:  # the next text must not wait forever behind this one
                failures.tell(f"reading a route table for {self.table}", error, "its sender gets ERR")
                with suppress(Exception):  # what has failed may be the answer
                    stream.give_up(a.FAILED.format(type(error).__name__))
        self._left = [stream for stream in self._left if not stream.finished]
        if self.client is not None:
            try:
                self.client.step(now)
            except Exception as error:
                failures.tell(f"requesting {self.table} from {self.client.manager}", error, "it is requested again")
                self.client.failed(a.FAILED.format(type(error).__name__), now)
        if self.server is not None:
            self.server.step(now)

    @property
    def busy(self) -> bool:
        """Whether there is work to do before the core sleeps."""
        streams = (*self._streams.values(), *self._left)
        return any(stream.busy for stream in streams) or (self.server is not None and self.server.busy)

    def _may_ask(self, host: str) -> bool:
        """Whether an application at this address may have tables."""
        address = address_of(host)
        if address is None:
            return False
        return any(address in one for one in self._served) if self._served else not address.is_global

    def _is_own(self, place: str, host: str) -> bool:
        """Whether a client at ``host`` names the place where this router itself listens."""
        own, address = self.setup.source, address_of(host)
        if place in (own, self.setup.served_as):
            return True
        near = address is not None and address.is_loopback
        return near and bool(own) and place.rpartition(":")[2] == own.rpartition(":")[2]

    # ---- tables from others ----

    def _use(self, peer: Peer) -> None:
        """Start to use a connection of this router once its links are attached."""
        if peer.up or not self._world.there(_address(peer.number)):
            return
        peer.up = True
        if self.client is not None and peer.reached == self.client.manager:
            self._manager_hosts = {host_of(peer.host)}
            self.client.connected(self._now)
        elif self.server is not None:
            self.server.reached(peer.reached, _address(peer.number), self._now)

    def _take(self, heard: messages.Heard, peer: Peer) -> None:
        origin = self._origin(heard, peer)
        if reason := heard.fault or ("" if origin else NOT_ALLOWED):
            error = messages.refusal(heard.payload, reason)
            self._refused(heard, error.table_id, reason)
            payload = messages.state(error.named, reason, bad=True)
            self._answer(heard, messages.Said(messages.STATE, payload, xact=heard.xact, call=heard.call))
            return
        stream = self._streams.get(peer.number)
        if stream is None:
            stream = self._streams[peer.number] = self._stream(origin)
        stream.message(heard)

    def _origin(self, heard: messages.Heard, peer: Peer) -> str:
        """Return the sender of a table for the log, or an empty text if it may not send any."""
        host = host_of(peer.host)
        if host in self._manager_hosts:
            return f"manager {self.setup.manager}"
        address = address_of(host)
        if address is None:
            return ""
        return f"rmr {heard.source} at {peer.host}" if any(address in one for one in self._networks) else ""

    def _stream(self, origin: str) -> Stream:
        manager = origin == f"manager {self.setup.manager}"
        whole = said = False

        def install(value: Table | MeidMap, done: Callable[[str], None]) -> None:
            nonlocal whole, said
            if isinstance(value, Table) and self.server is not None and self.server.wrote(value.table_id):
                done(OUR_TABLE)
                return
            whole, said = isinstance(value, Table) and value.complete, True
            self._world.install(value, origin, done)

        def report(heard: messages.Heard, table_id: str, reason: str) -> None:
            nonlocal said
            if reason and not said:  # otherwise the installer has logged it
                self._refused(heard, table_id, reason)
            said = False
            if manager and self.client is not None:
                self.client.table(table_id, reason, whole and not reason, self._now)

        return Stream(install, self._based, self._answer, report, self.setup.compatible, self._held)

    def _based(self) -> bool:
        return self._world.origin().startswith(("manager ", "rmr "))

    def _refused(self, heard: messages.Heard, table_id: str, reason: str) -> None:
        what = f"{table_id or messages.NO_ID} from {heard.source or 'nobody'} at {heard.host}"
        self._world.refused(what, reason)
        self._say(logging.WARNING, "Route table %s: %s refused, the former stays in use: %s", what, reason)

    def _say(self, level: int, text: str, *what: object) -> None:
        """Log what a peer has caused, within the limit of such lines."""
        self._lines.tell(self._now / a.SECOND, LOGGER, level, text, self.table, *what)

    def _answer(self, heard: messages.Heard, said: messages.Said) -> None:
        self.send(heard.answer, said._replace(source=self.setup.source))

    def _ask(self, said: messages.Said) -> bool:
        for peer in self._dialled.values():
            if peer.up and peer.reached == self.setup.manager:
                self._world.count("table_requests_sent")
                return self.send(_address(peer.number), said)
        return False

    # ---- the server's port ----

    def room(self, connection: str) -> int:
        """Return how many messages may be sent to a connection now."""
        return MOST_ON_THEIR_WAY - self._world.waiting(connection)

    def send(self, connection: str, said: messages.Said) -> bool:
        """Send a message. Return False if the connection is gone."""
        return self._world.send(connection, sealed(said, self.setup.source))

    def reach(self, place: str, wanted: bool) -> None:
        """Connect to a control port, or stop."""
        self._world.dial(place, wanted)

    def _report(self, event: Event) -> None:
        one = event.application
        who = f"{one.endpoint or one.control} (control port {one.control})"
        match event.kind:
            case "ok":
                self._world.count("table_acks")
                self._say(logging.INFO, "Route table %s: %s runs %s", who, event.about)
            case "err":
                self._world.count("table_nacks")
                self._say(logging.WARNING, "Route table %s: %s refused %s", who, event.about)
            case "late":
                self._world.count("table_acks_late")
                self._say(logging.WARNING, "Route table %s: %s has not acknowledged %s", who, event.about)
            case "restart":
                self._say(logging.INFO, "Route table %s: %s requests a table; it ran %s", who, event.about)


def _address(number: int) -> str:
    return f"{CONNECTION}{number}"


def _dial(how: str, host: str, control: str) -> str:
    """Return where the router connects to an application later, or an empty text for nowhere.

    A message may name any host, so by default the router connects only to the address that the request came
    from.
    """
    if how == "name":
        return control
    port = control.rpartition(":")[2]
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return place if how == "address" and is_endpoint(place) else ""

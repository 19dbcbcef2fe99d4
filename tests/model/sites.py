"""A router of a simulated network: a whole core, one model worker, clients, and links to other such routers.

Messages are not encoded: a packet's parts are written where the content header says, as by a worker's intake.
"""

import mmap
import struct
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from bench import contract as n
from bench.contract import C_ATTACH, C_ATTACHED, C_CLOSE, C_CONNECTION_OPENED, C_DETACH, C_LINK_REFUSED, C_OPEN_LINK
from core.interior.message import sections
from core.interior.network import Network
from core.interior.network_adapter import NetworkAdapter
from core.process.router import Core
from shm.contract.control import AddressSetup, Setup
from shm.contract.payloads import Attach, Attached, Close, ConnectionOpened, Detach, LinkRefused, OpenLink
from shm.contract.routing import NetworkSetup
from shm.memory import flight
from tests.model.memory import CONTENT, Memory

RULES: Final = [
    AddressSetup(prefix="closest", distribution="closest"),
    AddressSetup(prefix="multicast", distribution="multicast"),
    AddressSetup(prefix="high", distribution="balanced", priority=7),
    AddressSetup(prefix="queue", egress_phase=1),
    AddressSetup(prefix="second", fallback=True),
]
SECTION: Final = 2  # enum content_annotations
STREAM: Final = 1  # enum content_routed
LONG: Final = 128 << 10  # octets that make an incomplete message a stream
OVERRIDE: Final = 2
PROPERTIES: Final = 0x73
ALL: Final = 1 << 30  # records
OF_LINKS: Final = (n.W_SEND, n.W_FLOW, n.W_DRAIN)
CORE: Final = 1  # the core's place and arena, beside one worker


@dataclass(frozen=True)
class Packet:
    """A message on its way."""

    number: int
    to: str = ""  # properties.to
    payload: bytes = b""
    settled: bool = False
    override: str = ""
    phase: int = 0
    streaming: bool = False  # it never ends
    ingress: str = ""
    trace: tuple[str, ...] = ()
    priority: int = 4


@dataclass
class SiteLink:
    """A link at one site; ``peer``: the other end of a link between routers."""

    index: int
    connection: int
    outgoing: bool
    address: str | None = None
    peer: "tuple[Site, SiteLink] | None" = None
    credit: int = 0
    waiting: deque[tuple[Packet, int, bool]] = field(default_factory=deque)
    got: list[Packet] = field(default_factory=list)
    unsettled: list[tuple[Packet, int]] = field(default_factory=list)
    answer: int = n.S_ACCEPTED  # 0: wait
    request: int = 0
    name: str = ""
    open: bool = False
    left: bool = False  # by its client
    busy: bool = False  # with a message that never ends: others wait behind it
    error: str = ""


@dataclass
class Incoming:
    """A delivery that this site's worker has told its core of."""

    packet: Packet
    link: SiteLink
    origin: int  # the handle of the router it came from; 0: of a client


class Site:
    """One router. Its core is recorded in a ring of ``flight_lines``, if that is not 0."""

    flight_lines = 0

    def __init__(self, name: str, seed: int = 0, mode: str = "interior", instance: int = 1000) -> None:
        self.name, self.mode, self.instance = name, mode, instance
        self.memory = Memory(1, 1024, 1 << 20)
        if self.flight_lines:
            self.memory.flight = mmap.mmap(-1, flight.ring_bytes(self.flight_lines))
        setup = Setup("core", 1, 1, "/none", name, "0", 1, [-1], mode=mode, addresses=RULES)
        self.core = Core(setup, self.memory, seed.to_bytes(8, "big") + name.encode())
        if mode == "interior":
            self.core.plane(NetworkAdapter).start(self._network)
        self.actions = n.Producer(self.memory.rings, n.action_ring_offset(0))
        self.work = n.Consumer(self.memory.rings, n.work_ring_offset(0))
        self.arena = n.ArenaOwner(self.memory.arenas[0])
        self.views = [n.Arena(arena) for arena in self.memory.arenas]
        self.packets: dict[int, Packet] = {}  # by block
        self.incoming: dict[int, Incoming] = {}
        self.links: dict[int, SiteLink] = {}
        self.gone: set[int] = set()  # links between routers: what the core still sends on them is lost with them
        self.sites: dict[int, tuple[Site, int]] = {}  # connections to routers: the other end
        self.outcomes: dict[int, list[int]] = {}  # of clients' messages
        self.handles = 1 << 32
        self.next_link = self.connections = 0
        self.edges: set[int] = set()  # connections between an edge router and an interior one
        self.closing: list[int] = []  # connections that the core wants closed
        self.answers: Counter[int] = Counter()  # links that we began and the peer answered, by connection

    def _network(self, network_adapter: NetworkAdapter) -> Network:
        self.network_adapter = network_adapter
        self.network = Network(network_adapter._me, self.instance, NetworkSetup(), network_adapter)
        return self.network

    # ---- saying ----

    def post(self, **fields: int) -> None:
        assert self.actions.push(n.pack(**fields))
        self.actions.publish()

    def control(self, kind: int, payload: msgspec.Struct) -> None:
        block = self.arena.write(msgspec.msgpack.encode(payload))
        assert block is not None
        self.post(type=n.A_CONTROL, state=kind, arena=0, block=block)

    # ---- clients ----

    def connect(self, **fields: Any) -> int:
        self.connections += 1
        opened = ConnectionOpened(self.connections, 1, "client", "host:1", **fields)
        self.control(C_CONNECTION_OPENED, opened)
        return self.connections

    def attach(self, outgoing: bool, address: str | None, **fields: Any) -> SiteLink:
        """A client's link."""
        link = self._new_link(self.connect(), outgoing, address)
        attach = Attach(link.index, 1, link.connection, f"l{link.index}", outgoing, address, **fields)
        self.control(C_ATTACH, attach)
        return link

    def _new_link(self, connection: int, outgoing: bool, address: str | None = None) -> SiteLink:
        link = self.links[self.next_link] = SiteLink(self.next_link, connection, outgoing, address)
        self.next_link += 1
        return link

    def detach(self, link: SiteLink) -> None:
        """A client goes; what its receiver has not settled is lost with it."""
        for _, handle in link.unsettled:
            self.post(type=n.A_UPDATE, delivery=handle, state=n.S_MODIFIED, extra=n.D_FAILED, flags=n.F_SETTLED)
        link.unsettled.clear()
        link.open, link.left = False, True
        self.control(C_DETACH, Detach(link.index, 1))

    def send(self, link: SiteLink, packet: Packet, origin: int = 0) -> None:
        """A message comes in over a link."""
        block = self._write(packet)
        handle = 0
        if not packet.settled:
            self.handles += 1
            handle = self.handles
            self.incoming[handle] = Incoming(packet, link, origin)
        link.credit -= 1
        self.post(
            type=n.A_DELIVER,
            link=link.index,
            link_gen=1,
            block=block,
            arena=0,
            peer=handle,
            flags=(0 if packet.streaming else n.F_COMPLETE) | (n.F_SETTLED if packet.settled else 0),
            priority=packet.priority,
            length=max(self.views[0].content(block)[0], LONG if packet.streaming else 0),
        )

    def _write(self, packet: Packet) -> int:
        ingress = packet.ingress.encode()
        trace = b"".join(b"\xa1" + bytes([len(t)]) + t.encode() for t in packet.trace)
        text = (packet.override or packet.to).encode()
        inside = bool(text) and not packet.override and text in packet.payload  # the message says itself where it goes
        front = ingress + trace + (b"" if inside else text)  # the rest is a section in front of it
        block = self.arena.write(front + packet.payload)
        assert block is not None
        self.packets[block] = packet
        front_at, _ = self.memory.block_place(0, block)
        at = front_at + CONTENT
        segment = self.memory.arenas[0]
        if text:
            where = len(ingress) + len(trace) + (packet.payload.index(text) if inside else 0)
            struct.pack_into("=II", segment, at + 16, where, len(text))
        routed = (OVERRIDE if packet.override else 0) | (STREAM if packet.streaming else 0)
        struct.pack_into(
            "=BBB", segment, at + 44, SECTION if packet.trace or packet.override else 0, packet.phase, routed
        )
        struct.pack_into("=I", segment, at + 40, len(front))
        struct.pack_into("=II", segment, front_at + 32, 0, len(ingress))
        struct.pack_into("=III", segment, front_at + 40, len(ingress), len(trace), len(packet.trace))
        return block

    # ---- hearing ----

    def read(self, most: int = ALL) -> bool:
        """Handle all work there is, or so many records of it; False: there was none."""
        busy = False
        while most and (record := self.work.pop()) is not None:
            busy, most = True, most - 1
            self.work.give_back()
            self._handle(n.unpack(record))
        return busy

    def _handle(self, r: dict[str, int]) -> None:
        """Handle one record. What the core said of a link before it heard of its end is dropped."""
        link = self.links.get(r["link"])
        if r["type"] in OF_LINKS and (r["link"] in self.gone or (link is not None and link.left)):
            return
        match r["type"]:
            case n.W_CONTROL:
                payload = self.views[CORE].read(r["block"])
                self.post(type=n.A_FREE, arena=CORE, block=r["block"])
                self._told(r["state"], payload)
            case n.W_SEND:
                assert link is not None
                self._sent(link, r)
            case n.W_UPDATE if r["flags"] & n.F_IN:
                self._outcome(r)
            case n.W_RELEASE:
                if r["block"] != n.NIL:
                    self._free(r["block"])
                if link is not None:
                    self._grant(link, r["credit"])
            case n.W_FLOW:
                assert link is not None
                self._grant(link, r["credit"])
            case n.W_DRAIN:
                assert link is not None
                self.post(type=n.A_DRAINED, link=link.index, link_gen=1, credit=link.credit)
                link.credit = 0

    def _free(self, block: int) -> None:
        self.packets.pop(block, None)
        assert self.arena.free_chain(block)

    def _grant(self, link: SiteLink, credit: int) -> None:
        link.credit += credit
        if link.peer is not None:
            site, other = link.peer
            while other.waiting and link.credit > 0 and not other.busy:
                site.transmit(other, *other.waiting.popleft())

    def _told(self, kind: int, payload: bytes) -> None:
        if kind == C_OPEN_LINK:
            self._open(msgspec.msgpack.decode(payload, type=OpenLink))
        elif kind == C_ATTACHED:
            attached = msgspec.msgpack.decode(payload, type=Attached)
            if attached.link in self.gone:
                return
            link = self.links[attached.link]
            link.open = attached.error is None
            link.address = attached.address or link.address
            link.error = "" if attached.error is None else attached.error.condition
            if link.peer is not None:
                link.peer[0].answered(link.peer[1], attached)
        elif kind == C_DETACH:
            self._detach(msgspec.msgpack.decode(payload, type=Detach))
        elif kind == C_CLOSE:
            self.closing.append(msgspec.msgpack.decode(payload, type=Close).connection)

    def _detach(self, detach: Detach) -> None:
        """The core closes a link of its own: the other end does, too."""
        if detach.link in self.gone:
            return
        mine = self.links.pop(detach.link)
        assert mine.peer is not None
        other, theirs = mine.peer
        mine.peer = None
        del other.links[theirs.index]
        for site, link in ((self, mine), (other, theirs)):
            site.incoming = {h: d for h, d in site.incoming.items() if d.link is not link}
            site.gone.add(link.index)
            site.control(C_DETACH, Detach(link.index, 1))

    def _outcome(self, r: dict[str, int]) -> None:
        delivery = self.incoming.get(r["delivery"])
        if r["flags"] & n.F_RELEASE:
            self._free(r["block"])
        if delivery is None:
            return
        self._grant(delivery.link, r["credit"])
        if not r["flags"] & n.F_SETTLED:
            return
        del self.incoming[r["delivery"]]
        if delivery.origin:
            assert delivery.link.peer is not None
            site = delivery.link.peer[0]
            site.post(
                type=n.A_UPDATE, delivery=delivery.origin, state=r["state"], extra=r["extra"] & 3, flags=n.F_SETTLED
            )
        else:
            self.outcomes.setdefault(delivery.packet.number, []).append(r["state"])

    def _sent(self, link: SiteLink, r: dict[str, int]) -> None:
        packet = self._packet(r)
        if link.peer is None:
            assert link.open
            link.got.append(packet)
            if packet.streaming:
                return
            if r["flags"] & n.F_SETTLED:
                self.post(type=n.A_DONE, delivery=r["peer"])
            elif link.answer:
                self.settle(r["peer"], link.answer)
            else:
                link.unsettled.append((packet, r["peer"]))
            return
        me = f"0/{self.name}"
        override = packet.override
        if r["extra"]:
            override = self.views[CORE].read(r["extra"] - 1).decode()
        onward = replace(
            packet,
            override=override,
            phase=r["state"] & 15,
            ingress="" if self.mode == "edge" else packet.ingress or me,
            trace=() if self.mode == "edge" else (*packet.trace, me),
            priority=r["priority"],
        )
        self.transmit(link, onward, r["peer"], bool(r["flags"] & n.F_SETTLED))

    def _packet(self, r: dict[str, int]) -> Packet:
        if r["arena"] != CORE:
            return self.packets[r["block"]]
        payload = self.views[CORE].read(r["block"])
        to = sections(payload).get(PROPERTIES, [None, None, ""])[2]
        return Packet(-1, to or "", payload, True)

    def settle(self, handle: int, state: int) -> None:
        self.post(type=n.A_UPDATE, delivery=handle, state=state, flags=n.F_SETTLED)

    # ---- the wire ----

    def transmit(self, link: SiteLink, packet: Packet, handle: int, settled: bool) -> None:
        """Over a link to another router, when there is credit."""
        assert link.peer is not None
        site, other = link.peer
        if other.credit <= 0 or not other.open or link.busy:
            link.waiting.append((packet, handle, settled))
            return
        if settled:
            self.post(type=n.A_DONE, delivery=handle)
        link.busy = packet.streaming
        site.send(other, replace(packet, settled=settled), handle)

    def _open(self, asked: OpenLink) -> None:
        if asked.connection not in self.sites:
            self.control(C_LINK_REFUSED, LinkRefused(asked.request))
            return
        other, connection = self.sites[asked.connection]
        mine = self._new_link(asked.connection, asked.outgoing)
        theirs = other._new_link(connection, not asked.outgoing)
        mine.request, mine.name = asked.request, asked.name
        mine.peer, theirs.peer = (other, theirs), (self, mine)
        other.control(
            C_ATTACH,
            Attach(
                theirs.index,
                1,
                connection,
                asked.name,
                theirs.outgoing,
                asked.target if asked.outgoing else asked.source,
                capabilities=asked.source_capabilities,
            ),
        )

    def answered(self, link: SiteLink, attached: Attached) -> None:
        """The other router has answered our attach."""
        assert attached.error is None, attached.error
        link.open = True
        capabilities = ["qd.router" if self.answers[link.connection] < 2 else "qd.router-data"]
        if link.connection in self.edges:
            capabilities = []
        self.answers[link.connection] += 1
        self.control(
            C_ATTACH,
            Attach(
                link.index, 1, link.connection, link.name, link.outgoing, None,
                capabilities=capabilities, request=link.request, router_initiated=True,
            ),
        )  # fmt: skip

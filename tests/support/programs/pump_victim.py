"""``python pump_victim.py SEED LIVES``: a worker's pump whose core talks nonsense.

The pump serves real connections; this program plays the core and the clients. Records are random, but often
nearly right: links that exist, handles that were once given out, blocks of messages. A life of the pump ends
after some rounds, or when so many blocks were lost to the nonsense that it reads no more. Exit status 0: it
got through all of them.
"""

# ruff: noqa: E402 - the engine is loaded before anything else loads it

import gc
import logging
import mmap
import os
import random
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

import msgspec

from workers.loop import engine

engine.load()
from proton import Condition, Endpoint, Message

from bench import contract as n
from shm.contract.control import ListenerSetup, Setup
from shm.contract.payloads import PAYLOADS, Attach, Attached, Detach, Error
from shm.memory import segment
from shm.statistics import stats
from tests.support.beds.stand import serve
from tests.support.peer import ACCEPTED, MODIFIED, REJECTED, RELEASED, Net, Peer
from workers.loop.pump import Pump

TYPES = [n.W_SEND] * 4 + [n.W_UPDATE] * 4 + list(range(11)) + [n.W_CONTROL, 255]
STATES = (0, 0x23, 0x24, 0x25, 0x26, 0x27, 0x33, 0x34, 77)
OUTCOMES = (ACCEPTED, REJECTED, RELEASED, MODIFIED)
REMEMBERED = 50
ROUNDS = 60
TURNS = 300
PEERS = 3


class LostError(Exception):
    """An answer did not come."""


class World:
    """Segments of one worker, its pump, and the core's ends of the rings."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.segments = segment.create(f"/routerd-fuzz-{os.getpid()}", 1, 1)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.setblocking(False)
        listener = ListenerSetup("fuzzed", [self.listening.fileno()])
        self.setup = Setup("worker", 0, 1, self.segments.names.prefix, "r", "0", 1, [-1], listeners=[listener])
        self.take_up()
        self.links: list[tuple[int, int]] = [(0, 1)]
        self.handles: list[int] = [0]
        self.blocks: list[int] = [0]
        self.count = 0
        self.refusing = 0.0  # the share of attaches

    def take_up(self) -> None:
        """Begin as a core: empty rings, no block in use, nothing known."""
        self.actions = n.Consumer(self.segments.rings, n.action_ring_offset(0))
        self.work = n.Producer(self.segments.rings, n.work_ring_offset(0))
        self.arenas = [n.Arena(arena) for arena in self.segments.arenas]
        self.own = n.ArenaOwner(self.segments.arenas[1])
        self.delivered: list[dict[str, int]] = []
        self.outgoing: list[tuple[int, int]] = []
        self.sent: list[tuple[int, int, int, int]] = [(0, 1, 0, 0)]  # link, generation, its handle, ours

    def die(self, meanwhile: Callable[[], None]) -> None:
        """The core dies in the middle of what it says, and another one begins."""
        self.work.publish()
        self.pump.leave(True)
        for _ in range(3):
            self.pump.run(0.0)
            meanwhile()
        n.format_rings(self.segments.rings, 1)
        for arena in self.arenas:
            arena.mark_none()
        self.take_up()
        self.pump.come_back()
        while not self.pump.present():
            self.turn()
        self.pump.go_on()

    def start(self) -> None:
        self.wake = socket.socketpair()
        self.bell = os.eventfd(0, os.EFD_NONBLOCK)
        self.pump = pump = Pump(self.segments, 0, 1, self.bell, self.wake[0].fileno())
        serve(pump, self.setup, self.segments)
        listening = self.listening.fileno()
        self.pump.add_listener(listening, 0, 16384, 100, 60_000, 60_000, 50, 64, 64, False, "ANONYMOUS")
        self.pump.extract(True, True)  # as while there is a flow log
        self.pump.accept(True)
        self.segments.unlink()  # whatever happens, nothing is left behind

    def turn(self) -> None:
        self.pump.run(0.0)
        while (record := self.actions.pop()) is not None:
            self.hear(n.unpack(record))
        self.actions.give_back()
        kept = []
        for action in self.delivered:
            if self.outgoing and self.chance.random() < 0.5:
                self.forward(action)
            if self.chance.random() < 0.3:
                self.settle(action)
            else:
                kept.append(action)
        self.delivered = kept
        self.work.publish()

    def forward(self, action: dict[str, int]) -> None:
        """Send a delivery to some receiver."""
        self.count += 1
        link, generation = self.chance.choice(self.outgoing)
        peer = 1 << 32 | self.count
        flags = self.chance.choice((action["flags"] & 3, 0, 2, 3))
        values = {"block": action["block"], "length": action["length"], "priority": self.count % 10}
        self.push(n.pack(type=n.W_SEND, flags=flags, link=link, link_gen=generation, peer=peer, **values))
        self.sent.append((link, generation, 0, peer))

    def settle(self, action: dict[str, int]) -> None:
        """End a delivery as a core does, most of the time."""
        if self.chance.random() < 0.02:
            return
        names = {name: action[name] for name in ("link", "link_gen", "block")}
        if not action["peer"]:
            self.push(n.pack(type=n.W_RELEASE, credit=1, **names))
            return
        flags, state = n.F_IN | n.F_SETTLED | n.F_RELEASE, self.chance.choice(STATES)
        delivery = action["peer"]
        self.push(n.pack(type=n.W_UPDATE, flags=flags, state=state, credit=1, delivery=delivery, **names))

    @property
    def paused(self) -> bool:
        return bool(stats.read(self.segments.worker_stats(0))["paused"])

    def end(self) -> None:
        """Forget the pump, and unmap."""
        self.pump.serve(None)
        del self.pump
        del self.actions, self.work, self.arenas, self.own
        gc.collect()  # whoever serves connections and the pump know each other
        self.segments.close()
        self.listening.close()
        os.close(self.bell)
        for end in self.wake:
            end.close()

    def hear(self, action: dict[str, int]) -> None:
        """Answer attaches as a core does; remember what can be named later."""
        self.links.append((action["link"], action["link_gen"]))
        self.handles += [action["peer"], action["delivery"]]
        if action["type"] == n.A_DELIVER:
            self.blocks.append(action["block"])
            self.delivered.append(action)
        if action["type"] in (n.A_UPDATE, n.A_PROGRESS):
            self.sent.append((action["link"], action["link_gen"], action["peer"], action["delivery"]))
        for known in (self.links, self.handles, self.blocks, self.sent, self.outgoing):
            del known[1:-REMEMBERED]
        if action["type"] == n.A_FREE and action["arena"] == 1:
            self.own.free_chain(action["block"])
        if action["type"] == n.A_CONTROL and action["state"] == n.C_ATTACH:
            attach = msgspec.msgpack.decode(self.arenas[0].read(action["block"]), type=Attach)
            error = Error("amqp:not-allowed", "by chance") if self.chance.random() < self.refusing else None
            self.tell(n.C_ATTACHED, Attached(attach.link, attach.generation, None, error))
            link, generation = attach.link, attach.generation
            if attach.outgoing:
                self.outgoing.append((link, generation))
            else:
                self.push(n.pack(type=n.W_FLOW, link=link, link_gen=generation, credit=20))
        if action["type"] == n.A_CONTROL:
            self.push(n.pack(type=n.W_RELEASE, block=action["block"], link=n.NIL))

    def push(self, record: bytes) -> None:
        assert self.work.push(record)

    def tell(self, kind: int, message: object) -> None:
        self.tell_bytes(kind, msgspec.msgpack.encode(message))

    def tell_bytes(self, kind: int, payload: bytes) -> None:
        if (block := self.own.write(payload)) is not None:
            self.push(n.pack(type=n.W_CONTROL, state=kind, arena=1, block=block))

    # ---- nonsense ----

    def record(self) -> bytes:
        chance = self.chance
        if chance.random() < 0.1:
            return chance.randbytes(64)
        link, generation = chance.choice(self.links)
        delivery, peer = self.handle(), self.handle()
        if chance.random() < 0.4:
            link, generation, delivery, peer = chance.choice(self.sent)
        return n.pack(
            type=chance.choice(TYPES),
            flags=chance.choice((0, 1, 2, 3, 8, 9, 16, 24, 25, chance.getrandbits(8))),
            priority=chance.randrange(16),
            arena=chance.choice((0, 0, 0, 1, 1, 2, 255)),
            link=link,
            link_gen=generation,
            block=self.block(),
            delivery=delivery,
            peer=peer,
            state=chance.choice(STATES),
            credit=chance.choice((0, 1, 5, 2**31 - 1, 2**31, 2**32 - 1)) if chance.random() < 0.2 else 1,
            length=chance.choice((0, 1, 100, 100_000, 2**63, chance.getrandbits(64))),
            extra=chance.choice((0, 1, 2, 3, 4, 5, chance.getrandbits(64))),
        )

    def handle(self) -> int:
        return self.chance.choice((0, self.chance.choice(self.handles), self.chance.getrandbits(64), 1 << 32))

    def block(self) -> int:
        known = self.chance.choice(self.blocks)
        return self.chance.choice((known, known, known, self.chance.randrange(800), n.NIL, 2**31))

    def control(self) -> None:
        """A control record: of the right form with wrong values, of the wrong form, of no form."""
        chance = self.chance
        link, generation = chance.choice(self.links)
        error = Error("amqp:\0", "\u20ac" * chance.randrange(5000))
        message = chance.choice(
            (
                Attached(link, generation),
                Attached(link, generation, "x\0y", chance.choice((None, error))),
                Attached(2**40, -1),
                Detach(link, generation, chance.choice((None, error))),
                Detach(-1, 2**70 % 2**63),
                [chance.choice((0, 2**40, -1)), chance.choice((1, 2**40)), ["amqp:x", "y"]],
                chance.choice(([], "", 7, {"a": 1}, [None] * 9)),
            )
        )
        payload = msgspec.msgpack.encode(message)
        if chance.random() < 0.3:
            payload = chance.randbytes(chance.randrange(40))
        self.tell_bytes(chance.choice((*PAYLOADS, n.C_ATTACHED, n.C_DETACH, n.C_CLOSE, 0, 99)), payload)

    def damage(self) -> None:
        """Scribble on a block that holds, or held, a message: its header, its successor, its bytes."""
        memory: mmap.mmap = self.segments.arenas[0]
        at = self.chance.randrange(4096 + 4096, len(memory) - 8) & ~7
        if self.chance.random() < 0.7:
            small = 2 * 4096 + 48 + 512 * (self.chance.choice(self.blocks) % 400)
            at = small + 4 * self.chance.randrange(36)
        value = self.chance.choice((0, 1, 0xFFFFFFFF, self.chance.getrandbits(32), self.chance.randrange(700)))
        memory[at : at + 4] = struct.pack("<I", value)

    def break_index(self) -> None:
        """The work ring's head becomes a lie for a while."""
        memory, at = self.segments.rings, n.work_ring_offset(0)
        before = memory[at : at + 8]
        memory[at : at + 8] = self.chance.randbytes(8)
        self.pump.run(0.0)
        memory[at : at + 8] = before


class Clients(Net):
    """Connections to the pump, which runs while they wait."""

    def __init__(self, world: World) -> None:
        super().__init__(world.listening.getsockname())
        self.world = world

    def turn(self, seconds: float) -> None:
        self.world.turn()
        super().turn(0.0)

    def stir(self) -> None:
        """What clients do while there is no core."""
        for peer in list(self.peers):
            self.act(peer)
        super().turn(0.0)

    def until(self, condition: Callable[[], object], what: str, seconds: float = 0.0) -> None:
        """Time is counted in turns: an answer may have been lost to the nonsense."""
        for _ in range(TURNS):
            if condition():
                return
            self.turn(0)
        raise LostError(what)

    def fresh(self) -> Peer:
        peer = self.begin_peer()
        try:
            peer.open()
            peer.out = peer.ready_sender("fuzz")
            peer.arriving = peer.receiver("fuzz", 100)
        except LostError:
            peer.drop()
            raise
        return peer

    def act(self, peer: Peer) -> None:
        """Something a client does."""
        chance = self.world.chance
        size = chance.choice((0, 50, 50, 500, 5_000, 20_000, 60_000))
        data = Message(address=chance.choice((None, "to")), body=bytes(size)).encode()
        match chance.randrange(12):
            case 0 | 1 | 2 | 3 if peer.out.credit > 0:
                self.send(peer.out, data, settled=chance.random() < 0.3)
            case 4 | 5 if peer.out.credit > 0:
                delivery = self.begin(peer.out, data[: chance.randrange(1, len(data) + 1)])
                self.turn(0)
                chance.choice((peer.out.advance, delivery.abort, delivery.settle))()
            case 6 | 7 | 8:
                for arrived in peer.inbox(peer.arriving):
                    arrived.delivery.local.condition = Condition("amqp:fuzz", "x" * chance.randrange(300))
                    arrived.settle(chance.choice(OUTCOMES))
                peer.inbox(peer.arriving).clear()
            case 9:
                peer.arriving.flow(10)
            case 10 if chance.random() < 0.2:
                peer.arriving.drain(10)
            case 11 if chance.random() < 0.1:
                peer.drop()

    def renew(self) -> None:
        """Whoever lost its connection or a link to the nonsense is replaced."""
        for peer in list(self.peers):
            ends = (peer.connection, peer.out, peer.arriving)
            if peer.closed or any(end.state & Endpoint.REMOTE_CLOSED for end in ends):
                peer.drop()
        while len(self.peers) < PEERS:
            self.fresh()


def live(chance: random.Random) -> None:
    """One life of a pump."""
    world = World(chance)
    world.start()
    clients = Clients(world)
    clients.renew()
    world.refusing = 0.01
    for _ in range(ROUNDS):
        for peer in list(clients.peers):
            clients.act(peer)
        for _ in range(chance.randrange(8)):
            world.push(world.record())
        if chance.random() < 0.2:
            world.control()
        if chance.random() < 0.2:
            world.damage()
        if chance.random() < 0.02:
            world.break_index()
        if chance.random() < 0.02:
            world.die(clients.stir)
        for _ in range(3):
            clients.turn(0)
        if world.paused:
            break
        with suppress(LostError):
            clients.renew()
    for peer in list(clients.peers):
        peer.drop()
    world.turn()
    world.end()


def repeat(live: Callable[[random.Random], None]) -> None:
    """As many lives as the second argument says; the first one is the seed."""
    logging.disable()  # of every piece of nonsense, a line
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - no secret
    for _ in range(int(sys.argv[2])):
        live(chance)


if __name__ == "__main__":
    repeat(live)

"""A random life of a network whose routers are recorded: two edge routers, and three interior ones in a ring."""

import mmap
import random
import re

import msgspec

from bench import contract as n
from routerd.replay.recording import Recording
from shm.memory import flight
from tests.model.internet import Internet, cut, join
from tests.model.sites import Packet, Site, SiteLink

STREAMS = ("qd.streaming-links",)
ADDRESSES = ["closest.x", "queue.y", "q", "multicast.x", "high.z", "multicast.w"]
ANSWERS = [n.S_ACCEPTED] * 4 + [n.S_RELEASED, n.S_MODIFIED, 0, 0]
WIRES = [("A", "B", 1), ("B", "C", 1), ("A", "C", 1)]


class RecordedSite(Site):
    """One router, whose ring is full soon."""

    flight_lines = 1 << 14


class Life:
    """What happens is a function of the seed. ``border``: router C speaks the other dialect with its neighbours."""

    def __init__(self, seed: int, border: bool = False) -> None:
        self.border = border
        self.chance = random.Random(seed)  # noqa: S311 - a schedule, no secret
        self.net = Internet("A", "B", "C", "edge1", "edge2", seed=seed, kind=RecordedSite)
        for edge, interior in (("edge1", "A"), ("edge2", "B")):
            join(self.net[edge], self.net[interior], role="edge", offered=STREAMS)
        self.wires = {wire: self._join(wire) for wire in WIRES}
        self.net.run(8)
        self.links: list[tuple[Site, SiteLink]] = []
        self.number = self.streams = 0

    def _join(self, wire: tuple[str, str, int]) -> tuple[int, int]:
        product = "skupper-router" if self.border and "C" in wire else "routerd"
        return join(self.net[wire[0]], self.net[wire[1]], cost=wire[2], product=product, offered=STREAMS)

    def site(self) -> Site:
        return self.chance.choice(list(self.net.sites.values()))

    def attach(self) -> None:
        if len(self.links) > 24:
            return
        site, outgoing = self.site(), self.chance.random() < 0.6
        address = None if not outgoing and self.chance.random() < 0.4 else self.chance.choice(ADDRESSES)
        link = site.attach(outgoing, address)
        link.answer = self.chance.choice(ANSWERS)
        self.links.append((site, link))

    def detach(self) -> None:
        if len(self.links) < 8:
            return
        site, link = self.links.pop(self.chance.randrange(len(self.links)))
        self.net.settle()  # a model's worker takes nothing for a link that has gone
        if link.open:
            site.detach(link)

    def send(self) -> None:
        senders = [(site, link) for site, link in self.links if not link.outgoing and link.open and link.credit > 0]
        if not senders:
            return
        site, link = self.chance.choice(senders)
        self.number += 1
        streaming = self.chance.random() < 0.02 and self.streams < 16
        self.streams += streaming
        to = "" if link.address else self.chance.choice(ADDRESSES)
        packet = Packet(
            self.number,
            to=to,
            settled=self.chance.random() < 0.2,
            streaming=streaming,
            priority=self.chance.randrange(10),
        )
        if site.arena.free[0] > 16:
            site.send(link, packet)

    def settle(self) -> None:
        for site, link in self.links:
            while link.unsettled and self.chance.random() < 0.7:
                site.settle(link.unsettled.pop(0)[1], self.chance.choice(ANSWERS[:6]))

    def rewire(self) -> None:
        wire = self.chance.choice(WIRES)
        ends = self.wires.pop(wire, None)
        if ends is None:
            self.wires[wire] = self._join(wire)
        elif len(self.wires) > 1:
            self.net.settle()
            cut(self.net[wire[0]], self.net[wire[1]], ends)
            self.net.settle()

    def run(self, moves: int) -> None:
        acts = [(self.attach, 6), (self.detach, 2), (self.send, 80), (self.settle, 6), (self.rewire, 0.3)]
        acts += [(self.net.settle, 30), (lambda: self.net.run(1), 1)]
        for act in self.chance.choices([one for one, _ in acts], [often for _, often in acts], k=moves):
            act()
        self.net.settle()


def from_checkpoints(ring: mmap.mmap) -> list[Recording]:
    """What a ring holds, from each of its checkpoints on."""
    taken = flight.take(ring, "me", "0", "a test", running=False)
    kinds = taken.lines[:: flight.LINE]
    about = msgspec.structs.replace(taken.about, whole=False)
    return [
        Recording(msgspec.structs.replace(about, lines=len(kinds) - at), taken.lines[at * flight.LINE :])
        for at in (one.start() for one in re.finditer(re.escape(bytes((flight.CHECKPOINT,))), kinds))
    ]

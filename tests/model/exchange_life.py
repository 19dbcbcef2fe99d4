"""Random lives of a router with exchanges before its route table, which are recorded."""

import struct
from typing import Final

from core.exchanges.exchanges import Exchanges
from shm.contract.control import SetRouting
from shm.contract.routing import BindingSetup, ExchangeSetup, Routing
from tests.model.memory import CONTENT
from tests.model.sites import Packet, SiteLink
from tests.model.table_life import Move, TableLife, properties

HOPS: Final = ["one", "two", "multicast.all", "routes", "second"]
KEYS: Final = [None, "a.*", "a.b", "#.b", "*.c.#", "c"]
SUBJECTS: Final = ["a.b", "a.c", "c", "c.c.b", "d", ""]
MANY: Final = 300  # hops of one exchange: more than a line of the recording has room for
AT: Final = 28  # offset of `properties` in a content header behind its front, and of `body` eight octets later


def subject_of(text: str) -> bytes:
    """A section with nothing but a subject."""
    if not text:
        return b""
    items = b"\x40\x40\x40\xa1" + bytes([len(text)]) + text.encode()
    return b"\0\x53\x73\xc0" + bytes([len(items) + 1, 4]) + items


class ExchangeLife(TableLife):
    """What happens is a function of the seed. Its exchange leads to another one, to a table, and to other addresses."""

    def __init__(self, seed: int, lines: int = 1 << 14) -> None:
        self.there: dict[str, list[SiteLink]] = {}
        self.to: list[SiteLink] = []
        super().__init__(seed, lines)
        self.exchange()

    def exchange(self) -> None:
        """Other bindings for one of the exchanges, or for both."""
        many = [BindingSetup(f"many{at}", self.chance.choice(KEYS), f"many.{at}") for at in range(MANY)]

        def bindings(name: str, *more: str) -> list[BindingSetup]:
            hops = self.chance.choices([*HOPS, *more], k=self.chance.randrange(5))
            return [BindingSetup(f"{name}{at}", self.chance.choice(KEYS), hop) for at, hop in enumerate(hops)]

        first = ExchangeSetup("1", "x", bindings=bindings("x", "y"), alternate=self.chance.choice(["", "one"]))
        second = ExchangeSetup("2", "y", bindings=bindings("y", "x") + (many if self.chance.random() < 0.3 else []))
        self.core.configure(SetRouting(Routing(exchanges=[first, second][: self.chance.choice((1, 2, 2, 2))])))
        self.settle_all()

    def listen(self) -> None:
        name = self.chance.choice([*HOPS[:3], "second", f"many.{self.chance.randrange(MANY)}"])
        if len(known := self.there.setdefault(name, [])) < 2:
            known.append(self.attach(True, name))
            self.settle_all()
            known[-1].answer = self.chance.choice((0x24, 0x24, 0x26, 0))

    def hush(self) -> None:
        names = [name for name, links in self.there.items() if links]
        if names:
            self.settle_all()
            self.detach(self.there[self.chance.choice(names)].pop())
            self.settle_all()

    def speak(self) -> None:
        if len(self.to) < 6:
            self.to.append(self.attach(False, self.chance.choice(["x", "y", None])))
            self.settle_all()

    def publish(self) -> None:
        ready = [link for link in self.to if link.open and link.credit > 0]
        if ready and self.arena.free[0] > 16:
            self.say(self.chance.choice(ready))
            if self.chance.random() < 0.5:
                self.core.step(self.now)

    def burst(self) -> None:
        """Messages behind one whose address is not known yet: they come through an exchange in one turn."""
        ready = [link for link in self.to if link.open and link.credit > 8 and not link.address]
        if ready and self.arena.free[0] > 32:
            link = self.chance.choice(ready)
            for to in (f"unknown.{self.number}", "x", "y", "x", "x", "y"):
                self.say(link, to)
            self.settle_all()

    def say(self, link: SiteLink, name: str = "") -> None:
        self.number += 1
        kind, source = self.chance.choice((1000, 1001, 1002, -1)), self.chance.choice(("", "a:1", "b:1"))
        values: dict[str, int | str] = {} if kind < 0 else {"rmr.mt": kind, "rmr.sub-id": -1}
        values |= {"rmr.source": source} if source else {}
        payload = subject_of(self.chance.choice(SUBJECTS)) + properties(values)
        others = ["x", "y", "routes", "one", f"new.{self.number % 50}"]
        to = "" if link.address else name or self.chance.choice(others)
        self.send(link, Packet(self.number, to, payload, self.chance.random() < 0.2))

    def _write(self, packet: Packet) -> int:
        block = super()._write(packet)
        at, front = self.memory.block_place(0, block)[0] + CONTENT + AT, len(packet.to)
        if packet.payload.startswith(b"\0\x53\x73"):
            body = front + packet.payload.index(b"\0\x53\x74")
            struct.pack_into("=I", self.memory.arenas[0], at, front)
            struct.pack_into("=I", self.memory.arenas[0], at + 8, body)
        return block

    def settle_some(self) -> None:
        super().settle_some()
        for links in self.there.values():
            for link in links:
                while link.unsettled and self.chance.random() < 0.7:
                    self.settle(link.unsettled.pop(0)[1], 0x24)

    def moves(self) -> list[Move]:
        more: list[Move] = [(self.publish, 120), (self.listen, 4), (self.hush, 2), (self.speak, 4)]
        more += [(self.exchange, 0.5), (self.burst, 3)]
        return [*super().moves(), *more]

    @property
    def counted(self) -> tuple[int, int, int, int, list[int]]:
        return self.core.plane(Exchanges).counts("1")

"""Random lives of a router with a route table, which are recorded: tables and owners of managed entities come and go,
as do endpoints, and messages name the table, whose workers report their keys or do not."""

import mmap
import random
import struct
from collections.abc import Callable
from typing import Final

from bench import contract as n
from shm.contract.control import SetTables
from shm.contract.tables import TableSetup
from shm.memory import flight
from tests.model.memory import CONTENT
from tests.model.sites import Packet, SiteLink
from tests.model.table_site import TableSite

ENDPOINTS: Final = [f"{name}:1" for name in "abcdef"]
TYPES: Final = range(1000, 1005)
SUBSCRIPTIONS: Final = (-1, -1, 0, 1)
MEIDS: Final = ("m1", "m2", "m3", "")
ANSWERS: Final = [n.S_ACCEPTED] * 4 + [n.S_REJECTED, n.S_RELEASED, n.S_MODIFIED, 0]
APPLICATION_PROPERTIES: Final = b"\0\x53\x74"
Move = tuple[Callable[[], None], float]
BODY: Final = 36  # offset of `body` in a content header behind its front


def properties(values: dict[str, int | str]) -> bytes:
    """Application properties, of which all are short."""
    items = b""
    for name, value in values.items():
        text = value.encode() if isinstance(value, str) else b""
        items += b"\xa1" + bytes([len(name)]) + name.encode()
        items += b"\xa1" + bytes([len(text)]) + text if isinstance(value, str) else struct.pack(">Bi", 0x71, value)
    return APPLICATION_PROPERTIES + b"\xc1" + bytes([len(items) + 1, 2 * len(values)]) + items


class TableLife(TableSite):
    """What happens is a function of the seed."""

    def __init__(self, seed: int, lines: int = 1 << 14) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a schedule, no secret
        self.flight_lines = lines
        super().__init__()
        self.number = 0
        self.receivers: dict[str, list[SiteLink]] = {}
        self.senders: list[SiteLink] = []
        self.renew()

    @property
    def ring(self) -> mmap.mmap:
        assert self.memory.flight is not None
        return self.memory.flight

    # ---- tables ----

    def groups(self) -> str:
        if self.chance.random() < 0.2:
            return "%meid"
        return ";".join(
            ",".join(self.chance.choices(ENDPOINTS, k=self.chance.randint(1, 4)))
            for _ in range(self.chance.randint(1, 3))
        )

    def entry(self) -> str:
        head = str(self.chance.choice(TYPES))
        if self.chance.random() < 0.25:
            head += f",{self.chance.choice(ENDPOINTS)}"
        subscription = self.chance.choice(SUBSCRIPTIONS)
        return (
            f"del|{head}|{subscription}" if self.chance.random() < 0.1 else f"mse|{head}|{subscription}|{self.groups()}"
        )

    def renew(self) -> None:
        self._table("newrt", self.chance.randint(4, 14))

    def update(self) -> None:
        self._table("updatert", self.chance.randint(1, 3))

    def _table(self, kind: str, count: int) -> None:
        rows = [self.entry() for _ in range(count)]
        text = "\n".join([f"{kind}|start|t", *rows, f"{kind}|end|{count}", ""])
        assert [one.ok for one in self.table(text)] == [True]

    def own(self) -> None:
        rows = [f"mme_ar|{self.chance.choice(ENDPOINTS)}|{meid}" for meid in MEIDS[:3] if self.chance.random() < 0.7]
        self.table("\n".join(["meid_map|start|m", *rows, f"meid_map|end|{len(rows)}", ""]))

    def skip(self) -> None:
        setup = TableSetup("routes", "routes", skip_dead=self.chance.random() < 0.5)
        self.core.configure(SetTables([setup]))
        self.settle_all()

    # ---- links ----

    def arrive(self) -> None:
        name = self.chance.choice(ENDPOINTS)
        if len(known := self.receivers.setdefault(name, [])) < 2:
            known.append(self.receiver(name))
            known[-1].answer = self.chance.choice(ANSWERS)

    def leave(self) -> None:
        name = self.chance.choice(ENDPOINTS)
        if self.receivers.get(name):
            self.settle_all()  # a model's worker takes nothing for a link that has gone
            self.detach(self.receivers[name].pop())
            self.settle_all()

    def begin(self) -> None:
        if len(self.senders) < 4:
            anonymous = self.attach(False, None)
            self.settle_all()
            self.senders += [self.sender(), anonymous]

    def end(self) -> None:
        if len(self.senders) > 2:
            self.settle_all()
            self.detach(self.senders.pop(self.chance.randrange(len(self.senders))))
            self.settle_all()

    # ---- messages ----

    def message(self) -> None:
        ready = [link for link in self.senders if link.open and link.credit > 0]
        if not ready or self.arena.free[0] < 16:
            return
        link, self.number = self.chance.choice(ready), self.number + 1
        kind, subscription = self.chance.choice((*TYPES, -1, 7)), self.chance.choice((-1, 0, 1, 9))
        meid, source = self.chance.choice(MEIDS), self.chance.choice(("", "x:1", *ENDPOINTS))
        packet = Packet(self.number, settled=self.chance.random() < 0.2, priority=self.chance.randrange(10))
        if link.address:
            self.post_with_key(link, packet, kind, subscription, meid, source)
        else:
            self.ask(link, packet, kind, subscription, meid, source)
        self.core.step(self.now)

    def ask(self, link: SiteLink, packet: Packet, kind: int, subscription: int, meid: str, source: str) -> None:
        """A message whose key the core reads itself."""
        values: dict[str, int | str] = {} if kind < 0 else {"rmr.mt": kind, "rmr.sub-id": subscription}
        values |= {name: text for name, text in (("rmr.meid", meid), ("rmr.source", source)) if text}
        self.send(link, Packet(packet.number, "routes", properties(values), packet.settled))

    def _write(self, packet: Packet) -> int:
        block = super()._write(packet)
        if packet.payload.startswith(APPLICATION_PROPERTIES):
            at = self.memory.block_place(0, block)[0] + CONTENT
            struct.pack_into("=I", self.memory.arenas[0], at + BODY, len(packet.to))
        return block

    def settle_some(self) -> None:
        for known in self.receivers.values():
            for link in known:
                while link.unsettled and self.chance.random() < 0.7:
                    self.settle(link.unsettled.pop(0)[1], self.chance.choice(ANSWERS[:7]))

    def moves(self) -> list[Move]:
        """What may happen, and how often."""
        acts: list[Move] = [(self.message, 100), (self.settle_all, 40), (self.settle_some, 10), (self.arrive, 4)]
        acts += [(self.leave, 3), (self.begin, 2), (self.end, 1), (self.renew, 0.4), (self.update, 1), (self.own, 0.6)]
        return [*acts, (self.skip, 0.4)]

    def run(self, moves: int) -> None:
        acts = self.moves()
        for act in self.chance.choices([one for one, _ in acts], [often for _, often in acts], k=moves):
            self.now += self.chance.randrange(1, 1_000_000)
            act()
        self.settle_all()


def checkpoints(life: TableLife) -> tuple[int, int]:
    """How many there were, and how many were left out."""
    head = flight.header(life.ring)
    return head.checkpoints, head.skipped

"""What a model worker keeps, and how it says something: records, rings and blocks."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bench import contract as n
from tests.model.memory import Memory
from tests.model.tally import Ledger, Message

FIRST_GENERATION = 1 << 32


@dataclass
class Incoming:
    """A delivery this worker received from a sender."""

    message: Message
    link: "Link"
    handle: int
    writer: Any = None  # still arriving
    core: int = 0  # the core's handle, once told
    told: bool = False  # a terminal state without settlement


@dataclass
class Outgoing:
    """A delivery this worker has for a receiver."""

    message: Message
    link: "Link"
    core: int
    handle: int
    arena: int
    block: int
    settled: bool
    complete: bool
    streaming: bool
    answered: bool = False  # a terminal state was posted, without settlement
    progress: int = 0


@dataclass
class Link:
    index: int
    generation: int
    connection: int
    outgoing: bool
    address: str | None
    capacity: int
    settles: bool = False
    open: bool = False
    credit: int = 0
    draining: bool = False
    drains: int = 0  # A_DRAIN not answered yet
    outs: dict[int, Outgoing] = field(default_factory=dict)
    last: dict[tuple[int, int], int] = field(default_factory=dict)  # message by sender


class Speaker:
    """One generation of a worker, as far as it speaks."""

    def __init__(self, index: int, generation: int, memory: Memory, ledger: Ledger, log: list[tuple[Any, ...]]) -> None:
        self.index = index
        self.generation = generation
        self.memory = memory
        self.ledger = ledger
        self.log = log
        self.views = [n.Arena(arena) for arena in memory.arenas]
        self.links: dict[int, Link] = {}
        self.connections: dict[int, int] = {}
        self.incoming: dict[int, Incoming] = {}
        self.handles = FIRST_GENERATION * generation
        self.generations = 0
        self.resting = False  # between two cores: no message is passed on
        self.begin()

    def begin(self) -> None:
        """Take hold of the rings and of all blocks that nobody else reads."""
        self.inherited = set(n.Arena(self.memory.arenas[self.index]).marked())
        self.owned: set[int] = set()
        self.arena = n.ArenaOwner(self.memory.arenas[self.index])
        self.actions = n.Producer(self.memory.rings, n.action_ring_offset(self.index))
        self.work = n.Consumer(self.memory.rings, n.work_ring_offset(self.index))
        self.backlog: deque[bytes] = deque()
        self.posted = self.pushed = 0  # records in all; what is pushed is published with the next batch
        self.claims: list[tuple[int, Message, int, bool]] = []  # outcomes in records not published yet

    # ---- saying ----

    def post(self, **fields: int) -> None:
        record = n.pack(**fields)
        self.posted += 1
        if self.backlog or not self._push(record):
            self.backlog.append(record)

    def _push(self, record: bytes) -> bool:
        fields = n.unpack(record)
        if not self.actions.push(record):
            return False
        if fields["type"] in (n.A_CONTROL, n.A_DELIVER):
            at, _ = self.memory.block_place(self.index, fields["block"])
            self.log.append(("write", self.index, at, self.memory.block_bytes(self.index, fields["block"])))
        self.log.append(("push", self.index, record))
        self.pushed += 1
        return True

    def publish(self) -> None:
        while self.backlog and self._push(self.backlog[0]):
            self.backlog.popleft()
        self.actions.publish()
        self.log.append(("publish", self.index))
        self.claims = [claim for claim in self.claims if claim[0] >= self.pushed]

    def claim(self, message: Message, state: int, pending: bool = False) -> None:
        """An outcome that the next record carries."""
        self.claims.append((self.posted, message, state, pending))
        if pending:
            message.pending.append(state)
        else:
            message.outcomes.append(state)

    def killed(self) -> None:
        """What it still kept to itself never happened; its senders wait for nothing."""
        for _, message, state, pending in self.claims:
            (message.pending if pending else message.outcomes).remove(state)
        for delivery in self.incoming.values():
            delivery.message.alive = False

    def chain(self, content: bytes) -> int | None:
        block = self.arena.write(content)
        if block is not None:
            self.owned.add(block)
        return block

    def control(self, kind: int, payload: msgspec.Struct) -> None:
        block = self.chain(msgspec.msgpack.encode(payload))
        assert block is not None
        self.post(type=n.A_CONTROL, state=kind, arena=self.index, block=block)

    def new_handle(self) -> int:
        self.handles += 1
        return self.handles

"""A whole router without processes: the core, model workers, and a seeded random schedule of events."""

import mmap
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench import contract as n
from core.process.router import Core
from shm.contract.control import AddressSetup, Setup, WorkerGone
from shm.statistics.stats import COUNTERS, read
from tests.model.balance import unbalanced
from tests.model.clock import BEGIN
from tests.model.memory import Memory
from tests.model.speaker import Incoming, Link, Outgoing
from tests.model.survivor import come_back, leave
from tests.model.tally import Ledger
from tests.model.worker import Worker

RULES: Final = [
    AddressSetup(prefix="c", distribution="closest"),
    AddressSetup(prefix="m", distribution="multicast"),
    AddressSetup(pattern="u.#", distribution="unavailable"),
    AddressSetup(prefix="p", distribution="balanced", priority=7),
]
ADDRESSES: Final = ["b.1", "b.2", "c.1", "m.1", "p.1", "_local/l.1"]
SPELLINGS: Final = ["{}", "/{}", "amqp:/{}", "amqp://host:1/{}", "{}/"]
TERMINAL: Final = [n.S_ACCEPTED] * 5 + [n.S_REJECTED, n.S_RELEASED, n.S_MODIFIED]


def setup(workers: int, presenting: Sequence[int] = ()) -> Setup:
    doorbells = [-1] * workers
    return Setup(
        "core", workers, 1, "/none", "me", "0", workers, doorbells, addresses=RULES, presenting=list(presenting)
    )


def core_seed(seed: int, generation: int) -> bytes:
    """Each core makes names of its own."""
    return (seed << 16 | generation).to_bytes(8, "big")


class World:
    """One run; everything that happens is a function of its seed."""

    def __init__(
        self, seed: int, workers: int = 2, capacity: int = 16, deaths: bool = True, flight: mmap.mmap | None = None
    ) -> None:
        """``flight``: the core, which lives as long as this world then, is recorded there."""
        self.random = random.Random(seed)  # noqa: S311 - a schedule, no secret
        self.capacity = capacity
        self.memory = Memory(workers, capacity)
        self.memory.flight = flight
        self.seed, self.cores = seed, 1
        self.core = Core(setup(workers), self.memory, core_seed(seed, 1))
        self.pristine = self.core.forwarder.counts()
        self.ledger = Ledger()
        self.log: list[tuple[Any, ...]] = []
        self.now = BEGIN
        self.workers = [self._born(i, 1) for i in range(workers)]
        self.dynamic: list[str] = []
        self.moves: list[tuple[Callable[[], None], int]] = [
            (self.connect, 4),
            (self.attach, 12),
            (self.send, 60),
            (self.stream, 10),
            (self.sender_acts, 6),
            (self.receiver_reads, 20),
            (self.receiver_answers, 30),
            (self.receiver_stops, 8),
            (self.drain, 3),
            (self.detach, 2),
            (self.disconnect, 1),
            (self.read, 30),
            (self.step, 30),
            (self.die, 1 if deaths else 0),
            (self.core_dies, 1 if deaths and flight is None else 0),
        ]

    def _born(self, index: int, generation: int) -> Worker:
        return Worker(index, generation, self.memory, self.ledger, self.log)

    def run(self, moves: int) -> None:
        """So many random moves, then an orderly end."""
        for _ in range(self.random.randrange(3)):  # most schedules begin with clients that are ready
            for worker in self.workers:
                worker.connect()
                for _ in range(4):
                    self.attach()
            self.step()
            for worker in self.workers:
                worker.read(1000)
        choices, weights = zip(*self.moves, strict=True)
        for move in self.random.choices(choices, weights, k=moves):
            move()
        self.finish()

    # ---- choosing ----

    def worker(self) -> Worker:
        return self.random.choice(self.workers)

    def links(self, outgoing: bool) -> list[tuple[Worker, Link]]:
        return [(w, link) for w in self.workers for link in w.links.values() if link.outgoing == outgoing and link.open]

    def outs(self) -> list[tuple[Worker, Outgoing]]:
        return [(w, out) for w, link in self.links(True) for out in link.outs.values()]

    def incomings(self) -> list[tuple[Worker, Incoming]]:
        return [(w, delivery) for w in self.workers for delivery in w.incoming.values()]

    # ---- moves ----

    def connect(self) -> None:
        worker = self.worker()
        if len(worker.connections) < 3:
            worker.connect()

    def attach(self) -> None:
        worker = self.worker()
        if not worker.connections or len(worker.links) > 8:
            return
        connection = self.random.choice(list(worker.connections))
        outgoing = self.random.random() < 0.5
        address: str | None = self.random.choice([*ADDRESSES, "u.1", "dynamic"])
        if not outgoing and self.random.random() < 0.4:
            address = None
        capacity = self.random.choice([1, 2, 5, 20])
        worker.attach(connection, outgoing, address, capacity, outgoing and self.random.random() < 0.2)

    def send(self) -> None:
        ready = [(w, link) for w, link in self.links(False) if link.credit > 0 and not w.resting]
        if not ready:
            return
        worker, link = self.random.choice(ready)
        address = link.address
        if address is None:
            dynamic = [out.address for _, out in self.links(True) if out.address and "temp." in out.address]
            plain = self.random.choice([*ADDRESSES, "b.nobody", "u.1", *dynamic])
            address = plain if plain.startswith("amqp") else self.random.choice(SPELLINGS).format(plain)
        multicast = "m.1" in address
        sender = (worker.index, worker.generation << 32 | link.generation)
        message = self.ledger.new(address, self.random.random() < 0.25, multicast, sender)
        if sum(worker.arena.free) > 4:
            worker.send(link, message, self.random.random() < 0.2)
        else:
            message.alive = False

    def stream(self) -> None:
        streams = [(w, d) for w, d in self.incomings() if d.writer is not None]
        if not streams:
            return
        worker, delivery = self.random.choice(streams)
        if self.random.random() < 0.15:
            worker.abort(delivery)
        else:
            worker.grow(delivery, finish=self.random.random() < 0.3)

    def sender_acts(self) -> None:
        waiting = [(w, d) for w, d in self.incomings() if d.message.alive]
        told = [(w, d) for w, d in waiting if d.told]
        if not waiting:
            return
        worker, delivery = self.random.choice(told or waiting)
        if delivery.told or self.random.random() < 0.3:
            worker.sender_settles(delivery)
        else:
            worker.sender_updates(delivery)

    def receiver_reads(self) -> None:
        outs = [(w, out) for w, out in self.outs() if not out.answered]
        if outs:
            worker, out = self.random.choice(outs)
            worker.read_some(out)

    def receiver_answers(self) -> None:
        outs = [(w, out) for w, out in self.outs() if not out.settled]
        if not outs:
            return
        worker, out = self.random.choice(outs)
        kind = self.random.random()
        state = self.random.choice(TERMINAL)
        detail = self.random.random() < 0.3
        if kind < 0.1 and not out.answered:
            worker.received_out(out)
        elif kind < 0.3 and not out.answered:
            worker.answer_out(out, state, detail)
        elif not out.answered:
            worker.settle_out(out, state, detail=detail)

    def receiver_stops(self) -> None:
        """Settled messages wait for a receiver without credit, and some are dropped."""
        outs = [(w, out) for w, out in self.outs() if out.settled]
        if not outs:
            return
        worker, out = self.random.choice(outs)
        worker.waits(out)
        if self.random.random() < 0.3:
            worker.done(out, dropped=True)

    def drain(self) -> None:
        links = self.links(True)
        if links:
            worker, link = self.random.choice(links)
            worker.drain(link)
        for worker, link in self.links(False):
            if link.draining and self.random.random() < 0.5:
                worker.drained(link)

    def detach(self) -> None:
        links = [(w, link) for w in self.workers for link in w.links.values()]
        if links:
            worker, link = self.random.choice(links)
            worker.detach(link)

    def disconnect(self) -> None:
        worker = self.worker()
        if worker.connections:
            worker.disconnect(self.random.choice(list(worker.connections)))

    def read(self) -> None:
        worker = self.worker()
        worker.read(self.random.choice([1, 3, 100]))
        worker.publish()

    def step(self) -> None:
        for worker in self.workers:
            if self.random.random() < 0.7:
                worker.publish()
        self._step()

    def _step(self) -> None:
        self.now += 1
        self.log.append(("step", self.now))
        self.core.step(self.now)

    def die(self) -> None:
        """A worker is killed: what it published counts, what it still kept to itself never happened."""
        dead = self.worker()
        dead.killed()
        for message in self.ledger.messages:
            message.disturbed = True
        self.now += 1
        self.log.append(("gone", dead.index, dead.generation, self.now))
        self.core.worker_gone(WorkerGone(dead.index, dead.generation), self.now)
        self.workers[dead.index] = self._born(dead.index, dead.generation + 1)

    def core_dies(self) -> None:
        """The core is killed, perhaps twice, perhaps a worker as well before the next core serves."""
        for message in self.ledger.messages:
            message.disturbed = True
        for _ in range(self.random.choice([1, 1, 1, 2])):
            for worker in self.workers:
                worker.read(1 << 30)  # what the core still said counts
            self.ledger.forget_untold()
            for worker in self.workers:
                leave(worker)
            self.memory.reset()
            self.cores += 1
            living = [worker.index for worker in self.workers if self.random.random() >= 0.1]
            self.log.append(("core", self.cores, living))
            known = setup(len(self.workers), living)
            self.core = Core(known, self.memory, core_seed(self.seed, self.cores))
            for i, worker in enumerate(self.workers):
                if worker.index not in living:
                    worker.killed()
                    self.workers[i] = self._born(i, worker.generation + 1)
                else:
                    come_back(worker)
                    worker.publish()
            if self.random.random() < 0.5:
                self._step()

    # ---- the end ----

    def finish(self) -> None:
        """Everybody does what is still owed; then all go, and nothing may be left."""
        self._settle_down()
        self.check_credit()
        for worker in self.workers:
            for connection in list(worker.connections):
                worker.disconnect(connection)
        self._settle_down()
        self.ledger.check_end()
        self.check_empty()

    def _settle_down(self) -> None:
        for _ in range(1000):
            busy = False
            for worker in self.workers:
                worker.publish()
            self._step()
            for worker in self.workers:
                busy |= worker.read(1 << 30) > 0 or bool(worker.backlog)
                busy |= self._oblige(worker)
                worker.publish()
            if not busy:
                return
        raise AssertionError("the router never comes to rest")

    def _oblige(self, worker: Worker) -> bool:
        acted = False
        for delivery in list(worker.incoming.values()):
            if delivery.writer is not None:
                worker.grow(delivery, finish=True)
                acted = True
            elif delivery.told and delivery.message.alive:
                worker.sender_settles(delivery)
                acted = True
        for link in worker.links.values():
            for out in list(link.outs.values()):
                if out.settled and out.complete:
                    worker.read_some(out)
                    acted = True
                elif not out.settled and not out.answered:
                    worker.settle_out(out, n.S_ACCEPTED)
                    acted = True
            if link.draining:
                worker.drained(link)
                acted = True
        return acted

    def check_credit(self) -> None:
        """Every drain is answered; nothing is outstanding: granted and withheld are the capacity."""
        assert all(link.drains == 0 for _, link in self.links(True))
        for worker, link in self.links(False):
            info = self.core.forwarder.link_info(worker.index, link.index, link.generation)
            assert info is not None
            assert info["granted"] == link.credit
            assert info["count"] == info["draining"] == 0
            assert info["granted"] + info["withheld"] == link.capacity
            if link.address is None:
                assert link.credit == link.capacity

    def check_empty(self) -> None:
        """Every table is as it was in the beginning but for spellings, and every block is with its owner."""
        counts = self.core.forwarder.counts()
        for name in ("incoming", "outgoing", "links", "payloads", "overflow", "free_small", "free_large"):
            assert counts[name] == self.pristine[name], f"{name}: {counts[name]}"
        assert counts["addresses"] == len(self.core.addresses)
        assert len(self.core.links) == len(self.core.connections) == 0
        page = n.StatsPage(self.memory.control, n.stats_offset(len(self.workers)))
        assert page.get(COUNTERS["bad_records"].place) == 0
        assert unbalanced(read(page)) == {}
        for worker in self.workers:
            assert worker.arena.free == worker.arena.blocks

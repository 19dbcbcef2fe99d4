"""A core's forwarder and the recorder's reader on one piece of memory, without processes."""

from bench import contract as n
from core.forwarder.forward import Forwarder, Telemetry
from core.forwarder.link_terms import LinkTerms
from tests.model.memory import Memory

ARENA = 1 << 20


class Bed:
    """One worker with a sender and a receiver at address `news`, all of whose deliveries are recorded."""

    def __init__(self) -> None:
        memory = Memory(1, n.RING_CAPACITY, ARENA)
        control, rings, arenas, self.flow = memory.control, memory.rings, memory.arenas, memory.flow
        n.format_telemetry(self.flow, 1_700_000_000_000_000_000)
        self.stats = n.StatsPage(control, n.stats_offset(1))
        self.recorder = n.StatsPage(control, n.stats_offset(3))
        self.forwarder = Forwarder(1, control, rings, arenas, [-1])
        self.arena = n.ArenaOwner(arenas[0])
        self.actions = n.Producer(rings, n.action_ring_offset(0))
        self.work = n.Consumer(rings, n.work_ring_offset(0))
        self.now = 1_000_000
        self.core(1)

    def core(self, generation: int, every: int = 1) -> None:
        """Another life of the core, for the flow log."""
        self.telemetry = Telemetry(self.forwarder, self.flow, b"me", generation)
        self.telemetry.record(every)

    def reader(self) -> n.FlowReader:
        return n.FlowReader(self.flow)

    def attach(self) -> None:
        self.address = address = self.forwarder.add_address(1)
        self.rename(b"news")
        for link, outgoing in ((0, False), (1, True)):
            assert self.forwarder.add_link(0, link, 1, LinkTerms(outgoing, address, 1000))
            who = (b"receiver", b"bob", b"10.0.0.2") if outgoing else (b"sender", b"alice", b"10.0.0.1")
            container, user, host = map(self.telemetry.name, who)
            self.telemetry.add_link(
                0, link, 1, connection=7 + link, number=70 + link, container=container, kind=0, user=user, host=host
            )
        self.turn()

    def rename(self, address: bytes) -> None:
        """From now on the address is called so; the name may be forgotten once others take its place."""
        number = self.telemetry.name(address)
        self.telemetry.name_address(self.address, number)
        self.telemetry.forget(number)

    def turn(self) -> list[dict[str, int]]:
        """Let the core work; what it asks of the worker."""
        self.now += 1000
        self.actions.publish()
        self.forwarder.step(self.now)
        self.forwarder.publish()
        found = []
        while (record := self.work.pop()) is not None:
            found.append(n.unpack(record))
        self.work.give_back()
        return found

    def send(self, size: int = 100, presettled: bool = False, **told: int) -> dict[str, int]:
        """One message, on to its receiver: what the worker is asked to send. ``told``: what its record says
        for the flow log (F_BRIEF)."""
        block = self.arena.write(b"x" * size)
        assert block is not None
        flags = n.F_COMPLETE | (n.F_SETTLED if presettled else 0) | (n.F_BRIEF if told else 0)
        record = n.pack(
            type=n.A_DELIVER, flags=flags, link=0, link_gen=1, block=block, length=size, priority=4,
            peer=0 if presettled else 1 << 32 | 5, time=self.now, **told,
        )  # fmt: skip
        assert self.actions.push(record)
        sends = [one for one in self.turn() if one["type"] == n.W_SEND]
        return sends[0] if sends else {}

    def settle(self, send: dict[str, int], state: int = n.S_ACCEPTED, waited: int = 0) -> None:
        """The receiver's worker tells its outcome, sent 200 ns ago."""
        presettled = bool(send["flags"] & n.F_SETTLED)
        record = n.pack(
            type=n.A_DONE if presettled else n.A_UPDATE, delivery=send["peer"], link=1, link_gen=1,
            flags=0 if presettled else n.F_SETTLED, state=0 if presettled else state, time=self.now - 200,
            length=waited,
        )  # fmt: skip
        assert self.actions.push(record)
        for one in self.turn():
            if one["type"] in (n.W_UPDATE, n.W_RELEASE) and one["block"] != n.NIL:
                self.arena.free_chain(one["block"])

    def pass_on(self, count: int = 1) -> None:
        for _ in range(count):
            self.settle(self.send())

    def fill(self, left: int) -> None:
        """As if the recorder had read nothing for long: there is room for so many records."""
        head = int.from_bytes(self.flow[64:72], "little")
        self.flow[128:136] = ((head + left - n.TELEMETRY_ROOM) % (1 << 64)).to_bytes(8, "little")
        self.core(1)

    def waits(self, records: int) -> None:
        """As if the recorder had read all but so many."""
        head = int.from_bytes(self.flow[64:72], "little")
        self.flow[128:136] = (head - records).to_bytes(8, "little")

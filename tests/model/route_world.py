"""A Route Manager and its applications, without processes: messages under way, connections that are lost,
both ends that start again. Everything that happens is a function of the seed."""

import random
from collections import deque
from collections.abc import Callable

from core.rmr.managers import application as a
from core.rmr.managers.client import AWAY, Client
from core.rmr.managers.messages import STATE, TABLE, Heard, Said
from core.rmr.managers.server import Event, Server
from core.rmr.managers.stream import Held, Stream
from core.rmr.tables.lookup import winner
from core.rmr.tables.parser import Parser
from core.rmr.tables.table import MeidMap, Table
from tests.model.clock import BEGIN
from tests.support.values.table_use import Use

S = 1_000_000_000
KEYS = [(mt, sid) for mt in range(3) for sid in (-1, 0)]
MEIDS = ["x", "y", "z"]


class Program:
    """An application: ours (``patient`` False), which asks until it has a table, or one on the RMR library,
    which asks until it has heard anything."""

    def __init__(self, world: "World", number: int, patient: bool) -> None:
        self.world, self.number, self.patient = world, number, patient
        self.control = f"app{number}:2"
        self.connection = ""
        self.life = 0
        self.start()

    def start(self) -> None:
        """Another instance: nothing of the former one is left."""
        self.life += 1
        self.use = Use()
        self.based = False
        self.heard = False
        self.client = Client("rm:1", f"app{self.number}:1", 5, self.ask, lambda: 1)
        self.begin()

    def begin(self) -> None:
        self.stream = Stream(self.install, lambda: self.based, self.answer, self.told, self.patient, Held(lambda: None))

    def ask(self, said: Said) -> bool:
        if not self.connection or (self.heard and self.patient):
            return False
        self.world.carry(self.connection, said._replace(source=self.control), up=True)
        return True

    def install(self, value: Table | MeidMap, done: Callable[[str], None]) -> None:
        self.use = self.use.apply(value)
        self.whole = isinstance(value, Table) and value.complete
        self.based = self.based or self.whole
        done("")

    def told(self, _: Heard, table_id: str, reason: str) -> None:
        self.client.table(table_id, reason, not reason and self.whole, self.world.now)

    def answer(self, heard: Heard, said: Said) -> None:
        self.world.carry(heard.answer, said._replace(source=self.control), up=True)

    def receive(self, said: Said, connection: str) -> None:
        """A message of the manager's."""
        assert said.kind == TABLE, "nothing else may go to a control port"
        assert said.call == 0
        self.heard = True
        self.stream.message(Heard(TABLE, said.source, said.payload, connection, xact=said.xact))
        while self.stream.busy:
            self.stream.step()


class World:
    """All of them, and what is between them."""

    def __init__(self, seed: int, programs: int = 3) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a schedule, no secret
        self.now = BEGIN
        self.lives = 0
        self.use = Use()
        self.wanted: set[str] = set()
        self.connections: dict[str, Program] = {}
        self.wires: dict[tuple[str, bool], deque[Said]] = {}
        self.numbers = 0
        self.programs = [Program(self, number, bool(number % 2)) for number in range(programs)]
        self.server = Server("", "", self, self.hear)
        self.restart()

    # ---- what the server sees ----

    def hear(self, event: Event) -> None:
        assert event.kind in ("request", "restart", "ok", "err", "late")

    def room(self, connection: str) -> int:
        return 4 - len(self.wires.get((connection, False), ()))

    def send(self, connection: str, said: Said) -> bool:
        return self.carry(connection, said, up=False)

    def reach(self, control: str, wanted: bool) -> None:
        (self.wanted.add if wanted else self.wanted.discard)(control)
        for connection, program in list(self.connections.items()):
            if not wanted and program.control == control and program.connection != connection:
                self.cut(connection)

    # ---- what happens ----

    def carry(self, connection: str, said: Said, up: bool) -> bool:
        wire = self.wires.get((connection, up))
        if wire is not None:
            wire.append(said)
        return wire is not None

    def connect(self, program: Program, dialled: bool) -> None:
        self.numbers += 1
        connection = f"c{self.numbers}"
        self.connections[connection] = program
        self.wires[connection, True], self.wires[connection, False] = deque(), deque()
        if dialled:
            self.server.reached(program.control, connection, self.now)
        else:
            program.connection = connection
            program.client.connected(self.now)

    def cut(self, connection: str) -> None:
        """A connection is lost, with what was under way."""
        program = self.connections.pop(connection)
        del self.wires[connection, True], self.wires[connection, False]
        self.server.lost(connection, self.now)
        if program.connection == connection:
            program.connection = ""
            program.client.lost(self.now)
            if not program.patient:
                program.stream.lost()
                program.begin()

    def restart(self) -> None:
        """The manager starts again: it knows who was there, and nothing else."""
        known = {(one.endpoint, one.control, one.dial) for one in self.server}
        for connection in list(self.connections):
            self.cut(connection)
        self.lives += 1
        self.wanted.clear()
        self.server = Server(f"life{self.lives}", "rm:1", self, self.hear, piece=100)
        if self.use.table is not None:
            self.server.install(self.use, None)
        for endpoint, control, dial in sorted(known):
            self.server.know(endpoint, control, dial)

    def renew(self, program: Program) -> None:
        """An application starts again."""
        for connection in [key for key, one in self.connections.items() if one is program]:
            self.cut(connection)
        program.start()

    def change(self) -> None:
        """Another table, an update or a map is installed at the manager."""
        dice = self.random
        lines = []
        kind = dice.choice(["newrt", "updatert", "meid_map"]) if self.use.table is not None else "newrt"
        for _ in range(dice.randrange(1, 5)):
            mt, sid = dice.choice(KEYS)
            if kind == "meid_map":
                meid, owner = dice.choice(MEIDS), dice.choice(["a:1", "b:1"])
                lines.append(f"mme_del|{meid}" if dice.random() < 0.4 else f"mme_ar|{owner}|{meid}")
            elif kind == "updatert" and dice.random() < 0.3:
                lines.append(f"del|{mt}|{sid}")
            else:
                lines.append(f"mse|{mt}|{sid}|{dice.choice(['a:1', 'b:1,c:1', '%meid'])}")
        text = "\n".join([f"{kind}|start|{dice.choice(['t', 'my table', ''])}", *lines, f"{kind}|end|{len(lines)}\n"])
        (value,) = Parser().feed(text)
        assert isinstance(value, Table | MeidMap)
        self.use = self.use.apply(value)
        self.server.install(self.use, value)

    def deliver(self) -> None:
        """One message arrives."""
        waiting = [key for key, wire in self.wires.items() if wire]
        if not waiting:
            return
        connection, up = self.random.choice(waiting)
        said = self.wires[connection, up].popleft()
        program = self.connections[connection]
        if not up:
            program.receive(said, connection)
            return
        heard = Heard(said.kind, said.source, said.payload, connection, xact=said.xact)
        if said.kind == STATE:
            self.server.answered(heard, self.now)
        else:
            assert not self.server.requested(heard, heard.source, self.now)

    def tick(self) -> None:
        """Time passes; who wants a connection may get one."""
        self.now += self.random.choice([S // 100, S // 10, S, 3 * S])
        for program in self.programs:
            dialled = any(one is program and key != program.connection for key, one in self.connections.items())
            if program.client.state == AWAY and not program.connection and not (program.patient and program.heard):
                self.connect(program, dialled=False)
            elif program.control in self.wanted and not dialled:
                self.connect(program, dialled=True)
            program.client.step(self.now)
        self.server.step(self.now)

    def settle(self) -> None:
        """Nothing more goes wrong until everything has arrived."""
        for _ in range(600):
            self.tick()
            while any(self.wires.values()):
                self.deliver()
                self.server.step(self.now)

    # ---- what has to hold ----

    def same(self, use: Use) -> bool:
        """Whether every message goes where it goes here. A manager that has started again does not know of
        managed entities that were taken away before."""
        for key in KEYS:
            here, there = (None if one.table is None else winner(one.table, key, "") for one in (self.use, use))
            if (here and str(here.groups)) != (there and str(there.groups)):
                return False
        known = {meid: owner for meid, owner in use.owners.items() if self.lives == 1 or meid in self.use.owners}
        return known == dict(self.use.owners)

    def up_to_date(self, one: a.Application) -> bool:
        """Whether an application has acknowledged what is in use here."""
        return self.server._has_table(one) and self.server._has_map(one)

    def check(self) -> None:
        """Who is said to run what we do, does."""
        for one in self.server:
            if one.state == a.OK:
                (program,) = [found for found in self.programs if found.control == one.control]
                assert one.table.acknowledged != a.NOTHING
                assert not self.up_to_date(one) or self.same(program.use), program.number

"""A core that talks with a Route Manager and with applications, through the links of RMR connections."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bench import contract as n
from bench.contract import C_ATTACH, C_CONNECTION_CLOSED, C_CONNECTION_OPENED, C_DETACH, C_ENDPOINT
from core.amqp.codec import mapping, section, symbol
from core.rmr.active.route_tables import RouteTables
from core.rmr.managers import application as a
from core.rmr.managers.envelope import ANNOTATION, opened
from core.rmr.managers.manager_sessions import ManagerSessions
from core.rmr.managers.messages import REQUEST, STATE, TABLE, Heard
from core.rmr.managers.stream import NO_BASE
from shm.contract.control import SetTables, Setup, WorkerGone
from shm.contract.payloads import Attach, ConnectionClosed, ConnectionOpened, Detach, Endpoint
from shm.contract.tables import TableSetup
from tests.support.beds.one_worker import OneWorker
from tests.support.clients import rmr_frames as frames

ARENA = 16 * 1024 * 1024
S = 1_000_000_000
GOOD = b"newrt|start|t1\nmse|1|-1|a:1\nnewrt|end|1\n"


class Bed(OneWorker):
    """A core with one worker, whose connections speak RMR. ``told`` is what each has received."""

    def __init__(
        self, seed: bytes = b"seed", snapshot_store: Callable[[str], str] = lambda _: "", **table: Any
    ) -> None:
        setup = TableSetup("routes", "routes", source="me:4560", **table)
        configured = Setup("core", 1, 1, "/none", "me", "0", 1, [-1], tables=[setup])
        super().__init__(ARENA, seed=seed, setup=configured, snapshot_store=snapshot_store)
        self.now = S
        self.handles = 1 << 32
        self.told: dict[int, list[Heard]] = {}
        self.endpoints: dict[str, bool] = {}
        self.run()

    def connect(self, number: int, host: str = "10.0.0.9:1", container: str = "", role: str = "rmr") -> None:
        """A connection: link 2n sends control messages, link 2n+1 receives."""
        address = f"routes/$to/{container}" if container else ""
        what = ConnectionOpened(number, 1, container or host, host, role=role, number=100 + number, connector=address)
        self.say(C_CONNECTION_OPENED, what)
        self.say(C_ATTACH, Attach(2 * number, 1, number, "in", False, "routes/$rm"))
        name = f"routes/$conn/me/{100 + number}"
        self.say(C_ATTACH, Attach(2 * number + 1, 1, number, "out", True, name, capacity=100))
        self.told[number] = []
        self.run()

    def close(self, number: int) -> None:
        for link in (2 * number, 2 * number + 1):
            self.say(C_DETACH, Detach(link, 1, lost=True))
        self.say(C_CONNECTION_CLOSED, ConnectionClosed(number, 1))
        self.run()

    def frame(self, number: int, kind: int, payload: bytes, source: str = "rm:1") -> list[Heard]:
        """A frame comes on a connection; what is sent on it then."""
        frame = frames.Frame(kind, payload, source=source)
        header = frames.header(frame)
        put = [b"\xb0" + len(one).to_bytes(4, "big") + one for one in (header, payload)]
        content = section(0x72, mapping([(symbol(ANNOTATION), put[0])])) + section(0x75, put[1])
        block = self.arena.write(content)
        assert block is not None
        self.handles += 1
        self.act(
            type=n.A_DELIVER, flags=n.F_COMPLETE, link=2 * number, link_gen=1, block=block, peer=self.handles,
            length=len(content), time=1,
        )  # fmt: skip
        self.run()
        told, self.told[number] = self.told[number], []
        return told

    def run(self, seconds: float = 0) -> None:
        """Until nothing happens any more."""
        self.now += int(seconds * S) + 1
        for _ in range(6):
            self.core.step(self.now)
            self.core.tick(self.now)
            self.core.step(self.now)
            while (record := self.work.pop()) is not None:
                self._work(n.unpack(record))
            self.work.give_back()

    def _work(self, record: dict[str, int]) -> None:
        if record["type"] == n.W_SEND:
            content = n.ChainReader(self.core_arena, record["block"]).read()
            self.told[record["link"] // 2].append(opened(content, "", ""))
            self.act(type=n.A_DONE, delivery=record["peer"])
        elif record["type"] == n.W_CONTROL:
            if record["state"] == C_ENDPOINT:
                endpoint = msgspec.msgpack.decode(self.core_arena.read(record["block"]), type=Endpoint)
                self.endpoints[endpoint.address] = endpoint.open
            self.act(type=n.A_FREE, arena=1, block=record["block"])
        elif record["type"] == n.W_RELEASE or record["flags"] & n.F_RELEASE:
            assert record["block"] == n.NIL or self.arena.free_chain(record["block"])

    def install(self, text: str) -> None:
        active = self.core.plane(RouteTables).find("routes")
        assert active is not None
        self.core.plane(RouteTables).take(active.feed("push admin", lambda _: None), text, last=True)
        self.run()

    @property
    def entries(self) -> list[str]:
        active = self.core.plane(RouteTables).find("routes")
        assert active is not None
        return [] if active.table is None else [str(row) for row in active.table.value.rows()]

    @property
    def applications(self) -> list[a.Application]:
        (session,) = self.core.plane(ManagerSessions)
        return list(session.server or ())


def test_the_manager_is_asked_and_its_table_is_used() -> None:
    """From the request to the acknowledgement, through the forwarder."""
    bed = Bed(manager="rm:4561")
    assert bed.endpoints == {"routes/$to/rm:4561": True}
    bed.connect(1, container="rm:4561")
    bed.run(1)
    (asked,) = bed.told[1]
    assert (asked.kind, asked.payload.split()[0], asked.source) == (REQUEST, b"me:4560", "me:4560")
    bed.told[1].clear()
    (told,) = bed.frame(1, TABLE, GOOD)
    assert (told.kind, told.payload) == (STATE, b"OK t1 \n\0")
    assert bed.entries == ["mse|1|-1|a:1"]
    assert bed.endpoints["routes/a:1"]
    (told,) = bed.frame(1, TABLE, b"newrt|start|t2\nmse|1|-1|b:1\nnewrt|end|5\n")
    assert told.payload == b"ERR t2 missing table records: expected 5 got 1\n\n\0"
    assert bed.entries == ["mse|1|-1|a:1"]
    active = bed.core.plane(RouteTables).find("routes")
    assert active is not None
    assert active.history.refused == 1
    assert "t2 from rm:1 at 10.0.0.9:1: missing table records" in active.history.last_error


def test_a_large_table_in_one_frame() -> None:
    """Longer than what others may say to the core; read slice by slice."""
    bed = Bed(manager="rm:4561")
    bed.connect(1, container="rm:4561")
    bed.run(1)
    bed.told[1].clear()
    lines = [f"mse|{number}|-1|host{number % 100}.example.org:4560" for number in range(40_000)]
    payload = "\n".join(["newrt|start|big", *lines, "newrt|end|40000", ""]).encode()
    assert len(payload) > 1 << 20
    told = bed.frame(1, TABLE, payload)
    for _ in range(100):
        bed.run()
    told += bed.told[1]
    assert told[0].payload == b"OK big \n\0"
    assert len(bed.entries) == 40_000


def test_an_application_gets_its_table_and_what_changes() -> None:
    """Over its own connection; who runs what is known."""
    bed = Bed(serve=True, served_as="router:4560")
    bed.install(GOOD.decode())
    bed.connect(1, "10.0.0.3:40000")
    (table,) = bed.frame(1, REQUEST, b"app:1 ts=5\n\0", "app:2")
    assert (table.kind, table.source) == (TABLE, "router:4560")
    assert table.payload.splitlines()[1] == b"mse|1|-1|a:1"
    table_id = table.payload.split(b"\n")[0].split(b"|")[2]
    assert bed.frame(1, STATE, b"OK " + table_id + b" \n\0", "app:2") == []
    (one,) = bed.applications
    assert (one.state, one.endpoint, one.control) == (a.OK, "app:1", "app:2")
    bed.install("updatert|start|u\nmse|7|-1|b:1\nupdatert|end|1\n")
    (update,) = bed.told[1]
    assert update.payload.splitlines()[1] == b"mse|7|-1|b:1"
    assert update.payload.startswith(b"updatert|start|")
    bed.install("meid_map|start|m\nmme_ar|a:1|x\nmeid_map|end|1\n")
    assert one.state == a.PENDING


def test_only_what_came_over_rmr_is_a_control_message() -> None:
    """An AMQP client's message to the same address is none, whatever it says."""
    bed = Bed(serve=True, push_from=("0.0.0.0/0",))
    bed.install(GOOD.decode())
    bed.connect(1, role="normal")
    assert bed.frame(1, REQUEST, b"app:1 ts=5\n\0", "app:2") == []
    assert bed.frame(1, TABLE, b"newrt|start\nnewrt|end|0\n") == []
    assert bed.applications == []
    assert bed.entries == ["mse|1|-1|a:1"]


def test_a_table_longer_than_a_message_leaves_in_pieces() -> None:
    """As the connection takes them, and never more than the core's arena can hold."""
    bed = Bed(serve=True)
    bed.install(
        "\n".join(["newrt|start", *(f"mse|{one}|-1|a.example.org:1" for one in range(40_000)), "newrt|end", ""])
    )
    bed.connect(1)
    pieces = bed.frame(1, REQUEST, b"app:1 ts=5\n\0", "app:2")
    for _ in range(100):
        bed.run()
        pieces += bed.told[1]
        bed.told[1].clear()
    assert len(pieces) > 10
    assert len({piece.xact for piece in pieces}) == 1
    assert sum(piece.payload.count(b"mse|") for piece in pieces) == 40_000


def test_applications_are_found_again_after_the_core_or_the_router_has_started_anew(tmp_path: Path) -> None:
    """They ask only once, so they are remembered in a file, and connected to."""
    known = str(tmp_path / "known")
    bed = Bed(serve=True, applications=known)
    bed.install(GOOD.decode())
    bed.connect(1, "10.0.0.3:40000")
    bed.frame(1, REQUEST, b"app:1 ts=5\n\0", "app:2")
    bed.run(2)
    again = Bed(b"another", serve=True, applications=known)
    assert again.endpoints == {"routes/$to/10.0.0.3:2": True}
    assert [(one.endpoint, one.control, one.state) for one in again.applications] == [("app:1", "app:2", a.UNKNOWN)]
    again.install(GOOD.decode())
    again.connect(1, "10.0.0.3:2", container="10.0.0.3:2")
    again.run(1)
    (table,) = again.told[1]
    assert table.payload.startswith(b"newrt|start|t1@")
    again.close(1)
    again.run(1)
    assert again.applications[0].reason == "the connection was lost"


def test_the_next_core_finds_applications_again_without_a_file_of_theirs(tmp_path: Path) -> None:
    """They are remembered beside the table in use, as long as the router lives."""

    def snapshot_store(name: str) -> str:
        return str(tmp_path / name)

    bed = Bed(serve=True, snapshot_store=snapshot_store)
    bed.install(GOOD.decode())
    bed.connect(1, "10.0.0.3:40000")
    bed.frame(1, REQUEST, b"app:1 ts=5\n\0", "app:2")
    bed.run(2)
    again = Bed(b"another", serve=True, snapshot_store=snapshot_store)
    assert again.endpoints["routes/$to/10.0.0.3:2"]
    again.run()
    again.connect(1, "10.0.0.3:2", container="10.0.0.3:2")
    again.run(1)
    (table,) = again.told[1]
    assert b"mse|1|-1|a:1" in table.payload


def test_an_update_behind_a_restart_waits_for_a_whole_table(tmp_path: Path) -> None:
    """As behind a seed: who sends it may not know what is in use. The table of before routes meanwhile."""
    update = b"updatert|start|u\nmse|2|-1|b:1\nupdatert|end|1\n"
    stash = str(tmp_path / "kept")
    bed = Bed(manager="rm:4561", stash=stash)
    bed.connect(1, container="rm:4561")
    bed.frame(1, TABLE, GOOD)
    assert bed.frame(1, TABLE, update)[-1].payload.startswith(b"OK u ")
    again = Bed(b"another", manager="rm:4561", stash=stash)
    again.connect(1, container="rm:4561")
    again.run()
    assert again.entries == bed.entries == ["mse|1|-1|a:1", "mse|2|-1|b:1"]
    assert again.frame(1, TABLE, update)[-1].payload.decode().startswith(f"ERR u {NO_BASE}")
    assert again.entries == bed.entries
    assert again.frame(1, TABLE, GOOD)[-1].payload.startswith(b"OK t1 ")
    assert again.frame(1, TABLE, update)[-1].payload.startswith(b"OK u ")


def test_a_worker_that_dies_takes_its_connections_along() -> None:
    """Its successor is told what to connect to; the manager is asked again then."""
    bed = Bed(manager="rm:4561", serve=True)
    bed.connect(1, container="rm:4561")
    bed.connect(2, "10.0.0.3:40000")
    bed.run(1)
    bed.frame(1, TABLE, GOOD)
    bed.frame(2, REQUEST, b"app:1 ts=5\n\0", "app:2")
    bed.endpoints.clear()
    bed.core.worker_gone(WorkerGone(0, 1), bed.now)
    bed.run(1)
    assert bed.applications[0].state == a.UNKNOWN
    assert {"routes/$to/rm:4561", "routes/$to/10.0.0.3:2"} <= bed.endpoints.keys()
    bed.arena = n.ArenaOwner(bed.core.local._segments[0])
    bed.connect(1, container="rm:4561")
    bed.run(1)
    assert [told.kind for told in bed.told[1]] == [REQUEST]
    assert bed.entries == ["mse|1|-1|a:1"]


def test_who_is_known_stays_so_when_the_configuration_changes() -> None:
    """A changed seed is nothing to them; other settings are, and they are connected to again."""
    bed = Bed(serve=True)
    bed.install(GOOD.decode())
    bed.connect(1, "10.0.0.3:40000")
    bed.frame(1, REQUEST, b"app:1 ts=5\n\0", "app:2")
    (one,) = bed.applications
    bed.core.configure(SetTables([TableSetup("routes", "routes", serve=True, source="me:4560", stamp=(1,))]))
    assert bed.applications == [one]
    bed.core.configure(SetTables([TableSetup("routes", "routes", serve=True, source="me:4561")]))
    bed.run(1)
    assert [(other.endpoint, other.control) for other in bed.applications] == [("app:1", "app:2")]
    assert bed.endpoints["routes/$to/10.0.0.3:2"]


def test_another_configuration_is_another_manager() -> None:
    """The former one is let go of; what it gave stays in use."""
    bed = Bed(manager="rm:4561")
    bed.connect(1, container="rm:4561")
    bed.run(1)
    bed.frame(1, TABLE, GOOD)
    bed.core.configure(SetTables([TableSetup("routes", "routes", manager="other:1", source="me:4560")]))
    bed.run(1)
    assert not bed.endpoints["routes/$to/rm:4561"]
    assert bed.endpoints["routes/$to/other:1"]
    assert bed.entries == ["mse|1|-1|a:1"]
    bed.core.configure(SetTables([]))
    bed.run(1)
    assert not bed.endpoints["routes/$to/other:1"]
    assert bed.frame(1, TABLE, GOOD) == []

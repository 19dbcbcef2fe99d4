"""The flow log of a running router, with real clients: what it says is what they know."""

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from proton import Message, int32, symbol

from pipeline.flow_log.survey import survey
from shm.memory.segment import attach, segment_prefix
from shm.statistics.stats import COUNTERS
from tests.support.peer import ACCEPTED, MODIFIED, REJECTED, RELEASED, Net
from tests.support.pipeline.logs import lost
from tests.support.routers.network import NetworkRouter
from tests.support.running import Configuration, RunningRouter, address_of, until
from tests.support.servers.broker import Broker

LISTENER = "name: clients\n host: 127.0.0.1\n port: 0"
ENDPOINTS = ("127.0.0.1:1", "127.0.0.1:2")  # nobody listens there: AMQP clients receive for them
SEED = (
    "newrt|start|t\nmse|3000|-1|%meid\nmse|3001|-1|127.0.0.1:1;127.0.0.1:2\nnewrt|end|2\n"
    "meid_map|start|m\nmme_ar|127.0.0.1:1|ran-1\nmeid_map|end|1\n"
)
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
NAMES = {ACCEPTED: "accepted", REJECTED: "rejected", RELEASED: "released"}


class Logged:
    """A router with a flow log, and clients that keep count."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.directory = folder, folder / "flows"
        (folder / "seed.rt").write_text(SEED)
        self.planes = f"routeTable {{\n name: ric\n seed: {folder / 'seed.rt'}\n}}\n"
        self.planes += "routeWorker {\n address: F\n kind: forward\n trace: yes\n}\n"
        log = f"flowLog {{\n directory: {self.directory}\n rollAge: 1\n transactions: yes\n}}\n"
        self.section = self.planes + log
        complaints = r"(?:recorder|core) died|endpoint .*|flow log cannot be written"
        self.router = RunningRouter(
            folder, Configuration(listener=LISTENER, sections=self.section, expected=complaints)
        )
        self.recorders(1)

    def recorders(self, number: int) -> None:
        until(lambda: self.router.log.count("recorder serves") >= number, f"recorder {number}")

    def rows(self, address: str) -> list[dict[str, Any]]:
        return [row for row in self.all_rows() if row["address"] == address]

    def all_rows(self, directory: Path | None = None) -> list[dict[str, Any]]:
        files = sorted(((directory or self.directory) / "raw").rglob("*.parquet"))
        return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]

    def recorded(self, name: str) -> int:
        """A counter of the recorder."""
        with attach(segment_prefix(self.router.id, self.router.process.pid)) as segments:
            page = segments.recorder_stats()
            count = page.get(COUNTERS[name].place)
            del page
            return count

    def numbered(self) -> int:
        """The highest numbers of each worker's rows, summed: those that are missing count, too."""
        last: dict[int, int] = {}
        for row in self.all_rows():
            last[row["worker_id"]] = max(row["seq"], last.get(row["worker_id"], 0))
        return sum(last.values())

    def has(self, address: str, number: int) -> list[dict[str, Any]]:
        until(lambda: len(self.rows(address)) >= number, f"{number} rows of {address}")
        return self.rows(address)

    def exchange(self, address: str, number: int, halfway: Callable[[], None] = lambda: None) -> Counter[str]:
        """So many messages, some of which are rejected or released: what the sender was told."""
        with Net(self.router.address) as net:
            to, at = net.peer(), net.peer()
            receiver = at.receiver(address, 1000)
            sender = to.ready_sender(address)
            sent = []
            for one in range(number):
                if one == number // 2:
                    halfway()
                sent.append(net.send(sender, Message(body=b"x" * one)))
                (arrived,) = at.take(receiver)
                arrived.settle(REJECTED if one % 3 == 0 else RELEASED if one % 5 == 0 else ACCEPTED)
            return Counter(NAMES[state] for state in net.settled(*sent))

    def pid(self, role: str) -> int:
        with attach(segment_prefix(self.router.id, self.router.process.pid)) as segments:
            page = segments.recorder_stats() if role == "recorder" else segments.core_stats()
            pid = page.pid
            del page
            return pid

    def reload(self, sections: str, expected: str) -> None:
        text = Configuration(listener=LISTENER, sections=sections).text(self.router.id)
        (self.folder / "router.conf").write_text(text)
        before = len(self.router.log)
        os.kill(self.router.process.pid, signal.SIGHUP)
        until(lambda: expected in self.router.log[before:], expected)


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    logged = Logged(tmp_path_factory.mktemp("logged"))
    yield logged
    logged.router.stop()


def test_rows_are_what_the_clients_know(logged: Logged) -> None:
    """One row for each message, with its outcome, numbered without a gap; as many as the core has counted."""
    told = logged.exchange("flow.a", 60)
    rows = logged.has("flow.a", 60)
    assert Counter(row["outcome"] for row in rows) == told
    assert {row["router_id"] for row in rows} == {logged.router.id}
    assert all(row["settle_ns"] >= row["latency_ns"] >= 0 for row in rows)
    assert len({row["size_bytes"] for row in rows}) > 30
    assert sorted(row["seq"] for row in rows) == list(range(1, 61))
    assert logged.router.core["flow_records"] == 60


def passed(logged: Logged, message: Message, to: str | None, *at: str) -> None:
    """A message goes to each of these receivers, who accept it."""
    with Net(logged.router.address) as net:
        peer = net.peer()
        receivers = [peer.receiver(one, 1) for one in at]
        sent = net.send(net.peer().ready_sender(to), message)
        for receiver in receivers:
            (arrived,) = peer.take(receiver)
            arrived.settle()
        assert net.settled(sent) == [ACCEPTED]


def test_all_planes_fill_their_columns(logged: Logged) -> None:
    """Addresses, route tables and source routes: what a message says of itself is in its rows."""
    told = Message(id="one", body=b"x" * 50, properties={"traceparent": f"00-{TRACE}-{SPAN}-01"})
    told.delivery_count = 3
    passed(logged, told, "flow.told", "flow.told")
    (row,) = logged.has("flow.told", 1)
    assert (row["redelivery"], row["fragment_count"], row["by_meid"]) == (3, 1, None)
    assert (row["trace_id"].hex(), row["span_id"].hex()) == (TRACE, SPAN)
    assert row["size_bytes"] > row["body_bytes"] > 50
    passed(logged, Message(id="one", body=b"x" * 50), "flow.brief", "flow.brief")
    (brief,) = logged.has("flow.brief", 1)
    assert row["msg_id_hash"] == brief["msg_id_hash"] > 0
    assert brief["size_bytes"] > brief["body_bytes"] == row["body_bytes"]
    assert (brief["redelivery"], brief["trace_id"]) == (0, None)
    assert (row["xact_id"], row["onward_route"], row["return_route"]) == (None, None, None)

    header = bytearray(280)
    header[12:16] = b"xact"
    managed = Message(body=b"x", properties={"rmr.mt": 3000, "rmr.meid": "ran-1"})
    managed.annotations = {symbol("x-opt-rmr.header"): bytes(header)}
    passed(logged, managed, "ric", f"ric/{ENDPOINTS[0]}")
    passed(logged, Message(properties={"rmr.mt": 3001}), "ric", *(f"ric/{one}" for one in ENDPOINTS))
    owned, *copies = sorted(logged.has("ric", 3), key=lambda one: int(one["mtype"]))
    assert (owned["meid"], owned["by_meid"], owned["xact_id"]) == ("ran-1", True, b"xact")
    assert [row["by_meid"] for row in copies] == [False, False]
    assert len({row["message_number"] for row in copies}) == 1
    assert sorted(row["further_copy"] for row in copies) == [False, True]
    assert owned["message_number"] != copies[0]["message_number"]
    with Net(logged.router.address) as net:
        lost = Message(address="ric", properties={"rmr.mt": 3002, "rmr.sub-id": 5, "rmr.meid": "ran-2"})
        sent = [net.send(net.peer().ready_sender(target), lost) for target in ("ric", None)]
        assert net.settled(*sent) == [RELEASED] * 2
    keys = [(row["mtype"], row["sub_id"], row["meid"]) for row in logged.has("ric", 5) if row["kind"] == "drop"]
    assert keys == [(3002, 5, "ran-2")] * 2  # of the second one the core has read the key

    routed = Message(body=b"x")
    routed.annotations = {symbol("x-opt-route.onward"): ["F", "flow.end"], symbol("x-opt-route.return"): ["me"]}
    passed(logged, routed, None, "flow.end")
    (row,) = logged.has("flow.end", 1)
    assert (row["onward_route"], row["return_route"], row["route_state"]) == ("flow.end", "F=>me", "complete")

    as_text, as_list = [symbol("me"), "you"], ["A", [int32(7), b"B"]]
    routed.annotations = {symbol("x-opt-route.onward"): as_list, symbol("x-opt-route.return"): as_text}
    passed(logged, routed, "flow.passed", "flow.passed")
    (row,) = logged.has("flow.passed", 1)
    assert (row["onward_route"], row["return_route"], row["route_state"]) == ("A=>7#B", "me=>you", None)


def test_a_killed_recorder_costs_nothing(logged: Logged) -> None:
    """In the middle of traffic, which goes on, three times: each record is in a file once, numbered without a
    gap, with its names, and nothing is said to be lost."""

    def kill() -> None:
        following = logged.router.log.count("recorder serves") + 1
        os.kill(logged.pid("recorder"), signal.SIGKILL)
        logged.recorders(following)

    told = Counter[str]()
    for _ in range(3):
        told += logged.exchange("flow.b", 30, kill)
    rows = logged.has("flow.b", told.total())
    assert Counter(row["outcome"] for row in rows) == told
    until(lambda: logged.numbered() == len(logged.all_rows()), "every number")
    numbers = Counter((row["boot_id"], row["worker_id"], row["seq"]) for row in logged.all_rows())
    assert set(numbers.values()) == {1}
    assert lost(logged.directory) == 0
    assert survey(str(logged.directory)).rows == logged.router.core["flow_records"]
    assert not list(logged.directory.rglob(".*.spool")) or logged.recorded("flow_recovered") > 0


def test_a_killed_core_begins_another_life(logged: Logged) -> None:
    """In the middle of traffic: what senders were told before has its rows, what was open has none, and its
    successor's rows have another boot_id, and are numbered from 1. No file is left unfinished."""
    recorded = logged.router.core["flow_records"]
    with Net(logged.router.address) as net:
        at = net.peer()
        receiver = at.receiver("flow.c", 1000)
        sender = net.peer().ready_sender("flow.c")
        first = [net.send(sender, Message(body=b"x")) for _ in range(20)]
        for arrived in at.take(receiver, 20):
            arrived.settle(REJECTED)
        assert net.settled(*first) == [REJECTED] * 20
        doubtful = [net.send(sender, Message(body=b"x")) for _ in range(10)]
        at.take(receiver, 10)
        os.kill(logged.pid("core"), signal.SIGKILL)
        assert net.settled(*doubtful) == [MODIFIED] * 10
    until(lambda: logged.router.log.count("core serves") >= 2, "the next core")
    told = logged.exchange("flow.c", 20)
    rows = logged.has("flow.c", 40)
    lives = list(dict.fromkeys(row["boot_id"] for row in rows))
    before, behind = ([row for row in rows if row["boot_id"] == life] for life in lives)
    assert Counter(row["outcome"] for row in before) == {"rejected": 20}
    assert Counter(row["outcome"] for row in behind) == told
    assert sorted(row["seq"] for row in behind) == list(range(1, 21))
    assert logged.router.core["flow_records"] == recorded + 40  # the counter outlives the core
    assert not list(logged.directory.rglob(".*.tmp"))


@pytest.fixture
def small_disk(logged: Logged) -> Iterator[Path]:
    """A file system of 256 KiB; only root can make one."""
    folder = logged.folder / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S607  whichever umount there is


def test_a_full_disk_costs_rows_only(logged: Logged, small_disk: Path) -> None:
    """One sentence, and what is lost is counted; messages pass as before. It goes on when there is room."""
    before, pids = len(logged.router.log), (logged.pid("core"), logged.pid("recorder"))
    logged.reload(logged.section.replace(str(logged.directory), str(small_disk)), "flowLog changed")
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (256 - 8) * 1024)
    assert logged.exchange("flow.full", 5).total() == 5
    until(lambda: logged.recorded("flow_lost_no_space") == 5, "the loss")
    until(lambda: "cannot be written" in logged.router.log[before:], "the sentence")  # follows the counter
    said = [line for line in logged.router.log[before:].splitlines() if "cannot be written" in line]
    assert len(said) == 1
    assert f"{small_disk}/raw: No space left on device; " in said[0]
    assert "records are lost, and more until it can" in said[0]
    ballast.unlink()
    told = logged.exchange("flow.room", 5)
    until(lambda: len(logged.all_rows(small_disk)) == 5, "the rows")
    assert Counter(row["outcome"] for row in logged.all_rows(small_disk)) == told
    assert pids == (logged.pid("core"), logged.pid("recorder"))
    logged.reload(logged.section, "flowLog changed")


def test_it_is_switched_off_and_on(logged: Logged) -> None:
    """By a reload: nothing is recorded while it is off, and the recorder ends."""
    logged.reload(logged.planes, "flowLog removed")
    until(lambda: "recorder ended" in logged.router.log, "the recorder's end")
    before = logged.router.core["flow_records"]
    logged.exchange("flow.d", 5)
    assert logged.router.core["flow_records"] == before
    logged.reload(logged.section, "flowLog added")
    logged.recorders(3)
    told = logged.exchange("flow.e", 5)
    assert Counter(row["outcome"] for row in logged.has("flow.e", 5)) == told
    assert not logged.rows("flow.d")


def test_a_link_route_carries_no_path_and_a_copy_of_a_tee_has_no_row(tmp_path: Path) -> None:
    """The second router does not know where a routed message entered the network; a client did not send the copy."""
    log = f"flowLog {{\n directory: {tmp_path / 'flows'}\n rollAge: 1\n}}\n"
    door = "listener {\n host: 127.0.0.1\n port: 0\n role: route-container\n}\n"
    route = "linkRoute {\n prefix: routed\n direction: in\n containerId: broker\n}\n"
    tee = "routeWorker {\n address: T\n kind: tee\n route: copies\n}\n"
    first = NetworkRouter(tmp_path / "R1", more=log + tee)
    second = NetworkRouter(tmp_path / "R2", first.routers_url, more=log + door + route)
    try:
        for router in (first, second):
            until(lambda router=router: "recorder serves" in router.log, "the recorder")
        with Net(first.address) as net:
            broker = Broker(net, address_of(second.urls[2])).open()
            until(lambda: any("routed" in row["name"] for row in first.stat("addresses")), "the route")
            sender, taking = net.peer().ready_sender("routed.a"), broker.taken()
            sent = net.send(sender, Message(id="one", body=b"x"))
            arrived = broker.take(taking)[0].delivery
            arrived.update(ACCEPTED)
            arrived.settle()
            message = Message(body=b"x")
            message.annotations = {symbol("x-opt-route.onward"): ["T", "closest/end"]}
            peer = net.peer()
            links = [peer.receiver(one, 1) for one in ("closest/end", "copies")]
            copied = net.send(net.peer().ready_sender(None), message)
            for link in links:
                peer.take(link)[0].settle()
            assert net.settled(sent, copied) == [ACCEPTED] * 2
        rows: list[dict[str, Any]] = []

        def three() -> bool:
            rows[:] = [
                row
                for file in sorted((tmp_path / "flows").rglob("*.parquet"))
                for row in pq.ParquetFile(file).read().to_pylist()
                if row["address"] in ("routed.a", "closest/end", "copies")
            ]
            return len(rows) >= 3

        until(three, "the rows")
    finally:
        second.end()
        first.end()
    told = {(row["router_id"], row["address"]): (row["path"], row["hops"], row["ingress_kind"]) for row in rows}
    assert told == {
        (first.id, "routed.a"): (first.id, 0, "normal"),
        (second.id, "routed.a"): (None, None, "inter_router"),
        (first.id, "closest/end"): (first.id, 0, "normal"),
    }

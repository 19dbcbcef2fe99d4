"""A system that gives no thread ends no process: each thread's owner says so, and begins it later."""

import faulthandler
import mmap
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.management.request import Requester
from core.management.service import Service
from core.rmr.active.intake import Intake
from core.rmr.active.route_tables import RouteTables
from routerd.exporter.tracing import Tracing
from routerd.process import spare_stacks
from routerd.recorder.main import KEEPING_SECONDS, Keeping
from routerd.supervise.child import Death
from routerd.supervise.flight import Keeper
from shm.contract.complaints import Complaints
from shm.contract.failures import NO_THREAD, failures
from shm.contract.flow_log.setup import FlowLogSetup
from shm.contract.tracing import TracingSetup
from shm.contract.turns import Turns
from tests.support.beds.logins import Home
from tests.support.beds.recorder_desk import Desk
from tests.unit.house.test_failures import PLANTED, until
from workers.control.cyrus import Said
from workers.control.lookup import Lookup

HERE: Any = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80))]

Case = Callable[[pytest.MonkeyPatch, Path], Iterator[Callable[[], bool]]]


# Each begins its thread while there is none, then with one, and returns what must become true. ``yield`` is between.


def tables(monkeypatch: pytest.MonkeyPatch, _: Path) -> Iterator[Callable[[], bool]]:
    """What waits for it is done, though nothing more comes."""
    intake, done = Intake(lambda: None), threading.Event()
    intake._do(done.set)
    yield done.is_set
    tables = RouteTables.__new__(RouteTables)
    tables.intake = intake
    monkeypatch.setattr(tables, "_turn", lambda: None)
    tables.step(0)


def management(monkeypatch: pytest.MonkeyPatch, _: Path) -> Iterator[Callable[[], bool]]:
    """The next request has both answered."""
    answered: list[bytes] = []
    service = Service.__new__(Service)
    service._requests, service._thread = Turns(), None
    service._core = SimpleNamespace(local=SimpleNamespace(source=None))  # type: ignore[assignment]  # as much as is used
    monkeypatch.setattr(service, "_requester", lambda _: Requester(4))
    monkeypatch.setattr(service, "_answer", lambda content, _: answered.append(content))
    service.received(b"a")
    yield lambda: answered == [b"a", b"b"]
    service.received(b"b")


def lookup(monkeypatch: pytest.MonkeyPatch, _: Path) -> Iterator[Callable[[], bool]]:
    """Whoever waits for the host is told, and tries again."""
    known = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, flags: known(*asked, flags=flags) if flags else HERE)
    asked = Lookup("no.such.host.example", "80")
    assert (asked.done, asked.addresses) == (True, [])
    assert asked.error == f"host no.such.host.example cannot be looked up: there is no thread for it; {NO_THREAD}"
    again: list[Lookup] = []
    yield lambda: again[0].addresses == [(HERE[0][0], HERE[0][4])]
    again.append(Lookup("no.such.host.example", "80"))


def flow_log(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Callable[[], bool]]:
    """The next look is a whole one."""
    desk, looks = Desk(folder), list[str]()
    keeping = Keeping("me", desk.bed.recorder, lambda: desk.wall)
    keeping.configure(FlowLogSetup(str(folder)))
    look: Any = lambda name: lambda _: looks.append(name) or 0  # noqa: E731  a name for each
    keeper: Any = SimpleNamespace(doubted=0.0, recover=look("r"), compact=look("c"), delete=look("d"))
    keeping._keeper = keeper
    keeping.step(0)
    yield lambda: looks == ["r", "c", "d"]
    keeping.step(KEEPING_SECONDS)


def logins(monkeypatch: pytest.MonkeyPatch, _: Path) -> Iterator[Callable[[], bool]]:
    """Its client is let in, though no other one asks."""
    home = Home(monkeypatch)
    home.answers = {b"r": Said(0, b"", "bob")}
    home.say(1000, b"r")
    yield lambda: ("admit", 1000, "bob") in home.done
    home.until(1)


def stacks(monkeypatch: pytest.MonkeyPatch, _: Path) -> Iterator[Callable[[], bool]]:
    """The next crash is told of at once, rather than never."""
    enabled: list[bool] = []
    monkeypatch.setattr(faulthandler, "is_enabled", lambda: True)
    monkeypatch.setattr(faulthandler, "disable", enabled.clear)
    monkeypatch.setattr(faulthandler, "enable", lambda: enabled.append(True))
    spare_stacks(["SIGSEGV"])
    yield lambda: enabled == [True]


def tracing(monkeypatch: pytest.MonkeyPatch, _: Path) -> Iterator[Callable[[], bool]]:
    """Spans are sent a second later."""
    reader: Any = SimpleNamespace(lost=0, read=lambda _: [])  # the thread lives longer than this test
    one, turns = Tracing(reader, "me", "1"), []
    monkeypatch.setattr(one, "turn", lambda: turns.append(1) or 30.0)
    one.configure(TracingSetup("http://127.0.0.1:1/", 1))
    yield lambda: bool(turns)
    one.step(1.0)


def flight_recorder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Callable[[], bool]]:
    """The next core begins, and its records are kept; the supervisor would end with all processes."""
    written: list[Path] = []
    monkeypatch.setattr("shm.memory.flight.header", lambda _: SimpleNamespace(generation=1, pid=7))
    monkeypatch.setattr("shm.memory.flight.take", lambda *_, **__: SimpleNamespace(write=written.append))
    keeper, ring = Keeper(folder, "me", "0"), mmap.mmap(-1, mmap.PAGESIZE)
    keeper.keep(ring, Death(7, 1, "SIGKILL", ""), "a test")
    yield lambda: len(written) == 1
    keeper.keep(ring, Death(7, 1, "SIGKILL", ""), "a test")


CASES: dict[str, Case] = {
    "flight recorder": flight_recorder,
    "logins": logins,
    "tables": tables,
    "management": management,
    "lookup": lookup,
    "flow log": flow_log,
    "tracing": tracing,
    "stacks": stacks,
}


def test_each_thread_is_tried() -> None:
    assert {name for _, name in PLANTED} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_thread_that_the_system_does_not_give_is_told_and_begins_later(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As beyond TasksMax of a unit; the process goes on meanwhile."""

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(failures, "_complaints", Complaints())
    before = failures.number
    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", none)
        case = CASES[name](monkeypatch, tmp_path)
        done = next(case)
    assert failures.number == before + 1
    assert f"starting thread {name} failed: RuntimeError: can't start new thread; {NO_THREAD}" in caplog.text
    assert next(case, None) is None
    until(done)


def test_records_of_a_core_that_cannot_be_written_are_told_to_be_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Besides what is wrong: what comes of it."""
    monkeypatch.setattr(threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError("no")))
    next(flight_recorder(monkeypatch, tmp_path))
    assert f"The core's last records are lost: there is no thread to write them; {NO_THREAD}" in caplog.text

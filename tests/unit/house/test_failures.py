"""Nothing ends in silence: in a thread, the core or a page each exception is told, counted, survived."""

import ast
import faulthandler
import logging
import mmap
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from bench import contract as n
from bench.contract import C_ATTACH, C_CLOSE, C_CONNECTION_OPENED, C_DETACH
from core.management.service import Service
from core.rmr.active.intake import Feed, Intake, Values
from core.rmr.managers.manager_sessions import ManagerSessions
from routerd.exporter.server import Connection, Server
from routerd.exporter.tracing import Tracing
from routerd.process import spare_stacks
from routerd.recorder.main import Keeping
from routerd.supervise.child import Death
from routerd.supervise.flight import Keeper
from shm.contract import failures as module
from shm.contract.complaints import MINUTE, Complaints
from shm.contract.failures import TRACEBACKS, Failures, failures, start_thread, watch_process
from shm.contract.flow_log.setup import FlowLogSetup
from shm.contract.payloads import Attach, Close, ConnectionOpened, Detach
from shm.contract.tracing import TracingSetup
from tests.support.beds.local import Bed
from tests.support.beds.logins import Home
from tests.support.beds.recorder_desk import Desk
from workers.control.cyrus import Said
from workers.control.lookup import Lookup

ROOT = Path(__file__).parents[3]
LONG = 30.0
GOOD = "newrt|start|w\nmse|1|-1|a:1\nnewrt|end|1\n"


class PlantedError(Exception):
    """What no code raises."""


def fail(*_: Any, **__: Any) -> Any:
    raise PlantedError("planted")


def once(then: Callable[..., Any]) -> Callable[..., Any]:
    """What fails the first time and goes on as it should."""
    left = [fail]

    def call(*given: Any, **named: Any) -> Any:
        return (left.pop() if left else then)(*given, **named)

    return call


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test tells of its kinds anew, and no thread waits for a second."""
    monkeypatch.setattr(failures, "_complaints", Complaints())
    monkeypatch.setattr(failures, "_tracebacks", Complaints())  # other tests may have used up all of them
    monkeypatch.setattr(time, "sleep", lambda seconds, sleep=time.sleep: sleep(min(seconds, 0.001)))


# ---- threads ----


def tables(monkeypatch: pytest.MonkeyPatch, _: Path) -> Callable[[], bool]:
    """Outside of any text: the loop itself."""
    intake = Intake(lambda: None)
    monkeypatch.setattr(intake, "_take", once(intake._take))
    feed = Feed(Values(1), "push", False, lambda _: None)
    intake.put(feed, GOOD, True)
    intake.put(feed, GOOD, True)
    return lambda: len(intake.made) == 1


def management(monkeypatch: pytest.MonkeyPatch, _: Path) -> Callable[[], bool]:
    """Outside of any request: the loop itself."""
    answered: list[object] = []
    service = Service.__new__(Service)
    requests = [(b"", SimpleNamespace(peer="a")), (b"", SimpleNamespace(peer="b"))]

    def get() -> object:
        if not requests:
            threading.Event().wait()
        content, requester = requests.pop(0)
        return fail() if requester.peer == "a" else (content, requester)

    service._requests = SimpleNamespace(get=get)  # type: ignore[assignment]  # a queue that breaks
    monkeypatch.setattr(service, "_answer", lambda _, requester: answered.append(requester.peer))
    start_thread("management", service._serve, again=0.001)
    return lambda: answered == ["b"]


def lookup(monkeypatch: pytest.MonkeyPatch, _: Path) -> Callable[[], bool]:
    """Whoever waits for the addresses hears that there are none."""
    known = socket.getaddrinfo

    def find(*given: Any, flags: int = 0) -> Any:
        return known(*given, flags=flags) if flags else fail()

    monkeypatch.setattr(socket, "getaddrinfo", find)
    asked = Lookup("no.such.host.example", "80")
    return lambda: asked.done and "planted" in asked.error


def flow_log(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[[], bool]:
    """Files are deleted though they cannot be put together, and the next look is a whole one."""
    desk = Desk(folder)
    keeping = Keeping("me", desk.bed.recorder, lambda: desk.wall)
    keeping.configure(FlowLogSetup(str(folder)))
    looks: list[str] = []
    keeper: Any = SimpleNamespace(
        doubted=0.0,
        recover=lambda _: 0,
        compact=once(lambda _: looks.append("compact") or 0),
        delete=lambda _: looks.append("delete") or 0,
    )
    keeping._keeper = keeper
    keeping.step(0)
    assert keeping._thread is not None
    keeping._thread.join(LONG)
    keeping.step(100)
    keeping._thread.join(LONG)
    return lambda: looks == ["delete", "compact", "delete"]


def logins(monkeypatch: pytest.MonkeyPatch, _: Path) -> Callable[[], bool]:
    """Outside of any exchange: its client is refused, and the next one is let in."""
    home = Home(monkeypatch)
    home.answers = {b"r": Said(0, b"", "bob")}
    queue = home.logins._queue
    monkeypatch.setattr(queue, "answer", once(queue.answer))
    home.say(1000, b"r")
    assert home.logins._thread is not None
    home.logins._thread.join(LONG)
    home.say(2000, b"r")
    home.until(2)
    return lambda: ("admit", 2000, "bob") in home.done


def stacks(monkeypatch: pytest.MonkeyPatch, _: Path) -> Callable[[], bool]:
    """It is tried again."""
    enabled: list[bool] = []
    monkeypatch.setattr(faulthandler, "is_enabled", lambda: True)
    monkeypatch.setattr(faulthandler, "disable", lambda: None)
    monkeypatch.setattr(faulthandler, "enable", once(lambda: enabled.append(True)))
    spare_stacks(["SIGSEGV"])
    return lambda: enabled == [True]


def tracing(monkeypatch: pytest.MonkeyPatch, _: Path) -> Callable[[], bool]:
    """The next spans are sent."""
    reader: Any = SimpleNamespace(lost=0, read=lambda _: [])  # the thread lives longer than this test
    one, turns = Tracing(reader, "me", "1"), []
    monkeypatch.setattr(one, "turn", once(lambda: turns.append(1) or LONG))
    one.configure(TracingSetup("http://127.0.0.1:1/", 1))
    return lambda: bool(turns)


def flight_recorder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[[], bool]:
    """The next core begins all the same."""
    monkeypatch.setattr("shm.memory.flight.header", lambda _: SimpleNamespace(generation=1, pid=7))
    monkeypatch.setattr("shm.memory.flight.take", lambda *_, **__: SimpleNamespace(write=lambda _: fail()))
    Keeper(folder, "me", "0").keep(mmap.mmap(-1, mmap.PAGESIZE), Death(7, 1, "SIGKILL", ""), "a test")
    return lambda: True


PLANTED = {
    ("routerd/supervise/flight.py", "flight recorder"): flight_recorder,
    ("workers/control/logins.py", "logins"): logins,
    ("core/rmr/active/intake.py", "tables"): tables,
    ("core/management/service.py", "management"): management,
    ("workers/control/lookup.py", "lookup"): lookup,
    ("routerd/recorder/main.py", "flow log"): flow_log,
    ("routerd/exporter/tracing.py", "tracing"): tracing,
    ("routerd/process.py", "stacks"): stacks,
}
# Threads that need no `start_thread`: what they raise, their caller gets.
ASKED = dict.fromkeys(("pipeline/flow_log/memory.py", "pipeline/stopping.py"), "ThreadPoolExecutor")
BEGINNINGS = {
    *("Thread", "Timer", "ThreadPoolExecutor", "ProcessPoolExecutor", "start_new_thread"),
    *("create_task", "ensure_future", "run_in_executor", "run_coroutine_threadsafe", "to_thread"),
}


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """File, name of what is called, and the call, of all of the router's own code."""
    for folder in ("core", "pipeline", "routerd", "shm", "workers"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            text = file.read_text()
            if not any(name in text for name in (*BEGINNINGS, "start_thread")):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call):
                    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    yield str(file.relative_to(ROOT)), name, node


def test_every_thread_begins_in_one_place_and_has_an_exception_planted() -> None:
    """Whoever adds one reads here what it needs: `start_thread`, and a case in PLANTED."""
    begun = {(file, name) for file, name, _ in calls() if name in BEGINNINGS}
    assert begun == {("shm/contract/failures.py", "Thread"), *ASKED.items()}, "use failures.start_thread"
    ours = {
        (file, node.args[0].value)
        for file, name, node in calls()
        if name == "start_thread" and isinstance(node.args[0], ast.Constant)
    }
    assert ours == set(PLANTED), "plant an exception in it"


@pytest.mark.parametrize("case", PLANTED, ids=lambda case: case[1])
def test_a_thread_that_fails_is_told_counted_and_goes_on(
    case: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With its traceback; what it is for happens all the same."""
    before = failures.number
    until(PLANTED[case](monkeypatch, tmp_path))
    until(lambda: failures.number == before + 1)
    (record,) = [one for one in caplog.records if one.exc_info]
    assert "PlantedError: planted; " in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is PlantedError


def test_a_failure_is_counted_once_its_line_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for the count reads the log then."""
    told, seen = Failures(), list[int]()
    monkeypatch.setattr(module.LOGGER, "error", lambda *_, **__: seen.append(told.number))
    told.tell("this", ValueError("no"), "it goes on")
    assert (seen, told.number) == ([0], 1)


def test_exceptions_that_nobody_can_catch_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """In threads of others, and where there is no caller."""
    before, hooks = failures.number, (threading.excepthook, sys.unraisablehook)
    watch_process()
    try:
        other = threading.Thread(target=fail, name="other")
        other.start()
        other.join()
        type("Dying", (), {"__del__": fail})()
    finally:
        threading.excepthook, sys.unraisablehook = hooks
    assert failures.number == before + 2
    assert "thread other failed: PlantedError: planted; it has ended" in caplog.text
    assert "no code could catch it" in caplog.text


def test_the_same_again_is_counted_and_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    now = [0.0]
    told = Failures(lambda: now[0])
    page = Bed().stats
    for _ in range(100):
        told.tell("it", PlantedError("x"), "gone")
    told.count_in(page)
    told.tell("it", ValueError("x"), "gone")
    now[0] = MINUTE
    told.tell("it", PlantedError("x"), "gone")
    assert len(caplog.records) == 3
    assert page.get(module.FAILED) == told.number == 102


def test_a_flood_of_different_failures_has_few_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    """Each has its line, which names it; tracebacks are long."""
    caplog.set_level(logging.ERROR)
    told = Failures(lambda: 0.0)
    for number in range(100):
        told.tell(f"it {number}", PlantedError("x"), "gone")
    assert len(caplog.records) == 100
    assert sum(record.exc_info is not None for record in caplog.records) == TRACEBACKS


# ---- the core ----


def closed(bed: Bed) -> list[tuple[int, int, str]]:
    """A step of the core; the connections that it has closed, with the error."""
    read = bed.core_arena.read
    said = [one["block"] for one in bed.step() if one["type"] == n.W_CONTROL and one["state"] == C_CLOSE]
    ends = [msgspec.msgpack.decode(read(block), type=Close) for block in said]
    return [(one.connection, one.generation, one.error.condition) for one in ends]


@pytest.mark.parametrize("part", ["connections.opened", "attaches.attach", "attaches.detach", "planes.opened"])
def test_a_part_of_the_core_that_fails_ends_one_connection(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no other; a new link of another connection is served as ever."""
    bed = Bed()
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(1, 1, "d", "h:2", number=7))
    bed.say(C_ATTACH, Attach(2, 1, 1, "s", False, "here"))
    bed.step()
    before = failures.number
    owner, _, name = part.partition(".")
    with monkeypatch.context() as patch:
        failing = bed.core.plane(ManagerSessions) if owner == "planes" else getattr(bed.core, owner)
        patch.setattr(failing, name, fail)
        match part:
            case "attaches.attach":
                bed.say(C_ATTACH, Attach(3, 1, 1, "s", False, "here"))
            case "attaches.detach":
                bed.say(C_DETACH, Detach(2, 1, None))
            case _:
                bed.say(C_CONNECTION_OPENED, ConnectionOpened(1, 2, "d", "h:2", number=7, role="rmr"))
        ended = closed(bed)
    assert failures.number == before + 1
    assert ended == [(1, 2 if part.endswith("opened") else 1, "amqp:internal-error")]
    bed.say(C_ATTACH, Attach(5, 1, 0, "s", False, "here"))
    bed.step()
    assert bed.core.links.find(0, 5, 1) is not None


def test_a_link_that_is_gone_is_gone_for_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for planes behind those that fail."""
    bed = Bed()
    heard: list[str] = []
    for plane in bed.core.planes[:2]:
        monkeypatch.setattr(plane, "detached", fail)
    monkeypatch.setattr(bed.core.planes[-1], "detached", lambda link, _: heard.append(link.name))
    bed.say(C_DETACH, Detach(0, 1, None))
    bed.step()
    assert heard == ["s"]
    assert bed.core.links.find(0, 0, 1) is None


def test_a_message_that_the_core_fails_at_is_rejected_and_its_connection_ends() -> None:
    bed = Bed()
    before = failures.number
    bed.core.local.subscribe("fails", fail)
    bed.say(C_ATTACH, Attach(2, 1, 0, "s", False, "fails"))
    bed.step()
    block = bed.arena.write(b"content")
    assert block is not None
    bed.act(type=n.A_DELIVER, flags=n.F_COMPLETE, link=2, link_gen=1, block=block, peer=HANDLE, length=1, time=1)
    seen = bed.step()
    assert failures.number == before + 1
    assert [one["state"] for one in seen if one["type"] == n.W_UPDATE] == [n.S_REJECTED]
    assert [one["state"] for one in seen if one["type"] == n.W_CONTROL] == [C_CLOSE]


HANDLE = 1 << 32


# ---- the exporter ----


def test_a_page_that_fails_ends_one_http_connection() -> None:
    """The client's; the exporter goes on."""
    server = Server()
    before = failures.number
    here, there = socket.socketpair()
    with here, there:
        door: Any = SimpleNamespace(site=fail, gate=None, workers=None, tls=None)
        connection = Connection(here, "peer:1", door, 0.0)
        server._connections[connection] = server._converse(connection)
        there.sendall(b"GET / HTTP/1.0\r\n\r\n")
        server._serve(connection)
        server._answer_all()
        assert there.recv(1) == b""
    assert failures.number == before + 1
    assert len(server) == 0

"""The exporter among the children of the supervisor: it runs while there is HTTP to serve, and is in nobody's way."""

import socket
from collections.abc import Iterator, Sequence

import msgspec
import pytest

from routerd.config import Listener, Router
from routerd.machine.listeners import Listening
from routerd.machine.pinning import Pinning
from routerd.supervise import children as children_module
from routerd.supervise import spares as spares_module
from routerd.supervise.child import Death
from routerd.supervise.children import Children
from routerd.supervise.condition import condition
from routerd.supervise.restart_policy import Life
from routerd.supervise.spares import FIRST_AFTER
from routerd.translate.setup import Blueprint
from shm.contract.control import Closed, Exit, Ready, SetListeners, Setup, StopAccepting
from shm.contract.text import reason


class FakeChild:
    """Does nothing but remember."""

    def __init__(self, argv: list[str], setup: Setup | None, fds: Sequence[int], now: float) -> None:
        self.argv, self.setup, self.fds, self.born = argv, setup, list(fds), now
        self.pid, self.generation = 1, setup.generation if setup else 0
        self.ready: float | None = None
        self.kill_at: float | None = None
        self.why = self.killed = ""
        self.sent: list[msgspec.Struct] = []

    def is_ready(self, now: float) -> None:
        self.ready = now

    def send(self, message: msgspec.Struct, descriptors: Sequence[int] = ()) -> None:
        self.sent.append(message)

    def kill(self, why: str) -> None:
        self.killed = why

    def is_gone(self, seconds: float) -> bool:
        return True

    def reap(self) -> Death:
        return Death(self.pid, self.generation, "SIGKILL", self.killed)


class FakeMemory:
    prefix = "/routerd-test-1"
    flight = None  # there is no flight recorder

    def reset(self) -> None: ...
    def mend(self) -> None: ...
    def wake_core(self) -> None: ...
    def worker_gone(self, index: int) -> None: ...
    def recorder_gone(self) -> None: ...
    def set_workers(self, count: int) -> None: ...
    def empty(self, index: int) -> None: ...


class Home:
    """The children of a supervisor, two workers among them."""

    def __init__(self, amqp: Listening, http: Listening) -> None:
        self.amqp, self.http = amqp, http
        self.children = Children(self.blueprint(http), FakeMemory(), Pinning([], [[], []]), lambda role, _: [role])

    def blueprint(self, *more: Listening) -> Blueprint:
        router = Router(id="test", workers=2)
        return Blueprint(router, "1", [self.amqp, *more], [70, 71])

    def up(self, now: float = 0.0) -> None:
        for places in ([self.children.core], self.children.workers):
            self.children.step(now)
            for place in places:
                self.children.said(place, Ready(1), now)

    def child(self, place: children_module.Place) -> FakeChild:
        assert isinstance(place.child, FakeChild)
        return place.child

    @property
    def exporter(self) -> FakeChild:
        return self.child(self.children.exporter)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    for module in (children_module, spares_module):
        monkeypatch.setattr(module, "Child", FakeChild)
    with socket.socket() as one, socket.socket() as two:
        yield Home(Listening(Listener(), [one]), Listening(Listener(http=True, metrics=False), [two]))


def test_it_starts_when_the_router_is_up(home: Home) -> None:
    """With the sockets that speak HTTP and no others; workers get the rest; no doorbell is its own."""
    home.children.step(0.0)
    assert home.children.exporter.child is None
    home.up()
    home.children.step(0.0)
    (listener,) = home.exporter.setup.listeners
    assert (listener.fds, listener.metrics, listener.healthz) == ([home.http.sockets[0].fileno()], False, True)
    assert home.exporter.fds == listener.fds
    assert home.exporter.argv == ["exporter"]
    (served,) = home.child(home.children.workers[0]).setup.listeners
    assert served.fds == [home.amqp.sockets[0].fileno()]


def test_without_http_there_is_none(home: Home) -> None:
    """It would cost memory for nothing; a reload that brings HTTP brings it."""
    home.children.change(home.blueprint())
    home.up()
    home.children.step(0.0)
    assert home.children.exporter.child is None
    assert home.children.next_step(0.0) == FIRST_AFTER
    home.children.change(home.blueprint(home.http))
    home.children.step(0.0)
    assert home.exporter.setup.listeners
    home.children.change(home.blueprint())
    assert home.exporter.sent == [SetListeners([])]


def test_its_deaths_are_its_own(home: Home) -> None:
    """It is started again with the same patience; nobody is told, and the router does not stop."""
    home.up()
    home.children.step(0.0)
    for _ in range(3):
        home.children.died(home.children.exporter, 0.0)
        assert home.children.failure == ""
        home.children.step(30.0)
        assert home.children.exporter.generation > 1
    living = [home.child(place) for place in home.children.places]
    assert all(child.sent == [] and not child.killed for child in living)
    home.children.died(home.children.exporter, 30.0)
    due = home.children.next_step(30.0)
    assert due is not None
    assert due > 30.0


def test_a_worker_s_words_from_it_mean_nothing(home: Home) -> None:
    """It is number 0 of its kind, and no worker."""
    home.up()
    home.children.step(0.0)
    home.children.stop(1.0, 3.0)
    home.children.said(home.children.exporter, Closed(), 1.0)
    assert home.children.stopping is not None
    assert home.children.stopping.awaited == {0, 1}


def test_it_is_asked_to_the_end(home: Home) -> None:
    """Readiness is told while the router stops; then it is told to exit, and nobody waits for it."""
    home.up()
    home.children.step(0.0)
    home.children.stop(1.0, 3.0)
    assert home.exporter.sent == [StopAccepting()]
    home.children.step(4.0)
    home.children.step(10.0)
    assert Exit() in home.exporter.sent
    for place in home.children.places:
        home.children.died(place, 10.0)
    assert home.children.empty
    home.children.end()
    assert home.children.exporter.child is None


class Failing(FakeChild):
    """An exporter that cannot work, like one that the service manager hides too much from."""

    def reap(self) -> Death:
        return Death(self.pid, self.generation, "exit status 1", "FileNotFoundError: /proc/stat")


def test_one_that_keeps_dying_is_told_of_and_backs_off(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status line says that there is no http, and why; its starts become rare, and its traceback stands
    in the log once a minute."""
    monkeypatch.setattr(children_module, "Child", Failing)
    home.up()
    now, exporter, starts, full = 0.0, home.children.exporter, 0, 0

    def status() -> str:
        return condition(home.children, home.blueprint(home.http), 5, "", now)

    assert status() == "2 of 2 workers serve, 5 connections"
    while now < 100.0:
        home.children.step(now)
        if exporter.child is not None:
            starts += 1
            full += "FileNotFoundError" not in home.exporter.setup.known_failures
            home.children.said(exporter, Ready(1), now)
            now += 1.5  # it dies at the first question
            home.children.died(exporter, now)
            if starts >= 3:
                assert status() == (
                    "2 of 2 workers serve, 5 connections; no http: exporter keeps dying, "
                    f"{starts} times in a row: FileNotFoundError: /proc/stat"
                )
        now = max(now, home.children.next_step(now) or now)
    assert starts < 20
    assert full == 2
    while exporter.child is None:
        now = max(now, home.children.next_step(now) or now)
        home.children.step(now)
    home.children.said(exporter, Ready(1), now)
    assert status() == (  # it serves again: nothing is lacking now
        f"2 of 2 workers serve, 5 connections; exporter serves again after {starts} deaths in a row, "
        "the last one: FileNotFoundError: /proc/stat"
    )
    now += 31.0  # it serves
    assert status() == "2 of 2 workers serve, 5 connections"
    assert condition(home.children, home.blueprint(), 5, "", now).endswith("5 connections")


def test_tracebacks_are_rare_also_when_kinds_of_death_take_turns() -> None:
    """Each kind is told in full once a minute, whatever came in between."""
    place, full = children_module.Place("worker", 0, []), 0
    for number in range(1000):
        born = number * 0.25
        kind = ("KeyError", "ValueError", "SIGSEGV")[number % 3]
        full += kind not in place.known_failures(born)
        place.died(Life(born, born, born + 0.1), f"{kind}: {number}" if number % 3 < 2 else kind)
    assert full == 15  # of three kinds, in 250 seconds
    assert place.trouble(250.0) == "worker 0 keeps dying, 64 or more times in a row: KeyError: 999"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyError("a\nb"), "KeyError: 'a\\nb'"),
        (ValueError("a\n b"), "ValueError: a b"),
        (KeyError(10**5000), "KeyError"),
        (RuntimeError("x" * 100_000), f"RuntimeError: {'x' * 500}"),
        (OSError(), "OSError"),
    ],
)
def test_the_reason_of_an_end_is_one_short_line(error: Exception, told: str) -> None:
    """Whatever a peer has sent to bring it about: it goes to the supervisor in one packet."""
    assert reason(error) == told

"""Hung children, with heartbeats and the clock in the test's hand."""

import os

import pytest

from routerd.supervise.child import Place
from routerd.supervise.watch import HUNG_SECONDS, POLL_SECONDS, Watch, process_state, seconds_waited


class FakeChild:
    pid = 4711

    def __init__(self) -> None:
        self.ready: float | None = 0.0
        self.killed = ""

    def kill(self, why: str) -> None:
        self.killed = why


class Home:
    """Two workers and a core, and the numbers they write."""

    def __init__(self) -> None:
        self.beats = {0: 1, 1: 1, 2: 1}
        self.states: dict[int, str] = {}
        self.waited = 0.0  # seconds, by everybody, for a CPU
        self.places = [Place("core", 2, []), Place("worker", 0, []), Place("worker", 1, [])]
        for place in self.places:
            place.child, place.generation = FakeChild(), 1  # type: ignore[assignment]  # as far as a watch needs it
        self.watch = Watch(self, lambda pid: self.states.get(pid, "running"), lambda pid: self.waited)
        self.now = 0.0

    def heartbeat(self, slot: int) -> int:
        return self.beats[slot]

    def recorder_heartbeat(self) -> int:
        return self.beats[3]

    def poll(self, *alive: int, after: float = POLL_SECONDS) -> None:
        self.now += after
        for slot in alive:
            self.beats[slot] += 1
        self.watch.poll(self.places, self.now)

    def killed(self) -> dict[str, str]:
        return {p.name: p.child.killed for p in self.places if p.child and p.child.killed}  # type: ignore[attr-defined]  # a fake


@pytest.fixture
def home() -> Home:
    return Home()


def test_a_child_that_stands_still_is_killed_with_the_reason(home: Home) -> None:
    """The others go on."""
    for _ in range(int(HUNG_SECONDS / POLL_SECONDS)):
        home.poll(1, 2)
        assert home.killed() == {}
    home.poll(1, 2)
    assert home.killed() == {"worker 0": "hung: its loop has not turned for 5 s (the process is running)"}


def test_a_core_can_hang_too(home: Home) -> None:
    for _ in range(7):
        home.poll(0, 1)
    assert list(home.killed()) == ["core"]


def test_one_turn_is_life(home: Home) -> None:
    """Slow is not hung."""
    for i in range(30):
        home.poll(0, 1, *([2] if i % 4 == 0 else []))
    assert home.killed() == {}


def test_a_supervisor_that_slept_blames_nobody(home: Home) -> None:
    """After a suspended machine all children have stood still for as long as it slept."""
    home.poll(0, 1, 2)
    home.poll(after=3600.0)
    assert home.killed() == {}
    home.poll(0, 1, 2)
    for _ in range(4):
        home.poll()
    assert home.killed() == {}


def test_who_does_not_serve_yet_is_not_looked_at(home: Home) -> None:
    """A start has its own bound; the next generation begins with a clean sheet."""
    worker = home.places[1]
    for _ in range(4):
        home.poll(1, 2)
    worker.child, worker.generation = None, 2
    home.poll(1, 2)
    worker.child = FakeChild()  # type: ignore[assignment]  # as far as a watch needs it
    worker.child.ready = None
    for _ in range(9):
        home.poll(1, 2)
    worker.child.ready = home.now
    for _ in range(5):
        home.poll(1, 2)
    assert home.killed() == {}
    home.poll(1, 2)
    assert list(home.killed()) == ["worker 0"]


def test_a_new_generation_is_not_blamed_for_the_old_one(home: Home) -> None:
    """Also when its birth fell between two looks."""
    for _ in range(5):
        home.poll(1, 2)
    home.places[1].generation = 2
    for _ in range(5):
        home.poll(1, 2)
    assert home.killed() == {}


def test_all_is_well_only_when_every_child_has_turned(home: Home) -> None:
    """What the service manager is told; each time needs new progress of each."""
    home.poll(0, 1, 2)
    home.poll(0, 1, 2)
    assert home.watch.all_progressed(home.places)
    assert not home.watch.all_progressed(home.places)
    home.poll(0, 1)
    assert not home.watch.all_progressed(home.places)
    home.poll(2)
    assert home.watch.all_progressed(home.places)


def test_a_child_that_is_being_replaced_does_not_hold_the_whole_router_up(home: Home) -> None:
    """Restarting everybody would not bring it back sooner."""
    home.places[1].child = None
    home.poll(1, 2)
    home.poll(1, 2)
    assert home.watch.all_progressed(home.places)


def test_looks_are_due_once_a_second(home: Home) -> None:
    assert home.watch.due(7.0) == 7.0
    home.poll(0, 1, 2)
    assert home.watch.due(home.now) == home.now + POLL_SECONDS


def test_the_state_of_a_process_is_told_in_words() -> None:
    """Of this one, and of one that does not exist."""
    assert process_state(os.getpid()) == "running"
    assert process_state(2**22 + 1) == "gone"


def test_an_exporter_beats_by_what_it_says(home: Home) -> None:
    """Its index is a worker's, too: they are not mixed up. The service manager does not wait for it."""
    exporter = Place("exporter", 0, [])
    exporter.child, exporter.generation = FakeChild(), 1  # type: ignore[assignment]  # as far as a watch needs it
    home.places.append(exporter)
    home.poll(0, 1, 2)
    for _ in range(10):
        exporter.beats += 1
        home.poll(0, 1, 2)
    assert home.killed() == {}
    assert home.watch.all_progressed(home.places[:-1])
    for _ in range(int(HUNG_SECONDS / POLL_SECONDS)):
        home.poll(0, 1, 2)
    assert list(home.killed()) == ["exporter"]


def test_an_exporter_that_waits_for_a_cpu_does_not_hang(home: Home) -> None:
    """It runs with a low priority. A worker that waits so long is no use, whatever keeps it."""
    exporter = Place("exporter", 0, [])
    exporter.child, exporter.generation = FakeChild(), 1  # type: ignore[assignment]  # as far as a watch needs it
    home.places.append(exporter)
    home.waited = 1000.0  # before it is looked at
    home.poll(0, 1, 2)
    for _ in range(10):
        home.waited += 0.75 * POLL_SECONDS
        home.poll(0, 1, 2)
    assert home.killed() == {}
    for _ in range(10):
        home.waited += 0.75 * POLL_SECONDS
        home.poll(1, 2)
    assert set(home.killed()) == {"worker 0", "exporter"}


def test_how_long_a_process_has_waited_for_a_cpu_is_told() -> None:
    """Of this one, and of one that does not exist."""
    assert 0.0 <= seconds_waited(os.getpid()) < 3600.0
    assert seconds_waited(2**22 + 1) == 0.0


def test_a_recorder_may_wait_for_its_disk_but_not_be_stopped(home: Home) -> None:
    """Rows that wait are not lost by killing it; one that somebody has stopped never goes on by itself."""
    recorder = Place("recorder", 0, [])
    recorder.child, recorder.generation = FakeChild(), 1  # type: ignore[assignment]  # as far as a watch needs it
    home.places.append(recorder)
    home.beats[3] = 1
    home.states[FakeChild.pid] = "waiting for a device"
    for _ in range(60):
        home.poll(0, 1, 2)
    assert home.killed() == {}
    home.states[FakeChild.pid] = "stopped"
    home.poll(0, 1, 2)
    assert list(home.killed()) == ["recorder"]
    assert "the process is stopped" in home.killed()["recorder"]

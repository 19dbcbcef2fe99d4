"""Workers replaced one at a time, with fake children and the clock in the test's hand."""

from collections.abc import Sequence

import msgspec
import pytest

from routerd.supervise.child import LAST_FILE_SECONDS, Place
from routerd.supervise.rolling import REPLACED, Rolling
from routerd.supervise.stopping import CLOSE_SECONDS, EXIT_SECONDS, Phase
from shm.contract.control import Exit, StopAccepting


class FakeChild:
    def __init__(self) -> None:
        self.ready: float | None = 0.0
        self.sent: list[msgspec.Struct] = []
        self.killed, self.why = "", ""
        self.kill_at: float | None = None

    def send(self, message: msgspec.Struct, descriptors: Sequence[int] = ()) -> None:
        self.sent.append(message)

    def kill(self, why: str) -> None:
        self.killed = why


class Home:
    """Two serving workers, and a rolling restart with two seconds of grace."""

    def __init__(self) -> None:
        self.workers = [Place("worker", 0, []), Place("worker", 1, [])]
        self.core = Place("core", 2, [])
        self.recorder = Place("recorder", 0, [])
        for place in (*self.workers, self.core):
            self.born(place)
        self.woken = 0
        self.rolling = self.roll()

    def roll(self) -> Rolling:
        return Rolling(self.core, self.workers, self.recorder, 2.0, self.wake_core)

    def wake_core(self) -> None:
        self.woken += 1

    def born(self, worker: Place, *, ready: bool = True) -> None:
        child = FakeChild()
        child.ready = 0.0 if ready else None
        worker.generation += 1
        worker.child = child  # type: ignore[assignment]  # as far as rolling needs it

    def child(self, index: int) -> FakeChild:
        child = [*self.workers, self.core][index].child
        assert isinstance(child, FakeChild)
        return child

    def dies(self, index: int) -> None:
        self.workers[index].child = None

    def leaves(self, index: int, now: float) -> None:
        """Through all phases, at once."""
        place = self.workers[index]
        assert self.rolling.answered(place, Phase.DRAINING)
        assert not self.rolling.step(now)
        assert self.rolling.answered(place, Phase.CLOSING)
        assert not self.rolling.step(now)
        assert self.child(index).sent == [StopAccepting(), REPLACED, Exit()]
        self.dies(index)
        assert not self.rolling.step(now)


@pytest.fixture
def home() -> Home:
    return Home()


def test_one_after_the_other_leaves_and_is_replaced(home: Home) -> None:
    """The second only when the first one's successor serves."""
    assert not home.rolling.step(0.0)
    home.leaves(0, 0.1)
    assert home.child(1).sent == []
    home.born(home.workers[0], ready=False)
    home.rolling.step(0.2)
    assert home.child(1).sent == []
    home.child(0).ready = 0.3
    home.rolling.step(0.3)
    home.leaves(1, 0.4)
    home.born(home.workers[1])
    assert not home.rolling.step(0.5)
    assert home.child(2).sent == [Exit()]
    assert home.woken
    home.core.child = None
    home.workers[0].quiet = True
    home.rolling.step(0.6)
    home.born(home.core)
    assert not home.rolling.step(0.7)
    home.workers[0].quiet = False
    assert home.rolling.step(0.8)
    assert home.child(0).sent == home.child(1).sent == home.child(2).sent == []


def test_the_recorder_leaves_last_and_has_the_time_that_its_file_takes(home: Home) -> None:
    """With the old one gone it is over: what follows is a start like any other, for which no spare waits."""
    home.born(home.recorder)
    old = home.recorder.child
    home.rolling = home.roll()
    home.rolling.step(0.0)
    for index in (0, 1):
        home.leaves(index, 0.1)
        home.born(home.workers[index])
        home.rolling.step(0.2)
    assert isinstance(old, FakeChild)
    assert not old.sent
    home.core.child = None
    home.rolling.step(0.3)
    home.born(home.core)
    assert not home.rolling.step(0.4)
    assert old.sent == [Exit()]
    assert home.recorder.dismissed
    assert (old.kill_at, home.rolling.deadline) == (0.4 + LAST_FILE_SECONDS, None)
    assert not home.rolling.step(20.0)
    home.recorder.child = None
    assert home.rolling.step(20.1)


def test_a_recorder_that_is_not_there_or_not_ready_holds_nobody_up(home: Home) -> None:
    """The next one has the new code anyway; one that was started before has not."""
    home.born(home.recorder, ready=False)
    home.rolling = home.roll()
    home.rolling.step(0.0)
    home.leaves(0, 0.1)
    home.born(home.workers[0])
    home.rolling.step(0.2)
    home.leaves(1, 0.3)
    home.born(home.workers[1])
    home.recorder.child = None
    home.rolling.step(0.4)
    home.core.child = None
    home.rolling.step(0.5)
    home.born(home.core)
    assert home.rolling.step(0.6)


def test_a_worker_that_does_not_drain_is_closed_after_the_grace(home: Home) -> None:
    """And killed if it does not exit: nothing waits for ever."""
    home.rolling.step(0.0)
    assert home.rolling.deadline == 2.0
    home.rolling.step(1.9)
    assert home.child(0).sent == [StopAccepting()]
    home.rolling.step(2.0)
    assert home.child(0).sent[-1] == REPLACED
    home.rolling.step(2.0 + CLOSE_SECONDS)
    assert home.child(0).sent[-1] == Exit()
    home.rolling.step(2.0 + CLOSE_SECONDS + EXIT_SECONDS)
    assert home.child(0).killed == "did not exit in time"
    assert home.rolling.deadline is None


def test_nobody_leaves_while_somebody_is_missing(home: Home) -> None:
    """A worker that died by itself is waited for first."""
    home.dies(1)
    home.rolling.step(0.0)
    assert home.child(0).sent == []
    home.born(home.workers[1])
    home.rolling.step(1.0)
    assert home.child(0).sent == [StopAccepting()]


def test_new_code_that_does_not_start_costs_one_worker(home: Home) -> None:
    """The others go on with what they have."""
    home.rolling.step(0.0)
    home.leaves(0, 0.1)
    for now in range(1, 20):
        home.born(home.workers[0], ready=False)
        home.rolling.step(now)
        home.dies(0)
        home.rolling.step(now)
    assert home.child(1).sent == []
    assert home.rolling.deadline is None


def test_a_worker_that_dies_while_leaving_has_left(home: Home) -> None:
    """Its successor is not asked to leave."""
    home.rolling.step(0.0)
    home.dies(0)
    home.born(home.workers[0])
    assert not home.rolling.answered(home.workers[0], Phase.DRAINING)
    assert not home.rolling.step(0.1)
    assert home.child(0).sent == []
    assert home.child(1).sent == [StopAccepting()]


def test_what_others_say_does_not_count(home: Home) -> None:
    """Only the worker that was asked can answer."""
    home.rolling.step(0.0)
    assert not home.rolling.answered(home.workers[1], Phase.DRAINING)
    home.rolling.step(0.1)
    assert home.child(0).sent == [StopAccepting()]


def test_who_was_told_to_exit_is_not_blamed_for_it(home: Home) -> None:
    """Who dies before, is."""
    home.rolling.step(0.0)
    assert not home.workers[0].dismissed
    home.rolling.answered(home.workers[0], Phase.DRAINING)
    home.rolling.step(0.1)
    home.rolling.answered(home.workers[0], Phase.CLOSING)
    home.rolling.step(0.2)
    assert home.workers[0].dismissed
    assert not home.workers[1].dismissed

"""Workers added and removed while the router runs, with fake children and the clock in the test's hand."""

import pytest

from routerd.machine.pinning import Pinning
from routerd.supervise import children as children_module
from routerd.supervise import spares as spares_module
from routerd.supervise.stopping import EXIT_SECONDS
from routerd.supervise.worker_slots import ANSWER_SECONDS, RECLAIM_SECONDS, REMOVED
from shm.contract.control import (
    Answered,
    Closed,
    CoreGone,
    Drained,
    Exit,
    Quiesced,
    StopAccepting,
    WorkerAdded,
    WorkerGone,
    WorkerReclaimed,
)
from tests.support.beds.household import FakeChild, Home, blueprint


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Home:
    """Two workers and the core, all serving."""
    for module in (children_module, spares_module):
        monkeypatch.setattr(module, "Child", FakeChild)
    home = Home()
    home.up()
    home.fill_up(0.0)
    return home


def want(home: Home, count: int, now: float, answer: int = 0) -> None:
    home.children.change(blueprint(), Pinning([], [[] for _ in range(count)]), now, answer)
    home.memory.done.clear()
    home.children.step(now)


def reclaimed(home: Home, index: int, now: float) -> None:
    generation = home.workers[index].generation
    home.children.said(home.core, WorkerReclaimed(index, generation), now)
    home.children.step(now)


def leave(home: Home, index: int, now: float) -> None:
    """Through the phases, and out."""
    worker = home.workers[index]
    home.children.said(worker, Drained(), now)
    home.children.step(now)
    home.children.said(worker, Closed(), now)
    home.children.step(now)
    assert home.child(worker).sent[-3:] == [StopAccepting(), REMOVED, Exit()]
    home.children.died(worker, now)
    home.children.step(now)


def test_a_worker_is_added_when_the_core_is_ready_for_it(home: Home) -> None:
    """The core makes its place ready first; the others are not touched."""
    before = [worker.child for worker in home.workers]
    want(home, 3, 1.0)
    assert home.child(home.core).sent == [WorkerAdded(2, 0)]
    assert home.workers[2].child is None
    assert home.memory.done == ["wake core", "3 workers"]
    reclaimed(home, 2, 1.1)
    assert home.child(home.workers[2]).setup.workers == 3
    assert [worker.child for worker in home.workers[:2]] == before


def test_a_successor_on_other_cpus_gets_memory_near_these(home: Home) -> None:
    """What is free of its predecessor's goes back, once nobody owns it; on the same CPUs it stays."""

    def replaced(cpus: list[int], now: float) -> list[str]:
        home.children.change(blueprint(), Pinning([], [[], cpus]), now)
        home.memory.done.clear()
        home.children.died(home.workers[1], now)
        reclaimed(home, 1, now + 0.1)
        home.children.step(now + 99)
        home.ready(home.workers[1], now + 99)
        return home.memory.done

    assert replaced([], 1000.0) == ["worker 1 gone", "wake core"]
    assert replaced([4], 2000.0) == ["worker 1 gone", "wake core", "worker 1 empty"]
    assert replaced([4], 3000.0) == ["worker 1 gone", "wake core"]


def test_a_removed_worker_drains_closes_and_leaves_its_place_empty(home: Home) -> None:
    """The core is told that nobody follows; memory is given back when it has let go."""
    want(home, 1, 1.0)
    assert home.child(home.workers[1]).sent == [StopAccepting()]
    leave(home, 1, 1.1)
    assert home.child(home.core).sent == [WorkerGone(1, 1, removed=True)]
    assert len(home.workers) == 2
    reclaimed(home, 1, 1.2)
    assert len(home.workers) == 1
    assert home.memory.done == ["worker 1 gone", "wake core", "worker 1 empty", "1 workers"]
    home.children.step(99.0)
    assert home.child(home.workers[0]).sent == []


def test_a_worker_stays_until_who_removes_it_has_the_answer(home: Home) -> None:
    """The client may be connected to that very worker. The answer to another request changes nothing."""
    want(home, 1, 1.0, answer=7)
    assert home.children.answer_awaited(7)
    assert not home.children.answer_awaited(6)
    for number in (6, 7):
        assert home.child(home.workers[1]).sent == []
        home.children.said(home.core, Answered(number), 1.5)
        home.children.step(1.5)
    assert home.child(home.workers[1]).sent == [StopAccepting()]
    assert home.children.next_step(1.5) == 3.5


def test_an_answer_that_nobody_takes_holds_no_worker(home: Home) -> None:
    """Its client may grant no credit, or be gone."""
    want(home, 1, 1.0, answer=7)
    assert home.children.next_step(1.0) == 1.0 + ANSWER_SECONDS
    home.children.step(1.0 + ANSWER_SECONDS)
    assert home.child(home.workers[1]).sent == [StopAccepting()]
    assert home.children.next_step(6.0) == 8.0
    home.children.said(home.core, Answered(7), 6.1)
    home.children.step(6.1)
    assert home.child(home.workers[1]).sent == [StopAccepting()]


def test_nobody_waits_for_the_answer_of_a_core_that_is_dead(home: Home) -> None:
    """It will not come."""
    want(home, 1, 1.0, answer=7)
    home.children.died(home.core, 1.1)
    home.children.step(1.1)
    assert home.child(home.workers[1]).sent == [CoreGone(1), StopAccepting()]


def test_one_that_does_not_drain_is_closed_after_the_grace_and_killed_in_the_end(home: Home) -> None:
    """Nothing waits for ever."""
    want(home, 1, 1.0)
    child = home.child(home.workers[1])
    due = home.children.next_step(1.0)
    assert due == 3.0
    for now in (3.0, 4.0, 4.0 + EXIT_SECONDS):
        home.children.step(now)
    assert child.sent == [StopAccepting(), REMOVED, Exit()]
    assert child.killed == "did not exit in time"


def test_one_that_dies_while_it_leaves_has_left(home: Home) -> None:
    """No successor is started for it."""
    want(home, 1, 1.0)
    home.children.died(home.workers[1], 1.1)
    home.children.step(1.1)
    assert home.child(home.core).sent == [WorkerGone(1, 1, removed=True)]
    reclaimed(home, 1, 1.2)
    assert len(home.workers) == 1


def test_one_that_is_dead_already_is_given_up(home: Home) -> None:
    """Its successor would have started when the core had reclaimed it."""
    home.children.died(home.workers[1], 1.0)
    want(home, 1, 1.1)
    assert home.child(home.core).sent == [WorkerGone(1, 1), WorkerGone(1, 1, removed=True)]
    reclaimed(home, 1, 1.2)
    assert len(home.workers) == 1


def test_a_place_that_is_filled_again_goes_on_counting_generations(home: Home) -> None:
    """So that what is said of its former worker is not taken for the new one's."""
    want(home, 1, 1.0)
    leave(home, 1, 1.1)
    want(home, 2, 1.2)  # too early: the core has not let go of the former one
    assert len(home.workers) == 2
    assert home.workers[1].child is None
    reclaimed(home, 1, 1.3)
    assert home.child(home.core).sent[-1] == WorkerAdded(1, 1)
    reclaimed(home, 1, 1.4)
    assert home.child(home.workers[1]).generation == 2


def test_a_core_that_does_not_let_go_is_replaced(home: Home) -> None:
    """As for a worker that died; the place is empty then."""
    want(home, 1, 1.0)
    leave(home, 1, 1.1)
    home.children.step(1.1 + RECLAIM_SECONDS)
    assert "did not reclaim what worker 1 held" in home.child(home.core).killed
    home.children.died(home.core, 40.0)
    home.children.step(40.0)
    assert len(home.workers) == 1


def test_when_the_core_dies_a_leaving_worker_lets_go_like_the_others(home: Home) -> None:
    """The next core starts when both have, knows of both, and hears of the end of one."""
    want(home, 1, 1.0)
    home.children.died(home.core, 1.1)
    assert home.child(home.workers[1]).sent == [StopAccepting(), CoreGone(1)]
    for worker in home.workers:
        home.children.said(worker, Quiesced(1), 1.2)
    home.children.step(1.2)
    assert home.child(home.core).setup.workers == 2
    home.ready(home.core, 1.3)
    home.children.died(home.workers[1], 1.4)
    home.children.step(1.4)
    assert home.child(home.core).sent == [WorkerGone(1, 1, removed=True)]


def test_one_that_is_gone_when_the_core_dies_is_unknown_to_the_next(home: Home) -> None:
    """Its memory is reset with everybody's."""
    want(home, 1, 1.0)
    leave(home, 1, 1.1)
    home.children.died(home.core, 1.2)
    home.children.said(home.workers[0], Quiesced(1), 1.3)
    home.children.step(1.3)
    assert home.child(home.core).setup.workers == 1
    assert home.memory.done[-2:] == ["1 workers", "reset"]


def test_a_worker_added_while_the_core_is_away_starts_with_the_next(home: Home) -> None:
    """There is nobody to ask, and nothing to make ready."""
    home.children.died(home.core, 1.0)
    want(home, 3, 1.1)
    for worker in home.workers[:2]:
        home.children.said(worker, Quiesced(1), 1.2)
    home.children.step(1.2)
    assert home.child(home.core).setup.workers == 3
    home.ready(home.core, 1.3)
    home.children.step(1.3)
    assert home.child(home.workers[2]).generation == 1


def test_a_rolling_restart_leaves_those_alone_that_leave_anyway(home: Home) -> None:
    """And is over without them."""
    assert home.children.roll(2.0)
    want(home, 1, 1.0)
    assert home.child(home.workers[1]).sent == [StopAccepting()]
    assert home.child(home.workers[0]).sent == [StopAccepting()]
    leave(home, 1, 1.1)
    reclaimed(home, 1, 1.2)
    assert home.children.rolling is not None


def test_a_stop_hurries_a_worker_that_leaves(home: Home) -> None:
    """It is one of those that stop."""
    want(home, 1, 1.0)
    home.children.stop(1.1, grace=2.0)
    for worker in home.workers:
        home.children.said(worker, Drained(), 1.2)
    home.children.step(1.2)
    assert home.child(home.workers[0]).sent[-1] == home.child(home.workers[1]).sent[-1]

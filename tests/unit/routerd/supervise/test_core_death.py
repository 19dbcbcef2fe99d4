"""What follows the core's death: the workers let go of it, and take up with the next one."""

import logging

import pytest

from routerd.supervise.children import QUIESCE_SECONDS
from shm.contract.control import (
    CloseConnections,
    CoreBack,
    CoreGone,
    Drained,
    Quiesced,
    StopAccepting,
    WorkerGone,
    WorkerReclaimed,
)
from tests.support.beds.household import Home


def presenting(home: Home) -> list[int]:
    """The workers that the core waits for."""
    setup = home.child(home.core).setup
    assert setup is not None
    return setup.presenting


def test_the_first_core_waits_for_nobody(home: Home) -> None:
    """There are no workers yet."""
    home.up()
    assert presenting(home) == []


def test_a_dead_core_is_replaced_when_every_worker_has_let_go(home: Home) -> None:
    """The workers live on; memory is reset when nobody uses it, and the next core is made known to them."""
    home.up()
    home.children.died(home.core, 40.0)
    for worker in home.workers:
        assert home.child(worker).sent == [CoreGone(1)]
    home.children.said(home.workers[0], Quiesced(1), 40.01)
    home.children.step(40.01)
    assert home.memory.done == []
    assert home.core.child is None
    home.children.said(home.workers[1], Quiesced(1), 40.02)
    home.children.step(40.02)
    assert home.memory.done == ["reset"]
    assert home.child(home.core).generation == 2
    assert presenting(home) == [0, 1]
    assert home.child(home.workers[0]).sent == [CoreGone(1)]
    home.ready(home.core, 40.2)
    home.children.step(40.2)
    for worker in home.workers:
        assert home.child(worker).sent == [CoreGone(1), CoreBack()]
        assert home.child(worker).generation == 1
        assert home.child(worker).killed == ""


def test_a_word_about_an_earlier_core_is_not_enough(home: Home) -> None:
    """A worker that has let go of the last core may hold on to this one."""
    home.up()
    home.children.died(home.core, 40.0)
    for worker in home.workers:
        home.children.said(worker, Quiesced(0), 40.0)
    home.children.step(40.0)
    assert home.core.child is None


def test_a_worker_that_does_not_let_go_is_replaced(home: Home) -> None:
    """It hangs; the others do not wait for it for ever."""
    home.up()
    home.children.died(home.core, 40.0)
    home.children.said(home.workers[0], Quiesced(1), 40.0)
    assert home.children.next_step(40.0) == pytest.approx(40.0 + QUIESCE_SECONDS)
    home.children.step(40.0 + QUIESCE_SECONDS)
    assert home.child(home.workers[0]).killed == ""
    assert "did not quiesce" in home.child(home.workers[1]).killed
    assert home.core.child is None
    home.children.died(home.workers[1], 43.1)
    home.children.step(43.1)
    home.ready(home.core, 43.3)
    home.children.step(43.3)
    assert home.child(home.workers[0]).sent[-1] == CoreBack()
    assert home.child(home.workers[1]).generation == 2
    assert home.child(home.workers[1]).sent == []


def test_a_worker_that_dies_without_a_core_starts_with_the_next(home: Home) -> None:
    """Nothing of it has to be taken back: the memory was reset behind it, or is told to the new core."""
    home.up()
    home.children.died(home.core, 40.0)
    for worker in home.workers:
        home.children.said(worker, Quiesced(1), 40.0)
    home.children.died(home.workers[0], 40.0)
    home.children.step(40.0)
    assert presenting(home) == [1]
    home.children.died(home.workers[1], 40.1)
    home.ready(home.core, 40.2)
    assert home.child(home.core).sent == [WorkerGone(1, 1)]
    home.children.step(40.2)
    assert home.child(home.workers[0]).generation == 2
    assert home.workers[1].child is None
    home.children.said(home.core, WorkerReclaimed(1, 1), 40.3)
    home.children.step(40.3)
    assert home.child(home.workers[1]).generation == 2


def test_who_dies_between_two_cores_leaves_its_successor_nothing_to_wait_for(home: Home) -> None:
    """The successor knows the next core alone: a rolling restart need not wait until it is told of it."""
    home.up()
    home.children.died(home.core, 40.0)
    for worker in home.workers:
        home.children.said(worker, Quiesced(1), 40.0)
    home.children.died(home.workers[0], 40.0)
    home.children.step(40.0)
    home.ready(home.core, 40.2)
    home.children.step(40.2)
    home.ready(home.workers[0], 40.4)
    assert home.children.roll(1.0)
    home.children.step(40.4)
    assert home.child(home.workers[0]).sent == [StopAccepting()]


def test_a_worker_that_says_it_is_quiet_beside_a_core_is_not_believed(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    """No next core would ever be made known to it. However often it says so, the log says it once a minute."""
    home.up()
    for _ in range(100):
        home.children.said(home.workers[0], Quiesced(1), 40.0)
    assert not home.workers[0].quiet
    said = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert said == ["worker 0 sent a message that makes no sense now: Quiesced(generation=1)"]


def test_a_core_that_dies_while_it_comes_back(home: Home) -> None:
    """Before or after it was ready: the workers let go again, and wait for the one after it."""
    home.up()
    for generation, ready in ((1, False), (2, True), (3, False)):
        home.children.died(home.core, 40.0 * generation)
        for worker in home.workers:
            assert home.child(worker).sent[-1] == CoreGone(generation)
            home.children.said(worker, Quiesced(generation), 40.0 * generation)
        home.children.step(40.0 * generation + 20.0)
        assert home.child(home.core).generation == generation + 1
        if ready:
            home.ready(home.core, 40.0 * generation + 20.0)
            assert home.child(home.workers[0]).sent[-1] == CoreBack()
    assert home.memory.done == ["reset"] * 3
    assert [home.child(worker).killed for worker in home.workers] == ["", ""]


def test_a_core_that_dies_again_and_again_is_throttled(home: Home) -> None:
    """As any child; the workers keep their connections meanwhile."""
    home.up()
    for generation in (1, 2):
        home.children.died(home.core, 0.0)
        for worker in home.workers:
            home.children.said(worker, Quiesced(generation), 0.0)
        if generation == 1:
            home.children.step(0.0)
    assert home.children.next_step(0.0) == pytest.approx(0.1)
    home.children.step(0.05)
    assert home.core.child is None
    home.children.step(0.11)
    assert home.child(home.core).generation == 3


def test_a_worker_that_starts_when_the_core_dies_starts_anew(home: Home) -> None:
    """It may be half attached to what is about to be reset; that is not its fault."""
    home.up()
    home.children.died(home.workers[0], 1.0)
    home.children.said(home.core, WorkerReclaimed(0, 1), 1.0)
    home.children.step(1.0)
    lives = list(home.workers[0].lives)
    home.children.died(home.core, 1.0)
    assert home.child(home.workers[0]).killed == "the core died before it served"
    home.children.said(home.workers[1], Quiesced(1), 1.0)
    home.children.step(1.0)
    assert home.core.child is None
    home.children.died(home.workers[0], 1.1)
    assert list(home.workers[0].lives) == lives
    home.children.step(1.1)
    home.ready(home.core, 1.2)
    home.children.step(1.2)
    assert home.child(home.workers[0]).generation == 3
    assert home.child(home.workers[0]).sent == []


def test_a_dead_core_owes_nothing_any_more(home: Home) -> None:
    """A worker that was being reclaimed starts with the new core."""
    home.up()
    home.children.died(home.workers[0], 1.0)
    home.children.died(home.core, 1.0)
    home.children.said(home.workers[1], Quiesced(1), 1.0)
    home.children.step(1.0)
    home.ready(home.core, 1.1)
    home.children.step(1.1)
    assert home.child(home.workers[0]).generation == 2


def test_a_stop_does_not_wait_for_a_new_core(home: Home) -> None:
    """A core that dies during the stop is not replaced; one that is being replaced is not waited for."""
    home.up()
    home.children.died(home.core, 1.0)
    home.children.stop(1.0, grace=2.0)
    for worker in home.workers:
        home.children.said(worker, Quiesced(1), 1.0)
        home.children.said(worker, Drained(), 1.0)
    home.children.step(1.0)
    assert home.core.child is None
    assert home.child(home.workers[0]).sent[-1] == CloseConnections()

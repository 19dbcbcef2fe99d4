"""Spare processes: started when all is calm, they take the places of the next core or workers that die."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from routerd.process import with_descriptors
from routerd.supervise.child import Place
from routerd.supervise.spares import FIRST_AFTER, SECOND_AFTER, SPARE_AFTER, SPARES
from shm.contract.control import Exit, ListenerSetup, Quiesced, Setup, WorkerReclaimed
from tests.support.beds.household import FakeChild, Home, blueprint

ROOT = Path(__file__).parents[4]


def spares(home: Home) -> list[FakeChild]:
    """Those that wait, oldest first."""
    there = [home.child(place) for place in home.children.spares.places if place.child is not None]
    return sorted(there, key=lambda child: child.born)


def calm(home: Home) -> list[FakeChild]:
    """A router that serves, and has had the time to start its spares."""
    home.up()
    home.fill_up(0.0)
    assert len(spares(home)) == SPARES
    return spares(home)


def dies(home: Home, place: Place, now: float) -> None:
    """And what follows, up to its successor."""
    home.children.died(place, now)
    if place is not home.core:
        home.children.said(home.core, WorkerReclaimed(place.index, place.generation), now)
    else:
        for worker in home.workers:
            home.children.said(worker, Quiesced(home.core.generation), now)
    home.children.step(now)


def test_they_are_started_when_nothing_else_is_to_be_done(home: Home) -> None:
    """One after the other, and not while processes that clients wait for need the CPUs."""
    home.children.step(0.0)
    home.children.step(FIRST_AFTER)
    assert spares(home) == []
    home.up(FIRST_AFTER)
    home.children.step(FIRST_AFTER)
    assert spares(home) == []
    for number, due in enumerate((2 * FIRST_AFTER, 2 * FIRST_AFTER + SECOND_AFTER)):
        assert home.children.next_step(FIRST_AFTER) == due
        home.children.step(due)
        assert len(spares(home)) == number + 1
    assert home.children.next_step(due) is None


def test_once_somebody_has_died_they_are_started_sooner(home: Home) -> None:
    """Another death may follow."""
    home.up()
    home.children.died(home.workers[0], 1.5)
    for number in range(1, SPARES + 1):
        due = 1.5 + number * SPARE_AFTER
        assert home.children.next_step(1.5) == due
        home.children.step(due)
        assert len(spares(home)) == number


def test_a_worker_that_dies_is_replaced_by_one(home: Home) -> None:
    """It is told what it is; a moment later there is another spare."""
    waiting, last = calm(home)
    place = home.workers[1]
    dies(home, place, 40.0)
    assert place.child is waiting  # type: ignore[comparison-overlap]  # a fake
    assert (waiting.setup.role, waiting.setup.index, waiting.generation) == ("worker", 1, 2)
    assert spares(home) == [last]
    home.children.step(40.0 + SPARE_AFTER)
    assert len(spares(home)) == SPARES


def test_the_last_one_is_for_the_core(home: Home) -> None:
    """As long as another worker serves, which takes the clients of the dead one at once."""
    first, last = calm(home)
    dies(home, home.workers[0], 40.0)
    home.ready(home.workers[0], 40.0)
    dies(home, home.workers[1], 40.0)
    home.ready(home.workers[1], 40.0)
    assert [home.child(place) is first for place in home.workers] == [True, False]
    assert spares(home) == [last]
    dies(home, home.core, 40.0)
    assert home.core.child is last  # type: ignore[comparison-overlap]  # a fake
    assert spares(home) == []


def test_where_no_worker_serves_the_last_one_is_for_whoever_dies(home: Home) -> None:
    waiting = calm(home)
    for place in home.workers:
        home.children.died(place, 40.0)
        home.children.said(home.core, WorkerReclaimed(place.index, 1), 40.0)
    home.children.step(40.0)
    assert [home.child(place) for place in home.workers] == waiting
    assert spares(home) == []


def test_one_that_somebody_has_stopped_takes_no_place(home: Home) -> None:
    """Who waits for it would wait until it is missed."""
    stopped, good = calm(home)
    home.children.spares._state = {stopped.pid: "stopped", good.pid: "sleeping"}.__getitem__
    dies(home, home.core, 40.0)
    assert home.core.child is good  # type: ignore[comparison-overlap]  # a fake
    assert stopped.killed == "it is needed, but stopped by a signal or debugger"


def test_one_that_dies_is_replaced_without_harm(home: Home) -> None:
    """Nobody else's affair; one that cannot live is tried again ever more seldom."""
    calm(home)
    for now in (40.0, 50.0, 60.0):
        home.children.died(home.children.spares.places[0], now)
        home.children.step(now + SPARE_AFTER)
        assert len(spares(home)) == SPARES
    assert all(place.child is not None for place in home.children.places)
    assert home.children.failure == ""


def test_a_rolling_restart_begins_with_them(home: Home) -> None:
    """They have the code that is to be replaced, so no place is filled by them; the next ones are new."""
    old = calm(home)
    assert home.children.roll(1.0)
    assert all(one.killed for one in old)
    for place in home.children.spares.places:
        home.children.died(place, 40.0)
    home.children.step(60.0)
    assert spares(home) == []


def test_it_is_not_told_what_it_will_be_told_anyway(home: Home) -> None:
    """News are for those who have a role; a stop is for all."""
    waiting = calm(home)
    home.children.change(blueprint())
    assert [one.sent for one in waiting] == [[], []]
    home.children.stop(40.0, 0.0)
    home.children.step(60.0)
    home.children.step(70.0)
    assert [one.sent for one in waiting] == [[Exit()], [Exit()]]


def test_sockets_and_doorbells_come_with_the_set_up() -> None:
    """They are other numbers in a process that has not inherited them."""
    listeners = [ListenerSetup("a", [7, 8], 1), ListenerSetup("b", [9], 2)]
    setup = Setup("worker", 1, 1, "/s", "id", "1", 2, [-1, 12], listeners=listeners)
    mine = with_descriptors(setup, [40, 41, 42, 43])
    assert [one.fds for one in mine.listeners] == [[40, 41], [42]]
    assert mine.doorbells == [-1, 43]


SPARE = ["spare", "--until-needed", "--control-fd", "7"]
RENAMED = (
    "from pathlib import Path; from routerd.machine.proctitle import call; "
    "call({!r}, 'spare'); print(Path('/proc/self/cmdline').read_bytes())"
)


@pytest.mark.parametrize(
    ("words", "shown"),
    [(["worker", "12", "--control-fd", "7"], ["worker", "12", "--control-fd", "7"]), (["x" * 100], SPARE)],
)
def test_the_command_line_tells_the_role(words: list[str], shown: list[str]) -> None:
    """As far as there is room for it."""
    program = [sys.executable, "-c", RENAMED.format(words), *SPARE]
    out = subprocess.run(program, capture_output=True, check=True, cwd=ROOT).stdout
    assert ast.literal_eval(out.decode()).rstrip(b"\0").decode().split("\0")[3:] == shown

"""The spare process: started when all is calm, it takes the place of the next core or worker that dies."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from household import FakeChild, Home, blueprint

from routerd.family import SPARE_AFTER
from routerd.process import with_descriptors
from shm.control import Exit, ListenerSetup, Setup, WorkerReclaimed

ROOT = Path(__file__).parents[2]


def spare(home: Home) -> FakeChild:
    return home.child(home.family.spare)


def calm(home: Home, now: float = SPARE_AFTER) -> FakeChild:
    """A router that serves, and has had the time to start a spare."""
    home.up()
    home.family.step(now)
    return spare(home)


def test_it_is_started_when_nothing_else_is_to_be_done(home: Home) -> None:
    """Not while processes that clients wait for need the CPUs."""
    home.family.step(0.0)
    home.family.step(SPARE_AFTER)
    assert home.family.spare.child is None
    home.up(SPARE_AFTER)
    home.family.step(SPARE_AFTER)
    assert home.family.spare.child is None
    assert home.family.next_step(SPARE_AFTER) == 2 * SPARE_AFTER
    home.family.step(2 * SPARE_AFTER)
    assert home.family.spare.child is not None
    assert home.family.next_step(2 * SPARE_AFTER) is None


def test_a_worker_that_dies_is_replaced_by_it(home: Home) -> None:
    """It is told what it is; later there is another spare."""
    waiting = calm(home)
    place = home.workers[1]
    home.family.died(place, 40.0)
    home.family.said(home.core, WorkerReclaimed(1, 1), 40.0)
    home.family.step(40.0)
    assert place.child is waiting  # type: ignore[comparison-overlap]  # a fake
    assert (waiting.setup.role, waiting.setup.index, waiting.generation) == ("worker", 1, 2)
    assert home.family.spare.child is None
    home.ready(place, 40.1)
    home.family.step(40.1 + SPARE_AFTER)
    assert home.family.spare.child is not None


def test_a_second_death_does_not_wait_for_a_spare(home: Home) -> None:
    """A process is started as ever."""
    waiting = calm(home)
    for place in home.workers:
        home.family.died(place, 40.0)
        home.family.said(home.core, WorkerReclaimed(place.index, 1), 40.0)
    home.family.step(40.0)
    assert all(place.child is not None for place in home.workers)
    assert [home.child(place) is waiting for place in home.workers] == [True, False]


def test_one_that_dies_is_replaced_without_harm(home: Home) -> None:
    """Nobody else's affair; one that cannot live is tried again ever more seldom."""
    calm(home)
    for now in (40.0, 50.0, 60.0):
        home.family.died(home.family.spare, now)
        home.family.step(now + SPARE_AFTER)
        assert home.family.spare.child is not None
    assert all(place.child is not None for place in home.family.places)
    assert home.family.failure == ""


def test_a_rolling_restart_begins_with_it(home: Home) -> None:
    """It has the code that is to be replaced, so no place is filled by it; the next one is new."""
    old = calm(home)
    assert home.family.roll(1.0)
    assert old.killed
    home.family.died(home.family.spare, 40.0)
    home.family.step(60.0)
    assert home.family.spare.child is None


def test_it_is_not_told_what_it_will_be_told_anyway(home: Home) -> None:
    """News are for those who have a role; a stop is for all."""
    waiting = calm(home)
    home.family.change(blueprint())
    assert waiting.sent == []
    home.family.stop(40.0, 0.0)
    home.family.step(60.0)
    home.family.step(70.0)
    assert waiting.sent == [Exit()]


def test_sockets_and_doorbells_come_with_the_set_up() -> None:
    """They are other numbers in a process that has not inherited them."""
    listeners = [ListenerSetup("a", [7, 8], 1), ListenerSetup("b", [9], 2)]
    setup = Setup("worker", 1, 1, "/s", "id", "1", 2, [-1, 12], listeners=listeners)
    mine = with_descriptors(setup, [40, 41, 42, 43])
    assert [one.fds for one in mine.listeners] == [[40, 41], [42]]
    assert mine.doorbells == [-1, 43]


SPARE = ["spare", "--until-needed", "--control-fd", "7"]
RENAMED = (
    "from pathlib import Path; from routerd.calling import call; "
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

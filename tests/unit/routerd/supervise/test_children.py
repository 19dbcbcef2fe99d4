"""Births and deaths of children, with fake children and the clock in the test's hand."""

import os
import re
import socket
from types import SimpleNamespace

import msgspec
import pytest

from routerd.config import Address, Listener, Log
from routerd.machine.listeners import Listening
from routerd.supervise import children as children_module
from routerd.supervise.child import LAST_FILE_SECONDS, Death
from routerd.supervise.children import RECLAIM_SECONDS
from shm.contract.control import (
    AddressSetup,
    ChangeAddresses,
    CloseConnections,
    Closed,
    CoreGone,
    Drained,
    Exit,
    LogSetup,
    Quiesced,
    Ready,
    SetListeners,
    SetLogs,
    StopAccepting,
    WorkerGone,
    WorkerReclaimed,
)
from shm.contract.flow_log.setup import FlowLogSetup
from tests.support.beds.household import FakeChild, Home, blueprint


def test_workers_start_when_the_core_serves(home: Home) -> None:
    """A worker has nobody to talk to before."""
    home.children.step(0.0)
    assert [worker.child for worker in home.workers] == [None, None]
    home.ready(home.core, 1.0)
    home.children.step(1.0)
    assert [home.child(worker).setup.index for worker in home.workers] == [0, 1]
    assert not home.children.operational
    for worker in home.workers:
        home.ready(worker, 2.0)
    assert home.children.operational


def test_each_child_inherits_its_doorbell_and_the_core_all(home: Home) -> None:
    """A worker cannot ring another worker."""
    home.up()
    assert home.child(home.core).fds == [70, 71]
    assert home.child(home.workers[1]).fds == [71]
    assert home.child(home.workers[1]).setup.doorbells == [-1, 71]


def test_a_dead_worker_waits_for_the_core_to_reclaim(home: Home) -> None:
    """Its statistics are cleared, the core is told and woken, and only then the next generation starts."""
    home.up()
    home.children.died(home.workers[0], 1.0)
    assert home.memory.done == ["worker 0 gone", "wake core"]
    assert home.child(home.core).sent == [WorkerGone(0, 1)]
    home.children.step(1.0)
    assert home.workers[0].child is None
    home.children.said(home.core, WorkerReclaimed(0, 1), 1.1)
    home.children.step(1.1)
    assert home.child(home.workers[0]).generation == 2


@pytest.mark.parametrize("report", [WorkerReclaimed(0, 0), WorkerReclaimed(1, 1), WorkerReclaimed(9, 1)])
def test_a_report_about_something_else_starts_nothing(home: Home, report: WorkerReclaimed) -> None:
    """An older generation, another worker, a worker that does not exist."""
    home.up()
    home.children.died(home.workers[0], 1.0)
    home.children.said(home.core, report, 1.1)
    home.children.step(1.1)
    assert home.workers[0].child is None


def test_only_the_core_reclaims(home: Home) -> None:
    """A worker that says so is not believed."""
    home.up()
    home.children.died(home.workers[0], 1.0)
    home.children.said(home.workers[1], WorkerReclaimed(0, 1), 1.1)
    home.children.step(1.1)
    assert home.workers[0].child is None


def test_a_worker_that_dies_at_start_is_throttled(home: Home) -> None:
    """The second failure in a row waits for 0.1 s, and the children say when it has something to do."""
    home.up()
    for generation in (1, 2):
        home.children.died(home.workers[0], 0.0)
        home.children.said(home.core, WorkerReclaimed(0, generation), 0.0)
        if generation == 1:
            home.children.step(0.0)
    assert home.children.next_step(0.0) == pytest.approx(0.1)
    home.children.step(0.05)
    assert home.workers[0].child is None
    home.children.step(0.11)
    assert home.child(home.workers[0]).generation == 3


def test_a_core_that_does_not_reclaim_is_replaced(home: Home) -> None:
    """Otherwise a worker would be missing for ever."""
    home.up()
    home.fill_up(0.0)
    home.children.died(home.workers[0], 1.0)
    assert home.children.next_step(1.0) == pytest.approx(1.0 + RECLAIM_SECONDS)
    home.children.step(1.0 + RECLAIM_SECONDS)
    assert "worker 0" in home.child(home.core).killed


def test_a_first_start_that_fails_says_why(home: Home) -> None:
    """A router that never worked does not try for ever."""
    home.children.step(0.0)
    home.child(home.core).kill("the engine is missing")
    home.children.died(home.core, 0.5)
    assert home.children.failure == "core did not start: the engine is missing (SIGKILL)"


def test_a_child_that_does_not_get_ready_is_killed_in_time(home: Home) -> None:
    """The reason is kept for its death report, and the children know when to look."""
    home.children.step(0.0)
    child = home.child(home.core)
    child.kill_at, child.why = 20.0, "not ready after 20 s"
    assert home.children.next_step(1.0) == 20.0
    home.children.step(19.9)
    assert child.killed == ""
    home.children.step(20.0)
    assert child.killed == "not ready after 20 s"


def test_a_restart_that_fails_is_tried_again(home: Home) -> None:
    """A router that worked once is worth more patience."""
    home.up()
    home.children.died(home.workers[0], 1.0)
    home.children.said(home.core, WorkerReclaimed(0, 1), 1.0)
    home.children.step(1.0)
    home.children.died(home.workers[0], 1.1)
    assert home.children.failure == ""


def test_a_child_that_cannot_be_created_is_tried_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may be out of processes for a while."""
    home.up()
    home.children.died(home.workers[0], 1.0)
    home.children.said(home.core, WorkerReclaimed(0, 1), 1.0)

    def fail(*_: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(children_module, "Child", fail)
    home.children.step(1.0)
    assert home.workers[0].child is None
    monkeypatch.setattr(children_module, "Child", FakeChild)
    home.children.step(1.2)
    assert home.workers[0].child is not None


def test_the_stop_goes_through_its_phases(home: Home) -> None:
    """Workers drain, then close; the core lives until then, and is woken to hear of its exit."""
    home.up()
    home.children.stop(1.0, grace=2.0)
    for worker in home.workers:
        assert home.child(worker).sent == [StopAccepting()]
        home.children.said(worker, Drained(), 1.1)
    home.children.step(1.1)
    assert home.child(home.core).sent == []
    for worker in home.workers:
        assert home.child(worker).sent[-1] == CloseConnections()
        home.children.said(worker, Closed(), 1.2)
    home.children.step(1.2)
    for place in home.children.places:
        assert home.child(place).sent[-1] == Exit()
    assert home.memory.done == ["wake core"]
    for place in home.children.places:
        home.children.died(place, 1.3)
    home.children.step(1.3)
    assert home.children.empty


def test_a_process_that_does_not_die_holds_no_stop_up(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """One that waits for a device dies when that answers; the log says who it is, and nobody waits for it."""
    home.up()
    home.children.stop(1.0, grace=0.0)
    stuck, now = home.workers[1], 1.0
    home.child(stuck).unkillable = True
    while not home.children.empty:
        due = home.children.next_step(now)
        assert due is not None
        now = due
        home.children.step(now)
        if home.child(stuck).killed:
            for place in (home.core, home.workers[0]):
                if place.child is not None:
                    home.children.died(place, now)
    assert now <= 15.0  # TimeoutStopSec of the units
    (line,) = [one.getMessage() for one in caplog.records if "does not die" in one.getMessage()]
    assert "worker 1 does not die, and the router ends without it" in line
    home.children.end()
    assert stuck.child is None


def test_nothing_starts_while_stopping(home: Home) -> None:
    """A worker that dies during the stop is not waited for and not replaced."""
    home.up()
    home.children.stop(1.0, grace=2.0)
    home.children.died(home.workers[0], 1.1)
    home.children.said(home.core, WorkerReclaimed(0, 1), 1.1)
    home.children.said(home.workers[1], Drained(), 1.1)
    home.children.step(1.1)
    assert home.workers[0].child is None
    assert home.child(home.workers[1]).sent[-1] == CloseConnections()


def test_what_a_child_should_not_say_is_logged_and_ignored(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """The supervisor trusts no child."""
    home.up()
    home.children.said(home.workers[0], Drained(), 1.0)
    home.children.said(home.core, Ready(1), 1.0)
    assert len(re.findall("makes no sense", caplog.text)) == 2


def test_living_children_are_told_what_is_new(home: Home) -> None:
    """Each what concerns it, and nothing else; the core is woken to hear it."""
    home.up()
    home.children.change(blueprint(addresses=[Address(prefix="a")]))
    assert home.child(home.core).sent == [ChangeAddresses([], [AddressSetup(prefix="a")])]
    assert home.memory.done == ["wake core"]
    with socket.socket() as sock:
        listening = [Listening(Listener(), [sock], number=5)]
        home.children.change(blueprint(addresses=[Address(prefix="a")], listening=listening))
        for worker in home.workers:
            (told,) = home.child(worker).sent
            assert isinstance(told, SetListeners)
            assert [one.number for one in told.listeners] == [5]
            assert home.child(worker).got == [sock.fileno()]
    assert len(home.child(home.core).sent) == 1


def test_the_next_generation_is_set_up_by_what_is_new(home: Home) -> None:
    """It needs to be told nothing."""
    home.up()
    home.children.change(blueprint(logs=[Log(module="SERVER", enable="debug+")]))
    assert home.child(home.core).sent == [SetLogs([LogSetup("SERVER", "debug+")])]
    home.children.died(home.workers[0], 1.0)
    home.children.said(home.core, WorkerReclaimed(0, 1), 1.1)
    home.children.step(1.1)
    assert home.child(home.workers[0]).setup.logs == [LogSetup("SERVER", "debug+")]
    assert home.child(home.workers[0]).sent == []


def test_a_rolling_restart_replaces_everybody_and_blames_nobody(home: Home) -> None:
    """Each leaves because it was told to: the workers one after the other, then the core."""
    home.up()
    assert home.children.roll(2.0)
    assert not home.children.roll(2.0)
    for worker in home.workers:
        home.children.step(1.0)
        assert home.child(worker).sent == [StopAccepting()]
        home.children.said(worker, Drained(), 1.0)
        home.children.step(1.0)
        home.children.said(worker, Closed(), 1.0)
        home.children.step(1.0)
        assert home.child(worker).sent[-1] == Exit()
        home.children.died(worker, 1.0)
        home.children.said(home.core, WorkerReclaimed(worker.index, 1), 1.0)
        home.children.step(1.0)
        home.ready(worker, 1.0)
    home.children.step(1.0)
    assert home.child(home.core).sent[-1] == Exit()
    home.children.died(home.core, 1.1)
    for worker in home.workers:
        assert home.child(worker).sent[-1] == CoreGone(1, died=False)
        home.children.said(worker, Quiesced(1), 1.1)
    home.children.step(1.1)
    home.ready(home.core, 1.2)
    home.children.step(1.2)
    assert home.children.rolling is None
    assert [place.generation for place in home.children.places] == [2, 2, 2]
    assert all(not place.lives for place in home.children.places)


def test_a_stop_ends_a_rolling_restart(home: Home) -> None:
    """Nobody is started any more, and no other begins."""
    home.up()
    home.children.roll(2.0)
    home.children.step(1.0)
    home.children.stop(1.1, grace=2.0)
    assert not home.children.roll(2.0)
    for worker in home.workers:
        home.children.said(worker, Drained(), 1.2)
    home.children.step(1.2)
    assert home.child(home.workers[1]).sent[-1] == CloseConnections()


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("SIGKILL", "killed from outside: by a user, or by the kernel for lack of memory"),
        ("SIGSEGV", "it crashed; coredumpctl shows it"),
        ("SIGTERM", "killed from outside"),
        ("exit status 3", "it ended by itself; its last log lines, or standard error, say why"),
    ],
)
def test_a_death_without_a_word_has_a_reason_all_the_same(
    home: Home, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, how: str, why: str
) -> None:
    """One line: who, how the kernel says it ended, what that may mean, what follows."""
    home.up()
    child = home.child(home.workers[0])
    monkeypatch.setattr(child, "reap", lambda: Death(child.pid, 1, how, ""))
    home.children.died(home.workers[0], 40.0)
    (line,) = [record.getMessage() for record in caplog.records if "worker 0 died" in record.getMessage()]
    assert all(part in line for part in (how, why, "restart at once")), line


@pytest.mark.parametrize(
    ("blocks", "free", "why"),
    [
        (1000, 255, "/dev/shm is full (0 MiB free): make room there, enlarge it, or lower arenaSize"),
        (1000, 300, "/dev/shm is full (1 MiB free)"),
        (1000, 512, "it crashed"),
        (0, 0, "it crashed"),  # a tmpfs without a limit
    ],
)
def test_a_death_by_sigbus_is_told_with_its_cause(
    home: Home, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, blocks: int, free: int, why: str
) -> None:
    """Somebody else has filled shared memory; the status of the service says so, too."""
    home.up()
    worker = home.workers[0]
    child = home.child(worker)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free, f_frsize=4096, f_blocks=blocks))
    monkeypatch.setattr(child, "reap", lambda: Death(child.pid, 1, "SIGBUS", ""))
    home.children.died(worker, 40.0)
    (line,) = [record.getMessage() for record in caplog.records if "worker 0 died" in record.getMessage()]
    assert why in line
    assert worker.cause.startswith(f"SIGBUS: {why}")


def test_who_hangs_up_is_killed_if_it_does_not_exit_and_in_a_stop_with_the_others(home: Home) -> None:
    """On a busy machine a process takes its time to exit: a stop has that."""
    home.up()
    one, other = home.workers
    home.children.hung_up(one, "closed", 3.0)
    assert home.child(one).kill_at == 3.0
    home.children.stop(4.0, grace=2.0)
    home.children.hung_up(other, "closed", 4.1)
    assert home.child(other).kill_at is None
    for now in (6.0, 7.0, 8.5):
        home.children.step(now)
    assert home.child(other).killed == "did not exit in time"


@pytest.mark.parametrize("late", [False, True])
def test_a_recorder_that_was_killed_and_is_not_wanted_is_gone(home: Home, late: bool) -> None:
    """Only one that ends in order says so itself: the other would be missing for ever."""
    recorder, flow = home.children.recorder, FlowLogSetup("/x", 1)
    home.children.change(msgspec.structs.replace(blueprint(), flow=flow))
    home.up()
    home.children.step(0.0)
    home.ready(recorder, 0.0)
    if late:
        home.children.change(blueprint())
        home.children.died(recorder, 1.0)
    else:
        home.children.died(recorder, 1.0)
        assert "recorder gone" not in home.memory.done
        home.children.change(blueprint())
    assert home.memory.done.count("recorder gone") == 1
    home.children.change(blueprint())
    home.children.step(99.0)
    assert recorder.child is None
    assert home.memory.done.count("recorder gone") == 1


def test_the_end_of_a_recorders_file_has_one_deadline(home: Home) -> None:
    """Another reload gives it no more time."""
    home.children.change(msgspec.structs.replace(blueprint(), flow=FlowLogSetup("/x", 1)))
    home.up()
    home.children.step(0.0)
    child = home.child(home.children.recorder)
    for now in (1.0, 20.0):
        home.children.change(blueprint(), now=now)
    assert child.kill_at == 1.0 + LAST_FILE_SECONDS

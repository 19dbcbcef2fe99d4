"""The orderly stop, with the clock in the test's hand."""

from hypothesis import given
from hypothesis import strategies as st

from routerd.supervise.stopping import Phase, Stopping


def phases(stop: Stopping, now: float) -> list[Phase]:
    """All phases that begin at this moment."""
    begun = []
    while phase := stop.step(now):
        begun.append(phase)
    return begun


def test_workers_that_answer_are_not_waited_for() -> None:
    """Each phase ends with the last answer."""
    stop = Stopping(0.0, 2.0, {0, 1})
    stop.answered(0, Phase.DRAINING)
    assert phases(stop, 0.1) == []
    stop.answered(1, Phase.DRAINING)
    assert phases(stop, 0.1) == [Phase.CLOSING]
    stop.answered(0, Phase.CLOSING)
    stop.gone(1)
    assert phases(stop, 0.2) == [Phase.EXITING]


def test_a_late_answer_counts_only_for_its_own_phase() -> None:
    """Drained, said after the grace, does not mean closed."""
    stop = Stopping(0.0, 1.0, {0})
    assert phases(stop, 1.0) == [Phase.CLOSING]
    stop.answered(0, Phase.DRAINING)
    assert phases(stop, 1.1) == []


def test_without_workers_everything_exits_at_once() -> None:
    """Nobody is there to be waited for."""
    assert phases(Stopping(0.0, 2.0, set()), 0.0) == [Phase.CLOSING, Phase.EXITING]


def test_hurry_skips_the_waiting_but_not_the_exit() -> None:
    """Processes still get the moment they need to leave by themselves."""
    stop = Stopping(0.0, 3.0, {0})
    stop.hurry(0.5)
    assert phases(stop, 0.5) == [Phase.EXITING]
    assert phases(stop, 0.6) == []
    assert phases(stop, 0.8) == [Phase.KILLING]


event = st.sampled_from(["drained", "closed", "gone", "hurry", "step"])


@given(st.floats(0, 60), st.sets(st.integers(0, 4)), st.lists(st.tuples(event, st.integers(0, 4), st.floats(0, 1))))
def test_a_stop_goes_forward_and_is_over_in_time(
    grace: float, workers: set[int], events: list[tuple[str, int, float]]
) -> None:
    """No order of events, and no grace, leads back or beyond 4.5 s: half a second is left for the kill."""
    stop, now, seen = Stopping(0.0, grace, workers), 0.0, [Phase.DRAINING]
    for what, worker, later in events:
        while now + later > stop.deadline and stop.phase is not Phase.KILLING:
            now = max(now, stop.deadline)
            seen += phases(stop, now)
        now += later
        if what == "hurry":
            stop.hurry(now)
        elif what == "gone":
            stop.gone(worker)
        elif what != "step":
            stop.answered(worker, Phase.DRAINING if what == "drained" else Phase.CLOSING)
        seen += phases(stop, now)
    while stop.phase is not Phase.KILLING:
        now = stop.deadline
        seen += phases(stop, now)
    assert seen == sorted(seen, key=list(Phase).index)
    assert stop.deadline <= 4.5 + 1e-9  # when killing began


def test_what_time_is_left_is_there_for_the_exit() -> None:
    """A process that is only slow is not killed while the stop is young, and no stop gets old for it."""
    quick = Stopping(0.0, 2.0, set())
    assert phases(quick, 0.0) == [Phase.CLOSING, Phase.EXITING]
    assert quick.deadline == 2.5
    slow = Stopping(0.0, 60.0, {0})
    assert [*phases(slow, 3.0), *phases(slow, 4.0)] == [Phase.CLOSING, Phase.EXITING]
    assert slow.deadline == 4.5

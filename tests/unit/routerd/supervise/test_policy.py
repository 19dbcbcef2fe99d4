"""Restart back-off: the promises of routerd.supervise.restart_policy."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routerd.supervise.restart_policy import (
    FORGIVEN_AFTER,
    LONGEST_DELAY,
    LONGEST_OF_SERVING,
    Life,
    deaths_in_a_row,
    restart_delay,
)

ROUNDING = 1e-9  # of a delay that is the difference of two times


def history(*served: float | None) -> list[Life]:
    """Lives one after the other, each of which served so many seconds (None: never got ready)."""
    lives, now = [], 100.0
    for seconds in served:
        ready = None if seconds is None else now + 0.5
        died = now + 0.5 + (seconds or 0.0)
        lives.append(Life(now, ready, died))
        now = died + 1.0
    return lives


def delay(*served: float | None) -> float:
    lives = history(*served)
    return restart_delay(lives, lives[-1].died)


def test_a_child_that_never_died_starts_at_once() -> None:
    """The first start of all."""
    assert restart_delay([], 5.0) == 0.0


def test_a_child_that_fails_at_once_is_throttled_step_by_step() -> None:
    """At once, then 0.1 s, doubling up to 10 s."""
    got = [delay(*[None] * n) for n in range(1, 12)]
    assert got == pytest.approx([0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10])


def test_a_long_service_wipes_the_slate() -> None:
    """Thirty seconds of service forgive any number of earlier failures."""
    assert delay(*[None] * 50, FORGIVEN_AFTER) == 0.0


def test_a_child_killed_now_and_then_is_replaced_at_once() -> None:
    """Serving clients for two seconds between deaths is worth having."""
    assert delay(*[2.0] * 60) == 0.0


def test_one_that_served_is_not_waited_for_long() -> None:
    """However often it is killed: its clients are to be served again within a second."""
    assert delay(*[0.1] * 60) == LONGEST_OF_SERVING
    assert delay(*[None] * 20, 0.0) == LONGEST_OF_SERVING
    assert delay(*[0.1] * 60, None) == LONGEST_DELAY


def test_one_that_nobody_waits_for_backs_off_whenever_it_dies() -> None:
    """Also if it serves for a while each time, such as until it is asked; a long service forgives."""
    got = [restart_delay(lives, lives[-1].died, awaited=False) for lives in (history(*[5.0] * n) for n in range(1, 10))]
    assert got == pytest.approx([0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10])
    lives = history(*[5.0] * 9, FORGIVEN_AFTER)
    assert restart_delay(lives, lives[-1].died, awaited=False) == 0.0


def test_deaths_in_a_row_are_counted_from_the_last_long_service() -> None:
    """What an operator is told of a child that keeps dying."""
    assert deaths_in_a_row(history(None, 1.0, FORGIVEN_AFTER, 1.0, None, 0.0)) == 3
    assert deaths_in_a_row([]) == 0


def test_a_slow_start_is_no_service() -> None:
    """A child that needs a minute to fail is throttled like one that fails at once."""
    lives = [Life(60.0 * n, None, 60.0 * n + 59) for n in range(5)]
    assert restart_delay(lives, lives[-1].died) == pytest.approx(0.8)


def test_waiting_counts() -> None:
    """The delay is what remains of it."""
    lives = history(*[None] * 6)
    assert restart_delay(lives, lives[-1].died + 1.0) == pytest.approx(0.6)
    assert restart_delay(lives, lives[-1].died + 99.0) == 0.0


service = st.none() | st.floats(0, 120)


@given(st.lists(service, max_size=80), st.floats(0, 100))
def test_the_delay_is_bounded(served: list[float | None], later: float) -> None:
    """Never negative, never beyond the cap."""
    lives = history(*served)
    now = (lives[-1].died if lives else 0.0) + later
    assert 0.0 <= restart_delay(lives, now) <= LONGEST_DELAY + ROUNDING


@given(st.lists(service, max_size=20), st.lists(st.floats(0, 120), min_size=2, max_size=2).map(sorted))
def test_longer_service_never_waits_longer(before: list[float | None], last: list[float]) -> None:
    """Whatever went before, having served longer is never worse."""
    shorter, longer = last
    assert delay(*before, longer) <= delay(*before, shorter) + ROUNDING


@given(st.lists(service, max_size=20), st.integers(1, 12))
def test_failures_in_a_row_never_wait_less(before: list[float | None], failures: int) -> None:
    """Each further failure at start-up waits at least as long as the one before."""
    delays = [delay(*before, *[None] * n) for n in range(1, failures + 1)]
    assert all(a <= b + ROUNDING for a, b in pairwise(delays))

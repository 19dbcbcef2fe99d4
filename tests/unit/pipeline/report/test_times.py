"""The axis of the plots, and the two days that are compared."""

from datetime import UTC, datetime, timedelta

import pytest

from pipeline.report.times import SLOTS, axis, days

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize("least", [60, 900])
@pytest.mark.parametrize("minutes", [0, 1, 59, 600, 1439, 2879, 100_000, 30_000_000])
def test_an_axis_holds_every_minute_in_few_slots(minutes: int, least: int) -> None:
    """From one minute to the 57 years between a wrong clock and a right one; slots begin where clocks show it."""
    for begin in (MONDAY, MONDAY + timedelta(minutes=7, hours=3), datetime(1970, 1, 1, tzinfo=UTC)):
        made = axis(begin, begin + timedelta(minutes=minutes), least)
        assert 1 <= made.slots <= SLOTS
        assert made.step >= least
        assert made.start % made.step == 0
        assert made.when(0) <= begin < made.when(1)
        assert made.when(made.slots - 1) <= begin + timedelta(minutes=minutes) < made.when(made.slots)
        assert made.place(made.when(0) - timedelta(days=1)) == 0
        assert made.place(begin + timedelta(minutes=2 * minutes, days=400)) <= made.slots
        assert all(made.when(at).time() == datetime.min.time() for at in made.midnights())


def test_two_days_are_the_last_day_and_the_same_hours_before() -> None:
    """A log that has only a part of the day before is compared with this part; less than an hour is too little."""
    end = MONDAY + timedelta(days=3, minutes=7)
    made = days(MONDAY, end)
    assert made is not None
    last = int((MONDAY + timedelta(days=3, minutes=15)).timestamp())  # a whole quarter
    assert (made.now, made.before) == ((last - 86400, last), (last - 2 * 86400, last - 86400))
    part = days(MONDAY, MONDAY + timedelta(hours=30, minutes=-1))
    assert part is not None
    assert part.length == 6 * 3600
    assert part.before == (int(MONDAY.timestamp()), int(MONDAY.timestamp()) + 6 * 3600)
    assert days(MONDAY, MONDAY + timedelta(hours=24, minutes=44)) is None
    assert days(MONDAY, MONDAY) is None

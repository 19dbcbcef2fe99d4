"""The time axis that all plots of a report share, and the two days that it compares. Times are seconds since 1970."""

from datetime import UTC, datetime
from typing import Final, NamedTuple

HOUR: Final = 3600
DAY: Final = 24 * HOUR
QUARTER: Final = 900  # findings and latencies are by quarters of an hour
SLOTS: Final = 96  # of an axis at most
STEPS: Final = (60, 300, QUARTER, 2 * QUARTER, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY)


class Axis(NamedTuple):
    """So many slots of ``step`` seconds; a slot begins at a multiple of its length."""

    start: int
    step: int
    slots: int

    def when(self, slot: float) -> datetime:
        """Return when a slot begins."""
        return datetime.fromtimestamp(self.start + slot * self.step, UTC)

    def place(self, time: datetime) -> float:
        """Return where a time is, in slots, at most an end of the axis."""
        return min(max((time.timestamp() - self.start) / self.step, 0.0), float(self.slots))

    def midnights(self) -> list[float]:
        """Return where days begin, if there are few."""
        first = -(-self.start // DAY) * DAY
        found = range(first, self.start + self.slots * self.step, DAY)
        return [(one - self.start) / self.step for one in found if one > self.start] if len(found) <= SLOTS // 3 else []


def axis(first: datetime, last: datetime, least: int = 60) -> Axis:
    """Return an axis that holds two minutes and all between, in steps of ``least`` seconds or more."""
    start, end = int(first.timestamp()), int(last.timestamp()) + 60

    def slots(step: int) -> int:
        return -(-end // step) - start // step

    step = next((one for one in STEPS if one >= least and slots(one) <= SLOTS), 2 * DAY)
    while slots(step) > SLOTS:
        step *= 2
    return Axis(start // step * step, step, slots(step))


class Days(NamedTuple):
    """The last day of a log, ``length`` seconds until ``end``, and the day before: the same hours, 24 hours earlier."""

    end: int
    length: int

    @property
    def now(self) -> tuple[int, int]:
        """When the last day begins and ends."""
        return self.end - self.length, self.end

    @property
    def before(self) -> tuple[int, int]:
        """When the day before begins and ends."""
        return self.end - self.length - DAY, self.end - DAY


def days(first: datetime, last: datetime) -> Days | None:
    """Return the days to compare; None if the log has less than an hour of the day before.

    A log of less than two days has a part of the day before: the last day is then as long as this part.
    """
    start = int(first.timestamp()) // QUARTER * QUARTER
    end = -(-(int(last.timestamp()) + 60) // QUARTER) * QUARTER
    length = min(DAY, end - start - DAY)
    return Days(end, length) if length >= HOUR else None

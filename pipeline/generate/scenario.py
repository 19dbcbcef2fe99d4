"""What is generated: how much of it, when, by which routers, and what is wrong on which days."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

import msgspec

FAULTS: Final = (
    "slow consumer", "credit starvation", "error burst", "latency shift", "loop", "detour", "asymmetric pair",
    "no consumers",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scenario:
    """A log to generate. ``records`` is met within a few per cent; equal scenarios give equal logs.

    ``skew_s``: the clocks of routers are wrong by up to so many seconds. ``clients``: ordinary addresses.
    ``special``: share of all messages of each address that something is wrong with.
    """

    records: int = 200_000
    seed: int = 1
    days: int = 2
    start: date = date(2026, 1, 5)
    routers: int = 4
    workers: int = 2
    clients: int = 40
    types: int = 6  # message types of route tables
    meids: int = 60
    skew_s: float = 2.0
    special: float = 0.04
    faults: tuple[str, ...] = FAULTS

    @property
    def hours(self) -> int:
        """Length of the log."""
        return self.days * 24

    @property
    def origin(self) -> datetime:
        """Its first moment."""
        return datetime(self.start.year, self.start.month, self.start.day, tzinfo=UTC)

    def router(self, number: int) -> str:
        """Name of a router, from 0."""
        return f"R{number + 1}"


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something wrong, and what a job has to say of it. ``start`` and ``end``: None is all the time."""

    kind: str
    address: str
    start: datetime | None = None
    end: datetime | None = None
    router: str = ""
    container: str = ""
    path: str = ""


class Truth(msgspec.Struct):
    """What the log holds, counted while it is made."""

    records: int = 0
    files: int = 0
    messages: int = 0  # rows by their weight
    size_bytes: int = 0  # by their weight
    faults: list[Fault] = []


def window(scenario: Scenario, hour: float) -> tuple[datetime, datetime]:
    """An hour of the last day, from that hour of the day on."""
    start = scenario.origin + timedelta(days=scenario.days - 1, hours=hour)
    return start, start + timedelta(hours=1)

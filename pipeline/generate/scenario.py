"""What is generated: how much, when, by which routers, and with which faults."""

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
    """A log to generate, with ``records`` within a few per cent; equal scenarios give equal logs.

    ``routers`` form a ring. Each of the ``edges``, edge routers, is at one of them, from the second one on.
    The clocks of routers are wrong by up to ``skew_s`` seconds. ``clients`` is the number of ordinary addresses,
    ``special`` the share for each address with a fault. The ``hot_…`` ones are shares of all messages that concern one
    address, one receiver and one path; with ``hot_minutes`` they pass within so many minutes of the last day. All other
    shares are of the messages that are not hot.
    """

    records: int = 200_000
    seed: int = 1
    days: int = 2
    start: date = date(2026, 1, 5)
    routers: int = 4
    edges: int = 1
    workers: int = 2
    clients: int = 40
    types: int = 6  # message types of route tables
    meids: int = 60
    skew_s: float = 2.0
    special: float = 0.04
    hot_address: float = 0.0
    hot_receiver: float = 0.0
    hot_path: float = 0.0
    hot_minutes: int = 0
    faults: tuple[str, ...] = FAULTS

    @property
    def hours(self) -> int:
        """The length of the log."""
        return self.days * 24

    @property
    def hot(self) -> float:
        """The share of all messages that are hot, without the last digits: 0.33, 0.56 and 0.11 are exactly 1."""
        return round(self.hot_address + self.hot_receiver + self.hot_path, 9)

    @property
    def origin(self) -> datetime:
        """The first moment of the log."""
        return datetime(self.start.year, self.start.month, self.start.day, tzinfo=UTC)

    @property
    def places(self) -> int:
        """The number of routers of both kinds: edge routers have the last numbers."""
        return self.routers + self.edges

    def router(self, number: int) -> str:
        """Return the name of a router; numbers begin at 0."""
        return f"R{number + 1}" if number < self.routers else f"E{number - self.routers + 1}"

    def interior(self, number: int) -> int:
        """Return the interior router of an edge router, or the interior router itself."""
        return number if number < self.routers else (number - self.routers + 1) % self.routers


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fault, as a job must find it; without ``start`` and ``end`` it lasts all the time."""

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
    messages: int = 0  # rows times their weights
    sent: int = 0  # messages that clients sent, times the weights
    size_bytes: int = 0  # times the weights
    faults: list[Fault] = []


def window(scenario: Scenario, hour: float) -> tuple[datetime, datetime]:
    """Return an hour of the last day, which begins at ``hour``."""
    start = scenario.origin + timedelta(days=scenario.days - 1, hours=hour)
    return start, start + timedelta(hours=1)

"""The history: what the router did in each of the last 120 seconds, and in each 10 seconds of the last hour.

A point is made of two ticks, so it has what happened between them. Old points make room for new ones: the history has
at most ``MINUTES`` + ``HOUR`` points of a dozen numbers each, some 200 KiB, however long the exporter runs.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from shm.contract.roles import Role, is_worker
from shm.native import BUCKET_FLOORS
from shm.statistics.board import AddressRow
from shm.statistics.stats import DROPPED_PRESETTLED

TICK_SECONDS: Final = 1.0
MINUTES: Final = 120  # points of a tick each
HOUR: Final = 360  # points of HOUR_STEP seconds each
HOUR_STEP: Final = 10.0
RESTART_SECONDS: Final = 600.0  # for which the starts of processes are kept
_NS: Final = 1e-9


class Tick(msgspec.Struct, frozen=True):
    """Sums over all processes at one time; ``time`` and ``cpu`` in seconds, ``cpu`` by process."""

    time: float
    counters: dict[str, int]
    cpu: dict[str, float]
    addresses: dict[str, AddressRow]


class Point(NamedTuple):
    """What happened until ``time`` since the point before.

    Counts are per second, latencies in seconds (None if nothing was delivered), CPU in parts of one CPU;
    ``unsettled`` is the highest number that a tick saw.
    """

    time: float
    deliveries_in: float
    deliveries_out: float
    bytes_in: float
    bytes_out: float
    accepted: float
    released: float
    rejected: float
    modified: float
    dropped: float
    p50: float | None
    p99: float | None
    p999: float | None
    unsettled: int
    core_cpu: float
    worker_cpu: float


class Span:
    """The last ``most`` points; a point takes ``step`` seconds, as nearly as ticks allow."""

    def __init__(self, step: float, most: int) -> None:
        self.step = step
        self.points: deque[Point] = deque(maxlen=most)
        self._before: tuple[Tick, Sequence[int]] | None = None
        self._unsettled = 0

    def add(self, tick: Tick, latency: Sequence[int]) -> None:
        """Add a tick and the core's counts of latencies by bucket."""
        self._unsettled = max(self._unsettled, tick.counters["unsettled"])
        if self._before is not None:
            if tick.time - self._before[0].time < self.step - TICK_SECONDS / 2:
                return
            self.points.append(_point(*self._before, tick, latency, self._unsettled))
        self._before = tick, latency
        self._unsettled = 0


class Starts:
    """How often one process had been started when, over the last ``RESTART_SECONDS``."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()  # when the number changed; the first is that of the beginning

    def add(self, time: float, number: int) -> None:
        """Add the number of starts so far; a lower one is that of another router."""
        if self._seen and number < self._seen[-1][1]:
            self._seen.clear()
        if not self._seen or number > self._seen[-1][1]:
            self._seen.append((time, number))
        while len(self._seen) > 1 and self._seen[1][0] <= time - RESTART_SECONDS:
            self._seen.popleft()

    @property
    def again(self) -> int:
        """How often the process was started again."""
        return max(0, self._seen[-1][1] - max(1, self._seen[0][1])) if self._seen else 0


class History:
    """Both spans by name."""

    def __init__(self) -> None:
        self.spans = {"minutes": Span(TICK_SECONDS, MINUTES), "hour": Span(HOUR_STEP, HOUR)}

    def add(self, tick: Tick, latency: Sequence[int]) -> None:
        """Add a tick and the core's counts of latencies by bucket."""
        for span in self.spans.values():
            span.add(tick, latency)


def quantile(counts: Sequence[int], per_mille: int) -> float | None:
    """Return the value with that rank among the values that a histogram counted; None if there are none.

    ``counts`` are by bucket of ``BUCKET_FLOORS``. The values of a bucket count as spread evenly over it, so the
    result is in the bucket of the true one: wrong by a quarter of it at most.
    """
    rank = -(-sum(counts) * per_mille // 1000)  # the nearest rank, rounded up
    seen = 0
    for bucket, count in enumerate(counts):
        if seen < rank <= seen + count:
            floor, end = (*BUCKET_FLOORS, BUCKET_FLOORS[-1])[bucket : bucket + 2]
            return floor + (end - floor) * (rank - seen - 0.5) / count
        seen += count
    return None


def _point(before: Tick, old: Sequence[int], tick: Tick, new: Sequence[int], unsettled: int) -> Point:
    seconds = tick.time - before.time

    def rate(*names: str) -> float:
        grown = sum(tick.counters[name] - before.counters[name] for name in names)
        return round(max(0, grown) / seconds, 1)

    def latency(per_mille: int) -> float | None:
        value = quantile(counts, per_mille)
        return None if value is None else round(value * _NS, 9)

    counts = [max(0, after - count) for count, after in zip(old, new, strict=True)]
    cpu = {
        process: round(max(0.0, spent - before.cpu[process]) / seconds, 3)
        for process, spent in tick.cpu.items()
        if process in before.cpu
    }
    return Point(
        time=tick.time,
        deliveries_in=rate("deliveries_in"),
        deliveries_out=rate("deliveries_out"),
        bytes_in=rate("bytes_in"),
        bytes_out=rate("bytes_out"),
        accepted=rate("accepted"),
        released=rate("released"),
        rejected=rate("rejected"),
        modified=rate("modified"),
        dropped=rate(*DROPPED_PRESETTLED),
        p50=latency(500),
        p99=latency(990),
        p999=latency(999),
        unsettled=unsettled,
        core_cpu=cpu.get(Role.CORE, 0.0),
        worker_cpu=max((part for process, part in cpu.items() if is_worker(process)), default=0.0),
    )

"""What routers hold when nobody asks anything of them, time after time, and whether it grows."""

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from tests.support.running import roles
from tests.support.soak.site import SoakedRouter

MIB: Final = 1 << 20
FIRST: Final = 0.25  # of the readings: tables and heaps find their sizes meanwhile
LEAST: Final = 8  # readings that say anything
GAUGES: Final = ("addresses", "overflow", "live_deliveries")  # of the core
WORKER_GAUGES: Final = ("connections", "links", "unsettled")  # of the workers


@dataclass(frozen=True)
class Bound:
    """How much more the last third of readings may have than the first: so much, or this part of it."""

    more: float
    part: float = 0.0


BOUNDS: Final = {
    "MiB": Bound(8, 0.1), "descriptors": Bound(6), "threads": Bound(0), "segments": Bound(0), "segment MiB": Bound(1),
    **dict.fromkeys(GAUGES, Bound(50, 0.1)), "connections": Bound(2), "unsettled": Bound(0),
    "links": Bound(64),  # routers keep links for streams between them
}  # fmt: skip


@dataclass
class Series:
    """A figure of one process, or router, in the order of readings."""

    name: str
    unit: str
    times: list[float] = field(default_factory=list)  # hours
    values: list[float] = field(default_factory=list)

    def growth(self) -> str | None:
        """Say by how much it has grown beyond its bound, or nothing."""
        values = self.values[int(len(self.values) * FIRST) :]
        third = len(values) // 3
        begin, end = statistics.median(values[:third]), statistics.median(values[-third:])
        bound = BOUNDS[self.unit]
        if end - begin <= max(bound.more, bound.part * begin):
            return None
        return f"{self.name}: {begin:.1f} {self.unit} grew to {end:.1f} in {self.times[-1]:.1f} hours"


class Readings:
    """All series by name and unit."""

    def __init__(self) -> None:
        self.series: dict[tuple[str, str], Series] = {}

    def put(self, hours: float, name: str, unit: str, value: float) -> None:
        one = self.series.setdefault((name, unit), Series(name, unit))
        one.times.append(hours)
        one.values.append(value)

    def take(self, hours: float, name: str, router: SoakedRouter) -> None:
        """Read all of a router that is at rest."""
        processes = {"supervisor": psutil.Process(router.process.pid), **roles(router.process.pid)}
        for role, process in processes.items():
            if not role.startswith("spare"):
                self.put(hours, f"{name}, {role}", "MiB", process.memory_full_info().uss / MIB)
                self.put(hours, f"{name}, {role}", "descriptors", process.num_fds())
                self.put(hours, f"{name}, {role}", "threads", process.num_threads())
        segments = router.segments
        self.put(hours, name, "segments", len(segments))
        self.put(hours, name, "segment MiB", sum(segments.values()) / MIB)
        for gauge in GAUGES:
            self.put(hours, name, gauge, router.core[gauge])
        for gauge in WORKER_GAUGES:
            self.put(hours, name, gauge, router.counted(gauge))

    @property
    def enough(self) -> bool:
        """Whether there are as many readings as say anything."""
        return max((len(one.values) for one in self.series.values()), default=0) * (1 - FIRST) >= LEAST

    def grown(self) -> list[str]:
        """What has grown beyond its bound."""
        if not self.enough:
            return []
        return [said for one in self.series.values() if (said := one.growth())]

    def table(self) -> str:
        """The first reading after the beginning, the last one and the most, of each series that ever changed."""
        lines = [f"{'what':34} {'unit':16} {'begin':>9} {'end':>9} {'most':>9}"]
        for one in self.series.values():
            begin = one.values[int(len(one.values) * FIRST)]
            if len(set(one.values)) > 1:
                figures = f"{begin:9.1f} {one.values[-1]:9.1f} {max(one.values):9.1f}"
                lines.append(f"{one.name:34} {one.unit:16} {figures}")
        return "\n".join(lines)

    def write(self, path: Path) -> None:
        """Write all of them as comma-separated values."""
        lines = ["hours,what,unit,value"]
        for one in self.series.values():
            lines += [f'{at:.4f},"{one.name}",{one.unit},{value:.3f}'
                      for at, value in zip(one.times, one.values, strict=True)]  # fmt: skip
        path.write_text("\n".join([*lines, ""]))

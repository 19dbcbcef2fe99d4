"""A recorder without a process, at a core's forwarder."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from routerd.recorder.record import Recorder
from shm.contract.flow_log.setup import FlowLogSetup
from shm.statistics.stats import COUNTERS
from tests.support.beds.flow import Bed

NOON = datetime(2026, 1, 2, 12, 30, tzinfo=UTC)


class Desk:
    """A recorder without a process, whose clocks the test sets."""

    def __init__(self, tmp_path: Path, router: str = "me", **more: Any) -> None:
        self.router = router
        self.bed = Bed()
        self.bed.attach()
        self.wall, self.now, self.root = NOON, 0.0, tmp_path
        self.setup = FlowLogSetup(str(tmp_path), 1, **{"roll_seconds": 10, **more})
        self.recorder = self.make()

    def make(self, room: int = 16) -> Recorder:
        self.recorder = Recorder(self.bed.flow, self.bed.recorder, self.router, lambda: self.wall, lambda: 10**18, room)
        self.recorder.configure(self.setup, self.now)
        return self.recorder

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.wall += timedelta(seconds=seconds)
        self.recorder.turn(self.now)

    def files(self) -> list[Path]:
        return sorted((self.root / "raw").rglob("*.parquet"))

    def rows(self) -> list[dict[str, Any]]:
        return [row for file in self.files() for row in pq.ParquetFile(file).read().to_pylist()]

    def count(self, name: str) -> int:
        return self.bed.recorder.get(COUNTERS[name].place)

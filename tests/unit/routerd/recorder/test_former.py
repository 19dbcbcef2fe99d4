"""Files of the flow log of an early version, whose names stood for several routers."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from routerd.recorder.keeping import Keeper
from shm.contract.flow_log import schema as flow
from tests.support.beds.recorder_desk import NOON, Desk


def keeper(desk: Desk, at: datetime = NOON) -> Keeper:
    return Keeper(desk.setup, desk.router, at.timestamp, lambda: "machine")


def write(desk: Desk, wall: datetime) -> None:
    """A complete file of 5 records."""
    desk.wall = wall
    desk.bed.pass_on(5)
    desk.after(0)
    desk.after(11)


@pytest.mark.parametrize("manifest", [True, False])
def test_an_upgrade_takes_over_a_routers_files_and_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manifest: bool
) -> None:
    """In the middle of an hour: what was compacted is not compacted again, a killed recorder's spool becomes a file,
    and retention deletes all of it."""
    monkeypatch.setattr(flow, "_name", flow.former_name)
    keeping: dict[str, Any] = {"raw_seconds": 24 * 3600, "keep_seconds": 48 * 3600}
    desk, theirs = (Desk(tmp_path / name, name, **keeping) for name in ("edge-1", "edge_1"))
    write(desk, NOON)
    write(theirs, NOON)
    assert keeper(desk).compact(NOON + timedelta(hours=2)) == 1
    keeper(desk).delete(NOON)  # knows the time from now on
    write(desk, NOON + timedelta(hours=2))
    desk.bed.pass_on(20)
    desk.after(0)
    desk.recorder = None  # type: ignore[assignment]  # it is dead
    monkeypatch.undo()
    for path in (tmp_path / "edge_1").rglob("*.parquet"):
        path.rename(tmp_path / "edge-1" / path.relative_to(tmp_path / "edge_1").with_stem(f"{path.stem}1"))
    if not manifest:
        (desk.root / "compact" / "_manifest-edge_1.json").unlink()
    desk.make()
    write(desk, NOON + timedelta(hours=2, minutes=1))
    later = NOON + timedelta(hours=4)
    assert keeper(desk).recover(later) == 20
    assert (keeper(desk).compact(later), keeper(desk).compact(later)) == (3, 0)
    compact = [pq.ParquetFile(path).read().to_pylist() for path in (desk.root / "compact").rglob("*.parquet")]
    assert sorted(row["seq"] for rows in compact for row in rows) == list(range(1, 36))
    assert [path.name for path in (desk.root / "compact").glob("_*")] == [flow.manifest_name("edge-1")]
    assert not list((desk.root / "raw").rglob(".*"))
    for hours in (4, 30, 60):
        keeper(desk).delete(NOON + timedelta(hours=hours))
    keeper(desk, NOON + timedelta(hours=60)).delete(NOON + timedelta(hours=60))
    assert {row["router_id"] for row in desk.rows()} == {"edge_1"}
    assert not list((desk.root / "compact").rglob("*.parquet"))

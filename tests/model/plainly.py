"""The records of a log as dictionaries, and ranks by hand."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Row = dict[str, Any]


def records(directory: Path) -> list[Row]:
    """Every record of a log, file by file: when, where and which way it went."""
    columns = ["ts", "router_id", "address", "path"]
    found: list[Row] = []
    for file in sorted(directory.rglob("*.parquet")):
        found += pq.ParquetFile(file).read(columns=columns).to_pylist()
    return found


def nearest_rank(values: Iterable[tuple[int, int]], per_mille: int) -> int | None:
    """Of (value, weight): the smallest value that so many of a thousand do not exceed; None where all weigh nothing."""
    ordered = sorted(values)
    total = sum(weight for _, weight in ordered)
    passed = 0
    for value, weight in ordered:
        passed += weight
        if passed and passed * 1000 >= total * per_mille:
            return value
    return None

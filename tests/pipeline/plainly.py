"""An independent small implementation: the records as dictionaries, sums and ranks by hand."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Row = dict[str, Any]
Key = tuple[Any, ...]


def records(directory: Path) -> list[Row]:
    """Every record of a log, file by file."""
    columns = [
        "kind", "ts", "router_id", "boot_id", "worker_id", "seq", "ingress_conn_id", "ingress_kind",
        "egress_conn_id", "egress_kind", "peer_container", "address", "mtype", "sub_id", "meid",
        "msg_id_hash", "size_bytes", "n_deliveries", "latency_ns", "settle_ns", "credit_wait_ns", "outcome",
        "path", "sample_weight",
    ]  # fmt: skip
    found: list[Row] = []
    for file in sorted(directory.rglob("*.parquet")):
        found += pq.ParquetFile(file).read(columns=columns).to_pylist()
    return found


def nearest_rank(values: Iterable[tuple[int, int]], per_mille: int) -> int | None:
    """Of (value, weight): the smallest value that so many of a thousand do not exceed."""
    ordered = sorted(values)
    total = sum(weight for _, weight in ordered)
    passed = 0
    for value, weight in ordered:
        passed += weight
        if passed * 1000 >= total * per_mille:
            return value
    return None


def traffic(rows: Iterable[Row]) -> dict[Key, Row]:
    """The traffic matrix by (minute, origin, router, egress kind, address, message type)."""
    groups: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        minute: datetime = row["ts"].replace(second=0, microsecond=0)
        origin = row["path"].split(">")[0] if row["path"] else row["router_id"]
        key = minute, origin, row["router_id"], row["egress_kind"], row["address"], row["mtype"]
        groups[key].append(row)
    return {key: _sums(members) for key, members in groups.items()}


def _sums(rows: list[Row]) -> Row:
    weights = [row["n_deliveries"] * row["sample_weight"] for row in rows]
    pairs = list(zip(rows, weights, strict=True))
    latencies = [(row["latency_ns"], weight) for row, weight in pairs if row["latency_ns"] is not None]
    return {
        "records": len(rows),
        "messages": sum(weights),
        "bytes": sum(row["size_bytes"] * row["sample_weight"] for row in rows),
        "accepted": sum(weight for row, weight in pairs if row["outcome"] == "accepted"),
        "rejected": sum(weight for row, weight in pairs if row["outcome"] == "rejected"),
        "presettled": sum(weight for row, weight in pairs if row["outcome"] == "presettled"),
        "undeliverable": sum(weight for row, weight in pairs if row["outcome"] == "undeliverable"),
        "latency_n": sum(weight for _, weight in latencies),
        "latency_p50": nearest_rank(latencies, 500),
        "latency_p90": nearest_rank(latencies, 900),
        "latency_p99": nearest_rank(latencies, 990),
        "latency_p999": nearest_rank(latencies, 999),
        "latency_max": max((value for value, _ in latencies), default=None),
    }

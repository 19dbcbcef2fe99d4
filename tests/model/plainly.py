"""An independent small implementation: the records as dictionaries, sums and ranks by hand."""

import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Row = dict[str, Any]
Key = tuple[Any, ...]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def records(directory: Path) -> list[Row]:
    """Every record of a log, file by file."""
    columns = [
        "kind", "ts", "router_id", "boot_id", "worker_id", "seq", "ingress_conn_id", "ingress_kind",
        "egress_conn_id", "egress_kind", "peer_container", "address", "mtype", "sub_id", "meid",
        "msg_id_hash", "size_bytes", "n_deliveries", "latency_ns", "settle_ns", "credit_wait_ns", "outcome",
        "path", "sample_weight", "message_number", "ingress_container", "ingress_user", "ingress_host", "egress_user",
        "egress_host", "further_copy",
    ]  # fmt: skip
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


def latencies(rows: Iterable[Row]) -> dict[Key, int]:
    """Messages by (quarter, address, message type, bucket of latency), each router that one passed by itself."""
    found: dict[Key, int] = defaultdict(int)
    for row in rows:
        if row["latency_ns"] is not None:
            began = row["ts"].replace(minute=row["ts"].minute // 15 * 15, second=0, microsecond=0)
            bucket = math.floor(math.log2(max(row["latency_ns"], 1)) * 16)
            found[began, row["address"], row["mtype"], bucket] += _weight(row)
    return dict(found)


def talkers(rows: Iterable[Row]) -> dict[Key, Row]:
    """By (role, router, container, user, host): messages, bytes, outcomes and addresses; of senders without copies."""
    groups: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        if row["ingress_kind"] != "inter_router" and not row["further_copy"]:
            groups["sender", row["router_id"], *_sender(row)].append(row)
        if _received(row):
            groups["receiver", row["router_id"], *_receiver(row)].append(row)
    names = ("messages", "bytes", "accepted", "rejected", "presettled", "undeliverable")
    return {
        key: {name: _sums(members)[name] for name in names}
        | {"addresses": len({(row["address"], row["mtype"]) for row in members})}
        for key, members in groups.items()
    }


def conversations(rows: list[Row]) -> dict[Key, tuple[int, int]]:
    """By (origin, sender, address, message type, router, receiver): messages and bytes, each copy."""
    entered: dict[Key, list[Row]] = defaultdict(list)
    senders: dict[Key, set[Key]] = defaultdict(set)
    for row in rows:
        if row["ingress_kind"] != "inter_router" and row["egress_kind"] == "inter_router":
            senders[row["router_id"], row["address"], row["mtype"]].add(_sender(row))
            if row["msg_id_hash"] is not None and row["latency_ns"] is not None and row["path"] == row["router_id"]:
                entered[row["msg_id_hash"], row["router_id"]].append(row)
    found: dict[Key, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in filter(_received, rows):
        origin = row["path"].split(">")[0] if row["path"] else row["router_id"]
        who: Key = _sender(row)
        if row["ingress_kind"] == "inter_router":
            began = entered.get((row["msg_id_hash"], origin), []) if row["latency_ns"] is not None else []
            could = set(map(_sender, began)) if _one_message(began) else set()
            could = could if len(could) == 1 else senders[origin, row["address"], row["mtype"]]
            who = next(iter(could)) if len(could) == 1 else (None, None, None)
        key = origin, *who, row["address"], row["mtype"], row["router_id"], *_receiver(row)
        messages, octets = found[key]
        found[key] = messages + _weight(row), octets + row["size_bytes"] * row["sample_weight"]
    return dict(found)


def _received(row: Row) -> bool:
    return row["egress_conn_id"] is not None and row["egress_kind"] != "inter_router"


def _sender(row: Row) -> Key:
    return row["ingress_container"], row["ingress_user"], row["ingress_host"]


def _receiver(row: Row) -> Key:
    return row["peer_container"], row["egress_user"], row["egress_host"]


def transits(rows: Iterable[Row]) -> dict[Key, Key]:
    """By (router, the next one): n, quickest, p50 and p99 from the one's last byte to the other's first."""
    sent: dict[Key, list[Row]] = defaultdict(list)
    came: dict[Key, list[Row]] = defaultdict(list)
    for row in _followed(rows):
        if row["egress_kind"] == "inter_router" and row["latency_ns"] is not None:
            sent[row["msg_id_hash"], row["path"], row["peer_container"]].append(row)
        if ">" in row["path"]:
            came[row["msg_id_hash"], row["path"].rpartition(">")[0], row["router_id"]].append(row)
    times: dict[Key, list[tuple[int, int]]] = defaultdict(list)
    for key in sent.keys() & came.keys():
        if _one_message(sent[key]) and _one_message(came[key]):
            took = min(map(_began, came[key])) - min(map(_ended, sent[key]))
            times[key[1].rpartition(">")[2], key[2]].append((took, max(map(_weight, sent[key]))))
    return {pair: _told(found, 500, 990) for pair, found in times.items()}


def journeys(rows: Iterable[Row]) -> dict[str, Key]:
    """By way: n, quickest, p50, p90 and p99 from entering the network to leaving it, by the clocks."""
    known = [row for row in _followed(rows) if row["latency_ns"] is not None]
    entered: dict[Key, list[Row]] = defaultdict(list)
    for row in known:
        if row["path"] == row["router_id"] and row["egress_kind"] == "inter_router":
            entered[row["msg_id_hash"], row["path"]].append(row)
    times: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in known:
        began = entered.get((row["msg_id_hash"], row["path"].split(">")[0]), [])
        left = row["path"] != row["router_id"] and row["egress_kind"] != "inter_router"
        if left and began and _one_message(began):
            times[row["path"]].append((_ended(row) - min(map(_began, began)), _weight(row)))
    return {path: _told(found, 500, 900, 990) for path, found in times.items()}


def _followed(rows: Iterable[Row]) -> Iterable[Row]:
    return (row for row in rows if row["path"] is not None and row["msg_id_hash"] is not None)


def _one_message(rows: list[Row]) -> bool:
    return len({row["message_number"] for row in rows} - {None}) <= 1


def _weight(row: Row) -> int:
    return int(row["n_deliveries"] * row["sample_weight"])


def _began(row: Row) -> int:
    return (row["ts"] - EPOCH) // timedelta(microseconds=1) * 1000


def _ended(row: Row) -> int:
    return _began(row) + int(row["latency_ns"])


def _told(values: list[tuple[int, int]], *per_mille: int) -> Key:
    ranks = (nearest_rank(values, one) for one in per_mille)
    return sum(weight for _, weight in values), min(values)[0], *ranks

"""Writes a generated log: files with the recorder's layout and names, and the true answers beside them."""

import json
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import PipelineError
from pipeline.generate.clients import Ints
from pipeline.generate.messages import DROPPED, PRESETTLED, Hour, Traffic
from pipeline.generate.names import Names
from pipeline.generate.rows import (
    CONSUMER_CONNECTIONS,
    FIRST_CONNECTION,
    INTER_ROUTER_CONNECTION,
    NOTHING,
    Records,
    Rows,
)
from pipeline.generate.scenario import Scenario, Truth
from shm.contract.flow_log.arrow import SCHEMA
from shm.contract.flow_log.schema import KINDS, LINK_KINDS, OUTCOMES, RAW, VERSION, file_name, folder

TRUTH: Final = "_truth.json"
HOT_HOUR: Final = 4  # of the last day; there is no fault in it
ERRORS: Final = ["amqp:internal-error", "amqp:resource-limit-exceeded"]
CLASS_NAMES: Final = ["balanced", "anycast", "mc", "uc", "link"]


def generate(scenario: Scenario, directory: Path) -> Truth:
    """Write the log of a scenario, and its true answers into `_truth.json`; equal scenarios give equal rows.

    Raises ``PipelineError`` if the directory is not empty.
    """
    if directory.exists() and any(directory.iterdir()):
        raise PipelineError(f"{directory} is not empty; give a new directory for a generated log")
    writer = _Writer(scenario, directory)
    for number, (messages, hot) in enumerate(_messages(scenario, writer)):
        writer.hour(number, messages, hot)
    truth = writer.truth
    truth.faults = writer.traffic.faults
    (directory / TRUTH).write_bytes(msgspec.json.format(msgspec.json.encode(truth), indent=1) + b"\n")
    return truth


def _messages(scenario: Scenario, writer: "_Writer") -> list[tuple[int, int]]:
    """Return the number of messages of each hour, more by day than by night, for the records wanted; and of hot ones.

    The hot ones of a few minutes come in one hour of the last day.
    """
    hours = np.arange(scenario.hours)
    pattern = 1.0 + 0.6 * np.sin((hours % 24 - 9) / 24 * 2 * np.pi)
    probe = Traffic(scenario, np.random.default_rng(scenario.seed)).hour(0, 5000, int(5000 * scenario.hot))
    wanted = scenario.records / (len(probe.at) / 5000 * writer.records.mean_hops(probe))
    pattern /= pattern.sum()
    when = hours == scenario.hours - 24 + HOT_HOUR if scenario.hot_minutes else pattern
    hot = wanted * scenario.hot * when
    return [(int(one + many), int(many)) for one, many in zip(wanted * (1 - scenario.hot) * pattern, hot, strict=True)]


class _Writer:
    """Counts rows and files over all hours."""

    def __init__(self, scenario: Scenario, directory: Path) -> None:
        random = np.random.default_rng(scenario.seed)
        self.scenario = scenario
        self.traffic = Traffic(scenario, random)
        self.records = Records(self.traffic, random)
        self._hops = np.array([text.count(">") for text in self.records.path_texts])
        self.truth = Truth()
        self._directory = directory
        self._rows: Counter[tuple[int, int]] = Counter()
        self._boots = [f"{scenario.seed:04x}{number:04x}" for number in range(scenario.places)]
        flows = self.traffic.clients.flows
        self._addresses = [flow.address or "" for flow in flows]
        self._names = Names(scenario, self.traffic.clients)

    def hour(self, number: int, messages: int, hot: int) -> None:
        """Make an hour's messages, of which some are hot, and write the file of each router and worker."""
        hour = self.traffic.hour(number, messages, hot)
        rows = self.records.of(hour)
        worker = (hour.sender[rows.delivery] + rows.hop) % self.scenario.workers
        ended = rows.began + rows.latency_ns / 1e9
        order = np.lexsort((ended, worker, rows.router))
        place = rows.router[order] * self.scenario.workers + worker[order]
        table = self._table(hour, rows, worker, order)
        edges = np.flatnonzero(np.diff(place, prepend=-1, append=-1))
        for start, end in pairwise(edges):
            self._write(number, divmod(int(place[start]), self.scenario.workers), table[start:end])

    def _write(self, hour: int, place: tuple[int, int], table: Any) -> None:
        router, worker = place
        first = self._rows[place] + 1
        self._rows[place] += len(table)
        numbers = pa.array(np.arange(first, first + len(table)))
        table = table.set_column(table.schema.get_field_index("seq"), SCHEMA.field("seq"), numbers)
        name, boot = self.scenario.router(router), self._boots[router]
        metadata = {
            "routerd.flow.schema": VERSION,
            "routerd.flow.router": name,
            "routerd.flow.boot": boot,
            "routerd.flow.sequences": json.dumps({str(worker): [first, self._rows[place]]}),
            "routerd.flow.dropped": "0",
            "routerd.flow.sampling": "1",
        }
        target = self._directory / RAW / folder(self.scenario.origin + timedelta(hours=hour))
        target.mkdir(parents=True, exist_ok=True)
        file = target / file_name(name, boot, hour, str(worker))
        pq.write_table(table.replace_schema_metadata(metadata), file, compression="zstd", compression_level=1)
        self.truth.files += 1
        self.truth.records += len(table)
        weights = table["sample_weight"].to_numpy()
        self.truth.messages += int(weights.sum())
        self.truth.size_bytes += int((table["size_bytes"].to_numpy() * weights).sum())
        came = table["ingress_kind"].combine_chunks().indices.to_numpy() == LINK_KINDS.index("normal")
        once = came & ~table["further_copy"].to_numpy(zero_copy_only=False)
        self.truth.sent += int(weights[once].sum())

    def _table(self, hour: Hour, rows: Rows, worker: Ints, order: Ints) -> Any:
        """Return the records in order; seq is filled in later."""
        chosen = {name: values[order] for name, values in self._columns(hour, rows, worker).items()}
        words, arrays = self._words(), []
        for column in SCHEMA:
            if column.name not in chosen:
                arrays.append(pa.nulls(len(order), column.type))
            elif column.name in words:
                index = pa.array(chosen[column.name], pa.int32(), mask=chosen[column.name] < 0)
                arrays.append(pa.DictionaryArray.from_arrays(index, pa.array(words[column.name], pa.string())))
            else:
                mask = chosen[column.name] < 0 if column.nullable else None
                arrays.append(pa.array(chosen[column.name], mask=mask).cast(column.type))
        return pa.Table.from_arrays(arrays, schema=SCHEMA)

    def _columns(self, hour: Hour, rows: Rows, worker: Ints) -> dict[str, Any]:
        """Return columns by name; dictionaries are indices into their words, null is a negative number."""
        d, n = rows.delivery, len(rows.delivery)
        flow, consumer = hour.flow[d], hour.consumer[d]
        address = np.where(self.traffic.types[flow] >= 0, NOTHING, flow)
        normal, first, gone = LINK_KINDS.index("normal"), rows.hop == 0, rows.gone
        before = np.roll(rows.router, 1)  # a record follows that of the router before it
        ingress_kind = np.where(first, normal, self._between(before, rows.router))
        linked = self.traffic.linked[flow]
        receiver = np.where(linked, LINK_KINDS.index("route_container"), normal)
        egress_kind = np.where(rows.last, receiver, self._between(rows.router, rows.onward))
        path = np.where(linked & ~first, NOTHING, rows.path)
        connection = np.where(rows.last, CONSUMER_CONNECTIONS + consumer, INTER_ROUTER_CONNECTION + rows.onward)
        zero = np.zeros(n, np.int64)
        again = np.diff(hour.message, prepend=NOTHING) == 0  # copies of a message follow each other
        began = self.scenario.origin.timestamp() + rows.began + self.records.offsets[rows.router]
        return {
            "kind": np.where(gone, KINDS.index("drop"), KINDS.index("delivery")),
            "ts": (began * 1e6).astype("datetime64[us]"),
            "router_id": rows.router,
            "worker_id": worker,
            "seq": zero,
            "boot_id": rows.router,
            "ingress_conn_id": np.where(first, FIRST_CONNECTION + hour.sender[d], INTER_ROUTER_CONNECTION),
            "ingress_link_id": FIRST_CONNECTION + hour.sender[d],
            "egress_conn_id": np.where(gone, NOTHING, connection),
            "egress_link_id": np.where(gone, NOTHING, connection),
            "ingress_kind": ingress_kind,
            "egress_kind": np.where(gone, NOTHING, egress_kind),
            "address": address,
            "address_class": np.where(
                linked, CLASS_NAMES.index("link"), np.where(address < 0, CLASS_NAMES.index("uc"), flow % 2)
            ),
            "priority": zero + 4,
            "mtype": self.traffic.types[flow],
            "sub_id": zero - 1,
            "meid": hour.meid[d],
            "msg_id_hash": np.where(linked, NOTHING, hour.message[d]),
            "fragment_count": rows.pieces,
            "size_bytes": hour.size[d],
            "n_deliveries": zero + 1,
            "latency_ns": rows.latency_ns,
            "settle_ns": rows.settle_ns,
            "queue_ns": rows.queue_ns,
            "credit_wait_ns": rows.credit_ns,
            "outcome": hour.outcome[d],
            "error_type": hour.error[d],
            "settled": hour.outcome[d] == PRESETTLED,
            "hops": np.where(path < 0, NOTHING, self._hops[rows.path]),
            "path_id": path,
            "path": path,
            "end_reason": np.where(gone & (hour.outcome[d] == DROPPED), 0, NOTHING),
            "sample_weight": self.traffic.weights[flow],
            "further_copy": again[d] & first,
        } | self._names.columns(hour, rows)

    def _between(self, one: Ints, other: Ints) -> Ints:
        """Return the kinds of connections between routers."""
        edge, inter = LINK_KINDS.index("edge"), LINK_KINDS.index("inter_router")
        return np.where(np.maximum(one, other) >= self.scenario.routers, edge, inter)

    def _words(self) -> dict[str, list[str]]:
        """Return the words of each dictionary."""
        routers = [self.scenario.router(at) for at in range(self.scenario.places)]
        return {
            "kind": list(KINDS),
            "router_id": routers,
            "boot_id": self._boots,
            "ingress_kind": list(LINK_KINDS),
            "egress_kind": list(LINK_KINDS),
            "address": self._addresses,
            "address_class": CLASS_NAMES,
            "meid": [f"E2-{at:05d}" for at in range(self.scenario.meids)],
            "outcome": list(OUTCOMES),
            "error_type": ERRORS,
            "path": self.records.path_texts,
            "end_reason": ["loop"],
        } | self._names.words

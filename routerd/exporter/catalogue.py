"""Every metric by name: what it is, which labels it has, and which number of a statistics page it shows.

Names follow Prometheus: base units, `_total` for counters, labels instead of families of names. A number of
`shm.stats` that is not named here gets a name made from its own, so none is ever missing.
"""

import re
from typing import Final

import msgspec

from shm.stats import COUNTERS

PREFIX: Final = "routerd_"
NS: Final = 1e-9


class Metric(msgspec.Struct, frozen=True):
    """A family of time series; ``name`` is without the `_total` of counters."""

    name: str
    kind: str  # counter, gauge, histogram, info
    help: str
    labels: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The name of its series, as queries have it; a histogram's base name."""
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")


class Number(msgspec.Struct, frozen=True):
    """How one number of a statistics page is shown; ``labels`` beside `process`."""

    metric: Metric
    labels: dict[str, str] = {}
    scale: float = 1
    since_boot: bool = False  # seconds of CLOCK_MONOTONIC, shown as a time of day; 0: never


def _family(kind: str, name: str, text: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, kind, text, labels)


def _counter(name: str, text: str, *labels: str) -> Metric:
    return _family("counter", name, text, "process", *labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return _family("gauge", name, text, "process", *labels)


SETTLED: Final = _counter(
    "settled_deliveries", "Unsettled deliveries that ended, by the outcome for their sender", "outcome"
)
DROPPED: Final = _counter(
    "dropped_deliveries", "Presettled deliveries that reached nobody, by reason", "reason"
)
DELAYED: Final = _counter(
    "delayed_deliveries", "Deliveries that took long to settle, by seconds: from 1 to 10, or more", "least"
)
IGNORED: Final = _counter(
    "ignored_records", "Records in shared memory that were dropped, by reason", "reason"
)
RMR_CLOSED: Final = _counter(
    "rmr_malformed_connections", "RMR connections closed for a malformed frame, by reason", "reason"
)
RMR_DROPPED: Final = _counter("rmr_dropped_frames", "RMR frames that reached nobody, by reason", "reason")
ROUTE_REFUSED: Final = _counter(
    "route_refused_messages", "Messages that route workers refused, by reason", "reason"
)
FLOW_LOST: Final = _counter(
    "flow_dropped_records", "Records of deliveries that are not in the flow log, by reason", "reason"
)
FREE_BLOCKS: Final = _gauge("arena_free_blocks", "Free blocks of the process's arena, by size", "size")

# Numbers whose own name would not do.
NUMBERS: Final[dict[str, Number]] = {
    "loops": Number(_counter("loop_turns", "Turns of the main loop")),
    "sleeps": Number(_counter("loop_sleeps", "Times the main loop found nothing to do and blocked")),
    "longest_turn_ns": Number(
        _gauge("loop_longest_turn_seconds", "Longest turn of the main loop since its start"), {}, NS
    ),
    "failures": Number(
        _counter("unexpected_errors", "Exceptions that nobody foresaw; the log has their tracebacks")
    ),
    "connections": Number(_gauge("connections", "Open connections")),
    "connections_accepted": Number(_counter("accepted_connections", "Connections accepted")),
    "connections_failed": Number(
        _counter("failed_connections", "Connections ended by garbage, a protocol error or a timeout")
    ),
    "links": Number(_gauge("links", "Attached links")),
    "bytes_in": Number(_counter("received_bytes", "Bytes read from connections")),
    "bytes_out": Number(_counter("sent_bytes", "Bytes written to connections")),
    "deliveries_in": Number(_counter("ingress_deliveries", "Deliveries that arrived on connections")),
    "deliveries_out": Number(_counter("egress_deliveries", "Deliveries sent on connections")),
    "decode_errors": Number(
        _counter("malformed_deliveries", "Deliveries rejected because the message was malformed")
    ),
    "aborted_in": Number(_counter("aborted_deliveries", "Deliveries that their sender aborted")),
    "pauses": Number(
        _counter("read_pauses", "Times reading from connections stopped because blocks ran low")
    ),
    "paused": Number(
        _gauge("read_paused", "1 while reading from connections is stopped because blocks are low")
    ),
    "small_free": Number(FREE_BLOCKS, {"size": "small"}),
    "large_free": Number(FREE_BLOCKS, {"size": "large"}),
    "dropped_presettled_out": Number(DROPPED, {"reason": "slow_receiver"}),
    "dropped_presettled": Number(DROPPED, {"reason": "undeliverable"}),
    "accepting": Number(_gauge("accepting", "1 while the worker takes new connections")),
    "bad_records": Number(IGNORED, {"reason": "nonsense"}),
    "stale_records": Number(IGNORED, {"reason": "stale"}),
    "unsettled": Number(_gauge("unsettled_deliveries", "Deliveries in and out that are not settled yet")),
    "rmr_frames_in": Number(_counter("rmr_received_frames", "RMR frames received")),
    "rmr_frames_out": Number(_counter("rmr_sent_frames", "RMR frames sent")),
    "rmr_bad_length": Number(RMR_CLOSED, {"reason": "length"}),
    "rmr_bad_header": Number(RMR_CLOSED, {"reason": "header"}),
    "rmr_reserved": Number(RMR_DROPPED, {"reason": "reserved_type"}),
    "rmr_undelivered": Number(RMR_DROPPED, {"reason": "undelivered"}),
    "rmr_unfit": Number(
        _counter("rmr_unfit_deliveries", "Deliveries to RMR endpoints rejected because they make no frame")
    ),
    "addresses": Number(_gauge("addresses", "Addresses known")),
    "flow_records": Number(_counter("flow_records", "Records of deliveries made for the flow log")),
    "flow_thinned": Number(
        _counter("flow_thinned_deliveries", "Deliveries that others stand for while the recorder is behind")
    ),
    "flow_dropped": Number(FLOW_LOST, {"reason": "ring_full"}),
    "flow_lost_no_space": Number(FLOW_LOST, {"reason": "no_space"}),
    "flow_lost_io": Number(FLOW_LOST, {"reason": "io"}),
    "flow_rows": Number(_counter("flow_written_records", "Records in complete files of the flow log")),
    "flow_files": Number(_counter("flow_files", "Complete files of the flow log")),
    "flow_bytes": Number(_counter("flow_written_bytes", "Bytes of complete files of the flow log")),
    "flow_errors": Number(
        _counter("flow_errors", "Times files of the flow log could not be written or kept")
    ),
    "flow_deleted": Number(_counter("flow_deleted_files", "Files of the flow log deleted as configured")),
    "flow_compacted": Number(_counter("flow_compacted_files", "Files of the flow log put together by hour")),
    "flow_recovered": Number(
        _counter(
            "flow_recovered_records", "Records that a killed recorder left, in files made by the next one"
        )
    ),
    "flow_doubted": Number(
        _gauge(
            "flow_clock_step_seconds",
            "Step of the time of day, forward or back, while retentionAge ignores it",
        )
    ),
    "config_taken": Number(
        _gauge("config_last_reload_successful", "1 if the last reload was taken over, 0 if it was refused")
    ),
    "config_time": Number(
        _gauge(
            "config_last_reload_success_timestamp_seconds",
            "When a configuration was last taken over, in seconds since 1970",
        ),
        since_boot=True,
    ),
    "certificate_expiry": Number(
        _gauge(
            "certificate_expiry_timestamp_seconds",
            "When the first of the router's certificates expires, in seconds since 1970",
        )
    ),
    "received": Number(_counter("received_deliveries", "Deliveries that the core was given to route")),
    "forwarded": Number(
        _counter("forwarded_deliveries", "Copies of deliveries that the core passed on to receivers")
    ),
    "accepted": Number(SETTLED, {"outcome": "accepted"}),
    "rejected": Number(SETTLED, {"outcome": "rejected"}),
    "released": Number(SETTLED, {"outcome": "released"}),
    "modified": Number(SETTLED, {"outcome": "modified"}),
    "presettled": Number(
        _counter("presettled_deliveries", "Presettled deliveries that the core was given to route")
    ),
    "overflow": Number(_gauge("overflow_records", "Work waiting because a worker's ring is full")),
    "workers_reclaimed": Number(
        _counter("reclaimed_workers", "Dead workers whose blocks and links were taken back")
    ),
    "live_deliveries": Number(_gauge("live_deliveries", "Deliveries in the core's tables")),
    "connections_admitted": Number(
        _gauge("admitted_connections", "Connections that count for maxConnections")
    ),
    **{
        name: Number(ROUTE_REFUSED, {"reason": name.removeprefix("route_refused_")})
        for name in COUNTERS
        if name.startswith("route_refused_")
    },
    "redirected": Number(_counter("redirected_deliveries", "Deliveries sent to a fallback destination")),
    "transit": Number(_counter("transit_deliveries", "Deliveries passed on to other routers")),
    "from_containers": Number(_counter("container_ingress_deliveries", "Deliveries from brokers")),
    "to_containers": Number(_counter("container_egress_deliveries", "Deliveries to brokers")),
    "topology_changed": Number(
        _gauge(
            "last_topology_change_timestamp_seconds",
            "When the network of routers changed last, in seconds since 1970; 0: never",
        ),
        since_boot=True,
    ),
    "delayed_1s": Number(DELAYED, {"least": "1"}),
    "delayed_10s": Number(DELAYED, {"least": "10"}),
}

_UNITS: Final = {
    "_ns": ("_seconds", NS),
    "_us": ("_seconds", 1e-6),
    "_ms": ("_seconds", 1e-3),
    "_kib": ("_bytes", 1024),
}


def number(name: str) -> Number:
    """How a number of `shm.stats.COUNTERS` is shown."""
    if name in NUMBERS:
        return NUMBERS[name]
    _, kind, text = COUNTERS[name]
    unit, scale = next((to for end, to in _UNITS.items() if name.endswith(end)), ("", 1))
    made = re.sub("_(?:ns|us|ms|kib)$", unit, name) if unit else name.removesuffix("_total")
    return Number((_counter if kind == "counter" else _gauge)(made, text[:1].upper() + text[1:]), {}, scale)


# Below 40, and the core's all the same.
_CORES: Final = frozenset((34, 35))
# The supervisor's. When certificates expire is shown only where there are some.
_SUPERVISORS: Final = frozenset((120, 180, 181))
# From 40 on, and workers' all the same: refused connections, certificates; authentication services; links
# without room; Ockam.
_WORKERS: Final = frozenset((*range(72, 81), *range(111, 114), 135, *range(151, 159)))


def is_written_by(name: str, process: str) -> bool:
    """Whether a process keeps that number, and so shows it from the start: who asks for increases misses what
    begins with its first event. Indices below 8 are everybody's, from 40 on the core's, but for some."""
    index = COUNTERS[name][0]
    if name.startswith("route_") or index in _WORKERS:
        return process.startswith("worker")
    if process == "supervisor" or index in _SUPERVISORS:
        return process == "supervisor" and index in _SUPERVISORS and name != "certificate_expiry"
    if 100 <= index < 108 or process == "recorder":
        return process == "recorder" and (index < 8 or 100 <= index < 108)
    if index < 8 or name == "bad_records":
        return True
    return (index >= 40 or index in _CORES) == (process == "core")


BUILD: Final = _family("info", "build", "Version of this router", "version", "python")
ROUTER: Final = _family("info", "router", "Id and number of workers of this router", "id", "workers")
START: Final = _family("gauge", "start_time_seconds", "When the router was started, in seconds since 1970")
UPTIME: Final = _family("gauge", "uptime_seconds", "Time since the router was started")
UP: Final = _gauge("process_up", "1 if the process lives and its main loop turns")
RESTARTS: Final = _counter("process_restarts", "Times the process was started again")
BORN: Final = _gauge("process_start_time_seconds", "When the process was started, in seconds since 1970")
CPU: Final = _counter("process_cpu_seconds", "Processor time of the process")
RESIDENT: Final = _gauge(
    "process_resident_memory_bytes", "Memory of the process, shared memory that it touched included"
)
SHARED: Final = _gauge(
    "process_shared_memory_bytes", "Shared part of the process's memory: arenas, rings, libraries"
)
STALLED: Final = _gauge(
    "loop_stalled_seconds", "Time for which the main loop has not turned; an idle one turns every second"
)
RING: Final = _gauge("ring_records", "Records that wait in the rings between worker and core", "ring")
RING_SIZE: Final = _gauge(
    "ring_capacity_records", "Records that a ring between worker and core holds", "ring"
)
BLOCKS: Final = _gauge("arena_blocks", "Blocks of the process's arena, by size", "size")
LATENCY: Final = _family(
    "histogram", "delivery_latency_seconds", "From a delivery's arrival to its settlement"
)
SIZE: Final = _family("histogram", "message_size_bytes", "Size of messages")
ADDRESS_DELIVERIES: Final = _family(
    "counter",
    "address_deliveries",
    "Copies forwarded to receivers of one of the busiest addresses; all others: (other)",
    "address",
)
ADDRESS_RECEIVERS: Final = _family(
    "gauge", "address_receivers", "Receivers of one of the busiest addresses", "address"
)
ADDRESS_SENDERS: Final = _family(
    "gauge", "address_senders", "Senders to one of the busiest addresses", "address"
)
WORKER_IN: Final = _family(
    "counter", "route_worker_received_messages", "Messages that came to one of the busiest route workers",
    "address", "kind",
)  # fmt: skip
WORKER_OUT: Final = _family(
    "counter", "route_worker_sent_messages", "Messages that one of the busiest route workers sent on",
    "address", "kind",
)  # fmt: skip
WORKER_REFUSED: Final = _family(
    "counter", "route_worker_refused_messages", "Messages refused at one of the busiest route workers",
    "address", "kind", "reason",
)  # fmt: skip
ENTRY_MESSAGES: Final = _family(
    "counter", "route_table_entry_messages", "Messages by one of the busiest entries of route tables",
    "table", "message_type", "subscription",
)  # fmt: skip
ENDPOINT_MESSAGES: Final = _family(
    "counter", "route_table_endpoint_messages", "Messages to one of the busiest endpoints of route tables",
    "table", "endpoint",
)  # fmt: skip
ENDPOINT_MISSED: Final = _family(
    "counter", "route_table_endpoint_missed_messages", "Messages whose turn at one of the busiest "
                                                       "endpoints found no receiver",
    "table", "endpoint",
)  # fmt: skip
CONNECTION: Final = _family(
    "info", "connection", "One of the newest connections; only with ?connections=1",
    "process", "container", "host", "role", "user",
)  # fmt: skip
HTTP_ANSWERS: Final = _family("counter", "http_responses", "Answers of the exporter, by HTTP status", "code")
HTTP_REFUSED: Final = _family(
    "counter", "http_refused", "HTTP clients the exporter ended, by reason", "reason"
)

# The names of qdrouterd for what is the same, so that its dashboards go on working. Its gauges end in
# `_total`, which Prometheus keeps for counters: those have no second name here.
QDR: Final[dict[str, tuple[str, ...]]] = {
    "accepted_deliveries": ("accepted",),
    "rejected_deliveries": ("rejected",),
    "released_deliveries": ("released",),
    "modified_deliveries": ("modified",),
    "presettled_deliveries": ("presettled",),
    "dropped_presettled_deliveries": ("dropped_presettled", "dropped_presettled_out"),
    "deliveries_ingress": ("deliveries_in",),
    "deliveries_egress": ("deliveries_out",),
    "deliveries_transit": ("transit",),
    "deliveries_ingress_route_container": ("from_containers",),
    "deliveries_egress_route_container": ("to_containers",),
    "deliveries_redirected_to_fallback": ("redirected",),
    "deliveries_delayed_1sec": ("delayed_1s",),
    "deliveries_delayed_10sec": ("delayed_10s",),
}


def qdr(name: str) -> Metric:
    """A metric by qdrouterd's name."""
    return Metric(f"qdr_{name}", "counter", "As in qdrouterd: " + name.replace("_", " "))


def catalogue() -> list[Metric]:
    """All metrics, each once, in the order of the documentation."""
    named = [
        BUILD, ROUTER, START, UPTIME, UP, RESTARTS, BORN, CPU, RESIDENT, SHARED, STALLED,
        *(number(name).metric for name in COUNTERS),
        BLOCKS, RING, RING_SIZE, LATENCY, SIZE, ADDRESS_DELIVERIES, ADDRESS_RECEIVERS, ADDRESS_SENDERS,
        WORKER_IN, WORKER_OUT, WORKER_REFUSED, ENTRY_MESSAGES, ENDPOINT_MESSAGES, ENDPOINT_MISSED,
        CONNECTION, HTTP_ANSWERS, HTTP_REFUSED, *(qdr(name) for name in QDR),
    ]  # fmt: skip
    return list({metric.name: metric for metric in named}.values())

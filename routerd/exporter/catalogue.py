"""The catalogue of metrics: name, meaning, labels, and the number of a statistics page that each shows.

Names follow Prometheus: base units, `_total` for counters, labels in place of name prefixes. A number of
`shm.statistics.stats` that is not listed here is exported under its own name, so none is ever missing.
"""

from typing import Final

import msgspec

from shm.contract.roles import Role, is_worker
from shm.statistics.stats import COUNTERS, DROPPED_PRESETTLED

PREFIX: Final = "routerd_"
NS: Final = 1e-9


class Metric(msgspec.Struct, frozen=True):
    """A family of time series; ``name`` is without the `_total` of counters."""

    name: str
    kind: str  # counter, gauge, histogram, info, summary
    help: str
    labels: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The name of its series in queries; of a histogram or summary, its base name."""
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")


class Number(msgspec.Struct, frozen=True):
    """Says how a number of a statistics page is exported; ``labels`` come on top of `process`."""

    metric: Metric
    labels: dict[str, str] = {}
    scale: float = 1
    since_boot: bool = False  # seconds of CLOCK_MONOTONIC, exported as a time of day; 0 means never


def _family(kind: str, name: str, text: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, kind, text, labels)


def _counter(name: str, text: str, *labels: str) -> Metric:
    return _family("counter", name, text, "process", *labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return _family("gauge", name, text, "process", *labels)


# Metrics of several numbers of statistics pages, which the last label tells apart.
_SEVERAL: Final[tuple[tuple[Metric, dict[str, str]], ...]] = (
    (
        _counter("settled_deliveries", "Unsettled deliveries that ended, by the outcome for their sender", "outcome"),
        {one: one.removesuffix("_outcome") for one in ("accepted", "rejected", "released", "modified", "no_outcome")},
    ),
    (
        _counter("dropped_deliveries", "Presettled deliveries that reached nobody, by reason", "reason"),
        dict(zip(DROPPED_PRESETTLED, ("undeliverable", "slow_receiver", "far_behind", "receiver_gone"), strict=True)),
    ),
    (
        _counter(
            "delayed_deliveries", "Deliveries that took long to settle, by seconds: from 1 to 10, or more", "least"
        ),
        {"delayed_1s": "1", "delayed_10s": "10"},
    ),
    (
        _counter("ignored_records", "Records in shared memory that were dropped, by reason", "reason"),
        {"bad_records": "nonsense", "stale_records": "stale"},
    ),
    (
        _counter("rmr_malformed_connections", "RMR connections closed for a malformed frame, by reason", "reason"),
        {"rmr_bad_length": "length", "rmr_bad_header": "header"},
    ),
    (
        _counter("rmr_dropped_frames", "RMR frames that reached nobody, by reason", "reason"),
        {"rmr_reserved": "reserved_type", "rmr_undelivered": "undelivered"},
    ),
    (
        _counter("route_refused_messages", "Messages that route workers refused, by reason", "reason"),
        {name: name.removeprefix("route_refused_") for name in COUNTERS if name.startswith("route_refused_")},
    ),
    (
        _counter("flow_dropped_records", "Records of deliveries that are not in the flow log, by reason", "reason"),
        {"flow_dropped": "ring_full", "flow_lost_no_space": "no_space", "flow_lost_io": "io"},
    ),
    (
        _gauge("arena_free_blocks", "Free blocks of the process's arena, by size", "size"),
        {"small_free": "small", "large_free": "large"},
    ),
)
_LABELLED: Final = {
    name: (metric, {metric.labels[-1]: value}) for metric, numbers in _SEVERAL for name, value in numbers.items()
}

# Numbers that are exported under another name than their own.
RENAMED: Final = {
    "loops": "loop_turns",
    "sleeps": "loop_sleeps",
    "longest_turn_ns": "loop_longest_turn_ns",
    "failures": "unexpected_errors",
    "connections_accepted": "accepted_connections",
    "connections_failed": "failed_connections",
    "bytes_in": "received_bytes",
    "bytes_out": "sent_bytes",
    "deliveries_in": "ingress_deliveries",
    "deliveries_out": "egress_deliveries",
    "ingress": "client_ingress_deliveries",
    "egress": "client_egress_deliveries",
    "from_routers": "router_ingress_deliveries",
    "own_in": "own_ingress_deliveries",
    "own_out": "own_egress_deliveries",
    "own_presettled": "own_presettled_deliveries",
    "unsent": "unsent_deliveries",
    "in_doubt": "in_doubt_deliveries",
    "unaddressed": "unaddressed_deliveries",
    "decode_errors": "malformed_deliveries",
    "aborted_in": "aborted_deliveries",
    "pauses": "read_pauses",
    "paused": "read_paused",
    "unsettled": "unsettled_deliveries",
    "rmr_frames_in": "rmr_received_frames",
    "rmr_frames_out": "rmr_sent_frames",
    "rmr_unfit": "rmr_unfit_deliveries",
    "from_containers": "container_ingress_deliveries",
    "to_containers": "container_egress_deliveries",
    "redirected": "redirected_deliveries",
    "transit": "transit_deliveries",
    "forwarded": "forwarded_deliveries",
    "received": "received_deliveries",
    "presettled": "presettled_deliveries",
    "overflow": "overflow_records",
    "workers_reclaimed": "reclaimed_workers",
    "connections_admitted": "admitted_connections",
    "topology_changed": "last_topology_change_timestamp_seconds",
    "flow_thinned": "flow_thinned_deliveries",
    "flow_rows": "flow_written_records",
    "flow_bytes": "flow_written_bytes",
    "flow_deleted": "flow_deleted_files",
    "flow_compacted": "flow_compacted_files",
    "flow_recovered": "flow_recovered_records",
    "flow_doubted": "flow_clock_step_seconds",
    "config_taken": "config_last_reload_successful",
    "config_time": "config_last_reload_success_timestamp_seconds",
    "certificate_expiry": "certificate_expiry_timestamp_seconds",
}
_SINCE_BOOT: Final = frozenset(("topology_changed", "config_time"))


def number(name: str) -> Number:
    """Return how a number of `shm.statistics.stats.COUNTERS` is exported."""
    if name in _LABELLED:
        return Number(*_LABELLED[name])
    counter, shown = COUNTERS[name], RENAMED.get(name, name)
    in_ns = name.endswith("_ns")
    made = shown.removesuffix("_ns") + "_seconds" if in_ns else shown.removesuffix("_total")
    metric = (_counter if counter.kind == "counter" else _gauge)(made, counter.text)
    return Number(metric, {}, NS if in_ns else 1, name in _SINCE_BOOT)


def is_written_by(name: str, process: str) -> bool:
    """Whether a process keeps that number; it exports it from the start, since rates miss a first event."""
    role = Role.WORKER if is_worker(process) else process
    return role in COUNTERS[name].writers


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
SHARED: Final = _gauge("process_shared_memory_bytes", "Shared part of the process's memory: arenas, rings, libraries")
DESCRIPTORS: Final = _gauge("process_open_fds", "File descriptors that the process has open, one for each connection")
DESCRIPTORS_MOST: Final = _gauge("process_max_fds", "File descriptors that the process may have open")
STALLED: Final = _gauge(
    "loop_stalled_seconds", "Time for which the main loop has not turned; an idle one turns every second"
)
RING: Final = _gauge("ring_records", "Records that wait in the rings between worker and core", "ring")
RING_SIZE: Final = _gauge("ring_capacity_records", "Records that a ring between worker and core holds", "ring")
FLIGHT: Final = _family("gauge", "flight_records", "Records of the core that the flight recorder holds")
FLIGHT_SIZE: Final = _family("gauge", "flight_capacity_records", "Records that the flight recorder can hold")
FLIGHT_CHECKPOINTS: Final = _family(
    "counter", "flight_checkpoints", "Checkpoints of this core for a replay, by whether they were made", "state"
)
BLOCKS: Final = _gauge("arena_blocks", "Blocks of the process's arena, by size", "size")
LATENCY: Final = _family("histogram", "delivery_latency_seconds", "From a delivery's arrival to its settlement")
PYTHON: Final = _family(
    "histogram", "core_python_seconds", "Time that the core's Python took between two turns of forwarding"
)
SIZE: Final = _family("histogram", "message_size_bytes", "Size of messages")
ADDRESS_DELIVERIES: Final = _family(
    "counter", "address_deliveries", "Copies forwarded to receivers of a busy address; all others: (other)", "address"
)
ADDRESS_RECEIVERS: Final = _family("gauge", "address_receivers", "Receivers of one of the busiest addresses", "address")
ADDRESS_SENDERS: Final = _family("gauge", "address_senders", "Senders to one of the busiest addresses", "address")
ADDRESS_SETTLED: Final = _family(
    "counter", "address_settled_deliveries", "Copies that receivers of a busy address settled; all others: (other)",
    "address", "outcome",
)  # fmt: skip
ADDRESS_LATENCY: Final = _family(
    "summary", "address_latency_seconds", "From a delivery's arrival to the outcome of its receiver, by busy address",
    "address",
)  # fmt: skip
ADDRESS_DELAYED: Final = _family(
    "counter", "address_delayed_deliveries", "Copies for a busy address that took from 1 to 10 seconds, or more",
    "address", "least",
)  # fmt: skip
ADDRESS_BACKLOG: Final = _family(
    "gauge", "address_backlog_deliveries", "Copies for receivers of one of the busiest addresses that are not over",
    "address",
)  # fmt: skip
ADDRESS_CREDIT: Final = _family(
    "gauge", "address_sender_credit", "Credit of all senders to one of the busiest addresses together", "address"
)
ADDRESS_DRY: Final = _family(
    "gauge", "address_blocked_senders", "Senders to one of the busiest addresses that have no credit", "address"
)
LISTENER_UP: Final = _family("gauge", "listener_up", "1 while a process serves the listener", "listener")
LISTENER_ACCEPTING: Final = _family(
    "gauge", "listener_accepting_processes", "Processes that take new connections of the listener", "listener"
)
LISTENER_CONNECTIONS: Final = _family(
    "gauge", "listener_connections", "Open connections that came in by the listener", "listener"
)
_WORKER: Final = ("address", "kind")
WORKER_IN: Final = _family(
    "counter", "route_worker_received_messages", "Messages that came to one of the busiest route workers", *_WORKER
)
WORKER_OUT: Final = _family(
    "counter", "route_worker_sent_messages", "Messages that one of the busiest route workers sent on", *_WORKER
)
WORKER_REFUSED: Final = _family(
    "counter", "route_worker_refused_messages", "Messages refused at a busy route worker", *_WORKER, "reason"
)
_ENTRY: Final = ("table", "message_type", "subscription")
ENTRY_MESSAGES: Final = _family(
    "counter", "route_table_entry_messages", "Messages by one of the busiest entries of route tables", *_ENTRY
)
_ENDPOINT: Final = ("table", "endpoint")
ENDPOINT_MESSAGES: Final = _family(
    "counter", "route_table_endpoint_messages", "Messages to one of the busiest endpoints of route tables", *_ENDPOINT
)
ENDPOINT_MISSED: Final = _family(
    "counter", "route_table_endpoint_missed_messages", "Messages whose turn at a busy endpoint found no receiver",
    *_ENDPOINT,
)  # fmt: skip
CONNECTOR_UP: Final = _family("gauge", "connector_up", "1 while the connection of the connector is open", "connector")
CONNECTOR_FAILURES: Final = _family(
    "counter", "connector_failures", "Failed attempts of the connector, and connections that have ended", "connector"
)
CONNECTOR_ERROR: Final = _family(
    "info", "connector_error", "Why a connector that is not connected has failed last", "connector", "error"
)
ROUTER_REACHABLE: Final = _family(
    "gauge", "network_router_reachable", "1 while there is a path to the other router", "router"
)
ROUTER_COST: Final = _family(
    "gauge", "network_router_cost", "Cost of the path to the other router", "router", "next_hop"
)
_CONNECTION: Final = ("process", "container", "host", "role", "user")
CONNECTION: Final = _family(
    "info", "connection", "One of the newest connections; only with ?connections=1", *_CONNECTION
)
HTTP_ANSWERS: Final = _family("counter", "http_responses", "Answers of the exporter, by HTTP status", "code")
HTTP_REFUSED: Final = _family("counter", "http_refused", "HTTP clients the exporter ended, by reason", "reason")

SPANS: Final = _family(
    "counter", "trace_spans", "Spans of sampled traces: sent, refused by the collector, or lost before", "result"
)

# qdrouterd's names for the same numbers, for its dashboards. Its gauges whose names end in `_total` are not
# here: Prometheus reserves that ending for counters.
QDR: Final[dict[str, tuple[str, ...]]] = {
    "accepted_deliveries": ("accepted",),
    "rejected_deliveries": ("rejected",),
    "released_deliveries": ("released",),
    "modified_deliveries": ("modified",),
    "presettled_deliveries": ("presettled",),
    "dropped_presettled_deliveries": DROPPED_PRESETTLED,
    "deliveries_ingress": ("ingress",),
    "deliveries_egress": ("egress",),
    "deliveries_transit": ("transit",),
    "deliveries_ingress_route_container": ("from_containers",),
    "deliveries_egress_route_container": ("to_containers",),
    "deliveries_redirected_to_fallback": ("redirected",),
    "deliveries_delayed_1sec": ("delayed_1s",),
    "deliveries_delayed_10sec": ("delayed_10s",),
}


def qdr(name: str) -> Metric:
    """Return a metric under qdrouterd's name."""
    return Metric(f"qdr_{name}", "counter", "As in qdrouterd: " + name.replace("_", " "))


def catalogue() -> list[Metric]:
    """Return all metrics, each once, in the order of docs/metrics.md."""
    named = [
        BUILD, ROUTER, START, UPTIME, UP, RESTARTS, BORN, CPU, RESIDENT, SHARED, DESCRIPTORS, DESCRIPTORS_MOST,
        STALLED,
        *(number(name).metric for name in COUNTERS),
        BLOCKS, RING, RING_SIZE, FLIGHT, FLIGHT_SIZE, FLIGHT_CHECKPOINTS, LATENCY, PYTHON, SIZE,
        ADDRESS_DELIVERIES, ADDRESS_RECEIVERS, ADDRESS_SENDERS,
        ADDRESS_SETTLED, ADDRESS_LATENCY, ADDRESS_DELAYED, ADDRESS_BACKLOG, ADDRESS_CREDIT, ADDRESS_DRY,
        LISTENER_UP, LISTENER_ACCEPTING, LISTENER_CONNECTIONS,
        WORKER_IN, WORKER_OUT, WORKER_REFUSED, ENTRY_MESSAGES, ENDPOINT_MESSAGES, ENDPOINT_MISSED,
        CONNECTOR_UP, CONNECTOR_FAILURES, CONNECTOR_ERROR, ROUTER_REACHABLE, ROUTER_COST, CONNECTION,
        HTTP_ANSWERS, HTTP_REFUSED, SPANS, *(qdr(name) for name in QDR),
    ]  # fmt: skip
    return list({metric.name: metric for metric in named}.values())

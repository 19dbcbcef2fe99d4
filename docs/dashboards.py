"""The Grafana dashboards in docs/dashboards, made from the declarations below.

`python -m docs.reference` writes all of them anew.
"""

import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

HERE: Final = Path(__file__).parent / "dashboards"
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH: Final = 24  # of a dashboard, in columns


class Panel(NamedTuple):
    """A panel: its queries with their legends; ``describes`` is its tooltip.

    A query is PromQL in which `rate(NAME)` and `increase(NAME)` are over the interval of the panel, and each metric is
    that of the chosen routers.
    """

    title: str
    unit: str
    queries: dict[str, str]  # by legend
    width: int = 8
    describes: str = ""

    @property
    def height(self) -> int:
        return 4 if self.width == 4 else 8


def _by(label: str, name: str) -> dict[str, str]:
    """Rates of a counter by a label, which is the legend."""
    return {f"{{{{{label}}}}}": f"sum by ({label}) (rate({name}))"}


def _top(what: str, *labels: str) -> dict[str, str]:
    """The highest of a metric, or of the rates of one, by labels, which are the legend."""
    return {" ".join(f"{{{{{label}}}}}" for label in labels): f"topk(10, sum by ({', '.join(labels)}) ({what}))"}


def _each(**names: str) -> dict[str, str]:
    """Rates of counters, each under its own legend."""
    return {legend.replace("_", " "): f"sum(rate({name}))" for legend, name in names.items()}


def _quantile(part: float, name: str) -> str:
    return f"histogram_quantile({part}, sum by (le) (rate({name}_bucket)))"


_REFUSED: Final = {
    "tls": "tls", "authentication": "authentication", "unprotected": "unprotected", "vhost": "vhost",
    "connections": "connections", "sessions": "sessions", "links": "links", "addresses": "addresses",
    "messages": "messages", "size": "size", "user-id": "user_id", "requests": "requests",
    "links to nothing": "unavailable", "links of routers": "roles", "links not served": "termini",
    "links refused by brokers": "beyond", "links beyond an address's limit": "limits", "links without room": "room",
}  # fmt: skip

ROUTER: Final = (
    Panel("Processes down", "none", {"down": "count(routerd_process_up == 0) or vector(0)"}, 4,
          "Processes that are gone or whose loop does not turn."),
    Panel("Deliveries in", "cps", _each(**{"in": "routerd_ingress_deliveries_total"}), 4),
    Panel("Connections", "none", {"open": "sum(routerd_connections)"}, 4),
    Panel("p99 latency", "s", {"p99": _quantile(0.99, "routerd_delivery_latency_seconds")}, 4,
          "From arrival to settlement."),
    Panel("Uptime", "s", {"up": "min(routerd_uptime_seconds)"}, 4),
    Panel("First certificate expires", "s", {"left": "min(routerd_certificate_expiry_timestamp_seconds) - time()"}, 4,
          "Of all sslProfiles; empty without one."),
    Panel("Deliveries", "cps", {
        "in {{process}}": "sum by (process) (rate(routerd_ingress_deliveries_total))",
        "out {{process}}": "sum by (process) (rate(routerd_egress_deliveries_total))"}, 12),
    Panel("Outcomes", "cps",
          _by("outcome", "routerd_settled_deliveries_total") | _each(presettled="routerd_presettled_deliveries_total"),
          12, "What senders are told; presettled deliveries have no outcome."),
    Panel("Latency", "s", {
        "p50": _quantile(0.5, "routerd_delivery_latency_seconds"),
        "p99": _quantile(0.99, "routerd_delivery_latency_seconds"),
        "p99.9": _quantile(0.999, "routerd_delivery_latency_seconds")}, describes="From arrival to settlement."),
    Panel("Message size", "bytes", {
        "p50": _quantile(0.5, "routerd_message_size_bytes"),
        "p99": _quantile(0.99, "routerd_message_size_bytes"),
        "mean": "sum(rate(routerd_message_size_bytes_sum)) / sum(rate(routerd_message_size_bytes_count))"}),
    Panel("Traffic", "Bps", _each(received="routerd_received_bytes_total", sent="routerd_sent_bytes_total")),
    Panel("Busiest addresses", "cps", _top("rate(routerd_address_deliveries_total)", "address"),
          describes="Copies forwarded to receivers."),
    Panel("Addresses: not accepted", "cps", _top(
        'rate(routerd_address_settled_deliveries_total{outcome!="accepted"})', "address", "outcome"),
          describes="What receivers release, reject or modify."),
    Panel("Addresses: mean latency", "s", {
        "{{address}}": "topk(10, sum by (address) (rate(routerd_address_latency_seconds_sum))"
        " / sum by (address) (rate(routerd_address_latency_seconds_count)))"},
          describes="From a delivery's arrival to the outcome of its receiver."),
    Panel("Addresses: backlog", "none", _top("routerd_address_backlog_deliveries", "address"),
          describes="Copies for receivers that are not over."),
    Panel("Addresses: credit of senders", "none", {
        "credit {{address}}": "bottomk(10, sum by (address) (routerd_address_sender_credit))",
        "blocked {{address}}": "topk(10, sum by (address) (routerd_address_blocked_senders))"},
          describes="Blocked senders have none."),
    Panel("Addresses: delayed", "cps", _top("rate(routerd_address_delayed_deliveries_total)", "address", "least"),
          describes="Copies that took from 1 to 10 seconds, or more."),
    Panel("Connections, links, addresses", "none", {
        "connections": "sum(routerd_connections)", "links": "sum(routerd_links)", "addresses": "sum(routerd_addresses)",
        "unsettled deliveries": "sum(routerd_unsettled_deliveries)"}, 12),
    Panel("Connections by listener", "none", {
        "{{listener}}": "sum by (listener) (routerd_listener_connections)",
        "accepting {{listener}}": "sum by (listener) (routerd_listener_accepting_processes)",
        "up {{listener}}": "min by (listener) (routerd_listener_up)"}, 12, "Nobody serves a listener that is not up."),
    Panel("CPU", "percentunit", {"{{process}}": "rate(routerd_process_cpu_seconds_total)"},
          describes="Of one processor."),
    Panel("Private memory", "bytes", {
        "{{process}}": "routerd_process_resident_memory_bytes - routerd_process_shared_memory_bytes"}),
    Panel("File descriptors in use", "percentunit", {
        "{{process}}": "routerd_process_open_fds / routerd_process_max_fds"},
          describes="A part of the process's limit."),
    Panel("Arenas in use", "percentunit", {
        "{{process}} {{size}}": "1 - routerd_arena_free_blocks / routerd_arena_blocks"}),
    Panel("Rings in use", "percentunit", {
        "{{process}} {{ring}}": "routerd_ring_records / routerd_ring_capacity_records"}),
    Panel("Longest loop turn, stalls", "s", {
        "longest {{process}}": "routerd_loop_longest_turn_seconds",
        "stalled {{process}}": "routerd_loop_stalled_seconds",
        "core's Python, p99": _quantile(0.99, "routerd_core_python_seconds")}),
    Panel("Refused, dropped, failed", "cps",
          {"dropped: {{reason}}": "sum by (reason) (rate(routerd_dropped_deliveries_total))",
           "records: {{reason}}": "sum by (reason) (rate(routerd_ignored_records_total))"}
          | _each(malformed="routerd_malformed_deliveries_total", aborted="routerd_aborted_deliveries_total",
                  connections_failed="routerd_failed_connections_total")),
    Panel("Restarts, read pauses", "none", {
        "restart {{process}}": "increase(routerd_process_restarts_total)",
        "pause {{process}}": "increase(routerd_read_pauses_total)"}),
    Panel("Work waiting for a ring, live deliveries", "none", {
        "waiting": "routerd_overflow_records", "live deliveries": "routerd_live_deliveries",
        "stuck": "routerd_deliveries_stuck"}),
    Panel("Refused by TLS, login, policy, management, HTTP", "cps",
          {text: f"sum(rate(routerd_refused_{name}_total))" for text, name in _REFUSED.items()}
          | {"http {{reason}}": "sum by (reason) (rate(routerd_http_refused_total))"}, 16,
          "Who it was stands in the log."),
    Panel("Configuration", "s", {
        "since the last reload": "time() - max(routerd_config_last_reload_success_timestamp_seconds)",
        "1: the last reload was taken over": "min(routerd_config_last_reload_successful)"}),
)  # fmt: skip

NETWORK: Final = (
    Panel("Routers of the network", "short", {"{{router}}": "min by (router) (routerd_network_router_reachable)"}, 12,
          "1: there is a path."),
    Panel("Cost of paths", "short", {"{{router}} by {{next_hop}}": "routerd_network_router_cost"}, 12),
    Panel("Deliveries of other routers", "cps", _each(
        from_routers="routerd_router_ingress_deliveries_total", to_routers="routerd_transit_deliveries_total",
        own="routerd_own_egress_deliveries_total")),
    Panel("Changes of paths", "none", {"changes": "sum(increase(routerd_ways_changed_total))"}),
    Panel("Since the last change", "s", {
        "{{instance}}": "time() - (routerd_last_topology_change_timestamp_seconds > 0)"},
          describes="Empty for a router whose network never changed."),
    Panel("Connectors", "short", {"{{connector}}": "routerd_connector_up"},
          describes="1: connected. routerd_connector_error_info says why one is not."),
    Panel("Failures of connectors", "cps", {"{{connector}}": "rate(routerd_connector_failures_total)"}),
    Panel("Deliveries of brokers", "cps", _each(
        from_brokers="routerd_container_ingress_deliveries_total",
        to_brokers="routerd_container_egress_deliveries_total",
        to_fallbacks="routerd_redirected_deliveries_total")),
)  # fmt: skip

TABLES: Final = (
    Panel("Messages by route tables", "cps", _each(
        routed="routerd_keyed_total", no_entry="routerd_keyed_no_entry_total",
        no_endpoint="routerd_keyed_no_endpoint_total", no_owner="routerd_keyed_no_owner_total",
        refused="routerd_keyed_refused_total"), 12, "Messages that a table routed, and why others were not routed."),
    Panel("Busiest entries", "cps", _top(
        "rate(routerd_route_table_entry_messages_total)", "table", "message_type", "subscription"), 12),
    Panel("Busiest endpoints", "cps", _top(
        "rate(routerd_route_table_endpoint_messages_total)", "table", "endpoint")),
    Panel("Endpoints without a receiver", "cps", _top(
        "rate(routerd_route_table_endpoint_missed_messages_total)", "table", "endpoint"),
          describes="Messages whose turn at the endpoint found no receiver."),
    Panel("Entries in use", "none", {"entries": "sum(routerd_table_entries)"}),
    Panel("Tables", "none", {
        "taken into use": "sum(increase(routerd_tables_installed_total))",
        "refused": "sum(increase(routerd_tables_refused_total))",
        "requested": "sum(increase(routerd_table_requests_sent_total))"}),
    Panel("Applications", "none", {
        "all": "sum(routerd_table_applications)", "with the table in use": "sum(routerd_table_applications_ok)",
        "refusals": "sum(increase(routerd_table_nacks_total))", "late": "sum(increase(routerd_table_acks_late_total))"},
          describes="Of a router that serves its tables as a Route Manager."),
    Panel("RMR frames", "cps", _each(
        received="routerd_rmr_received_frames_total", sent="routerd_rmr_sent_frames_total",
        unfit="routerd_rmr_unfit_deliveries_total")
          | {"dropped: {{reason}}": "sum by (reason) (rate(routerd_rmr_dropped_frames_total))",
             "closed for: {{reason}}": "sum by (reason) (rate(routerd_rmr_malformed_connections_total))"}),
)  # fmt: skip

FLOW: Final = (
    Panel("Records", "cps", _each(
        made="routerd_flow_records_total", written="routerd_flow_written_records_total",
        thinned="routerd_flow_thinned_deliveries_total"), 12,
          "Made by the core, and in complete files; others stand for those that are thinned."),
    Panel("Records lost", "cps", _by("reason", "routerd_flow_dropped_records_total"), 12,
          "Messages are not concerned."),
    Panel("Bytes written", "Bps", _each(written="routerd_flow_written_bytes_total")),
    Panel("Files", "none", {
        "complete": "sum(increase(routerd_flow_files_total))",
        "put together": "sum(increase(routerd_flow_compacted_files_total))",
        "deleted": "sum(increase(routerd_flow_deleted_files_total))"}),
    Panel("Trouble", "none", {
        "errors": "sum(increase(routerd_flow_errors_total))",
        "records recovered": "sum(increase(routerd_flow_recovered_records_total))",
        "step of the clock": "max(routerd_flow_clock_step_seconds)"},
          describes="While the clock has stepped, retentionAge ignores that step."),
    Panel("CPU of the recorder", "percentunit", {
        "{{process}}": 'rate(routerd_process_cpu_seconds_total{process="recorder"})'}, 12),
    Panel("Memory of the recorder", "bytes", {
        "{{process}}": 'routerd_process_resident_memory_bytes{process="recorder"}'}, 12),
)  # fmt: skip

DASHBOARDS: Final = {
    "router": ("routerd", ROUTER),
    "network": ("routerd: network", NETWORK),
    "route-tables": ("routerd: route tables", TABLES),
    "flow-log": ("routerd: flow log", FLOW),
}
_EXPIRY: Final = {
    "color": {"mode": "thresholds"},
    "thresholds": {
        "mode": "absolute",
        "steps": [
            {"color": "red", "value": None},
            {"color": "orange", "value": 86400},
            {"color": "green", "value": 1209600},
        ],
    },
}


def expression(query: str) -> str:
    """Return a query as a panel has it: for the chosen routers, over its own interval."""

    def chosen(found: re.Match[str]) -> str:
        more = f", {found[2][1:-1]}" if found[2] else ""
        return f'{found[1]}{{instance=~"$instance"{more}}}'

    text = re.sub(r"\b(routerd_\w+)(\{[^}]*\})?", chosen, query)
    return re.sub(r"\b(rate|increase)\((routerd_\w+\{[^}]*\})\)", r"\1(\2[$__rate_interval])", text)


def _panel(number: int, panel: Panel, at: tuple[int, int]) -> dict[str, Any]:
    small = panel.width == 4
    shown: dict[str, Any] = (
        {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"}
        if small
        else {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    )
    return {
        "id": number,
        "type": "stat" if small else "timeseries",
        "title": panel.title,
        "description": panel.describes,
        "datasource": _SOURCE,
        "gridPos": {"h": panel.height, "w": panel.width, "x": at[0], "y": at[1]},
        "fieldConfig": {
            "defaults": {"unit": panel.unit} | (_EXPIRY if "expires" in panel.title else {"min": 0}),
            "overrides": [],
        },
        "targets": [
            {"refId": chr(65 + i), "datasource": _SOURCE, "expr": expression(query), "legendFormat": legend}
            for i, (legend, query) in enumerate(panel.queries.items())
        ],
        "options": shown,
    }


def _placed(panels: tuple[Panel, ...]) -> list[dict[str, Any]]:
    """Panels from left to right, and in the next row when there is no room."""
    found, x, y, height = [], 0, 0, 0
    for number, panel in enumerate(panels):
        if x + panel.width > _WIDTH:
            x, y, height = 0, y + height, 0
        found.append(_panel(number, panel, (x, y)))
        x, height = x + panel.width, max(height, panel.height)
    return found


def dashboard(name: str) -> str:
    """Return the JSON of a dashboard, for Grafana to import."""
    title, panels = DASHBOARDS[name]
    routers = "label_values(routerd_build_info, instance)"
    variables = [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        {
            "name": "instance", "label": "Router", "type": "query", "datasource": _SOURCE, "query": routers,
            "definition": routers, "refresh": 2, "includeAll": True, "multi": True,
            "current": {"text": "All", "value": "$__all"},
        },
    ]  # fmt: skip
    content = {
        "uid": f"routerd-{name}" if name != "router" else "routerd",
        "title": title,
        "tags": ["routerd"],
        "timezone": "browser",
        "schemaVersion": 38,
        "version": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "links": [{"type": "dashboards", "tags": ["routerd"], "title": "routerd", "asDropdown": True}],
        "panels": _placed(panels),
    }
    return json.dumps(content, ensure_ascii=False) + "\n"


def write() -> None:
    """Write all dashboards."""
    for name in DASHBOARDS:
        (HERE / f"{name}.json").write_text(dashboard(name), encoding="utf-8")

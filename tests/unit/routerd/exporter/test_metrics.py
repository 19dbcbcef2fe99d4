"""What a scrape says, over pages that the test fills: names, numbers, formats, bounds."""

import gzip
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Exemplar

from bench import contract
from core.forwarder.recorded import Forwarder
from routerd.exporter import catalogue
from routerd.exporter.collector import Identity, buckets
from routerd.exporter.observer import Observer
from routerd.exporter.server import Answer, Request
from routerd.exporter.site import PACKED_MOST, PACKED_PAGE, PAGE, Pages, packed
from shm import native
from shm.memory import segment
from shm.memory.observer import Histogram, SharedView
from shm.statistics import board, stats
from shm.statistics.board import (
    AddressRow,
    Board,
    ConnectionRow,
    ConnectorRow,
    ListenerRow,
    Outcomes,
    RouteEndpointRow,
    RouteEntryRow,
    RouterRow,
    RouteWorkerRow,
)  # fmt: skip
from shm.statistics.stats import COUNTERS

ROOT = Path(__file__).parents[4]
ME = Identity("me", "1.2", "3.11")
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def segments() -> Iterator[segment.Segments]:
    """The shared memory of a router with two workers, all of whose pages are this process's."""
    with segment.create(segment.segment_prefix("test-metrics", os.getpid()), 2, 1, records=1000) as made:
        for page in (made.worker_stats(0), made.worker_stats(1), made.core_stats(), made.supervisor_stats()):
            page.own(os.getpid(), 1)
        del page
        yield made


def scrape(segments: segment.Segments, http: dict[str, int | None] | None = None, **parameters: list[str]) -> Answer:
    observer = Observer(SharedView(segments.names.prefix), time.monotonic)
    accept = "".join(parameters.pop("accept", []))
    pages = Pages(observer, ME, Counter({200: 3}), Counter(slow=1), lambda: http or {}, lambda: {"sent": 3})
    return pages.metrics(Request("/metrics", parameters, accept))


def test_buckets_of_latency_have_exemplars_in_openmetrics(segments: segment.Segments) -> None:
    """A scraper that does not ask for them gets none."""
    exemplar = Exemplar({"trace_id": "0a" * 16}, 9e-6, 1.5)
    observer = Observer(SharedView(segments.names.prefix), time.monotonic)
    pages = Pages(observer, ME, Counter(), Counter(), exemplars=lambda: {14: exemplar, 63: exemplar})
    asked = pages.metrics(Request("/metrics", {}, "application/openmetrics-text; version=1.0.0")).body.decode()
    (line,) = (line for line in asked.splitlines() if "trace_id" in line)
    assert line.startswith('routerd_delivery_latency_seconds_bucket{le="1.6384e-05"}')
    assert line.endswith('# {trace_id="' + "0a" * 16 + '"} 9e-06 1.5')
    assert "trace_id" not in pages.metrics(Request("/metrics", {}, "")).body.decode()


def families(answer: Answer) -> dict[str, Metric]:
    return {family.name: family for family in parse_text(answer.body.decode())}


def value(found: dict[str, Metric], series: str, **labels: str) -> float:
    samples = [s for family in found.values() for s in family.samples if s.name == series]
    (sample,) = [s for s in samples if labels.items() <= s.labels.items()]
    return float(sample.value)


def test_processes_are_measured_where_the_service_manager_hides_proc_stat(
    segments: segment.Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ProcSubset=pid there are the processes' own entries in /proc and nothing else. The exporter, which
    has no page in shared memory, is among those that are shown."""

    def hidden(*_: object) -> float:
        raise FileNotFoundError(2, "No such file or directory", "/proc/stat")

    for name in ("boot_time", "cpu_times", "virtual_memory", "cpu_count"):
        monkeypatch.setattr(f"psutil._pslinux.{name}", hidden, raising=False)
    found = families(scrape(segments))
    for process in ("supervisor", "core", "worker-0", "exporter"):
        assert value(found, "routerd_process_up", process=process) == 1
        started = value(found, "routerd_process_start_time_seconds", process=process)
        assert started == pytest.approx(time.time() - time.process_time(), abs=3600)
        assert value(found, "routerd_process_cpu_seconds_total", process=process) > 0
        assert value(found, "routerd_process_resident_memory_bytes", process=process) > 0
    assert value(found, "routerd_process_restarts_total", process="exporter") == 0


def test_every_counter_is_shown_for_each_process_that_keeps_it(segments: segment.Segments) -> None:
    """A number that shm.statistics.stats has and a scrape has not would be missed only when it is needed."""
    numbers = {name: 1000 + index for name, (index, *_) in stats.COUNTERS.items()}
    for page in (segments.worker_stats(0), segments.core_stats()):
        for name, number in numbers.items():
            page.set(stats.COUNTERS[name].place, number)
    del page
    found = families(scrape(segments))
    for name, number in numbers.items():
        shown = catalogue.number(name)
        for process in ("worker-0", "core"):
            got = value(found, shown.metric.shown, process=process, **shown.labels)
            base = time.time() - time.monotonic() if shown.since_boot else 0
            assert got == pytest.approx(base + number * shown.scale, abs=2 if base else None), (name, process)


@pytest.mark.parametrize(
    ("name", "process"),
    [
        ("refused_tls", "worker-0"),
        ("refused_sessions", "worker-0"),
        ("refused_room", "worker-0"),
        ("certificates_failed", "worker-0"),
        ("auth_service_refused", "worker-0"),
        ("ockam_bad_frame", "worker-0"),
        ("failed_connections", "worker-0"),
        ("refused_links", "core"),
        ("refused_unavailable", "core"),
        ("refused_beyond", "core"),
        ("refused_limits", "core"),
        ("refused_requests", "core"),
        ("ways_changed", "core"),
    ],
)
def test_a_counter_is_there_before_its_first_event(segments: segment.Segments, name: str, process: str) -> None:
    """Otherwise the first one is no increase, and no alert comes of it."""
    samples = families(scrape(segments))[f"routerd_{name}"].samples
    shown = {sample.labels["process"] for sample in samples}
    assert (process in shown, "core" in shown) == (True, process == "core")


@pytest.mark.parametrize("name", ["flow_recovered", "flow_doubted"])
def test_the_recorder_shows_what_it_counts(name: str) -> None:
    """From the start, and nobody else does."""
    processes = ("worker-0", "core", "recorder", "supervisor")
    assert [catalogue.is_written_by(name, one) for one in processes] == [False, False, True, False]


def test_a_network_that_never_changed_says_so(segments: segment.Segments) -> None:
    """A router that stands alone: not a time long ago."""
    name = "routerd_last_topology_change_timestamp_seconds"
    assert value(families(scrape(segments)), name, process="core") == 0


def test_counters_not_kept_are_not_shown(segments: segment.Segments) -> None:
    """A worker has no addresses: a series of zeros for it would only cost."""
    addresses = families(scrape(segments))["routerd_addresses"].samples
    assert [sample.labels for sample in addresses] == [{"process": "core"}]


@pytest.mark.parametrize("metric", catalogue.catalogue(), ids=lambda metric: metric.name)
def test_names_follow_prometheus(metric: catalogue.Metric) -> None:
    """Base units, `_total` for counters and for nothing else, help as one phrase."""
    assert re.fullmatch(r"(routerd|qdr)_[a-z][a-z0-9_]*", metric.name)
    assert not re.search(r"_(total|info|count|sum|bucket|ms|us|ns|minutes|hours|kb|mb|mib)$", metric.name)
    assert re.match(r"[A-Z1]", metric.help)
    assert not metric.help.endswith(".")
    assert "instance" not in metric.labels
    assert "job" not in metric.labels


def test_a_new_counter_gets_a_name_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is added to shm.statistics.stats is exported, with its unit converted."""
    monkeypatch.setitem(stats.COUNTERS, "waited_ns", stats.Counter(30, "counter", (), "Time waited"))
    monkeypatch.setitem(stats.COUNTERS, "rejects", stats.Counter(31, "gauge", (), "Rejects now"))
    waited, rejects = catalogue.number("waited_ns"), catalogue.number("rejects")
    assert (waited.metric.shown, waited.scale) == ("routerd_waited_seconds_total", 1e-9)
    assert (waited.metric.help, waited.metric.labels) == ("Time waited", ("process",))
    assert rejects.metric.shown == "routerd_rejects"
    assert {waited.metric, rejects.metric} <= set(catalogue.catalogue())


def test_connectors_and_the_network_are_shown(segments: segment.Segments) -> None:
    """What does not work says why; a router without a path has no cost; descriptors stand beside their limit."""
    connectors = [ConnectorRow("b", False, 3, "refused"), ConnectorRow("c", True, 1, "")]
    routers = [RouterRow("B", "B", 1), RouterRow("C", "B", 3), RouterRow("D", "", None)]
    segments.board().write(board.encode(Board(connectors=connectors, routers=routers)))
    found = families(scrape(segments))
    assert [value(found, "routerd_connector_up", connector=name) for name in "bc"] == [0, 1]
    assert value(found, "routerd_connector_failures_total", connector="b") == 3
    assert value(found, "routerd_connector_error_info", connector="b", error="refused") == 1
    assert len(found["routerd_connector_error_info"].samples) == 1
    assert [value(found, "routerd_network_router_reachable", router=name) for name in "BCD"] == [1, 1, 0]
    assert value(found, "routerd_network_router_cost", router="C", next_hop="B") == 3
    assert len(found["routerd_network_router_cost"].samples) == 2
    opened = value(found, "routerd_process_open_fds", process="core")
    assert 3 < opened <= value(found, "routerd_process_max_fds", process="core")


def test_a_long_error_of_a_connector_is_a_short_label(segments: segment.Segments) -> None:
    """A store of metrics keeps each label's value; the page has the whole text."""
    segments.board().write(board.encode(Board(connectors=[ConnectorRow("b", False, 3, "refused " * 50)])))
    (found,) = families(scrape(segments))["routerd_connector_error_info"].samples
    assert found.labels["error"] == board.short("refused " * 50)


def record(segments: segment.Segments) -> None:
    """A core begins to record, and adds an address."""
    forwarder = Forwarder(2, segments.control, segments.rings, segments.arenas, [-1, -1])
    assert segments.flight is not None
    forwarder.record(segments.flight)
    forwarder.add_address(0)
    forwarder.recorder = None  # which lets go of the segment


def test_the_flight_recorder_tells_what_it_holds(segments: segment.Segments) -> None:
    """Nothing before a core has begun; then its records, and how many it can hold."""
    assert "routerd_flight_records" not in families(scrape(segments))
    record(segments)
    found = families(scrape(segments))
    (held,), (most,) = (found[f"routerd_flight_{name}"].samples for name in ("records", "capacity_records"))
    assert (held.value, most.value) == (1, 16_384)
    assert [one.value for one in found["routerd_flight_checkpoints"].samples] == [0, 0]


def test_scrape_has_nothing_that_the_catalogue_lacks(segments: segment.Segments) -> None:
    """And the other way round: the documentation is complete and has no ghosts."""
    segments.board().write(
        board.encode(
            Board(
                [AddressRow("a", "b", 1, 1, 1)],
                1,
                [ConnectionRow(0, "c", "h", "r", "u")],
                1,
                [RouteWorkerRow("D1", "discovery", 3, 2, {"access": 1})],
                [RouteEntryRow("t", 1, -1, 1)],
                [RouteEndpointRow("t", "a:1", 1, 1)],
                [ConnectorRow("c", False, 1, "refused")],
                [RouterRow("B", "B", 1)],
                listeners=[ListenerRow("amqp", [0], 1)],
            )
        )
    )
    segments.supervisor_stats().set(COUNTERS["certificate_expiry"].place, 1)
    segments.recorder_stats().own(1, 1)
    record(segments)
    shown = {name.removesuffix("_info") for name in families(scrape(segments, connections=["1"]))}
    assert shown == {metric.name for metric in catalogue.catalogue()}


def test_each_worker_of_source_routes(segments: segment.Segments) -> None:
    """By address and kind: in, out, and refused by reason."""
    rows = [RouteWorkerRow("D1", "discovery", 3, 2, {"access": 1}), RouteWorkerRow("64#x", "tee", 5, 5)]
    segments.board().write(board.encode(Board(route_workers=rows)))
    found = families(scrape(segments))
    one = {"address": "D1", "kind": "discovery"}
    assert value(found, "routerd_route_worker_received_messages_total", **one) == 3
    assert value(found, "routerd_route_worker_sent_messages_total", **one) == 2
    assert value(found, "routerd_route_worker_refused_messages_total", **one, reason="access") == 1
    assert value(found, "routerd_route_worker_sent_messages_total", address="64#x", kind="tee") == 5


def test_each_entry_and_endpoint_of_route_tables(segments: segment.Segments) -> None:
    """By table and key: messages; by table and endpoint: sent, and missed."""
    entries, endpoints = [RouteEntryRow("ric", 1000, -1, 7)], [RouteEndpointRow("ric", "app0:4560", 5, 2)]
    segments.board().write(board.encode(Board(route_entries=entries, route_endpoints=endpoints)))
    found = families(scrape(segments))
    key = {"table": "ric", "message_type": "1000", "subscription": "-1"}
    assert value(found, "routerd_route_table_entry_messages_total", **key) == 7
    endpoint = {"table": "ric", "endpoint": "app0:4560"}
    assert value(found, "routerd_route_table_endpoint_messages_total", **endpoint) == 5
    assert value(found, "routerd_route_table_endpoint_missed_messages_total", **endpoint) == 2


def test_openmetrics_is_what_it_says(segments: segment.Segments) -> None:
    """The strict parser takes it, and finds the same families."""
    contract.observe(segments.core_stats(), 0, 5000)
    answer = scrape(segments, accept=[OPENMETRICS])
    assert answer.content_type.startswith("application/openmetrics-text; version=1.0.0")
    found = {family.name for family in parse_openmetrics(answer.body.decode())}
    assert found == {name.removesuffix("_info") for name in families(scrape(segments))}


def test_only_what_is_asked_for(segments: segment.Segments) -> None:
    """`name[]` chooses."""
    assert set(families(scrape(segments, **{"name[]": ["routerd_links"]}))) == {"routerd_links"}


def test_histograms_count_what_lies_below_their_bounds() -> None:
    """Bounds are inclusive: 1024 bytes are not below 1023; all values are in the last bucket."""
    counts = [0] * len(native.BUCKET_FLOORS)
    for size in (1, 63, 64, 1023, 1024, 4096, 1 << 40):
        counts[max(i for i, floor in enumerate(native.BUCKET_FLOORS) if floor <= size)] += 1
    ends = tuple(native.BUCKET_FLOORS.index(floor) for floor in (64, 1024, 4096))
    classic = buckets(Histogram(0, counts), ends, lambda floor: floor - 1)
    assert classic == [("63", 2), ("1023", 4), ("4095", 5), ("+Inf", 7)]


def test_histograms_are_in_base_units(segments: segment.Segments) -> None:
    """Nanoseconds become seconds."""
    for _ in range(3):
        contract.observe(segments.core_stats(), stats.HISTOGRAMS["delivery_latency_ns"], 2_000_000)
    found = families(scrape(segments))
    assert value(found, "routerd_delivery_latency_seconds_sum") == pytest.approx(0.006)
    assert value(found, "routerd_delivery_latency_seconds_bucket", le="0.001048576") == 0
    assert value(found, "routerd_delivery_latency_seconds_bucket", le="0.002097152") == 3


def test_addresses_are_bounded_and_quoted(segments: segment.Segments) -> None:
    """Whatever clients call them; the rest is one series; equal texts are one series, too."""
    wild = 'a"b\\c\nd\u202eé'
    rows = [AddressRow(wild, "balanced", 5, 1, 2), AddressRow("twice", "b", 1, 1, 1), AddressRow("twice", "b", 2, 1, 1)]
    segments.board().write(board.encode(Board(rows, 44)))
    for accept in ("", OPENMETRICS):
        parse = parse_openmetrics if accept else parse_text
        found = {f.name: f for f in parse(scrape(segments, accept=[accept]).body.decode())}
        series, seen = "routerd_address_deliveries_total", 'a"b\\c\\nd\\u202eé'
        assert value(found, series, address=seen) == 5
        assert value(found, series, address="twice") == 3
        assert value(found, series, address="(other)") == 44
        assert value(found, "routerd_address_senders", address=seen) == 2


def test_dead_processes_are_down(segments: segment.Segments) -> None:
    """A page without a process is shown as down; restarts are what its generation says."""
    segments.worker_stats(1).own(0, 4)
    found = families(scrape(segments))
    assert value(found, "routerd_process_up", process="worker-1") == 0
    assert value(found, "routerd_process_up", process="worker-0") == 1
    assert value(found, "routerd_process_restarts_total", process="worker-1") == 3
    assert not [s for s in found["routerd_process_resident_memory_bytes"].samples if s.labels["process"] == "worker-1"]


def test_qdrouterd_names_are_sums(segments: segment.Segments) -> None:
    """Dashboards for qdrouterd find the whole router in one number."""
    for count, name in enumerate(stats.DROPPED_PRESETTLED, 1):
        segments.core_stats().add(stats.COUNTERS[name].place, count)
    assert value(families(scrape(segments)), "qdr_dropped_presettled_deliveries_total") == 10


def test_ten_thousand_addresses_cost_no_more_than_fifty(segments: segment.Segments) -> None:
    """The board has no room for more rows: a scrape does not grow with the number of addresses."""
    texts = [board.short(f"{i:05}" + "x" * 200) for i in range(board.ADDRESSES)]
    rows = [AddressRow(text, "balanced", 1, 1, 1) for text in texts]
    segments.core_stats().set(stats.COUNTERS["addresses"].place, 10_000)
    segments.board().write(board.encode(Board(rows, 10**9)))
    answer = scrape(segments)
    assert len(families(answer)["routerd_address_deliveries"].samples) == board.ADDRESSES + 1
    assert len(answer.body) < 200_000
    assert len(packed(answer, "gzip").body) < 20_000


def test_outcomes_latency_and_load_of_busy_addresses(segments: segment.Segments) -> None:
    """In base units, of equal texts together, and of all others as one address, which has no load."""
    rows = [
        AddressRow("a", "b", 9, 1, 2, Outcomes(4, 1, 0, 0, 2_000_000_000, 3, 2), 7, 250, 1),
        AddressRow("a", "b", 9, 1, 2, Outcomes(1, 0, 1, 1, 1_000_000_000, 0, 0), 1, 0, 2),
    ]
    segments.board().write(board.encode(Board(rows, 44, other_outcomes=Outcomes(accepted=5, latency=1000))))
    found = families(scrape(segments))
    for outcome, count in {"accepted": 5, "rejected": 1, "released": 1, "modified": 1}.items():
        assert value(found, "routerd_address_settled_deliveries_total", address="a", outcome=outcome) == count
    assert value(found, "routerd_address_latency_seconds_sum", address="a") == pytest.approx(3)
    assert value(found, "routerd_address_latency_seconds_count", address="a") == 8
    assert value(found, "routerd_address_delayed_deliveries_total", address="a", least="1") == 3
    assert value(found, "routerd_address_delayed_deliveries_total", address="a", least="10") == 2
    assert value(found, "routerd_address_backlog_deliveries", address="a") == 8
    assert value(found, "routerd_address_sender_credit", address="a") == 250
    assert value(found, "routerd_address_blocked_senders", address="a") == 3
    assert value(found, "routerd_address_settled_deliveries_total", address="(other)", outcome="accepted") == 5
    assert value(found, "routerd_address_latency_seconds_sum", address="(other)") == pytest.approx(1e-6)
    assert len(found["routerd_address_backlog_deliveries"].samples) == 1


def test_listeners_are_shown(segments: segment.Segments) -> None:
    """Served or not, by how many processes that accept, with their connections; the exporter serves some itself."""
    rows = ("amqp", [0, 1], 7), ("amqps", [], 0), ("", [1], 2), ("w", [0], 3), ("no tls", [0], 3)
    segments.board().write(board.encode(Board(listeners=[ListenerRow(*one) for one in rows])))
    segments.worker_stats(0).set(COUNTERS["accepting"].place, 1)
    found = families(scrape(segments, http={"http": 4, "w": 1, "https": None, "no tls": None}))
    shown = {
        name: [
            value(found, f"routerd_listener_{of}", listener=name) for of in ("up", "accepting_processes", "connections")
        ]
        for name in ("amqp", "amqps", "(unnamed)", "http", "w", "https", "no tls")
    }
    assert shown == {
        "amqp": [1, 1, 7], "amqps": [0, 0, 0], "(unnamed)": [1, 0, 2], "http": [1, 1, 4], "w": [1, 2, 4],
        "https": [0, 0, 0], "no tls": [0, 1, 3],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("accepts", "taken"),
    [
        ("gzip", True), ("deflate, gzip;q=1.0, *;q=0.5", True), ("x-gzip", True), ("GZIP", True),
        ("gzip ; q=0.1", True),
        ("", False), ("gzip;q=0", False), ("gzip;q=0.000", False), ("identity", False), ("br, gzippy", False),
    ],
)  # fmt: skip
def test_answers_are_packed_for_who_takes_it(accepts: str, taken: bool) -> None:
    """None that is small, or so large that it would hold up others; the page is packed once."""
    one = packed(Answer(b"x" * 5000, headers={"A": "b"}), accepts)
    assert one.headers.get("Content-Encoding") == ("gzip" if taken else None)
    assert one.headers["A"] == "b"
    assert (gzip.decompress(one.body) if taken else one.body) == b"x" * 5000
    for left in (b"x" * 1000, b"x" * (PACKED_MOST + 1)):
        assert packed(Answer(left), accepts).body is left
    assert packed(Answer(PAGE), accepts).body is (PACKED_PAGE if taken else PAGE)

"""Collects the metrics of a scrape from shared memory.

The collector keeps no counters: these are in the statistics pages of the processes that count.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

import msgspec
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Exemplar

from routerd.exporter import catalogue
from routerd.exporter.catalogue import Metric, number
from routerd.exporter.observer import Observer, State
from shm.contract.failures import failures
from shm.contract.roles import Role, process_name
from shm.contract.text import printable
from shm.memory.observer import Histogram, Page
from shm.native import BUCKET_FLOORS, RING_CAPACITY, arena_split
from shm.statistics.board import AddressRow, Outcomes, short
from shm.statistics.stats import COUNTERS

OTHER: Final = "(other)"  # addresses
UNNAMED: Final = "(unnamed)"  # listeners
# Upper bounds of classic buckets: powers of two, which are floors of log-linear buckets.
LATENCY_SIZES: Final = range(13, 36)  # bits: 8 us to 34 s
LATENCY_ENDS: Final = tuple(BUCKET_FLOORS.index(1 << n) for n in LATENCY_SIZES)
PYTHON_ENDS: Final = tuple(sorted((BUCKET_FLOORS.index(3 << 16), *LATENCY_ENDS[:18])))  # up to 1.07 s, and 0.197 ms
SIZE_ENDS: Final = tuple(BUCKET_FLOORS.index(1 << n) for n in range(6, 27, 2))  # 63 bytes to 64 MiB - 1


class Identity(msgspec.Struct, frozen=True):
    """What metrics say about the router itself."""

    router_id: str
    version: str
    python: str
    generation: int = 1  # the exporter's


class Families:
    """Metric families of one scrape, each created with its first sample.

    Label values, which may be texts of clients, are printable: whoever reads a scrape in a terminal gets no escapes.
    """

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def add(self, metric: Metric, value: float, **labels: str) -> None:
        """Add a sample; ``labels`` are all of the metric's labels by name."""
        self._family(metric).add_sample(
            metric.shown, {label: printable(labels[label]) for label in metric.labels}, value
        )

    def histogram(
        self, metric: Metric, buckets: list[tuple[str, int]], total: float, exemplars: Sequence[Exemplar | None] = ()
    ) -> None:
        """Add a histogram: cumulative buckets by their upper bounds, the sum of all values, an exemplar per bucket."""
        family = self._family(metric)
        for (bound, count), exemplar in zip_longest(buckets, exemplars):
            family.add_sample(f"{metric.name}_bucket", {"le": bound}, count, exemplar=exemplar)
        family.add_sample(f"{metric.name}_count", {}, buckets[-1][1])
        family.add_sample(f"{metric.name}_sum", {}, total)

    def summary(self, metric: Metric, count: int, total: float, **labels: str) -> None:
        """Add a summary without quantiles: how many values there were, and their sum."""
        family = self._family(metric)
        labels = {label: printable(text) for label, text in labels.items()}
        family.add_sample(f"{metric.name}_count", labels, count)
        family.add_sample(f"{metric.name}_sum", labels, total)

    def __iter__(self) -> Iterator[Family]:
        return iter(self._families.values())

    def _family(self, metric: Metric) -> Family:
        if metric.name not in self._families:
            self._families[metric.name] = Family(metric.name, metric.help, metric.kind)
        return self._families[metric.name]


@dataclass(eq=False)
class Collector:
    """Collects a router's metrics; with ``connections`` also the newest connections.

    ``http`` are the open connections of the exporter's own listeners, by name (None: its TLS cannot be used), ``spans``
    those of traces by result, and ``exemplars`` some of these by latency (`routerd.exporter.tracing`).
    """

    observer: Observer
    identity: Identity
    answered: Mapping[int, int]
    refused: Mapping[str, int]
    connections: bool = False
    http: Mapping[str, int | None] = field(default_factory=dict)
    spans: Mapping[str, int] = field(default_factory=dict)
    exemplars: Mapping[int, Exemplar] = field(default_factory=dict)

    def collect(self) -> Iterator[Family]:
        """Yield all families; prometheus_client calls this for each scrape."""
        families = Families()
        self._router(families)
        states = self.observer.states()
        for state in states:
            self._process(families, state)
        self._exporter(families)
        former = self.observer.view.former()
        for page in former:
            self._counters(families, page, former=True)
        self._shared_memory(families)
        self._histograms(families)
        self._addresses(families)
        self._listeners(families, states)
        self._route_workers(families)
        self._route_tables(families)
        self._connectors(families)
        self._network(families)
        for code, count in self.answered.items():
            families.add(catalogue.HTTP_ANSWERS, count, code=str(code))
        for reason, count in self.refused.items():
            families.add(catalogue.HTTP_REFUSED, count, reason=reason)
        for result, count in self.spans.items():
            families.add(catalogue.SPANS, count, result=result)
        families.add(number("failures").metric, failures.number, process=Role.EXPORTER)
        _as_qdrouterd(families, [*(state.page for state in states), *former])
        if self.connections:
            self._newest(families)
        return iter(families)

    def _router(self, families: Families) -> None:
        me = self.identity
        families.add(catalogue.BUILD, 1, version=me.version, python=me.python)
        families.add(catalogue.ROUTER, 1, id=me.router_id, workers=str(self.observer.view.workers))
        supervisor = self.observer.figures(self.observer.view.page(Role.SUPERVISOR).pid)
        if supervisor is not None:
            families.add(catalogue.START, supervisor.born)
            families.add(catalogue.UPTIME, supervisor.age)

    def _exporter(self, families: Families) -> None:
        """Add the exporter's own metrics: it has no statistics page."""
        families.add(catalogue.UP, 1, process=Role.EXPORTER)
        families.add(catalogue.RESTARTS, max(0, self.identity.generation - 1), process=Role.EXPORTER)
        self._figures(families, Role.EXPORTER, os.getpid())

    def _figures(self, families: Families, process: str, pid: int) -> None:
        if (figures := self.observer.figures(pid)) is not None:
            families.add(catalogue.BORN, figures.born, process=process)
            families.add(catalogue.CPU, figures.cpu, process=process)
            families.add(catalogue.RESIDENT, figures.resident, process=process)
            families.add(catalogue.SHARED, figures.shared, process=process)
            if figures.descriptors is not None:
                families.add(catalogue.DESCRIPTORS, figures.descriptors, process=process)
            if figures.most_descriptors is not None:
                families.add(catalogue.DESCRIPTORS_MOST, figures.most_descriptors, process=process)

    def _process(self, families: Families, state: State) -> None:
        page, process = state.page, state.page.process
        families.add(catalogue.UP, state.works, process=process)
        families.add(catalogue.RESTARTS, max(0, page.generation - 1), process=process)
        families.add(catalogue.STALLED, state.stalled, process=process)
        if state.alive:
            self._figures(families, process, page.pid)
        self._counters(families, page)

    def _counters(self, families: Families, page: Page, *, former: bool = False) -> None:
        """Add a page's counters; of a former worker only those that grow, so that sums never fall."""
        process = page.process
        for name, value in page.counters.items():
            if former and number(name).metric.kind != "counter":
                continue
            if value or catalogue.is_written_by(name, process):
                shown = number(name)
                families.add(shown.metric, _in_base_units(shown, value), process=process, **shown.labels)

    def _shared_memory(self, families: Families) -> None:
        view = self.observer.view
        small, large = arena_split(view.arena_bytes)
        for worker in range(view.workers):
            for size, blocks in (("small", small), ("large", large)):
                families.add(catalogue.BLOCKS, blocks, process=process_name(Role.WORKER, worker), size=size)
        for ring in view.rings():
            families.add(catalogue.RING, ring.records, process=ring.process, ring=ring.ring)
            families.add(catalogue.RING_SIZE, RING_CAPACITY, process=ring.process, ring=ring.ring)
        if (flight := view.flight_head()) is not None:
            families.add(catalogue.FLIGHT, min(flight.head, flight.lines))
            families.add(catalogue.FLIGHT_SIZE, flight.lines)
            families.add(catalogue.FLIGHT_CHECKPOINTS, flight.checkpoints, state="made")
            families.add(catalogue.FLIGHT_CHECKPOINTS, flight.skipped, state="left out")

    def _histograms(self, families: Families) -> None:
        core = self.observer.view.histogram
        latency, size = core(Role.CORE, "delivery_latency_ns"), core(Role.CORE, "message_bytes")
        python = core(Role.CORE, "python_ns")
        families.histogram(
            catalogue.LATENCY,
            buckets(latency, LATENCY_ENDS, lambda floor: floor * catalogue.NS),
            latency.sum * catalogue.NS,
            [self.exemplars.get(size) for size in (*LATENCY_SIZES, LATENCY_SIZES[-1] + 1)],
        )
        in_python = buckets(python, PYTHON_ENDS, lambda floor: floor * catalogue.NS)
        families.histogram(catalogue.PYTHON, in_python, python.sum * catalogue.NS)
        families.histogram(catalogue.SIZE, buckets(size, SIZE_ENDS, lambda floor: floor - 1), size.sum)

    def _addresses(self, families: Families) -> None:
        board = self.observer.board()
        rows: dict[str, list[AddressRow]] = {}
        for row in board.addresses:
            rows.setdefault(printable(row.address), []).append(row)
        others = rows.pop(OTHER, [])  # a client may call an address so; a series twice would be none
        for address, same in rows.items():
            families.add(catalogue.ADDRESS_DELIVERIES, sum(row.deliveries for row in same), address=address)
            families.add(catalogue.ADDRESS_RECEIVERS, sum(row.receivers for row in same), address=address)
            families.add(catalogue.ADDRESS_SENDERS, sum(row.senders for row in same), address=address)
            families.add(catalogue.ADDRESS_BACKLOG, sum(row.backlog for row in same), address=address)
            families.add(catalogue.ADDRESS_CREDIT, sum(row.credit for row in same), address=address)
            families.add(catalogue.ADDRESS_DRY, sum(row.dry for row in same), address=address)
            _outcomes(families, address, [row.outcomes for row in same])
        count = board.other + sum(row.deliveries for row in others)
        families.add(catalogue.ADDRESS_DELIVERIES, count, address=OTHER)
        _outcomes(families, OTHER, [board.other_outcomes, *(row.outcomes for row in others)])

    def _listeners(self, families: Families, states: list[State]) -> None:
        accepting = {state.page.process for state in states if state.works and state.page.counters["accepting"]}
        shut = {name or UNNAMED for name, count in self.http.items() if count is None}
        serving = Counter(name or UNNAMED for name, count in self.http.items() if count is not None)
        takes, connections = serving.copy(), Counter[str]()
        for name, open_ones in self.http.items():
            connections[name or UNNAMED] += open_ones or 0
        for row in self.observer.board().listeners:
            name, workers = row.name or UNNAMED, [process_name(Role.WORKER, worker) for worker in row.workers]
            serving[name] += len(workers)
            takes[name] += len(accepting.intersection(workers))
            connections[name] += row.connections
        for name, count in connections.items():
            families.add(catalogue.LISTENER_UP, serving[name] > 0 and name not in shut, listener=name)
            families.add(catalogue.LISTENER_ACCEPTING, takes[name], listener=name)
            families.add(catalogue.LISTENER_CONNECTIONS, count, listener=name)

    def _route_workers(self, families: Families) -> None:
        for row in self.observer.board().route_workers:
            names = {"address": row.address, "kind": row.kind}
            families.add(catalogue.WORKER_IN, row.came, **names)
            families.add(catalogue.WORKER_OUT, row.went, **names)
            for reason, times in row.refused.items():
                families.add(catalogue.WORKER_REFUSED, times, **names, reason=reason)

    def _route_tables(self, families: Families) -> None:
        board = self.observer.board()
        for entry in board.route_entries:
            kind, subscription = str(entry.message_type), str(entry.subscription)
            names = {"table": entry.table, "message_type": kind, "subscription": subscription}
            families.add(catalogue.ENTRY_MESSAGES, entry.messages, **names)
        for row in board.route_endpoints:
            names = {"table": row.table, "endpoint": row.endpoint}
            families.add(catalogue.ENDPOINT_MESSAGES, row.sent, **names)
            families.add(catalogue.ENDPOINT_MISSED, row.missed, **names)

    def _connectors(self, families: Families) -> None:
        for row in self.observer.board().connectors:
            families.add(catalogue.CONNECTOR_UP, row.up, connector=row.name)
            families.add(catalogue.CONNECTOR_FAILURES, row.failures, connector=row.name)
            if row.error:
                families.add(catalogue.CONNECTOR_ERROR, 1, connector=row.name, error=short(row.error))

    def _network(self, families: Families) -> None:
        for row in self.observer.board().routers:
            families.add(catalogue.ROUTER_REACHABLE, row.cost is not None, router=row.router)
            if row.cost is not None:
                families.add(catalogue.ROUTER_COST, row.cost, router=row.router, next_hop=row.next_hop)

    def _newest(self, families: Families) -> None:
        shown = (
            (process_name(Role.WORKER, row.worker), *map(printable, (row.container, row.host, row.role, row.user)))
            for row in self.observer.board().connections
        )
        for labels in dict.fromkeys(shown):
            families.add(catalogue.CONNECTION, 1, **dict(zip(catalogue.CONNECTION.labels, labels, strict=True)))


def _outcomes(families: Families, address: str, rows: list[Outcomes]) -> None:
    ended = 0
    for name in ("accepted", "rejected", "released", "modified"):
        count = sum(getattr(row, name) for row in rows)
        families.add(catalogue.ADDRESS_SETTLED, count, address=address, outcome=name)
        ended += count
    seconds = sum(row.latency for row in rows) * catalogue.NS
    families.summary(catalogue.ADDRESS_LATENCY, ended, seconds, address=address)
    families.add(catalogue.ADDRESS_DELAYED, sum(row.delayed_1 for row in rows), address=address, least="1")
    families.add(catalogue.ADDRESS_DELAYED, sum(row.delayed_10 for row in rows), address=address, least="10")


def _in_base_units(shown: catalogue.Number, value: int) -> float:
    """Return a number of a statistics page as it is exported."""
    if shown.since_boot and value:
        return round(time.time() - time.monotonic() + value)
    return value * shown.scale


def buckets(histogram: Histogram, ends: tuple[int, ...], bound: Callable[[int], float]) -> list[tuple[str, int]]:
    """Return classic cumulative buckets: the counts below the floor of each of ``ends``, and the total.

    ``bound`` turns the floor of the next bucket into the largest value of this one: bounds are inclusive.
    """
    classic, below, seen = [], 0, 0
    for end in ends:
        below += sum(histogram.counts[seen:end])
        seen = end
        classic.append((f"{bound(BUCKET_FLOORS[end]):.10g}", below))
    return [*classic, ("+Inf", below + sum(histogram.counts[seen:]))]


def _as_qdrouterd(families: Families, pages: list[Page]) -> None:
    for name, sources in catalogue.QDR.items():
        if all(source in COUNTERS for source in sources):
            total = sum(page.counters[source] for page in pages for source in sources)
            families.add(catalogue.qdr(name), total)

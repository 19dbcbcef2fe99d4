"""The data of the live page: /status.json is the present, /history.json the past."""

import time
from typing import Final

import msgspec

from routerd.exporter.collector import Identity
from routerd.exporter.history import Point, Span
from routerd.exporter.observer import Observer, State, unhealthy
from shm.contract.roles import Role, is_worker
from shm.native import RING_CAPACITY, arena_split
from shm.statistics.board import ConnectionRow, ConnectorRow, EdgeRow, RouterRow

LOW: Final = 0.1  # the free part of an arena's blocks below which it is low
FULL: Final = 0.8  # the fill of a ring from which it is full
RECENT_SECONDS: Final = 60.0
_RATES: Final = (
    "deliveries_in", "deliveries_out", "bytes_in", "bytes_out",
    "accepted", "rejected", "released", "modified", "presettled", "connections_accepted",
)  # fmt: skip
# Counters whose growth an operator should look into, and the text of the alarm.
_WORRIES: Final = {
    "dropped_presettled": "presettled deliveries had no destination",
    "dropped_slow": "presettled deliveries were dropped because a receiver was slow",
    "dropped_behind": "presettled deliveries had a receiver that was far behind",
    "decode_errors": "malformed messages were rejected",
    "connections_failed": "connections that came in ended by garbage, a protocol error or a timeout",
    "bad_records": "records in shared memory made no sense",
    "pauses": "times reading stopped because blocks ran low",
}


class Process(msgspec.Struct, rename="camel"):
    """One process; memory in bytes, times in seconds, fills from 0 to 1; None where nothing applies."""

    name: str
    pid: int
    up: bool
    restarts: int
    stalled: float
    cpu: float
    memory: int = 0
    shared_memory: int = 0
    longest_turn: float = 0.0
    connections: int | None = None
    links: int | None = None
    unsettled: int | None = None
    arena_fill: float | None = None
    ring_fill: float | None = None


class Address(msgspec.Struct, rename="camel"):
    """One of the busiest addresses; ``rate`` in deliveries per second."""

    address: str
    distribution: str
    deliveries: int
    receivers: int
    senders: int
    rate: float
    backlog: int  # copies for its receivers that are not over
    blocked_senders: int  # senders without credit


class Status(msgspec.Struct, rename="camel"):
    """The router at one time; ``rates`` are per second."""

    router: str
    version: str
    time: float
    uptime: float
    live: bool
    ready: bool
    alarms: list[str]
    processes: list[Process]
    rates: dict[str, float]
    addresses: list[Address]
    other_deliveries: int
    address_count: int
    open_connections: int
    links: int
    connections: list[ConnectionRow]
    connectors: list[ConnectorRow]
    routers: list[RouterRow]
    edges: list[EdgeRow]


class Past(msgspec.Struct, rename="camel"):
    """A span of the history: ``points`` have the values of ``names``; ``ages`` are their ends in seconds before now.

    ``time`` is now in seconds since 1970, ``step`` the seconds of a point, ``most`` the number of points kept.
    """

    time: float
    step: float
    most: int
    names: list[str]
    ages: list[float]
    points: list[tuple[float | None, ...]]


def status(observer: Observer, identity: Identity) -> Status:
    """Return the status from shared memory and the ticks so far."""
    states = observer.states()
    by_name = {state.page.process: state for state in states}
    board = observer.board()
    supervisor = observer.figures(by_name[Role.SUPERVISOR].page.pid)
    processes = _processes(observer, states)
    workers = [state.page for state in states if is_worker(state.page.process)]
    return Status(
        router=identity.router_id,
        version=identity.version,
        time=time.time(),
        uptime=supervisor.age if supervisor else 0.0,
        live=not unhealthy(states),
        ready=not observer.unready(states),
        alarms=alarms(observer, states, processes),
        processes=processes,
        rates={name: round(observer.rate(name), 1) for name in _RATES},
        addresses=[
            Address(
                row.address,
                row.distribution,
                row.deliveries,
                row.receivers,
                row.senders,
                rate=round(observer.address_rate(row.address), 1),
                backlog=row.backlog,
                blocked_senders=row.dry,
            )
            for row in board.addresses
        ],
        other_deliveries=board.other,
        address_count=by_name[Role.CORE].page.counters["addresses"],
        open_connections=sum(page.counters["connections"] for page in workers),
        links=sum(page.counters["links"] for page in workers),
        connections=board.connections,
        connectors=board.connectors,
        routers=board.routers,
        edges=board.edges,
    )


def past(observer: Observer, span: Span) -> Past:
    """Return a span of the observer's history."""
    return Past(
        time=time.time(),
        step=span.step,
        most=span.points.maxlen or 0,
        names=[_camel(name) for name in Point._fields[1:]],
        ages=[round(observer.ago(point.time), 1) for point in span.points],
        points=[point[1:] for point in span.points],
    )


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _processes(observer: Observer, states: list[State]) -> list[Process]:
    small, large = arena_split(observer.view.arena_bytes)
    fullest: dict[str, int] = {}
    for ring in observer.view.rings():
        fullest[ring.process] = max(fullest.get(ring.process, 0), ring.records)
    processes = []
    for state in states:
        page = state.page
        process = Process(
            page.process,
            page.pid,
            state.works,
            max(0, page.generation - 1),
            round(state.stalled, 1),
            round(observer.cpu(page.process), 3),
            longest_turn=page.counters["longest_turn_ns"] * 1e-9,
        )
        figures = observer.figures(page.pid) if state.alive else None
        if figures is not None:
            process.memory, process.shared_memory = figures.resident, figures.shared
        if page.process in fullest:
            process.connections = page.counters["connections"]
            process.links = page.counters["links"]
            process.unsettled = page.counters["unsettled"]
            free = min(page.counters["small_free"] / small, page.counters["large_free"] / large)
            process.arena_fill = round(max(0.0, 1 - free), 4) if state.alive else None
            process.ring_fill = round(fullest[page.process] / RING_CAPACITY, 4)
        processes.append(process)
    return processes


def alarms(observer: Observer, states: list[State], processes: list[Process]) -> list[str]:
    """Return what an operator should look into now, most urgent first."""
    found = unhealthy(states)
    found += [reason for reason in observer.unready(states) if reason.partition(":")[0] not in " ".join(found)]
    for state in states:
        if state.page.counters["paused"]:
            found.append(f"{state.page.process}: reads nothing until blocks are free; see arenaSize")
        if state.page.counters["overflow"]:
            found.append(f"{state.page.process}: {state.page.counters['overflow']} records wait for a full ring")
    for process in processes:
        if process.arena_fill is not None and process.arena_fill > 1 - LOW:
            found.append(f"{process.name}: its arena is {process.arena_fill:.0%} full; see arenaSize")
        if process.ring_fill is not None and process.ring_fill > FULL:
            found.append(f"{process.name}: a ring is {process.ring_fill:.0%} full")
        if process.restarts and process.restarts > observer.restarts_before(process.name, RECENT_SECONDS):
            found.append(f"{process.name}: started again within the last minute")
    for name, meaning in _WORRIES.items():
        if count := observer.recently(name, RECENT_SECONDS):
            found.append(f"{count} {meaning} within the last minute")
    return found

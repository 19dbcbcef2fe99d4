"""The data of the live page: /status.json is the present, /history.json the past."""

import time
from collections.abc import Mapping
from typing import Final

import msgspec

from routerd.exporter.collector import Identity
from routerd.exporter.history import Point, Span
from routerd.exporter.observer import Observer, unhealthy
from routerd.exporter.processes import Process, processes
from routerd.exporter.worries import Sight, alarms
from shm.contract.roles import Role, is_worker
from shm.statistics.board import ConnectionRow, ConnectorRow, EdgeRow, RouterRow

_RATES: Final = (
    "deliveries_in", "deliveries_out", "bytes_in", "bytes_out",
    "accepted", "rejected", "released", "modified", "presettled", "connections_accepted",
)  # fmt: skip


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
    web_sockets: bool  # of the listener that answers: the page's console asks by them


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


def status(observer: Observer, identity: Identity, http: Mapping[str, int | None], websockets: bool) -> Status:
    """Return the status from shared memory and the ticks so far.

    ``http`` are the exporter's listeners, by name; ``websockets`` is that attribute of the one that answers.
    """
    states = observer.states()
    by_name = {state.page.process: state for state in states}
    board = observer.board()
    supervisor = observer.figures(by_name[Role.SUPERVISOR].page.pid)
    running = processes(observer, states)
    workers = [state.page for state in states if is_worker(state.page.process)]
    return Status(
        router=identity.router_id,
        version=identity.version,
        time=time.time(),
        uptime=supervisor.age if supervisor else 0.0,
        live=not unhealthy(states),
        ready=not observer.unready(states),
        alarms=alarms(Sight(observer, states, running, board, http)),
        processes=running,
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
        web_sockets=websockets,
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

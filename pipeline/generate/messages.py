"""An hour of messages: who sends what to whom over which path, and its outcome; each property is an array."""

from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

import numpy as np

from pipeline.generate.clients import Clients, Floats, Flow, Ints, build
from pipeline.generate.paths import Ways, around
from pipeline.generate.scenario import Fault, Scenario, window

ACCEPTED, REJECTED, RELEASED, MODIFIED, PRESETTLED, UNDELIVERABLE, ABORTED, DROPPED = range(8)
NOBODY: Final = -1  # stands for no consumer
MAX_HASH: Final = 1 << 62


@dataclass(slots=True)
class Hour:
    """The deliveries of an hour, in the order of ``at``, seconds since the start of the log."""

    at: Floats
    flow: Ints
    sender: Ints  # its number among all senders
    consumer: Ints
    meid: Ints
    way: Ints
    message: Ints
    outcome: Ints
    error: Ints
    size: Ints

    def take(self, chosen: Ints) -> "Hour":
        """Return the chosen deliveries."""
        return Hour(*(getattr(self, name)[chosen] for name in Hour.__slots__))


class Traffic:
    """Makes hours; ``faults`` says what is wrong with them, ``windows`` when, in seconds."""

    def __init__(self, scenario: Scenario, random: np.random.Generator) -> None:
        self.scenario = scenario
        self._random = random
        self.clients: Clients = build(scenario, random)
        self.ways = Ways(scenario)
        self.faults: list[Fault] = []
        self.windows: dict[str, tuple[float, float]] = {}
        self._loop = self._detour = 0
        self._prepare_faults()
        flows = self.clients.flows
        hot = np.array([flow.hot for flow in flows])
        shares = np.array([flow.share for flow in flows])
        self._shares, self._hot_shares = np.where(hot, 0.0, shares), np.where(hot, shares, 0.0)
        self._senders = _table([flow.senders for flow in flows])
        self._first = _table([flow.groups[0] for flow in flows])
        self._second = _table([flow.groups[1] if len(flow.groups) > 1 else [] for flow in flows])
        self.types = np.array([flow.mtype for flow in flows])
        self.weights = np.array([flow.weight for flow in flows])
        self.linked = np.array([flow.linked for flow in flows])
        self.presettled = np.array([flow.presettled for flow in flows])
        self.consumer_routers = np.array([one.router for one in self.clients.consumers])
        self._interior = np.array([scenario.interior(at) for at in range(scenario.places)])
        self._by_meid = np.array([flow.by_meid for flow in flows])
        self._owner = np.array(self.clients.owner, np.int64)

    # ---- faults ----

    def _prepare_faults(self) -> None:
        hour = 6.0
        for kind, flow in self.clients.special.items():
            if kind == "no consumers":
                self.faults.append(Fault(kind, str(self.clients.flows[flow].address)))
                continue
            hour += 2.0
            start, end = window(self.scenario, hour)
            self.windows[kind] = (self._seconds(start), self._seconds(end))
            self.faults.append(self._fault(kind, self.clients.flows[flow], start, end))
        if "asymmetric pair" in self.scenario.faults:
            half = self.scenario.routers // 2
            self.ways.reverse(half, 0)
            ways = self.ways
            there, back = (ways.text(ways.way(*pair)) for pair in ((0, half), (half, 0)))
            self.faults.append(Fault("asymmetric pair", "pair/there", path=f"{there} {back}"))

    def _fault(self, kind: str, flow: Flow, start: datetime, end: datetime) -> Fault:
        """Return what a job must find of a fault that is bounded in time."""
        first, second = self.scenario.router(0), self.scenario.router(1)
        address = str(flow.address)
        match kind:
            case "slow consumer" | "credit starvation":
                container = self.clients.consumers[flow.groups[0][0]].container
                place = self.scenario.router(self.clients.consumers[flow.groups[0][0]].router)
                return Fault(kind, address, start, end, router=place, container=container)
            case "loop":
                self._loop = self.ways.add((0, 1, 0))
                return Fault(kind, address, start, end, router=first, path=f"{first}>{second}>{first}")
            case "detour":
                way = around(self.scenario.routers, 0, 1, -1)
                self._detour = self.ways.add(way)
                return Fault(kind, address, start, end, path=self.ways.text(way))
            case "latency shift":
                return Fault(kind, address, start, end, router=first)
            case _:
                return Fault(kind, address, start, end)

    def _seconds(self, moment: datetime) -> float:
        return (moment - self.scenario.origin).total_seconds()

    def struck(self, kind: str, flow: Ints, at: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which deliveries a fault affects."""
        if kind not in self.windows:
            return np.zeros(len(at), np.bool_)
        start, end = self.windows[kind]
        return np.asarray((flow == self.clients.special[kind]) & (at >= start) & (at < end))

    # ---- messages ----

    def hour(self, number: int, messages: int, hot: int = 0) -> Hour:
        """Return the messages of an hour, counted from 0, as deliveries: a message to two groups is two.

        ``hot`` of them are hot ones.
        """
        random = self._random
        flow = random.choice(len(self._shares), messages, p=self._shares / self._shares.sum())
        at = random.random(messages) * 3600.0
        if hot:
            at[:hot] = random.random(hot) * (self.scenario.hot_minutes or 60) * 60.0
            flow[:hot] = random.choice(len(self._shares), hot, p=self._hot_shares / self._hot_shares.sum())
            order = np.argsort(at)
            at, flow = at[order], flow[order]
        else:
            at.sort()
        hour = Hour(
            at=at + number * 3600.0,
            flow=flow,
            sender=_choose(self._senders, flow, random),
            consumer=self._first[0][_choose(self._first, flow, random)],
            meid=np.full(messages, -1),
            way=np.zeros(messages, np.int64),
            message=random.integers(1, MAX_HASH, messages),
            outcome=np.full(messages, ACCEPTED),
            error=np.full(messages, -1),
            size=np.minimum(random.lognormal(6.0, 1.2, messages), 1e7).astype(np.int64) + 64,
        )
        self._managed(hour)
        hour = self._copies(hour)
        self._outcomes(hour)
        self._route(hour)
        return hour

    def _managed(self, hour: Hour) -> None:
        """Choose managed entities, and their owners as consumers."""
        typed = np.flatnonzero(self._by_meid[hour.flow])
        if len(typed):
            meid = self._random.choice(len(self._owner), len(typed), p=self.clients.meid_share)
            hour.meid[typed] = meid
            hour.consumer[typed] = self._owner[meid]

    def _copies(self, hour: Hour) -> Hour:
        """Return the hour with a second copy of each message to two groups, right after the first."""
        second = self._second[0][_choose(self._second, hour.flow, self._random)]
        times = np.where(second == NOBODY, 1, 2)
        doubled = hour.take(np.repeat(np.arange(len(times)), times))
        behind = np.flatnonzero(np.diff(np.repeat(np.arange(len(times)), times), prepend=-1) == 0)
        doubled.consumer[behind] = second[times == 2]
        return doubled

    def _outcomes(self, hour: Hour) -> None:
        random, number = self._random, len(hour.at)
        hour.outcome[random.random(number) < 0.003] = RELEASED
        rejected = random.random(number) < 0.002
        rejected |= self.struck("error burst", hour.flow, hour.at) & (random.random(number) < 0.6)
        hour.outcome[rejected] = REJECTED
        hour.error[rejected] = self.struck("error burst", hour.flow, hour.at)[rejected]
        hour.outcome[self.presettled[hour.flow]] = PRESETTLED
        hour.error[self.presettled[hour.flow]] = -1
        hour.outcome[hour.consumer == NOBODY] = UNDELIVERABLE
        hour.error[hour.consumer == NOBODY] = -1

    def _route(self, hour: Hour) -> None:
        origin = self._senders[0][hour.sender]
        target = np.where(hour.consumer == NOBODY, self._interior[origin], self.consumer_routers[hour.consumer])
        hour.way[:] = self.ways.number(origin, target)
        hour.way[self.struck("detour", hour.flow, hour.at)] = self._detour
        looping = self.struck("loop", hour.flow, hour.at) & (self._random.random(len(hour.at)) < 0.5)
        hour.way[looping] = self._loop
        hour.outcome[looping] = DROPPED
        hour.error[looping] = -1
        hour.consumer[looping] = NOBODY


Table = tuple[Ints, Ints, Ints]


def _table(lists: list[list[int]]) -> Table:
    """Return all lists as one with NOBODY at the end, and where each begins and how long it is."""
    lengths = np.array(list(map(len, lists)), np.int64)
    return np.array([*chain.from_iterable(lists), NOBODY], np.int64), np.cumsum(lengths) - lengths, lengths


def _choose(table: Table, rows: Ints, random: np.random.Generator) -> Ints:
    """Return for each row a random index into its list; for an empty list the last one, NOBODY's."""
    values, starts, lengths = table
    chosen = starts[rows] + (random.random(len(rows)) * lengths[rows]).astype(np.int64)
    return np.where(lengths[rows] == 0, len(values) - 1, chosen)

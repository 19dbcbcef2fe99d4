"""The records that routers write of an hour's deliveries: one for each router on the path, by its clock."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pipeline.generate.clients import Floats, Ints
from pipeline.generate.messages import DROPPED, NOBODY, PRESETTLED, UNDELIVERABLE, Hour, Traffic

LINK_NS: Final = 150_000  # the least time between two routers
PIECE: Final = 4096  # bytes; a larger message is passed on while it comes
STREAMED_NS: Final = 50  # of each further byte, which the sender takes for it
NOTHING: Final = -1  # stands for null
INTER_ROUTER_CONNECTION: Final = 1  # clients' connections count on from FIRST_CONNECTION
FIRST_CONNECTION: Final = 100
CONSUMER_CONNECTIONS: Final = 100_000


@dataclass(slots=True)
class Rows:
    """Records, each column an array in which NOTHING stands for null."""

    delivery: Ints  # its index in the hour
    hop: Ints
    router: Ints
    onward: Ints  # the next router
    last: "np.ndarray[tuple[int], np.dtype[np.bool_]]"  # it leaves the network here, or ends here
    gone: "np.ndarray[tuple[int], np.dtype[np.bool_]]"  # no link received it
    path: Ints
    began: Floats  # seconds, true time
    queue_ns: Ints
    latency_ns: Ints
    settle_ns: Ints
    credit_ns: Ints
    pieces: Ints


class Records:
    """Makes rows; ``offsets`` are the errors of the routers' clocks, in seconds."""

    def __init__(self, traffic: Traffic, random: np.random.Generator) -> None:
        self._traffic = traffic
        self._random = random
        self._routers, self._lengths, self._paths, self.path_texts = traffic.ways.compile()
        scenario = traffic.scenario
        self.offsets = random.uniform(-scenario.skew_s, scenario.skew_s, scenario.places)

    def mean_hops(self, hour: Hour) -> float:
        """Return the mean number of records of a delivery."""
        return float(self._lengths[hour.way].mean())

    def of(self, hour: Hour) -> Rows:
        """Return all records of an hour."""
        lengths = self._lengths[hour.way]
        delivery = np.repeat(np.arange(len(lengths)), lengths)
        hop = np.arange(len(delivery)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        way = hour.way[delivery]
        last = hop == lengths[delivery] - 1
        nobody = last & (hour.consumer[delivery] == NOBODY)
        onward = np.where(last, NOTHING, self._routers[way, np.minimum(hop + 1, self._routers.shape[1] - 1)])
        queue, latency, credit = self._times(hour, delivery, hop, last)
        began = self._began(hour, delivery, hop, queue)
        settle = self._settle(hour, delivery, queue, last)
        latency[nobody] = queue[nobody] = credit[nobody] = NOTHING
        return Rows(
            delivery, hop, self._routers[way, hop], onward, last, nobody, self._paths[way, hop],
            began, queue, latency, settle, credit, -(-hour.size[delivery] // PIECE),
        )  # fmt: skip

    def _times(self, hour: Hour, delivery: Ints, hop: Ints, last: Ints) -> tuple[Ints, Ints, Ints]:
        """Return each record's time until sending began, until it ended, and the wait for credit.

        The first two are the same for a message in one piece. What is streamed ends at every router as much later.
        """
        random, number = self._random, len(delivery)
        flow, at = hour.flow[delivery], hour.at[delivery]
        own = random.lognormal(11.0, 0.4, number)  # about 60 microseconds
        shifted = self._traffic.struck("latency shift", flow, at) & (hop == 0)
        own[shifted] *= 40.0
        credit = np.where(random.random(number) < 0.01, random.exponential(2e5, number), 0.0)
        starved = self._target("credit starvation", hour, delivery) & last
        credit[starved] = random.lognormal(19.5, 0.3, int(starved.sum()))  # about 0.3 s
        passing = random.lognormal(9.5, 0.3, number) + np.minimum(hour.size[delivery], PIECE) * 0.5
        queue = (own + credit + passing).astype(np.int64)
        return queue, queue + _streaming(hour)[delivery], credit.astype(np.int64)

    def _target(self, kind: str, hour: Hour, delivery: Ints) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """Return which deliveries go to the one consumer that a fault affects."""
        struck = self._traffic.struck(kind, hour.flow[delivery], hour.at[delivery])
        if kind not in self._traffic.windows:
            return struck
        flow = self._traffic.clients.flows[self._traffic.clients.special[kind]]
        return np.asarray(struck & (hour.consumer[delivery] == flow.groups[0][0]))

    def _began(self, hour: Hour, delivery: Ints, hop: Ints, queue: Ints) -> Floats:
        """Return when each router had the first byte: after the routers before it, and the links between."""
        link = LINK_NS + self._random.exponential(3e4, len(delivery))
        spent = queue + link
        total = np.cumsum(spent)
        before = total - spent
        return np.asarray(hour.at[delivery] + (before - before[np.arange(len(hop)) - hop]) / 1e9)

    def _settle(self, hour: Hour, delivery: Ints, queue: Ints, last: Ints) -> Ints:
        """Return the time until the outcome was known: after the receiver, and all routers after this one."""
        receiver = self._random.lognormal(14.0, 0.5, len(hour.at))  # about a millisecond
        slow = self._target("slow consumer", hour, np.arange(len(hour.at)))
        receiver[slow] = self._random.lognormal(21.0, 0.3, int(slow.sum()))  # about 1.3 s
        total = np.cumsum((queue + np.where(last, 0, LINK_NS))[::-1])[::-1]
        behind = np.append(total, 0)[np.flatnonzero(last) + 1]  # the sums after each delivery's last row
        until = total - np.repeat(behind, np.diff(np.append(-1, np.flatnonzero(last))))
        settle = (until + (receiver + _streaming(hour))[delivery]).astype(np.int64)
        unsettled = np.isin(hour.outcome[delivery], (PRESETTLED, DROPPED, UNDELIVERABLE))
        settle[unsettled] = NOTHING
        return np.asarray(settle)


def _streaming(hour: Hour) -> Ints:
    """Return the time from each delivery's first byte to its last; 0 for one in one piece."""
    return np.asarray(np.maximum(hour.size - PIECE, 0) * STREAMED_NS)

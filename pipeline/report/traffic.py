"""What a report says of addresses: messages, outcomes and latency, over time, and of the last day and the one before.

A report names a bounded number of addresses: the busiest, and those that findings name. All others are one row.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.report.tables import NAME, OUTER, Name, Tables, names, seconds
from pipeline.report.times import Axis, Days
from shm.contract.flow_log.schema import OUTCOMES

WELL: Final = ("accepted", "presettled")  # outcomes of messages that did not fail
FAILED: Final = tuple(one for one in OUTCOMES if one not in WELL)
BUCKETS: Final = 16  # of latency in a power of two, as in the table `latencies`
BUSIEST: Final = 1000  # names that are looked at one by one
SUMS: Final = ("messages", "bytes", *OUTCOMES)

Buckets = dict[int, int]  # messages by bucket of latency


@dataclass(slots=True)
class Counts:
    """Messages that left the network or found no receiver, with their bytes and outcomes."""

    messages: int = 0
    bytes: int = 0
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))

    @property
    def failed(self) -> int:
        """Messages that were not accepted."""
        return sum(self.outcomes[one] for one in FAILED)

    @property
    def failed_share(self) -> float | None:
        """The share that was not accepted; None without messages."""
        return self.failed / self.messages if self.messages else None

    def add(self, row: dict[str, int], end: str = "") -> None:
        """Add a row of sums, whose columns have such an ending."""
        self.messages += row[f"messages{end}"] or 0
        self.bytes += row[f"bytes{end}"] or 0
        for one in OUTCOMES:
            self.outcomes[one] += row[one + end] or 0


def percentile(buckets: Buckets, per_mille: int) -> float | None:
    """Return the end in ns of the bucket that holds a percentile, by nearest rank; None without messages."""
    total = sum(buckets.values())
    upto = 0
    for bucket in sorted(buckets):
        upto += buckets[bucket]
        if upto and upto * 1000 >= total * per_mille:
            return float(2.0 ** ((bucket + 1) / BUCKETS))
    return None


class Addresses(NamedTuple):
    """The counts of the busiest names, of those that findings name, of all ``others`` together, and of everything."""

    known: dict[Name, Counts]
    others: Counts
    every: Counts
    number: int  # of all names


def by_name(tables: Tables, wanted: Collection[Name]) -> Addresses:
    """Return the counts of `BUSIEST` names and of those ``wanted``, in order, the busiest first."""
    keys = {"address": pc.field("address"), "mtype": pc.field("mtype"), "name": NAME}
    made = tables.summed("traffic", keys, {one: pc.field(one) for one in SUMS}, OUTER)
    order = [("messages", "descending"), ("address", "ascending"), ("mtype", "ascending")]
    made = made.take(pc.sort_indices(made, sort_keys=order))
    asked = pc.is_in(made["name"], value_set=pa.array([one.key for one in wanted], pa.binary())).to_pylist()
    taken = [at < BUSIEST or one for at, one in enumerate(asked)]
    known, rest = (
        made.filter(pa.array(taken, pa.bool_())),
        made.filter(pa.array([not one for one in taken], pa.bool_())),
    )
    found = {}
    for name, row in zip(names(known), known.select(SUMS).to_pylist(), strict=True):
        found[name] = Counts()
        found[name].add(row)
    others, every = Counts(), Counts()
    for one, some in ((others, rest), (every, made)):
        one.add({column: pc.sum(some[column]).as_py() or 0 for column in SUMS})
    return Addresses(found, others, every, len(made))


def over_time(tables: Tables, axis: Axis) -> list[Counts]:
    """Return the counts of each slot."""
    slot = _slot("minute", axis)
    made = tables.summed("traffic", {"slot": slot}, {one: pc.field(one) for one in SUMS}, OUTER)
    found = [Counts() for _ in range(axis.slots)]
    for row in made.to_pylist():
        if 0 <= row["slot"] < axis.slots:
            found[row["slot"]].add(row)
    return found


def _slot(column: str, axis: Axis) -> pc.Expression:
    return pc.divide(pc.subtract(seconds(column), axis.start), axis.step)


def by_slot(tables: Tables, axis: Axis, chosen: Sequence[Name]) -> list[list[Buckets]]:
    """Return the latencies of each chosen name, then of all others, and of these by slot."""
    keys = {"slot": _slot("quarter", axis), "at": _index(chosen), "bucket": pc.field("bucket")}
    made = tables.summed("latencies", keys, {"messages": pc.field("messages")})
    found: list[list[Buckets]] = [[{} for _ in range(axis.slots)] for _ in range(len(chosen) + 1)]
    for row in made.to_pylist():
        if 0 <= row["slot"] < axis.slots:
            at = len(chosen) if row["at"] is None else row["at"]
            found[at][row["slot"]][row["bucket"]] = row["messages"]
    return found


def _index(chosen: Sequence[Name]) -> pc.Expression:
    """Return the expression of a row's place among names; null for others."""
    return pc.index_in(NAME, value_set=pa.array([one.key for one in chosen], pa.binary()))


def added(some: Iterable[Buckets]) -> Buckets:
    """Return buckets of several times or names as those of all."""
    found: Buckets = defaultdict(int)
    for one in some:
        for bucket, count in one.items():
            found[bucket] += count
    return found


def compared(tables: Tables, days: Days) -> pa.Table:
    """Return the counts of the two days of each name that was there in either.

    The columns are ``address``, ``mtype``, and of each of `SUMS` one with the ending ``_old`` and one with ``_new``.
    """
    minute = seconds("minute")
    within = {"_old": _within(minute, days.before), "_new": _within(minute, days.now)}
    sums = {
        one + end: pc.if_else(inside, pc.field(one), pc.scalar(0)) for end, inside in within.items() for one in SUMS
    }
    either = within["_old"] | within["_new"]
    return tables.summed("traffic", {one: pc.field(one) for one in ("address", "mtype")}, sums, OUTER & either)


def latencies_of(tables: Tables, days: Days, chosen: Sequence[Name]) -> list[tuple[Buckets, Buckets]]:
    """Return the latencies of the day before and the last one, of each chosen name, and then of all others."""
    quarter = seconds("quarter")
    found: list[tuple[Buckets, Buckets]] = [({}, {}) for _ in range(len(chosen) + 1)]
    for which, span in enumerate((days.before, days.now)):
        keys = {"at": _index(chosen), "bucket": pc.field("bucket")}
        made = tables.summed("latencies", keys, {"messages": pc.field("messages")}, _within(quarter, span))
        for row in made.to_pylist():
            found[len(chosen) if row["at"] is None else row["at"]][which][row["bucket"]] = row["messages"]
    return found


def _within(time: pc.Expression, span: tuple[int, int]) -> pc.Expression:
    first, end = span
    return (time >= first) & (time < end)

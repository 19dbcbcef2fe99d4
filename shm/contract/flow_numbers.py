"""Which records of the flow log are where: ranges of their numbers, by life of the core and worker.

A file that the recorder wrote says the first and the last number of each worker. One that is put together of
several says its ranges, so that what is missing between them stays known when the others are gone.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

COLUMNS: Final = ("boot_id", "worker_id", "seq")  # that numbers are found in
MOST: Final = 256  # ranges of a worker; of more, neighbours become one that says how many records it has


class Range(NamedTuple):
    """Numbers from ``first`` to ``last``, of which so many are ``there``."""

    first: int
    last: int
    there: int

    @property
    def whole(self) -> bool:
        return self.there == self.last - self.first + 1


Ranges = Mapping[tuple[str, int], list[Range]]  # by boot_id and worker_id


def joined(ranges: Iterable[Range], most: int = MOST) -> list[Range]:
    """The same numbers in as few ranges as say it exactly, or in at most so many."""
    found: list[Range] = []
    for one in sorted(ranges):
        if found and one.first <= found[-1].last + (one.whole and found[-1].whole):
            found[-1] = _both(found[-1], one)
        else:
            found.append(one)
    step = -(-len(found) // most)
    if step <= 1:
        return found
    chunks = (found[at : at + step] for at in range(0, len(found), step))
    return [Range(chunk[0].first, chunk[-1].last, sum(one.there for one in chunk)) for chunk in chunks]


def _both(one: Range, other: Range) -> Range:
    """As one: exact where both are whole; otherwise as many as there can be."""
    first, last = one.first, max(one.last, other.last)
    size = last - first + 1
    return Range(first, last, size if one.whole and other.whole else min(size, one.there + other.there))


def numbers(table: "pa.Table") -> Ranges:
    """Of the records of a table, which has ``COLUMNS``."""
    plain = table.select(COLUMNS)
    plain = plain.set_column(0, "boot_id", plain["boot_id"].cast(pa.string()))
    groups = plain.group_by(list(COLUMNS[:2])).aggregate(
        [("seq", "min"), ("seq", "max"), ("seq", "count_distinct")]
    )
    found: dict[tuple[str, int], list[Range]] = {}
    for boot, worker, *said in zip(*(groups[name].to_pylist() for name in groups.column_names), strict=True):
        whole = Range(*said)
        if not whole.whole:
            chosen = pc.and_(pc.equal(plain["boot_id"], boot), pc.equal(plain["worker_id"], worker))
            found[boot, worker] = _runs(plain["seq"].filter(chosen))
        else:
            found[boot, worker] = [whole]
    return found


def _runs(values: "pa.ChunkedArray") -> list[Range]:
    """Numbers that follow each other; a new run begins where one is missing."""
    ordered = pc.unique(values).sort()
    begins = pc.fill_null(pc.not_equal(pc.pairwise_diff(ordered), 1), fill_value=True)
    places = [*pc.indices_nonzero(begins).to_pylist(), len(ordered)]
    firsts = ordered.take(pa.array(places[:-1], pa.int64())).to_pylist()
    return [
        Range(first, first + behind - place - 1, behind - place)
        for first, place, behind in zip(firsts, places[:-1], places[1:], strict=True)
    ]


class Numbers:
    """Ranges that grow; of a worker there are at most so many."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._ranges: dict[tuple[str, int], list[Range]] = defaultdict(list)

    def add(self, more: Ranges) -> None:
        """These, too."""
        for writer, ranges in more.items():
            self._ranges[writer] = joined([*self._ranges[writer], *ranges], self._most)

    @property
    def ranges(self) -> Ranges:
        return self._ranges

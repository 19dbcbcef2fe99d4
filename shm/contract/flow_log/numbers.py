"""Ranges of the sequence numbers of flow log records, by life of the core (boot_id) and worker.

A file in `raw` states each worker's first and last number. A file in `compact` states ranges, so gaps stay
known after the files in `raw` are deleted.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

COLUMNS: Final = ("boot_id", "worker_id", "seq")  # the columns that `numbers` reads
MOST: Final = 256  # ranges of a worker; beyond it neighbours merge into a range that counts its records


class Range(NamedTuple):
    """Numbers from ``first`` to ``last`` inclusive, of which ``there`` exist."""

    first: int
    last: int
    there: int

    @property
    def whole(self) -> bool:
        return self.there == self.last - self.first + 1


Ranges = Mapping[tuple[str, int], list[Range]]  # by boot_id and worker_id


def joined(ranges: Iterable[Range], most: int = MOST) -> list[Range]:
    """Return the same numbers in the fewest exact ranges, or merged into at most ``most``."""
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
    """Merge two ranges: exactly if both are whole, otherwise with the highest possible count."""
    first, last = one.first, max(one.last, other.last)
    size = last - first + 1
    return Range(first, last, size if one.whole and other.whole else min(size, one.there + other.there))


def numbers(table: "pa.Table") -> Ranges:
    """Return the ranges of the records in a table with the columns ``COLUMNS``."""
    plain = table.select(COLUMNS)
    plain = plain.set_column(0, "boot_id", plain["boot_id"].cast(pa.string()))
    groups = plain.group_by(list(COLUMNS[:2])).aggregate([("seq", "min"), ("seq", "max"), ("seq", "count_distinct")])
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
    """Return the runs of consecutive numbers."""
    ordered = pc.unique(values).sort()
    begins = pc.fill_null(pc.not_equal(pc.pairwise_diff(ordered), 1), fill_value=True)
    places = [*pc.indices_nonzero(begins).to_pylist(), len(ordered)]
    firsts = ordered.take(pa.array(places[:-1], pa.int64())).to_pylist()
    return [
        Range(first, first + behind - place - 1, behind - place)
        for first, place, behind in zip(firsts, places[:-1], places[1:], strict=True)
    ]


class Numbers:
    """A growing set of ranges with at most ``most`` of each worker and life."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._ranges: dict[tuple[str, int], list[Range]] = defaultdict(list)

    def add(self, more: Ranges) -> None:
        """Merge further ranges into the set."""
        for writer, ranges in more.items():
            self._ranges[writer] = joined([*self._ranges[writer], *ranges], self._most)

    @property
    def ranges(self) -> Ranges:
        return self._ranges

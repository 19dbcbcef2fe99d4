"""Sets of records, by their numbers: what an hour of the log has, and whether that is more than before."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from shm.contract.flow_log.numbers import Range, joined

RANGES: Final = 1 << 16  # kept of a worker

Numbered = tuple[str, str, int, int, int, int]  # router, boot, worker, and a range: first, last, how many are there
Records = list[Numbered]


def united(records: Iterable[Numbered]) -> Records:
    """Return the same numbers in order, ranges that touch as one."""
    by_writer = _by_writer(records)
    return [(*writer, *one) for writer in sorted(by_writer) for one in joined(by_writer[writer], RANGES)]


def covers(records: Records, others: Records) -> bool:
    """Return whether some numbers, as `united` returns them, contain all of the others."""
    there = _by_writer(records)
    return all(_inside(one, there.get(writer, [])) for writer, ranges in _by_writer(others).items() for one in ranges)


def _inside(one: Range, ranges: list[Range]) -> bool:
    place = bisect_right(ranges, one.first, key=attrgetter("first")) - 1
    if place < 0:
        return False
    there = ranges[place]
    return there.last >= one.last and (there.whole or there == one)


def missing(records: Iterable[Numbered]) -> int:
    """Return how many numbers are missing between the first and the last one of each writer."""
    return sum(
        ranges[-1].last - ranges[0].first + 1 - sum(one.there for one in ranges)
        for ranges in _by_writer(united(records)).values()
    )


def _by_writer(records: Iterable[Numbered]) -> dict[tuple[str, str, int], list[Range]]:
    found: dict[tuple[str, str, int], list[Range]] = defaultdict(list)
    for router, boot, worker, *numbered in records:
        found[router, boot, worker].append(Range(*numbered))
    return found

"""Sets of records, by their numbers: what an hour of the log has, and whether that is more than before."""

from bisect import bisect_left, bisect_right
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


def missing(records: Iterable[Numbered], others: Iterable[Numbered] = ()) -> int:
    """Return how many numbers of each writer are missing up to its last one, among ``records`` and ``others``.

    They begin after the last one of ``others`` before its first one, or with its first one.
    """
    mine = _by_writer(records)
    rest = _by_writer(one for one in others if one[:3] in mine)
    return sum(
        _lacking(joined(ranges, RANGES), joined(rest.get(writer, []), RANGES)) for writer, ranges in mine.items()
    )


def _lacking(ranges: list[Range], others: list[Range]) -> int:
    """Return how many numbers are missing of one writer, of whom both are in order."""
    first, last = ranges[0].first, ranges[-1].last
    before = bisect_left(others, first, key=attrgetter("first"))
    start = min(first, others[before - 1].last + 1) if before else first
    there = (_within(one, start, last) for one in joined([*ranges, *others], RANGES))
    return max(0, last - start + 1 - sum(there))


def _within(one: Range, first: int, last: int) -> int:
    """Return how many numbers of a range are between two others; as many as possible, if that is not known."""
    return max(0, min(one.there, min(one.last, last) - max(one.first, first) + 1))


def _by_writer(records: Iterable[Numbered]) -> dict[tuple[str, str, int], list[Range]]:
    found: dict[tuple[str, str, int], list[Range]] = defaultdict(list)
    for router, boot, worker, *numbered in records:
        found[router, boot, worker].append(Range(*numbered))
    return found

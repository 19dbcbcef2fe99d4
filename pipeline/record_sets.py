"""Sets of records, by their numbers: what an hour of the log has, and whether that is more than before."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable
from operator import attrgetter
from typing import Final

from shm.contract.flow_log.numbers import Range, joined

RANGES: Final = 1 << 16  # kept of a worker

Writer = tuple[str, str, int]  # router, boot, worker
Numbered = tuple[str, str, int, int, int, int]  # a writer, and a range: first, last, how many are there
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


class Seen:
    """Numbers that were seen, of each writer in as few ranges as possible: only gaps cost anything."""

    def __init__(self) -> None:
        self._ranges: dict[Writer, list[Range]] = {}

    def add(self, records: Iterable[Numbered]) -> None:
        """Add numbers; those that are there already may be among them.

        A range of which not all are there, such as compaction makes of many, adds none if as many were seen within it:
        `joined` would count them twice, and nothing would be missing any more.
        """
        for writer, ranges in _by_writer(records).items():
            there = self._ranges.get(writer, [])
            new = [one for one in ranges if one.whole or self._there(there, one.first, one.last) < one.there]
            self._ranges[writer] = joined([*there, *new], RANGES)

    def keep(self, writers: Collection[Writer]) -> None:
        """Forget all other writers."""
        self._ranges = {writer: ranges for writer, ranges in self._ranges.items() if writer in writers}

    def missing(self, records: Iterable[Numbered]) -> int:
        """Return how many numbers of each writer are missing up to the last one of ``records``.

        They begin after the last one seen before the first one of ``records``, or with the first one.
        """
        ends: dict[Writer, tuple[int, int]] = {}
        for router, boot, worker, first, last, _ in records:
            before = ends.get(writer := (router, boot, worker), (first, last))
            ends[writer] = min(before[0], first), max(before[1], last)
        return sum(self._lacking(self._ranges.get(writer, []), *both) for writer, both in ends.items())

    @staticmethod
    def _lacking(ranges: list[Range], first: int, last: int) -> int:
        """Return how many numbers are missing of one writer, whose ranges are in order."""
        at = bisect_right(ranges, first, key=attrgetter("first")) - 1
        start = first
        if at > 0 and ranges[at].first == first:
            start = min(first, ranges[at - 1].last + 1)
        return max(0, last - start + 1 - Seen._there(ranges, start, last))

    @staticmethod
    def _there(ranges: list[Range], first: int, last: int) -> int:
        """Return how many of these numbers are in ranges in order."""
        at = max(0, bisect_right(ranges, first, key=attrgetter("first")) - 1)
        end = bisect_right(ranges, last, key=attrgetter("first"))
        return sum(_within(one, first, last) for one in ranges[at:end])


def _within(one: Range, first: int, last: int) -> int:
    """Return how many numbers of a range are between two others; as many as possible, if that is not known."""
    return max(0, min(one.there, min(one.last, last) - max(one.first, first) + 1))


def _by_writer(records: Iterable[Numbered]) -> dict[Writer, list[Range]]:
    found: dict[Writer, list[Range]] = defaultdict(list)
    for router, boot, worker, *numbered in records:
        found[router, boot, worker].append(Range(*numbered))
    return found

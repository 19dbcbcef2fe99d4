"""Which records of a stream were taken already: ranges of numbers by writer, joined where they touch."""

from collections.abc import Iterable
from itertools import pairwise

Range = tuple[int, int]
Ledger = dict[str, list[Range]]  # by the writer's name; ranges in order, apart from each other


def add(ranges: list[Range], fresh: Range) -> list[Range]:
    """The ranges with one more; those that meet or touch it become one."""
    first, last = fresh
    before = [one for one in ranges if one[1] < first - 1]
    behind = [one for one in ranges if one[0] > last + 1]
    meeting = ranges[len(before) : len(ranges) - len(behind)]
    first = min([first, *(one[0] for one in meeting)])
    last = max([last, *(one[1] for one in meeting)])
    return [*before, (first, last), *behind]


def taken(ranges: list[Range], fresh: Range) -> list[Range]:
    """What of a range is in the ranges."""
    first, last = fresh
    return [(max(first, low), min(last, high)) for low, high in ranges if low <= last and first <= high]


def meet(ranges: Iterable[Range]) -> bool:
    """Whether two of them have a number in common."""
    ordered = sorted(ranges)
    return any(one[1] >= other[0] for one, other in pairwise(ordered))

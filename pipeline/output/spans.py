"""Which records of a stream were taken already: ranges of numbers by writer, joined where they touch."""

import sys
from collections.abc import Iterable
from itertools import pairwise

from shm.contract.flow_log.numbers import Range as Counted
from shm.contract.flow_log.numbers import joined

Range = tuple[int, int]
Ledger = dict[str, list[Range]]  # by the writer's name; ranges in order, apart from each other


def add(ranges: list[Range], fresh: Range) -> list[Range]:
    """Return the ranges with one more; those that meet or touch it become one."""
    return [one[:2] for one in joined((Counted(*one, one[1] - one[0] + 1) for one in (*ranges, fresh)), sys.maxsize)]


def taken(ranges: list[Range], fresh: Range) -> list[Range]:
    """Return the parts of a range that are in the ranges."""
    first, last = fresh
    return [(max(first, low), min(last, high)) for low, high in ranges if low <= last and first <= high]


def meet(ranges: Iterable[Range]) -> bool:
    """Return whether two ranges have a number in common."""
    ordered = sorted(ranges)
    return any(one[1] >= other[0] for one, other in pairwise(ordered))

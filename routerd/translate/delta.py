"""Differences between configurations, so that a process gets only what has changed."""

from collections.abc import Sequence
from typing import Any

from shm.contract.control import AddressSetup
from shm.contract.management import Delta, Management


def changes(
    before: Sequence[AddressSetup], after: Sequence[AddressSetup]
) -> tuple[list[AddressSetup], list[AddressSetup]]:
    """Return the addresses that are gone and those that are new; one listed twice goes only with both."""
    start, count, new = _middle(before, after)
    there = set(after)
    gone = [one for one in before[start : start + count] if one not in there]
    return gone, list(new)


def deltas(before: Management, after: Management) -> list[Delta]:
    """Return a delta for each entity type that has changed."""
    found = []
    for kind in dict.fromkeys((*before.entities, *after.entities)):
        old, new = before.entities.get(kind, []), after.entities.get(kind, [])
        if old != new:
            start, count, rows = _middle(old, new)
            found.append(Delta(kind, start, count, list(rows)))
    return found


def _middle(before: Sequence[Any], after: Sequence[Any]) -> tuple[int, int, Sequence[Any]]:
    """Return where two lists differ: the first index, how many of `before` go, and what replaces them."""
    start, most = 0, min(len(before), len(after))
    while start < most and before[start] == after[start]:
        start += 1
    end = 0
    while end < most - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return start, len(before) - start - end, after[start : len(after) - end]

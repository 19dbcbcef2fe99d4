"""Differences between configurations, so that a process gets only what has changed."""

from collections.abc import Sequence
from typing import Any

from shm.contract.control import AddressSetup
from shm.contract.management import Delta, Management
from shm.contract.spelling import strip_spelling


def changes(
    before: Sequence[AddressSetup], after: Sequence[AddressSetup]
) -> tuple[list[AddressSetup], list[AddressSetup]]:
    """Return the addresses that are gone and those that are new; one listed twice goes only with both.

    One that has the pattern of one that is gone is as good as new, since a process keeps one rule for each pattern.
    """
    start, count, new = _middle(before, after)
    there = set(after)
    gone = [one for one in before[start : start + count] if one not in there]
    patterns = {_pattern(one) for one in gone}
    left = [one for one in after if _pattern(one) in patterns] if gone else []
    return gone, list(dict.fromkeys([*new, *left]))


def _pattern(setup: AddressSetup) -> str:
    """Return the pattern of an address, the same for all spellings and for a prefix."""
    return strip_spelling(f"{setup.prefix}.#" if setup.pattern is None else setup.pattern).replace("/", ".")


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

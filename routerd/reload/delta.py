"""How one configuration differs from another, so that who has the one need not be told all of the other."""

from collections.abc import Sequence
from typing import Any

from shm.contract.control import AddressSetup
from shm.contract.management import Delta, Management


def changes(
    before: Sequence[AddressSetup], after: Sequence[AddressSetup]
) -> tuple[list[AddressSetup], list[AddressSetup]]:
    """Which addresses are gone, and which are new. One that stands there twice is gone with the second."""
    start, count, new = _middle(before, after)
    there = set(after)
    gone = [one for one in before[start : start + count] if one not in there]
    return gone, list(new)


def deltas(before: Management, after: Management) -> list[Delta]:
    """One for each type of which there is something else now."""
    found = []
    for kind in dict.fromkeys((*before.entities, *after.entities)):
        old, new = before.entities.get(kind, []), after.entities.get(kind, [])
        if old != new:
            start, count, rows = _middle(old, new)
            found.append(Delta(kind, start, count, list(rows)))
    return found


def _middle(before: Sequence[Any], after: Sequence[Any]) -> tuple[int, int, Sequence[Any]]:
    """Where they differ: from where on, how many there were, and what stands there instead."""
    start, most = 0, min(len(before), len(after))
    while start < most and before[start] == after[start]:
        start += 1
    end = 0
    while end < most - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return start, len(before) - start - end, after[start : len(after) - end]

"""The table in use as a value, and which of its rows are in force."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from core.rmr.tables.table import DELETED, Table

AT_ONCE: Final = 2000  # rows examined before other work may run


@dataclass(frozen=True, slots=True)
class Installed:
    """The table in use, None if there is none yet, and the owners of managed entities."""

    table: Table | None = None
    owners: Mapping[str, str] = field(default_factory=dict)


def in_force(table: Table) -> list[int]:
    """Return the rows in force, in order.

    A row is not in force if a later one of its key is for all senders, or if it deletes a key that is not
    there.
    """
    return [at for some in force(table) for at in some][::-1]


def force(table: Table) -> Iterator[list[int]]:
    """Yield the rows of ``in_force`` in portions, the last row first."""
    closed: set[tuple[int, int]] = set()
    seen: set[tuple[int, int, tuple[str, ...]]] = set()
    found: list[int] = []
    for at in range(len(table) - 1, -1, -1):
        if at % AT_ONCE == 0 and found:
            yield found
            found = []
        key = table.types[at], table.subscriptions[at]
        if key in closed:
            continue
        senders = table.senders.get(at)
        if senders is None:
            closed.add(key)
            if table.targets[at] != DELETED:
                found.append(at)
        elif (*key, senders) not in seen:
            seen.add((*key, senders))
            found.append(at)
    yield found

"""The table in use as a value, and which of its rows are in force."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from core.rmr.table import NOWHERE, Table

AT_ONCE: Final = 2000  # rows looked at before others have their turn


@dataclass(frozen=True, slots=True)
class Installed:
    """What is in use: a whole table, None: nothing yet; and who owns which managed entity."""

    table: Table | None = None
    owners: Mapping[str, str] = field(default_factory=dict)


def in_force(table: Table) -> list[int]:
    """Rows that a message may fall under, in their order: not those behind which one for everybody stands,
    nor those that delete what is not there."""
    return [at for some in force(table) for at in some][::-1]


def force(table: Table) -> Iterator[list[int]]:
    """As ``in_force``, the last row first, by and by."""
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
            if table.targets[at] != NOWHERE:
                found.append(at)
        elif (*key, senders) not in seen:
            seen.add((*key, senders))
            found.append(at)
    yield found

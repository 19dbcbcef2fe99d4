"""The table in use as a value: a whole table, and who owns which managed entity.

A new table takes the place of the entries and leaves the owners; updates and maps change a copy (facts
rmr 6).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from core.routes.table import NOWHERE, MeidMap, Table

WASTE: Final = 1000  # rows that are not in force before a table is made anew; as many as it has beside it
AT_ONCE: Final = 2000  # rows looked at before others have their turn

SEED, PUSH, MANAGER, RMR = "seed", "push", "manager", "rmr"


class Origin(NamedTuple):
    """Where a table came from. ``kind``: seed, push, manager or rmr; ``who``: file, user or host:port."""

    kind: str
    who: str

    def __str__(self) -> str:
        return f"{self.kind} {self.who}"


@dataclass(frozen=True, slots=True)
class Installed:
    """What is in use; ``table`` None: nothing yet. ``rows``: of the table when it was last made anew."""

    table: Table | None = None
    owners: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0

    def apply(self, value: Table | MeidMap) -> "Installed":
        """With a table, an update or a map."""
        if isinstance(value, MeidMap):
            kept = {meid: one for meid, one in self.owners.items() if meid not in value.deleted}
            return Installed(self.table, kept | value.owners, self.rows)
        if value.complete or self.table is None:
            return Installed(value, self.owners, len(value))
        merged = merge(self.table, value)
        if len(merged) > 2 * self.rows + WASTE:
            merged = compact(merged)
            return Installed(merged, self.owners, len(merged))
        return Installed(merged, self.owners, self.rows)


def merge(table: Table, update: Table) -> Table:
    """A table with an update behind it: the last entry of a key wins."""
    places = {groups: at for at, groups in enumerate(table.groups)}
    moved = [places.setdefault(groups, len(places)) for groups in update.groups]
    targets = table.targets[:]
    targets.extend(NOWHERE if one == NOWHERE else moved[one] for one in update.targets)
    first = len(table)
    return Table(
        table.table_id,
        table.types + update.types,
        table.subscriptions + update.subscriptions,
        targets,
        table.lines + update.lines,
        tuple(places),
        table.senders | {first + at: senders for at, senders in update.senders.items()},
    )


def compact(table: Table) -> Table:
    """A table without the rows that others have taken the place of."""
    kept = in_force(table)
    places: dict[int, int] = {}
    columns = table.types[:0], table.subscriptions[:0], table.targets[:0], table.lines[:0]
    senders = {}
    for at in kept:
        if at in table.senders:
            senders[len(columns[0])] = table.senders[at]
        target = table.targets[at]
        columns[0].append(table.types[at])
        columns[1].append(table.subscriptions[at])
        columns[2].append(NOWHERE if target == NOWHERE else places.setdefault(target, len(places)))
        columns[3].append(table.lines[at])
    return Table(table.table_id, *columns, tuple(table.groups[one] for one in places), senders)


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

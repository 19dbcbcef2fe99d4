"""Route tables and MEID maps as values: built by the parser, never changed, exchanged as a whole.

A table may have a million entries, so they stand in columns (arrays), in the order in which they came.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from core.routes.fields import Groups

ANY_SUBSCRIPTION = -1
NOWHERE = 0xFFFFFFFF  # in the column of targets: the entry deletes its key


class Entry(NamedTuple):
    """One entry: what it is for, and where it leads."""

    message_type: int
    subscription: int
    senders: tuple[str, ...]
    groups: Groups
    line: int

    def __str__(self) -> str:
        head = ",".join([str(self.message_type), *self.senders])
        return f"mse|{head}|{self.subscription}|{self.groups}"


@dataclass(frozen=True, slots=True)
class Table:
    """A route table. ``types``, ``subscriptions``, ``targets`` and ``lines`` are columns of the same length.

    ``targets`` are indices into ``groups``; ``senders`` has the rows that are not for everybody.
    """

    table_id: str
    types: "array[int]"
    subscriptions: "array[int]"
    targets: "array[int]"
    lines: "array[int]"
    groups: tuple[Groups, ...]
    senders: dict[int, tuple[str, ...]]
    complete: bool = True  # False: an update of the table in use

    def __len__(self) -> int:
        return len(self.types)

    def row(self, at: int) -> Entry:
        """The entry at one place."""
        target = self.targets[at]
        return Entry(
            self.types[at],
            self.subscriptions[at],
            self.senders.get(at, ()),
            Groups() if target == NOWHERE else self.groups[target],
            self.lines[at],
        )

    def rows(self) -> Iterator[Entry]:
        """All entries in their order."""
        return map(self.row, range(len(self)))

    def of_key(self, key: tuple[int, int]) -> list[Entry]:
        """Entries of a message type and subscription, those that win over others last."""
        message_type, subscription = key
        return [
            self.row(at)
            for at, (one, other) in enumerate(zip(self.types, self.subscriptions, strict=True))
            if one == message_type and other == subscription
        ]


@dataclass(frozen=True, slots=True)
class MeidMap:
    """Who owns which managed entity: changes to the map in use (spec, MEID endpoint selection).

    ``owners``: endpoint by MEID; ``deleted``: MEIDs that nobody owns from now on.
    """

    table_id: str
    owners: dict[str, str]
    deleted: frozenset[str]

"""Route tables and MEID maps as values: the parser builds them, and they never change.

A table may have a million entries, so they are stored in columns (arrays), in the order of their records.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from core.rmr.tables.fields import Groups

ANY_SUBSCRIPTION = -1
DELETED = 0xFFFFFFFF  # a target that means: the entry deletes its key


def record(message_type: int, senders: Iterable[str], subscription: int, groups: str) -> str:
    """Return an entry as a record. Without groups it deletes its key."""
    head = ",".join((str(message_type), *senders))
    return f"mse|{head}|{subscription}|{groups}" if groups else f"del|{head}|{subscription}"


class Entry(NamedTuple):
    """One entry: its key, and its destinations."""

    message_type: int
    subscription: int
    senders: tuple[str, ...]
    groups: Groups
    line: int

    def __str__(self) -> str:
        return record(self.message_type, self.senders, self.subscription, str(self.groups))


@dataclass(frozen=True, slots=True)
class Destinations:
    """The destinations of entries, by target, as the forwarder stores them (core/rmr/forwarding/table.h).

    ``places`` says where in ``words`` a target begins. There stands the number of groups (0: by MEID), and
    for each group its size and its members, which are indices into ``endpoints``.
    """

    places: "array[int]" = field(default_factory=lambda: array("I"))
    words: "array[int]" = field(default_factory=lambda: array("I"))
    endpoints: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, at: int) -> Groups:
        start = self.places[at]
        groups = []
        place = start + 1
        for _ in range(self.words[start]):
            stop = place + 1 + self.words[place]
            groups.append(tuple([self.endpoints[one] for one in self.words[place + 1 : stop]]))
            place = stop
        return Groups(tuple(groups), by_meid=not groups)

    def __iter__(self) -> Iterator[Groups]:
        return map(self.__getitem__, range(len(self)))

    def __add__(self, others: "Destinations") -> "Destinations":
        """Return these destinations followed by others."""
        numbers = {name: number for number, name in enumerate(self.endpoints)}
        places, words = self.places[:], self.words[:]
        others._copy(range(len(others)), numbers, places, words)
        return Destinations(places, words, tuple(numbers))

    def chosen(self, targets: Iterable[int]) -> "Destinations":
        """Return the destinations of some targets, in their order."""
        numbers: dict[str, int] = {}
        places, words = array("I"), array("I")
        self._copy(targets, numbers, places, words)
        return Destinations(places, words, tuple(numbers))

    def _copy(self, targets: Iterable[int], numbers: dict[str, int], places: "array[int]", words: "array[int]") -> None:
        """Append destinations of some targets to columns. ``numbers`` are the columns' endpoints."""
        for target in targets:
            places.append(len(words))
            place = self.places[target]
            words.append(self.words[place])
            for _ in range(self.words[place]):
                size = self.words[place + 1]
                members = self.words[place + 2 : place + 2 + size]
                words.append(size)
                words.extend([numbers.setdefault(self.endpoints[one], len(numbers)) for one in members])
                place += 1 + size


@dataclass(frozen=True, slots=True)
class Table:
    """A route table. ``types``, ``subscriptions``, ``targets`` and ``lines`` are columns of equal length.

    ``targets`` are indices into ``groups``; ``senders`` has an item for each row that is not for all senders.
    """

    table_id: str
    types: "array[int]"
    subscriptions: "array[int]"
    targets: "array[int]"
    lines: "array[int]"
    groups: Destinations
    senders: dict[int, tuple[str, ...]]
    complete: bool = True  # False: an update of the table in use

    def __len__(self) -> int:
        return len(self.types)

    def row(self, at: int) -> Entry:
        """Return the entry of a row."""
        target = self.targets[at]
        return Entry(
            self.types[at],
            self.subscriptions[at],
            self.senders.get(at, ()),
            Groups() if target == DELETED else self.groups[target],
            self.lines[at],
        )

    def rows(self) -> Iterator[Entry]:
        """Return all entries in order."""
        return map(self.row, range(len(self)))

    def of_key(self, key: tuple[int, int]) -> list[Entry]:
        """Return the entries of a message type and subscription. Later ones win over earlier ones."""
        message_type, subscription = key
        return [
            self.row(at)
            for at, (one, other) in enumerate(zip(self.types, self.subscriptions, strict=True))
            if one == message_type and other == subscription
        ]


@dataclass(frozen=True, slots=True)
class MeidMap:
    """Changes to the owners of managed entities (RMR's Route Table Guide, MEID endpoint selection).

    ``owners`` maps MEIDs to endpoints; ``deleted`` are MEIDs without an owner from now on.
    """

    table_id: str
    owners: dict[str, str]
    deleted: frozenset[str]

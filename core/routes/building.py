"""Tables and maps while their records come."""

import hashlib
from array import array
from typing import Final

from core.routes.fields import Groups, MessageType, Reader
from core.routes.oddity import Oddity
from core.routes.table import NOWHERE, MeidMap, Table

LONG: Final = 10  # digits that may be too many for 32 bits
ODDITY_LIMIT: Final = 1000  # of one table: more are counted, not kept


class _Open:
    """What the two have in common. ``count``: records so far, as the end record counts them."""

    def __init__(self, table_id: str) -> None:
        self.table_id = table_id
        self.oddities: list[Oddity] = []
        self.more = 0
        self.count = 0

    def odd(self, found: list[Oddity]) -> None:
        """Something odd about its records."""
        room = ODDITY_LIMIT - len(self.oddities)
        self.oddities += found[:room]
        self.more += max(0, len(found) - room)

    def note(self, line: str) -> None:
        """A record between start and end, as it was sent."""


class OpenTable(_Open):
    """A route table, or, not ``complete``, an update of one."""

    def __init__(self, table_id: str, complete: bool) -> None:
        super().__init__(table_id)
        self.complete = complete
        self._types = array("i")
        self._subscriptions = array("i")
        self._targets = array("I")
        self._lines = array("I")
        self._senders: dict[int, tuple[str, ...]] = {}
        self._places: dict[Groups, int] = {}
        self._known: dict[str, int] = {}  # place by the text of the field

    def add(self, kind: MessageType, subscription: int, groups: Groups | None, line: int) -> None:
        """An entry; without ``groups`` the key is deleted."""
        if kind.senders:
            self._senders[len(self._types)] = kind.senders
        self._types.append(kind.number)
        self._subscriptions.append(subscription)
        self._targets.append(
            NOWHERE if groups is None else self._places.setdefault(groups, len(self._places))
        )
        self._lines.append(line)

    def take_known(self, reader: Reader, lines: list[str], first: int, line: int) -> int:
        """Take ``mse`` entries, from ``lines[first]`` on, as long as they are in order and have no comment.

        ``line`` is the number of that line. Returns where the first one stands that was not taken.
        """
        types, numbers, places = reader.known_types, reader.known_numbers, self._known
        for at in range(first, len(lines)):
            fields = lines[at].split("|")
            if len(fields) != 4 or (fields[0] != "mse" and fields[0].strip() != "mse") or "#" in lines[at]:
                break
            text = fields[1].strip()
            plain = len(text) < LONG and text.isascii() and text.isdecimal()  # most types stand there once
            kind = None if plain else types.get(fields[1])
            number, place = numbers.get(fields[2]), places.get(fields[3])
            if number is None or place is None or not (plain or kind):
                if not self._learn(reader, fields):
                    break
                kind, number, place = types[fields[1]], numbers[fields[2]], places[fields[3]]
            if kind is not None and kind.senders:
                self._senders[len(self._types)] = kind.senders
            self._types.append(int(text) if kind is None else kind.number)
            self._subscriptions.append(number)
            self._targets.append(place)
        else:
            at = len(lines)
        self._lines.extend(range(line, line + at - first))
        self.count += at - first
        return at

    def _learn(self, reader: Reader, fields: list[str]) -> bool:
        """Read the fields once and for all, unless there is something odd about one."""
        kind, groups = reader.message_type(fields[1]), reader.groups(fields[3])
        subscription = reader.number(fields[2].strip(), "subscription id")
        if reader.odd:
            reader.odd.clear()
            return False
        reader.known_types[fields[1]] = kind
        reader.known_numbers[fields[2]] = subscription
        self._known[fields[3]] = self._places.setdefault(groups, len(self._places))
        return True

    def close(self) -> Table:
        """The finished table."""
        columns = self._types, self._subscriptions, self._targets, self._lines
        return Table(self.table_id, *columns, tuple(self._places), self._senders, self.complete)


class OpenMap(_Open):
    """A MEID map. Its records are hashed as they were sent, each with one newline behind it."""

    def __init__(self, table_id: str) -> None:
        super().__init__(table_id)
        self.md5 = hashlib.md5(usedforsecurity=False)
        self._owners: dict[str, str] = {}
        self._deleted: set[str] = set()

    def note(self, line: str) -> None:
        self.md5.update(line.encode("utf-8", "surrogateescape") + b"\n")

    def change(self, owner: str, meids: list[str]) -> None:
        """Give managed entities to an owner, or, without one, to nobody."""
        for meid in meids:
            if owner:
                self._owners[meid] = owner
                self._deleted.discard(meid)
            else:
                self._owners.pop(meid, None)
                self._deleted.add(meid)

    def close(self) -> MeidMap:
        """The finished map."""
        return MeidMap(self.table_id, self._owners, frozenset(self._deleted))

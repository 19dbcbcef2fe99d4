"""Tables and maps while their records arrive."""

import hashlib
import secrets
from typing import Final

from core.rmr.tables.decoding import octets_of
from core.rmr.tables.fields import Groups, MessageType
from core.rmr.tables.records import Records
from core.rmr.tables.table import DELETED, Destinations, MeidMap, Table
from core.rmr.tables.warning import TableWarning, Weight

WARNING_LIMIT: Final = 1000  # per table; further warnings are only counted
LONGEST_TABLE: Final = 1 << 28  # octets of what stands between two ends, and of what it becomes
KEPT: Final = 128  # octets of memory that a managed entity, or an entry's list of senders, takes besides its text
LISTED: Final = 192  # those that an entry's list of senders takes which is no simple record
GROUPED: Final = 384  # those that its groups take
NAMED: Final = 64  # those that each name in either takes

_SEED: Final = secrets.randbits(64)


class _Open:
    """The common part of tables and maps. ``count`` is the number of records as the end record counts them.

    ``broken`` is the first fatal warning, ``spoilt`` the first that is not harmless, ``spoils`` the number of
    those.
    """

    def __init__(self, table_id: str) -> None:
        self.table_id = table_id
        self.warnings: list[TableWarning] = []
        self.more = 0
        self.count = 0
        self.broken: TableWarning | None = None
        self.spoilt: TableWarning | None = None
        self.spoils = 0

    def odd(self, found: list[TableWarning]) -> None:
        """Add warnings about its records."""
        heavy = [one for one in found if one.weight > Weight.HARMLESS]
        self.broken = self.broken or next((one for one in heavy if one.weight == Weight.FATAL), None)
        self.spoilt = self.spoilt or next(iter(heavy), None)
        self.spoils += len(heavy)
        room = WARNING_LIMIT - len(self.warnings)
        self.warnings += found[:room]
        self.more += max(0, len(found) - room)

    def note(self, line: str) -> None:
        """Take a record between start and end, as it was sent."""

    @property
    def kept(self) -> int:
        """The octets of memory for which it counts besides its text."""
        return 0


class OpenTable(_Open):
    """A route table, or without ``complete`` an update of one."""

    def __init__(self, table_id: str, complete: bool, compatible: bool) -> None:
        super().__init__(table_id)
        self.complete = complete
        self._records = Records(_SEED, compatible)
        self._targets: dict[Groups, int] = {}
        self._kept = 0  # octets of groups and senders that are no simple records

    def add(self, kind: MessageType, subscription: int, groups: Groups | None, line: int) -> None:
        """Add an entry. Without ``groups`` it deletes its key."""
        target = DELETED
        if groups is not None and (target := self._targets.get(groups, DELETED)) == DELETED:
            target = self._targets[groups] = self._records.target(groups.members)
            self._kept += GROUPED + NAMED * sum(map(len, groups.members))
        if kind.senders:
            self._kept += LISTED + NAMED * len(kind.senders)
        self._records.add(kind.number, subscription, kind.senders, target, line)

    @property
    def kept(self) -> int:
        return self._kept + KEPT * self._records.listed

    def take(self, text: str, at: int, line: int) -> tuple[int, int]:
        """Take simple entries from ``text[at]`` on; the first stands in ``line``.

        Return where the first other record begins, and how many entries were taken. Raises MemoryError.
        """
        at, taken = self._records.take(text, at, line)
        self.count += taken
        return at, taken

    def close(self) -> Table:
        """Return the finished table."""
        read = self._records
        groups = Destinations(*read.destinations())
        return Table(self.table_id, *read.columns(), groups, read.senders(), self.complete)


class OpenMap(_Open):
    """A MEID map. Its MD5 covers the records as sent, each followed by one newline."""

    def __init__(self, table_id: str) -> None:
        super().__init__(table_id)
        self.md5 = hashlib.md5(usedforsecurity=False)
        self._owners: dict[str, str] = {}
        self._deleted: set[str] = set()

    def note(self, line: str) -> None:
        self.md5.update(octets_of(line) + b"\n")

    @property
    def kept(self) -> int:
        return KEPT * (len(self._owners) + len(self._deleted))

    def change(self, owner: str, meids: list[str]) -> None:
        """Assign managed entities to an owner, or without one to nobody."""
        for meid in meids:
            if owner:
                self._owners[meid] = owner
                self._deleted.discard(meid)
            else:
                self._owners.pop(meid, None)
                self._deleted.add(meid)

    def close(self) -> MeidMap:
        """Return the finished map."""
        return MeidMap(self.table_id, self._owners, frozenset(self._deleted))

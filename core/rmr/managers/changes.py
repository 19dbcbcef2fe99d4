"""What each installation has changed, for applications that run a former table or map."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from core.rmr.managers.application import NOTHING
from core.rmr.tables import writing
from core.rmr.tables.state import Installed
from core.rmr.tables.table import MeidMap, Table

MOST_CHANGES: Final = 100  # changes kept; an application further behind gets everything


class Change(NamedTuple):
    """A change of the table and of the map. None: it is too much to send, or unknown, so everything is sent."""

    entries: tuple[str, ...] | None
    maps: tuple[MeidMap, ...] | None


class Changes:
    """What is in use, with its revision, those of its table and its map, and the latest changes."""

    def __init__(self) -> None:
        self.use = Installed()
        self.table = self.map = self.revision = 0
        self._changes: dict[int, Change] = {}  # by the revision that each led to
        self._gone: tuple[Mapping[str, str], Mapping[str, str], frozenset[str]] = ({}, {}, frozenset())

    def install(self, use: Installed, value: Table | MeidMap | None) -> None:
        """Record an installation, which led to ``use``. Without a value both table and map may have changed."""
        before, self.use = self.use, use
        self.revision += 1
        maps = _maps(before, use, value)
        if maps != ():
            self.map = self.revision
        if isinstance(value, MeidMap):
            change = Change((), maps)
        else:
            self.table = self.revision
            change = Change(_entries(before, use, value), maps)
        self._changes[self.revision] = change
        self._changes.pop(self.revision - MOST_CHANGES, None)

    def since(self, revision: int) -> list[Change] | None:
        """Return the changes since a revision, or None if they are not kept any more."""
        if revision == NOTHING or self.revision - revision > len(self._changes):
            return None
        return [change for number, change in self._changes.items() if number > revision]

    def gone(self, before: Mapping[str, str]) -> frozenset[str]:
        """Return the managed entities of a former map that have no owner now.

        There may be a million. All applications with that map share the result.
        """
        owners = self.use.owners
        if not before or before is owners:
            return frozenset()
        if self._gone[0] is not before or self._gone[1] is not owners:
            self._gone = before, owners, frozenset(meid for meid in before if meid not in owners)
        return self._gone[2]


def _entries(before: Installed, use: Installed, value: Table | None) -> tuple[str, ...] | None:
    """Return the records that turn one table into the other, or None if they are too many."""
    if value is not None and not value.complete:
        return tuple(writing.entries(value)) if len(value) <= writing.LONGEST_UPDATE else None
    if before.table is None or use.table is None:
        return None
    found = writing.difference(before.table, use.table)
    return None if found is None else tuple(found)


def _maps(before: Installed, use: Installed, value: Table | MeidMap | None) -> tuple[MeidMap, ...] | None:
    """Return what turns one map into the other, or None if it is too much or unknown."""
    if isinstance(value, MeidMap):
        return (value,) if len(value.owners) + len(value.deleted) <= writing.LONGEST_UPDATE else None
    same = value is not None or use.owners is before.owners or not (use.owners or before.owners)
    return () if same else None

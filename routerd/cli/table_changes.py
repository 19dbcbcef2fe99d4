"""Differences between two tables and between two MEID maps."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from core.rmr.tables.decoding import LONGEST_SHOWN
from core.rmr.tables.table import Table
from shm.contract.text import printable


class Change(NamedTuple):
    """One difference. ``old`` is None for an addition, ``new`` for a removal."""

    what: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        if self.old is None:
            return f"+ {self.what} {self.new}"
        if self.new is None:
            return f"- {self.what} {self.old}"
        return f"~ {self.what} {self.old} -> {self.new}"


def table_changes(old: Table, new: Table) -> Iterator[Change]:
    """Yield the differences between entries in force, by message type, subscription and senders."""
    before, after = _in_force(old), _in_force(new)
    for key in sorted(before.keys() | after.keys()):
        message_type, subscription, senders = key
        one, other = before.get(key), after.get(key)
        if one != other:
            yield Change(",".join([str(message_type), *senders]) + f"|{subscription}", one, other)


def owner_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Change]:
    """Yield the managed entities whose owner differs."""
    for meid in sorted(old.keys() | new.keys()):
        if old.get(meid) != new.get(meid):
            yield Change(f"meid {printable(meid, LONGEST_SHOWN)}", old.get(meid), new.get(meid))


def _in_force(table: Table) -> dict[tuple[int, int, tuple[str, ...]], str]:
    """Return the groups by message type, subscription and senders. Of equal entries the last one counts."""
    found = {(one.message_type, one.subscription, one.senders): one for one in table.rows()}
    return {key: str(entry.groups) for key, entry in found.items() if str(entry.groups)}

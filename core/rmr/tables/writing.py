"""Writes tables and maps as records for RMR applications (docs/route-tables.md).

Records are written in pieces, so that a table of a million entries delays nothing else, and are kept for the
next application that needs the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from core.rmr.tables.decoding import octets_of
from core.rmr.tables.parser import MEID_LIMIT
from core.rmr.tables.state import AT_ONCE, force, in_force
from core.rmr.tables.table import DELETED, Table, record

PIECE: Final = 64 * 1024  # octets of one message, records permitting; the library takes any size
LONGEST_UPDATE: Final = 10_000  # entries of tables that are compared; longer tables are sent whole

PAUSE: Final = ""  # a line that means: nothing to write yet, go on later

_UNFIT: Final = str.maketrans(dict.fromkeys("|#\r\n\t\0", "_"))


class Text:
    """The records of one table, update or map, written in pieces."""

    def __init__(self, table_id: str, lines: Iterable[str], piece: int = PIECE) -> None:
        self.table_id = table_id
        self.pieces: list[bytes] = []
        self.complete = False
        self._lines = iter(lines)
        self._piece = piece
        self._found: list[str] = []  # of the next piece
        self._size = 0

    def write(self) -> None:
        """Write another piece, or do part of the work before it."""
        for line in self._lines:
            if line == PAUSE:
                return
            self._found.append(line)
            self._size += len(line) + 1
            if self._size >= self._piece:
                break
        else:
            self.complete = True
        if self._found:
            self.pieces.append(octets_of("\n".join(self._found) + "\n"))
            self._found, self._size = [], 0


def clean_id(text: str) -> str:
    """Return a text that can be part of an id in a record."""
    return text.translate(_UNFIT).strip()


def table_lines(table: Table, table_id: str) -> Iterator[str]:
    """Yield the records of a whole table."""
    yield f"newrt|start|{table_id}"
    rows: list[int] = []
    for some in force(table):
        rows += some
        yield PAUSE
    rows.reverse()
    yield from _entries(table, rows)
    yield f"newrt|end|{len(rows)}"


def update_lines(entries: Iterable[str], table_id: str) -> Iterator[str]:
    """Yield the records of an update."""
    yield f"updatert|start|{table_id}"
    count = 0
    for count, entry in enumerate(entries, 1):  # noqa: B007  the number is used after the loop
        yield entry
    yield f"updatert|end|{count}"


def map_lines(owners: Mapping[str, str], gone: Iterable[str], table_id: str) -> Iterator[str]:
    """Yield the records of a map: owners, and managed entities without an owner now."""
    yield f"meid_map|start|{table_id}"
    count = 0
    owned: dict[str, list[str]] = {}
    for number, (meid, owner) in enumerate(owners.items()):
        if number % AT_ONCE == 0:
            yield PAUSE
        owned.setdefault(owner, []).append(meid)
    heads = [("mme_del|", sorted(gone)), *((f"mme_ar|{owner}|", meids) for owner, meids in owned.items())]
    for head, meids in heads:
        for at in range(0, len(meids), MEID_LIMIT):
            count += 1
            yield head + " ".join(meids[at : at + MEID_LIMIT])
    yield f"meid_map|end|{count}"


def entries(update: Table) -> Iterator[str]:
    """Yield all records of an update, including deletions."""
    return _entries(update, range(len(update)))


def _entries(table: Table, rows: Iterable[int]) -> Iterator[str]:
    texts = [str(groups) for groups in table.groups]
    for at in rows:
        groups = "" if table.targets[at] == DELETED else texts[table.targets[at]]
        yield record(table.types[at], table.senders.get(at, ()), table.subscriptions[at], groups)


def difference(old: Table, new: Table) -> list[str] | None:
    """Return the records that turn the old table into the new one, or None if it is shorter sent whole."""
    if max(len(old), len(new)) > LONGEST_UPDATE:
        return None
    before, after = _by_key(old), _by_key(new)
    found: list[str] = []
    for key in before.keys() | after.keys():
        if (records := after.get(key)) == before.get(key):
            continue
        if records is None or records[0][0]:  # the first is for some senders, so an older one for all must go
            found.append(record(key[0], (), key[1], ""))
        found += [record(key[0], senders, key[1], groups) for senders, groups in records or ()]
        if len(found) > len(after):
            return None
    return found


def _by_key(table: Table) -> dict[tuple[int, int], list[tuple[tuple[str, ...], str]]]:
    texts = [str(groups) for groups in table.groups]
    found: dict[tuple[int, int], list[tuple[tuple[str, ...], str]]] = {}
    for at in in_force(table):
        target = table.targets[at]
        record = table.senders.get(at, ()), "" if target == DELETED else texts[target]
        found.setdefault((table.types[at], table.subscriptions[at]), []).append(record)
    return found

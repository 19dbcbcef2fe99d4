"""The parser of route tables: text in pieces of any size goes in, tables and maps come out.

The parser installs nothing. A table begins with its start record and is valid if its end record agrees with
it. An error in between spoils only that table, and the next start record begins a new one.
"""

import re
from collections.abc import Iterator
from typing import Final

from core.rmr.tables import decoding
from core.rmr.tables.building import KEPT, WARNING_LIMIT, OpenMap, OpenTable
from core.rmr.tables.fields import FIELD_LIMIT, Reader, is_endpoint, split_record
from core.rmr.tables.table import ANY_SUBSCRIPTION, MeidMap, Table
from core.rmr.tables.warning import BadTableError, TableWarning
from shm.contract.text import printable

MEID_LIMIT: Final = 127  # per record; the library loses the rest
MEID_LENGTH: Final = 31  # octets
MARK: Final = "\ufeff"  # begins texts that some editors write

_END_OF_RECORD: Final = re.compile(r"\r\n|\n|\r")
_BLANKS: Final = re.compile(r"[ \t]+")
_NAMES: Final = {"n": "newrt", "u": "updatert", "r": "rte", "d": "del"}  # as the library does

Result = Table | MeidMap | BadTableError


class Parser:
    """Parses the records of one source, which may contain any number of tables and maps.

    ``compatible`` parses as the RMR library does and only warns of what is odd, which otherwise spoils a
    table. ``warnings`` are those of the last result and of the records before it, ``outside`` those of
    records that no result has followed yet.
    """

    def __init__(self, compatible: bool = False) -> None:
        self._compatible = compatible
        self._reader = Reader(compatible)
        self._rest = ""
        self._line = 0
        self._open: OpenTable | OpenMap | None = None
        self.warnings: list[TableWarning] = []
        self.more_warnings = 0
        self.outside: list[TableWarning] = []

    @property
    def idle(self) -> bool:
        """Whether no table, map or record has begun."""
        return self._open is None and not self._rest

    @property
    def kept(self) -> int:
        """The octets of memory that the unfinished table or map takes besides its text."""
        return 0 if self._open is None else self._open.kept + KEPT * self._reader.names

    def feed(self, text: str) -> Iterator[Result]:
        """Take a piece of text. Yield the tables and maps that it completes."""
        if not self._compatible and not self._line and not self._rest:
            text = text.removeprefix(MARK)
        seen = max(0, len(self._rest) - 1)  # no line ends before it
        text = self._rest + text
        at = 0
        while True:
            if isinstance(self._open, OpenTable):
                at, taken = self._open.take(text, at, self._line + 1)
                self._line += taken
            end = _END_OF_RECORD.search(text, max(at, seen))
            if end is None or (end[0] == "\r" and end.end() == len(text)):
                break  # its newline may follow
            self._line += 1
            if (result := self._record(text[at : end.start()])) is not None:
                yield result
            at = end.end()
        self._rest = text[at:]
        if len(self._rest) > decoding.LONGEST_RECORD + 2:  # refused at its end, so no more is kept
            self._rest = self._rest[: decoding.LONGEST_RECORD + 1] + ("\r" if text.endswith("\r") else "")

    def finish(self) -> Iterator[Result]:
        """End the text. Yield errors for a record or table that is cut short."""
        rest, self._rest = self._rest, ""
        if rest.strip():
            self._line += 1
            if not rest.endswith("\r"):
                self._odd(rest, "the last record has no line end and may be cut short")
            if (result := self._record(rest)) is not None:
                yield result
        if self._open is not None:
            yield self._bad(self._open, "table not complete")

    # ---- records ----

    def _record(self, line: str) -> Result | None:
        if len(line) > decoding.LONGEST_RECORD:
            self._reader.fatal.append(f"the record is longer than {decoding.LONGEST_RECORD} characters")
            self._take_warnings(line)
            return None
        fields = split_record(line, self._compatible)
        if fields == [""]:
            if isinstance(self._open, OpenMap | OpenTable):
                self._open.note(line)
            return None
        if len(fields) > FIELD_LIMIT:
            self._odd(line, f"more than {FIELD_LIMIT} fields")
            fields = fields[:FIELD_LIMIT]
        name = self._name(fields[0])
        if name != fields[0] and name:
            self._odd(line, f"{fields[0]!r} is read as {name}")
        why = "" if line.isascii() else self._stray(name, fields)
        match name:
            case "newrt" | "updatert" | "meid_map":
                return self._frame(name, fields, line, why)
            case _ if why:
                self._reader.fatal.append(f"the record {why}")
                self._take_warnings(line)
            case "mse" | "rte" | "del":
                self._entry(name, fields, line)
            case "mme_ar" | "mme_del":
                self._meids(name, fields, line)
            case _ if line.startswith(MARK):
                self._odd(line, "a byte order mark, behind which the RMR library reads no record")
            case _:
                self._odd(line, "this is no record of a route table")
        return None

    @staticmethod
    def _stray(name: str, fields: list[str]) -> str:
        """Return a text on octets that are not UTF-8. Managed entities and comments may have any octets."""
        at = {"mme_ar": 2, "mme_del": 1}.get(name, len(fields))
        return next((why for one in (*fields[:at], *fields[at + 1 :]) if (why := decoding.stray(one))), "")

    def _name(self, word: str) -> str:
        if word in ("newrt", "updatert", "mse", "rte", "del", "meid_map", "mme_ar", "mme_del"):
            return word
        return _NAMES.get(word[:1], "") if self._compatible else ""

    def _frame(self, name: str, fields: list[str], line: str, why: str) -> Result | None:
        """Handle a start or end record. ``why`` tells what is not UTF-8 in it."""
        verb = fields[1] if len(fields) > 1 else ""
        if verb == "end":
            if why:
                self._reader.fatal.append(f"the record {why}")
            return self._end(name, fields, line)
        if name == "meid_map" and not verb.startswith("s"):
            self._odd(line, "a MEID map begins with meid_map|start")
            return None
        left = self._open
        table_id = fields[2] if len(fields) > 2 else ""
        result = None if left is None else self._bad(left, "table not complete")
        self._open = OpenMap(table_id) if name == "meid_map" else OpenTable(table_id, name == "newrt", self._compatible)
        if verb not in (("start",) if name == "meid_map" else ("start", "begin")):
            self._reader.odd.append(f"{verb!r} stands in place of start or end")
        if why := decoding.fault(table_id, decoding.LONGEST_ID) or why:
            self._reader.fatal.append(f"the start record or its id {why}")
        self._take_warnings(line)
        return result

    def _end(self, name: str, fields: list[str], line: str) -> Result | None:
        open_, counted = self._open, fields[2:3]
        if open_ is None or (name == "meid_map") != isinstance(open_, OpenMap):
            self._odd(line, "an end record without its start record")
            return None
        if isinstance(open_, OpenTable) and open_.complete != (name == "newrt"):
            self._odd(line, f"{name}|end ends what another kind of record has started")
        self._check_md5(open_, fields[3:4], line)
        self._take_warnings(line)
        if open_.broken is not None:
            return self._bad(open_, str(open_.broken))
        if counted:
            expected = self._reader.number(counted[0], "record count")
            self._take_warnings(line)
            if expected != open_.count:
                return self._bad(open_, f"missing table records: expected {expected} got {open_.count}")
        if open_.spoilt is not None and not self._compatible:
            more = f" (and {open_.spoils - 1} more)" if open_.spoils > 1 else ""
            return self._bad(open_, f"{open_.spoilt}{more}")
        self._close(open_)
        return open_.close()

    def _check_md5(self, open_: OpenTable | OpenMap, given: list[str], line: str) -> None:
        if given and isinstance(open_, OpenMap) and given[0].lower() != open_.md5.hexdigest():
            self._odd(line, f"the MD5 of the records is {open_.md5.hexdigest()}")

    def _close(self, open_: OpenTable | OpenMap) -> None:
        self.warnings, self.more_warnings = self.outside + open_.warnings, open_.more
        self.outside = []
        self._open = None

    def _bad(self, open_: OpenTable | OpenMap, reason: str) -> BadTableError:
        self._close(open_)
        return BadTableError(open_.table_id, reason, self.warnings)

    def _entry(self, name: str, fields: list[str], line: str) -> None:
        table = self._open
        if not isinstance(table, OpenTable):
            self._odd(line, "an entry outside of any table")
            return
        least = 4 if name == "mse" else 3
        if len(fields) < least:
            table.count += name == "rte"
            self._odd(line, f"{name} needs {least} fields or more and has {len(fields)}")
            return
        table.count += 1
        read = self._reader
        kind = read.message_type(fields[1])
        groups = None
        if name == "mse":
            subscription, groups = read.number(fields[2], "subscription id"), read.groups(fields[3])
        elif name == "rte":
            subscription = read.number(fields[3], "subscription id") if len(fields) > 3 else ANY_SUBSCRIPTION
            groups = read.groups(fields[2])
        else:
            subscription = read.number(fields[2], "subscription id")
        if len(fields) > (3 if name == "del" else 4):
            read.odd.append("surplus fields")
        self._take_warnings(line)
        if groups is None or groups.members or groups.by_meid:
            table.add(kind, subscription, groups, self._line)

    def _meids(self, name: str, fields: list[str], line: str) -> None:
        map_ = self._open
        if not isinstance(map_, OpenMap):
            self._odd(line, "a MEID record outside of any map")
            return
        map_.note(line)
        owner = fields[1] if name == "mme_ar" and len(fields) > 1 else ""
        meids = fields[2 if name == "mme_ar" else 1 :][:1]
        if not meids or not meids[0]:
            self._odd(line, f"{name} names no managed entity")
            return
        map_.count += 1
        if name == "mme_ar" and not is_endpoint(owner):
            self._odd(line, f"owner {owner!r} is not host:port")
        parts = meids[0].split(" ") if self._compatible else _BLANKS.split(meids[0])
        found = [one for one in parts if one]
        if len(found) > MEID_LIMIT and self._compatible:
            self._odd(line, f"more than {MEID_LIMIT} managed entities in a record: the RMR library loses the others")
            found = found[:MEID_LIMIT]
        for meid in found:
            if len(decoding.octets_of(meid)) > MEID_LENGTH:
                self._odd(line, f"MEID {printable(meid, 80)!r} is longer than {MEID_LENGTH} octets")
        map_.change(owner, found)

    # ---- warnings ----

    def _odd(self, line: str, reason: str) -> None:
        self._reader.odd.append(reason)
        self._take_warnings(line)

    def _take_warnings(self, line: str) -> None:
        if not self._reader.waiting:
            return
        found = self._reader.warnings(self._line, line)
        if self._open is not None:
            self._open.odd(found)
        elif len(self.outside) < WARNING_LIMIT:
            self.outside += found

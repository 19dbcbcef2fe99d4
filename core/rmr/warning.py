"""What is odd about a route table: said with line, record and reason.

The grammar is lenient in ways that hide mistakes (facts rmr 4): what the RMR library drops without a word, or
reads as something else, is an oddity here. Strict reading refuses a table for one; compatible reading goes on
as the library does.
"""

from enum import IntEnum

import msgspec

from core.rmr.border import LONGEST_SHOWN, octets_of
from shm.contract.text import printable


class Weight(IntEnum):
    """What an oddity does to its table: nothing, spoil it when it is read strictly, spoil it in any case."""

    HARMLESS = 0
    ODD = 1
    FATAL = 2


class TableWarning(msgspec.Struct, frozen=True):
    """One odd place of a table; ``line`` counts from 1."""

    line: int
    record: str
    reason: str
    weight: Weight = Weight.ODD

    @property
    def shown(self) -> str:
        """The record, shortened."""
        return self.record if len(self.record) <= 60 else f"{self.record[:57]}..."

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}: {self.shown!r}"


class BadTableError(ValueError):
    """A table that cannot be used; ``warnings`` say why, ``table_id`` whose it is (empty: none was given).

    ``named`` are the octets of that id as they came: its sender knows the table by them.
    """

    def __init__(self, table_id: str, reason: str, warnings: list[TableWarning]) -> None:
        super().__init__(reason)
        self.named = octets_of(table_id)
        self.table_id = printable(table_id, LONGEST_SHOWN)
        self.reason = reason
        self.warnings = warnings

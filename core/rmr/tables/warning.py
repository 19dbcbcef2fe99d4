"""Warnings about a route table, each with line, record and reason.

The grammar is lenient in ways that hide mistakes. What the RMR library silently drops or reads as something
else is a warning here. Strict parsing refuses a table with one; compatible parsing goes on as the library
does.
"""

from enum import IntEnum

import msgspec

from core.rmr.tables.decoding import LONGEST_SHOWN, octets_of
from shm.contract.text import printable


class Weight(IntEnum):
    """The effect of a warning on its table: none, spoils it if parsed strictly, or spoils it always."""

    HARMLESS = 0
    ODD = 1
    FATAL = 2


class TableWarning(msgspec.Struct, frozen=True):
    """One suspect place of a table. ``line`` counts from 1."""

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
    """A table that cannot be used. ``warnings`` say why; ``table_id`` is empty if none was given.

    ``named`` are the original octets of that id, by which the sender knows the table.
    """

    def __init__(self, table_id: str, reason: str, warnings: list[TableWarning]) -> None:
        super().__init__(reason)
        self.named = octets_of(table_id)
        self.table_id = printable(table_id, LONGEST_SHOWN)
        self.reason = reason
        self.warnings = warnings

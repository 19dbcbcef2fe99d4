"""Compiles tables for lookups by the forwarder. Any thread may do this."""

from array import array
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from core.forwarder.forward import NO_TARGET, RouteOwners, RouteTable
from core.rmr.tables.decoding import octets_of
from core.rmr.tables.state import in_force
from core.rmr.tables.table import DELETED, Table

SLACK: Final = 2  # a table grown by updates to so many times its entries in force is compacted
LEAST_ROWS: Final = 1024  # shorter tables are not compacted


class CompiledTable(NamedTuple):
    """A table, and the number of each endpoint in it."""

    value: Table
    native: RouteTable
    endpoints: dict[str, int]


class CompiledOwners(NamedTuple):
    """The owners of managed entities, and the number of each owner."""

    value: dict[str, str]
    native: RouteOwners
    endpoints: dict[str, int]


def encoded(names: Iterable[str]) -> list[bytes]:
    """Return names as octets, as they stand in messages."""
    return [octets_of(name) for name in names]


def compile_table(table: Table, seed: int) -> CompiledTable:
    """Build a table for a forwarder with this hash seed."""
    endpoints = {name: number for number, name in enumerate(table.groups.endpoints)}
    rows = sorted(table.senders)
    starts, senders = array("I", [0]), list[bytes]()
    lists: dict[tuple[str, ...], list[bytes]] = {}
    for row in rows:
        if (known := lists.get(names := table.senders[row])) is None:
            known = lists[names] = encoded(sorted(set(names)))
        senders += known
        starts.append(len(senders))
    native = RouteTable(seed, table, array("I", rows), starts, senders, encoded(endpoints))
    return CompiledTable(table, native, endpoints)


def compile_owners(owners: dict[str, str], seed: int) -> CompiledOwners:
    """Build a MEID map for a forwarder with this hash seed."""
    endpoints: dict[str, int] = {}
    numbers = array("I", (endpoints.setdefault(one, len(endpoints)) for one in owners.values()))
    starts, texts, at = array("I", [0]), encoded(owners), 0
    for text in texts:
        at += len(text)
        starts.append(at)
    native = RouteOwners(seed, b"".join(texts), starts, numbers, encoded(endpoints))
    return CompiledOwners(owners, native, endpoints)


def moved(before: Mapping[str, int], now: Mapping[str, int]) -> "array[int]":
    """Return, by an endpoint's former number, its present number."""
    return array("I", (now.get(name, NO_TARGET) for name in before))


def updated(table: Table, update: Table) -> Table:
    """Append an update's entries to a table, where they win over earlier ones."""
    shift = len(table.groups)
    targets = array("I", (one if one == DELETED else one + shift for one in update.targets))
    rows = len(table)
    senders = table.senders | {rows + row: names for row, names in update.senders.items()}
    return Table(
        update.table_id or table.table_id,
        table.types + update.types,
        table.subscriptions + update.subscriptions,
        table.targets + targets,
        table.lines + update.lines,
        table.groups + update.groups,
        senders,
    )


def compacted(table: Table, keys: int) -> Table:
    """Return the table without replaced entries if these are most of it.

    ``keys``: the number of keys in force.
    """
    if len(table) < max(LEAST_ROWS, SLACK * keys):
        return table
    return _rows(table, in_force(table))


def _rows(table: Table, rows: list[int]) -> Table:
    """Return a table of these rows."""
    places: dict[int, int] = {}
    targets = array("I")
    for row in rows:
        target = table.targets[row]
        targets.append(DELETED if target == DELETED else places.setdefault(target, len(places)))
    return Table(
        table.table_id,
        array("i", (table.types[row] for row in rows)),
        array("i", (table.subscriptions[row] for row in rows)),
        targets,
        array("I", (table.lines[row] for row in rows)),
        table.groups.chosen(places),
        {at: table.senders[row] for at, row in enumerate(rows) if row in table.senders},
    )

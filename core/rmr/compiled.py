"""From tables as values to what the forwarder looks up in; any thread may do it."""

from array import array
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from core.forwarder.forward import NO_TARGET, RouteOwners, RouteTable
from core.rmr.border import octets_of
from core.rmr.state import in_force
from core.rmr.table import NOWHERE, Table

SLACK: Final = 2  # a table that updates have made so many times as long as what is in force is made anew
LEAST_ROWS: Final = 1024  # a shorter one never is


class TableColumns(NamedTuple):
    """A route table in numbers of four octets; the first three columns are of the same length.

    ``places`` says where in ``words`` a target begins, ``words`` as table.c has them. ``sender_rows`` are the
    rows for certain senders, ascending. ``sender_starts`` says where in the list of senders theirs begin, and
    has one more.
    """

    types: "array[int]"
    subscriptions: "array[int]"
    targets: "array[int]"
    places: "array[int]"
    words: "array[int]"
    sender_rows: "array[int]"
    sender_starts: "array[int]"


class CompiledTable(NamedTuple):
    """A table, and the number of each endpoint in it."""

    value: Table
    native: RouteTable
    endpoints: dict[str, int]


class CompiledOwners(NamedTuple):
    """Who owns which managed entity, and the number of each owner."""

    value: dict[str, str]
    native: RouteOwners
    endpoints: dict[str, int]


def encoded(names: Iterable[str]) -> list[bytes]:
    """Names as they stand in messages."""
    return [octets_of(name) for name in names]


def compile_table(table: Table, seed: int) -> CompiledTable:
    """Build the table for the forwarder whose hashes have that seed."""
    endpoints = {name: number for number, name in enumerate(table.groups.endpoints)}
    rows = sorted(table.senders)
    starts, senders = array("I", [0]), list[bytes]()
    lists: dict[tuple[str, ...], list[bytes]] = {}
    for row in rows:
        if (known := lists.get(names := table.senders[row])) is None:
            known = lists[names] = encoded(sorted(set(names)))
        senders += known
        starts.append(len(senders))
    columns = TableColumns(
        types=table.types,
        subscriptions=table.subscriptions,
        targets=table.targets,
        places=table.groups.places,
        words=table.groups.words,
        sender_rows=array("I", rows),
        sender_starts=starts,
    )
    native = RouteTable(seed, columns, senders, encoded(endpoints))
    return CompiledTable(table, native, endpoints)


def compile_owners(owners: dict[str, str], seed: int) -> CompiledOwners:
    """Build the map of managed entities."""
    endpoints: dict[str, int] = {}
    numbers = array("I", (endpoints.setdefault(one, len(endpoints)) for one in owners.values()))
    starts, texts, at = array("I", [0]), encoded(owners), 0
    for text in texts:
        at += len(text)
        starts.append(at)
    native = RouteOwners(seed, b"".join(texts), starts, numbers, encoded(endpoints))
    return CompiledOwners(owners, native, endpoints)


def moved(before: Mapping[str, int], now: Mapping[str, int]) -> "array[int]":
    """By number of an endpoint before: its number now."""
    return array("I", (now.get(name, NO_TARGET) for name in before))


def updated(table: Table, update: Table) -> Table:
    """A table with an update: its entries come behind all others, so they win."""
    shift = len(table.groups)
    targets = array("I", (one if one == NOWHERE else one + shift for one in update.targets))
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
    """The same table without what other entries have replaced, if that is most of it; ``keys`` it has."""
    if len(table) < max(LEAST_ROWS, SLACK * keys):
        return table
    return _rows(table, in_force(table))


def _rows(table: Table, rows: list[int]) -> Table:
    """These rows alone."""
    places: dict[int, int] = {}
    targets = array("I")
    for row in rows:
        target = table.targets[row]
        targets.append(NOWHERE if target == NOWHERE else places.setdefault(target, len(places)))
    return Table(
        table.table_id,
        array("i", (table.types[row] for row in rows)),
        array("i", (table.subscriptions[row] for row in rows)),
        targets,
        array("I", (table.lines[row] for row in rows)),
        table.groups.chosen(places),
        {at: table.senders[row] for at, row in enumerate(rows) if row in table.senders},
    )

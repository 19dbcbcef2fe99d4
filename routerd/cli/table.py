"""`routerd table`: checks, shows and compares route tables in files, and queries those of a router."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from core.rmr.tables import decoding
from core.rmr.tables.lookup import Question, fate
from core.rmr.tables.parser import Parser, Result
from core.rmr.tables.table import MeidMap, Table
from core.rmr.tables.warning import BadTableError, TableWarning
from routerd.cli import printed, printed_table
from routerd.cli.cli_options import AS_JSON, examples
from routerd.cli.live_table import ask, push, who
from routerd.cli.program import CommandGroup
from routerd.cli.table_changes import owner_changes, table_changes
from routerd.cli.table_options import COMPAT, FILE, pieces, question
from shm.contract.numbers import counted
from shm.contract.text import printable


class Read:
    """The content of a file: its last good table, and the owners of managed entities after all its maps."""

    def __init__(self, path: Path, compatible: bool) -> None:
        self.path = path
        self.table: Table | None = None
        self.owners: dict[str, str] = {}
        self.results: list[tuple[Result, list[TableWarning], int]] = []
        parser = Parser(compatible)
        for result in self._parse(parser):
            self.results.append((result, parser.warnings, parser.more_warnings))
            if isinstance(result, Table):
                self.table = result
            elif isinstance(result, MeidMap):
                self.owners.update(result.owners)
                for meid in result.deleted:
                    self.owners.pop(meid, None)
        self.outside = parser.outside

    def _parse(self, parser: Parser) -> Iterator[Result]:
        for piece in pieces(self.path):
            yield from parser.feed(piece)
        yield from parser.finish()

    @property
    def bad(self) -> bool:
        """Whether a part of the file cannot be used, or it holds nothing."""
        return any(isinstance(result, BadTableError) for result, _, _ in self.results) or not self.results

    def used(self) -> Table:
        """Return the table. Raises ClickException, which says why there is none."""
        for result, _, _ in self.results:
            if isinstance(result, BadTableError):
                raise click.ClickException(f"{self.path}: {result.reason}; `routerd table check` says more")
        if self.table is None:
            raise click.ClickException(f"{self.path}: there is no route table; it begins with newrt|start")
        return self.table


@click.group(cls=CommandGroup)
def table() -> None:
    """Route tables in files and of a running router."""


for live in (push, who, ask):
    table.add_command(live)


@table.command(short_help="Check the tables in a file.", epilog=examples("routerd table check table.rt"))
@click.argument("file", type=FILE)
@COMPAT
@AS_JSON
def check(file: Path, compat: bool, as_json: bool) -> None:
    """Report every mistake in the tables and maps of FILE, each with its line and the reason.

    `-` as FILE is standard input, here and in the other commands about tables.
    """
    read = Read(file, compat)
    if as_json:
        found = [one for _, warnings, _ in read.results for one in warnings]
        lines = [{"line": one.line, "reason": one.reason, "text": one.shown} for one in (*found, *read.outside)]
        parts = [{"usable": not isinstance(one, BadTableError), "summary": _summary(one)} for one, _, _ in read.results]
        printed.print_json({"file": str(file), "parts": parts, "warnings": lines})
    else:
        _report(file, read)
    sys.exit(1 if read.bad or (read.outside and not compat) else 0)


def _report(file: Path, read: Read) -> None:
    for result, warnings, more in read.results:
        _tell(file, warnings, more)
        click.echo(printable(f"{file}: {_summary(result)}"), err=isinstance(result, BadTableError))
    _tell(file, read.outside, 0)
    if not read.results:
        click.echo(f"{file}: there is no table and no map; a table begins with newrt|start", err=True)


def _tell(file: Path, warnings: list[TableWarning], more: int) -> None:
    for one in warnings:
        click.echo(f"{file}:{one.line}: {one.reason}: {one.shown!r}", err=True)
    if more:
        click.echo(f"{file}: and {more} more of that kind", err=True)


def _summary(result: Result) -> str:
    if isinstance(result, BadTableError):
        return f"table {result.table_id or '<id-missing>'} cannot be used: {result.reason}"
    name = result.table_id or "<id-missing>"
    if isinstance(result, MeidMap):
        return f"map {name}: ok ({len(result.owners)} owned, {len(result.deleted)} deleted)"
    kind = "table" if result.complete else "update"
    endpoints = {one for groups in result.groups for group in groups.members for one in group}
    types = len(set(result.types))
    counts = (counted(len(result), "entry"), counted(types, "message type"), counted(len(endpoints), "endpoint"))
    return f"{kind} {name}: ok ({', '.join(counts)})"


@table.command(short_help="Show the table in a file.", epilog=examples("routerd table show table.rt"))
@click.argument("file", type=FILE)
@COMPAT
@AS_JSON
def show(file: Path, compat: bool, as_json: bool) -> None:
    """Show the entries of the table in FILE and the owners of managed entities."""
    read = Read(file, compat)
    used = read.used()
    if as_json:
        rows = [entry._asdict() | {"groups": str(entry.groups)} for entry in used.rows()]
        meids = {printable(meid, decoding.LONGEST_SHOWN): owner for meid, owner in read.owners.items()}
        printed.print_json({"table": used.table_id, "entries": rows, "meids": meids})
        return
    title = f"table {used.table_id or '<id-missing>'}"
    shown = printed_table.table("mt", "sid", "senders", "groups", title=title, numbers=("mt", "sid"))
    for entry in used.rows():
        senders = ",".join(entry.senders) or "all"
        groups = str(entry.groups) or "deleted"
        printed_table.add_row(shown, str(entry.message_type), str(entry.subscription), senders, groups)
    Console().print(shown)
    if read.owners:
        owners = len(set(read.owners.values()))
        click.echo(f"{counted(len(read.owners), 'managed entity')} of {counted(owners, 'owner')}")


@table.command(short_help="Compare the tables in two files.", epilog=examples("routerd table diff old.rt new.rt"))
@click.argument("old", type=FILE)
@click.argument("new", type=FILE)
@COMPAT
@AS_JSON
def diff(old: Path, new: Path, compat: bool, as_json: bool) -> None:
    """Show what the file NEW changes against the file OLD. Exit status 1: they differ."""
    before, after = Read(old, compat), Read(new, compat)
    changes = [*table_changes(before.used(), after.used()), *owner_changes(before.owners, after.owners)]
    if as_json:
        printed.print_json([str(change) for change in changes])
    else:
        for change in changes:
            click.echo(str(change))
    sys.exit(1 if changes else 0)


@table.command(
    "explain",
    short_help="Show where the table in a file sends a message.",
    epilog=examples(
        "routerd table explain table.rt --mt 1000 --sid 10", "routerd table explain table.rt --mt 12 --meid e1"
    ),
)
@click.argument("file", type=FILE)
@question
@COMPAT
@AS_JSON
def explain_(file: Path, compat: bool, as_json: bool, **message: Any) -> None:
    """Show where the table in FILE sends a message, and why. Exit status 1: it sends the message nowhere."""
    read = Read(file, compat)
    found = fate(read.used(), read.owners, Question(**message))
    printed.print_steps(found.steps, bool(found.groups), as_json)
    sys.exit(0 if found.groups else 1)

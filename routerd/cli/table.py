"""`routerd table`: checks, shows and compares route tables in files, and queries those of a router."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table as Shown

from core.rmr.tables import border
from core.rmr.tables.changes import owner_changes, table_changes
from core.rmr.tables.lookup import Question, fate
from core.rmr.tables.parser import Parser, Result
from core.rmr.tables.table import ANY_SUBSCRIPTION, MeidMap, Table
from core.rmr.tables.warning import BadTableError, TableWarning
from routerd.cli.cli_options import examples
from routerd.cli.live_table import ask, push, who
from shm.contract.text import printable

FILE = click.argument("file", type=click.Path(path_type=Path, readable=False, allow_dash=True))
PIECE = 1 << 20


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
        try:
            with click.open_file(str(self.path), encoding="utf-8", errors=border.LOSSLESS) as file:
                while piece := file.read(PIECE):
                    yield from parser.feed(piece)
        except OSError as error:
            raise click.ClickException(f"{self.path} cannot be read: {error.strerror}") from error
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


@click.group()
def table() -> None:
    """Route tables: check, show, compare and explain them; push one to a router, and ask it about its own."""


@table.command(short_help="Say what is odd about a file.", epilog=examples("routerd table check table.rt"))
@FILE
@click.option("--compat", is_flag=True, help="Read as the RMR library does, and only warn.")
def check(file: Path, compat: bool) -> None:
    """Say all that is odd about the tables and maps in FILE, each with line and reason."""
    read = Read(file, compat)
    for result, warnings, more in read.results:
        _tell(file, warnings, more)
        click.echo(f"{file}: {_summary(result)}", err=isinstance(result, BadTableError))
    _tell(file, read.outside, 0)
    if not read.results:
        click.echo(f"{file}: there is no table and no map; a table begins with newrt|start", err=True)
    sys.exit(1 if read.bad or (read.outside and not compat) else 0)


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
    counts = (
        _count(len(result), "entry", "entries"),
        _count(types, "message type"),
        _count(len(endpoints), "endpoint"),
    )
    return f"{kind} {name}: ok ({', '.join(counts)})"


def _count(number: int, one: str, more: str = "") -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"


@table.command(short_help="Show the entries of a file.", epilog=examples("routerd table show table.rt"))
@FILE
@click.option("--compat", is_flag=True, help="Read as the RMR library does.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def show(file: Path, compat: bool, as_json: bool) -> None:
    """Show the entries of a table and the owners of managed entities."""
    read = Read(file, compat)
    used = read.used()
    if as_json:
        rows = [entry._asdict() | {"groups": str(entry.groups)} for entry in used.rows()]
        meids = {printable(meid, border.LONGEST_SHOWN): owner for meid, owner in read.owners.items()}
        click.echo(json.dumps({"table": used.table_id, "entries": rows, "meids": meids}, indent=2))
        return
    shown = Shown(title=f"table {used.table_id or '<id-missing>'}", box=box.SIMPLE, title_justify="left")
    for column in ("mt", "sid", "senders", "groups"):
        shown.add_column(column, justify="right" if column in ("mt", "sid") else "left", overflow="fold")
    for entry in used.rows():
        senders = ",".join(entry.senders) or "all"
        shown.add_row(str(entry.message_type), str(entry.subscription), senders, str(entry.groups) or "deleted")
    console = Console()
    console.print(shown)
    if read.owners:
        console.print(f"{len(read.owners)} managed entities of {len(set(read.owners.values()))} owners")


@table.command(short_help="Compare two files.", epilog=examples("routerd table diff old.rt new.rt"))
@click.argument("old", type=click.Path(path_type=Path, readable=False, allow_dash=True))
@click.argument("new", type=click.Path(path_type=Path, readable=False, allow_dash=True))
@click.option("--compat", is_flag=True, help="Read as the RMR library does.")
def diff(old: Path, new: Path, compat: bool) -> None:
    """Say what NEW changes against OLD; status 1 if there is anything."""
    before, after = Read(old, compat), Read(new, compat)
    found = False
    for change in table_changes(before.used(), after.used()):
        found = True
        click.echo(str(change))
    for change in owner_changes(before.owners, after.owners):
        found = True
        click.echo(str(change))
    sys.exit(1 if found else 0)


table.add_command(push)
table.add_command(who)
table.add_command(ask)


@table.command(
    "explain",
    short_help="Say where a message goes by a file.",
    epilog=examples(
        "routerd table explain table.rt --mt 1000 --sid 10", "routerd table explain table.rt --mt 12 --meid e1"
    ),
)
@FILE
@click.option("--mt", type=int, required=True, help="Message type.")
@click.option("--sid", type=int, default=ANY_SUBSCRIPTION, show_default=True, help="Subscription id.")
@click.option("--meid", default="", help="Managed entity.")
@click.option("--from", "sender", default="", metavar="HOST:PORT", help="The endpoint that sends it.")
@click.option("--compat", is_flag=True, help="Read as the RMR library does.")
def explain_(file: Path, mt: int, sid: int, meid: str, sender: str, compat: bool) -> None:
    """Say where a message goes by the table in FILE, and why; status 1 if nowhere."""
    read = Read(file, compat)
    found = fate(read.used(), read.owners, Question(mt, sid, meid, sender))
    for step in found.steps:
        click.echo(step)
    sys.exit(0 if found.groups else 1)

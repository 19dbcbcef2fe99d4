"""What commands print: tables and JSON."""

from collections.abc import Container, Iterable
from typing import Any

import click
import msgspec
from rich import box
from rich.table import Table
from rich.text import Text


def table(*columns: str, title: str | None = None, numbers: Container[str] = ()) -> Table:
    """Return a table without rows; columns in `numbers` are aligned to the right."""
    made = Table(title=title and Text(title), box=box.SIMPLE, title_justify="left")
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


def add_row(to: Table, *cells: str, style: str = "") -> None:
    """Add a row. A cell is shown letter for letter: rich would take the brackets of `[fe80::1]:4560` for markup."""
    to.add_row(*map(Text, cells), style=style)


def print_steps(steps: Iterable[str], goes_on: bool, as_json: bool) -> None:
    """Print why a route table sends a message where it does; `goes_on` says whether it sends it anywhere."""
    if as_json:
        print_json({"sent": goes_on, "steps": list(steps)})
    else:
        for step in steps:
            click.echo(step)


def print_json(value: Any) -> None:
    """Print a value as indented JSON; what JSON cannot hold becomes text."""
    click.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2))


def printable(text: str) -> str:
    """Return a text of a stranger's without characters that move a terminal's cursor: they become escapes."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
